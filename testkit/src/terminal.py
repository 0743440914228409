"""A terminal of its own for a program: `terminal.py LINES COLUMNS PROGRAM ARGUMENT...`

What the program prints goes to stdout. Each line of stdin is JSON: {"keys": TEXT} is typed, {"size": [LINES, COLUMNS]} is the new
size, {"signal": NUMBER} is sent to the program. When the program is over, stderr gets JSON: its exit code (minus the signal that ended
it), and whether the modes of the terminal are those from before. The standard library of Rust has no terminals.
"""
import fcntl
import json
import os
import select
import signal
import struct
import sys
import termios

lines, columns, program = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
master, slave = os.openpty()


def resize(lines, columns):
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))


resize(lines, columns)
before = termios.tcgetattr(slave)
child = os.fork()
if child == 0:
    os.setsid()
    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
    for stream in range(3):
        os.dup2(slave, stream)
    os.closerange(3, 64)
    os.execvp(program[0], program)

typed, status = b"", None
while status is None or select.select([master], [], [], 0)[0]:
    ready = select.select([master] + [0] * (status is None), [], [], 0.02)[0]
    if master in ready:
        os.write(1, os.read(master, 1 << 16))
    if 0 in ready:
        read = os.read(0, 1 << 16)
        if not read:
            # Whoever looks at this terminal is gone.
            os.kill(child, signal.SIGKILL)
        *commands, typed = (typed + read).split(b"\n")
        for command in map(json.loads, commands):
            if "keys" in command:
                os.write(master, command["keys"].encode())
            if "size" in command:
                resize(*command["size"])
                os.kill(child, signal.SIGWINCH)
            if "signal" in command:
                os.kill(child, command["signal"])
    if status is None:
        ended, waited = os.waitpid(child, os.WNOHANG)
        status = os.waitstatus_to_exitcode(waited) if ended else None
print(json.dumps({"code": status, "is_restored": termios.tcgetattr(slave) == before}), file=sys.stderr)

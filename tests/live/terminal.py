"""Types into a program in a terminal of its own: `terminal.py STEPS PROGRAM ARGUMENT...`

STEPS is JSON: a list of pairs of a text to wait for and a list of keys to press then. Exits 0 when all was pressed and the last text
was seen. The standard library of Rust has no terminals.
"""
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time

PATIENCE_SECONDS = 60
ESCAPES = re.compile(r"\x1b\[[0-9;?<>=]*[a-zA-Z]|\x1b\][^\x07]*\x07|\s")

steps, program = json.loads(sys.argv[1]), sys.argv[2:]
child, screen = pty.fork()
if child == 0:
    os.execvp(program[0], program)
fcntl.ioctl(screen, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
seen = ""


def read_for(seconds):
    """Adds what is printed, without blanks: they may be movements of the cursor."""
    global seen
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if select.select([screen], [], [], 0.1)[0]:
            seen += ESCAPES.sub("", os.read(screen, 1 << 16).decode("utf-8", "replace"))


try:
    for text, keys in steps:
        end = time.monotonic() + PATIENCE_SECONDS
        while text.replace(" ", "") not in seen:
            if time.monotonic() > end:
                sys.exit(f"did not see {text!r} in: {seen[-2000:]}")
            read_for(0.2)
        # What was printed may be drawn once more before keys are read.
        read_for(1)
        seen = ""
        for key in keys:
            os.write(screen, key.encode())
            read_for(0.4)
finally:
    os.kill(child, signal.SIGKILL)

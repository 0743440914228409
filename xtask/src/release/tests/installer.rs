use super::*;

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::process::{Command, Output};

/// Programs that the installer uses, besides those that fetch.
const TOOLS: [&str; 15] = [
    "cp",
    "cat",
    "chmod",
    "dirname",
    "gzip",
    "mkdir",
    "mktemp",
    "mv",
    "perl",
    "rm",
    "rmdir",
    "sha256sum",
    "shasum",
    "tar",
    "uname",
];

/// An empty home, and a server on loopback with a release.
struct Machine {
    release: Release,
    root: TempDir,
    address: String,
}

impl Machine {
    fn new() -> Self {
        let release = Release::finished(&TARGETS, None);
        let root = tempfile::Builder::new().prefix("a machine ").tempdir().unwrap();
        for name in ["home of one", "tmp of one", "tools"] {
            fs::create_dir(root.path().join(name)).unwrap();
        }
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let folder = release.path().to_owned();
        std::thread::spawn(move || listener.incoming().for_each(|stream| serve(stream.unwrap(), &folder)));
        Self { release, root, address }
    }

    fn home(&self) -> PathBuf {
        self.root.path().join("home of one")
    }

    fn program(&self) -> PathBuf {
        self.home().join(".local/bin/ctxbridge")
    }

    /// Puts a script on the PATH, before all else.
    fn add_tool(&self, name: &str, script: &str) {
        let path = self.root.path().join("tools").join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Links programs of this machine, for a PATH that has no others.
    fn link_tools(&self, names: &[&str]) {
        for name in names {
            if let Some(found) = find(name) {
                symlink(found, self.root.path().join("tools").join(name)).unwrap();
            }
        }
    }

    fn installer(&self, shell: &str) -> Command {
        let mut words = shell.split(' ');
        let mut command = Command::new(find(words.next().unwrap()).unwrap());
        command.args(words).arg(self.release.path().join("install.sh")).env_clear();
        command.env("HOME", self.home()).env("TMPDIR", self.root.path().join("tmp of one"));
        command.env("CTXBRIDGE_BASE_URL", &self.address);
        let system = std::env::var_os("PATH").unwrap();
        let folders = std::iter::once(self.root.path().join("tools")).chain(std::env::split_paths(&system));
        command.env("PATH", std::env::join_paths(folders).unwrap());
        command
    }

    /// Runs the installer, which has to fail, say so in these words, and leave nothing.
    fn refused(&self, mut installer: Command, words: &[&str]) {
        let output = installer.output().unwrap();
        let said = text(&output.stderr);
        assert!(!output.status.success());
        assert!(words.iter().all(|word| said.contains(word)), "{said}");
        assert_eq!(files_below(&self.home()), [] as [PathBuf; 0]);
        self.assert_tidy();
    }

    fn assert_tidy(&self) {
        assert_eq!(files_below(&self.root.path().join("tmp of one")), [] as [PathBuf; 0]);
    }
}

fn serve(mut stream: TcpStream, folder: &Path) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
    let name = lines.next().and_then(|line| Some(line.split(' ').nth(1)?.strip_prefix('/')?.to_owned()));
    lines.find(String::is_empty);
    let (status, body) = match fs::read(folder.join(name.unwrap_or_default())) {
        Ok(body) => ("200 OK", body),
        Err(_) => ("404 Not Found", Vec::new()),
    };
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    stream.write_all(&[head.as_bytes(), &body].concat()).ok();
}

fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap();
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|path| path.is_file())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn done(output: Output) -> String {
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn it_installs_runs_and_is_replaced_in_any_shell() {
    for shell in ["sh", "dash", "bash", "zsh", "mksh", "busybox sh"] {
        if find(shell.split(' ').next().unwrap()).is_none() {
            continue;
        }
        let machine = Machine::new();
        let folder = machine.home().join(".local/bin").display().to_string();
        let said = done(machine.installer(shell).output().unwrap());
        assert!(said.contains(&format!("Installed ctxbridge {VERSION} as {folder}/ctxbridge")), "{shell}: {said}");
        assert!(
            said.contains(&format!("export PATH=\"{folder}:$PATH\""))
                && said.ends_with(&format!("Next: \"{folder}/ctxbridge\" setup\n")),
            "{said}"
        );
        assert_eq!(done(Command::new(machine.program()).args(["say", "a b"]).output().unwrap()), "[a b]");

        fs::write(machine.program(), "an old one").unwrap();
        let with_slash = format!("{}/", machine.address);
        done(machine.installer(shell).env("CTXBRIDGE_BASE_URL", with_slash).output().unwrap());
        assert_eq!(done(Command::new(machine.program()).arg("--version").output().unwrap()), format!("ctxbridge {VERSION}\n"));
        assert_eq!(files_below(&machine.home().join(".local/bin")), [machine.program()]);
        assert_eq!(fs::metadata(machine.program()).unwrap().permissions().mode() & 0o777, 0o755);
        machine.assert_tidy();
    }
}

#[test]
fn another_archive_is_refused() {
    let machine = Machine::new();
    let archive = machine.release.path().join(host().archive());
    let other =
        machine.release.path().join(TARGETS.iter().find(|target| *target != host() && !target.is_windows()).unwrap().archive());
    fs::copy(other, archive).unwrap();
    machine.refused(machine.installer("sh"), &["is not what was released", &host().archive()]);
}

#[test]
fn a_cut_archive_is_refused_and_the_old_program_stays() {
    let machine = Machine::new();
    let archive = machine.release.path().join(host().archive());
    let bytes = fs::read(&archive).unwrap();
    fs::write(&archive, &bytes[..bytes.len() - 10]).unwrap();
    machine.refused(machine.installer("sh"), &["is not what was released"]);
    fs::create_dir_all(machine.program().parent().unwrap()).unwrap();
    fs::write(machine.program(), "an old one").unwrap();
    assert!(!machine.installer("sh").output().unwrap().status.success());
    assert_eq!(fs::read_to_string(machine.program()).unwrap(), "an old one");
}

#[test]
fn a_release_that_is_not_there_is_said() {
    let machine = Machine::new();
    fs::remove_file(machine.release.path().join(host().archive())).unwrap();
    machine.refused(machine.installer("sh"), &["cannot fetch", &host().archive()]);
}

#[test]
fn a_program_that_does_not_run_here_replaces_nothing() {
    let machine = Machine::new();
    let broken = Release::packed(&[]);
    let binary = broken.path().join("binary");
    fs::write(&binary, "#!/bin/sh\nexit 1\n").unwrap();
    pack(host(), &binary, machine.release.path()).unwrap();
    finish(&Archives::read(machine.release.path(), false).unwrap(), None).unwrap();
    machine.refused(machine.installer("sh"), &["the program does not run here"]);
}

#[test]
fn an_unknown_system_is_told_which_there_are() {
    for (system, machine_name, words) in [
        ("SunOS", "i86pc", "there is no ctxbridge for SunOS"),
        ("Linux", "riscv64", "there is no ctxbridge for Linux on riscv64"),
    ] {
        let machine = Machine::new();
        machine.add_tool("uname", &format!("case $1 in -s) echo {system} ;; -m) echo {machine_name} ;; esac"));
        machine.refused(machine.installer("sh"), &[words, TARGETS[0].triple, TARGETS[5].triple]);
    }
    let machine = Machine::new();
    machine.add_tool("uname", "echo MINGW64_NT-10.0-22631");
    machine.refused(machine.installer("sh"), &["this is Windows", "install.ps1"]);
}

#[test]
fn each_system_gets_its_own_archive() {
    for (system, machine_name, translated, triple) in [
        ("Linux", "x86_64", "", "x86_64-unknown-linux-musl"),
        ("Linux", "aarch64", "", "aarch64-unknown-linux-musl"),
        ("Darwin", "arm64", "0", "aarch64-apple-darwin"),
        ("Darwin", "x86_64", "0", "x86_64-apple-darwin"),
        ("Darwin", "x86_64", "1", "aarch64-apple-darwin"),
    ] {
        let machine = Machine::new();
        machine.add_tool("uname", &format!("case $1 in -s) echo {system} ;; -m) echo {machine_name} ;; esac"));
        machine.add_tool("sysctl", &format!("echo {translated}"));
        done(machine.installer("sh").output().unwrap());
        assert!(fs::read_to_string(machine.program()).unwrap().contains(triple), "{system} {machine_name} {translated}");
    }
}

#[test]
fn without_curl_it_takes_wget_and_without_both_it_says_so() {
    let machine = Machine::new();
    machine.link_tools(&TOOLS);
    let tools = machine.root.path().join("tools");
    let mut installer = machine.installer("sh");
    machine.refused(
        {
            installer.env("PATH", &tools);
            installer
        },
        &["neither curl nor wget"],
    );

    if find("wget").is_some() {
        machine.link_tools(&["wget"]);
    } else {
        machine.add_tool(
            "wget",
            &format!("[ \"$1 $2\" = '-q -O' ] && exec '{}' -fsS -o \"$3\" \"$4\"", find("curl").unwrap().display()),
        );
    }
    done(machine.installer("sh").env("PATH", &tools).output().unwrap());
    assert!(machine.program().is_file());
}

#[test]
fn without_a_tool_for_checksums_nothing_is_installed() {
    let machine = Machine::new();
    machine.link_tools(&TOOLS);
    machine.link_tools(&["curl"]);
    let tools = machine.root.path().join("tools");
    for name in ["sha256sum", "shasum"] {
        fs::remove_file(tools.join(name)).ok();
    }
    let mut installer = machine.installer("sh");
    installer.env("PATH", &tools);
    machine.refused(installer, &["neither sha256sum nor shasum"]);
    machine.link_tools(&["shasum"]);
    if find("shasum").is_some() {
        done(machine.installer("sh").env("PATH", &tools).output().unwrap());
    }
}

#[test]
fn a_folder_may_be_named_and_its_place_on_the_path_is_said() {
    let machine = Machine::new();
    let folder = machine.root.path().join("some where/bin");
    fs::create_dir_all(&folder).unwrap();
    let mut path = folder.clone().into_os_string();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap());
    let said = done(machine.installer("sh").env("CTXBRIDGE_INSTALL_DIR", &folder).env("PATH", &path).output().unwrap());
    assert!(!said.contains("PATH") && said.ends_with("Next: ctxbridge setup\n"), "{said}");
    assert!(folder.join("ctxbridge").is_file() && !machine.program().exists());

    // Another one that would run instead.
    machine.add_tool("ctxbridge", "");
    let mut earlier = machine.root.path().join("tools").into_os_string();
    earlier.push(":");
    earlier.push(&path);
    let said = done(machine.installer("sh").env("CTXBRIDGE_INSTALL_DIR", &folder).env("PATH", earlier).output().unwrap());
    assert!(said.contains("Another one comes first on your PATH"), "{said}");
    assert!(said.ends_with(&format!("Next: \"{}/ctxbridge\" setup\n", folder.display())), "{said}");
}

#[test]
fn without_a_home_a_folder_has_to_be_named() {
    let machine = Machine::new();
    let mut installer = machine.installer("sh");
    installer.env_remove("HOME");
    machine.refused(installer, &["CTXBRIDGE_INSTALL_DIR"]);
}

#[test]
fn a_script_that_was_cut_off_does_nothing() {
    let machine = Machine::new();
    let path = machine.release.path().join("install.sh");
    let script = fs::read_to_string(&path).unwrap();
    let (begin, _) = script.rsplit_once("\nmain ").unwrap();
    for at in [begin.len(), script.len() / 2, script.len() / 4] {
        fs::write(&path, &script[..at]).unwrap();
        machine.installer("sh").output().unwrap();
        assert_eq!(files_below(&machine.home()), [] as [PathBuf; 0]);
        machine.assert_tidy();
    }
}

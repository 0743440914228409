//! Running what was built for another system: by itself, under qemu, or under wine.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};

use crate::tools::runs;

/// Way to run programs of a target here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Emulator {
    /// This machine runs them.
    None,
    /// `qemu-user` for another processor.
    Qemu,
    /// Wine, for programs of Windows.
    Wine,
}

/// Runs programs, with all that the emulator wants.
pub struct Runner {
    emulator: Emulator,
    /// Folder for what it keeps.
    folder: PathBuf,
}

/// The emulators' programs, and the packages that bring them.
const QEMU: (&str, &str) = ("qemu-aarch64-static", "qemu-user-static");
const WINE: (&str, &str) = ("/usr/lib/wine/wine64", "wine64");

/// Wine 8 lacks a library that every program of Rust needs; this is all of it that they need.
const RANDOM_SOURCE: &str = "#include <windows.h>
BOOLEAN NTAPI SystemFunction036(PVOID, ULONG);
__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE p, SIZE_T n) { return SystemFunction036(p, (ULONG)n); }
";
const RANDOM_LIBRARY: &str = "bcryptprimitives.dll";

impl Runner {
    /// Prepares an emulator; what it keeps lies in `folder`.
    pub fn prepare(emulator: Emulator, folder: &Path, compiler: &str) -> Result<Self> {
        let runner = Self { emulator, folder: folder.to_owned() };
        if let Some((program, package)) = runner.program() {
            ensure!(
                runs(Command::new(program).arg("--version")),
                "there is no `{program}`; `apt-get install {package}` brings it"
            );
        }
        if emulator == Emulator::Wine {
            let (source, library) = (folder.join("random.c"), folder.join(RANDOM_LIBRARY));
            fs::write(&source, RANDOM_SOURCE)?;
            let made = Command::new(compiler).args(["-shared", "-o"]).arg(&library).arg(&source).arg("-ladvapi32").status()?;
            ensure!(made.success(), "{RANDOM_LIBRARY} cannot be made");
        }
        Ok(runner)
    }

    fn program(&self) -> Option<(&'static str, &'static str)> {
        match self.emulator {
            Emulator::None => None,
            Emulator::Qemu => Some(QEMU),
            Emulator::Wine => Some(WINE),
        }
    }

    /// `true` if its programs are those of Windows.
    pub fn has_windows(&self) -> bool {
        self.emulator == Emulator::Wine
    }

    /// The command that cargo runs test programs with; none where they run by themselves.
    pub fn for_cargo(&self) -> Option<&'static str> {
        self.program().map(|(program, _)| program)
    }

    /// The variables that it needs.
    pub fn environment(&self) -> Vec<(&'static str, OsString)> {
        match self.emulator {
            Emulator::Wine => vec![
                ("WINEPREFIX", self.folder.join("wine").into()),
                ("WINEDEBUG", "-all".into()),
                // Its own build of the library first, then ours.
                ("WINEPATH", self.path(&self.folder).into()),
                // What Windows has, the first since 2018, and it has not.
                ("CTXBRIDGE_TEST_WITHOUT", "posix-rename,atomic-append".into()),
            ],
            Emulator::Qemu => vec![("CTXBRIDGE_TEST_WITHOUT", "exec".into())],
            Emulator::None => Vec::new(),
        }
    }

    /// A command that runs a program.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = match self.program() {
            None => Command::new(program),
            Some((emulator, _)) => {
                let mut command = Command::new(emulator);
                command.arg(program);
                command
            }
        };
        command.envs(self.environment());
        command
    }

    /// A path as the program writes it.
    pub fn path(&self, path: &Path) -> String {
        match self.emulator {
            // Wine has all of this machine as a drive.
            Emulator::Wine => format!("Z:{}", path.display().to_string().replace('/', "\\")),
            Emulator::None | Emulator::Qemu => path.display().to_string(),
        }
    }

    /// The variables that make `home` the user's home.
    pub fn home(&self, home: &Path) -> Vec<(&'static str, String)> {
        let folder = |name: &str| self.path(&home.join(name));
        match self.emulator {
            // Wine sets USERPROFILE itself.
            Emulator::Wine => vec![
                ("CLAUDE_CONFIG_DIR", folder(".claude")),
                ("CTXBRIDGE_DATA_DIR", folder("data")),
                ("CTXBRIDGE_CACHE_DIR", folder("cache")),
                ("CTXBRIDGE_CONFIG_DIR", folder("config")),
            ],
            Emulator::None | Emulator::Qemu => vec![("HOME", self.path(home)), ("XDG_DATA_HOME", folder("data"))],
        }
    }
}

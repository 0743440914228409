//! Clients for the tests: the bundles of eras E4 and E5 in executables, and an installation of one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use ctxbridge::common::sqlite;
use ctxbridge::patch::catalog::Catalog;
use ctxbridge::patch::container::{Container, ContainerKind};
use ctxbridge::patch::inspect::{Inspection, TargetState};
use ctxbridge::patch::install::Target;
use ctxbridge::patch::patcher::{Applied, PatchError, Patcher, Reverted};
use rusqlite::{Connection, OpenFlags};
use serde_json::Value;
use tempfile::TempDir;

use crate::native::builder::{self, AARCH64, Bytecode, Elf, Graph, Macho, Module, Pe, Reading, X86_64, bun_of_elf};

/// The bundles with one module, and the chunk with the query loop of those that have several.
pub const WHOLE: [&str; 4] = ["e4a", "e4b", "e4c", "e4d"];
pub const LOOPS: [&str; 3] = ["chunk-b7q0n3xw", "chunk-x2f9c8ta", "chunk-h5w3k1ze"];

/// The chunks that come with each loop; the last one runs first, and imports the last of the loops.
const CHUNKS: [&str; 4] = ["chunk-8vy2m0kd", "chunk-c4ht61qz", "chunk-r91d0ec5", "cli"];

/// A text from `fixtures/cli-js`.
pub fn fixture(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/cli-js").join(format!("{name}.js"));
    fs::read_to_string(&path).unwrap_or_else(|cause| panic!("{}: {cause}", path.display()))
}

/// The version that a text says it is.
pub fn version(text: &str) -> String {
    text.lines().find_map(|line| line.strip_prefix("// Version: ")).unwrap().to_owned()
}

/// A client of era E4: all of it in one CommonJS module, and an add-on.
pub fn whole(name: &str) -> Graph {
    let code = Module::common_js("src/entrypoints/cli.js", &fixture(name)).with_bytecode(Bytecode::Own(vec![0xb7; 3000]));
    Graph::new(vec![code, Module::file("image.node", &[0, 1, 0xfe, 0xff, 0])])
}

/// A client of era E5: ES modules that share a region of bytecode, each from somewhere to its end.
pub fn chunks(loop_chunk: &str) -> Graph {
    let text = fixture(&format!("e5/{loop_chunk}"));
    let stated = version(&text);
    let mut texts = vec![(loop_chunk, text)];
    for chunk in CHUNKS {
        let text = fixture(&format!("e5/{chunk}")).replace(LOOPS[2], loop_chunk);
        texts.push((chunk, text.replace("// Version: 2.1.399", &format!("// Version: {stated}"))));
    }
    let module = |(index, (name, text)): (usize, &(&str, String))| Module {
        info: vec![0x30 + index as u8; 7],
        bytecode: Bytecode::Shared(index * 300),
        side: index as u8 & 1,
        ..Module::es(&format!("{name}.js"), text)
    };
    let mut graph = Graph::new(texts.iter().enumerate().map(module).collect());
    graph.modules.push(Module::file("tree.wasm", b"\0asm\x01\0\0\0"));
    graph.entry_point = 4;
    graph.shared = (0..2000).map(|at| (at % 253) as u8).collect();
    graph.argv = b"--smol".to_vec();
    graph.junk = (1..90).collect();
    graph.sorted = true;
    graph
}

/// Where the code of a client is in its graph.
pub const CODE: usize = 0;

/// Linux, arm64: an executable that cannot be run here, so that it is read back.
pub fn arm64(graph: &Graph) -> Vec<u8> {
    Elf::new(AARCH64).build(&graph.section())
}

/// Linux, x86-64, with `.bun` in a segment of its own.
pub fn x64(graph: &Graph) -> Vec<u8> {
    Elf::new(X86_64).alone().build(&graph.section())
}

/// The same graph in every kind of file.
pub fn everywhere(graph: &Graph) -> Vec<(ContainerKind, Vec<u8>)> {
    let section = graph.section();
    let mut files = Vec::new();
    for machine in [X86_64, AARCH64] {
        files.push((ContainerKind::BunElf, Elf::new(machine).build(&section)));
        files.push((ContainerKind::BunElf, Elf { page: 0x1_0000, ..Elf::new(machine).alone() }.build(&section)));
    }
    files.push((ContainerKind::BunMacho, Macho { arm64: true }.build(&section)));
    files.push((ContainerKind::BunMacho, Macho { arm64: false }.build(&section)));
    files.push((ContainerKind::BunPe, Pe::default().build(&section)));
    files.push((ContainerKind::BunPe, Pe { machine: 0xaa64 }.build(&section)));
    files
}

/// What is in an ELF file now, read without the library.
pub fn reading(file: &[u8]) -> Reading {
    Reading::of(&file[bun_of_elf(file)], 52)
}

pub fn open(file: &[u8]) -> Container {
    Container::open("claude", file.to_vec()).unwrap()
}

/// A client that is installed, with a data directory and a home of its own.
pub struct Installation {
    root: PathBuf,
    _folder: TempDir,
}

impl Installation {
    pub fn of(bytes: &[u8]) -> Self {
        let folder = tempfile::Builder::new().prefix("ctxbridge-native-").tempdir().unwrap();
        let installation = Self { root: ctxbridge::common::paths::real(folder.path()).unwrap(), _folder: folder };
        for name in ["versions", "home"] {
            fs::create_dir(installation.root.join(name)).unwrap();
        }
        installation.install(bytes);
        installation
    }

    /// Writes the client the way updaters do: a new file takes the name.
    pub fn install(&self, bytes: &[u8]) {
        let fresh = self.root.join("fresh");
        fs::write(&fresh, bytes).unwrap();
        #[cfg(unix)]
        fs::set_permissions(&fresh, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        fs::rename(fresh, self.path()).unwrap();
    }

    pub fn path(&self) -> PathBuf {
        self.root.join("versions").join("claude")
    }

    #[cfg(unix)]
    pub fn beside(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    pub fn data(&self) -> PathBuf {
        self.root.join("data")
    }

    pub fn bytes(&self) -> Vec<u8> {
        fs::read(self.path()).unwrap()
    }

    fn target(&self) -> Target {
        Target::at(&self.path()).unwrap()
    }

    fn with_patcher<T>(&self, work: impl FnOnce(&Patcher<'_>) -> T) -> T {
        work(&Patcher::new(&self.data(), Catalog::embedded().unwrap(), &|_| {}))
    }

    pub fn apply(&self) -> Applied {
        self.try_apply(false).unwrap_or_else(|error| panic!("{error}"))
    }

    pub fn try_apply(&self, smoke: bool) -> Result<Applied, PatchError> {
        self.with_patcher(|patcher| patcher.apply(&self.target(), &[], smoke))
    }

    pub fn verify(&self) -> Inspection {
        self.with_patcher(|patcher| patcher.verify(&self.target())).unwrap_or_else(|error| panic!("{error}"))
    }

    pub fn state(&self) -> TargetState {
        self.verify().state
    }

    /// The state as somebody sees it who has no journal.
    pub fn state_without_journal(&self) -> TargetState {
        let data = tempfile::tempdir().unwrap();
        let patcher = Patcher::new(data.path(), Catalog::embedded().unwrap(), &|_| {});
        patcher.verify(&self.target()).unwrap().state
    }

    pub fn revert(&self) -> Reverted {
        self.try_revert().unwrap_or_else(|error| panic!("{error}"))
    }

    pub fn try_revert(&self) -> Result<Reverted, PatchError> {
        self.with_patcher(|patcher| patcher.revert(&self.target(), false))
    }

    /// Reverts what another tool has changed since.
    pub fn force_revert(&self) -> Reverted {
        self.with_patcher(|patcher| patcher.revert(&self.target(), true)).unwrap_or_else(|error| panic!("{error}"))
    }

    pub fn journal(&self) -> Connection {
        sqlite::open_file(&self.data().join("state.db"), OpenFlags::default()).unwrap()
    }

    /// `ctxbridge patch …` on the client.
    pub fn command(&self, arguments: &[&str]) -> Command {
        self.command_on(&self.path(), arguments)
    }

    /// `ctxbridge patch …` on what leads to the client.
    pub fn command_on(&self, target: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ctxbridge"));
        command.arg("patch").args(arguments).arg(target).current_dir(self.root.join("home"));
        command.env("CTXBRIDGE_DATA_DIR", self.data()).env("HOME", self.root.join("home")).env("NO_COLOR", "1");
        command
    }

    /// The same, run: exit code, standard output, standard error.
    pub fn run(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        let output = self.command(arguments).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    }

    #[track_caller]
    pub fn json(&self, arguments: &[&str], code: i32) -> Value {
        let (found, stdout, stderr) = self.run(arguments);
        assert_eq!(found, Some(code), "{stdout}{stderr}");
        serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{error}: {stdout}"))
    }

    /// Files of ours beside the client.
    pub fn leftovers(&self) -> Vec<String> {
        let names = fs::read_dir(self.root.join("versions")).unwrap().map(|entry| entry.unwrap().file_name());
        names.map(|name| name.into_string().unwrap()).filter(|name| name != "claude").collect()
    }

    /// Panics unless nothing of ours lies beside the client and no intent is open.
    #[track_caller]
    pub fn assert_settled(&self) {
        assert_eq!(self.leftovers(), Vec::<String>::new());
        let open: i64 =
            self.journal().query_row("SELECT count(*) FROM intents WHERE finished_at IS NULL", [], |row| row.get(0)).unwrap();
        assert_eq!(open, 0);
    }
}

/// The name that a module of the builder has in full.
pub fn name_of(chunk: &str) -> String {
    builder::path(&format!("{chunk}.js"))
}

//! claude-flow's own hook writes an archive, into its JSON file and into a database, and all of that is read.
//!
//! Its database module is a native one that has to be compiled for a minute and a half; here its few calls go to SQLite as WebAssembly.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use ctxbridge::client::releases;
use ctxbridge_testkit::transcript::{Kind, MadeSession, Spec, generate};
use ctxbridge_testkit::{first_or_all, is_full_run};
use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};
use tempfile::TempDir;

const CTXBRIDGE: &str = env!("CARGO_BIN_EXE_ctxbridge");

/// Their release.
const VERSION: &str = "3.43.0";
/// SQLite for Node.js that needs no compiler.
const WASM: (&str, &str) = ("node-sqlite3-wasm", "0.8.60");

/// What their hook calls of `better-sqlite3`.
const SHIM: &str = r"
const { Database: Wasm } = require(process.env.SQLITE_WASM);
const number = (value) => (typeof value === 'bigint' ? Number(value) : value);
const plain = (row) => row && Object.fromEntries(Object.entries(row).map(([name, value]) => [name, number(value)]));
module.exports = class Database {
  constructor(path) { this.db = new Wasm(path); }
  pragma(text) { return text.startsWith('journal_mode') ? undefined : this.db.all('PRAGMA ' + text); }
  exec(sql) { this.db.exec(sql); }
  prepare(sql) {
    const db = this.db;
    const bind = (values) => values.map((value) => (value === undefined ? null : value));
    return {
      run: (...values) => db.run(sql, bind(values)),
      all: (...values) => db.all(sql, bind(values)).map(plain),
      get: (...values) => plain(db.get(sql, bind(values))) ?? undefined,
    };
  }
  transaction(work) {
    return (...values) => {
      this.db.exec('BEGIN');
      try { work(...values); this.db.exec('COMMIT'); } catch (error) { this.db.exec('ROLLBACK'); throw error; }
    };
  }
  close() { this.db.close(); }
};
";

/// A project with their hook, and sessions of a client that have ended.
struct Stage {
    folder: TempDir,
    sessions: Vec<MadeSession>,
}

impl Stage {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let made = |kind, seed| generate(&Spec::new(kind, 150, seed), &folder.path().join("transcripts")).unwrap().sessions;
        // Each of its hooks is a start of Node.js, most of which load SQLite as WebAssembly: there is one session by day.
        let kinds = [(Kind::Compacted, 13), (Kind::Chat, 11), (Kind::Tools, 12)];
        let sessions = first_or_all(&kinds).iter().flat_map(|(kind, seed)| made(*kind, *seed)).collect();
        let stage = Self { folder, sessions };
        fs::create_dir_all(stage.hook().parent().unwrap()).unwrap();
        fs::create_dir_all(stage.path("home")).unwrap();
        let package = releases::fetch("claude-flow", VERSION).unwrap_or_else(|error| panic!("{error}"));
        fs::copy(package.join(".claude/helpers/context-persistence-hook.mjs"), stage.hook()).unwrap();
        stage
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn hook(&self) -> PathBuf {
        self.path("project/.claude/helpers/context-persistence-hook.mjs")
    }

    fn with_database(self) -> Self {
        let module = self.path("project/node_modules/better-sqlite3");
        fs::create_dir_all(&module).unwrap();
        fs::write(module.join("package.json"), r#"{ "name": "better-sqlite3", "main": "index.js" }"#).unwrap();
        fs::write(module.join("index.js"), SHIM).unwrap();
        self
    }

    /// What the client would do: each hook of each session.
    fn run_hooks(&self) {
        let wasm = releases::fetch(WASM.0, WASM.1).unwrap_or_else(|error| panic!("{error}"));
        for session in &self.sessions {
            let input =
                json!({ "session_id": session.id, "transcript_path": session.path, "trigger": "auto", "source": "compact" });
            for event in ["user-prompt-submit", "pre-compact", "session-start"] {
                let mut node = Command::new("node");
                node.arg(self.hook()).arg(event).current_dir(self.path("project")).env("HOME", self.path("home"));
                node.env("SQLITE_WASM", &wasm).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
                let mut node = node.spawn().unwrap();
                node.stdin.take().unwrap().write_all(input.to_string().as_bytes()).unwrap();
                let ended = node.wait_with_output().unwrap();
                assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
            }
        }
    }

    fn ctxbridge(&self, data: &str, arguments: &[&str]) -> Value {
        let mut command = Command::new(CTXBRIDGE);
        command.args(arguments).arg("--json").current_dir(self.path("home")).env("HOME", self.path("home"));
        command.env("CTXBRIDGE_DATA_DIR", self.path(data)).env("CTXBRIDGE_ARCHIVE_AUTO_OPTIMIZE", "false");
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Imports what was written, without transcripts and with them.
    fn import(&self, rows: u64) -> Value {
        let project = self.path("project");
        let import =
            |data: &str| self.ctxbridge(data, &["archive", "import", "--from", "claude-flow", project.to_str().unwrap()]);
        let alone = import("alone");
        assert_eq!((alone["new"].as_u64(), &alone["failed"]), (Some(rows), &json!([])), "{alone}");
        assert_eq!(import("alone")["unchanged"], rows);
        self.ctxbridge("both", &["archive", "import", self.path("transcripts").to_str().unwrap()]);
        let both = import("both");
        assert_eq!((both["matched"].as_u64(), both["new"].as_u64()), (Some(rows), Some(0)), "each is known by its hash: {both}");
        alone
    }
}

/// There are more rows than this.
fn few() -> usize {
    if is_full_run() { 50 } else { 20 }
}

#[test]
fn its_json_file_is_read() {
    let stage = Stage::new();
    stage.run_hooks();
    let path = stage.path("project/.claude-flow/data/transcript-archive.json");
    let written: Vec<Value> = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    assert!(written.len() > few(), "{}", written.len());
    stage.import(written.len() as u64);
}

#[test]
fn its_database_is_read() {
    let stage = Stage::new().with_database();
    stage.run_hooks();
    let path = stage.path("project/.claude-flow/data/transcript-archive.db");
    let number = |path: &Path, sql: &str| -> u64 {
        let db = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
        db.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap().cast_unsigned()
    };
    let count = |condition: &str| number(&path, &format!("SELECT count(*) FROM transcript_entries WHERE {condition}"));
    let (rows, vectors, restored) = (count("1"), count("embedding IS NOT NULL"), count("access_count > 0"));
    assert!(rows > few() as u64 && vectors > 0 && restored > 0, "{rows} {vectors} {restored}");
    let told = stage.import(rows);
    assert_eq!(told["embeddings"], vectors);
    // Without its encoder, a hash makes them: of 384 dimensions by now.
    let ours = stage.path("alone/archive.db");
    assert_eq!(number(&ours, "SELECT count(*) FROM imported WHERE model = 'hash-384' AND dimensions = 384"), vectors);
    assert!(number(&ours, "SELECT count(*) FROM entries WHERE access_count > 0") > 0);
}

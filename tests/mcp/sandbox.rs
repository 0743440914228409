//! A home with an archive, and a server that runs on it.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use ctxbridge::archive::ingest::ingest;
use ctxbridge::archive::store::Transcript;
use ctxbridge::archive::store::sqlite::{LockPolicy, SqliteStore};
use ctxbridge_testkit::transcript::{Kind, Session, Spec, generate};
use serde_json::{Value, json};
use tempfile::TempDir;

/// How long a test waits for something that has to happen. No assertion hangs on how long it took.
const PATIENCE: Duration = Duration::from_secs(60);

/// The folder that the client works in, in transcripts made here.
pub const FOLDER: &str = "/home/dev/src/birds";

pub struct World {
    folder: TempDir,
}

impl World {
    pub fn new() -> Self {
        let world = Self { folder: tempfile::tempdir().unwrap() };
        fs::create_dir_all(world.transcripts()).unwrap();
        world
    }

    pub fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn transcripts(&self) -> PathBuf {
        self.home().join(".claude/projects/-home-dev-src-birds")
    }

    pub fn store(&self) -> SqliteStore {
        fs::create_dir_all(self.data()).unwrap();
        SqliteStore::open(&self.data(), LockPolicy::Background).unwrap()
    }

    pub fn archive(&self, path: &Path) {
        ingest(&mut self.store(), &Transcript::at(path), path).unwrap();
    }

    /// Sessions of the generator, archived.
    pub fn generated(&self, kind: Kind, messages: u64, seed: u64) -> Vec<Session> {
        let sessions = generate(&Spec::new(kind, messages, seed), &self.transcripts()).unwrap().sessions;
        sessions.iter().for_each(|session| self.archive(&session.path));
        sessions
    }

    /// A session of these prompts and answers, a minute each, archived. The turns' handles are `ctx:<number>00000<index>`.
    pub fn session(&self, number: u32, turns: &[(&str, &str)]) -> String {
        let id = format!("{number}a000000-0000-4000-8000-000000000000");
        let mut lines = String::new();
        for (index, (prompt, answer)) in turns.iter().enumerate() {
            let common =
                json!({ "sessionId": id, "cwd": FOLDER, "version": "2.1.330", "isSidechain": false, "userType": "external" });
            let at = |second: u32| format!("2026-05-0{number}T10:{index:02}:{second:02}.000Z");
            let mut user = json!({
                "type": "user", "uuid": uuid(number, index, 0), "timestamp": at(0),
                "message": { "role": "user", "content": prompt },
            });
            let mut assistant = json!({
                "type": "assistant", "uuid": uuid(number, index, 1), "timestamp": at(5),
                "message": {
                    "id": format!("msg_{number}_{index}"), "type": "message", "role": "assistant", "model": "claude-sonnet-4-5",
                    "content": [{ "type": "text", "text": answer }], "stop_reason": "end_turn",
                    "usage": { "input_tokens": 1000, "output_tokens": 10 },
                },
            });
            for line in [&mut user, &mut assistant] {
                line.as_object_mut().unwrap().extend(common.as_object().unwrap().clone());
                lines += &format!("{line}\n");
            }
        }
        let path = self.transcripts().join(format!("{id}.jsonl"));
        fs::write(&path, lines).unwrap();
        self.archive(&path);
        id
    }

    /// `ctxbridge …` with nothing of this machine's around it.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ctxbridge"));
        command.args(arguments).current_dir(self.home()).env_clear().envs(self.environment());
        command
    }

    pub fn environment(&self) -> Vec<(String, String)> {
        let text = |path: PathBuf| path.to_string_lossy().into_owned();
        vec![
            ("HOME".to_owned(), text(self.home())),
            ("CTXBRIDGE_DATA_DIR".to_owned(), text(self.data())),
            ("TZ".to_owned(), "UTC".to_owned()),
        ]
    }

    /// A server that has said hello.
    pub fn server(&self) -> Server {
        let mut server = self.silent_server();
        let client = json!({ "name": "test", "version": "1" });
        let hello = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client });
        let hello = server.request("initialize", hello)["result"].clone();
        assert_eq!(hello["serverInfo"]["name"], "ctxbridge", "{hello}");
        server.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        server
    }

    pub fn silent_server(&self) -> Server {
        let mut command = self.command(&["mcp"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Server { stdin: child.stdin.take(), child, lines, asked: 0 }
    }
}

fn uuid(number: u32, index: usize, line: u32) -> String {
    format!("{number}00000{index:02x}-0000-4000-8000-00000000000{line}")
}

/// The handle of a turn of [`World::session`].
pub fn handle(number: u32, index: usize) -> String {
    format!("ctx:{number}00000{index:02x}")
}

pub struct Server {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    asked: u64,
}

impl Server {
    pub fn send(&mut self, message: &Value) {
        self.write(&format!("{message}\n"));
    }

    pub fn write(&mut self, text: &str) {
        self.stdin.as_mut().unwrap().write_all(text.as_bytes()).unwrap();
    }

    /// The next message; nothing but messages may come.
    #[track_caller]
    pub fn next(&mut self) -> Option<Value> {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => Some(serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))),
            Err(mpsc::RecvTimeoutError::Disconnected) => None,
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("nothing came"),
        }
    }

    /// The whole answer, with `result` or `error`.
    #[track_caller]
    pub fn request(&mut self, method: &str, params: Value) -> Value {
        self.asked += 1;
        let id = self.asked;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        let answer = self.next().expect("an answer");
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    /// The result of a tool that has one.
    #[track_caller]
    pub fn call(&mut self, tool: &str, arguments: Value) -> Answered {
        let answer = self.request("tools/call", json!({ "name": tool, "arguments": arguments }));
        let result = &answer["result"];
        assert!(result.is_object(), "{answer}");
        Answered {
            text: result["content"][0]["text"].as_str().unwrap().to_owned(),
            value: result["structuredContent"].clone(),
            is_error: result["isError"] == true,
        }
    }

    /// The same of one that succeeds.
    #[track_caller]
    pub fn answer(&mut self, tool: &str, arguments: Value) -> Answered {
        let answered = self.call(tool, arguments);
        assert!(!answered.is_error, "{}", answered.text);
        answered
    }

    /// The argument that is named, and the message.
    #[track_caller]
    pub fn refusal(&mut self, tool: &str, arguments: Value) -> (String, String) {
        let answer = self.request("tools/call", json!({ "name": tool, "arguments": arguments }));
        let error = &answer["error"];
        assert_eq!(error["code"], -32602, "{answer}");
        (error["data"]["argument"].as_str().unwrap().to_owned(), error["message"].as_str().unwrap().to_owned())
    }

    pub fn process(&self) -> u32 {
        self.child.id()
    }

    pub fn close(&mut self) {
        self.stdin = None;
    }

    /// How it ended.
    #[track_caller]
    pub fn end(&mut self) -> ExitStatus {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("it does not end");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

#[derive(Debug)]
pub struct Answered {
    pub text: String,
    pub value: Value,
    pub is_error: bool,
}

impl Answered {
    pub fn next_cursor(&self) -> Option<&str> {
        self.value["next_cursor"].as_str()
    }

    /// One field of all items.
    pub fn all(&self, list: &str, field: &str) -> Vec<String> {
        let items = self.value[list].as_array().unwrap_or_else(|| panic!("{list} in {}", self.value));
        items.iter().map(|item| item[field].as_str().unwrap_or_default().to_owned()).collect()
    }
}

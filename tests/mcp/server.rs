//! A server on a sandbox's archive, and messages to and from it.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};

use ctxbridge_testkit::sandbox::{PATIENCE, Sandbox, wait_until};
use serde_json::{Value, json};

pub struct Server {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    asked: u64,
}

impl Server {
    /// One that has said hello.
    pub fn start(sandbox: &Sandbox) -> Self {
        let mut server = Self::silent(sandbox);
        let client = json!({ "name": "test", "version": "1" });
        let hello = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client });
        let hello = server.request("initialize", hello)["result"].clone();
        assert_eq!(hello["serverInfo"]["name"], "ctxbridge", "{hello}");
        server.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        server
    }

    /// One that nothing was said to.
    pub fn silent(sandbox: &Sandbox) -> Self {
        let mut command = sandbox.command(&["mcp"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Self { stdin: child.stdin.take(), child, lines, asked: 0 }
    }

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

    #[cfg(unix)]
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    pub fn close(&mut self) {
        self.stdin = None;
    }

    /// Waits for its end.
    #[track_caller]
    pub fn end(&mut self) -> ExitStatus {
        wait_until("it ends", || self.child.try_wait().unwrap().is_some());
        self.child.wait().unwrap()
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

//! A dashboard on a sandbox's archive, and requests to it as a browser makes them, or as one must not.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};

use ctxbridge_testkit::sandbox::Sandbox;
use serde_json::Value;

/// A server in a process of its own, which ends with it.
pub struct Served {
    process: Child,
    /// `http://127.0.0.1:PORT/TOKEN/`
    pub url: String,
}

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Served {
    pub fn start(sandbox: &Sandbox) -> Self {
        let mut command = sandbox.command(&["dashboard", "--json", "--until-eof"]);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
        // One value, on three lines.
        let lines = BufReader::new(process.stdout.take().unwrap()).lines().take(3).map(Result::unwrap);
        let printed: Value = serde_json::from_str(&lines.collect::<String>()).unwrap();
        Self { process, url: printed["url"].as_str().unwrap().to_owned() }
    }

    pub fn host(&self) -> &str {
        self.url.strip_prefix("http://").unwrap().split('/').next().unwrap()
    }

    pub fn port(&self) -> &str {
        self.host().rsplit(':').next().unwrap()
    }

    pub fn token(&self) -> &str {
        self.url.split('/').nth(3).unwrap()
    }

    /// GET of a path behind the token.
    pub fn get(&self, path: &str) -> Answer {
        self.ask("GET", &format!("/{}/{path}", self.token()), &[("Host", self.host())])
    }

    /// What is said, which has to be JSON with this status.
    #[track_caller]
    pub fn json(&self, path: &str, status: u16) -> Value {
        let answer = self.get(path);
        assert_eq!(answer.status, status, "{answer:?}");
        serde_json::from_str(&answer.body).unwrap_or_else(|error| panic!("{error}: {answer:?}"))
    }

    /// A request, byte for byte: no client corrects what is wrong with it.
    pub fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
        let mut stream = TcpStream::connect(self.host()).unwrap();
        let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        write!(stream, "{method} {path} HTTP/1.1\r\n{headers}Connection: close\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let answer = String::from_utf8(answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let mut lines = head.lines();
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let header = |line: &str| line.split_once(": ").map(|(name, value)| (name.to_lowercase(), value.to_owned())).unwrap();
        Answer { status, headers: lines.map(header).collect(), body: body.to_owned() }
    }
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // It ends with its input.
        drop(self.process.stdin.take());
        let ended = self.process.wait().unwrap();
        if !std::thread::panicking() {
            assert!(ended.success(), "{ended}");
        }
    }
}

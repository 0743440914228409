//! `runtime.js` in a node process, for as many cases as a test run has.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{LazyLock, Mutex, PoisonError};

use ctxbridge::prune::{RUNTIME, RUNTIME_FUNCTION};
use serde_json::{Value, json};

use crate::prune::variables::Environment;

/// What the JavaScript made of a case.
pub struct Outcome {
    /// The array that it returned.
    pub messages: Vec<Value>,
    /// Whether that is the very array that went in.
    pub same_array: bool,
}

/// Runs `runtime.js` on a conversation, in the one node process that all tests of this run share.
pub fn prune(messages: &[Value], environment: &Environment) -> Outcome {
    ask(&json!({ "environment": environment, "messages": messages }))
}

/// The same in a loop: at each of these ends it is run, and goes on with what it made.
pub fn prune_in_loop(messages: &[Value], environment: &Environment, ends: &[usize]) -> Outcome {
    ask(&json!({ "environment": environment, "messages": messages, "ends": ends }))
}

fn ask(question: &Value) -> Outcome {
    static NODE: LazyLock<Mutex<Node>> = LazyLock::new(|| Mutex::new(Node::start()));
    let mut node = NODE.lock().unwrap_or_else(PoisonError::into_inner);
    let answer = node.ask(question);
    Outcome {
        messages: answer["messages"].as_array().expect("messages").clone(),
        same_array: answer["sameArray"].as_bool().expect("sameArray"),
    }
}

/// Speaks JSON Lines with `driver.mjs`; anything that the runtime printed would break the exchange.
/// The process ends with its input, that is with the test run.
struct Node {
    _process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Node {
    fn start() -> Self {
        let mut process = Command::new("node")
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/prune/driver.mjs"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("these tests run runtime.js in node: install Node.js 18 or newer");
        let input = process.stdin.take().expect("piped");
        let output = BufReader::new(process.stdout.take().expect("piped"));
        let mut node = Self { _process: process, input, output };
        node.send(&json!({ "source": RUNTIME, "name": RUNTIME_FUNCTION }));
        node
    }

    fn ask(&mut self, question: &Value) -> Value {
        self.send(question);
        let mut line = String::new();
        self.output.read_line(&mut line).expect("node answers");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error} in answer {line:?}"))
    }

    fn send(&mut self, value: &Value) {
        writeln!(self.input, "{value}").expect("node listens");
    }
}

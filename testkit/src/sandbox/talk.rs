//! Sessions of the client: their transcripts, and the hooks that it calls.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use super::{Ran, Sandbox, run};
use crate::transcript::{Kind, MadeSession, Spec, generate};

/// The folder that the client works in, in all transcripts.
pub const FOLDER: &str = "/home/dev/src/ledger";

/// A session of the client.
#[derive(Clone, Debug)]
pub struct Talk {
    /// Its id.
    pub id: String,
    /// Its transcript.
    pub path: PathBuf,
}

impl From<&MadeSession> for Talk {
    fn from(session: &MadeSession) -> Self {
        Self { id: session.id.clone(), path: session.path.clone() }
    }
}

impl Talk {
    /// The transcript.
    pub fn bytes(&self) -> Vec<u8> {
        fs::read(&self.path).unwrap()
    }

    /// Writes the transcript anew.
    pub fn write(&self, bytes: impl AsRef<[u8]>) {
        fs::write(&self.path, bytes).unwrap();
    }

    /// Adds to the transcript.
    pub fn append(&self, bytes: impl AsRef<[u8]>) {
        fs::OpenOptions::new().append(true).open(&self.path).unwrap().write_all(bytes.as_ref()).unwrap();
    }

    /// Input that the client gives every hook.
    pub fn input(&self) -> Value {
        json!({ "session_id": self.id, "transcript_path": self.path, "cwd": FOLDER, "permission_mode": "default" })
    }

    /// The same with more fields.
    pub fn input_with(&self, more: Value) -> Value {
        let mut input = self.input();
        input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        input
    }
}

impl Sandbox {
    /// The client's folder of transcripts for [`FOLDER`], made when it is not there.
    pub fn project(&self) -> PathBuf {
        let folder = self.path("home/.claude/projects/-home-dev-src-ledger");
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    /// A session of these bytes; each number is another one.
    pub fn talk(&self, number: u32, bytes: impl AsRef<[u8]>) -> Talk {
        self.talk_named(&session_id(number), bytes)
    }

    /// A session of this id.
    pub fn talk_named(&self, id: &str, bytes: impl AsRef<[u8]>) -> Talk {
        let talk = Talk { path: self.project().join(format!("{id}.jsonl")), id: id.to_owned() };
        talk.write(bytes);
        talk
    }

    /// Sessions of the generator.
    pub fn generate(&self, kind: Kind, messages: u64, seed: u64) -> Vec<MadeSession> {
        generate(&Spec::new(kind, messages, seed), &self.project()).unwrap().sessions
    }

    /// `ctxbridge hook EVENT`
    pub fn hook_command(&self, event: &str) -> Command {
        self.command(&["hook", event])
    }

    /// Runs a hook, which has to be content with the world: exit code 0, and nothing on stderr.
    #[track_caller]
    pub fn hook(&self, event: &str, input: &Value) -> Ran {
        run(self.hook_command(event), input.to_string().as_bytes()).calm()
    }

    /// Runs a hook that has nothing to say.
    #[track_caller]
    pub fn quiet_hook(&self, event: &str, input: &Value) {
        assert_eq!(self.hook(event, input).stdout, "", "{event}");
    }
}

/// The id of the session of this number.
pub fn session_id(number: u32) -> String {
    format!("5e551040-0000-4000-8000-{number:012x}")
}

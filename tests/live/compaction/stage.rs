//! A client with the mod, the archive that it fills, and what it sends.

use std::collections::{BTreeSet, VecDeque};
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use ctxbridge::client::{Client, ClientConversation, ConversationLimits, releases};
use ctxbridge::client_mod::install::{ENABLING_VARIABLE, ReleaseSupport};
use ctxbridge::client_mod::plugin::{Marketplace, PluginValues};
use ctxbridge::demo;
use ctxbridge::hook::mod_state::{AnsweredCompaction, ModState};
use ctxbridge::patch::install::Target;
use ctxbridge::stub::{ApiRequest, Options, RequestKind, Responder, Role, ScriptedReply, Stub, ThinkingRules, ToolCall};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::live::{ended_well, run_ctxbridge};

pub const CTXBRIDGE: &str = env!("CARGO_BIN_EXE_ctxbridge");

/// Tools that the client runs unasked.
pub const TOOLS: &str = "Bash,Read,Task,Agent";

/// How a digest begins.
pub const DIGEST: &str = "[earlier context folded: ";

/// Something that is done while the client waits for an answer.
type Deed = Box<dyn FnOnce() + Send>;

/// What is said to the client, and what it is answered.
pub struct Turn {
    pub prompt: String,
    replies: Vec<ScriptedReply>,
    deed: Option<Deed>,
}

impl Turn {
    /// A prompt that is answered at once.
    pub fn new(prompt: &str, answer: &str) -> Self {
        Self::with_calls(prompt, [], answer)
    }

    /// One that is answered after some calls.
    pub fn with_calls(prompt: &str, calls: impl IntoIterator<Item = ScriptedReply>, answer: &str) -> Self {
        let replies = calls.into_iter().chain([ScriptedReply::Text(answer.to_owned())]).collect();
        Self { prompt: prompt.to_owned(), replies, deed: None }
    }

    /// A command of the client.
    pub fn command(text: &str) -> Self {
        Self { prompt: text.to_owned(), replies: Vec::new(), deed: None }
    }

    /// Has something done before the first answer is given.
    pub fn doing(self, deed: impl FnOnce() + Send + 'static) -> Self {
        Self { deed: Some(Box::new(deed)), ..self }
    }
}

/// A call whose result has so many lines, each with the number.
pub fn count(number: usize, lines: usize) -> ToolCall {
    bash(&format!("seq -f '{}%05g stands on one leg' 1 {lines}", plover(number)))
}

/// The same, but the call fails.
pub fn failing_count(number: usize, lines: usize) -> ToolCall {
    bash(&format!("seq -f '{}%05g stands on one leg' 1 {lines}; exit 3", plover(number)))
}

fn bash(command: &str) -> ToolCall {
    ToolCall { name: "Bash".into(), input: json!({ "command": command, "description": "Count" }) }
}

/// The result of [`count`].
pub fn count_result(number: usize, lines: usize) -> String {
    let lines: Vec<String> = (1..=lines).map(|line| format!("{}{line:05} stands on one leg", plover(number))).collect();
    lines.join("\n")
}

fn plover(number: usize) -> String {
    format!("plover-{number}-")
}

/// Numbers of the counts whose results are in a request, whole.
pub fn counted(request: &ApiRequest) -> BTreeSet<usize> {
    let sent = request.body["messages"].to_string();
    let numbers = sent.split("plover-").skip(1).filter_map(|rest| rest.split_once("-00001 ")?.0.parse().ok());
    numbers.collect()
}

/// Blocks of thinking in a request.
pub fn thoughts(request: &ApiRequest) -> usize {
    let blocks = request.messages().iter().filter_map(|message| message["content"].as_array()).flatten();
    blocks.filter(|block| block["type"] == "thinking").count()
}

/// `true` if something in a request is folded.
pub fn is_folded(request: &ApiRequest) -> bool {
    request.text_blocks().iter().any(|block| block.text.starts_with(DIGEST))
}

/// A line about a request.
fn told(request: &ApiRequest) -> String {
    let (kind, number, tokens, messages) = (request.kind, request.number, request.tokens, request.messages().len());
    let refused = request.violation.as_ref().map(|violation| format!("; refused: {violation}")).unwrap_or_default();
    format!(
        "{kind:?} {number}, {tokens} tokens in {messages} messages, {} thoughts, {:?}{refused}",
        thoughts(request),
        counted(request)
    )
}

/// Answers that are still to be given: those of the conversation, and those of a sub-agent.
#[derive(Default)]
struct Replies {
    main: VecDeque<(Option<Deed>, ScriptedReply)>,
    agent: VecDeque<ScriptedReply>,
}

struct Model(Arc<Mutex<Replies>>);

impl Responder for Model {
    fn reply(&mut self, _: &ApiRequest) -> ScriptedReply {
        let next = self.0.lock().unwrap().main.pop_front();
        let (deed, reply) = next.unwrap_or_else(|| (None, ScriptedReply::Text("There is nothing left to do.".into())));
        deed.into_iter().for_each(|deed| deed());
        reply
    }

    fn side_reply(&mut self, request: &ApiRequest) -> ScriptedReply {
        let is_agent =
            request.kind == RequestKind::Side && request.body["tools"].as_array().is_some_and(|tools| !tools.is_empty());
        let scripted = is_agent.then(|| self.0.lock().unwrap().agent.pop_front()).flatten();
        scripted.unwrap_or_else(|| ctxbridge::stub::NumberedReplies.side_reply(request))
    }
}

/// A client from the cache, as it was published, with the plugin in a scratch home.
pub struct Stage {
    pub version: &'static str,
    pub stub: Stub,
    pub client: Client,
    replies: Arc<Mutex<Replies>>,
    scratch: TempDir,
}

impl Stage {
    /// `window` is that by which the client compacts, in tokens.
    pub fn new(version: &'static str, window: u64) -> Self {
        let release = releases::fetch_client(version).unwrap_or_else(|error| panic!("{error}"));
        Self::of(version, &release, window, ThinkingRules::Bound)
    }

    /// With another file of the client, and other rules for thinking.
    pub fn of(version: &'static str, client: &Path, window: u64, thinking: ThinkingRules) -> Self {
        let target = Target::at(client).unwrap();
        let scratch = tempfile::tempdir().unwrap();
        let replies = Arc::new(Mutex::new(Replies::default()));
        let options = Options { thinking, ..Options::default() };
        let stub = Stub::start_with(Model(Arc::clone(&replies)), options).unwrap();
        let data = scratch.path().join("data");
        let plugin = scratch.path().join("plugin");
        write_plugin(&plugin, Path::new(CTXBRIDGE));
        let mut client = demo::offline(&target)
            .unwrap()
            .api(&stub.url())
            .env("CTXBRIDGE_DATA_DIR", &data)
            .env("CLAUDE_CODE_AUTO_COMPACT_WINDOW", window.to_string())
            .env("MAX_THINKING_TOKENS", "2000")
            .arg("--plugin-dir")
            .arg(&plugin)
            .arg("--allowedTools")
            .arg(TOOLS);
        if ReleaseSupport::of(target.version.as_ref().unwrap()) == ReleaseSupport::WithVariable {
            client = client.env(ENABLING_VARIABLE, "1");
        }
        Self { version, stub, client, replies, scratch }
    }

    pub fn project(&self) -> PathBuf {
        self.client.project()
    }

    fn data(&self) -> PathBuf {
        self.scratch.path().join("data")
    }

    /// The folder that the client takes for a plugin.
    fn plugin(&self) -> PathBuf {
        self.scratch.path().join("plugin")
    }

    /// Has the plugin run another program.
    pub fn run_by_plugin(&self, program: &Path) {
        fs::remove_dir_all(self.plugin()).unwrap();
        write_plugin(&self.plugin(), program);
    }

    /// Takes the plugin out, and leaves a folder with nothing in it.
    pub fn remove_plugin(&self) {
        fs::remove_dir_all(self.plugin()).unwrap();
        fs::create_dir(self.plugin()).unwrap();
    }

    /// Another option of the client.
    pub fn arg(self, arg: &str) -> Self {
        Self { client: self.client.arg(arg), ..self }
    }

    /// Has another stub answer.
    pub fn answered_by(self, stub: Stub) -> Self {
        Self { client: self.client.api(&stub.url()), stub, ..self }
    }

    /// Says what a sub-agent is answered.
    pub fn script_agent(&self, replies: impl IntoIterator<Item = ScriptedReply>) {
        self.replies.lock().unwrap().agent.extend(replies);
    }

    /// Writes down how prompts are to be answered, and returns them.
    fn script(&self, turns: Vec<Turn>) -> Vec<String> {
        let mut replies = self.replies.lock().unwrap();
        let mut prompts = Vec::new();
        for Turn { prompt, replies: of_turn, mut deed } in turns {
            replies.main.extend(of_turn.into_iter().map(|reply| (deed.take(), reply)));
            prompts.push(prompt);
        }
        prompts
    }

    /// Has a conversation, in a process of its own, whatever is refused. Returns the requests of it.
    #[track_caller]
    pub fn try_to_say(&self, turns: Vec<Turn>) -> (ClientConversation, Vec<Arc<ApiRequest>>) {
        let (before, known) = (self.stub.requests().len(), self.answers().len());
        let prompts = self.script(turns);
        let conversation = self.client.converse(&prompts, ConversationLimits::default());
        let requests = self.stub.requests().split_off(before);
        requests.iter().for_each(|request| println!("{}: {}", self.version, told(request)));
        self.answers().iter().skip(known).for_each(|answer| println!("{}: {answer:?}", self.version));
        let conversation = conversation.unwrap();
        let left = self.replies.lock().unwrap().main.len();
        assert_eq!(left, 0, "{}: each answer was given: {conversation:#?}", self.version);
        (conversation, requests)
    }

    /// The same, and nothing is refused.
    #[track_caller]
    pub fn say(&self, turns: Vec<Turn>) -> Vec<Arc<ApiRequest>> {
        let (conversation, requests) = self.try_to_say(turns);
        ended_well(&self.stub, &conversation);
        requests
    }

    /// Has one prompt with an image answered, in a process of its own.
    #[track_caller]
    pub fn show(&self, turn: Turn, png: &str) {
        let prompt = self.script(vec![turn]).remove(0);
        let image = json!({ "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": png } });
        let content = json!([image, { "type": "text", "text": prompt }]);
        let line = json!({ "type": "user", "message": { "role": "user", "content": content } });
        let mut command = self.client.interactive();
        command.args(["-p", "--verbose", "--input-format", "stream-json", "--output-format", "stream-json"]);
        let mut client = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        writeln!(client.stdin.take().unwrap(), "{line}").unwrap();
        let output = client.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
        assert_eq!(self.stub.violations(), [""; 0]);
    }

    /// Number of summaries that were asked for.
    pub fn summaries(&self) -> usize {
        self.stub.requests().iter().filter(|request| request.kind == RequestKind::Compaction).count()
    }

    /// How the mod answered.
    pub fn answers(&self) -> Vec<AnsweredCompaction> {
        ModState::in_dir(&self.data()).answers()
    }

    /// What triggered each compaction that the mod answered, and nothing else was.
    #[track_caller]
    pub fn answered(&self) -> Vec<String> {
        let answers = self.answers();
        assert!(answers.iter().all(|answer| answer.messages_after.is_some()), "{}: {answers:#?}", self.version);
        answers.into_iter().filter_map(|answer| answer.cause).collect()
    }

    /// What was logged as an error.
    pub fn log(&self) -> String {
        fs::read_to_string(self.data().join("logs/errors.log")).unwrap_or_default()
    }

    #[track_caller]
    pub fn ctxbridge(&self, args: &[&str]) -> Vec<u8> {
        run_ctxbridge(&self.client, &self.data(), args)
    }

    #[track_caller]
    pub fn json(&self, args: &[&str]) -> Value {
        serde_json::from_slice(&self.ctxbridge(args)).unwrap()
    }

    /// Transcripts of sessions, oldest first.
    pub fn transcripts(&self) -> Vec<PathBuf> {
        let projects = fs::read_dir(self.client.home().join(".claude/projects")).unwrap();
        let files = projects.flat_map(|project| fs::read_dir(project.unwrap().path()).unwrap());
        let mut found: Vec<PathBuf> = files
            .map(|file| file.unwrap().path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"))
            .collect();
        found.sort_by_key(|path| fs::metadata(path).unwrap().modified().unwrap());
        found
    }

    /// The archive has each prompt of a session as one turn, and its transcript to the byte.
    #[track_caller]
    pub fn archived(&self, transcript: &Path, prompts: &[&str]) {
        let session = transcript.file_stem().unwrap().to_str().unwrap();
        let shown = self.json(&["archive", "show", session, "--json"]);
        let turns = shown["turns"].as_array().unwrap();
        let of_main = turns.iter().filter(|turn| turn["agent"].is_null());
        let said: Vec<&str> = of_main
            .map(|turn| turn["prompt"].as_str().or(turn["summary"].as_str()).unwrap())
            .filter(|said| !said.starts_with('/'))
            .collect();
        let is_each = said.len() == prompts.len() && said.iter().zip(prompts).all(|(said, prompt)| said.starts_with(prompt));
        assert!(is_each, "{}: a turn for each prompt, and none twice: {said:#?}", self.version);
        let restored = self.ctxbridge(&["archive", "restore", session]);
        assert!(restored == fs::read(transcript).unwrap(), "{}: restored byte for byte", self.version);
    }
}

/// A request after a compaction that the mod answered: nothing is in it twice, and of the results from before none is whole but `kept`.
#[track_caller]
pub fn holds_the_cut(version: &str, request: &ApiRequest, before: &BTreeSet<usize>, kept: &BTreeSet<usize>) {
    let blocks = request.text_blocks();
    assert!(is_folded(request), "{version}: a digest: {blocks:#?}");
    let back: Vec<_> = counted(request).into_iter().filter(|number| before.contains(number) && !kept.contains(number)).collect();
    assert_eq!(back, [0; 0], "{version}: old results are back");
    for role in [Role::User, Role::Assistant] {
        let mut seen = BTreeSet::new();
        let said = blocks.iter().filter(|block| block.role == role && !block.text.starts_with("<system-reminder>"));
        let twice: Vec<&str> = said.map(|block| block.text).filter(|text| !seen.insert(*text)).collect();
        assert_eq!(twice, [""; 0], "{version}: said twice by {role:?}");
    }
}

/// Writes the plugin's files as an install does, into a folder of their own.
fn write_plugin(folder: &Path, program: &Path) {
    let scratch = tempfile::tempdir_in(folder.parent().unwrap()).unwrap();
    let marketplace = Marketplace::in_dir(scratch.path());
    marketplace.write(PluginValues { program, threshold_tokens: None }).unwrap();
    fs::rename(marketplace.plugin(), folder).unwrap();
}

//! Archives as claude-flow's hook writes them: its way of cutting a transcript into turns, its columns, its vectors.

use std::path::Path;

use ctxbridge::common::digest;
use rusqlite::{Connection, params};
use serde_json::{Value, json};

/// What it keeps of a turn.
#[derive(Clone, Debug)]
pub struct Theirs {
    pub id: String,
    pub session: String,
    pub chunk: usize,
    pub content: String,
    pub tools: Vec<String>,
    pub files: Vec<String>,
    pub at_ms: i64,
    pub access_count: i64,
    pub accessed_ms: i64,
    pub confidence: f64,
    pub embedding: Option<Vec<f32>>,
}

/// 2 June 2026.
pub const NOW: i64 = 1_780_390_000_000;

/// Messages from the end of a transcript that it looks at.
const MESSAGES: usize = 500;

impl Theirs {
    pub fn new(number: usize, session: &str, asked: &str, answered: &str) -> Self {
        Self {
            id: format!("ctx-{NOW}-{number}-abc{number}"),
            session: session.to_owned(),
            chunk: number,
            content: format!("User: {asked}\n\nAssistant: {answered}"),
            tools: Vec::new(),
            files: Vec::new(),
            at_ms: NOW,
            access_count: 0,
            accessed_ms: NOW,
            confidence: 0.8,
            embedding: None,
        }
    }

    pub fn metadata(&self) -> Value {
        json!({
            "sessionId": self.session, "chunkIndex": self.chunk, "trigger": "proactive",
            "timestamp": jiff::Timestamp::from_millisecond(self.at_ms).unwrap().to_string(), "toolNames": self.tools,
            "filePaths": self.files, "summary": "what it was about", "contentHash": digest::of_bytes(self.content.as_bytes()),
            "turnRange": [self.chunk, self.chunk],
        })
    }

    pub fn key(&self) -> String {
        format!("transcript:{}:{}:2026-06-02T00:00:00.000Z", self.session, self.chunk)
    }

    pub fn tags(&self) -> Value {
        json!([["transcript", "compaction"].map(Value::from).to_vec(), vec![self.session.as_str().into()]].concat())
    }

    /// With the vector that it makes where it has no encoder.
    pub fn with_hash(mut self, dimensions: usize) -> Self {
        let text: Vec<i64> = self.content.to_lowercase().trim().encode_utf16().map(i64::from).collect();
        let value = |factor: i64| {
            let step = |hash: i32, unit: &i64| (i64::from(hash << 5) - i64::from(hash) + unit * factor) as i32;
            (f64::from(text.iter().fold(0, step)).sin() + 1.0) / 2.0
        };
        let values: Vec<f64> = (1..=dimensions as i64).map(value).collect();
        let length = values.iter().map(|value| value * value).sum::<f64>().sqrt();
        self.embedding = Some(values.iter().map(|value| (value / length) as f32).collect());
        self
    }
}

/// The turns of a transcript, as its hook sees them.
pub fn of_transcript(bytes: &[u8], session: &str) -> Vec<Theirs> {
    let lines = bytes.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    let messages: Vec<Value> = lines.map(|line| line["message"].clone()).filter(|message| message["role"].is_string()).collect();
    let mut turns: Vec<(Value, Value)> = Vec::new();
    for message in &messages[messages.len().saturating_sub(MESSAGES)..] {
        let is_result = |block: &Value| block["type"] == "tool_result";
        let only_results = message["content"].as_array().is_some_and(|blocks| blocks.iter().all(is_result));
        match message["role"].as_str() {
            Some("user") if only_results && !turns.is_empty() => {}
            Some("user") => turns.push((message.clone(), Value::Null)),
            _ => drop(turns.last_mut().map(|turn| turn.1 = message.clone())),
        }
    }
    let of = |(chunk, (asked, answered)): (usize, (Value, Value))| {
        let mut one = Theirs::new(chunk, session, &text(&asked), &text(&answered));
        one.id = format!("{}-{}", one.id, &session[session.len() - 4..]);
        for call in answered["content"].as_array().into_iter().flatten().filter(|block| block["type"] == "tool_use") {
            one.tools.push(call["name"].as_str().unwrap().to_owned());
            one.files.extend(call["input"]["file_path"].as_str().map(str::to_owned));
        }
        one
    };
    turns.into_iter().enumerate().map(of).collect()
}

fn text(message: &Value) -> String {
    match &message["content"] {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let texts: Vec<_> =
                blocks.iter().filter(|block| block["type"] == "text").filter_map(|block| block["text"].as_str()).collect();
            texts.join("\n")
        }
        _ => String::new(),
    }
}

/// The table as the first release made it.
pub const FIRST_TABLE: &str = "
CREATE TABLE transcript_entries (id TEXT PRIMARY KEY, key TEXT NOT NULL, content TEXT NOT NULL, type TEXT NOT NULL DEFAULT 'episodic',
    namespace TEXT NOT NULL DEFAULT 'transcript-archive', tags TEXT NOT NULL DEFAULT '[]', metadata TEXT NOT NULL DEFAULT '{}',
    access_level TEXT NOT NULL DEFAULT 'private', created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL,
    version INTEGER NOT NULL DEFAULT 1, access_count INTEGER NOT NULL DEFAULT 0, last_accessed_at INTEGER NOT NULL, content_hash TEXT,
    session_id TEXT, chunk_index INTEGER, summary TEXT);
CREATE INDEX idx_te_session ON transcript_entries (session_id);
CREATE INDEX idx_te_hash ON transcript_entries (content_hash);
CREATE INDEX idx_te_created ON transcript_entries (created_at);
";

/// What was added to it.
pub const LATER_COLUMNS: &str = "
ALTER TABLE transcript_entries ADD COLUMN confidence REAL NOT NULL DEFAULT 0.8;
ALTER TABLE transcript_entries ADD COLUMN embedding BLOB;
CREATE INDEX idx_te_confidence ON transcript_entries (confidence);
";

/// Opens their database, made where there is none.
pub fn open(path: &Path) -> Connection {
    let is_new = !path.exists();
    let db = Connection::open(path).unwrap();
    db.pragma_update(None, "journal_mode", "wal").unwrap();
    if is_new {
        db.execute_batch(FIRST_TABLE).unwrap();
        db.execute_batch(LATER_COLUMNS).unwrap();
    }
    db
}

/// Puts rows in, or in place of those with the same id.
pub fn put(db: &Connection, rows: &[Theirs]) {
    for one in rows {
        let vector =
            one.embedding.as_ref().map(|vector| vector.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>());
        db.execute(
            "INSERT OR REPLACE INTO transcript_entries (id, key, content, tags, metadata, created_at, updated_at, access_count,
                last_accessed_at, content_hash, session_id, chunk_index, summary, confidence, embedding)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6, ?7, ?8, ?9, ?10, ?11, 'what it was about', ?12, ?13)",
            params![
                one.id,
                one.key(),
                one.content,
                one.tags().to_string(),
                one.metadata().to_string(),
                one.at_ms,
                one.access_count,
                one.accessed_ms,
                digest::of_bytes(one.content.as_bytes()),
                one.session,
                one.chunk as i64,
                one.confidence,
                vector
            ],
        )
        .unwrap();
    }
}

/// A database with these rows.
pub fn database(path: &Path, rows: &[Theirs]) {
    put(&open(path), rows);
}

/// The JSON file that it writes where it has no database.
pub fn json_file(path: &Path, rows: &[Theirs]) {
    let entry = |one: &Theirs| {
        json!({
            "id": one.id, "key": one.key(), "content": one.content, "type": "episodic", "namespace": "transcript-archive",
            "tags": one.tags(), "metadata": one.metadata(), "accessLevel": "private", "createdAt": one.at_ms, "updatedAt": one.at_ms,
            "version": 1, "references": [], "accessCount": one.access_count, "lastAccessedAt": one.accessed_ms,
        })
    };
    let entries: Vec<Value> = rows.iter().map(entry).collect();
    std::fs::write(path, serde_json::to_string_pretty(&entries).unwrap()).unwrap();
}

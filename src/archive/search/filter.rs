//! Which turns may be found at all.

use rusqlite::types::Value;

/// What a word has to stand in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    /// What a human typed.
    Prompt,
    /// What the model said.
    Answer,
    /// What tools were called with, and what they returned.
    Tool,
    /// Paths of files.
    File,
    /// Summaries of compactions.
    Summary,
}

impl Kind {
    /// Its columns in the index.
    pub fn columns(self) -> &'static [&'static str] {
        match self {
            Self::Prompt => &["prompt"],
            Self::Answer => &["answer"],
            Self::Tool => &["input", "output"],
            Self::File => &["files"],
            Self::Summary => &["summary"],
        }
    }
}

/// What is asked for besides words. All of it has to be so.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// The begin of a session's id.
    pub session: Option<String>,
    /// A folder that the client worked in or below, or the end of its path.
    pub project: Option<String>,
    /// Turns that began at or after this, in milliseconds since 1970.
    pub since_ms: Option<i64>,
    /// Turns that began before this.
    pub until_ms: Option<i64>,
    /// A tool that was used.
    pub tool: Option<String>,
    /// A part of the path of a file that was read or written.
    pub file: Option<String>,
}

impl Filter {
    /// The statement that lists the entries that it lets through, with what stands for its question marks.
    pub(super) fn condition(&self) -> Option<(String, Vec<Value>)> {
        let mut turn: Vec<&str> = Vec::new();
        let mut summary: Vec<&str> = Vec::new();
        let mut values: Vec<Value> = Vec::new();
        let mut add = |of_turn: &'static str, of_summary: &'static str, value: Value| {
            turn.push(of_turn);
            summary.push(of_summary);
            values.push(value);
        };
        if let Some(session) = &self.session {
            const BEGINS: &str = "sessions.session LIKE ? ESCAPE '\\'";
            add(BEGINS, BEGINS, text(&(escaped(session) + "%")));
        }
        if let Some(project) = &self.project {
            let project = project.trim_end_matches(['/', '\\']);
            const BELOW: &str = "('/' || replace(folder, '\\', '/') || '/') LIKE ? ESCAPE '\\'";
            let project = project.replace('\\', "/");
            add(BELOW, BELOW, text(&format!("%/{}/%", escaped(project.trim_start_matches('/')))));
        }
        if let Some(since) = self.since_ms {
            add("started_ms >= ?", "at_ms >= ?", Value::Integer(since));
        }
        if let Some(until) = self.until_ms {
            add("started_ms < ?", "at_ms < ?", Value::Integer(until));
        }
        if let Some(tool) = &self.tool {
            add("EXISTS (SELECT 1 FROM json_each(tools) WHERE value = ? COLLATE NOCASE)", "? IS NULL", text(tool));
        }
        if let Some(file) = &self.file {
            let like = format!("%{}%", escaped(file));
            add("EXISTS (SELECT 1 FROM json_each(files) WHERE value LIKE ? ESCAPE '\\')", "? IS NULL", text(&like));
        }
        if turn.is_empty() {
            return None;
        }
        let sql = format!(
            "SELECT turns.entry FROM archive.turns JOIN archive.entries ON entries.id = turns.entry
                JOIN archive.transcripts ON transcripts.id = turns.transcript JOIN archive.sessions ON sessions.id = transcripts.session
             WHERE {}
             UNION SELECT summary FROM archive.compactions JOIN archive.sessions ON sessions.id = compactions.session
             WHERE summary IS NOT NULL AND {}",
            turn.join(" AND "),
            summary.join(" AND ")
        );
        let values = [values.clone(), values].concat();
        Some((sql, values))
    }
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

/// As a part of a LIKE pattern.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_")
}

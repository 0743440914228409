//! Filters for the turns that a search may find.

use rusqlite::types::Value;

use crate::project_scope::ProjectScope;
use ctxbridge_transcript::Turn;

/// The kind of text that must contain a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum TextKind {
    /// The prompt that a human typed.
    Prompt,
    /// The model's answer.
    Answer,
    /// Input and output of tools.
    Tool,
    /// Paths of files.
    File,
    /// Summaries of compactions.
    Summary,
}

impl TextKind {
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

/// Conditions of a search other than its words. All of them have to hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Prefix of a session's id.
    pub session: Option<String>,
    /// The project that the session is of.
    pub project: Option<ProjectScope>,
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
    /// `true` if it lets any turn of a session through, as far as that depends on the session.
    pub(super) fn allows_session(&self, session: &str, folder: Option<&str>) -> bool {
        let begins =
            |begin: &String| session.as_bytes().get(..begin.len()).is_some_and(|own| own.eq_ignore_ascii_case(begin.as_bytes()));
        self.session.as_ref().is_none_or(begins) && self.allows_folder(folder)
    }

    /// `true` if it lets a folder through.
    pub(super) fn allows_folder(&self, folder: Option<&str>) -> bool {
        self.project.as_ref().is_none_or(|project| folder.is_some_and(|folder| project.contains(folder)))
    }

    /// `true` if it lets a folder through, which may be a colleague's.
    pub fn allows_shared_folder(&self, folder: Option<&str>) -> bool {
        self.project.as_ref().is_none_or(|project| folder.is_some_and(|folder| project.contains_shared(folder)))
    }

    /// `true` if it lets a turn through, of a session that it lets through.
    pub(super) fn allows_turn(&self, turn: &Turn) -> bool {
        let has = |file: &String| turn.files.iter().any(|path| path.to_ascii_lowercase().contains(&file.to_ascii_lowercase()));
        self.allows_time(turn.started_ms)
            && self.tool.as_ref().is_none_or(|tool| turn.tools.iter().any(|name| name.eq_ignore_ascii_case(tool)))
            && self.file.as_ref().is_none_or(has)
    }

    /// `true` if it lets the summary of a compaction through.
    pub(super) fn allows_summary(&self, at_ms: i64) -> bool {
        self.allows_time(at_ms) && self.tool.is_none() && self.file.is_none()
    }

    /// `true` if it lets this time through.
    pub(super) fn allows_time(&self, at_ms: i64) -> bool {
        self.since_ms.is_none_or(|since| at_ms >= since) && self.until_ms.is_none_or(|until| at_ms < until)
    }

    /// Returns the SQL statement that lists the entries and keys of turns that it lets through, with its parameters. `folders` are
    /// those of sessions.
    pub(super) fn to_sql_condition(&self, folders: &[String]) -> Option<(String, Vec<Value>)> {
        let mut values: Vec<Value> = Vec::new();
        let mut bind = |value: Value| {
            values.push(value);
            format!("?{}", values.len())
        };
        let (mut session, mut turn, mut summary) = (Vec::new(), Vec::new(), Vec::new());
        if let Some(begin) = &self.session {
            session.push(format!("sessions.session LIKE {} ESCAPE '\\'", bind(text(&(escaped(begin) + "%")))));
        }
        if self.project.is_some() {
            // Whether a folder is of the project, SQL cannot tell.
            let folders: Vec<&String> = folders.iter().filter(|folder| self.allows_folder(Some(folder))).collect();
            let folders = bind(text(&serde_json::to_string(&folders).unwrap_or_default()));
            session.push(format!("folder IN (SELECT value FROM json_each({folders}))"));
        }
        if let Some(since) = self.since_ms {
            let since = bind(Value::Integer(since));
            // Most sessions are not looked into.
            turn.extend([format!("last_ms >= {since}"), format!("started_ms >= {since}")]);
            summary.push(format!("at_ms >= {since}"));
        }
        if let Some(until) = self.until_ms {
            let until = bind(Value::Integer(until));
            turn.extend([format!("(first_ms IS NULL OR first_ms < {until})"), format!("started_ms < {until}")]);
            summary.push(format!("at_ms < {until}"));
        }
        if let Some(tool) = &self.tool {
            turn.push(format!("EXISTS (SELECT 1 FROM json_each(tools) WHERE value = {} COLLATE NOCASE)", bind(text(tool))));
            summary.push("FALSE".to_owned());
        }
        if let Some(file) = &self.file {
            let like = bind(text(&format!("%{}%", escaped(file))));
            turn.push(format!("EXISTS (SELECT 1 FROM json_each(files) WHERE value LIKE {like} ESCAPE '\\')"));
            summary.push("FALSE".to_owned());
        }
        if values.is_empty() && session.is_empty() {
            return None;
        }
        let all = |conditions: &[&[String]]| conditions.concat().join(" AND ");
        let turns = |which: &str| {
            // The order is given: an index leads from each to the next, and the planner cannot know how few sessions are left.
            format!(
                "SELECT turns.entry, turns.id FROM archive.sessions
                    CROSS JOIN archive.transcripts ON transcripts.session = sessions.id
                    CROSS JOIN archive.turns ON turns.transcript = transcripts.id AND superseded {which}
                    CROSS JOIN archive.entries ON entries.id = turns.entry
                 WHERE {}",
                all(&[&session, &turn])
            )
        };
        let sql = format!(
            "{} UNION ALL {} UNION ALL
             SELECT summary, NULL FROM archive.compactions JOIN archive.sessions ON sessions.id = compactions.session
             WHERE summary IS NOT NULL AND {}",
            turns("IS NULL"),
            turns("IS NOT NULL"),
            all(&[&session, &summary])
        );
        Some((sql, values))
    }
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

/// Escapes a text for a LIKE pattern.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_")
}

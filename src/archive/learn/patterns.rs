/*!
What announces a learning, and what speaks against one: a table of regular expressions (`patterns.toml`), to which users add theirs.

A [cue](Cue) says which kind a sentence is of. A [doubt](Doubt) takes that back: where it is negated, asked, supposed, told of others, or said to the
user. Both look at the sentence without code and quotations.
*/

use std::collections::BTreeMap;
use std::path::Path;

use regex::{Regex, RegexBuilder};
use serde::{Deserialize, Serialize};

use ctxbridge_common::digest;
use ctxbridge_common::paths;

/// Kinds of learnings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// What was chosen, and mostly why.
    Decision,
    /// What was wrong, and what put it right.
    Solution,
    /// What came of something: it works, it failed, it waits for somebody.
    Outcome,
    /// Somebody else goes on.
    Handoff,
    /// A state that one can come back to.
    Checkpoint,
}

impl Kind {
    /// All of them, the most wanted first: what is decided holds until it is taken back.
    pub const ALL: [Self; 5] = [Self::Decision, Self::Solution, Self::Outcome, Self::Handoff, Self::Checkpoint];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Decision => "decision",
            Self::Solution => "solution",
            Self::Outcome => "outcome",
            Self::Handoff => "handoff",
            Self::Checkpoint => "checkpoint",
        }
    }

    /// The kind of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// Where a doubt is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// In the sentence.
    Sentence,
    /// In the clause of the cue, before it.
    Before,
    /// In the sentence, up to the end of the cue.
    Begin,
    /// Behind the cue.
    After,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    #[serde(default)]
    cue: Vec<Row>,
    #[serde(default)]
    doubt: Vec<Row>,
    /// Rows of the table before that are left out.
    #[serde(default)]
    without: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    id: String,
    /// Of a doubt: only these are doubted.
    kind: Option<OneOrMore<Kind>>,
    regex: String,
    /// Of a cue: from 0 to 1.
    confidence: Option<f64>,
    /// Of a doubt.
    scope: Option<Scope>,
    /// Of a doubt: cues that it does not count for; of a cue: doubts that do not count for it.
    #[serde(default)]
    but: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum OneOrMore<T> {
    One(T),
    More(Vec<T>),
}

/// What announces a learning.
#[derive(Clone, Debug)]
pub struct Cue {
    /// Its name.
    pub id: String,
    /// Of which kind it is.
    pub kind: Kind,
    /// From 0 to 1.
    pub confidence: f64,
    pub(super) regex: Regex,
    pub(super) but: Vec<String>,
}

/// What speaks against one.
#[derive(Clone, Debug)]
pub struct Doubt {
    pub(super) id: String,
    pub(super) kinds: Vec<Kind>,
    pub(super) scope: Scope,
    pub(super) regex: Regex,
    pub(super) but: Vec<String>,
}

/// A table.
#[derive(Clone, Debug, Default)]
pub struct Patterns {
    pub(super) cues: Vec<Cue>,
    pub(super) doubts: Vec<Doubt>,
    hash: String,
}

/// A table that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PatternError {
    /// It cannot be read.
    #[error("cannot read {path}: {cause}")]
    Read {
        /// The file.
        path: String,
        /// Why.
        cause: std::io::Error,
    },
    /// It is no table of patterns.
    #[error("{path} is no table of patterns: {cause}")]
    Syntax {
        /// The file.
        path: String,
        /// Why, with the line.
        cause: Box<toml::de::Error>,
    },
    /// A row of it is wrong.
    #[error("{path}, `{id}`: {problem}")]
    Row {
        /// The file.
        path: String,
        /// The row.
        id: String,
        /// What is wrong.
        problem: String,
    },
}

impl Patterns {
    /// Ours alone.
    pub fn standard() -> &'static Self {
        static STANDARD: std::sync::OnceLock<Patterns> = std::sync::OnceLock::new();
        // A test reads the table; without one, nothing would be learned.
        STANDARD.get_or_init(|| Self::default().with("patterns.toml", include_str!("patterns.toml")).unwrap_or_default())
    }

    /// Ours and those of a file, which need not exist.
    ///
    /// # Errors
    /// When it is there and cannot be used.
    pub fn with_file(path: &Path) -> Result<Self, PatternError> {
        let name = path.display().to_string();
        match std::fs::read_to_string(path) {
            Ok(text) => Self::standard().clone().with(&name, &text),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::standard().clone()),
            Err(cause) => Err(PatternError::Read { path: name, cause }),
        }
    }

    /// Other patterns have another one.
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// Ours and those of the user's file. One that cannot be used is left out, and what is wrong with it is said.
    pub fn of_user() -> (Self, Option<PatternError>) {
        let path = paths::config_dir().map(|folder| folder.join(super::FILE));
        match path.map_or_else(|| Ok(Self::standard().clone()), |path| Self::with_file(&path)) {
            Ok(patterns) => (patterns, None),
            Err(error) => (Self::standard().clone(), Some(error)),
        }
    }

    /// With those of a table; rows of the same name take the place of what was there.
    ///
    /// # Errors
    /// When it cannot be used.
    pub fn with(mut self, path: &str, text: &str) -> Result<Self, PatternError> {
        let table: Table =
            toml::from_str(text).map_err(|cause| PatternError::Syntax { path: path.to_owned(), cause: Box::new(cause) })?;
        let Table { cue, doubt, without } = table;
        self.hash = digest::of_bytes(format!("{}{text}", self.hash).as_bytes())[..16].to_owned();
        let goes = |id: &str| without.iter().any(|gone| gone == id);
        self.cues.retain(|known| !goes(&known.id) && !cue.iter().any(|new| new.id == known.id));
        self.doubts.retain(|known| !goes(&known.id) && !doubt.iter().any(|new| new.id == known.id));
        let mut seen = BTreeMap::new();
        for (row, is_cue) in cue.into_iter().map(|row| (row, true)).chain(doubt.into_iter().map(|row| (row, false))) {
            let failed = |problem: String| PatternError::Row { path: path.to_owned(), id: row.id.clone(), problem };
            if seen.insert(row.id.clone(), ()).is_some() {
                return Err(failed("it is there twice".to_owned()));
            }
            let regex = RegexBuilder::new(&row.regex).case_insensitive(true).build();
            let regex = regex.map_err(|cause| failed(format!("its regex cannot be used: {cause}")))?;
            if is_cue {
                let Some(OneOrMore::One(kind)) = row.kind else { return Err(failed("a cue is of one `kind`".to_owned())) };
                let confidence = row.confidence.unwrap_or(0.8);
                if !(0.0..=1.0).contains(&confidence) {
                    return Err(failed(format!("`confidence` is from 0 to 1, not {confidence}")));
                }
                self.cues.push(Cue { id: row.id, kind, confidence, regex, but: row.but });
            } else {
                let kinds = match row.kind {
                    Some(OneOrMore::One(kind)) => vec![kind],
                    Some(OneOrMore::More(kinds)) => kinds,
                    None => Kind::ALL.to_vec(),
                };
                self.doubts.push(Doubt { id: row.id, kinds, scope: row.scope.unwrap_or(Scope::Sentence), regex, but: row.but });
            }
        }
        Ok(self)
    }
}

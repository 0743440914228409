/*!
Patterns for and against learnings: a table of regular expressions (`patterns.toml`), to which users add theirs.

A [`TriggerPattern`] assigns a kind to a sentence. An [`ExclusionPattern`] rejects it: if it is negated, asked, supposed, reported
of others, or addressed to the user. Both see the sentence without code and quotations.

The patterns were chosen on one half of fixtures/learnings and of real sessions, and are tested on the other halves as well. Gaps are
lazy and have no limit (`.+?`): sentences are short, and a counted gap makes an automaton that is ten times as large.
*/

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use regex::{Match, Regex, RegexBuilder};
use serde::{Deserialize, Serialize};

use ctxbridge_common::digest;
use ctxbridge_common::files;
use ctxbridge_common::paths;

/// The built-in table.
const STANDARD_TABLE: &str = include_str!("patterns.toml");

/// Kinds of learnings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LearningKind {
    /// A choice, usually with its reason.
    Decision,
    /// A cause, and its fix.
    Solution,
    /// A result: it works, it failed, it waits for somebody.
    Outcome,
    /// Work handed to somebody else.
    Handoff,
    /// A state to come back to.
    Checkpoint,
}

impl LearningKind {
    /// All kinds, most wanted first: a decision holds until it is superseded.
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

/// Part of the sentence that a doubt is matched against.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExclusionScope {
    /// In the sentence.
    Sentence,
    /// In the clause of the cue, before it.
    Before,
    /// In the sentence, up to the end of the cue.
    Begin,
    /// After the cue.
    After,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PatternTable {
    #[serde(default)]
    cue: Vec<PatternRow>,
    #[serde(default)]
    doubt: Vec<PatternRow>,
    /// Rows of the earlier table to remove.
    #[serde(default)]
    without: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PatternRow {
    id: String,
    /// Of a doubt: only these kinds are rejected.
    kind: Option<OneOrMore<LearningKind>>,
    regex: String,
    /// Of a cue: from 0 to 1.
    confidence: Option<f64>,
    /// Of a doubt.
    scope: Option<ExclusionScope>,
    /// Of a doubt: cues that are exempt from it; of a cue: doubts that it is exempt from.
    #[serde(default)]
    but: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum OneOrMore<T> {
    One(T),
    More(Vec<T>),
}

/// An expression that is compiled when it is first matched: all of the built-in ones take 32 ms, and most processes match none. Clones
/// share it.
#[derive(Clone, Debug)]
pub(super) struct LazyRegex(Arc<(String, OnceLock<Result<Regex, regex::Error>>)>);

impl LazyRegex {
    /// An expression that is not checked here, but by a test.
    fn unchecked(source: String) -> Result<Self, regex::Error> {
        Ok(Self(Arc::new((source, OnceLock::new()))))
    }

    fn checked(source: String) -> Result<Self, regex::Error> {
        let regex = Self::unchecked(source)?;
        regex.compiled().map_err(Clone::clone)?;
        Ok(regex)
    }

    fn compiled(&self) -> Result<&Regex, &regex::Error> {
        let (source, compiled) = &*self.0;
        compiled.get_or_init(|| RegexBuilder::new(source).case_insensitive(true).build()).as_ref()
    }

    /// Ranges of the matches in a text.
    pub(super) fn find_iter<'a>(&'a self, text: &'a str) -> impl Iterator<Item = Match<'a>> {
        self.compiled().into_iter().flat_map(|regex| regex.find_iter(text))
    }

    /// Finds out if some part of a text matches.
    pub(super) fn is_match(&self, text: &str) -> bool {
        self.compiled().is_ok_and(|regex| regex.is_match(text))
    }
}

/// Pattern that announces a learning.
#[derive(Clone, Debug)]
pub struct TriggerPattern {
    /// Its name.
    pub id: String,
    /// Kind of learning.
    pub kind: LearningKind,
    /// Confidence, from 0 to 1.
    pub confidence: f64,
    pub(super) regex: LazyRegex,
    pub(super) but: Vec<String>,
}

/// Pattern that rejects a cue.
#[derive(Clone, Debug)]
pub struct ExclusionPattern {
    pub(super) id: String,
    pub(super) kinds: Vec<LearningKind>,
    pub(super) scope: ExclusionScope,
    pub(super) regex: LazyRegex,
    pub(super) but: Vec<String>,
}

/// A table of patterns.
#[derive(Clone, Debug, Default)]
pub struct LearningPatterns {
    pub(super) cues: Vec<TriggerPattern>,
    pub(super) doubts: Vec<ExclusionPattern>,
    hash: String,
}

/// Errors from reading a table of patterns.
#[derive(Debug, thiserror::Error)]
pub enum LearningPatternError {
    /// It cannot be read.
    #[error("cannot read {path}: {cause}")]
    Read {
        /// The file.
        path: String,
        /// The cause.
        cause: std::io::Error,
    },
    /// It is no table of patterns.
    #[error("{path} is no table of patterns: {cause}")]
    Syntax {
        /// The file.
        path: String,
        /// The cause, with the line.
        cause: Box<toml::de::Error>,
    },
    /// A row of it is wrong.
    #[error("{path}, `{id}`: {problem}")]
    Row {
        /// The file.
        path: String,
        /// The row.
        id: String,
        /// The problem.
        problem: String,
    },
}

impl LearningPatterns {
    /// The built-in patterns.
    pub fn standard() -> &'static Self {
        static STANDARD: OnceLock<LearningPatterns> = OnceLock::new();
        // A test reads the table and compiles it; without one, nothing would be learned.
        STANDARD.get_or_init(|| Self::default().read("patterns.toml", STANDARD_TABLE, LazyRegex::unchecked).unwrap_or_default())
    }

    /// The built-in patterns and those of a file, which need not exist.
    ///
    /// # Errors
    /// If it exists and cannot be used.
    pub fn with_file(path: &Path) -> Result<Self, LearningPatternError> {
        let name = path.display().to_string();
        match files::read_to_string(path) {
            Ok(text) => Self::standard().clone().with(&name, &text),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::standard().clone()),
            Err(cause) => Err(LearningPatternError::Read { path: name, cause }),
        }
    }

    /// Hash of the patterns: other patterns have another one.
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// The built-in patterns and those of the user's file. An unusable file is left out, and its error is returned.
    pub fn of_user() -> (Self, Option<LearningPatternError>) {
        let path = paths::config_dir().map(|folder| folder.join(super::PATTERNS_FILE));
        match path.map_or_else(|| Ok(Self::standard().clone()), |path| Self::with_file(&path)) {
            Ok(patterns) => (patterns, None),
            Err(error) => (Self::standard().clone(), Some(error)),
        }
    }

    /// Adds the patterns of a table; a row replaces an earlier one with the same name.
    ///
    /// # Errors
    /// If it cannot be used.
    pub fn with(self, path: &str, text: &str) -> Result<Self, LearningPatternError> {
        self.read(path, text, LazyRegex::checked)
    }

    fn read(
        mut self,
        path: &str,
        text: &str,
        regex_of: fn(String) -> Result<LazyRegex, regex::Error>,
    ) -> Result<Self, LearningPatternError> {
        let table: PatternTable = toml::from_str(text)
            .map_err(|cause| LearningPatternError::Syntax { path: path.to_owned(), cause: Box::new(cause) })?;
        let PatternTable { cue, doubt, without } = table;
        self.hash = digest::of_bytes(format!("{}{text}", self.hash).as_bytes())[..16].to_owned();
        let goes = |id: &str| without.iter().any(|gone| gone == id);
        self.cues.retain(|known| !goes(&known.id) && !cue.iter().any(|new| new.id == known.id));
        self.doubts.retain(|known| !goes(&known.id) && !doubt.iter().any(|new| new.id == known.id));
        let mut seen = BTreeMap::new();
        for (row, is_cue) in cue.into_iter().map(|row| (row, true)).chain(doubt.into_iter().map(|row| (row, false))) {
            let failed = |problem: String| LearningPatternError::Row { path: path.to_owned(), id: row.id.clone(), problem };
            if seen.insert(row.id.clone(), ()).is_some() {
                return Err(failed("it is there twice".to_owned()));
            }
            let regex = regex_of(row.regex).map_err(|cause| failed(format!("its regex cannot be used: {cause}")))?;
            if is_cue {
                let Some(OneOrMore::One(kind)) = row.kind else { return Err(failed("a cue is of one `kind`".to_owned())) };
                let confidence = row.confidence.unwrap_or(0.8);
                if !(0.0..=1.0).contains(&confidence) {
                    return Err(failed(format!("`confidence` is from 0 to 1, not {confidence}")));
                }
                self.cues.push(TriggerPattern { id: row.id, kind, confidence, regex, but: row.but });
            } else {
                let kinds = match row.kind {
                    Some(OneOrMore::One(kind)) => vec![kind],
                    Some(OneOrMore::More(kinds)) => kinds,
                    None => LearningKind::ALL.to_vec(),
                };
                self.doubts.push(ExclusionPattern {
                    id: row.id,
                    kinds,
                    scope: row.scope.unwrap_or(ExclusionScope::Sentence),
                    regex,
                    but: row.but,
                });
            }
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_table_can_be_used() {
        let patterns = LearningPatterns::default().with("patterns.toml", STANDARD_TABLE).unwrap();
        assert_eq!(patterns.hash(), LearningPatterns::standard().hash());
        assert!(patterns.cues.len() > 20 && patterns.doubts.len() > 20);
    }
}

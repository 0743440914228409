//! Learnings, listed.

use std::collections::HashMap;

use serde::Serialize;

use super::{DashboardService, DataError, TITLE_CHARS, one_line, session};
use ctxbridge_archive::handle;
use ctxbridge_archive::learn::{LearningKind, MAX_RANKED_LEARNINGS, sort_by_worth};
use ctxbridge_archive::search::query::QueryTerms;
use ctxbridge_archive::search::tokens::Tokenizer;
use ctxbridge_archive::store::{LearningQuery, Store, StoredLearning};

/// Maximum number of learnings that are listed. Words find the others.
const MAX_LISTED_LEARNINGS: usize = 200;
/// Maximum characters of a sentence.
const SENTENCE_CHARS: usize = 600;

/// Learnings, those worth reading first.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LearningList {
    /// The learnings.
    pub learnings: Vec<ListedLearning>,
    /// `true` if there are others.
    pub has_more: bool,
}

/// A learning in the list.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ListedLearning {
    /// The id, for `ctxbridge learnings show`.
    pub id: String,
    /// `decision`, `solution`, `outcome`, `handoff` or `checkpoint`.
    pub kind: &'static str,
    /// The sentence, as it was said.
    pub sentence: String,
    /// Time when it was last said, in milliseconds since 1970.
    pub at_ms: i64,
    /// Number of times it was said.
    pub said: u32,
    /// `true` if the conversation went back to before it.
    pub is_rewound: bool,
    /// The project's folder.
    pub folder: Option<String>,
    /// The session in which it was said last.
    pub session: String,
    /// Title of the session.
    pub title: Option<String>,
    /// Handle of the turn.
    pub turn: String,
}

impl DashboardService {
    /// Lists learnings of a kind, or of any kind if there is no such kind; only those with these words, if there are any.
    pub fn learnings(&self, kind: &str, words: &str) -> Result<LearningList, DataError> {
        let Some(mut store) = self.open()? else { return Ok(LearningList::default()) };
        let words = Some(words.trim()).filter(|words| !words.is_empty());
        let expression = words.and_then(|words| QueryTerms::of(words, &Tokenizer::default()).expression(&[]));
        if words.is_some() && expression.is_none() {
            return Ok(LearningList::default());
        }
        let query = LearningQuery { kind: LearningKind::named(kind), words: expression, ..LearningQuery::default() };
        list(&mut *store, query)
    }

    /// Lists the learnings of a session.
    pub fn learnings_of(&self, id: &str) -> Result<LearningList, DataError> {
        let mut store = self.opened()?;
        let session = session(&mut *store, id)?.key;
        list(&mut *store, LearningQuery { session: Some(session), ..LearningQuery::default() })
    }
}

fn list(store: &mut dyn Store, query: LearningQuery) -> Result<LearningList, DataError> {
    let by_words = query.words.is_some();
    // What is worth most may be older.
    let limit = if by_words { MAX_LISTED_LEARNINGS + 1 } else { MAX_RANKED_LEARNINGS.max(MAX_LISTED_LEARNINGS + 1) };
    let mut found = store.learnings(&LearningQuery { limit, ..query })?;
    if !by_words {
        sort_by_worth(&mut found);
    }
    let has_more = found.len() > MAX_LISTED_LEARNINGS;
    found.truncate(MAX_LISTED_LEARNINGS);
    let mut titles: HashMap<String, Option<String>> = HashMap::new();
    let mut learnings = Vec::with_capacity(found.len());
    for learning in found {
        if !titles.contains_key(&learning.session) {
            let title = store.session(&learning.session)?.and_then(|session| session.title);
            titles.insert(learning.session.clone(), title.map(|title| one_line(&title, TITLE_CHARS)));
        }
        let title = titles.get(&learning.session).cloned().flatten();
        learnings.push(listed(learning, title));
    }
    Ok(LearningList { learnings, has_more })
}

fn listed(learning: StoredLearning, title: Option<String>) -> ListedLearning {
    ListedLearning {
        id: learning.id.handle(),
        kind: learning.kind.name(),
        sentence: one_line(&learning.sentence, SENTENCE_CHARS),
        at_ms: learning.last_ms,
        said: learning.said,
        is_rewound: learning.is_rewound,
        folder: learning.folder,
        turn: handle::turn_handle(&learning.turn),
        session: learning.session,
        title,
    }
}

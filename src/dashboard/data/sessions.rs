//! The list of sessions.

use std::time::Duration;

use serde::Serialize;

use super::{DashboardService, DataError, SessionSavings, TITLE_CHARS, one_line};
use crate::autopilot;
use ctxbridge_archive::search::SearchIndex;
use ctxbridge_archive::store::{Session, SessionReader, StoreReader};

/// Number of sessions of a page of the list.
const PAGE_SESSIONS: usize = 100;
/// Time to wait while another process writes the index. Without the index, sessions have no titles.
pub(super) const INDEX_BUSY_TIMEOUT: Duration = Duration::from_millis(100);

/// Sessions, a page of them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SessionList {
    /// The sessions, the newest first.
    pub sessions: Vec<SessionListItem>,
    /// `true` if there are older ones.
    pub has_more: bool,
}

/// A session in the list.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SessionListItem {
    /// The id.
    pub session: String,
    /// Number of its turns, as `ctxbridge sessions` counts them.
    pub turns: u64,
    /// Savings by pruning in it; none until it was replayed.
    pub saved: Option<SessionSavings>,
    /// Its title, or else the first prompt, if the search index has it.
    pub title: Option<String>,
    /// The folder that the client worked in.
    pub folder: Option<String>,
    /// Start of the first turn, in milliseconds since 1970.
    pub first_ms: Option<i64>,
    /// End of the last turn, in milliseconds since 1970.
    pub last_ms: Option<i64>,
    /// The model that answered last.
    pub model: Option<String>,
    /// Size of the context at the last answer, in tokens.
    pub context_tokens: Option<u64>,
    /// Size of the context window in tokens, if the client recorded it.
    pub window_tokens: Option<u64>,
    /// Number of optimize cycles that the autopilot ran in it.
    pub optimized: u64,
}

impl DashboardService {
    /// Lists sessions, the newest first, without the newest `skipped` ones.
    pub fn sessions(&self, skipped: usize) -> Result<SessionList, DataError> {
        let Some(mut store) = self.open()? else { return Ok(SessionList { sessions: Vec::new(), has_more: false }) };
        let end = skipped.saturating_add(PAGE_SESSIONS);
        let mut found = store.sessions("", None, end.saturating_add(1))?;
        let has_more = found.len() > end;
        found.truncate(end);
        found.drain(..skipped.min(found.len()));
        let titles = self.titles(&mut *store, &found)?;
        let mut sessions = Vec::with_capacity(found.len());
        for (session, title) in found.into_iter().zip(titles) {
            sessions.push(self.listed(&mut *store, session, title)?);
        }
        drop(store);
        let saved = self.savings_by_session()?;
        for session in &mut sessions {
            session.saved = saved.get(&session.session).copied();
        }
        Ok(SessionList { sessions, has_more })
    }

    pub(super) fn titles(&self, store: &mut dyn SessionReader, sessions: &[Session]) -> Result<Vec<Option<String>>, DataError> {
        // A title is no reason to show nothing.
        let index = SearchIndex::open_existing(&self.source.data, INDEX_BUSY_TIMEOUT).ok().flatten();
        let title = |session: &Session| {
            if let Some(title) = &session.title {
                return Ok(Some(one_line(title, TITLE_CHARS)));
            }
            let Some(index) = &index else { return Ok(None) };
            let excerpt = store.first_entry(session.key)?.and_then(|entry| index.excerpt(entry).ok().flatten());
            let prompt = excerpt.map(|excerpt| one_line(&excerpt.prompt, TITLE_CHARS));
            Ok(prompt.filter(|prompt| !prompt.is_empty()))
        };
        sessions.iter().map(title).collect()
    }

    /// Describes a session, without its savings.
    pub(super) fn listed(
        &self,
        store: &mut dyn StoreReader,
        session: Session,
        title: Option<String>,
    ) -> Result<SessionListItem, DataError> {
        let state = autopilot::WindowStateStore::in_dir(&self.source.data).load(&session.session);
        Ok(SessionListItem {
            turns: store.session_stats(session.key)?.most_turns(),
            saved: None,
            session: session.session,
            title,
            folder: session.folder,
            first_ms: session.first_ms,
            last_ms: session.last_ms,
            model: session.model,
            context_tokens: session.context_tokens,
            window_tokens: session.window,
            optimized: state.map_or(0, |state| state.prune_count),
        })
    }
}

//! The list of sessions.

use std::time::Duration;

use serde::Serialize;

use super::{Desk, Trouble, one_line};
use crate::autopilot;
use ctxbridge_archive::search::Index;
use ctxbridge_archive::store::{Session, Store};

/// Sessions that are listed: the newest. Search finds the others.
const MOST: usize = 100;
/// Characters of a title.
const TITLE_CHARS: usize = 120;
/// How long to wait for one who writes the index: without it, sessions have no titles.
const PATIENCE: Duration = Duration::from_millis(100);

/// The newest sessions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sessions {
    /// The newest first.
    pub sessions: Vec<Listed>,
    /// Whether there are older ones.
    pub has_more: bool,
}

/// A session, as it is listed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Listed {
    /// Its id.
    pub session: String,
    /// Its first prompt, where the search index has it.
    pub title: Option<String>,
    /// The folder that the client worked in.
    pub folder: Option<String>,
    /// Begin of the first turn, in milliseconds since 1970.
    pub first_ms: Option<i64>,
    /// End of the last turn.
    pub last_ms: Option<i64>,
    /// The model that answered last.
    pub model: Option<String>,
    /// Size of the context at the last answer, in tokens.
    pub context_tokens: Option<u64>,
    /// Tokens that the window holds, where the client told.
    pub window_tokens: Option<u64>,
    /// Optimise cycles that the autopilot ran in it.
    pub optimised: u64,
}

impl Desk {
    /// The list.
    pub fn sessions(&self) -> Result<Sessions, Trouble> {
        let Some(mut store) = self.open()? else { return Ok(Sessions { sessions: Vec::new(), has_more: false }) };
        let mut found = store.sessions("", None, MOST + 1)?;
        let has_more = found.len() > MOST;
        found.truncate(MOST);
        let titles = self.titles(&mut *store, &found)?;
        drop(store);
        let sessions = found.into_iter().zip(titles).map(|(session, title)| self.listed(session, title)).collect();
        Ok(Sessions { sessions, has_more })
    }

    pub(super) fn titles(&self, store: &mut dyn Store, sessions: &[Session]) -> Result<Vec<Option<String>>, Trouble> {
        // A title is no reason to show nothing.
        let index = Index::existing(&self.source.data, PATIENCE).ok().flatten();
        let title = |session: &Session| {
            let Some(index) = &index else { return Ok(None) };
            let excerpt = store.first_entry(session.key)?.and_then(|entry| index.excerpt(entry).ok().flatten());
            let prompt = excerpt.map(|excerpt| one_line(&excerpt.prompt, TITLE_CHARS));
            Ok(prompt.filter(|prompt| !prompt.is_empty()))
        };
        sessions.iter().map(title).collect()
    }

    pub(super) fn listed(&self, session: Session, title: Option<String>) -> Listed {
        let state = autopilot::Store::in_dir(&self.source.data).load(&session.session);
        Listed {
            session: session.session,
            title,
            folder: session.folder,
            first_ms: session.first_ms,
            last_ms: session.last_ms,
            model: session.model,
            context_tokens: session.context_tokens,
            window_tokens: session.window,
            optimised: state.map_or(0, |state| state.prune_count),
        }
    }
}

//! The list: sessions that fit, and below them the turns that a search found. One of them is selected.

use std::collections::HashMap;
use std::ops::Range;

use crate::keys::Movement;
use crate::source::{PickableSession, Selection, TurnHit};

/// The list.
#[derive(Default)]
pub(crate) struct Listing {
    sessions: Vec<PickableSession>,
    /// Positions in `sessions` by their ids.
    by_id: HashMap<String, usize>,
    /// Positions of those that fit, in the order in which they are shown.
    pub(crate) fitting: Vec<usize>,
    pub(crate) hits: Vec<TurnHit>,
    /// Position of the selected one: sessions first, then hits.
    selected: usize,
    /// The first session and the first hit that are on the screen.
    tops: (usize, usize),
    /// Lines of a page, as it was drawn last.
    page: usize,
    /// The fitting sessions that were drawn last.
    drawn: Range<usize>,
}

/// The part that is on the screen: ranges of fitting sessions and of hits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Visible {
    pub(crate) sessions: Range<usize>,
    pub(crate) hits: Range<usize>,
    /// `true` if there is a line for the heading above the hits.
    pub(crate) has_heading: bool,
}

/// Minimum lines for sessions and hits on one screen, with the heading between them.
const MIN_DIVIDED_LINES: usize = 4;

/// A session or turn in the list.
#[derive(Clone, Copy)]
pub(crate) enum ListItem<'l> {
    Session(&'l PickableSession),
    Hit(&'l TurnHit),
}

impl Listing {
    /// Returns a session or turn that is in the list.
    pub(crate) fn find(&self, selection: &Selection) -> Option<ListItem<'_>> {
        match selection {
            Selection::Session(id) => self.session(id).map(ListItem::Session),
            Selection::Turn(handle) => self.hits.iter().find(|hit| hit.handle == *handle).map(ListItem::Hit),
        }
    }

    pub(crate) fn sessions(&self) -> &[PickableSession] {
        &self.sessions
    }

    pub(crate) fn session(&self, id: &str) -> Option<&PickableSession> {
        self.by_id.get(id).map(|position| &self.sessions[*position])
    }

    /// The session at a position among those that fit.
    pub(crate) fn fitting_session(&self, position: usize) -> Option<&PickableSession> {
        self.fitting.get(position).map(|session| &self.sessions[*session])
    }

    /// Id of the session that is selected, or that the selected turn is of.
    pub(crate) fn selected_session_id(&self) -> Option<&str> {
        match self.selected_hit() {
            Some(hit) => Some(&hit.session),
            None => self.fitting_session(self.selected).map(|session| &*session.id),
        }
    }

    fn selected_hit(&self) -> Option<&TurnHit> {
        self.hits.get(self.selected.checked_sub(self.fitting.len())?)
    }

    /// Position of the selected one: sessions first, then hits.
    pub(crate) fn selected(&self) -> usize {
        self.selected
    }

    pub(crate) fn selection(&self) -> Option<Selection> {
        match self.selected_hit() {
            Some(hit) => Some(Selection::Turn(hit.handle.clone())),
            None => self.fitting_session(self.selected).map(|session| Selection::Session(session.id.clone())),
        }
    }

    /// Replaces all sessions. The caller filters them again.
    pub(crate) fn set_sessions(&mut self, sessions: Vec<PickableSession>) {
        self.by_id = sessions.iter().enumerate().map(|(position, session)| (session.id.clone(), position)).collect();
        self.sessions = sessions;
        self.fitting.clear();
    }

    /// Shows these sessions; `selected` stays selected if it is still there.
    pub(crate) fn set_fitting(&mut self, fitting: Vec<usize>, selected: Option<&Selection>) {
        self.fitting = fitting;
        self.tops.0 = 0;
        self.select(selected);
    }

    /// Shows these hits; what is selected stays so if it is still there.
    pub(crate) fn set_hits(&mut self, hits: Vec<TurnHit>) {
        let selected = self.selection();
        self.hits = hits;
        self.tops.1 = 0;
        self.select(selected.as_ref());
    }

    fn select(&mut self, wanted: Option<&Selection>) {
        let position = match wanted {
            Some(Selection::Session(id)) => self.fitting.iter().position(|session| self.sessions[*session].id == *id),
            Some(Selection::Turn(handle)) => {
                self.hits.iter().position(|hit| hit.handle == *handle).map(|hit| self.fitting.len() + hit)
            }
            None => None,
        };
        self.selected = position.unwrap_or(0);
    }

    pub(crate) fn move_selection(&mut self, movement: Movement) {
        let last = (self.fitting.len() + self.hits.len()).saturating_sub(1);
        let page = self.page.max(1);
        self.selected = match movement {
            Movement::Up => self.selected.saturating_sub(1),
            Movement::Down => self.selected + 1,
            Movement::PageUp => self.selected.saturating_sub(page),
            Movement::PageDown => self.selected + page,
            Movement::First => 0,
            Movement::Last => last,
        }
        .min(last);
    }

    /// Divides lines of the screen between sessions and hits, with a heading above the hits, and scrolls to what is selected. Each
    /// gets half of them, and what the other does not need.
    pub(crate) fn scroll(&mut self, lines: usize) -> Visible {
        let (sessions, hits) = (self.fitting.len(), self.hits.len());
        let has_heading = hits > 0 && lines >= MIN_DIVIDED_LINES;
        let rest = lines - usize::from(has_heading);
        let (session_lines, hit_lines) = match (sessions, hits) {
            (_, 0) => (rest, 0),
            (0, _) => (0, rest),
            _ if has_heading => {
                let sessions = sessions.min(rest.saturating_sub(hits).max(rest.div_ceil(2)));
                (sessions, rest - sessions)
            }
            _ if self.selected < sessions => (rest, 0),
            _ => (0, rest),
        };
        self.page = if self.selected < sessions { session_lines } else { hit_lines };
        let visible = Visible {
            sessions: window(&mut self.tops.0, Some(self.selected), sessions, session_lines),
            hits: window(&mut self.tops.1, self.selected.checked_sub(sessions), hits, hit_lines),
            has_heading,
        };
        self.drawn = visible.sessions.clone();
        visible
    }

    /// Ids of the sessions that were drawn last.
    pub(crate) fn visible_sessions(&self) -> Vec<String> {
        self.drawn.clone().filter_map(|position| self.fitting_session(position)).map(|session| session.id.clone()).collect()
    }
}

/// Range of `lines` of `all`, from `top` on as far as the selected one is then in it.
fn window(top: &mut usize, selected: Option<usize>, all: usize, lines: usize) -> Range<usize> {
    if let Some(selected) = selected.filter(|selected| *selected < all && lines > 0) {
        *top = (*top).clamp((selected + 1).saturating_sub(lines), selected);
    }
    *top = (*top).min(all.saturating_sub(lines));
    *top..(*top + lines).min(all)
}

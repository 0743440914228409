//! The state of the picker: keys and replies in, requests and an outcome out.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use crossterm::event::KeyEvent;

use crate::filter::SessionFilter;
use crate::keys::{Focus, KeyAction, action};
use crate::listing::{ListItem, Listing};
use crate::messages::{Decision, Effect, Outcome, PickerOptions, Reply, Request};
use crate::query_line::{Edit, QueryLine};
use crate::resume::resume_command;
use crate::source::{PickableSession, SearchOutcome, Selection, TurnHit};
use crate::text::{clean, clean_line, columns};

/// Sessions that are asked for first: more than a screen has. All others follow.
const FIRST_SESSIONS: usize = 200;
/// Time after the last change of the query until turns are searched.
const DEBOUNCE: Duration = Duration::from_millis(120);
/// Minimum columns of a query that turns are searched for; one letter is in each.
const MIN_SEARCH_COLUMNS: usize = 2;

/// The state of the picker.
pub(crate) struct Picker {
    pub(crate) options: PickerOptions,
    pub(crate) query: QueryLine,
    pub(crate) focus: Focus,
    pub(crate) listing: Listing,
    pub(crate) filter: SessionFilter,
    /// The limit that sessions were asked for with last.
    asked_limit: Option<usize>,
    /// The limit of the reply that came last.
    loaded_limit: Option<usize>,
    /// Number of turns by session, `None` if they cannot be counted.
    pub(crate) turn_counts: HashMap<String, Option<u64>>,
    /// Sessions that are counted, or will be.
    counted: HashSet<String>,
    /// Sessions whose turns are to be counted: those on the screen.
    visible_sessions: Vec<String>,
    /// `true` if the screen has room for a preview.
    pub(crate) has_preview: bool,
    preview: Option<(Selection, Result<String, String>)>,
    preview_asked: Option<Selection>,
    pub(crate) preview_scroll: u16,
    /// The words that turns were searched for last.
    searched: String,
    changed_at: Duration,
    /// `true` if the query has changed since the sessions were filtered.
    is_outdated: bool,
    is_searching: bool,
    /// A note about the hits.
    pub(crate) search_note: Option<String>,
    /// A message until the next key.
    pub(crate) message: Option<String>,
    copied: Option<String>,
}

/// The preview of a session or turn.
pub(crate) struct Preview<'p> {
    pub(crate) item: ListItem<'p>,
    /// Its text or an error, once it is read.
    pub(crate) text: Option<Result<&'p str, &'p str>>,
}

impl Picker {
    /// Creates a picker; it has nothing yet.
    pub(crate) fn new(options: PickerOptions) -> Self {
        Self {
            query: QueryLine::new(&options.query),
            options,
            focus: Focus::default(),
            listing: Listing::default(),
            filter: SessionFilter::new(),
            asked_limit: None,
            loaded_limit: None,
            turn_counts: HashMap::new(),
            counted: HashSet::new(),
            visible_sessions: Vec::new(),
            has_preview: false,
            preview: None,
            preview_asked: None,
            preview_scroll: 0,
            searched: String::new(),
            changed_at: Duration::ZERO,
            is_outdated: false,
            is_searching: false,
            search_note: None,
            message: None,
            copied: None,
        }
    }

    /// Takes a key, `at` a time since the picker was started.
    pub(crate) fn key(&mut self, key: KeyEvent, at: Duration) -> Option<Effect> {
        let action = action(key, self.focus)?;
        self.message = None;
        if !matches!(action, KeyAction::Edit(_)) {
            self.refilter();
        }
        match action {
            KeyAction::Edit(edit) => self.edit(edit, at),
            KeyAction::Move(movement) => {
                let before = self.listing.selected();
                self.listing.move_selection(movement);
                if before != self.listing.selected() {
                    self.preview_scroll = 0;
                }
            }
            KeyAction::ScrollPreview(lines) => self.preview_scroll = self.preview_scroll.saturating_add_signed(lines),
            KeyAction::Focus(focus) => self.focus = focus,
            KeyAction::Show => return self.listing.selection().map(|selection| self.finish(Decision::Show(selection))),
            KeyAction::CopyResume => return self.copy_resume(),
            KeyAction::Export => return self.selected_id().map(|id| self.finish(Decision::Export(id))),
            KeyAction::Quit => return Some(self.finish(Decision::Quit)),
        }
        None
    }

    /// Takes text that was pasted. It is typed, whatever the focus is.
    pub(crate) fn paste(&mut self, text: &str, at: Duration) {
        self.message = None;
        self.focus = Focus::Query;
        self.query.paste(text);
        self.query_changed(at);
    }

    /// Returns the outcome of a decision.
    pub(crate) fn outcome(&self, decision: Decision) -> Outcome {
        Outcome { decision, copied: self.copied.clone() }
    }

    fn finish(&self, decision: Decision) -> Effect {
        Effect::Finish(self.outcome(decision))
    }

    fn edit(&mut self, edit: Edit, at: Duration) {
        if self.query.edit(edit) {
            self.query_changed(at);
        }
    }

    fn query_changed(&mut self, at: Duration) {
        self.changed_at = at;
        self.preview_scroll = 0;
        self.is_outdated = true;
        if self.words().is_none() {
            // The reply to an earlier search would be of other words.
            self.searched.clear();
            self.is_searching = false;
            self.search_note = None;
            self.listing.set_hits(Vec::new());
        }
    }

    /// Filters the sessions if the query has changed: once for all letters that were typed since the last screen.
    pub(crate) fn refilter(&mut self) {
        if std::mem::take(&mut self.is_outdated) {
            let fitting = self.filter.apply(self.query.text());
            self.listing.set_fitting(fitting, None);
        }
    }

    /// The words to search turns for.
    fn words(&self) -> Option<&str> {
        Some(self.query.text().trim()).filter(|words| columns(words) >= MIN_SEARCH_COLUMNS)
    }

    fn selected_id(&self) -> Option<String> {
        self.listing.selected_session_id().map(str::to_owned)
    }

    fn copy_resume(&mut self) -> Option<Effect> {
        let id = self.selected_id()?;
        let folder = self.listing.session(&id).and_then(|session| session.folder.as_deref());
        let Some(command) = resume_command(&id, folder, self.options.here.as_deref()) else {
            self.message = Some("this session has no id of the client, and cannot be resumed".to_owned());
            return None;
        };
        self.message = Some(format!("copied: {command}"));
        self.copied = Some(command.clone());
        Some(Effect::Copy(command))
    }

    /// Returns the work that is due, each once.
    pub(crate) fn requests(&mut self, at: Duration) -> Vec<Request> {
        self.refilter();
        let mut due = Vec::new();
        let limit = match (self.asked_limit, self.loaded_limit) {
            (None, _) => Some(FIRST_SESSIONS),
            (Some(FIRST_SESSIONS), Some(_)) if self.listing.sessions().len() >= FIRST_SESSIONS => Some(usize::MAX),
            _ => None,
        };
        if let Some(limit) = limit {
            self.asked_limit = Some(limit);
            due.push(Request::Sessions(limit));
        }
        let uncounted: Vec<String> = self.visible_sessions.drain(..).filter(|id| self.counted.insert(id.clone())).collect();
        if !uncounted.is_empty() {
            due.push(Request::TurnCounts(uncounted));
        }
        let selection = self.listing.selection();
        if self.has_preview && selection != self.preview_asked {
            due.extend(selection.clone().map(Request::Preview));
            self.preview_asked = selection;
        }
        if let Some(words) = self.words().filter(|words| *words != self.searched)
            && at >= self.changed_at + DEBOUNCE
        {
            self.searched = words.to_owned();
            self.is_searching = true;
            due.push(Request::Search(self.searched.clone()));
        }
        due
    }

    /// Takes the result of a request.
    pub(crate) fn receive(&mut self, reply: Reply) {
        match reply {
            Reply::Sessions(limit, Ok(sessions)) => {
                self.loaded_limit = Some(limit);
                self.set_sessions(sessions);
            }
            Reply::Sessions(limit, Err(error)) => {
                self.loaded_limit = Some(limit);
                self.message = Some(clean_line(&error));
            }
            Reply::TurnCount(session, turns) => {
                self.turn_counts.insert(session, turns);
            }
            Reply::Preview(selection, text) => {
                self.preview = Some((selection, text.map(|text| clean(&text)).map_err(|error| clean_line(&error))));
            }
            Reply::Found(words, found) if words == self.searched => {
                self.is_searching = false;
                match found {
                    Ok(found) => self.set_hits(found),
                    Err(error) => {
                        self.listing.set_hits(Vec::new());
                        self.message = Some(clean_line(&error));
                    }
                }
            }
            // Of words that have changed since.
            Reply::Found(..) => {}
        }
    }

    fn set_sessions(&mut self, sessions: Vec<PickableSession>) {
        self.refilter();
        let selected = self.listing.selection();
        let cleaned = |session: PickableSession| PickableSession { title: clean_line(&session.title), ..session };
        self.listing.set_sessions(sessions.into_iter().map(cleaned).collect());
        self.filter.set_sessions(self.listing.sessions());
        let fitting = self.filter.apply(self.query.text());
        self.listing.set_fitting(fitting, selected.as_ref());
    }

    fn set_hits(&mut self, found: SearchOutcome) {
        self.refilter();
        self.search_note = found.note.map(|note| clean_line(&note));
        let cleaned = |mut hit: TurnHit| {
            let snippet = clean_line(&hit.snippet);
            if snippet != hit.snippet {
                // They are places in the text as it was.
                hit.marks.clear();
                hit.snippet = snippet;
            }
            hit
        };
        self.listing.set_hits(found.hits.into_iter().map(cleaned).collect());
    }

    /// Notes what is on the screen: only that is counted and read.
    pub(crate) fn note_visible(&mut self, sessions: Vec<String>, has_preview: bool) {
        self.visible_sessions = sessions;
        self.has_preview = has_preview;
    }

    /// Returns what the preview shows: what is selected, or until the text of that is read, what was selected before. Else it would
    /// be empty for a moment after each key.
    pub(crate) fn preview(&self) -> Option<Preview<'_>> {
        let read = self.preview.as_ref().and_then(|(of, text)| {
            let text = text.as_deref().map_err(String::as_str);
            self.listing.find(of).map(|item| Preview { item, text: Some(text) })
        });
        read.or_else(|| Some(Preview { item: self.listing.find(&self.listing.selection()?)?, text: None }))
    }

    /// `true` until the first sessions are there.
    pub(crate) fn is_loading(&self) -> bool {
        self.loaded_limit.is_none()
    }

    /// `true` while turns are searched, or are about to be.
    pub(crate) fn is_searching(&self) -> bool {
        self.is_searching || self.words().is_some_and(|words| words != self.searched)
    }

    /// `true` if a reply or a due time is near: the loop looks more often then.
    pub(crate) fn is_waiting(&self) -> bool {
        let counts = self.counted.len() > self.turn_counts.len();
        let preview = self.has_preview && self.preview.as_ref().map(|(of, _)| of) != self.preview_asked.as_ref();
        self.asked_limit != self.loaded_limit || self.is_searching() || preview || counts
    }
}

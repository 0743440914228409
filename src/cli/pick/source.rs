//! The archive as the picker reads it.

use std::path::PathBuf;

use ctxbridge_archive::handle::{Reference, turn_digits};
use ctxbridge_archive::project::ProjectScope;
use ctxbridge_archive::search::{Filter, Hit, IndexingProgress, Mode, SearchError, SearchRequest, SearchResults, Searcher};
use ctxbridge_archive::store::{Session, Store, TurnSelection};
use ctxbridge_archive::{quote, recall, turn_text};
use ctxbridge_picker::{PickableSession, SearchOutcome, Selection, SessionSource, SessionSourceError, TurnHit, TurnSearch};

/// Maximum characters of a title.
const TITLE_CHARS: usize = 200;
/// Turns in the preview of a session.
const PREVIEW_TURNS: usize = 30;
/// Characters in the preview of a turn.
const PREVIEW_CHARS: usize = 20_000;
/// Maximum number of hits, and the number from which on they are enough without words that only begin so.
const MAX_HITS: usize = 50;
const ENOUGH_HITS: usize = 10;
/// Entries that one search indexes before: it should not keep the next one waiting.
const INDEXED_AT_ONCE: usize = 500;
/// Minimum letters of a word that is not complete.
const MIN_PREFIX_LETTERS: usize = 3;

/// Sessions of the archive.
pub(super) struct ArchiveSource {
    store: Box<dyn Store>,
    project: Option<ProjectScope>,
}

impl ArchiveSource {
    pub(super) fn new(store: Box<dyn Store>, project: Option<ProjectScope>) -> Self {
        Self { store, project }
    }

    fn session(&mut self, id: &str) -> Result<Session, SessionSourceError> {
        self.store.session(id)?.ok_or_else(|| "this session is no longer in the archive".into())
    }
}

impl SessionSource for ArchiveSource {
    fn sessions(&mut self, limit: usize) -> Result<Vec<PickableSession>, SessionSourceError> {
        let listed = |session: Session| PickableSession {
            title: quote::cut(&quote::line(session.title.as_deref().unwrap_or_default()), TITLE_CHARS),
            id: session.session,
            folder: session.folder,
            last_ms: session.last_ms,
        };
        Ok(self.store.sessions("", self.project.as_ref(), limit)?.into_iter().map(listed).collect())
    }

    fn turn_count(&mut self, session: &str) -> Result<u64, SessionSourceError> {
        let key = self.session(session)?.key;
        Ok(self.store.session_stats(key)?.most_turns())
    }

    fn preview(&mut self, of: &Selection) -> Result<String, SessionSourceError> {
        match of {
            Selection::Session(id) => self.newest_turns(id),
            Selection::Turn(handle) => self.turn(handle),
        }
    }
}

impl ArchiveSource {
    /// A line for each turn, the newest first: the title says how a session began.
    fn newest_turns(&mut self, session: &str) -> Result<String, SessionSourceError> {
        let key = self.session(session)?.key;
        let mut lines = Vec::new();
        for turn in self.store.turns(key, TurnSelection::Newest(PREVIEW_TURNS))? {
            let summary = turn_text::summary_or_reason(&mut *self.store, &turn)?;
            lines.push(format!("{:>4}  {}", turn.turn.index, quote::line(&summary)));
        }
        Ok(lines.join("\n"))
    }

    fn turn(&mut self, handle: &str) -> Result<String, SessionSourceError> {
        let text = match handle.parse::<Reference>() {
            Ok(Reference::Summary(entry)) => self.store.summary_of(entry)?.map(|(_, summary)| summary.text),
            _ => {
                let found = recall::find_turn(&mut *self.store, &turn_digits(handle).unwrap_or_default())?;
                found.map(|(turn, _)| turn_text::content(&mut *self.store, &turn)).transpose()?
            }
        };
        let text = text.ok_or("this turn is no longer in the archive")?;
        Ok(quote::cut(&quote::printable(quote::head(&text, PREVIEW_CHARS + 1)), PREVIEW_CHARS))
    }
}

/// Searches of the archive, by words alone: what is half typed means nothing yet.
pub(super) struct ArchiveSearch {
    store: Box<dyn Store>,
    project: Option<ProjectScope>,
    searcher: Searcher,
    folder: Option<String>,
    /// Entries that the index still lacked when it was last prepared.
    missing: Option<usize>,
}

impl ArchiveSearch {
    pub(super) fn new(store: Box<dyn Store>, project: Option<ProjectScope>, data: PathBuf) -> Self {
        let folder = std::env::current_dir().ok().map(|folder| folder.to_string_lossy().into_owned());
        Self { store, project, searcher: Searcher::new(data), folder, missing: None }
    }

    fn find(&mut self, query: &str) -> Result<SearchResults, SearchError> {
        self.find_with(query, &mut |_| {})
    }

    fn find_with(&mut self, query: &str, progress: &mut dyn FnMut(IndexingProgress)) -> Result<SearchResults, SearchError> {
        let request = SearchRequest {
            mode: Some(Mode::Lexical),
            filter: Filter { project: self.project.clone(), ..Filter::default() },
            limit: MAX_HITS,
            folder: self.folder.clone(),
            ..SearchRequest::new(query)
        };
        self.searcher.search(&mut *self.store, &request, INDEXED_AT_ONCE, progress)
    }
}

impl TurnSearch for ArchiveSearch {
    fn search(&mut self, words: &str) -> Result<SearchOutcome, SessionSourceError> {
        let mut found = self.find(words)?;
        if found.hits.len() < ENOUGH_HITS
            && let Some(prefix) = prefix(words)
        {
            let more = self.find(&prefix)?.hits;
            let new: Vec<Hit> = more.into_iter().filter(|hit| found.hits.iter().all(|there| !is_same(there, hit))).collect();
            found.hits.extend(new);
        }
        Ok(SearchOutcome {
            // One beside a hit has none of the words, and would look like a mistake.
            hits: found.hits.iter().filter(|hit| !hit.is_neighbor).take(MAX_HITS).map(turn_hit).collect(),
            note: found.notes.first().map(|note| quote::line(note)),
        })
    }

    fn prepare(&mut self) -> bool {
        let mut has_indexed = false;
        let mut note = |step| has_indexed |= matches!(step, IndexingProgress::Words(1.., _));
        if self.find_with("", &mut note).is_err() || !has_indexed {
            return false;
        }
        // Entries in cold storage that is not there stay missing, however often they are tried.
        let missing = self.searcher.backlog(&mut *self.store).map_or(0, |backlog| backlog.entries);
        let is_less = missing > 0 && self.missing.is_none_or(|before| missing < before);
        self.missing = Some(missing);
        is_less
    }
}

/// The query with any ending of its last word, if that is one that can have others.
fn prefix(words: &str) -> Option<String> {
    let is_letter = |character: char| character.is_lowercase() || character.is_uppercase();
    let last = words.rsplit(|character: char| !is_letter(character)).next()?;
    (last.chars().count() >= MIN_PREFIX_LETTERS && !words.contains('"')).then(|| format!("{words}*"))
}

fn is_same(one: &Hit, other: &Hit) -> bool {
    one.identity().0 == other.identity().0
}

fn turn_hit(hit: &Hit) -> TurnHit {
    let (handle, started_ms, session) = hit.identity();
    let mut shown = TurnHit { handle, started_ms, session: session.to_owned(), ..TurnHit::default() };
    let text = &hit.snippet.text;
    let mut end = 0;
    for mark in &hit.snippet.marks {
        shown.snippet += &visible(&text[end..mark.start]);
        let start = shown.snippet.len();
        shown.snippet += &visible(&text[mark.clone()]);
        shown.marks.push(start..shown.snippet.len());
        end = mark.end;
    }
    shown.snippet += &visible(&text[end..]);
    shown
}

/// Removes what a terminal would obey, and what hides text.
fn visible(text: &str) -> String {
    quote::printable(text).replace(['\n', '\t'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_is_being_typed_may_end_in_any_way() {
        assert_eq!(prefix("why retr").as_deref(), Some("why retr*"));
        assert_eq!(prefix("why re"), None);
        assert_eq!(prefix("max_retries 200"), None);
        assert_eq!(prefix("归档的会话"), None);
        assert_eq!(prefix("\"retry bud"), None);
    }
}

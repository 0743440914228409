//! `recall`

use rmcp::model::JsonObject;
use rmcp::schemars::JsonSchema;
use serde::Serialize;

use super::error::Failure;
use super::library::Opened;
use super::page;
use super::tools::Answer;
use super::{Library, NOTHING_YET, NOTICE, arguments, when};
use ctxbridge_archive::recall::{self, Reference};
use ctxbridge_archive::store::{Store, StoreError, StoredSummary, StoredTurn};
use ctxbridge_archive::{blocks, quote, words};
use ctxbridge_common::digest;

/// What a handle stands for.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
pub(super) struct Recalled {
    /// What all of this is.
    notice: &'static str,
    /// As it was asked for.
    handle: String,
    /// turn, text or summary.
    kind: &'static str,
    /// The session that it is of.
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<String>,
    /// The colleague who archived it; nobody where that is the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
    /// When it began.
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<String>,
    /// Characters of the whole.
    chars: usize,
    /// What else there is to know.
    notes: Vec<String>,
    /// The whole, or a page of it.
    pub text: String,
    /// For the next page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

/// What was found, before it is cut.
struct Whole {
    kind: &'static str,
    session: Option<String>,
    owner: Option<String>,
    at_ms: i64,
    text: String,
    is_ambiguous: bool,
}

pub(super) fn run(library: &mut Library, given: &JsonObject) -> Result<Answer, Failure> {
    let arguments: arguments::Recall = arguments::read(given)?;
    let reference = reference("handle", &arguments.handle)?;
    let chars = page::chars_of(arguments.max_tokens)?;
    page_of(library, &reference, chars, arguments.cursor.as_deref())
}

/// Reads a handle.
pub(super) fn reference(name: &str, handle: &str) -> Result<Reference, Failure> {
    handle.trim().parse().map_err(|error| Failure::argument(name, format!("{handle:?} is {error}")))
}

/// A page of what a handle stands for.
pub(super) fn page_of(
    library: &mut Library,
    reference: &Reference,
    chars: usize,
    cursor: Option<&str>,
) -> Result<Answer, Failure> {
    let mut opened = library.open()?;
    let whole = find(library, opened.as_mut(), reference)?;
    let text = quote::lines(&whole.text);
    // A turn may grow; then its pages do not belong together.
    let asked = format!("recall {reference} {}", digest::of_bytes(text.as_bytes()));
    let begin = page::begin(&asked, cursor)?;
    let rest = text.get(begin..).unwrap_or_default();

    let mut notes = opened.map_or_else(Vec::new, |opened| opened.notes);
    if whole.is_ambiguous {
        notes.push(format!("others have the handle {reference}, too; this is the newest"));
    }
    notes.push(format!(
        "what could be taken for tags is changed; `ctxbridge recall {reference}` in a shell prints the exact text"
    ));
    let mut recalled = Recalled {
        notice: NOTICE,
        handle: reference.to_string(),
        kind: whole.kind,
        session: whole.session.map(|session| quote::line(&session)),
        owner: whole.owner.map(|owner| quote::line(&owner)),
        time: when(whole.at_ms),
        chars: text.chars().count(),
        notes,
        text: String::new(),
        next_cursor: None,
    };
    let mut shown = head(&recalled, text[..begin].chars().count());
    let left = |used: usize| chars.saturating_sub(used);
    let piece = page::piece(rest, left(shown.chars().count()), left(page::json_chars(&recalled)));
    recalled.text = piece.to_owned();
    let end = begin + piece.len();
    recalled.next_cursor = (end < text.len()).then(|| page::cursor(&asked, end));
    shown.push_str(piece);
    page::foot(&mut shown, recalled.next_cursor.as_deref());
    Answer::new(shown, &recalled)
}

fn head(recalled: &Recalled, from: usize) -> String {
    let mut head = format!("{NOTICE}\n{}: {}", recalled.handle, recalled.kind);
    let session = recalled.session.as_ref().map(|session| format!("of session {session}"));
    let owner = recalled.owner.as_ref().map(|owner| format!("of {owner}"));
    for part in [&recalled.time, &session, &owner].into_iter().flatten() {
        head.push_str(&format!(" {part}"));
    }
    head.push_str(&format!(", {} characters", recalled.chars));
    if from > 0 {
        head.push_str(&format!(", from character {from} on"));
    }
    for note in &recalled.notes {
        head.push_str(&format!("\nNote: {note}"));
    }
    head + "\n\n"
}

fn find(library: &Library, opened: Option<&mut Opened>, reference: &Reference) -> Result<Whole, Failure> {
    let missing = |is_archived: bool| {
        let why = if is_archived { "`ctxbridge archive import` archives what the client has" } else { NOTHING_YET };
        Failure::Missing(format!("nothing has the handle {reference}; {why}"))
    };
    let is_archived = opened.is_some();
    let store = opened.map(|opened| &mut *opened.store);
    match (reference, store) {
        (Reference::Text(handle), store) => {
            let archived = || store.map_or(Ok(None), |store| blocks::in_archive(handle, store));
            let original = recall::text::<StoreError>(handle, library.folder(), archived)?;
            let original = original.ok_or_else(|| missing(is_archived))?;
            let (session, is_ambiguous) = (original.session, original.is_ambiguous);
            Ok(Whole { kind: "text", session, owner: None, at_ms: 0, text: original.text, is_ambiguous })
        }
        (Reference::TeamSummary(_), _) => elsewhere(library, reference)?.ok_or_else(|| missing(is_archived)),
        (_, store) => match store.map_or(Ok(None), |store| in_store(store, reference))? {
            Some(whole) => Ok(whole),
            None => elsewhere(library, reference)?.ok_or_else(|| missing(is_archived)),
        },
    }
}

/// A turn or a summary of an archive.
fn in_store(store: &mut dyn Store, reference: &Reference) -> Result<Option<Whole>, StoreError> {
    match reference {
        Reference::Turn(digits) => {
            let Some((turn, is_ambiguous)) = recall::turn(store, digits)? else { return Ok(None) };
            let text = words::content(store, &turn)?;
            let StoredTurn { session, owner, .. } = turn;
            Ok(Some(Whole { kind: "turn", at_ms: turn.turn.started_ms, session: Some(session), owner, text, is_ambiguous }))
        }
        Reference::Summary(entry) | Reference::TeamSummary(entry) => Ok(store.summary_of(*entry)?.map(|(session, summary)| {
            let StoredSummary { text, at_ms, owner, .. } = summary;
            Whole { kind: "summary", session: Some(session), owner, at_ms, text, is_ambiguous: false }
        })),
        Reference::Text(_) => Ok(None),
    }
}

/// The same on the team's server, where there is one. What an entry here is called is another one there.
fn elsewhere(library: &Library, reference: &Reference) -> Result<Option<Whole>, Failure> {
    let Some(remote) = library.remote().filter(|_| !matches!(reference, Reference::Summary(_))) else { return Ok(None) };
    let wanted = reference.clone();
    remote
        .look_up(move |store| Ok(in_store(store, &wanted)?))
        .map_err(|why| Failure::Missing(format!("{reference} is not here, and the team's server was not asked: {why}")))
}

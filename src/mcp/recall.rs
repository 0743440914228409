//! `recall`

use rmcp::model::JsonObject;
use rmcp::schemars::JsonSchema;
use serde::Serialize;

use super::answer::ToolAnswer;
use super::error::ToolError;
use super::library::LibraryArchive;
use super::page;
use super::{Library, NOTHING_YET, NOTICE, arguments, when};
use ctxbridge_archive::message_range::{RangeError, RangeSearch};
use ctxbridge_archive::store::{StoreError, StoreReader, StoredSummary, StoredTurn};
use ctxbridge_archive::{handle::Reference, recall};
use ctxbridge_archive::{handle_lookup, quote, turn_text};
use ctxbridge_common::digest;

/// The output of the tool: the content behind a handle.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
pub(super) struct RecallOutput {
    /// The nature of this output.
    notice: &'static str,
    /// The handle, as given.
    handle: String,
    /// turn, text, messages or summary.
    kind: &'static str,
    /// The session that it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<String>,
    /// The colleague who archived it; none if that is the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
    /// Start time.
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<String>,
    /// Number of characters of the whole text.
    chars: usize,
    /// Notes on the result.
    notes: Vec<String>,
    /// The whole text, or a page of it.
    pub text: String,
    /// The cursor of the next page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

/// The content behind a handle, before it is cut into pages.
struct RecalledText {
    kind: &'static str,
    session: Option<String>,
    owner: Option<String>,
    at_ms: i64,
    text: String,
    is_ambiguous: bool,
    is_rewound: bool,
}

pub(super) fn run(library: &mut Library, given: &JsonObject) -> Result<ToolAnswer, ToolError> {
    let arguments: arguments::RecallArguments = arguments::read(given)?;
    let reference = reference("handle", &arguments.handle)?;
    let chars = page::budget_chars(arguments.max_tokens)?;
    page_of(library, &reference, chars, arguments.cursor.as_deref())
}

/// Parses a handle.
pub(super) fn reference(name: &str, handle: &str) -> Result<Reference, ToolError> {
    handle.trim().parse().map_err(|error| ToolError::invalid_argument(name, format!("{handle:?} is {error}")))
}

/// Returns a page of the content behind a handle.
pub(super) fn page_of(
    library: &mut Library,
    reference: &Reference,
    chars: usize,
    cursor: Option<&str>,
) -> Result<ToolAnswer, ToolError> {
    let mut opened = library.open()?;
    let whole = find(library, opened.as_mut(), reference)?;
    let text = quote::lines(&whole.text);
    // A turn may grow; then its pages do not belong together.
    let asked = format!("recall {reference} {}", digest::of_bytes(text.as_bytes()));
    let begin = page::page_start(&asked, cursor)?;
    let rest = text.get(begin..).unwrap_or_default();

    let mut notes = opened.map_or_else(Vec::new, |opened| opened.notes);
    if whole.is_rewound {
        notes.push("the conversation went back to before this turn, and on without it".to_owned());
    }
    if whole.is_ambiguous {
        notes.push(format!("others have the handle {reference}, too; this is the newest"));
    }
    notes.push(format!(
        "what could be taken for tags is changed; `ctxbridge recall {reference}` in a shell prints the exact text"
    ));
    let mut recalled = RecallOutput {
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
    let piece = page::fitting_prefix(rest, left(shown.chars().count()), left(page::json_chars(&recalled)));
    recalled.text = piece.to_owned();
    let end = begin + piece.len();
    recalled.next_cursor = (end < text.len()).then(|| page::cursor(&asked, end));
    shown.push_str(piece);
    page::foot(&mut shown, recalled.next_cursor.as_deref());
    ToolAnswer::new(shown, &recalled)
}

fn head(recalled: &RecallOutput, from: usize) -> String {
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
    page::add_notes(&mut head, &recalled.notes);
    head + "\n\n"
}

fn find(library: &Library, opened: Option<&mut LibraryArchive>, reference: &Reference) -> Result<RecalledText, ToolError> {
    let missing =
        |is_archived: bool| ToolError::NotFound(format!("nothing has the handle {reference}; {}", next_step(is_archived)));
    let is_archived = opened.is_some();
    let store = opened.map(|opened| &mut *opened.store);
    match (reference, store) {
        (Reference::Text(handle), store) => {
            let archived = || store.map_or(Ok(None), |store| handle_lookup::find_in_archive(handle, store));
            let original = recall::find_text::<StoreError>(handle, library.folder(), archived)?;
            let original = original.ok_or_else(|| missing(is_archived))?;
            let (session, is_ambiguous) = (original.session, original.is_ambiguous);
            Ok(RecalledText {
                kind: "text",
                session,
                owner: None,
                at_ms: 0,
                text: original.text,
                is_ambiguous,
                is_rewound: false,
            })
        }
        (Reference::Messages(range), store) => {
            let archived = |search: &mut RangeSearch<'_>| store.map_or(Ok(()), |store| search.search_archive(store));
            let original =
                recall::find_messages::<StoreError>(range, library.folder(), archived)?.map_err(|error| match error {
                    RangeError::Unknown { .. } => ToolError::NotFound(format!("{error}; {}", next_step(is_archived))),
                    error => ToolError::NotFound(error.to_string()),
                })?;
            let time = original.messages.first().and_then(|message| message.time.as_deref()?.parse().ok());
            Ok(RecalledText {
                kind: "messages",
                at_ms: time.map_or(0, jiff::Timestamp::as_millisecond),
                text: original.text(),
                session: original.session,
                owner: None,
                is_ambiguous: false,
                is_rewound: false,
            })
        }
        (Reference::TeamSummary(_), _) => find_on_team_server(library, reference)?.ok_or_else(|| missing(is_archived)),
        (_, store) => match store.map_or(Ok(None), |store| in_store(store, reference))? {
            Some(whole) => Ok(whole),
            None => find_on_team_server(library, reference)?.ok_or_else(|| missing(is_archived)),
        },
    }
}

/// Says what to do where nothing was found.
fn next_step(is_archived: bool) -> &'static str {
    if is_archived { "`ctxbridge archive import` archives what the client has" } else { NOTHING_YET }
}

/// Finds a turn or a summary in an archive.
fn in_store(store: &mut dyn StoreReader, reference: &Reference) -> Result<Option<RecalledText>, StoreError> {
    match reference {
        Reference::Turn(digits) => {
            let Some((turn, is_ambiguous)) = recall::find_turn(store, digits)? else { return Ok(None) };
            let text = turn_text::content(store, &turn)?;
            let StoredTurn { session, owner, is_rewound, .. } = turn;
            Ok(Some(RecalledText {
                kind: "turn",
                at_ms: turn.turn.started_ms,
                session: Some(session),
                owner,
                text,
                is_ambiguous,
                is_rewound,
            }))
        }
        Reference::Summary(entry) | Reference::TeamSummary(entry) => Ok(store.summary_of(*entry)?.map(|(session, summary)| {
            let StoredSummary { text, at_ms, owner, .. } = summary;
            RecalledText { kind: "summary", session: Some(session), owner, at_ms, text, is_ambiguous: false, is_rewound: false }
        })),
        Reference::Text(_) | Reference::Messages(_) => Ok(None),
    }
}

/// Finds the same on the team's server, if there is one. Summaries of this machine are left out, since the server has other entry
/// ids.
fn find_on_team_server(library: &Library, reference: &Reference) -> Result<Option<RecalledText>, ToolError> {
    let Some(remote) = library.remote().filter(|_| !matches!(reference, Reference::Summary(_))) else { return Ok(None) };
    let wanted = reference.clone();
    remote
        .look_up(move |store| Ok(in_store(store, &wanted)?))
        .map_err(|why| ToolError::NotFound(format!("{reference} is not here, and the team's server was not asked: {why}")))
}

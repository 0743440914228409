//! Sessions and turns as resources, for clients that let a user choose one.

use rmcp::model::{ListResourceTemplatesResult, ListResourcesResult, Resource, ResourceContents, ResourceTemplate};

use super::error::ToolError;
use super::library::Library;
use super::session::SessionItem;
use super::timeline::TimelineRange;
use super::{page, recall, timeline};

/// Start of a session's URI.
const SESSION_URI: &str = "ctxbridge://session/";
/// Start of the URI of a turn, or of anything else with a handle.
const TURN_URI: &str = "ctxbridge://turn/";

/// Number of sessions on a page of the list.
const SESSIONS_PER_PAGE: usize = 50;

const MIME_TYPE: &str = "text/plain";

/// Lists the newest sessions.
pub(super) fn list(library: &Library, cursor: Option<&str>) -> Result<ListResourcesResult, ToolError> {
    const ASKED: &str = "resources";
    let begin = page::page_start(ASKED, cursor)?;
    let mut resources = Vec::new();
    let mut next = None;
    if let Some(mut opened) = library.open()? {
        let mut sessions = opened.store.sessions("", None, begin.saturating_add(SESSIONS_PER_PAGE + 1))?;
        if sessions.len() > begin + SESSIONS_PER_PAGE {
            sessions.truncate(begin + SESSIONS_PER_PAGE);
            next = Some(page::cursor(ASKED, begin + SESSIONS_PER_PAGE));
        }
        for session in sessions.iter().skip(begin) {
            let facts = SessionItem::of(&mut *opened.store, session)?;
            let title = [facts.project.as_deref(), facts.last.as_deref()].into_iter().flatten().collect::<Vec<_>>().join(" ");
            let line = facts.line();
            let uri = format!("{SESSION_URI}{}", facts.session);
            resources.push(
                Resource::new(uri, facts.session)
                    .with_title(title)
                    .with_description(line.trim_start_matches("- ").to_owned())
                    .with_mime_type(MIME_TYPE),
            );
        }
    }
    let mut listed = ListResourcesResult::with_all_items(resources);
    listed.next_cursor = next;
    Ok(listed)
}

/// Templates of the URIs of sessions and turns.
pub(super) fn templates() -> ListResourceTemplatesResult {
    let session = ResourceTemplate::new(format!("{SESSION_URI}{{id}}"), "session")
        .with_title("Session")
        .with_description("What is known of a session, and its turns; the begin of its id is enough")
        .with_mime_type(MIME_TYPE);
    let turn = ResourceTemplate::new(format!("{TURN_URI}{{handle}}"), "turn")
        .with_title("Turn")
        .with_description("A turn in full, by its handle, such as ctx:1a2b3c4d")
        .with_mime_type(MIME_TYPE);
    ListResourceTemplatesResult::with_all_items(vec![session, turn])
}

/// Reads a resource, cut to the largest budget.
pub(super) fn read(library: &mut Library, uri: &str) -> Result<ResourceContents, ToolError> {
    // What fills a template may escape the colon of a handle.
    let plain = uri.replace("%3A", ":").replace("%3a", ":");
    let chars = page::budget_chars(Some(page::MAX_RESULT_TOKENS))?;
    let answer = if let Some(id) = plain.strip_prefix(SESSION_URI) {
        timeline::page_of(library, ("uri", id), TimelineRange::default(), chars, (0, ""))?
    } else if let Some(handle) = plain.strip_prefix(TURN_URI) {
        recall::page_of(library, &recall::reference("uri", handle)?, chars, None)?
    } else {
        return Err(ToolError::invalid_argument("uri", format!("{uri:?} is neither {SESSION_URI}ID nor {TURN_URI}HANDLE")));
    };
    let is_cut = answer.value.get("next_cursor").is_some();
    let mut text = answer.text;
    if is_cut {
        // A resource has no pages.
        text.truncate(text.rfind("\n\n").unwrap_or(text.len()));
        text.push_str("\n\nThis is not all of it; the tools `recall` and `timeline` have pages.");
    }
    Ok(ResourceContents::text(text, uri).with_mime_type(MIME_TYPE))
}

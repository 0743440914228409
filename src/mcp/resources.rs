//! Sessions and turns as resources, for clients that let a user pick or name one.

use rmcp::model::{ListResourceTemplatesResult, ListResourcesResult, Resource, ResourceContents, ResourceTemplate};

use super::error::Failure;
use super::library::Library;
use super::session::Facts;
use super::timeline::Part;
use super::{page, recall, timeline};

/// Where a session is.
const SESSION: &str = "ctxbridge://session/";
/// Where a turn is, or what else has a handle.
const TURN: &str = "ctxbridge://turn/";

/// Sessions on a page of the list.
const LISTED: usize = 50;

const MIME_TYPE: &str = "text/plain";

/// The newest sessions.
pub(super) fn list(library: &Library, cursor: Option<&str>) -> Result<ListResourcesResult, Failure> {
    const ASKED: &str = "resources";
    let begin = page::begin(ASKED, cursor)?;
    let mut resources = Vec::new();
    let mut next = None;
    if let Some(mut opened) = library.open()? {
        let mut sessions = opened.store.sessions("", None, begin.saturating_add(LISTED + 1))?;
        if sessions.len() > begin + LISTED {
            sessions.truncate(begin + LISTED);
            next = Some(page::cursor(ASKED, begin + LISTED));
        }
        for session in sessions.iter().skip(begin) {
            let facts = Facts::of(&mut *opened.store, session)?;
            let title = [facts.project.as_deref(), facts.last.as_deref()].into_iter().flatten().collect::<Vec<_>>().join(" ");
            let line = facts.line();
            let uri = format!("{SESSION}{}", facts.session);
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

/// How sessions and turns are named.
pub(super) fn templates() -> ListResourceTemplatesResult {
    let session = ResourceTemplate::new(format!("{SESSION}{{id}}"), "session")
        .with_title("Session")
        .with_description("What is known of a session, and its turns; the begin of its id is enough")
        .with_mime_type(MIME_TYPE);
    let turn = ResourceTemplate::new(format!("{TURN}{{handle}}"), "turn")
        .with_title("Turn")
        .with_description("A turn in full, by its handle, such as ctx:1a2b3c4d")
        .with_mime_type(MIME_TYPE);
    ListResourceTemplatesResult::with_all_items(vec![session, turn])
}

/// One of them, as far as the largest budget reaches.
pub(super) fn read(library: &mut Library, uri: &str) -> Result<ResourceContents, Failure> {
    // What fills a template may escape the colon of a handle.
    let plain = uri.replace("%3A", ":").replace("%3a", ":");
    let chars = page::chars_of(Some(page::MOST_TOKENS))?;
    let answer = if let Some(id) = plain.strip_prefix(SESSION) {
        timeline::page_of(library, ("uri", id), Part::default(), chars, (0, ""))?
    } else if let Some(handle) = plain.strip_prefix(TURN) {
        recall::page_of(library, &recall::reference("uri", handle)?, chars, None)?
    } else {
        return Err(Failure::argument("uri", format!("{uri:?} is neither {SESSION}ID nor {TURN}HANDLE")));
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

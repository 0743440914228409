/*!
Placeholders of a pruned request in what the model is about to write.

A folded request has digests in place of messages. A model that takes one for the text itself would write it into a file, and nobody
may notice. So the first such call is denied, with what to do instead. The same text again is let through: somebody may mean it, as
whoever works on ctxbridge.
*/

use memchr::memmem;
use serde_json::Value;

use super::HookContext;
use super::recall_history::AlreadyRecalled;
use ctxbridge_common::digest;
use ctxbridge_prune::reference::MARKER;
use ctxbridge_prune::{DIGEST_BEGIN, Handle, RangeHandle};

/// Tools that write files.
const WRITERS: [&str; 4] = ["Write", "Edit", "MultiEdit", "NotebookEdit"];

/// Start of all placeholders.
const BEGIN: &str = "[earlier context ";
/// Text before the handle of the others, and their end.
const BEFORE_HANDLE: &str = ", recall ";
const END: char = ']';

/// Returns the reason to deny a call that writes a placeholder, if it is the first of this text in the session.
pub(super) fn reason_to_deny(context: &HookContext) -> Option<String> {
    let tool = context.input.tool.as_deref().filter(|tool| WRITERS.contains(tool))?;
    let placeholder = written_by(&context.input.tool_input)?;
    // What cannot be remembered would be denied forever.
    let session = context.input.session.as_deref()?;
    let texts: Vec<&str> = new_texts(&context.input.tool_input).map(|(_, new)| new).collect();
    let key = format!("written:{}", digest::of_bytes(texts.join("\0").as_bytes()));
    let mut denied = AlreadyRecalled::of(&context.data, session);
    if denied.has_any(std::slice::from_ref(&key)) || !denied.add([key]) {
        return None;
    }
    Some(placeholder.reason(tool))
}

/// A placeholder.
#[derive(Debug, PartialEq, Eq)]
enum Placeholder<'t> {
    /// The header of a digest or what is behind the start of a long prompt, and the handle.
    Folded(&'t str, &'t str),
    /// End of a text whose rest the reference policy cut.
    Cut,
}

impl Placeholder<'_> {
    fn text(&self) -> &str {
        match self {
            Self::Folded(text, _) => text,
            Self::Cut => MARKER.trim_start(),
        }
    }

    fn reason(&self, tool: &str) -> String {
        let text = self.text();
        let original = match self {
            Self::Folded(_, handle) => format!(
                "Get the original with the tool `recall` of the MCP server ctxbridge, handle `{handle}`, or with \
                 `ctxbridge recall {handle}` in a shell."
            ),
            Self::Cut => {
                "Find the original with the tool `search` of the MCP server ctxbridge, or with `ctxbridge recall WORDS` in a \
                          shell, where WORDS are some of its words."
                    .to_owned()
            }
        };
        format!(
            "ctxbridge: the text to write has `{text}` in it. That is a placeholder of ctxbridge for earlier messages, which are no longer in \
             this request; it is not part of the text. {original} Then call {tool} with the full text. Nothing was written. If the placeholder \
             is meant to be in the file, make the same call again."
        )
    }
}

/// The first placeholder in what a call adds.
fn written_by(input: &Value) -> Option<Placeholder<'_>> {
    new_texts(input).find_map(|(old, new)| {
        // What stays in the file is not written into it.
        placeholders_in(new).find(|found| !old.contains(found.text()))
    })
}

/// The texts that a call writes, each with the one it is in place of.
fn new_texts(input: &Value) -> impl Iterator<Item = (&str, &str)> {
    fn text<'v>(value: &'v Value, name: &str) -> Option<&'v str> {
        value.get(name)?.as_str()
    }
    fn edit(value: &Value) -> Option<(&str, &str)> {
        Some((text(value, "old_string").unwrap_or_default(), text(value, "new_string")?))
    }
    let whole = ["content", "new_source"].into_iter().filter_map(move |name| Some(("", text(input, name)?)));
    let edits = input.get("edits").and_then(Value::as_array).into_iter().flatten().filter_map(edit);
    whole.chain(edit(input)).chain(edits)
}

fn placeholders_in(text: &str) -> impl Iterator<Item = Placeholder<'_>> {
    memmem::find_iter(text.as_bytes(), BEGIN).filter_map(|at| {
        let rest = &text[at..];
        if rest.starts_with(MARKER.trim_start()) {
            return Some(Placeholder::Cut);
        }
        let header = &rest[..=rest.find([END, '\n']).filter(|_| rest.starts_with(DIGEST_BEGIN))?];
        let (_, handle) = header.strip_suffix(END)?.split_once(BEFORE_HANDLE)?;
        let is_handle = handle.parse::<RangeHandle>().is_ok() || handle.parse::<Handle>().is_ok();
        is_handle.then_some(Placeholder::Folded(header, handle))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const HEADER: &str = "[earlier context folded: 14 steps, recall ctx:1a2b3c4d..5e6f7a8b]";

    fn found(input: &Value) -> Option<String> {
        written_by(input).map(|found| found.reason("Write"))
    }

    #[test]
    fn a_placeholder_is_found_in_whatever_is_written() {
        let text = format!("fn a() {{}}\n{HEADER}\n- Read a.rs");
        for input in [
            json!({ "file_path": "a.rs", "content": text }),
            json!({ "file_path": "a.rs", "old_string": "b", "new_string": text }),
            json!({ "edits": [{ "old_string": "b", "new_string": "c" }, { "old_string": "d", "new_string": text }] }),
            json!({ "notebook_path": "a.ipynb", "new_source": text }),
        ] {
            let reason = found(&input).unwrap_or_else(|| panic!("{input}"));
            assert!(reason.contains(HEADER) && reason.contains("`ctxbridge recall ctx:1a2b3c4d..5e6f7a8b`"), "{reason}");
        }
        let rest = "[earlier context folded: the rest of 70000 characters, recall ctx:1a2b3c4d.0]";
        let reason = found(&json!({ "content": format!("The log\n{rest}") })).expect("a placeholder");
        assert!(reason.contains(rest) && reason.contains("`ctxbridge recall ctx:1a2b3c4d.0`"), "{reason}");
        let cut = found(&json!({ "content": format!("The port is{MARKER}") })).expect("a placeholder");
        assert!(cut.contains("`[earlier context pruned]`") && cut.contains("`ctxbridge recall WORDS`"), "{cut}");
    }

    #[test]
    fn anything_else_is_written() {
        for text in [
            "",
            "[earlier context folded: ",
            "[earlier context folded: 14 steps]",
            "[earlier context folded: 14 steps, recall ctx:1a2b3c4d..]",
            "[earlier context folded: 14 steps,\n recall ctx:1a2b3c4d..5e6f7a8b]",
            "[earlier context é",
            "earlier context pruned",
        ] {
            assert_eq!(found(&json!({ "content": text })), None, "{text}");
        }
        assert_eq!(
            found(&json!({ "old_string": format!("a {HEADER}"), "new_string": format!("b {HEADER}") })),
            None,
            "it was there"
        );
        let both = json!({ "old_string": HEADER, "new_string": format!("{HEADER}{MARKER}") });
        assert!(found(&both).is_some_and(|reason| reason.contains("[earlier context pruned]")));
        assert_eq!(found(&json!({ "old_string": HEADER, "new_string": "", "replace_all": true })), None);
        for input in [json!(null), json!([]), json!({ "content": 1, "edits": [{}, 1] })] {
            assert_eq!(found(&input), None, "{input}");
        }
    }
}

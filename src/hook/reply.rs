//! Reply of a hook to the client.

use serde_json::{Map, Value, json};

use super::Event;

/// Reply of a hook; empty by default.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HookReply {
    /// Text for the model. It costs tokens in every later request.
    pub context: Option<String>,
    /// Line for the user, which the model does not see.
    pub notice: Option<String>,
    /// Instructions for the summary of a compaction.
    pub instructions: Option<String>,
    /// Replacement for the input of a tool. It grants no permission: the client asks as usual.
    pub tool_input: Option<Value>,
    /// Reason to deny the call of a tool, which the model is given.
    pub deny: Option<String>,
    /// Reason to block the event.
    pub block: Option<String>,
}

/// Reply in the form that the client reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Printed {
    /// Text for stdout.
    pub stdout: String,
    /// Text for stderr.
    pub stderr: String,
    /// Exit code: 0, or 2 to block.
    pub exit: u8,
}

impl HookReply {
    /// Creates a reply with a notice only.
    pub fn notice(text: impl Into<String>) -> Self {
        Self { notice: Some(text.into()), ..Self::default() }
    }

    /// Adds a line for the user.
    pub fn tell(&mut self, text: &str) {
        match &mut self.notice {
            Some(notice) => {
                notice.push('\n');
                notice.push_str(text);
            }
            None => self.notice = Some(text.to_owned()),
        }
    }

    /// Formats the reply for an event. Instructions are plain text, so they leave no place for a notice.
    pub fn print(&self, event: Event) -> Printed {
        if let Some(reason) = &self.block {
            return Printed { stderr: format!("{reason}\n"), exit: 2, ..Printed::default() };
        }
        if let Some(instructions) = &self.instructions {
            return Printed { stdout: format!("{instructions}\n"), ..Printed::default() };
        }
        let mut object = Map::new();
        let specific = [
            ("additionalContext", self.context.as_ref().map(|text| json!(text))),
            ("updatedInput", self.tool_input.clone()),
            ("permissionDecision", self.deny.as_ref().map(|_| json!("deny"))),
            ("permissionDecisionReason", self.deny.as_ref().map(|reason| json!(reason))),
        ];
        let specific: Vec<_> = specific.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect();
        if !specific.is_empty() {
            let name = ("hookEventName".to_owned(), json!(event.name()));
            object.insert("hookSpecificOutput".into(), Value::Object([name].into_iter().chain(specific).collect()));
        }
        if let Some(notice) = &self.notice {
            object.insert("systemMessage".into(), json!(notice));
        }
        let stdout = if object.is_empty() { String::new() } else { format!("{}\n", Value::Object(object)) };
        Printed { stdout, ..Printed::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_nothing() {
        assert_eq!(HookReply::default().print(Event::Stop), Printed::default());
    }

    #[test]
    fn each_thing_goes_where_the_client_looks_for_it() {
        let mut reply = HookReply { context: Some("a \"b\"".into()), ..HookReply::default() };
        reply.tell("c");
        reply.tell("d");
        let expected = "{\"hookSpecificOutput\":{\"hookEventName\":\"SessionStart\",\"additionalContext\":\"a \\\"b\\\"\"},\"systemMessage\":\"c\\nd\"}\n";
        assert_eq!(reply.print(Event::SessionStart), Printed { stdout: expected.into(), ..Printed::default() });
        let tool_input = Some(json!({ "prompt": "a" }));
        let expected = "{\"hookSpecificOutput\":{\"hookEventName\":\"PreToolUse\",\"updatedInput\":{\"prompt\":\"a\"}}}\n";
        assert_eq!(HookReply { tool_input, ..HookReply::default() }.print(Event::PreToolUse).stdout, expected);
        let denied = HookReply { deny: Some("no".into()), ..HookReply::default() };
        let expected = "{\"hookSpecificOutput\":{\"hookEventName\":\"PreToolUse\",\"permissionDecision\":\"deny\",\"permissionDecisionReason\":\"no\"}}\n";
        assert_eq!(denied.print(Event::PreToolUse).stdout, expected);
        let blocked = HookReply { block: Some("no".into()), instructions: Some("x".into()), ..HookReply::default() };
        assert_eq!(blocked.print(Event::PreCompact), Printed { stderr: "no\n".into(), exit: 2, ..Printed::default() });
        let told = HookReply { instructions: Some("x".into()), notice: Some("y".into()), ..HookReply::default() };
        assert_eq!(told.print(Event::PreCompact), Printed { stdout: "x\n".into(), ..Printed::default() });
    }
}

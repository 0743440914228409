//! Redaction of secrets in a conversation.

use rayon::prelude::*;

use super::conversation::{
    Agent, BlockPlaceholder, ExportedConversation, ExportedMessage, MessageBody, MessagePart, ToolOutcome,
};
use ctxbridge_redact::{RedactionCounts, Redactor};

impl ExportedConversation {
    /// Removes the secrets from every text, and returns their number by rule.
    pub fn redact(&mut self, redactor: &Redactor) -> RedactionCounts {
        let mut own = RedactionPass { redactor, found: RedactionCounts::new() };
        own.messages(&mut self.before);
        self.agents.iter_mut().for_each(|agent| own.agent(agent));
        self.folder.iter_mut().for_each(|folder| own.text(folder));
        self.title.iter_mut().for_each(|title| own.text(title));
        let of_turns = self.turns.par_iter_mut().map(|turn| {
            let mut pass = RedactionPass { redactor, found: RedactionCounts::new() };
            pass.messages(&mut turn.messages);
            // The hash of a text tells a short secret in it.
            if !pass.found.is_empty() {
                turn.content_sha256 = None;
            }
            turn.files.iter_mut().for_each(|file| pass.text(file));
            pass.found
        });
        for found in of_turns.collect::<Vec<_>>() {
            own.add(found);
        }
        own.found
    }
}

struct RedactionPass<'r> {
    redactor: &'r Redactor,
    found: RedactionCounts,
}

impl RedactionPass<'_> {
    fn add(&mut self, found: RedactionCounts) {
        for (rule, count) in found {
            *self.found.entry(rule).or_default() += count;
        }
    }

    fn text(&mut self, text: &mut String) {
        let redacted = self.redactor.redact(text);
        if !redacted.found.is_empty() {
            let (clean, found) = (redacted.text.into_owned(), redacted.found);
            *text = clean;
            self.add(found);
        }
    }

    fn messages(&mut self, messages: &mut [ExportedMessage]) {
        for message in messages {
            match &mut message.body {
                MessageBody::Prompt(parts) | MessageBody::Answer(parts) | MessageBody::Note(parts) => self.parts(parts),
                MessageBody::Thinking(text) | MessageBody::Summary(text) => self.text(text),
                MessageBody::Result(outcome) => self.outcome(outcome),
                MessageBody::Agent(agent) => self.agent(agent),
                MessageBody::Call(call) => {
                    self.text(&mut call.tool);
                    let found = self.redactor.redact_json(&mut call.input);
                    self.add(found);
                    call.outcome.iter_mut().for_each(|outcome| self.outcome(outcome));
                    call.agents.iter_mut().for_each(|agent| self.agent(agent));
                }
            }
        }
    }

    fn parts(&mut self, parts: &mut [MessagePart]) {
        for part in parts {
            match part {
                MessagePart::Text(text) => self.text(text),
                MessagePart::Other(BlockPlaceholder { kind, media, .. }) => {
                    self.text(kind);
                    media.iter_mut().for_each(|media| self.text(media));
                }
            }
        }
    }

    fn outcome(&mut self, outcome: &mut ToolOutcome) {
        self.parts(&mut outcome.parts);
    }

    fn agent(&mut self, agent: &mut Agent) {
        self.messages(&mut agent.messages);
    }
}

//! A conversation without its secrets.

use rayon::prelude::*;

use super::conversation::{Agent, Body, Conversation, Message, Outcome, Part, StandIn};
use ctxbridge_redact::{Found, Redactor};

impl Conversation {
    /// Takes the secrets out of every text, and says how many there were by rule.
    pub fn redact(&mut self, redactor: &Redactor) -> Found {
        let mut own = Pass { redactor, found: Found::new() };
        own.messages(&mut self.before);
        self.agents.iter_mut().for_each(|agent| own.agent(agent));
        self.folder.iter_mut().for_each(|folder| own.text(folder));
        let of_turns = self.turns.par_iter_mut().map(|turn| {
            let mut pass = Pass { redactor, found: Found::new() };
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

struct Pass<'r> {
    redactor: &'r Redactor,
    found: Found,
}

impl Pass<'_> {
    fn add(&mut self, found: Found) {
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

    fn messages(&mut self, messages: &mut [Message]) {
        for message in messages {
            match &mut message.body {
                Body::Prompt(parts) | Body::Answer(parts) | Body::Note(parts) => self.parts(parts),
                Body::Thinking(text) | Body::Summary(text) => self.text(text),
                Body::Result(outcome) => self.outcome(outcome),
                Body::Agent(agent) => self.agent(agent),
                Body::Call(call) => {
                    self.text(&mut call.tool);
                    let found = self.redactor.redact_json(&mut call.input);
                    self.add(found);
                    call.outcome.iter_mut().for_each(|outcome| self.outcome(outcome));
                    call.agents.iter_mut().for_each(|agent| self.agent(agent));
                }
            }
        }
    }

    fn parts(&mut self, parts: &mut [Part]) {
        for part in parts {
            match part {
                Part::Text(text) => self.text(text),
                Part::Other(StandIn { kind, media, .. }) => {
                    self.text(kind);
                    media.iter_mut().for_each(|media| self.text(media));
                }
            }
        }
    }

    fn outcome(&mut self, outcome: &mut Outcome) {
        self.parts(&mut outcome.parts);
    }

    fn agent(&mut self, agent: &mut Agent) {
        self.messages(&mut agent.messages);
    }
}

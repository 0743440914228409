//! Reports of drift for people: the expected code, the progress of the match, and the present code.

use std::fmt::Write as _;

use super::{Attempt, AttemptOutcome, MissingSite};
use crate::container::Container;
use ctxbridge_syntax::Span;

/// Shows places of a client by line, column and a few characters.
pub struct Excerpts<'c> {
    container: &'c Container,
}

impl<'c> Excerpts<'c> {
    /// Creates excerpts of this client.
    pub fn of(container: &'c Container) -> Self {
        Self { container }
    }

    /// Explains in one paragraph why a site is missing.
    pub fn reason(&self, missing: &MissingSite) -> String {
        if missing.attempts.is_empty() {
            return "no signature is known for this version".to_owned();
        }
        missing.attempts.iter().map(|attempt| self.attempt(attempt)).collect::<Vec<_>>().join("; ")
    }

    fn attempt(&self, attempt: &Attempt) -> String {
        const SHOWN: usize = 3;
        let mut text = format!("signature `{}` ", attempt.signature);
        // Writing to a string cannot fail.
        let _ = match &attempt.outcome {
            AttemptOutcome::NoAnchor { words } => {
                let words = words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
                write!(text, "needs {words}, which the client does not contain")
            }
            AttemptOutcome::NoMatch { nearest: None } => write!(text, "matches nowhere"),
            AttemptOutcome::NoMatch { nearest: Some((module, nearest)) } => write!(
                text,
                "matches nowhere; the nearest try matched {} nodes of the pattern, then at {} expected {} and found `{}`",
                nearest.matched,
                self.place(*module, nearest.found),
                if nearest.expected.is_empty() { "the end".to_owned() } else { format!("`{}`", shorten(&nearest.expected)) },
                shorten(self.excerpt(*module, nearest.found)),
            ),
            AttemptOutcome::Rejected(places) => {
                let shown = places.iter().take(SHOWN);
                let shown =
                    shown.map(|(module, rejected)| format!("at {} {}", self.place(*module, rejected.span), rejected.reason));
                let more = if places.len() > SHOWN { format!(", and {} more", places.len() - SHOWN) } else { String::new() };
                write!(text, "matches {}, but {}{more}", times(places.len()), shown.collect::<Vec<_>>().join(", "))
            }
            AttemptOutcome::Several(places) => {
                let shown = places.iter().map(|(module, span)| self.place(*module, *span)).collect::<Vec<_>>().join(", ");
                write!(text, "matches {}, not once: at {shown}", times(places.len()))
            }
            AttemptOutcome::Needs(site) => write!(text, "needs the site {site}, which was not found"),
            AttemptOutcome::NoFunction(name) => write!(text, "needs a top-level function `{name}`, which no module declares"),
        };
        text
    }

    fn excerpt(&self, module: usize, span: Span) -> &'c str {
        let module = self.container.module(module).ok();
        module.and_then(|module| module.text.get(span.range())).unwrap_or_default()
    }

    /// `line:column`, and the module if there are several.
    fn place(&self, module: usize, span: Span) -> String {
        let Ok(module) = self.container.module(module) else { return String::new() };
        let (line, column) = module.position(span.lo);
        let short = module.name.rsplit('/').next().unwrap_or_default();
        if self.container.modules().len() > 1 { format!("{short}:{line}:{column}") } else { format!("{line}:{column}") }
    }
}

fn times(count: usize) -> String {
    match count {
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        count => format!("{count} times"),
    }
}

fn shorten(text: &str) -> String {
    const LONGEST: usize = 60;
    match text.char_indices().nth(LONGEST) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text.to_owned(),
    }
}

//! What may happen to a transcript between two looks at it.

use ctxbridge::archive::reader::CHECKED_BYTES;
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::json;

use super::lines::{boundary, calls, compact_summary, of_agent, result, says, user};

/// What happens to a file.
#[derive(Clone, Debug)]
pub enum Step {
    Append(Vec<Vec<u8>>),
    /// A part of a line; the rest comes with [`Step::Finish`], or never.
    AppendHalf(Vec<u8>, Index),
    Finish,
    /// That many lines at the end.
    TakeBack(usize),
    Truncate(Index),
    /// Other bytes in the middle, as many.
    Overwrite(Index, Vec<u8>),
    Replace(Vec<Vec<u8>>),
    /// Lines between others.
    Insert(Index, Vec<Vec<u8>>),
    Archive,
}

fn line() -> impl Strategy<Value = Vec<u8>> {
    // Few different ones, so that content repeats; some are large, so that files have several segments.
    let body = (0..9_u32, 0..6_u32, prop_oneof![4 => Just(0), 1 => Just(9_000), 1 => Just(70_000)]);
    let line = body.prop_map(|(kind, number, padding)| {
        let words = format!("Word {number}{}.", " and another".repeat(padding / 12));
        let line = match kind {
            0..=2 => user(number, words),
            3..=4 => says(number, &words),
            5 => calls(number, "Edit", json!({ "file_path": format!("/work/p/{number}.rs"), "new_string": words })),
            6 => result(number, words),
            7 => of_agent(says(number, &words)),
            _ if number == 0 => boundary(1),
            _ if number == 1 => compact_summary(number, "In short."),
            _ => json!({ "type": "mode", "n": number }),
        };
        line.to_string().into_bytes()
    });
    let body = prop_oneof![12 => line, 1 => Just(b"{\"type\":\"user\",".to_vec()), 1 => Just(Vec::new())];
    let end = prop_oneof![5 => Just(&b"\n"[..]), 1 => Just(&b"\r\n"[..])];
    (body, end).prop_map(|(mut body, end)| {
        body.extend_from_slice(end);
        body
    })
}

pub fn step() -> impl Strategy<Value = Step> {
    let lines = |most| proptest::collection::vec(line(), 0..most);
    prop_oneof![
        6 => lines(8).prop_map(Step::Append),
        2 => (line(), any::<Index>()).prop_map(|(line, at)| Step::AppendHalf(line, at)),
        2 => Just(Step::Finish),
        2 => (1..5_usize).prop_map(Step::TakeBack),
        1 => any::<Index>().prop_map(Step::Truncate),
        1 => (any::<Index>(), proptest::collection::vec(any::<u8>(), 1..9)).prop_map(|(at, bytes)| Step::Overwrite(at, bytes)),
        1 => lines(8).prop_map(Step::Replace),
        1 => (any::<Index>(), lines(3)).prop_map(|(at, lines)| Step::Insert(at, lines)),
        9 => Just(Step::Archive),
    ]
}

/// The file, and what the archive has to know of it.
#[derive(Default)]
pub struct Model {
    pub file: Vec<u8>,
    rest: Vec<u8>,
    /// What each generation was when it was archived last.
    pub generations: Vec<Vec<u8>>,
}

impl Model {
    pub fn change(&mut self, step: &Step) {
        match step {
            Step::Append(lines) => self.file.extend(lines.concat()),
            Step::AppendHalf(line, at) => {
                let at = at.index(line.len());
                self.file.extend_from_slice(&line[..at]);
                self.rest = line[at..].to_vec();
            }
            Step::Finish => self.file.append(&mut self.rest),
            Step::TakeBack(count) => {
                let ends = self.file.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
                let end = ends.filter(|end| *end < self.file.len()).nth(count - 1).unwrap_or(0);
                self.file.truncate(end);
            }
            Step::Truncate(at) => self.file.truncate(at.index(self.file.len() + 1)),
            Step::Overwrite(at, bytes) => {
                let at = at.index(self.file.len() + 1);
                self.file.iter_mut().skip(at).zip(bytes).for_each(|(old, new)| *old = *new);
            }
            Step::Replace(lines) => self.file = lines.concat(),
            Step::Insert(at, lines) => {
                let starts: Vec<usize> = (0..self.file.len()).filter(|at| *at == 0 || self.file[at - 1] == b'\n').collect();
                let at = if starts.is_empty() { 0 } else { starts[at.index(starts.len())] };
                self.file.splice(at..at, lines.concat());
            }
            Step::Archive => {}
        }
    }

    pub fn archived(&self) -> &[u8] {
        self.generations.last().map_or(&[], |bytes| bytes)
    }

    pub fn is_rewritten(&self) -> bool {
        !self.file.starts_with(self.archived())
    }

    /// Whether it can be seen at the end of what is archived.
    pub fn is_seen_at_the_end(&self) -> bool {
        let end = self.archived().len();
        let from = end.saturating_sub(CHECKED_BYTES as usize);
        self.file.get(from..end) != Some(&self.archived()[from..])
    }
}

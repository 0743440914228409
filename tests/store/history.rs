//! Whatever happens to a file between passes.

use ctxbridge::archive::ingest::archive_through;
use ctxbridge::archive::reader::{CHECKED_BYTES, Comparison};
use ctxbridge::archive::store::{StoredTurn, Transcript, Turns};
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::json;

use super::kinds::Kind;
use super::lines::{boundary, calls, compact_summary, of_agent, result, says, user};
use super::sound::{check_contents, fresh, restored};
use super::{Place, session};

on_every_store!(the_archive_is_what_the_file_was, an_answer_takes_the_place_of_a_prompt, half_a_prompt_becomes_something_else,);

const SESSION: &str = "s";

/// What happens to a file.
#[derive(Clone, Debug)]
enum Step {
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

fn step() -> impl Strategy<Value = Step> {
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
struct Model {
    file: Vec<u8>,
    rest: Vec<u8>,
    /// What each generation was when it was archived last.
    generations: Vec<Vec<u8>>,
}

impl Model {
    fn change(&mut self, step: &Step) {
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

    fn archived(&self) -> &[u8] {
        self.generations.last().map_or(&[], |bytes| bytes)
    }

    fn is_rewritten(&self) -> bool {
        !self.file.starts_with(self.archived())
    }

    /// Whether it can be seen at the end of what is archived.
    fn is_seen_at_the_end(&self) -> bool {
        let end = self.archived().len();
        let from = end.saturating_sub(CHECKED_BYTES as usize);
        self.file.get(from..end) != Some(&self.archived()[from..])
    }
}

/// All that is known of it but what is open: that list goes back before the place where the file was rewritten.
fn without_open_work(turns: impl IntoIterator<Item = ctxbridge::transcript::Turn>) -> Vec<ctxbridge::transcript::Turn> {
    turns
        .into_iter()
        .map(|mut turn| {
            turn.open_work.clear();
            turn
        })
        .collect()
}

fn check(kind: Kind, steps: &[Step], is_agent: bool) {
    let place = Place::new(kind);
    let mut store = place.open();
    let path = place.path("s.jsonl");
    let agent = is_agent.then(|| "a1".to_owned());
    let transcript = Transcript { path: path.to_string_lossy().into_owned(), session: SESSION.to_owned(), agent };
    let mut model = Model::default();
    for step in steps.iter().chain(&[Step::Archive]) {
        model.change(step);
        if !matches!(step, Step::Archive) {
            continue;
        }
        std::fs::write(&path, &model.file).unwrap();
        let is_rewritten = model.is_rewritten();
        let comparison = if !is_rewritten || model.is_seen_at_the_end() { Comparison::End } else { Comparison::Whole };
        let pass = archive_through(&mut *store, &transcript, &path, comparison, &mut |store, batch| store.append(batch)).unwrap();
        assert_eq!(pass.was_rewritten, is_rewritten);
        match model.generations.last_mut() {
            Some(last) if !is_rewritten => last.clone_from(&model.file),
            _ => model.generations.push(model.file.clone()),
        }
        let again =
            archive_through(&mut *store, &transcript, &path, Comparison::Whole, &mut |_, batch| panic!("{batch:?}")).unwrap();
        assert_eq!((again.bytes, again.turns, again.was_rewritten), (0, 0, false));

        let Some(session) = session(&mut *store, SESSION) else {
            assert!(model.generations.iter().all(Vec::is_empty));
            continue;
        };
        let stored = store.transcripts(session.key).unwrap();
        let [stored] = stored.as_slice() else { panic!("{stored:?}") };
        // A file that was empty when it was first looked at was not known before it had bytes.
        let skipped = model.generations.len() - 1 - stored.generation as usize;
        assert!(model.generations[..skipped].iter().all(Vec::is_empty));
        for (generation, bytes) in (0..).zip(&model.generations[skipped..]) {
            assert!(restored(&mut *store, stored.key, generation) == *bytes, "generation {generation}");
        }
        let current: Vec<StoredTurn> = match is_agent {
            true => store.turns(session.key, Turns::Agents).unwrap().into_iter().filter(|turn| !turn.is_superseded).collect(),
            false => store.turns(session.key, Turns::All).unwrap(),
        };
        let current = without_open_work(current.into_iter().map(|stored| stored.turn));
        assert_eq!(current, without_open_work(fresh(&model.file, is_agent)));
        check_contents(&mut *store, session.key);
        place.check_sound();
    }
}

fn the_archive_is_what_the_file_was(kind: Kind) {
    proptest!(kind.cases(96), |(
        steps in proptest::collection::vec(step(), 1..24), is_agent in proptest::bool::weighted(0.15)
    )| check(kind, &steps, is_agent));
}

fn lines(lines: &[serde_json::Value]) -> Vec<Vec<u8>> {
    lines.iter().map(|line| format!("{line}\n").into_bytes()).collect()
}

/// Enough for a segment that is not joined with what follows.
fn large(number: u32) -> serde_json::Value {
    says(number, "A long answer, ".repeat(10_000).trim_end())
}

fn an_answer_takes_the_place_of_a_prompt(kind: Kind) {
    // What stands where a segment and a turn begin is no prompt any more: it belongs to the turn before.
    check(
        kind,
        &[
            Step::Append(lines(&[user(1, "One."), large(2)])),
            Step::Archive,
            Step::Append(lines(&[user(3, "Two."), says(4, "Yes.")])),
            Step::Archive,
            Step::TakeBack(2),
            Step::Append(lines(&[says(3, "More on One."), user(4, "Two again.")])),
            Step::Archive,
        ],
        false,
    );
}

fn half_a_prompt_becomes_something_else(kind: Kind) {
    let prompt = &lines(&[user(3, "Two.")])[0];
    let half = prompt.len() / 2;
    check(
        kind,
        &[
            Step::Append(lines(&[user(1, "One."), large(2)])),
            Step::Append(vec![prompt[..half].to_vec()]),
            Step::Archive,
            Step::Append(vec![prompt[half..].to_vec()]),
            Step::Archive,
            Step::TakeBack(1),
            Step::Append(vec![prompt[..half].to_vec(), b"\n".to_vec()]),
            Step::Append(lines(&[says(4, "Still One.")])),
            Step::Archive,
        ],
        false,
    );
}

//! Whatever happens to a file between passes.

use ctxbridge::archive::ingest::ingest_with;
use ctxbridge::archive::reader::Comparison;
use ctxbridge::archive::store::{StoredTurn, Transcript, TurnSelection};
use proptest::prelude::*;

use super::changes::{Model, Step, step};
use super::kinds::Kind;
use super::lines::{says, user};
use super::sound::{check_contents, fresh, restored};
use super::{Place, session};

on_every_store!(
    the_archive_is_what_the_file_was,
    an_answer_takes_the_place_of_a_prompt,
    half_a_prompt_becomes_something_else,
    a_last_line_without_its_line_break_counts,
);

const SESSION: &str = "s";

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
    let transcript = Transcript { path: path.to_string_lossy().into_owned(), session: SESSION.to_owned(), part: agent.into() };
    let mut model = Model::default();
    for step in steps.iter().chain(&[Step::Archive]) {
        model.change(step);
        if !matches!(step, Step::Archive) {
            continue;
        }
        std::fs::write(&path, &model.file).unwrap();
        let is_rewritten = model.is_rewritten();
        let comparison = if !is_rewritten || model.is_seen_at_the_end() { Comparison::End } else { Comparison::Whole };
        let pass = ingest_with(&mut *store, &transcript, &path, comparison, &mut |store, batch| store.append(batch)).unwrap();
        assert_eq!(pass.was_rewritten, is_rewritten);
        match model.generations.last_mut() {
            Some(last) if !is_rewritten => last.clone_from(&model.file),
            _ => model.generations.push(model.file.clone()),
        }
        let again = ingest_with(&mut *store, &transcript, &path, Comparison::Whole, &mut |_, batch| panic!("{batch:?}")).unwrap();
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
            true => {
                store.turns(session.key, TurnSelection::Agents).unwrap().into_iter().filter(|turn| !turn.is_superseded).collect()
            }
            false => store.turns(session.key, TurnSelection::All).unwrap(),
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

fn a_last_line_without_its_line_break_counts(kind: Kind) {
    let [prompt, answer] = &lines(&[user(1, "One."), says(2, "Yes.")])[..] else { unreachable!() };
    for is_agent in [false, true] {
        let begin = [
            Step::Append(vec![prompt.clone()]),
            Step::Archive,
            Step::Append(vec![answer.trim_ascii_end().to_vec()]),
            Step::Archive,
        ];
        check(kind, &begin, is_agent);
        for end in [Step::Append(vec![b"\n".to_vec(), prompt.clone()]), Step::TakeBack(1)] {
            check(kind, &[&begin[..], &[end]].concat(), is_agent);
        }
    }
}

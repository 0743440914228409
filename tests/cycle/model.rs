//! The database does to its rows what the pure functions say of each, whatever happened before.

use std::collections::{BTreeMap, BTreeSet};

use ctxbridge::archive::maintenance::{
    ArchiveStats, EntryUsage, HotSetUsage, MaintenanceMode, MaintenancePlan, PruneDecision, RetentionSettings, SPARED_NEWEST,
    boosted, decayed, loss, plan, retention,
};
use ctxbridge_testkit::share_of;
use proptest::prelude::*;

use super::kinds::Kind;
use super::place::{DAY, HOUR, NOW, Place, content, usual};

on_every_store!(rows_are_as_the_rules_say, the_order_of_entries_does_not_matter);

const SESSIONS: usize = 3;

#[derive(Clone, Debug)]
enum Step {
    /// Turns of a session: their age in hours, and their contents. None of a content is of a time that is unknown.
    Add(usize, Vec<(i64, u32)>),
    /// A content is restored.
    Touch(u32),
    /// Turns at this place are kept, or kept no longer: their ids are the same in all sessions.
    Keep(u32, bool),
    /// A session ends.
    End(usize),
    /// A cycle, so many hours later.
    Cycle(i64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let turn = (prop_oneof![4 => 0..100 * 24_i64, 2 => 0..30_i64, 1 => -50..0_i64], 0..40_u32);
    let step = prop_oneof![
        4 => (0..SESSIONS, proptest::collection::vec(turn, 1..8)).prop_map(|(session, turns)| Step::Add(session, turns)),
        2 => (0..40_u32).prop_map(Step::Touch),
        1 => (0..12_u32, any::<bool>()).prop_map(|(index, is_kept)| Step::Keep(index, is_kept)),
        1 => (0..SESSIONS).prop_map(Step::End),
        4 => prop_oneof![5 => 0..200_i64, 1 => -100..0_i64, 1 => Just(130)].prop_map(Step::Cycle),
    ];
    proptest::collection::vec(step, 1..25)
}

/// An entry as it should be.
#[derive(Clone, Copy, Debug)]
struct Entry {
    confidence: f64,
    /// The confidence that it would have if nothing had ever happened to it.
    untouched: f64,
    access_count: u32,
    is_pruned: bool,
}

impl Entry {
    fn revive(&mut self) {
        if self.is_pruned {
            (self.is_pruned, self.confidence) = (false, self.untouched);
        }
    }
}

#[derive(Default)]
struct Model {
    entries: BTreeMap<u32, Entry>,
    /// Begin and content of each turn.
    turns: [Vec<(i64, u32)>; SESSIONS],
    ended_ms: [Option<i64>; SESSIONS],
    kept: BTreeSet<u32>,
}

impl Model {
    fn is_spared(&self, content: u32, plan: &MaintenancePlan) -> bool {
        (0..SESSIONS).any(|session| {
            let turns = &self.turns[session];
            let last_ms = turns.iter().map(|(at, _)| *at).filter(|at| *at > 0).max();
            let is_active = plan.is_active(last_ms, self.ended_ms[session]);
            let newest = turns.len().saturating_sub(SPARED_NEWEST);
            turns
                .iter()
                .enumerate()
                .any(|(index, turn)| turn.1 == content && (is_active || index >= newest || self.kept.contains(&(index as u32))))
        })
    }

    /// By confidence, by age.
    fn cycle(&mut self, plan: &MaintenancePlan) -> (u64, u64, u64) {
        let (mut decayed_count, mut by_confidence, mut by_age) = (0, 0, 0);
        for (content, entry) in self.entries.clone() {
            let begins: Vec<i64> = self.turns.iter().flatten().filter(|turn| turn.1 == content).map(|turn| turn.0).collect();
            let newest_ms = if begins.iter().all(|at| *at > 0) { begins.iter().copied().max().unwrap_or(0) } else { 0 };
            let Entry { confidence, access_count, .. } = entry;
            let verdict =
                plan.decide(&EntryUsage { confidence, access_count, newest_ms, is_spared: self.is_spared(content, plan) });
            let entry = self.entries.get_mut(&content).unwrap();
            decayed_count += u64::from(!entry.is_pruned && plan.loss > 0.0 && entry.confidence > 0.1 + 1e-9);
            entry.untouched = decayed(entry.untouched, plan.loss);
            entry.confidence = decayed(entry.confidence, plan.loss);
            if entry.is_pruned || verdict == PruneDecision::Keep {
                continue;
            }
            assert_eq!(entry.access_count, 0, "what was restored is never pruned");
            by_confidence += u64::from(verdict == PruneDecision::PruneByConfidence);
            by_age += u64::from(verdict == PruneDecision::PruneByAge);
            (entry.is_pruned, entry.confidence) = (true, 0.1);
        }
        (decayed_count, by_confidence, by_age)
    }
}

fn name(session: usize) -> String {
    format!("s{session}")
}

fn check(place: &mut Place, model: &Model) -> Result<(), TestCaseError> {
    for session in (0..SESSIONS).filter(|session| !model.turns[*session].is_empty()) {
        let turns = place.turns(&name(session));
        prop_assert_eq!(turns.len(), model.turns[session].len());
        for turn in &turns {
            let entry = model.entries[&content(turn)];
            prop_assert!((turn.confidence - entry.confidence).abs() < 1e-9, "{} is not {:?}", turn.confidence, entry);
            prop_assert_eq!((turn.is_pruned, turn.access_count), (entry.is_pruned, entry.access_count), "{}", content(turn));
            prop_assert_eq!(turn.is_pinned, model.kept.contains(&turn.turn.index));
        }
        let mut hot: Vec<u32> =
            model.turns[session].iter().map(|turn| turn.1).filter(|of| !model.entries[of].is_pruned).collect();
        hot.sort_unstable();
        prop_assert_eq!(place.candidates(&name(session)), hot);
    }
    let totals = place.store.totals().unwrap();
    let pruned = model.entries.values().filter(|entry| entry.is_pruned).count();
    prop_assert_eq!((totals.entries, totals.pruned), (model.entries.len() as u64, pruned as u64));
    Ok(())
}

fn rows_are_as_the_rules_say(kind: Kind) {
    proptest!(kind.cases(64), |(steps in steps())| {
        let (mut place, mut model, mut now, mut last) = (Place::new(kind), Model::default(), NOW, None);
        for step in steps {
            let mark = place.store.changes(None).unwrap().revision;
            let mut is_changed = false;
            match step {
                Step::Add(session, turns) => {
                    let turns: Vec<_> =
                        turns.into_iter().map(|(age, of)| (if of == 7 { 0 } else { now - age * HOUR }, of)).collect();
                    place.add(&name(session), &turns);
                    for turn in turns {
                        is_changed |= !model.entries.contains_key(&turn.1);
                        model.turns[session].push(turn);
                        let new = Entry { confidence: 0.8, untouched: 0.8, access_count: 0, is_pruned: false };
                        let entry = model.entries.entry(turn.1).or_insert(new);
                        entry.revive();
                    }
                }
                Step::Keep(index, is_kept) => {
                    place.store.set_pinned(&u128::from(index).to_be_bytes(), is_kept, now).unwrap();
                    if is_kept {
                        model.kept.insert(index);
                        for turn in model.turns.iter().filter_map(|turns| turns.get(index as usize)) {
                            model.entries.get_mut(&turn.1).unwrap().revive();
                        }
                    } else {
                        model.kept.remove(&index);
                    }
                }
                Step::Touch(of) => {
                    let Some(session) = (0..SESSIONS).find(|at| model.turns[*at].iter().any(|turn| turn.1 == of)) else { continue };
                    let id = place.entry(&name(session), of);
                    place.store.touch(&[id], now).unwrap();
                    let entry = model.entries.get_mut(&of).unwrap();
                    *entry = Entry {
                        confidence: boosted(entry.confidence), access_count: entry.access_count + 1, is_pruned: false, ..*entry
                    };
                }
                Step::End(session) => {
                    if !model.turns[session].is_empty() {
                        place.store.end_session(&name(session), "other", now).unwrap();
                        model.ended_ms[session] = Some(now);
                    }
                }
                Step::Cycle(hours) => {
                    now += hours * HOUR;
                    let before = place.dump();
                    let dry = place.run(MaintenanceMode::DryRun, now);
                    prop_assert_eq!(&place.dump(), &before, "a dry run writes nothing");
                    let real = place.cycle(now);
                    prop_assert_eq!(real, dry, "a dry run says what happens then");
                    prop_assert_eq!(real.plan.elapsed_ms, last.map_or(0, |last: i64| (now - last).max(0)));
                    last = Some(now);
                    let expected = model.cycle(&real.plan);
                    prop_assert_eq!((real.decayed, real.pruned_by_confidence, real.pruned_by_age), expected);
                    prop_assert_eq!(real.hot + real.pruned, model.entries.len() as u64);
                    // Once more at the same time, nothing is left to do.
                    let after = place.dump();
                    let again = place.cycle(now);
                    prop_assert_eq!((again.decayed, again.pruned_by_confidence, again.pruned_by_age), (0, 0, 0));
                    prop_assert_eq!((again.hot, again.pruned), (real.hot, real.pruned));
                    if again.plan.retention == real.plan.retention {
                        prop_assert_eq!(place.dump(), after);
                    }
                }
            }
            prop_assert_eq!(place.store.changes(None).unwrap().revision != mark, is_changed, "only what is new is a change");
            check(&mut place, &model)?;
            place.kind.check_sound(place.data.path());
        }
    });
}

/// In any order, entries come to the same: none knows of another.
fn the_order_of_entries_does_not_matter(kind: Kind) {
    proptest!(kind.cases(64), |(
        ages in proptest::collection::vec(0..90_i64, 4..30), hours in 0..200_i64, shift in 0..30_usize,
    )| {
        let pruned = |ages: Vec<i64>| {
            let mut place = Place::new(kind);
            for age in ages {
                // A session each, of which the first is of interest: the others are spared.
                let at = NOW - age * DAY;
                let number = age as u32 * 10;
                place.add(&format!("{age}"), &[(at, number), (at, number + 1), (at, number + 2), (at, number + 3)]);
            }
            place.cycle(NOW);
            place.cycle(NOW + hours * HOUR);
            let mut found: Vec<u32> = Vec::new();
            for session in place.store.sessions("", None, 1_000).unwrap() {
                found.extend(place.pruned(&session.session));
            }
            found.sort_unstable();
            found
        };
        let mut ages = ages;
        ages.sort_unstable();
        ages.dedup();
        let mut others = ages.clone();
        let middle = shift % others.len();
        others.rotate_left(middle);
        others.reverse();
        prop_assert_eq!(pruned(ages), pruned(others));
    });
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(share_of(256)) })]

    #[test]
    fn what_was_restored_is_never_pruned(confidence in 0.0..1.0_f64, access_count in 1..u32::MAX, newest_ms in any::<i64>(),
                                         last_ms in proptest::option::of(any::<i64>()), now_ms in any::<i64>(), bytes in any::<u64>()) {
        let facts = ArchiveStats { last_ms, usage: HotSetUsage { bytes, hot: 10, restored: 1 } };
        let plan = plan(&facts, &usual(), now_ms);
        let known = EntryUsage { confidence, access_count, newest_ms, is_spared: false };
        prop_assert_eq!(plan.decide(&known), PruneDecision::Keep);
        prop_assert_eq!(plan.decide(&EntryUsage { access_count: 0, is_spared: true, ..known }), PruneDecision::Keep);
    }

    /// A clock that went back takes nothing away, and time that has passed is counted once.
    #[test]
    fn time_that_passed(last in any::<i64>(), now in any::<i64>(), days in 1..1_000_u32) {
        let settings = RetentionSettings { retention_days: days, ..usual() };
        let facts = ArchiveStats { last_ms: Some(last), ..ArchiveStats::default() };
        let planned = plan(&facts, &settings, now);
        prop_assert_eq!(planned.elapsed_ms > 0, now > last);
        prop_assert!((planned.loss - loss(now.saturating_sub(last))).abs() < 1e-12);
        prop_assert_eq!(plan(&ArchiveStats::default(), &settings, now).loss, 0.0);
        prop_assert_eq!(planned.retention, retention(&facts.usage, &settings));
        prop_assert_eq!(planned.old_before_ms, now.saturating_sub(i64::from(days) * DAY));
    }
}

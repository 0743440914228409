//! Patterns across conversations: calls that keep failing with their fixes, and files that change together.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::store::StoredFix;

/// Minimum number of occurrences that make a pattern.
const MIN_OCCURRENCES: u32 = 2;

/// Maximum number of files of a turn: turns that change more say nothing about any two of them.
const MAX_FILES_PER_TURN: usize = 12;

/// Minimum share of turns that change both files, among those that change one of them.
const MIN_CO_CHANGE_SHARE: f64 = 0.5;

/// A call that failed again and again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecurringFailure {
    /// The tool.
    pub tool: String,
    /// Input of the call.
    pub call: String,
    /// Number of times that it failed and was fixed.
    pub times: u32,
    /// Number of sessions.
    pub sessions: usize,
    /// Its last error.
    pub error: String,
    /// Time when it passed last, in milliseconds since 1970.
    pub last_ms: i64,
    /// Files changed before it passed, with the number of times, most frequent first.
    pub changed: Vec<(String, u32)>,
}

/// Two files that change together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoChange {
    /// The files, in the order of their names.
    pub files: [String; 2],
    /// Number of turns in which both changed.
    pub times: u32,
    /// Number of turns in which at least one of them changed.
    pub of: u32,
}

/// Calls that failed more than once, most frequent first. `fixes` are ordered newest first.
pub fn recurring_failures(fixes: &[StoredFix]) -> Vec<RecurringFailure> {
    let mut by_call: BTreeMap<(&str, &str), Vec<&StoredFix>> = BTreeMap::new();
    for fix in fixes {
        by_call.entry((&fix.fix.tool, &fix.fix.call)).or_default().push(fix);
    }
    let mut found: Vec<RecurringFailure> = Vec::new();
    for ((tool, call), fixes) in by_call {
        let Some(newest) = fixes.first().filter(|_| fixes.len() >= MIN_OCCURRENCES as usize) else { continue };
        let mut changed: BTreeMap<&str, u32> = BTreeMap::new();
        for file in fixes.iter().flat_map(|fix| &fix.fix.changed) {
            *changed.entry(file).or_default() += 1;
        }
        let mut changed: Vec<(String, u32)> = changed.into_iter().map(|(file, times)| (file.to_owned(), times)).collect();
        changed.sort_by_key(|(_, times)| std::cmp::Reverse(*times));
        found.push(RecurringFailure {
            tool: tool.to_owned(),
            call: call.to_owned(),
            times: u32::try_from(fixes.len()).unwrap_or(u32::MAX),
            sessions: fixes.iter().map(|fix| &fix.session).collect::<HashSet<_>>().len(),
            error: newest.fix.error.clone(),
            last_ms: newest.fix.fixed_ms,
            changed,
        });
    }
    found.sort_by_key(|one| (std::cmp::Reverse(one.times), std::cmp::Reverse(one.last_ms)));
    found
}

/// Files that mostly change in the same turn, most frequent first. `turns` are the files changed by each turn.
pub fn co_changes(turns: &[Vec<String>]) -> Vec<CoChange> {
    let mut alone: HashMap<&str, u32> = HashMap::new();
    let mut both: BTreeMap<(&str, &str), u32> = BTreeMap::new();
    for files in turns {
        let mut files: Vec<&str> = files.iter().map(String::as_str).collect();
        files.sort_unstable();
        files.dedup();
        files.iter().for_each(|file| *alone.entry(file).or_default() += 1);
        if files.len() > MAX_FILES_PER_TURN {
            continue;
        }
        for (at, one) in files.iter().enumerate() {
            files[at + 1..].iter().for_each(|other| *both.entry((one, other)).or_default() += 1);
        }
    }
    let of = |one: &str, other: &str, times: u32| alone[one] + alone[other] - times;
    let pairs = both.into_iter().filter(|(_, times)| *times >= MIN_OCCURRENCES);
    let pairs = pairs.map(|((one, other), times)| CoChange {
        files: [one.to_owned(), other.to_owned()],
        times,
        of: of(one, other, times),
    });
    let mut found: Vec<CoChange> =
        pairs.filter(|pair| f64::from(pair.times) >= MIN_CO_CHANGE_SHARE * f64::from(pair.of)).collect();
    found.sort_by_key(|pair| std::cmp::Reverse(pair.times));
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learn::Fix;

    fn fix(session: &str, call: &str, changed: &[&str], at: i64) -> StoredFix {
        let changed = changed.iter().map(|file| (*file).to_owned()).collect();
        let error = format!("error {at}");
        let fix = Fix { tool: "Bash".into(), call: call.into(), error, changed, failed_ms: at - 1, fixed_ms: at, turn: [0; 16] };
        StoredFix { fix, session: session.into() }
    }

    #[test]
    fn what_failed_more_than_once_keeps_failing() {
        let fixes = [
            fix("b", "cargo test", &["a.rs", "b.rs"], 9),
            fix("b", "npm test", &["x.ts"], 8),
            fix("a", "cargo test", &["a.rs"], 3),
        ];
        let found = recurring_failures(&fixes);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].times, found[0].sessions, found[0].error.as_str()), (2, 2, "error 9"));
        assert_eq!(found[0].changed, [("a.rs".to_owned(), 2), ("b.rs".to_owned(), 1)]);
    }

    #[test]
    fn files_change_together_when_they_mostly_do() {
        let turn = |files: &str| files.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let found = co_changes(&[turn("a b"), turn("b a c"), turn("a c"), turn("d"), turn("c e"), turn("c f")]);
        assert_eq!(found, [CoChange { files: ["a".into(), "b".into()], times: 2, of: 3 }]);
        let many: Vec<String> = (0..40).map(|number| number.to_string()).collect();
        assert_eq!(co_changes(&[many.clone(), many]), []);
    }
}

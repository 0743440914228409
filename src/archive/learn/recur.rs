//! Patterns across conversations: what keeps failing and what fixed it, and files that change together.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::store::StoredFix;

/// How often something has to happen to be a pattern.
const OFTEN: u32 = 2;

/// Turns that change more files than that say nothing of any two.
const MOST_FILES: usize = 12;

/// Of the turns that change one of two files, how many change both at least, as a share.
const SHARE: f64 = 0.5;

/// A call that failed again and again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recurring {
    /// The tool.
    pub tool: String,
    /// What it was called with.
    pub call: String,
    /// How often it failed and was mended.
    pub times: u32,
    /// In how many sessions.
    pub sessions: usize,
    /// What it said last.
    pub error: String,
    /// When it passed last, in milliseconds since 1970.
    pub last_ms: i64,
    /// Files that were changed before it passed, with how often, the most often first.
    pub changed: Vec<(String, u32)>,
}

/// Two files that change together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Together {
    /// The files, in the order of their names.
    pub files: [String; 2],
    /// In how many turns both changed.
    pub times: u32,
    /// In how many one of them did.
    pub of: u32,
}

/// Calls that failed more than once, the most often first. `fixes` are the newest first.
pub fn recurring(fixes: &[StoredFix]) -> Vec<Recurring> {
    let mut by_call: BTreeMap<(&str, &str), Vec<&StoredFix>> = BTreeMap::new();
    for fix in fixes {
        by_call.entry((&fix.fix.tool, &fix.fix.call)).or_default().push(fix);
    }
    let mut found: Vec<Recurring> = Vec::new();
    for ((tool, call), fixes) in by_call {
        let Some(newest) = fixes.first().filter(|_| fixes.len() >= OFTEN as usize) else { continue };
        let mut changed: BTreeMap<&str, u32> = BTreeMap::new();
        for file in fixes.iter().flat_map(|fix| &fix.fix.changed) {
            *changed.entry(file).or_default() += 1;
        }
        let mut changed: Vec<(String, u32)> = changed.into_iter().map(|(file, times)| (file.to_owned(), times)).collect();
        changed.sort_by_key(|(_, times)| std::cmp::Reverse(*times));
        found.push(Recurring {
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

/// Files that mostly change in the same turn, the most often first. `turns` are the files that each changed.
pub fn together(turns: &[Vec<String>]) -> Vec<Together> {
    let mut alone: HashMap<&str, u32> = HashMap::new();
    let mut both: BTreeMap<(&str, &str), u32> = BTreeMap::new();
    for files in turns {
        let mut files: Vec<&str> = files.iter().map(String::as_str).collect();
        files.sort_unstable();
        files.dedup();
        files.iter().for_each(|file| *alone.entry(file).or_default() += 1);
        if files.len() > MOST_FILES {
            continue;
        }
        for (at, one) in files.iter().enumerate() {
            files[at + 1..].iter().for_each(|other| *both.entry((one, other)).or_default() += 1);
        }
    }
    let of = |one: &str, other: &str, times: u32| alone[one] + alone[other] - times;
    let pairs = both.into_iter().filter(|(_, times)| *times >= OFTEN);
    let pairs = pairs.map(|((one, other), times)| Together {
        files: [one.to_owned(), other.to_owned()],
        times,
        of: of(one, other, times),
    });
    let mut found: Vec<Together> = pairs.filter(|pair| f64::from(pair.times) >= SHARE * f64::from(pair.of)).collect();
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
        let found = recurring(&fixes);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].times, found[0].sessions, found[0].error.as_str()), (2, 2, "error 9"));
        assert_eq!(found[0].changed, [("a.rs".to_owned(), 2), ("b.rs".to_owned(), 1)]);
    }

    #[test]
    fn files_change_together_when_they_mostly_do() {
        let turn = |files: &str| files.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let found = together(&[turn("a b"), turn("b a c"), turn("a c"), turn("d"), turn("c e"), turn("c f")]);
        assert_eq!(found, [Together { files: ["a".into(), "b".into()], times: 2, of: 3 }]);
        let many: Vec<String> = (0..40).map(|number| number.to_string()).collect();
        assert_eq!(together(&[many.clone(), many]), []);
    }
}

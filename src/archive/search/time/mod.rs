/*!
Days and ranges that a query names: "yesterday", "in mid-March", "before 2026-05-04", "two weeks ago".

Times are understood in English first, then in German, French, Spanish, Chinese and Japanese.

Only unambiguous times count: "may" and "march" are verbs and "dec 10" is a number, unless the words around them make them dates.
Text in quotes, in a path or at the start of a log's line is searched as it is.
*/

mod east_asian;
mod european;
mod local_zone;
mod meaning;
mod parser;
mod query_words;

use std::ops::Range;

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

pub use local_zone::local_zone;
use parser::{Days, TimeParser};
use query_words::words;

/// A time that a query names, and its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedTime {
    /// First day; `None` if everything before is included.
    pub since: Option<Date>,
    /// First day after the range; `None` if everything after is included.
    pub until: Option<Date>,
    /// Its bytes in the query.
    pub range: Range<usize>,
}

impl NamedTime {
    /// Returns the range of these days in milliseconds since 1970, by the clock of `zone`.
    pub fn millis(&self, zone: &TimeZone) -> Range<i64> {
        let at = |day: Option<Date>| {
            let zoned = zone.to_zoned(day?.at(0, 0, 0, 0)).ok()?;
            Some(zoned.timestamp().as_millisecond())
        };
        // 0 is the time of what has none, which is of no day.
        at(self.since).unwrap_or(1)..at(self.until).unwrap_or(i64::MAX)
    }

    /// `true` if it is a single day.
    pub fn is_day(&self) -> bool {
        self.since.and_then(|day| day.checked_add(1.day()).ok()).is_some_and(|next| self.until == Some(next))
    }
}

/// Returns the first time that a query names, relative to `now`.
pub fn find_time(query: &str, now: Timestamp, zone: &TimeZone) -> Option<NamedTime> {
    let words = words(query);
    let today = now.to_zoned(zone.clone()).date();
    let english = (0..words.len()).find_map(|at| {
        let before = at.checked_sub(1).map(|at| words[at].text.as_str());
        let (days, length) = TimeParser { words: &words[at..], before, today, is_time: false }.time()?;
        Some((days, words[at].range.start..words[at + length - 1].range.end))
    });
    let (days, range) = english.or_else(|| european::find(query, today)).or_else(|| east_asian::find(query, today))?;
    let (since, until): Days = days;
    let is_empty = since.zip(until).is_some_and(|(since, until)| since >= until);
    (!is_empty).then_some(NamedTime { since, until, range })
}

/// Parses a text that is a time and nothing else, in milliseconds since 1970. For days it is the start of the first one.
///
/// # Errors
/// If it is not a time; the message says what would be one.
pub fn parse_moment(text: &str, now: Timestamp, zone: &TimeZone) -> Result<i64, String> {
    let trimmed = text.trim();
    if let Ok(time) = trimmed.parse::<Timestamp>() {
        return Ok(time.as_millisecond());
    }
    let words = words(trimmed);
    let today = now.to_zoned(zone.clone()).date();
    let day = TimeParser { words: &words, before: None, today, is_time: true }.days();
    let is_all = |length: usize| words[0].range.start == 0 && words[length - 1].range.end == trimmed.len();
    let named = day.filter(|(_, length)| *length == words.len() && is_all(*length)).map(|(days, _)| days.start.at(0, 0, 0, 0));
    let other = || european::parse_all(trimmed, today).or_else(|| east_asian::parse_all(trimmed, today));
    let named = named.or_else(|| Some(other()?.start.at(0, 0, 0, 0)));
    let civil = named.or_else(|| trimmed.parse::<DateTime>().ok());
    civil.and_then(|civil| zone.to_zoned(civil).ok()).map(|zoned| zoned.timestamp().as_millisecond()).ok_or_else(|| {
        format!(
            "{text:?} is no time; give a day as in 2026-05-04, or `yesterday`, `last week`, `in March`, or a time as in \
             2026-05-04T12:00:00Z"
        )
    })
}

#[cfg(test)]
mod languages_tests;

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn read(query: &str) -> String {
        // A Saturday.
        let now: Timestamp = "2026-06-20T10:00:00Z".parse().expect("a time");
        match find_time(query, now, &TimeZone::UTC) {
            None => "-".to_owned(),
            Some(NamedTime { since, until, range }) => {
                let edge = |day: Option<Date>| day.map_or_else(|| "…".to_owned(), |day| day.to_string());
                format!("{} {} [{}]", edge(since), edge(until), &query[range])
            }
        }
    }

    #[test]
    fn days_and_ranges() {
        for (query, expected) in [
            ("what did I do yesterday?", "2026-06-19 2026-06-20 [yesterday]"),
            ("the importer last Tuesday", "2026-06-16 2026-06-17 [last Tuesday]"),
            ("on Saturday", "2026-06-13 2026-06-14 [on Saturday]"),
            ("three days ago", "2026-06-17 2026-06-18 [three days ago]"),
            ("a week ago", "2026-06-10 2026-06-17 [a week ago]"),
            ("last week's fix", "2026-06-08 2026-06-15 [last week]"),
            ("in the last 3 days", "2026-06-17 2026-06-21 [in the last 3 days]"),
            ("this month", "2026-06-01 2026-07-01 [this month]"),
            ("the fix from mid-March", "2026-03-10 2026-03-21 [mid-March]"),
            ("in April", "2026-04-01 2026-05-01 [in April]"),
            ("in November", "2025-11-01 2025-12-01 [in November]"),
            ("in may", "2026-05-01 2026-06-01 [in may]"),
            ("it may march on", "-"),
            ("the end of May 2025", "2025-05-20 2025-06-01 [the end of May 2025]"),
            ("before the release on 2026-05-04", "2026-05-04 2026-05-05 [on 2026-05-04]"),
            ("before 2026-05-04", "… 2026-05-04 [before 2026-05-04]"),
            ("since March 4, 2026", "2026-03-04 … [since March 4, 2026]"),
            ("after the 4th of May", "2026-05-05 … [after the 4th of May]"),
            ("between 3 March and 5 April", "2026-03-03 2026-04-06 [between 3 March and 5 April]"),
            ("in 2025", "2025-01-01 2026-01-01 [in 2025]"),
            ("2026-02", "2026-02-01 2026-03-01 [2026-02]"),
            ("port 2025 is taken, error 404", "-"),
            ("at 2026-05-04T12:30:00Z", "-"),
            ("the second test of sat", "-"),
            ("error since Friday", "2026-06-19 … [since Friday]"),
            ("monday morning's crash", "2026-06-15 2026-06-16 [monday morning]"),
            ("thursday's metric labels", "2026-06-18 2026-06-19 [thursday]"),
            ("yesterdays nan", "2026-06-19 2026-06-20 [yesterdays]"),
            ("fixed on May 3", "2026-05-03 2026-05-04 [on May 3]"),
            ("we fixed May 3rd", "2026-05-03 2026-05-04 [May 3rd]"),
            ("since dec 10", "2025-12-10 … [since dec 10]"),
            ("in March 4 servers died", "2026-03-01 2026-04-01 [in March]"),
            ("it runs late in may", "2026-05-01 2026-06-01 [in may]"),
            ("the log on 2026-06-01 12:33", "2026-06-01 2026-06-02 [on 2026-06-01]"),
            ("", "-"),
        ] {
            assert_eq!(read(query), expected, "{query}");
        }
    }

    #[test]
    fn what_only_looks_like_a_time() {
        for query in [
            "\"what broke yesterday\"",
            "logs/2026-05-20.txt",
            "backup-2026-05-20.tar.gz",
            "[2026-05-20 12:33] error",
            "2026-05-20 12:33:01,123 ERROR worker",
            "May 20 12:33:01 host kernel: oops",
            "isToday() or today()",
            "dec 10 to hex",
            "from dec 10 to hex",
            "oct 17 as bin",
            "may 3 workers run",
            "of 5 workers 3 may run",
            "this may fail",
            "the start may fail",
            "march on",
            "second run",
            "sun rise",
            "after 2000 requests, of 2048 bytes",
            "mar 1 mar 2",
        ] {
            assert_eq!(read(query), "-", "{query}");
        }
    }

    #[test]
    fn an_open_end_is_where_times_end() {
        let now: Timestamp = "2026-06-20T10:00:00Z".parse().expect("a time");
        let millis = |query| find_time(query, now, &TimeZone::UTC).expect("a time").millis(&TimeZone::UTC);
        assert_eq!(millis("before 1970-01-02"), 1..86_400_000, "and without what has no time");
        assert_eq!(millis("since 1970-01-02"), 86_400_000..i64::MAX);
    }

    #[test]
    fn an_option_is_a_time_and_nothing_else() {
        let now: Timestamp = "2026-06-20T10:00:00Z".parse().expect("a time");
        let at =
            |text| parse_moment(text, now, &TimeZone::UTC).map(|ms| Timestamp::from_millisecond(ms).expect("a time").to_string());
        for (text, expected) in [
            ("yesterday", "2026-06-19T00:00:00Z"),
            (" in March ", "2026-03-01T00:00:00Z"),
            ("may", "2026-05-01T00:00:00Z"),
            ("dec 10", "2025-12-10T00:00:00Z"),
            ("friday", "2026-06-19T00:00:00Z"),
            ("the 4th of May", "2026-05-04T00:00:00Z"),
            ("3 days ago", "2026-06-17T00:00:00Z"),
            ("2026-05-04", "2026-05-04T00:00:00Z"),
            ("2026-05", "2026-05-01T00:00:00Z"),
            ("2025", "2025-01-01T00:00:00Z"),
            ("2026-05-04 12:30", "2026-05-04T12:30:00Z"),
            ("2026-05-04T12:30:00+02:00", "2026-05-04T10:30:00Z"),
        ] {
            assert_eq!(at(text).as_deref(), Ok(expected), "{text}");
        }
        for text in [
            "blah yesterday blub",
            "yesterday blub",
            "yesterday!",
            "before March",
            "between 3 March and 5 April",
            "",
            "2026-02-31",
        ] {
            let error = at(text).expect_err(text);
            assert!(error.contains("is no time; give a day as in 2026-05-04"), "{error}");
        }
    }

    #[test]
    fn a_long_query_is_no_deep_one() {
        assert_eq!(read(&"in ".repeat(1_000)), "-");
        assert_eq!(read(&("in ".repeat(1_000) + "March")), "2026-03-01 2026-04-01 [in in March]");
    }

    proptest::proptest! {
        #[test]
        fn anything_can_be_read(words in proptest::collection::vec(
            proptest::sample::select(vec!["last", "in", "the", "mid", "march", "31", "2026-02-31", "ago", "99", "weeks", "before", "and", "é-1", "-"]), 0..8,
        )) {
            let query = words.join(" ");
            read(&query);
            parse_moment(&query, Timestamp::UNIX_EPOCH, &TimeZone::UTC).ok();
        }
    }
}

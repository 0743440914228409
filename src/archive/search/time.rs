/*!
Days and ranges that a query names: "yesterday", "in mid-March", "before 2026-05-04", "two weeks ago".

Only what names a time beyond doubt counts: "may" and "march" are verbs unless something before or behind makes them months.
*/

use std::ops::Range;

use jiff::civil::{Date, Weekday, date};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, ToSpan};

/// A time that is named, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// First day, and the first one that is no longer meant.
    pub days: Range<Date>,
    /// Its bytes in the query.
    pub range: Range<usize>,
}

impl Named {
    /// The milliseconds since 1970 in which these days are, where the clock shows the time of `zone`.
    pub fn millis(&self, zone: &TimeZone) -> Range<i64> {
        let at = |day: Date, otherwise| match zone.to_zoned(day.at(0, 0, 0, 0)) {
            Ok(zoned) => zoned.timestamp().as_millisecond(),
            Err(_) => otherwise,
        };
        at(self.days.start, i64::MIN)..at(self.days.end, i64::MAX)
    }
}

/// The first time that a query names, seen from `now`.
pub fn named(query: &str, now: Timestamp, zone: &TimeZone) -> Option<Named> {
    let words = words(query);
    let today = now.to_zoned(zone.clone()).date();
    let found = (0..words.len()).find_map(|at| {
        let (days, length) = Reader { words: &words[at..], before: at.checked_sub(1).map(|at| &*words[at].0), today }.time()?;
        Some((days, words[at].1.start..words[at + length - 1].1.end))
    })?;
    let (days, range) = found;
    (days.start < days.end).then_some(Named { days, range })
}

/// Runs of letters, digits and hyphens between digits, in lower case.
fn words(query: &str) -> Vec<(String, Range<usize>)> {
    let mut words: Vec<(String, Range<usize>)> = Vec::new();
    let mut open = None;
    let characters = query.char_indices().map(|(at, c)| (at, Some(c))).chain([(query.len(), None)]);
    for (at, character) in characters {
        let joins = character == Some('-')
            && query[at + 1..].starts_with(|c: char| c.is_ascii_digit())
            && query[..at].ends_with(|c: char| c.is_ascii_digit());
        match (character.is_some_and(|c| c.is_alphanumeric()) || joins, open) {
            (true, None) => open = Some(at),
            (false, Some(start)) => {
                words.push((query[start..at].to_lowercase(), start..at));
                open = None;
            }
            _ => {}
        }
    }
    words
}

const MONTHS: [&str; 12] =
    ["january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december"];
const NUMBERS: [&str; 12] = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"];
/// What may stand before a month that is also a verb.
const LEADS: [&str; 12] = ["in", "of", "since", "until", "before", "after", "during", "last", "this", "from", "by", "till"];

/// Reads a time off the begin of some words.
struct Reader<'a> {
    words: &'a [(String, Range<usize>)],
    /// The word before them.
    before: Option<&'a str>,
    today: Date,
}

type Read = Option<(Range<Date>, usize)>;

impl Reader<'_> {
    fn word(&self, at: usize) -> &str {
        self.words.get(at).map_or("", |(word, _)| word)
    }

    fn from(&self, at: usize) -> Reader<'_> {
        Reader { words: self.words.get(at..).unwrap_or_default(), before: at.checked_sub(1).map(|at| self.word(at)), ..*self }
    }

    /// A range with what opens or closes it.
    fn time(&self) -> Read {
        let open = |at: usize| self.from(at).days().map(|(days, length)| (days, length + at));
        match self.word(0) {
            "before" | "until" | "till" => open(1).map(|(days, length)| (Date::MIN..days.start, length)),
            "since" => open(1).map(|(days, length)| (days.start..Date::MAX, length)),
            "after" => open(1).map(|(days, length)| (days.end..Date::MAX, length)),
            "between" | "from" => {
                let (first, length) = open(1)?;
                if !matches!(self.word(length), "and" | "to" | "until" | "till") {
                    return None;
                }
                let (last, rest) = self.from(length + 1).days()?;
                Some((first.start..last.end, length + 1 + rest))
            }
            _ => self.days(),
        }
    }

    /// Days, without what is said of them.
    fn days(&self) -> Read {
        // "In the last three days"; more of them stand before no time.
        let lead = (0..2).take_while(|at| matches!(self.word(*at), "the" | "on" | "in")).count();
        self.from(lead).bare_days().map(|(days, length)| (days, length + lead))
    }

    /// Days, without the small words before them.
    fn bare_days(&self) -> Read {
        let today = self.today;
        match self.word(0) {
            "today" => Some((day(today)?, 1)),
            "yesterday" => Some((day(add(today, -(1.day()))?)?, 1)),
            "day" if self.word(1) == "before" && self.word(2) == "yesterday" => Some((day(add(today, -(2.days()))?)?, 3)),
            "last" | "past" | "previous" => self.last(),
            "this" => match self.word(1) {
                "week" => Some((week(today)?, 2)),
                "month" => Some((month(today.year(), today.month())?, 2)),
                "year" => Some((year(today.year())?, 2)),
                "morning" | "afternoon" | "evening" => Some((day(today)?, 2)),
                word => Some((self.weekday(weekday(word)?)?, 2)),
            },
            "early" | "mid" | "middle" | "late" | "end" | "beginning" | "start" => self.part_of_month(),
            word => self.ago().or_else(|| self.date(word)),
        }
    }

    fn last(&self) -> Read {
        let today = self.today;
        let count = number(self.word(1));
        match (count, self.word(if count.is_some() { 2 } else { 1 })) {
            (Some(count), unit) => Some((add(today, -span(count, unit)?)?..today.tomorrow().ok()?, 3)),
            (None, "night") => Some((day(today.yesterday().ok()?)?, 2)),
            (None, "week") => Some((week(add(today, -(1.week()))?)?, 2)),
            (None, "month") => {
                let before = add(today, -(1.month()))?;
                Some((month(before.year(), before.month())?, 2))
            }
            (None, "year") => Some((year(today.year() - 1)?, 2)),
            (None, word) => match weekday(word) {
                Some(weekday) => Some((self.weekday(weekday)?, 2)),
                None => self.from(1).month().map(|(days, length)| (days, length + 1)),
            },
        }
    }

    /// "Three days ago" is a day, "two weeks ago" the days around one.
    fn ago(&self) -> Read {
        let count = number(self.word(0))?;
        if self.word(2) != "ago" {
            return None;
        }
        let unit = self.word(1);
        let then = add(self.today, -span(count, unit)?)?;
        let slack = match unit.trim_end_matches('s') {
            "day" => 0.days(),
            "week" => 3.days(),
            "month" => 15.days(),
            _ => 180.days(),
        };
        Some((add(then, -slack)?..add(then, slack)?.tomorrow().ok()?, 3))
    }

    /// "Mid-March", "the end of May".
    fn part_of_month(&self) -> Read {
        let skip = if self.word(1) == "of" { 2 } else { 1 };
        let (days, length) = self.from(skip).month()?;
        let at = |day: i8| days.start.with().day(day).build().ok();
        let days = match self.word(0) {
            "early" | "beginning" | "start" => days.start..at(11)?,
            "mid" | "middle" => at(10)?..at(21)?,
            _ => at(20)?..days.end,
        };
        Some((days, length + skip))
    }

    fn date(&self, word: &str) -> Read {
        if let Some(found) = weekday(word).filter(|_| matches!(self.before, Some("on" | "since" | "after" | "before" | "until")))
        {
            return Some((self.weekday(found)?, 1));
        }
        if let Ok(found) = word.parse::<Date>().or_else(|_| format!("{word}-01").parse()) {
            // What goes on behind the day is a time of day or a name.
            return match word.len() {
                10 => Some((day(found)?, 1)),
                7 => Some((month(found.year(), found.month())?, 1)),
                _ => None,
            };
        }
        if let Some(number) = day_of_month(word) {
            // "4 May", "the 4th of May 2026".
            let skip = if self.word(1) == "of" { 2 } else { 1 };
            let month = month_named(self.word(skip))?;
            let (year, length) = self.year_at(skip + 1, month, Some(number));
            return Some((day(Date::new(year, month, number).ok()?)?, skip + 1 + length));
        }
        if let Some(found) = word.parse::<i16>().ok().filter(|year| (1990..2100).contains(year) && word.len() == 4) {
            return Some((year(found)?, 1))
                .filter(|_| matches!(self.before, Some("in" | "of" | "during" | "since" | "before" | "after")));
        }
        self.month()
    }

    /// "March", "March 2026", "March 4", "March 4, 2026".
    fn month(&self) -> Read {
        let word = self.word(0);
        let found = month_named(word)?;
        if let Some(number) = day_of_month(self.word(1)) {
            let (year, length) = self.year_at(2, found, Some(number));
            return Some((day(Date::new(year, found, number).ok()?)?, 2 + length));
        }
        let (year, length) = self.year_at(1, found, None);
        let is_verb = matches!(word, "march" | "mar" | "may" | "dec" | "sep");
        let is_led = length > 0 || self.before.is_some_and(|before| LEADS.contains(&before) || is_part(before));
        (!is_verb || is_led).then_some((month(year, found)?, 1 + length))
    }

    /// The year that stands there, else the newest in which the month or day has begun.
    fn year_at(&self, at: usize, month: i8, day: Option<i8>) -> (i16, usize) {
        if let Some(year) = self.word(at).parse().ok().filter(|year| (1990..2100).contains(year)) {
            return (year, 1);
        }
        let this = self.today.year();
        let begins = Date::new(this, month, day.unwrap_or(1)).unwrap_or(Date::MAX);
        (if begins > self.today { this - 1 } else { this }, 0)
    }

    /// The newest day of this name that is over.
    fn weekday(&self, weekday: Weekday) -> Option<Range<Date>> {
        day(self.today.nth_weekday(-1, weekday).ok()?)
    }
}

fn add(day: Date, span: Span) -> Option<Date> {
    day.checked_add(span).ok()
}

fn day(day: Date) -> Option<Range<Date>> {
    Some(day..day.tomorrow().ok()?)
}

/// From Monday on.
fn week(of: Date) -> Option<Range<Date>> {
    let monday = add(of, -i64::from(of.weekday().to_monday_zero_offset()).days())?;
    Some(monday..add(monday, 1.week())?)
}

fn month(year: i16, month: i8) -> Option<Range<Date>> {
    let first = Date::new(year, month, 1).ok()?;
    Some(first..add(first, 1.month())?)
}

fn year(year: i16) -> Option<Range<Date>> {
    Some(date(year, 1, 1)..date(year + 1, 1, 1))
}

fn is_part(word: &str) -> bool {
    matches!(word, "early" | "mid" | "middle" | "late" | "end" | "beginning" | "start")
}

fn number(word: &str) -> Option<i64> {
    match word {
        "a" | "an" => Some(1),
        "couple" => Some(2),
        word => NUMBERS.iter().zip(1..).find(|(name, _)| **name == word).map(|(_, number)| number).or_else(|| word.parse().ok()),
    }
    .filter(|number| (1..1000).contains(number))
}

fn span(count: i64, unit: &str) -> Option<Span> {
    match unit {
        "day" | "days" => Some(count.days()),
        "week" | "weeks" => Some(count.weeks()),
        "month" | "months" => Some(count.months()),
        "year" | "years" => Some(count.years()),
        _ => None,
    }
}

fn weekday(word: &str) -> Option<Weekday> {
    let names = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];
    Weekday::from_monday_zero_offset(names.iter().position(|name| *name == word)? as i8).ok()
}

fn month_named(word: &str) -> Option<i8> {
    let found = MONTHS
        .iter()
        .position(|name| *name == word || word.len() == 3 && name.starts_with(word) || *name == "september" && word == "sept");
    Some(found? as i8 + 1)
}

/// `4`, `4th`.
fn day_of_month(word: &str) -> Option<i8> {
    let digits = word.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let suffix = &word[digits.len()..];
    digits.parse().ok().filter(|day| (1..=31).contains(day) && matches!(suffix, "" | "st" | "nd" | "rd" | "th"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(query: &str) -> String {
        // A Saturday.
        let now: Timestamp = "2026-06-20T10:00:00Z".parse().expect("a time");
        match named(query, now, &TimeZone::UTC) {
            None => "-".to_owned(),
            Some(Named { days, range }) => {
                let edge = |day: Date| if day == Date::MIN || day == Date::MAX { "…".to_owned() } else { day.to_string() };
                format!("{} {} [{}]", edge(days.start), edge(days.end), &query[range])
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
            ("", "-"),
        ] {
            assert_eq!(read(query), expected, "{query}");
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
            read(&words.join(" "));
        }
    }
}

//! Reads days and ranges at the start of some words.

use std::ops::Range;

use jiff::civil::{Date, Weekday};
use jiff::{Span, ToSpan};

use super::meaning::{Unit, add, around, day, month, week, year};
use super::query_words::{Word, is_part_of_month};

const MONTHS: [&str; 12] =
    ["january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december"];
/// Months that are something else, too: verbs, and bases of numbers.
const AMBIGUOUS_MONTHS: [&str; 6] = ["march", "mar", "may", "dec", "oct", "sep"];
const NUMBERS: [&str; 12] = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"];
/// Words that make a month of the word behind them.
const MONTH_LEAD_WORDS: [&str; 12] =
    ["on", "in", "of", "since", "until", "before", "after", "during", "last", "from", "by", "till"];
/// Words before a month, but not before a day of one: "in March 4 servers died".
const WHOLE_MONTH_LEAD_WORDS: [&str; 4] = ["in", "during", "last", "this"];
/// First year that counts as one: before it there was nothing to archive, so a smaller number is something else.
const FIRST_YEAR: i16 = 2015;

/// First day, and the first day after the range; `None` for an open end.
pub(super) type Days = (Option<Date>, Option<Date>);

/// A value, and the number of words that name it.
type Parsed<T> = Option<(T, usize)>;

/// Reads a time at the start of some words.
#[derive(Clone, Copy)]
pub(super) struct TimeParser<'a> {
    pub words: &'a [Word],
    /// The word before them.
    pub before: Option<&'a str>,
    pub today: Date,
    /// `true` if they have to be a time, so that "may" is a month.
    pub is_time: bool,
}

impl<'a> TimeParser<'a> {
    fn word(&self, at: usize) -> &'a str {
        self.words.get(at).map_or("", |word| &word.text)
    }

    fn from(&self, at: usize) -> Self {
        let before = if at == 0 { self.before } else { Some(self.word(at - 1)) };
        Self { words: self.words.get(at..).unwrap_or_default(), before, ..*self }
    }

    /// Reads a range with the words that open or close it.
    pub fn time(&self) -> Parsed<Days> {
        let open = |at: usize| self.from(at).days().map(|(days, length)| (days, length + at));
        match self.word(0) {
            "before" | "until" | "till" => open(1).map(|(days, length)| ((None, Some(days.start)), length)),
            "since" => open(1).map(|(days, length)| ((Some(days.start), None), length)),
            "after" => open(1).map(|(days, length)| ((Some(days.end), None), length)),
            "between" | "from" => {
                let range = Self { is_time: true, ..*self };
                let (first, length) = range.from(1).days()?;
                if !matches!(self.word(length + 1), "and" | "to" | "until" | "till") {
                    return None;
                }
                let (last, rest) = range.from(length + 2).days()?;
                Some(((Some(first.start), Some(last.end)), length + 2 + rest))
            }
            _ => self.days().map(|(days, length)| ((Some(days.start), Some(days.end)), length)),
        }
    }

    /// Reads days, skipping the words before them.
    pub fn days(&self) -> Parsed<Range<Date>> {
        // "In the last three days"; more of them stand before no time.
        let lead = (0..2).take_while(|at| matches!(self.word(*at), "the" | "on" | "in")).count();
        self.from(lead).bare_days().map(|(days, length)| (days, length + lead))
    }

    /// Reads days that no small words precede.
    fn bare_days(&self) -> Parsed<Range<Date>> {
        let today = self.today;
        match self.word(0) {
            "today" | "todays" => Some((day(today)?, 1)),
            "yesterday" | "yesterdays" => Some((day(add(today, -(1.day()))?)?, 1)),
            "day" if self.word(1) == "before" && self.word(2) == "yesterday" => Some((day(add(today, -(2.days()))?)?, 3)),
            "last" | "past" | "previous" => self.last(),
            "this" => match self.word(1) {
                "week" => Some((week(today)?, 2)),
                "month" => Some((month(today.year(), today.month())?, 2)),
                "year" => Some((year(today.year())?, 2)),
                "morning" | "afternoon" | "evening" => Some((day(today)?, 2)),
                word => Some((self.weekday(weekday(word)?)?, 2)),
            },
            word if is_part_of_month(word) => self.part_of_month(),
            word => self.ago().or_else(|| self.date(word)),
        }
    }

    fn last(&self) -> Parsed<Range<Date>> {
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
    fn ago(&self) -> Parsed<Range<Date>> {
        let count = number(self.word(0))?;
        if self.word(2) != "ago" {
            return None;
        }
        let unit = match self.word(1) {
            "day" | "days" => Unit::Day,
            "week" | "weeks" => Unit::Week,
            "month" | "months" => Unit::Month,
            "year" | "years" => Unit::Year,
            _ => return None,
        };
        Some((around(self.today, unit, count)?, 3))
    }

    /// "Mid-March", "the end of May".
    fn part_of_month(&self) -> Parsed<Range<Date>> {
        let part = self.word(0);
        let skip = if self.word(1) == "of" { 2 } else { 1 };
        // What starts may fail.
        let is_time = self.is_time || skip == 2 || matches!(part, "early" | "mid" | "late");
        // A part of this month: of no day, and of no month if that is a verb.
        let (days, length) = Self { is_time, before: Some("this"), ..self.from(skip) }.month()?;
        let at = |day: i8| days.start.with().day(day).build().ok();
        let days = match part {
            "early" | "beginning" | "start" => days.start..at(11)?,
            "mid" | "middle" => at(10)?..at(21)?,
            _ => at(20)?..days.end,
        };
        Some((days, length + skip))
    }

    fn date(&self, word: &str) -> Parsed<Range<Date>> {
        if let Some(found) = weekday(word) {
            let is_part_of_day = matches!(self.word(1), "morning" | "afternoon" | "evening" | "night");
            let is_led = matches!(self.before, Some("on" | "since" | "after" | "before" | "until" | "till"));
            let is_day = self.is_time || is_led || is_part_of_day || self.words[0].is_possessive;
            return is_day.then_some((self.weekday(found)?, if is_part_of_day { 2 } else { 1 }));
        }
        if let Ok(found) = word.parse::<Date>().or_else(|_| format!("{word}-01").parse()) {
            // What goes on behind the day is a time of day or a name.
            return match word.len() {
                10 => (!self.is_log_line(1)).then_some((day(found)?, 1)),
                7 => Some((month(found.year(), found.month())?, 1)),
                _ => None,
            };
        }
        if let Some((number, is_ordinal)) = day_of_month(word) {
            // "4 May", "the 4th of May 2026".
            let skip = if self.word(1) == "of" { 2 } else { 1 };
            let found = month_named(self.word(skip))?;
            let (year, length) = self.year_at(skip + 1, found, Some(number));
            let is_date = is_ordinal || length > 0 || self.is_month(skip, self.before);
            return is_date.then_some((day(Date::new(year, found, number).ok()?)?, skip + 1 + length));
        }
        if let Some(found) = word.parse::<i16>().ok().filter(|_| word.len() == 4) {
            let is_led = matches!(self.before, Some("in" | "of" | "during" | "since" | "before" | "after"));
            return ((FIRST_YEAR..=self.today.year() + 1).contains(&found) && (is_led || self.is_time))
                .then_some((year(found)?, 1));
        }
        self.month()
    }

    /// "March", "March 2026", "March 4", "March 4, 2026".
    fn month(&self) -> Parsed<Range<Date>> {
        let found = month_named(self.word(0))?;
        let is_month = self.is_month(0, self.before);
        let of_month = self.before.is_some_and(|before| WHOLE_MONTH_LEAD_WORDS.contains(&before));
        if let Some((number, is_ordinal)) = day_of_month(self.word(1)) {
            let (year, length) = self.year_at(2, found, Some(number));
            if length > 0 || is_ordinal || !of_month {
                // "From dec 10 to hex": a range would have been understood before.
                let is_range = self.before == Some("from") && self.word(2) == "to";
                let is_date = is_ordinal || length > 0 || is_month && !is_range && !self.is_log_line(2);
                return is_date.then_some((day(Date::new(year, found, number).ok()?)?, 2 + length));
            }
        }
        let (year, length) = self.year_at(1, found, None);
        (is_month || length > 0).then_some((month(year, found)?, 1 + length))
    }

    /// `true` if the word at this position is meant as a month.
    fn is_month(&self, at: usize, before: Option<&str>) -> bool {
        self.is_time
            || !AMBIGUOUS_MONTHS.contains(&self.word(at))
            || self.words[at].is_name
            || before.is_some_and(|before| MONTH_LEAD_WORDS.contains(&before))
    }

    /// `true` if a time of day follows a date that nothing marks as meant: lines of logs start like that.
    fn is_log_line(&self, at: usize) -> bool {
        let is_led = self.is_time || self.before.is_some_and(|before| MONTH_LEAD_WORDS.contains(&before));
        !is_led && self.words.get(at).is_some_and(|word| word.is_clock)
    }

    /// Returns the year at this position, else the newest in which the month or day has started.
    fn year_at(&self, at: usize, month: i8, day: Option<i8>) -> (i16, usize) {
        if let Some(year) = self.word(at).parse().ok().filter(|year| (1990..2100).contains(year)) {
            return (year, 1);
        }
        let this = self.today.year();
        let begins = Date::new(this, month, day.unwrap_or(1)).unwrap_or(Date::MAX);
        (if begins > self.today { this - 1 } else { this }, 0)
    }

    /// Returns the newest day of this name that is over.
    fn weekday(&self, weekday: Weekday) -> Option<Range<Date>> {
        day(self.today.nth_weekday(-1, weekday).ok()?)
    }
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

/// Parses `4` or `4th`; the second value is `true` for the latter.
fn day_of_month(word: &str) -> Option<(i8, bool)> {
    let digits = word.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let suffix = &word[digits.len()..];
    let day = digits.parse().ok().filter(|day| (1..=31).contains(day))?;
    matches!(suffix, "" | "st" | "nd" | "rd" | "th").then_some((day, !suffix.is_empty()))
}

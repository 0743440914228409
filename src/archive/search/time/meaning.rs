//! Days that a phrase means, whatever its language.

use std::ops::Range;

use jiff::civil::{Date, Weekday, date};
use jiff::{Span, ToSpan};

/// Units that times are counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Day,
    Week,
    Month,
    Year,
}

/// Thirds of a month.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MonthPart {
    Begin,
    Middle,
    End,
}

/// Meaning of a phrase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TimeMeaning {
    /// The day so many days before today.
    DayBefore(i64),
    /// The week, month or year so many before this one.
    UnitBefore(Unit, i64),
    /// So many units ago.
    Ago(Unit),
    /// From so many units ago up to today.
    Last(Unit),
    /// The newest day of this name that is over.
    Weekday,
    /// A day, or a month if none is named.
    Date,
    /// A third of a month.
    Part(MonthPart),
}

/// Values named in a phrase.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Values {
    pub number: Option<i64>,
    /// From Monday, which is 0.
    pub weekday: Option<i8>,
    pub day: Option<i8>,
    pub month: Option<i8>,
    pub year: Option<i16>,
}

impl Unit {
    fn times(self, count: i64) -> Span {
        match self {
            Self::Day => count.days(),
            Self::Week => count.weeks(),
            Self::Month => count.months(),
            Self::Year => count.years(),
        }
    }

    /// The unit that a day is in.
    fn of(self, date: Date) -> Option<Range<Date>> {
        match self {
            Self::Day => day(date),
            Self::Week => week(date),
            Self::Month => month(date.year(), date.month()),
            Self::Year => year(date.year()),
        }
    }
}

impl TimeMeaning {
    /// Days of a phrase with these values.
    pub fn days(self, values: &Values, today: Date) -> Option<Range<Date>> {
        match self {
            Self::DayBefore(count) => day(add(today, -count.days())?),
            Self::UnitBefore(unit, count) => unit.of(add(today, -unit.times(count))?),
            Self::Ago(unit) => around(today, unit, values.number?),
            Self::Last(unit) => Some(add(today, -unit.times(values.number?))?..today.tomorrow().ok()?),
            Self::Weekday => {
                let weekday = Weekday::from_monday_zero_offset(values.weekday?).ok()?;
                day(today.nth_weekday(-1, weekday).ok()?)
            }
            Self::Date => match values.day {
                Some(number) => day(Date::new(values.newest_year(today)?, values.month?, number).ok()?),
                None => month(values.newest_year(today)?, values.month?),
            },
            Self::Part(part) => {
                let days = month(values.newest_year(today)?, values.month?)?;
                let at = |number: i8| days.start.with().day(number).build().ok();
                Some(match part {
                    MonthPart::Begin => days.start..at(11)?,
                    MonthPart::Middle => at(10)?..at(21)?,
                    MonthPart::End => at(20)?..days.end,
                })
            }
        }
    }
}

impl Values {
    /// The year named, else the newest in which the month or day has started.
    fn newest_year(&self, today: Date) -> Option<i16> {
        if let Some(year) = self.year {
            return Some(year);
        }
        let begins = Date::new(today.year(), self.month?, self.day.unwrap_or(1)).unwrap_or(Date::MAX);
        Some(if begins > today { today.year() - 1 } else { today.year() })
    }
}

/// Days around the one so many units ago: "three days ago" is a day, "two weeks ago" is about two weeks ago.
pub(super) fn around(today: Date, unit: Unit, count: i64) -> Option<Range<Date>> {
    let then = add(today, -unit.times(count))?;
    let slack = match unit {
        Unit::Day => 0.days(),
        Unit::Week => 3.days(),
        Unit::Month => 15.days(),
        Unit::Year => 180.days(),
    };
    Some(add(then, -slack)?..add(then, slack)?.tomorrow().ok()?)
}

pub(super) fn add(day: Date, span: Span) -> Option<Date> {
    day.checked_add(span).ok()
}

pub(super) fn day(day: Date) -> Option<Range<Date>> {
    Some(day..day.tomorrow().ok()?)
}

/// From Monday on.
pub(super) fn week(of: Date) -> Option<Range<Date>> {
    let monday = add(of, -i64::from(of.weekday().to_monday_zero_offset()).days())?;
    Some(monday..add(monday, 1.week())?)
}

pub(super) fn month(year: i16, month: i8) -> Option<Range<Date>> {
    let first = Date::new(year, month, 1).ok()?;
    Some(first..add(first, 1.month())?)
}

pub(super) fn year(year: i16) -> Option<Range<Date>> {
    Some(date(year, 1, 1)..date(year + 1, 1, 1))
}

//! Savings over time: by day, by week or by month, so that a chart of any archive can be read.

use std::collections::BTreeMap;

use jiff::ToSpan;
use jiff::civil::Date;
use serde::Serialize;

use super::session_savings::SessionSavings;

/// Maximum number of days of an archive that is shown by day, and of one that is shown by week.
const MAX_DAYS: i32 = 35;
const MAX_DAYS_OF_WEEKS: i32 = 370;
/// Maximum number of periods; what is older is not in the series. A clock that was wrong would make thousands of them.
const MAX_PERIODS: usize = 60;

/// Length of a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PeriodLength {
    /// A day.
    Day,
    /// A week, from Monday.
    Week,
    /// A month.
    Month,
}

/// Savings over time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SavingsOverTime {
    /// Length of a period.
    pub length: PeriodLength,
    /// The periods without gaps, the oldest first.
    pub periods: Vec<SavingsPeriod>,
}

/// Savings of the sessions that ended in a period.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SavingsPeriod {
    /// The first day, as `2026-11-22`.
    pub from: String,
    /// Sessions.
    pub sessions: u64,
    /// The sums.
    #[serde(flatten)]
    pub saved: SessionSavings,
}

impl PeriodLength {
    fn between(first: Date, last: Date) -> Self {
        match last.since(first).map_or(i32::MAX, |span| span.get_days()) {
            ..MAX_DAYS => Self::Day,
            MAX_DAYS..MAX_DAYS_OF_WEEKS => Self::Week,
            _ => Self::Month,
        }
    }

    fn first_day(self, day: Date) -> Date {
        match self {
            Self::Day => day,
            Self::Week => day.saturating_sub(i64::from(day.weekday().to_monday_zero_offset()).days()),
            Self::Month => day.first_of_month(),
        }
    }

    fn next(self, first: Date) -> Date {
        first.saturating_add(match self {
            Self::Day => 1.day(),
            Self::Week => 1.week(),
            Self::Month => 1.month(),
        })
    }
}

/// Sums the savings of sessions by the day on which they ended. Days behind `today` come from a wrong clock, and count as today.
pub(super) fn over_time(sessions: &[(Date, SessionSavings)], today: Date) -> SavingsOverTime {
    let days = || sessions.iter().map(|(day, _)| (*day).min(today));
    let (Some(first), Some(last)) = (days().min(), days().max()) else {
        return SavingsOverTime { length: PeriodLength::Day, periods: Vec::new() };
    };
    let length = PeriodLength::between(first, last);
    let mut sums: BTreeMap<Date, SavingsPeriod> = BTreeMap::new();
    for (day, saved) in sessions {
        let sum = sums.entry(length.first_day((*day).min(today))).or_default();
        sum.sessions += 1;
        sum.saved += *saved;
    }
    let mut periods = Vec::new();
    let mut at = length.first_day(first);
    while at <= last {
        periods.push(SavingsPeriod { from: at.to_string(), ..sums.remove(&at).unwrap_or_default() });
        let next = length.next(at);
        if next == at {
            break;
        }
        at = next;
    }
    periods.drain(..periods.len().saturating_sub(MAX_PERIODS));
    SavingsOverTime { length, periods }
}

#[cfg(test)]
mod tests {
    use jiff::civil::date;

    use super::*;

    fn saved(compactions_avoided: i64) -> SessionSavings {
        SessionSavings { compactions_avoided, saved_tokens: 10 * compactions_avoided, saved_usd: 0.5 }
    }

    fn starts(over: &SavingsOverTime) -> Vec<(&str, u64, i64)> {
        over.periods.iter().map(|period| (period.from.as_str(), period.sessions, period.saved.compactions_avoided)).collect()
    }

    #[test]
    fn days_without_sessions_are_there() {
        let today = date(2026, 11, 26);
        let over =
            over_time(&[(date(2026, 11, 23), saved(2)), (date(2026, 11, 21), saved(1)), (date(2026, 11, 23), saved(4))], today);
        assert_eq!(over.length, PeriodLength::Day);
        assert_eq!(starts(&over), [("2026-11-21", 1, 1), ("2026-11-22", 0, 0), ("2026-11-23", 2, 6)]);
        assert_eq!(over.periods[2].saved, SessionSavings { compactions_avoided: 6, saved_tokens: 60, saved_usd: 1.0 });
        assert_eq!(over_time(&[], today).periods, []);
    }

    #[test]
    fn longer_times_are_told_by_week_and_month() {
        let today = date(2026, 11, 26);
        let over = over_time(&[(date(2026, 9, 30), saved(1)), (date(2026, 11, 26), saved(1))], today);
        assert_eq!((over.length, over.periods.len()), (PeriodLength::Week, 9));
        assert_eq!(starts(&over)[0], ("2026-09-28", 1, 1), "a Monday");
        let over = over_time(&[(date(2024, 2, 29), saved(1)), (date(2026, 11, 26), saved(1))], today);
        assert_eq!((over.length, over.periods.len()), (PeriodLength::Month, 34));
        assert_eq!(starts(&over)[0], ("2024-02-01", 1, 1));
    }

    #[test]
    fn a_wrong_clock_makes_no_thousands_of_periods() {
        let today = date(2026, 11, 26);
        let over = over_time(&[(date(1970, 1, 1), saved(1)), (date(2099, 1, 1), saved(3))], today);
        assert_eq!(over.periods.len(), MAX_PERIODS);
        assert_eq!(starts(&over).last(), Some(&("2026-11-01", 1, 3)));
    }
}

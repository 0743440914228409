/*!
Times in Chinese and Japanese: "昨天", "先週", "三天前", "11月3日".

Words are not apart there, so a phrase counts unless the characters around it make another word of it.
*/

use std::ops::Range;

use jiff::civil::Date;

use super::meaning::{TimeMeaning, Unit, Values};
use super::parser::Days;
use super::query_words::quoted;

use TimeMeaning::{Ago, Date as OnDate, DayBefore, UnitBefore, Weekday};

/// Phrases and what they mean.
const PHRASES: &[(&[&str], TimeMeaning)] = &[
    (&["今天", "今日", "本日"], DayBefore(0)),
    (&["昨天", "昨日", "きのう"], DayBefore(1)),
    (&["前天", "一昨日", "おととい"], DayBefore(2)),
    (&["上周", "上週", "上星期", "上礼拜", "上禮拜", "上个星期", "上個星期", "先週"], UnitBefore(Unit::Week, 1)),
    (&["这周", "這週", "本周", "本週", "今週", "这个星期", "這個星期"], UnitBefore(Unit::Week, 0)),
    (&["上个月", "上個月", "先月"], UnitBefore(Unit::Month, 1)),
    (&["这个月", "這個月", "本月", "今月"], UnitBefore(Unit::Month, 0)),
    (&["去年", "昨年"], UnitBefore(Unit::Year, 1)),
    (&["今年"], UnitBefore(Unit::Year, 0)),
];

/// Units behind a number, before "ago".
const AGO: &[(&[&str], TimeMeaning)] = &[
    (&["天前", "日前"], Ago(Unit::Day)),
    (&["周前", "週前", "週間前", "星期前", "个星期前", "個星期前"], Ago(Unit::Week)),
    (&["个月前", "個月前", "か月前", "ヶ月前", "カ月前", "ヵ月前"], Ago(Unit::Month)),
    (&["年前"], Ago(Unit::Year)),
];

/// Days of the week, from Monday, each with the words before it or behind it.
const WEEKDAYS: [[&str; 5]; 7] = [
    ["星期一", "礼拜一", "禮拜一", "月曜日", "月曜"],
    ["星期二", "礼拜二", "禮拜二", "火曜日", "火曜"],
    ["星期三", "礼拜三", "禮拜三", "水曜日", "水曜"],
    ["星期四", "礼拜四", "禮拜四", "木曜日", "木曜"],
    ["星期五", "礼拜五", "禮拜五", "金曜日", "金曜"],
    ["星期六", "礼拜六", "禮拜六", "土曜日", "土曜"],
    ["星期日", "星期天", "礼拜天", "日曜日", "日曜"],
];

/// Characters that make another word of a phrase, before it and behind it: "加上周边" is about surroundings.
const OTHER_BEFORE: &[char] = &['以', '线', '線', '加', '网', '網', '之', '目', '日', '每', '毎', '比', '表', '身'];
const OTHER_BEHIND: &[char] = &['期', '边', '邊', '围', '圍', '知', '到', '密', '天'];

/// Words behind a time that open or close it.
const SINCE: &[&str] = &["以来", "以來", "以降", "から", "起"];
const AFTER: &[&str] = &["之后", "之後", "以后", "以後"];
const UNTIL: &[&str] = &["之前", "以前", "まで"];

const DIGITS: [char; 10] = ['一', '二', '三', '四', '五', '六', '七', '八', '九', '十'];

/// Returns the first time that a query names.
pub(super) fn find(query: &str, today: Date) -> Option<(Days, Range<usize>)> {
    if query.is_ascii() {
        return None;
    }
    let quoted = quoted(query);
    let starts = query.char_indices().map(|(at, _)| at).filter(|at| !quoted.iter().any(|quoted| quoted.contains(at)));
    starts.into_iter().find_map(|at| {
        let (days, length) = days(query, at, today)?;
        let end = at + length;
        let suffix = |words: &[&str]| words.iter().find(|word| query[end..].starts_with(**word)).map(|word| word.len());
        let (days, more) = if let Some(more) = suffix(SINCE) {
            ((Some(days.start), None), more)
        } else if let Some(more) = suffix(AFTER) {
            ((Some(days.end), None), more)
        } else if let Some(more) = suffix(UNTIL) {
            ((None, Some(days.start)), more)
        } else {
            ((Some(days.start), Some(days.end)), 0)
        };
        Some((days, at..end + more))
    })
}

/// Parses a text that is a time and nothing else.
pub(super) fn parse_all(text: &str, today: Date) -> Option<Range<Date>> {
    let (days, length) = days(text, 0, today)?;
    (length == text.len()).then_some(days)
}

/// Days of the longest phrase at a byte, and its length.
fn days(query: &str, at: usize, today: Date) -> Option<(Range<Date>, usize)> {
    let (before, rest) = query.split_at(at);
    let before = before.chars().next_back();
    dated(before, rest, today).or_else(|| named(before, rest, today))
}

fn named(before: Option<char>, rest: &str, today: Date) -> Option<(Range<Date>, usize)> {
    let phrases = PHRASES.iter().flat_map(|(names, meaning)| names.iter().map(move |name| (*name, *meaning, Values::default())));
    let weekdays = WEEKDAYS.iter().zip(0..).flat_map(|(names, day)| {
        names.iter().map(move |name| (*name, Weekday, Values { weekday: Some(day), ..Values::default() }))
    });
    let (name, meaning, values) =
        phrases.chain(weekdays).filter(|(name, _, _)| rest.starts_with(name)).max_by_key(|(name, _, _)| name.len())?;
    let behind = rest[name.len()..].chars().next();
    let is_other = before.is_some_and(|c| OTHER_BEFORE.contains(&c)) || behind.is_some_and(|c| OTHER_BEHIND.contains(&c));
    (!is_other).then_some((meaning.days(&values, today)?, name.len()))
}

/// "三天前", "2025年11月3日", "11月3日", "11月".
fn dated(before: Option<char>, rest: &str, today: Date) -> Option<(Range<Date>, usize)> {
    // In the middle of a number or a name.
    if before.is_some_and(|c| is_digit(c) || c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '/' | '_' | '第')) {
        return None;
    }
    let (number, length) = number(rest)?;
    let unit = &rest[length..];
    let ago = AGO.iter().find_map(|(names, meaning)| Some((names.iter().find(|name| unit.starts_with(**name))?, meaning)));
    if let Some((name, meaning)) = ago {
        let values = Values { number: Some(number), ..Values::default() };
        return Some((meaning.days(&values, today)?, length + name.len()));
    }
    let year = i16::try_from(number).ok().filter(|year| (1990..2100).contains(year) && unit.starts_with('年'));
    let skipped = if year.is_some() { length + '年'.len_utf8() } else { 0 };
    let (month, length) = counted(&rest[skipped..], "月", 12)?;
    let month_end = skipped + length;
    let day = counted(&rest[month_end..], "日", 31).or_else(|| counted(&rest[month_end..], "号", 31));
    let day = day.or_else(|| counted(&rest[month_end..], "號", 31));
    let values = Values { year, month: Some(month), day: day.map(|(day, _)| day), ..Values::default() };
    Some((OnDate.days(&values, today)?, month_end + day.map_or(0, |(_, length)| length)))
}

/// A number up to a maximum with its unit behind it, and their length.
fn counted(text: &str, unit: &str, most: i64) -> Option<(i8, usize)> {
    let (number, length) = number(text)?;
    let is_unit = text[length..].starts_with(unit) && (1..=most).contains(&number);
    Some((i8::try_from(number).ok().filter(|_| is_unit)?, length + unit.len()))
}

/// Parses a number in ASCII or full-width digits, or in characters up to 99.
fn number(text: &str) -> Option<(i64, usize)> {
    let length = text.find(|c: char| !is_digit(c)).unwrap_or(text.len());
    let digits: Vec<char> = text[..length].chars().collect();
    if digits.is_empty() || digits.len() > 4 {
        return None;
    }
    let value = |c: char| match c {
        '两' | '兩' => Some(2),
        c => DIGITS.iter().position(|digit| *digit == c).map(|at| at as i64 + 1),
    };
    let found = match digits[..] {
        [tens, '十', ones] => Some(10 * value(tens)? + value(ones)?),
        ['十', ones] => Some(10 + value(ones)?),
        [tens, '十'] => Some(10 * value(tens)?),
        [one] if value(one).is_some() => value(one),
        _ => {
            let ascii = digits.iter().map(|c| match c {
                '０'..='９' => char::from_digit(*c as u32 - '０' as u32, 10),
                c => c.is_ascii_digit().then_some(*c),
            });
            ascii.collect::<Option<String>>().and_then(|text| text.parse().ok())
        }
    };
    Some((found.filter(|number| *number > 0)?, length))
}

fn is_digit(c: char) -> bool {
    c.is_ascii_digit() || ('０'..='９').contains(&c) || DIGITS.contains(&c) || matches!(c, '两' | '兩')
}

//! Numbers, sizes, times and texts, formatted for people.

use clap::builder::styling::Style;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

pub(in crate::cli) use ctxbridge_picker::text::{ago, count, fit, left as cell};

/// Formats `text` in a style.
pub(in crate::cli) fn styled(style: Style, text: impl std::fmt::Display) -> String {
    format!("{style}{text}{style:#}")
}

/// Formats a size for people.
pub(in crate::cli) fn size(bytes: i64) -> String {
    match bytes.unsigned_abs() {
        0..1_024 => format!("{bytes} bytes"),
        1_024..1_048_576 => format!("{:.1} KB", bytes as f64 / 1_024.0),
        _ => format!("{:.1} MB", bytes as f64 / 1_048_576.0),
    }
}

/// Formats a duration for people.
pub(in crate::cli) fn duration(ms: u64) -> String {
    if ms < 1_000 { format!("{ms} ms") } else { format!("{:.1} s", ms as f64 / 1_000.0) }
}

/// Formats local time to the minute.
pub(in crate::cli) fn time(ms: Option<i64>) -> String {
    let time = ms.and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    time.map_or_else(String::new, |time| time.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M").to_string())
}

/// Formats a time for JSON.
pub(in crate::cli) fn stamp(ms: i64) -> Option<String> {
    jiff::Timestamp::from_millisecond(ms).ok().filter(|_| ms > 0).map(|time| time.to_string())
}

/// Formats a path for people, with `~` for the home directory.
pub(in crate::cli) fn short(path: &std::path::Path) -> String {
    let home = ctxbridge_common::paths::home_dir();
    match home.as_ref().and_then(|home| path.strip_prefix(home).ok()) {
        Some(rest) => format!("~{}{}", std::path::MAIN_SEPARATOR, rest.display()),
        None => path.display().to_string(),
    }
}

/// Formats a time for a list: how long ago, or to the minute with `-v`.
pub(in crate::cli) fn relative_time(ms: Option<i64>, is_exact: bool) -> String {
    let now_ms = jiff::Timestamp::now().as_millisecond();
    match ms.filter(|ms| *ms > 0) {
        Some(ms) if !is_exact => ago(ms, now_ms),
        ms => time(ms),
    }
}

/// Cuts a text with styles in it to a number of columns. Styles take none, and end where they would have.
pub(in crate::cli) fn cut(text: &str, columns: usize) -> String {
    if anstream::adapter::strip_str(text).to_string().width() <= columns {
        return text.to_owned();
    }
    let mut left = columns.saturating_sub(1);
    let (mut kept, mut is_full, mut rest) = (String::new(), false, text);
    while let Some(character) = rest.chars().next() {
        let style = rest.strip_prefix("\u{1b}[").and_then(|rest| rest.find('m')).map(|end| end + 3);
        let length = style.unwrap_or(character.len_utf8());
        let width = if style.is_some() { 0 } else { character.width().unwrap_or(0) };
        if style.is_some() {
            kept += &rest[..length];
        } else if !is_full && width <= left {
            kept.push(character);
            left -= width;
        } else if !is_full {
            kept.push('…');
            is_full = true;
        }
        rest = &rest[length..];
    }
    kept
}

/// Wraps a text with styles in it between words. Further lines are indented by `hanging` columns, or as the text.
pub(in crate::cli) fn wrap(text: &str, columns: usize, hanging: usize) -> String {
    let width = |word: &str| anstream::adapter::strip_str(word).to_string().width();
    let indent = text.len() - text.trim_start_matches(' ').len();
    let further = " ".repeat(if hanging > 0 { hanging } else { indent });
    let mut wrapped = " ".repeat(indent);
    let mut at = indent;
    let mut is_first = true;
    for word in text[indent..].split(' ') {
        let length = width(word);
        if !is_first && at + 1 + length > columns && at > further.len() {
            wrapped.truncate(wrapped.trim_end_matches(' ').len());
            wrapped += "\n";
            wrapped += &further;
            at = further.len();
        } else if !is_first {
            wrapped.push(' ');
            at += 1;
        }
        wrapped += word;
        at += length;
        is_first = false;
    }
    wrapped
}

/// Cuts a path from its start, since its end says most: `…/work/app`.
pub(in crate::cli) fn path_end(path: &str, columns: usize) -> String {
    if path.width() <= columns {
        return path.to_owned();
    }
    let tail = path.match_indices(['/', '\\']).map(|(at, _)| &path[at..]).find(|tail| tail.width() < columns);
    match tail {
        Some(tail) if tail.len() > 1 => format!("…{tail}"),
        _ => fit(path.rsplit(['/', '\\']).next().unwrap_or(path), columns),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn styles_take_no_columns() {
        assert_eq!(cut("\u{1b}[1mabc\u{1b}[0m def", 5), "\u{1b}[1mabc\u{1b}[0m …");
        assert_eq!(cut("\u{1b}[1mabcdef\u{1b}[0m", 4), "\u{1b}[1mabc…\u{1b}[0m");
        assert_eq!(cut("\u{1b}[1mabc\u{1b}[0m", 3), "\u{1b}[1mabc\u{1b}[0m");
        assert_eq!(wrap("one two three", 7, 0), "one two\nthree");
        assert_eq!(wrap("  one two three", 9, 0), "  one two\n  three");
        assert_eq!(wrap("x  one two", 6, 3), "x  one\n   two");
        assert_eq!(wrap("\u{1b}[1mx y\u{1b}[0m two", 7, 0), "\u{1b}[1mx y\u{1b}[0m two");
        assert_eq!(wrap("a-word-that-is-long and", 8, 2), "a-word-that-is-long\n  and");
    }

    #[test]
    fn what_is_cut_fits() {
        assert_eq!(fit("abc", 3), "abc");
        assert_eq!(fit("abcd", 3), "ab…");
        assert_eq!(fit("日本語", 5), "日本…");
        assert_eq!(fit("日本語", 4), "日…");
        assert_eq!(fit("abc", 0), "");
        assert_eq!(cell("日本語", 4), "日… ");
        assert_eq!(cell("a", 3), "a  ");
        assert_eq!(path_end("~/src/work/app", 20), "~/src/work/app");
        assert_eq!(path_end("~/src/work/app", 11), "…/work/app");
        assert_eq!(path_end("~/a-long-name-of-a-folder", 8), "a-long-…");
    }
}

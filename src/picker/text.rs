//! Foreign text for a terminal: cleaned, cut to columns, with times as people say them.

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

/// Spaces for a tab.
const TAB: &str = "    ";

/// Removes characters that a terminal would obey; lines stay.
pub(crate) fn clean(text: &str) -> String {
    let text = text.replace('\t', TAB);
    text.chars().filter(|character| *character == '\n' || !character.is_control()).collect()
}

/// Like [`clean`], as one line.
pub(crate) fn clean_line(text: &str) -> String {
    clean(text).split('\n').map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Columns of a text.
pub(crate) fn columns(text: &str) -> usize {
    text.graphemes(true).map(UnicodeWidthStr::width).sum()
}

/// The start of a text that fits so many columns; if text was cut, the last column is an ellipsis. A character of two columns is
/// never cut in half.
pub fn fit(text: &str, width: usize) -> String {
    if columns(text) <= width {
        return text.to_owned();
    }
    let Some(room) = width.checked_sub(1) else { return String::new() };
    let mut used = 0;
    let fits = |grapheme: &&str| {
        used += grapheme.width();
        used <= room
    };
    let kept: String = text.graphemes(true).take_while(fits).collect();
    kept.trim_end().to_owned() + "…"
}

/// A text in exactly so many columns, cut or with spaces before it.
pub(crate) fn right(text: &str, width: usize) -> String {
    let text = fit(text, width);
    " ".repeat(width.saturating_sub(columns(&text))) + &text
}

/// A text in exactly so many columns, cut or with spaces behind it.
pub fn left(text: &str, width: usize) -> String {
    let text = fit(text, width);
    let rest = width.saturating_sub(columns(&text));
    text + &" ".repeat(rest)
}

/// Formats a time as people say it: `5 minutes ago`. What is in the future has a clock that is wrong, and is `now`.
pub fn ago(ms: i64, now_ms: i64) -> String {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    const MONTH: i64 = 30 * DAY;
    const YEAR: i64 = 365 * DAY;
    let seconds = (now_ms - ms) / 1_000;
    let told = |unit: i64, name: &str| format!("{} ago", count((seconds / unit).unsigned_abs(), name));
    match seconds {
        ..MINUTE => "now".to_owned(),
        MINUTE..HOUR => told(MINUTE, "minute"),
        HOUR..DAY => told(HOUR, "hour"),
        DAY..MONTH => told(DAY, "day"),
        MONTH..YEAR => told(MONTH, "month"),
        _ => told(YEAR, "year"),
    }
}

/// Formats a number of things, for people: `1 turn`, `2 turns`, `2 entries`.
pub fn count(number: impl Into<u64>, name: &str) -> String {
    let number = number.into();
    match name.strip_suffix('y').filter(|stem| !stem.ends_with(['a', 'e', 'o', 'u'])) {
        _ if number == 1 => format!("1 {name}"),
        Some(stem) => format!("{number} {stem}ies"),
        None => format!("{number} {name}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_characters_are_cut_between_columns() {
        assert_eq!(fit("会话的标题", 10), "会话的标题");
        assert_eq!(fit("会话的标题", 9), "会话的标…");
        // The fourth character would be in columns 7 and 8, and the ellipsis needs the eighth.
        assert_eq!(fit("会话的标题", 8), "会话的…");
        assert_eq!(columns(&left("会话的标题", 8)), 8);
        assert_eq!(right("会话", 6), "  会话");
        assert_eq!(fit("e\u{301}e\u{301}e\u{301}", 2), "e\u{301}…");
        assert_eq!((fit("abc", 0), fit("abc", 1)), (String::new(), "…".to_owned()));
    }

    #[test]
    fn control_characters_are_removed() {
        assert_eq!(clean("a\u{1b}[31mb\u{7}\tc\r\nd\u{9b}1m"), "a[31mb    c\nd1m");
        assert_eq!(clean_line(" a\n\n\u{1b}]0;b\u{7}\n c"), "a ]0;b c");
    }

    #[test]
    fn times_are_as_people_say_them() {
        let ago = |seconds: i64| ago(0, seconds * 1_000);
        assert_eq!((ago(-5), ago(59)), ("now".to_owned(), "now".to_owned()));
        assert_eq!(ago(60), "1 minute ago");
        assert_eq!(ago(3_600), "1 hour ago");
        assert_eq!(ago(47 * 3_600), "1 day ago");
        assert_eq!(ago(14 * 86_400), "14 days ago");
        assert_eq!(ago(64 * 86_400), "2 months ago");
        assert_eq!(ago(730 * 86_400), "2 years ago");
        // The columns that lists keep for it.
        let times = (0..120).map(|minutes| minutes * 60).chain((0..800).map(|days| days * 86_400));
        assert_eq!(times.map(|seconds| ago(seconds).len()).max(), Some(14));
    }

    #[test]
    fn plurals_are_right() {
        assert_eq!(count(1_u64, "entry"), "1 entry");
        assert_eq!(count(0_u64, "entry"), "0 entries");
        assert_eq!(count(2_u64, "day"), "2 days");
        assert_eq!(count(2_u64, "turn"), "2 turns");
    }
}

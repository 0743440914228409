//! The preview of the selected session or turn.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

use super::list::snippet;
use super::styles::Styles;
use crate::listing::ListItem;
use crate::picker::Picker;
use crate::source::PickableSession;
use crate::text::{ago, clean_line, count, fit};

/// Draws the preview, with a line between it and the list.
pub(super) fn draw(buffer: &mut Buffer, area: Rect, picker: &mut Picker, now_ms: i64, styles: Styles) {
    let area = if area.x > 0 { line_beside(buffer, area, styles) } else { line_above(buffer, area, styles) };
    let width = usize::from(area.width);
    let Some(preview) = picker.preview() else { return };
    let mut lines = heading(picker, preview.item, width, now_ms, styles);
    match preview.text {
        Some(Ok(text)) => lines.extend(text.lines().flat_map(|line| wrap(line, width)).map(Line::raw)),
        Some(Err(error)) => lines.extend(wrap(error, width).into_iter().map(|line| Line::styled(line, styles.failed))),
        None => {}
    }
    let most = u16::try_from(lines.len().saturating_sub(usize::from(area.height))).unwrap_or(u16::MAX);
    picker.preview_scroll = picker.preview_scroll.min(most);
    for (line, y) in lines.iter().skip(usize::from(picker.preview_scroll)).zip(area.y..area.bottom()) {
        buffer.set_line(area.x, y, line, area.width);
    }
}

fn line_beside(buffer: &mut Buffer, area: Rect, styles: Styles) -> Rect {
    for y in area.y..area.bottom() {
        buffer.set_line(area.x, y, &Line::styled(" │", styles.faint), area.width);
    }
    Rect { x: area.x + 3, width: area.width.saturating_sub(3), ..area }
}

fn line_above(buffer: &mut Buffer, area: Rect, styles: Styles) -> Rect {
    let line = Line::styled("─".repeat(usize::from(area.width)), styles.faint);
    buffer.set_line(area.x, area.y, &line, area.width);
    Rect { y: area.y + 1, height: area.height.saturating_sub(1), ..area }
}

/// Title, facts, and of a turn the part that was found.
fn heading(picker: &Picker, item: ListItem<'_>, width: usize, now_ms: i64, styles: Styles) -> Vec<Line<'static>> {
    let session = match item {
        ListItem::Session(session) => Some(session),
        ListItem::Hit(hit) => picker.listing.session(&hit.session),
    };
    let mut lines = Vec::new();
    if let Some(title) = session.map(|session| &session.title).filter(|title| !title.is_empty()) {
        lines.push(Line::styled(fit(title, width), styles.strong));
    }
    let folder = session.and_then(|session| session.folder.as_deref()).map(clean_line).unwrap_or_default();
    let mut facts = match item {
        ListItem::Session(session) => session_facts(picker, session, now_ms),
        ListItem::Hit(hit) => vec![clean_line(&hit.handle), ago(hit.started_ms, now_ms)],
    };
    facts.push(folder);
    facts.retain(|fact| !fact.is_empty());
    lines.push(Line::styled(fit(&facts.join(", "), width), styles.faint));
    if let ListItem::Hit(hit) = item {
        lines.push(Line::from(snippet(hit, width, styles)));
    }
    lines.push(Line::default());
    lines
}

fn session_facts(picker: &Picker, session: &PickableSession, now_ms: i64) -> Vec<String> {
    let turns = picker.turn_counts.get(&session.id).copied().flatten();
    vec![
        clean_line(session.id.get(..8).unwrap_or(&session.id)),
        session.last_ms.map(|ms| ago(ms, now_ms)).unwrap_or_default(),
        turns.map(|turns| count(turns, "turn")).unwrap_or_default(),
    ]
}

/// Breaks a line at spaces, or where no space is near. Each part fits so many columns.
fn wrap(line: &str, width: usize) -> Vec<String> {
    let (mut lines, mut current, mut used) = (Vec::new(), String::new(), 0);
    for grapheme in line.graphemes(true) {
        let columns = grapheme.width();
        if used + columns > width && !current.is_empty() {
            // A word that would be cut goes to the next line, unless it fills this one.
            let space = current.rfind(' ').filter(|_| grapheme != " ").filter(|space| *space > current.len() / 2);
            let rest = space.map(|space| current.split_off(space + 1)).unwrap_or_default();
            lines.push(std::mem::replace(&mut current, rest));
            used = crate::text::columns(&current);
            if grapheme == " " {
                continue;
            }
        }
        current.push_str(grapheme);
        used += columns;
    }
    lines.push(current);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::columns;

    #[test]
    fn lines_are_broken_at_spaces_and_wide_characters_between_columns() {
        assert_eq!(wrap("why did we drop it", 10), ["why did we", "drop it"]);
        assert_eq!(wrap("why did we", 10), ["why did we"]);
        assert_eq!(wrap("1234567890 x", 10), ["1234567890", "x"]);
        assert_eq!(wrap("0123456789abcdef", 10), ["0123456789", "abcdef"]);
        assert_eq!(wrap("会话的标题", 5), ["会话", "的标", "题"]);
        assert_eq!(wrap("", 5), [""]);
        for width in 2..20 {
            assert!(wrap("a bc 会话 的标 def ghijklmnop", width).iter().all(|line| columns(line) <= width), "{width}");
        }
    }
}

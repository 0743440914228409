//! The list of sessions, and of turns below them.

use std::ops::Range;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use unicode_segmentation::UnicodeSegmentation;

use super::styles::Styles;
use crate::picker::Picker;
use crate::source::{PickableSession, TurnHit};
use crate::text::{ago, clean_line, columns, count, fit, left, right};

const UNSELECTED: &str = "  ";
const SELECTED: &str = "> ";
const NO_TITLE: &str = "(no title)";

/// Columns behind the title, with a space before each; 0 where there is no room.
struct Columns {
    title: usize,
    project: usize,
    when: usize,
    turns: usize,
}

impl Columns {
    fn of(width: u16) -> Self {
        let (project, when, turns) = match width {
            70.. => (14, 14, 11),
            50.. => (14, 14, 0),
            30.. => (0, 14, 0),
            _ => (0, 0, 0),
        };
        let spaces = [project, when, turns].iter().filter(|column| **column > 0).count();
        let title = usize::from(width).saturating_sub(UNSELECTED.len() + project + when + turns + spaces);
        Self { title, project, when, turns }
    }

    /// Project, time and number of turns, behind the title.
    fn behind(&self, project: &str, when: Option<i64>, turns: Option<u64>, now_ms: i64) -> String {
        let when = when.map(|ms| ago(ms, now_ms)).unwrap_or_default();
        let turns = turns.map(|turns| count(turns, "turn")).unwrap_or_default();
        let column = |text: String, width: usize| if width == 0 { String::new() } else { format!(" {text}") };
        column(left(&clean_line(project), self.project), self.project)
            + &column(right(&when, self.when), self.when)
            + &column(right(&turns, self.turns), self.turns)
    }
}

/// Draws the list; returns `true` if it has a column for the number of turns.
pub(super) fn draw(buffer: &mut Buffer, area: Rect, picker: &mut Picker, now_ms: i64, styles: Styles) -> bool {
    let columns = Columns::of(area.width);
    let visible = picker.listing.scroll(usize::from(area.height));
    let selected = picker.listing.selected();
    let mut lines = (area.y..area.bottom()).map(|y| Rect { y, height: 1, ..area });
    for (position, line) in visible.sessions.clone().zip(&mut lines) {
        let Some(session) = picker.listing.fitting_session(position) else { break };
        let turns = picker.turn_counts.get(&session.id).copied().flatten();
        let behind = columns.behind(session.project(), session.last_ms, turns, now_ms);
        let matched = picker.filter.matched(picker.listing.fitting[position]);
        let title = title(session, &matched, columns.title, styles);
        draw_line(buffer, line, title, (columns.title, behind), position == selected, styles);
    }
    if visible.has_heading
        && let Some(line) = lines.next()
    {
        let note = picker.search_note.as_ref().map(|note| format!(" ({note})")).unwrap_or_default();
        let heading = fit(&format!("Turns with these words{note}"), usize::from(area.width));
        buffer.set_line(line.x, line.y, &Line::styled(heading, styles.faint), line.width);
    }
    for (position, line) in visible.hits.clone().zip(lines) {
        let hit = &picker.listing.hits[position];
        let session = picker.listing.session(&hit.session);
        let behind = columns.behind(session.map_or("", PickableSession::project), Some(hit.started_ms), None, now_ms);
        let is_selected = position + picker.listing.fitting.len() == selected;
        draw_line(buffer, line, snippet(hit, columns.title, styles), (columns.title, behind), is_selected, styles);
    }
    if visible.sessions.is_empty() && visible.hits.is_empty() && area.height > 0 {
        let said = fit(&format!("{UNSELECTED}{}", emptiness(picker)), usize::from(area.width));
        buffer.set_line(area.x, area.y, &Line::styled(said, styles.faint), area.width);
    }
    columns.turns > 0
}

/// The sentence in place of an empty list.
fn emptiness(picker: &Picker) -> &'static str {
    match picker.listing.sessions().is_empty() {
        _ if picker.is_loading() => "",
        true => "no sessions",
        false if picker.is_searching() => "no title fits; searching turns…",
        false => "no title and no turn fits",
    }
}

fn draw_line(
    buffer: &mut Buffer,
    area: Rect,
    title: Vec<Span<'_>>,
    (title_columns, behind): (usize, String),
    is_selected: bool,
    styles: Styles,
) {
    let mut spans = vec![Span::raw(if is_selected { SELECTED } else { UNSELECTED })];
    let used: usize = title.iter().map(|span| columns(&span.content)).sum();
    spans.extend(title);
    spans.push(Span::raw(" ".repeat(title_columns.saturating_sub(used))));
    // Faint and reversed is hard to read on many terminals.
    spans.push(Span::styled(behind, if is_selected { Style::new() } else { styles.faint }));
    buffer.set_line(area.x, area.y, &Line::from(spans), area.width);
    if is_selected {
        buffer.set_style(area, styles.selected);
    }
}

/// The title of a session, with the characters that fit the query; `matched` counts them as people do.
fn title(session: &PickableSession, matched: &[u32], width: usize, styles: Styles) -> Vec<Span<'static>> {
    if session.title.is_empty() {
        return vec![Span::styled(fit(NO_TITLE, width), styles.faint)];
    }
    let text = fit(&session.title, width);
    let ranges: Vec<_> = text
        .grapheme_indices(true)
        .zip(0_u32..)
        .filter(|((_, grapheme), position)| *grapheme != "…" && matched.binary_search(position).is_ok())
        .map(|((start, grapheme), _)| start..start + grapheme.len())
        .collect();
    marked(&text, &ranges, styles)
}

pub(super) fn snippet(hit: &TurnHit, width: usize, styles: Styles) -> Vec<Span<'static>> {
    marked(&fit(&hit.snippet, width), &hit.marks, styles)
}

/// A text with some of its bytes marked. Ranges that are not in it are left out: it may have been cut.
fn marked(text: &str, ranges: &[Range<usize>], styles: Styles) -> Vec<Span<'static>> {
    let mut spans = Vec::new();
    let mut end = 0;
    for range in ranges {
        let (Some(before), Some(inside)) = (text.get(end..range.start), text.get(range.clone())) else { continue };
        spans.push(Span::raw(before.to_owned()));
        spans.push(Span::styled(inside.to_owned(), styles.matched));
        end = range.end;
    }
    spans.push(Span::raw(text[end..].to_owned()));
    spans
}

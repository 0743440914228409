//! Draws the picker: the query, the list, a preview where there is room, and the keys.

mod list;
mod preview;
mod styles;

use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use unicode_segmentation::UnicodeSegmentation;

use crate::keys::Focus;
use crate::picker::Picker;
use crate::text::{columns, count, fit};
use styles::Styles;

/// Minimum columns for a preview beside the list.
const WIDE_COLUMNS: u16 = 110;
/// Minimum columns and lines for a preview below the list.
const TALL_COLUMNS: u16 = 60;
const TALL_LINES: u16 = 20;
/// Minimum columns in which all is said in full words.
const WORDY_COLUMNS: u16 = 70;

/// Parts of the screen.
struct Areas {
    query: Rect,
    list: Rect,
    preview: Option<Rect>,
    footer: Rect,
}

impl Areas {
    fn of(all: Rect) -> Self {
        let line = |y: u16, height: u16| Rect { y, height: height.min(all.height), ..all };
        let footer_lines = u16::from(all.height >= 3);
        let middle = line(1, all.height.saturating_sub(1 + footer_lines));
        let footer = line(all.height - footer_lines.min(all.height), footer_lines);
        let (list, preview) = match all {
            Rect { width: WIDE_COLUMNS.., height: 7.., .. } => {
                let width = all.width * 11 / 20;
                let preview = Rect { x: width, width: all.width - width, ..middle };
                (Rect { width, ..middle }, Some(preview))
            }
            Rect { width: TALL_COLUMNS.., height: TALL_LINES.., .. } => {
                let height = middle.height * 11 / 20;
                let preview = Rect { y: middle.y + height, height: middle.height - height, ..middle };
                (Rect { height, ..middle }, Some(preview))
            }
            _ => (middle, None),
        };
        Self { query: line(0, 1), list, preview, footer }
    }
}

/// Draws the picker at a time, in milliseconds since 1970.
pub(crate) fn draw(frame: &mut Frame<'_>, picker: &mut Picker, now_ms: i64) {
    picker.refilter();
    let areas = Areas::of(frame.area());
    let styles = Styles::new(picker.options.has_color);
    if let Some(x) = draw_query(frame.buffer_mut(), areas.query, picker, styles)
        && picker.focus == Focus::Query
    {
        frame.set_cursor_position((x, areas.query.y));
    }
    let counts_turns = list::draw(frame.buffer_mut(), areas.list, picker, now_ms, styles);
    match areas.preview {
        Some(area) => preview::draw(frame.buffer_mut(), area, picker, now_ms, styles),
        None => picker.preview_scroll = 0,
    }
    let visible = if counts_turns || areas.preview.is_some() { picker.listing.visible_sessions() } else { Vec::new() };
    picker.note_visible(visible, areas.preview.is_some());
    draw_footer(frame.buffer_mut(), areas.footer, picker, styles);
}

/// Draws the query, and how much fits it; returns the column of the cursor.
fn draw_query(buffer: &mut Buffer, area: Rect, picker: &Picker, styles: Styles) -> Option<u16> {
    const PROMPT: &str = "> ";
    let width = usize::from(area.width);
    let counts = fit(&counts(picker, area.width >= WORDY_COLUMNS), width / 2);
    let room = width.checked_sub(PROMPT.len() + columns(&counts) + 2)?;
    // Of a long query, the part up to the cursor.
    let mut before = picker.query.before_cursor();
    while columns(before) > room
        && let Some(first) = before.graphemes(true).next()
    {
        before = &before[first.len()..];
    }
    let behind = &picker.query.text()[picker.query.before_cursor().len()..];
    let behind = fit(behind, room - columns(before));
    let prompt = if picker.focus == Focus::Query { styles.strong } else { styles.faint };
    let line = Line::from(vec![Span::styled(PROMPT, prompt), Span::raw(before), Span::raw(behind)]);
    buffer.set_line(area.x, area.y, &line, area.width);
    let right = Line::styled(&*counts, styles.faint);
    buffer.set_line(area.right() - u16::try_from(columns(&counts)).ok()?, area.y, &right, area.width);
    u16::try_from(PROMPT.len() + columns(before)).ok()
}

fn counts(picker: &Picker, is_wordy: bool) -> String {
    let listing = &picker.listing;
    let (all, fitting, hits) = (listing.sessions().len() as u64, listing.fitting.len(), listing.hits.len() as u64);
    if picker.is_loading() {
        return "reading sessions…".to_owned();
    }
    let is_filtered = !picker.query.text().trim().is_empty();
    let sessions = match (is_filtered, is_wordy) {
        (false, _) => count(all, "session"),
        (true, true) => format!("{fitting} of {}", count(all, "session")),
        (true, false) => format!("{fitting} of {all}"),
    };
    match hits {
        _ if picker.is_searching() => format!("{sessions}, searching…"),
        0 => sessions,
        _ => format!("{sessions}, {}", count(hits, "turn")),
    }
}

fn draw_footer(buffer: &mut Buffer, area: Rect, picker: &Picker, styles: Styles) {
    if area.height == 0 {
        return;
    }
    if let Some(message) = &picker.message {
        let message = fit(message, usize::from(area.width));
        buffer.set_line(area.x, area.y, &Line::styled(message, styles.strong), area.width);
        return;
    }
    let long = |long: &'static str, short: &'static str| if area.width >= WORDY_COLUMNS { long } else { short };
    let resume = long("copy claude --resume", "resume");
    let keys: &[(&str, &str)] = match picker.focus {
        Focus::Query => &[("Enter", "show"), ("^R", resume), ("^E", "export"), ("Tab", "keys"), ("Esc", "quit")],
        Focus::List => &[("Enter", "show"), ("r", resume), ("e", "export"), ("j k", "move"), ("/", "type"), ("q", "quit")],
    };
    let mut spans = Vec::new();
    let mut left = usize::from(area.width);
    let preview = if picker.focus == Focus::Query { "Shift-Up Shift-Down" } else { "J K" };
    let more = picker.has_preview.then_some((preview, "preview"));
    for (key, does) in keys.iter().copied().chain(more) {
        let Some(rest) = left.checked_sub(key.len() + 1 + does.len()) else { break };
        spans.extend([Span::styled(key, styles.strong), Span::styled(format!(" {does}  "), styles.faint)]);
        left = rest.saturating_sub(2);
    }
    buffer.set_line(area.x, area.y, &Line::from(spans), area.width);
}

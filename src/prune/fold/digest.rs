//! Digests: what stands in the place of folded rounds. They are worded as a record of what was, so that no model takes them for a task.

use super::round::{Level, Round, one_line};
use crate::message::DIGEST_BEGIN;

/// The text in the place of some rounds, `first` and `last` being the first digits of the ids of their first and last message.
pub(super) fn digest(rounds: &[&Round], ends: Option<(String, String)>) -> String {
    let count: usize = rounds.iter().map(|round| round.earlier.as_ref().map_or(1, |earlier| earlier.steps)).sum();
    let steps = if count == 1 { "1 step".to_owned() } else { format!("{count} steps") };
    let recall = ends.map(|(first, last)| format!(", recall ctx:{first}..{last}")).unwrap_or_default();
    let mut text = format!("{DIGEST_BEGIN}{steps}{recall}]");
    for round in rounds {
        if let Some(earlier) = round.earlier.as_ref().filter(|earlier| round.level == Level::Lines && !earlier.lines.is_empty()) {
            text.push('\n');
            text.push_str(&earlier.lines);
        }
        if round.level == Level::Lines {
            for call in &round.calls {
                text.push_str("\n- ");
                text.push_str(&one_line(&call.name));
                if !call.target.is_empty() {
                    text.push(' ');
                    text.push_str(&call.target);
                }
                if let Some(handle) = &call.handle {
                    text.push_str(&format!(" ({handle})"));
                }
            }
        }
        for said in round.texts_at(round.level, round.has_whole_texts).filter(|said| !one_line(said).is_empty()) {
            text.push_str("\n- said: ");
            text.push_str(said);
        }
    }
    text
}

//! A prompt with the work done for it: the unit that is read, shown and searched.
//!
//! Each line has its time, so any order of lines gives the same episodes. An episode that spans files has its prompt first in each.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::line::EpisodeSummary;
use super::{BundleAction, BundleLine};
use ctxbridge_archive::quote;

/// Maximum number of names of each kind that are shown.
const MAX_SHOWN_NAMES: usize = 6;

/// Characters of a prompt that are shown.
const PROMPT_CHARS: usize = 160;
/// Characters of a command or task that are shown.
const SHOWN_CHARS: usize = 60;

/// A prompt and what followed it, up to the next one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Episode {
    /// Time of its start; none if no line says.
    pub at: Option<Timestamp>,
    /// The session, the prompt, and the work.
    pub summary: EpisodeSummary,
}

impl Episode {
    /// Makes the episodes of a session's lines, in order of time. Lines from several branches may come in any order.
    pub fn of_lines(session: &str, mut lines: Vec<BundleLine>) -> Vec<Self> {
        // What has no time stays behind the line before it.
        let mut last = None;
        let mut times: Vec<(Option<Timestamp>, BundleLine)> = Vec::with_capacity(lines.len());
        for line in lines.drain(..) {
            last = line.at.or(last);
            times.push((last, line));
        }
        // A prompt comes before what was done in its second.
        times.sort_by_key(|(at, line)| (*at, !matches!(line.action, BundleAction::Prompt(_))));
        times.dedup();
        let mut episodes: Vec<Self> = Vec::new();
        let mut open = false;
        for (_, line) in times {
            match line.action {
                BundleAction::Episode(folded) => {
                    episodes.push(Self { at: line.at, summary: *folded });
                    open = false;
                }
                BundleAction::Prompt(prompt) => {
                    let said = EpisodeSummary { session: session.to_owned(), prompt, ..EpisodeSummary::default() };
                    episodes.push(Self { at: line.at, summary: said });
                    open = true;
                }
                op => {
                    if !open {
                        let said = EpisodeSummary { session: session.to_owned(), ..EpisodeSummary::default() };
                        episodes.push(Self { at: line.at, summary: said });
                        open = true;
                    }
                    if let Some(episode) = episodes.last_mut() {
                        episode.summary.take(op);
                    }
                }
            }
        }
        episodes
    }

    /// Returns each episode once, in order of time. A file that was folded on two branches has them twice.
    pub fn unique(episodes: impl IntoIterator<Item = Self>) -> Vec<Self> {
        let mut found: BTreeMap<(Option<Timestamp>, String, String), Self> = BTreeMap::new();
        for episode in episodes {
            let key = (episode.at, episode.summary.session.clone(), episode.summary.prompt.clone());
            match found.get_mut(&key) {
                Some(known) => known.summary.join(episode.summary),
                None => drop(found.insert(key, episode)),
            }
        }
        found.into_values().collect()
    }

    /// `true` if it says next to nothing: a prompt of a few letters for which nothing was done.
    pub fn is_trivial(&self) -> bool {
        self.summary.prompt.chars().count() < 15 && self.did_nothing()
    }

    /// `true` if it is a question for which nothing was done. Knowing only that it was asked helps nobody.
    pub fn is_question_alone(&self) -> bool {
        self.summary.prompt.trim_end().ends_with('?') && self.did_nothing()
    }

    fn did_nothing(&self) -> bool {
        let EpisodeSummary { changed, read, commands, tasks, .. } = &self.summary;
        [changed, read, commands].into_iter().all(Vec::is_empty) && tasks.is_empty()
    }

    /// All texts that are searched.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        let EpisodeSummary { prompt, changed, read, commands, tasks, .. } = &self.summary;
        let tasks = tasks.iter().map(|task| &task.description);
        [prompt].into_iter().chain(changed).chain(read).chain(commands).chain(tasks).map(String::as_str)
    }

    /// One line, quoted: day and minute, the prompt, and the work.
    pub fn line(&self) -> String {
        let EpisodeSummary { prompt, changed, read, commands, tasks, .. } = &self.summary;
        let at = self.at.map(|at| at.strftime("%Y-%m-%d %H:%M").to_string());
        let prompt = (!prompt.is_empty()).then(|| quote::cut(&quote::line(prompt), PROMPT_CHARS));
        let listed = |what: &str, names: &[String]| {
            let shown: Vec<String> =
                names.iter().take(MAX_SHOWN_NAMES).map(|name| quote::cut(&quote::line(name), SHOWN_CHARS)).collect();
            let more = names.len().saturating_sub(MAX_SHOWN_NAMES);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            (!names.is_empty()).then(|| format!("{what}: {}{more}", shown.join(", ")))
        };
        let tasks: Vec<String> = tasks.iter().map(|task| task.description.clone()).collect();
        let done = [listed("Changed", changed), listed("Read", read), listed("Ran", commands), listed("Agents", &tasks)];
        let said: Vec<String> = [prompt].into_iter().chain(done).flatten().collect();
        at.into_iter().chain([said.join(" | ")]).collect::<Vec<_>>().join(" ")
    }

    /// Converts it to one line of a folded bundle.
    pub fn to_line(&self) -> BundleLine {
        BundleLine { at: self.at, action: BundleAction::Episode(Box::new(self.summary.clone())) }
    }
}

impl EpisodeSummary {
    /// Adds something that was done.
    fn take(&mut self, op: BundleAction) {
        match op {
            BundleAction::Read(file) if !self.changed.contains(&file) => add(&mut self.read, file),
            BundleAction::Write(file) | BundleAction::Edit(file) => {
                self.read.retain(|read| *read != file);
                add(&mut self.changed, file);
            }
            BundleAction::Command(command) => add(&mut self.commands, command),
            BundleAction::Task(task) => add(&mut self.tasks, task),
            BundleAction::Read(_) | BundleAction::Prompt(_) | BundleAction::Episode(_) => {}
        }
    }

    /// Adds the work of another half of the same episode.
    fn join(&mut self, other: Self) {
        let ops = other.changed.into_iter().map(BundleAction::Edit).chain(other.read.into_iter().map(BundleAction::Read));
        let ops = ops.chain(other.commands.into_iter().map(BundleAction::Command));
        ops.chain(other.tasks.into_iter().map(BundleAction::Task)).for_each(|op| self.take(op));
    }
}

fn add<T: PartialEq>(list: &mut Vec<T>, new: T) {
    if !list.contains(&new) {
        list.push(new);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::bundle::Task;

    fn line(second: i64, op: BundleAction) -> BundleLine {
        BundleLine { at: Timestamp::from_second(1_795_000_000 + second).ok(), action: op }
    }

    fn session() -> Vec<BundleLine> {
        vec![
            line(0, BundleAction::Read("README.md".into())),
            line(5, BundleAction::Prompt("Make the parser skip empty lines, <b>please</b>".into())),
            line(6, BundleAction::Read("src/parser.rs".into())),
            line(7, BundleAction::Edit("src/parser.rs".into())),
            line(8, BundleAction::Command("cargo test".into())),
            line(9, BundleAction::Command("cargo test".into())),
            line(9, BundleAction::Task(Task { description: "look for callers".into(), agent: Some("Explore".into()) })),
            line(60, BundleAction::Prompt("ok".into())),
        ]
    }

    #[test]
    fn an_episode_is_a_prompt_and_what_followed() {
        let episodes = Episode::of_lines("s", session());
        let shown: Vec<String> = episodes.iter().map(Episode::line).collect();
        insta::assert_snapshot!(shown.join("\n"), @r"
        2026-11-18 11:06 Read: README.md
        2026-11-18 11:06 Make the parser skip empty lines, ‹b>please‹/b> | Changed: src/parser.rs | Ran: cargo test | Agents: look for callers
        2026-11-18 11:07 ok
        ");
        assert_eq!(episodes.iter().map(Episode::is_trivial).collect::<Vec<_>>(), [false, false, true]);
    }

    proptest! {
        /// The result is the same in whatever order git joined the lines of branches.
        #[test]
        fn the_order_of_lines_does_not_matter(order in Just((0..8_usize).collect::<Vec<_>>()).prop_shuffle(), twice in proptest::bool::ANY) {
            let lines = session();
            // Within a second, the order is that of the lines.
            prop_assume!(order.iter().position(|at| *at == 5) < order.iter().position(|at| *at == 6));
            let mut shuffled: Vec<BundleLine> = order.iter().map(|at| lines[*at].clone()).collect();
            if twice {
                shuffled.extend(lines.clone());
                shuffled.sort_by_key(|line| line.at);
            }
            prop_assert_eq!(Episode::of_lines("s", shuffled), Episode::of_lines("s", lines));
        }

        #[test]
        fn folding_and_joining_lose_nothing(take in 0..8_usize) {
            let whole = Episode::of_lines("s", session());
            let folded: Vec<BundleLine> = whole.iter().map(Episode::to_line).collect();
            prop_assert_eq!(&Episode::of_lines("other", folded), &whole);
            let halves = whole.iter().chain(&whole[take.min(whole.len())..]).cloned();
            prop_assert_eq!(&Episode::unique(halves), &whole);
        }
    }
}

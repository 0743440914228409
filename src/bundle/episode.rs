//! A prompt with what was done for it: what is read, shown and found again.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::line::Folded;
use super::{Line, Op};
use ctxbridge_archive::quote;

/// Names of a kind that are shown.
const SHOWN: usize = 6;

/// Characters of a prompt that are shown.
const PROMPT_CHARS: usize = 160;
/// Characters of a command or task that are shown.
const SHOWN_CHARS: usize = 60;

/// A prompt and what followed it, up to the next one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Episode {
    /// When it began; none where no line tells.
    pub at: Option<Timestamp>,
    /// The session, the prompt, and what was done.
    pub said: Folded,
}

impl Episode {
    /// Those of a session's lines, in order of time. Lines that came from several branches are in any order.
    pub fn of_lines(session: &str, mut lines: Vec<Line>) -> Vec<Self> {
        // What has no time stays behind the line before it.
        let mut last = None;
        let mut times: Vec<(Option<Timestamp>, Line)> = Vec::with_capacity(lines.len());
        for line in lines.drain(..) {
            last = line.at.or(last);
            times.push((last, line));
        }
        // A prompt comes before what was done in its second.
        times.sort_by_key(|(at, line)| (*at, !matches!(line.op, Op::Prompt(_))));
        times.dedup();
        let mut episodes: Vec<Self> = Vec::new();
        let mut open = false;
        for (_, line) in times {
            match line.op {
                Op::Episode(folded) => {
                    episodes.push(Self { at: line.at, said: *folded });
                    open = false;
                }
                Op::Prompt(prompt) => {
                    let said = Folded { session: session.to_owned(), prompt, ..Folded::default() };
                    episodes.push(Self { at: line.at, said });
                    open = true;
                }
                op => {
                    if !open {
                        let said = Folded { session: session.to_owned(), ..Folded::default() };
                        episodes.push(Self { at: line.at, said });
                        open = true;
                    }
                    if let Some(episode) = episodes.last_mut() {
                        episode.said.take(op);
                    }
                }
            }
        }
        episodes
    }

    /// Each of them once, in order of time: a file that was folded on two branches has them twice.
    pub fn unique(episodes: impl IntoIterator<Item = Self>) -> Vec<Self> {
        let mut found: BTreeMap<(Option<Timestamp>, String, String), Self> = BTreeMap::new();
        for episode in episodes {
            let key = (episode.at, episode.said.session.clone(), episode.said.prompt.clone());
            match found.get_mut(&key) {
                Some(known) => known.said.join(episode.said),
                None => drop(found.insert(key, episode)),
            }
        }
        found.into_values().collect()
    }

    /// Whether it says next to nothing: a prompt of a few letters for which nothing was done.
    pub fn says_nothing(&self) -> bool {
        self.said.prompt.chars().count() < 15 && self.did_nothing()
    }

    /// Whether it is a question whose answer left no trace: to be told that it was asked helps nobody.
    pub fn is_question_alone(&self) -> bool {
        self.said.prompt.trim_end().ends_with('?') && self.did_nothing()
    }

    fn did_nothing(&self) -> bool {
        let Folded { changed, read, commands, tasks, .. } = &self.said;
        [changed, read, commands].into_iter().all(Vec::is_empty) && tasks.is_empty()
    }

    /// All texts in which words are looked for.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        let Folded { prompt, changed, read, commands, tasks, .. } = &self.said;
        let tasks = tasks.iter().map(|task| &task.what);
        [prompt].into_iter().chain(changed).chain(read).chain(commands).chain(tasks).map(String::as_str)
    }

    /// Day and minute, then what was asked and done, on one line, quoted.
    pub fn line(&self) -> String {
        let Folded { prompt, changed, read, commands, tasks, .. } = &self.said;
        let at = self.at.map(|at| at.strftime("%Y-%m-%d %H:%M").to_string());
        let prompt = (!prompt.is_empty()).then(|| quote::cut(&quote::line(prompt), PROMPT_CHARS));
        let listed = |what: &str, names: &[String]| {
            let shown: Vec<String> = names.iter().take(SHOWN).map(|name| quote::cut(&quote::line(name), SHOWN_CHARS)).collect();
            let more = names.len().saturating_sub(SHOWN);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            (!names.is_empty()).then(|| format!("{what}: {}{more}", shown.join(", ")))
        };
        let tasks: Vec<String> = tasks.iter().map(|task| task.what.clone()).collect();
        let done = [listed("Changed", changed), listed("Read", read), listed("Ran", commands), listed("Agents", &tasks)];
        let said: Vec<String> = [prompt].into_iter().chain(done).flatten().collect();
        at.into_iter().chain([said.join(" | ")]).collect::<Vec<_>>().join(" ")
    }

    /// As one line of a folded bundle.
    pub fn to_line(&self) -> Line {
        Line { at: self.at, op: Op::Episode(Box::new(self.said.clone())) }
    }
}

impl Folded {
    /// Takes note of something that was done.
    fn take(&mut self, op: Op) {
        match op {
            Op::Read(file) if !self.changed.contains(&file) => add(&mut self.read, file),
            Op::Write(file) | Op::Edit(file) => {
                self.read.retain(|read| *read != file);
                add(&mut self.changed, file);
            }
            Op::Command(command) => add(&mut self.commands, command),
            Op::Task(task) => add(&mut self.tasks, task),
            Op::Read(_) | Op::Prompt(_) | Op::Episode(_) => {}
        }
    }

    /// Takes what another half of the same episode has.
    fn join(&mut self, other: Self) {
        let ops = other.changed.into_iter().map(Op::Edit).chain(other.read.into_iter().map(Op::Read));
        let ops = ops.chain(other.commands.into_iter().map(Op::Command));
        ops.chain(other.tasks.into_iter().map(Op::Task)).for_each(|op| self.take(op));
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

    fn line(second: i64, op: Op) -> Line {
        Line { at: Timestamp::from_second(1_795_000_000 + second).ok(), op }
    }

    fn session() -> Vec<Line> {
        vec![
            line(0, Op::Read("README.md".into())),
            line(5, Op::Prompt("Make the parser skip empty lines, <b>please</b>".into())),
            line(6, Op::Read("src/parser.rs".into())),
            line(7, Op::Edit("src/parser.rs".into())),
            line(8, Op::Command("cargo test".into())),
            line(9, Op::Command("cargo test".into())),
            line(9, Op::Task(Task { what: "look for callers".into(), agent: Some("Explore".into()) })),
            line(60, Op::Prompt("ok".into())),
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
        assert_eq!(episodes.iter().map(Episode::says_nothing).collect::<Vec<_>>(), [false, false, true]);
    }

    proptest! {
        /// However git put the lines of branches together, the same comes out.
        #[test]
        fn the_order_of_lines_does_not_matter(order in Just((0..8_usize).collect::<Vec<_>>()).prop_shuffle(), twice in proptest::bool::ANY) {
            let lines = session();
            // Within a second, the order is that of the lines.
            prop_assume!(order.iter().position(|at| *at == 5) < order.iter().position(|at| *at == 6));
            let mut shuffled: Vec<Line> = order.iter().map(|at| lines[*at].clone()).collect();
            if twice {
                shuffled.extend(lines.clone());
                shuffled.sort_by_key(|line| line.at);
            }
            prop_assert_eq!(Episode::of_lines("s", shuffled), Episode::of_lines("s", lines));
        }

        #[test]
        fn folding_and_joining_lose_nothing(take in 0..8_usize) {
            let whole = Episode::of_lines("s", session());
            let folded: Vec<Line> = whole.iter().map(Episode::to_line).collect();
            prop_assert_eq!(&Episode::of_lines("other", folded), &whole);
            let halves = whole.iter().chain(&whole[take.min(whole.len())..]).cloned();
            prop_assert_eq!(&Episode::unique(halves), &whole);
        }
    }
}

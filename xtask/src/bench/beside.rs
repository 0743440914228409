//! Time of hooks with a server in any state, against the same hooks without one.

use std::net::TcpListener;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};
use ctxbridge_testkit::postgres::{Server, TestDatabase};
use ctxbridge_testkit::transcript::{Kind, append_turn};

use super::measure::Pairs;
use super::scratch::{MeasuredHook, Scratch};

/// Messages of the session.
const MESSAGES: u64 = 2_000;
const BYTES: u64 = 1_300;

/// Time after which the background work at the end of a session is done, or waits for an answer.
const BEHIND: Duration = Duration::from_millis(500);

/// Hooks of a session, some with background work behind them.
const HOOKS: [(&str, MeasuredHook); 6] = [
    ("session-start", MeasuredHook::SessionStart),
    ("user-prompt-submit", MeasuredHook::UserPromptSubmit),
    ("pre-tool-use", MeasuredHook::PreToolUse),
    ("post-tool-use", MeasuredHook::PostToolUse),
    ("stop", MeasuredHook::Stop),
    ("session-end", MeasuredHook::SessionEnd),
];

pub fn run(runs: usize) -> Result<()> {
    let server = Server::start_new(&ctxbridge::common::paths::cache_dir()?)?;
    let database = TestDatabase::on(server.address())?;
    // Takes connections, and never answers.
    let stalled = TcpListener::bind("127.0.0.1:0")?;
    // Nobody listens there any more.
    let down = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let at = |port: u16| database.url().replace(&format!(":{}/", server.address().port), &format!(":{port}/"));
    println!("\nWith a server against without one, {runs} pairs of runs, medians [lowest – highest]\n");
    println!("| hook | reference | ratio | target | time | peak memory | reference's |");
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    for (state, url) in [("up", database.url()), ("down", at(down)), ("stalled", at(stalled.local_addr()?.port()))] {
        let [with, without] = [Some(url), None].map(|url| scene(url.as_deref()));
        let (with, without) = (with?, without?);
        for (name, hook) in HOOKS {
            let mut pairs = Pairs::default();
            for run in 0..=runs {
                let mut samples = Vec::new();
                // Who comes first has it harder, so they take turns.
                let mut both = [&with, &without];
                if run % 2 == 1 {
                    both.reverse();
                }
                for scene in both {
                    append_turn(&scene.transcript, run as u64)?;
                    samples.push(scene.scratch.hook(hook, &scene.transcript)?);
                    if matches!(hook, MeasuredHook::SessionEnd) {
                        std::thread::sleep(BEHIND);
                    }
                }
                if run % 2 == 1 {
                    samples.reverse();
                }
                // The first run warms the file cache.
                if run > 0 {
                    pairs.push(samples[0], samples[1]);
                }
            }
            pairs.print(&format!("`{name}`, server {state}"), "without a server", "≤ 1.0, within the noise");
        }
    }
    Ok(())
}

struct TwoArchives {
    scratch: Scratch,
    transcript: PathBuf,
}

fn scene(server: Option<&str>) -> Result<TwoArchives> {
    let mut scratch = Scratch::new()?;
    let made = scratch.generate(Kind::Chat, MESSAGES, MESSAGES * BYTES, 1)?;
    scratch.import()?;
    scratch.set_server(server);
    let transcript = made.sessions.into_iter().next().context("no session was made")?.path;
    Ok(TwoArchives { scratch, transcript })
}

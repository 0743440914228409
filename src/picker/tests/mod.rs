//! The picker without a terminal: keys are handed over, requests answered from made-up sessions, and screens compared.

mod behavior;
#[cfg(unix)]
mod panics;
mod screens;

use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::Terminal;
use ratatui::backend::TestBackend;

use crate::messages::{Decision, Effect, Outcome, PickerOptions, Reply, Request};
use crate::picker::Picker;
use crate::source::{PickableSession, SearchOutcome, Selection, TurnHit};
use crate::view;

/// The time of all tests, in milliseconds since 1970.
const NOW_MS: i64 = 1_800_000_000_000;
const DAY_MS: i64 = 86_400_000;

/// Titles and folders of the usual sessions, a day apart.
const SESSIONS: [(&str, &str); 6] = [
    ("Why did we drop the retry budget", "/home/dev/ledger"),
    ("Parser hangs on nested comments", "/home/dev/parser"),
    ("整理归档的会话并修复中文标题的截断问题", "/home/dev/文档工具"),
    ("Retry uploads at night", "/home/dev/uploader-with-a-long-name"),
    ("", "/home/dev/ledger"),
    ("Evil \u{1b}]0;owned\u{7}\u{1b}[2J title\r\nof two lines", "/home/dev/\u{1b}[31mred"),
];

/// A picker on a screen, with its sessions.
struct Desk {
    picker: Picker,
    terminal: Terminal<TestBackend>,
    sessions: Vec<PickableSession>,
    at: Duration,
    /// Requests that were answered.
    asked: Vec<Request>,
}

impl Desk {
    fn new(width: u16, height: u16) -> Self {
        Self::with(PickerOptions::default(), usual_sessions(), (width, height))
    }

    fn with(options: PickerOptions, sessions: Vec<PickableSession>, (width, height): (u16, u16)) -> Self {
        let terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        let mut desk = Self { picker: Picker::new(options), terminal, sessions, at: Duration::ZERO, asked: Vec::new() };
        desk.settle();
        desk
    }

    fn draw(&mut self) {
        self.terminal.draw(|frame| view::draw(frame, &mut self.picker, NOW_MS)).unwrap();
    }

    /// Draws and answers until nothing is left to do.
    fn settle(&mut self) {
        self.at += Duration::from_secs(1);
        loop {
            self.draw();
            let due = self.picker.requests(self.at);
            if due.is_empty() {
                return;
            }
            for request in due {
                for reply in answer(&self.sessions, &request) {
                    self.picker.receive(reply);
                }
                self.asked.push(request);
            }
        }
    }

    fn key(&mut self, code: KeyCode, modifiers: KeyModifiers) -> Option<Effect> {
        let effect = self.picker.key(KeyEvent::new(code, modifiers), self.at);
        self.draw();
        effect
    }

    fn press(&mut self, code: KeyCode) -> Option<Effect> {
        self.key(code, KeyModifiers::NONE)
    }

    fn control(&mut self, letter: char) -> Option<Effect> {
        self.key(KeyCode::Char(letter), KeyModifiers::CONTROL)
    }

    /// Types letters, and waits for what is found.
    fn type_in(&mut self, text: &str) {
        for letter in text.chars() {
            assert_eq!(self.press(KeyCode::Char(letter)), None);
        }
        self.settle();
    }

    fn screen(&mut self) -> String {
        self.draw();
        self.terminal.backend().to_string()
    }

    fn decision(&mut self, code: KeyCode) -> Option<Decision> {
        match self.press(code)? {
            Effect::Finish(Outcome { decision, .. }) => Some(decision),
            Effect::Copy(_) => None,
        }
    }
}

fn id(number: usize) -> String {
    format!("{number:08x}-0000-4000-8000-000000000000")
}

fn usual_sessions() -> Vec<PickableSession> {
    let session = |(number, (title, folder)): (usize, &(&str, &str))| PickableSession {
        id: id(number),
        title: (*title).to_owned(),
        folder: Some((*folder).to_owned()),
        last_ms: Some(NOW_MS - number as i64 * DAY_MS),
    };
    SESSIONS.iter().enumerate().map(session).collect()
}

fn many_sessions(number: usize) -> Vec<PickableSession> {
    let session = |at: usize| PickableSession {
        id: id(at),
        title: format!("Session of the number {at}"),
        folder: Some(format!("/home/dev/project-{}", at % 50)),
        last_ms: Some(NOW_MS - at as i64 * 60_000),
    };
    (0..number).map(session).collect()
}

fn answer(sessions: &[PickableSession], request: &Request) -> Vec<Reply> {
    match request {
        Request::Sessions(limit) => vec![Reply::Sessions(*limit, Ok(sessions.iter().take(*limit).cloned().collect()))],
        Request::TurnCounts(ids) => {
            let count = |id: &String| sessions.iter().position(|session| session.id == *id).map(|number| number as u64 * 3 + 1);
            ids.iter().map(|id| Reply::TurnCount(id.clone(), count(id))).collect()
        }
        Request::Preview(of @ Selection::Session(_)) => {
            let turns: Vec<String> =
                (0..40).map(|turn| format!("{turn:>3}  A prompt that is longer than a line of a preview is")).collect();
            vec![Reply::Preview(of.clone(), Ok(turns.join("\n")))]
        }
        Request::Preview(of) => {
            let text = "Is max_retries read?\n\u{1b}[31mYes\u{1b}[0m, 从环境变量读取。\tAnd then some more.".to_owned();
            vec![Reply::Preview(of.clone(), Ok(text))]
        }
        Request::Search(words) => vec![Reply::Found(words.clone(), Ok(found(words)))],
    }
}

/// Two hits for whatever has "retr" in it, none for anything else.
fn found(words: &str) -> SearchOutcome {
    let snippet = "…so max_retries is 3, and a retry waits 200 ms…";
    let mark = |word: &str| snippet.find(word).map(|start| start..start + word.len());
    let hit = |number: usize| TurnHit {
        handle: format!("ctx:1a2b3c4{number}"),
        session: id(number),
        started_ms: NOW_MS - 30 * DAY_MS,
        snippet: snippet.to_owned(),
        marks: mark("retries").into_iter().chain(mark("retry")).collect(),
    };
    match words.contains("retr") {
        true => SearchOutcome { hits: vec![hit(0), hit(1)], note: Some("the index lacks turns".to_owned()) },
        false => SearchOutcome::default(),
    }
}

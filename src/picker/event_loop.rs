//! The loop around the state: keys, replies and time in, the screen out.

use std::io;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crossterm::event::{self, Event};
use ratatui::layout::Rect;

use crate::messages::{Decision, Effect, Outcome, PickerOptions};
use crate::picker::Picker;
use crate::screen::{Screen, Signals};
use crate::source::{SessionSource, TurnSearch};
use crate::view;
use crate::workers::Workers;

/// Time to wait for keys while a reply is near, and while nothing happens. Signals are looked at as often.
const SHORT_WAIT: Duration = Duration::from_millis(15);
const LONG_WAIT: Duration = Duration::from_millis(250);
/// Time for a key that is there: with none at all crossterm does not look.
const NO_WAIT: Duration = Duration::from_millis(1);

/// Errors from running a picker.
#[derive(Debug, thiserror::Error)]
pub enum PickerError {
    /// The terminal cannot be read or written.
    #[error("cannot use the terminal: {0}")]
    Terminal(#[from] io::Error),
    /// A thread ended by a bug.
    #[error("the archive could not be read for the list; please report this bug")]
    Worker,
}

/// Shows the picker in the terminal of stdin and stdout until the user decides. A signal that ends the process is obeyed once the
/// terminal is restored.
///
/// # Errors
/// If the terminal cannot be used.
pub fn run(options: PickerOptions, source: Box<dyn SessionSource>, search: Box<dyn TurnSearch>) -> Result<Outcome, PickerError> {
    let signals = Signals::watch()?;
    let screen = Screen::enter()?;
    let outcome = drive(Picker::new(options), screen, &signals, &Workers::start(source, search));
    signals.obey();
    outcome
}

fn drive(mut picker: Picker, mut screen: Screen, signals: &Signals, workers: &Workers) -> Result<Outcome, PickerError> {
    let started = Instant::now();
    let mut is_changed = true;
    while !signals.is_received() {
        if is_changed {
            screen.terminal.draw(|frame| view::draw(frame, &mut picker, now_ms()))?;
            is_changed = false;
        }
        for request in picker.requests(started.elapsed()) {
            is_changed = true;
            if !workers.send(request) {
                return Err(PickerError::Worker);
            }
        }
        let mut wait = if picker.is_waiting() { SHORT_WAIT } else { LONG_WAIT };
        // All keys that are there, so that a repeated one is not drawn each time.
        while event::poll(wait)? {
            wait = NO_WAIT;
            is_changed = true;
            match event::read()? {
                Event::Key(key) => match picker.key(key, started.elapsed()) {
                    Some(Effect::Finish(outcome)) => return Ok(outcome),
                    Some(Effect::Copy(text)) => screen.copy(&text)?,
                    None => {}
                },
                Event::Paste(text) => picker.paste(&text, started.elapsed()),
                // All is drawn anew, of the same size too: one that changed and came back has cut off what the terminal showed.
                Event::Resize(columns, lines) => screen.terminal.resize(Rect::new(0, 0, columns, lines))?,
                Event::FocusGained | Event::FocusLost | Event::Mouse(_) => {}
            }
        }
        while let Some(reply) = workers.reply() {
            is_changed = true;
            picker.receive(reply);
        }
    }
    Ok(picker.outcome(Decision::Quit))
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

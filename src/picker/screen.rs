//! The terminal while the picker has it, and as it was afterwards.

use std::io::{self, Write};

use crossterm::clipboard::CopyToClipboard;
use crossterm::cursor::{Hide, Show};
use crossterm::event::{DisableBracketedPaste, EnableBracketedPaste};
use crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use crossterm::{execute, queue};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;

/// The terminal in raw mode, on its other screen. When this is dropped, by a panic too, the terminal is as it was.
pub(crate) struct Screen {
    pub(crate) terminal: Terminal<CrosstermBackend<io::Stdout>>,
    _restore: Restore,
}

struct Restore;

impl Screen {
    pub(crate) fn enter() -> io::Result<Self> {
        // First, so that what fails half-way is taken back.
        let restore = Restore;
        enable_raw_mode()?;
        execute!(io::stdout(), EnterAlternateScreen, EnableBracketedPaste, Hide)?;
        Ok(Self { terminal: Terminal::new(CrosstermBackend::new(io::stdout()))?, _restore: restore })
    }

    /// Puts text into the clipboard, if the terminal lets programs do that (OSC 52).
    pub(crate) fn copy(&self, text: &str) -> io::Result<()> {
        let mut stdout = io::stdout();
        queue!(stdout, CopyToClipboard::to_clipboard_from(text))?;
        stdout.flush()
    }
}

impl Drop for Restore {
    fn drop(&mut self) {
        // There is nobody to tell that the terminal is gone.
        execute!(io::stdout(), DisableBracketedPaste, LeaveAlternateScreen, Show).ok();
        disable_raw_mode().ok();
    }
}

/// Signals that end the process. While the picker has the terminal they are only noted; before and after, they do what they always do.
pub(crate) struct Signals {
    #[cfg(unix)]
    received: std::sync::Arc<std::sync::atomic::AtomicUsize>,
    #[cfg(unix)]
    is_over: std::sync::Arc<std::sync::atomic::AtomicBool>,
}

#[cfg(unix)]
impl Signals {
    pub(crate) fn watch() -> io::Result<Self> {
        use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
        use signal_hook::flag;
        let signals = Self { received: Default::default(), is_over: Default::default() };
        for signal in [SIGTERM, SIGHUP, SIGINT] {
            flag::register_conditional_default(signal, signals.is_over.clone())?;
            flag::register_usize(signal, signals.received.clone(), signal.unsigned_abs() as usize)?;
        }
        Ok(signals)
    }

    /// `true` if one of them was received.
    pub(crate) fn is_received(&self) -> bool {
        self.received.load(std::sync::atomic::Ordering::Relaxed) != 0
    }

    /// Ends the process if a signal was received; the terminal must be restored before.
    pub(crate) fn obey(&self) {
        let signal = self.received.load(std::sync::atomic::Ordering::Relaxed);
        if signal != 0 {
            signal_hook::low_level::emulate_default_handler(i32::try_from(signal).unwrap_or_default()).ok();
        }
    }
}

#[cfg(unix)]
impl Drop for Signals {
    fn drop(&mut self) {
        self.is_over.store(true, std::sync::atomic::Ordering::Relaxed);
    }
}

#[cfg(not(unix))]
impl Signals {
    pub(crate) fn watch() -> io::Result<Self> {
        Ok(Self {})
    }

    pub(crate) fn is_received(&self) -> bool {
        false
    }

    pub(crate) fn obey(&self) {}
}

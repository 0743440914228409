//! Lengths of texts, chosen so that the file gets its size whatever the lines around the texts add.

use crate::rng::Rng;

/// Messages that a guess counts for until the file has its own figures.
const PRIOR: f64 = 20.0;
/// First estimate of a message's bytes without its text.
const ENVELOPE: f64 = 1_000.0;
/// First estimate of the bytes of text in a message.
const TEXT: f64 = 500.0;

#[derive(Clone, Debug)]
pub(super) struct Budget {
    bytes: u64,
    messages: u64,
    /// Bytes so far.
    pub(super) written: u64,
    done: u64,
    text: f64,
    asked: f64,
}

impl Budget {
    pub(super) fn new(bytes: u64, messages: u64) -> Self {
        Self { bytes, messages, written: 0, done: 0, text: 0.0, asked: 0.0 }
    }

    /// Messages that are still to come.
    pub(super) fn left(&self) -> u64 {
        self.messages.saturating_sub(self.done)
    }

    pub(super) fn message(&mut self) {
        self.done += 1;
    }

    pub(super) fn line(&mut self, bytes: usize) {
        self.written += bytes as u64;
    }

    /// The length of a text that is usually `usual` bytes long, and is in the file `copies` times.
    pub(super) fn length(&mut self, rng: &mut Rng, usual: usize, copies: usize) -> usize {
        let spread = [0.3, 0.5, 0.7, 0.9, 1.1, 1.3, 1.6, 3.0][rng.below(8)];
        let asked = usual as f64 * spread;
        let done = self.done as f64 + PRIOR;
        let envelope = (self.written as f64 - self.text + PRIOR * ENVELOPE) / done;
        let usual_text = (self.asked + PRIOR * TEXT) / done;
        let room = self.bytes.saturating_sub(self.written) as f64 / self.left().max(1) as f64;
        let scale = ((room - envelope) / usual_text).clamp(0.02, 60.0);
        let length = (asked * scale).max(12.0);
        self.asked += asked * copies as f64;
        self.text += length * copies as f64;
        length as usize
    }
}

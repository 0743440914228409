//! Reading one JSON object from a pipe that may stay open.

use std::io::Read;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Bytes that are read at once.
const CHUNK_BYTES: usize = 64 << 10;

/// Reads until one whole object is there, the input ends, or the time is over. Returns what there is by then, at most so many bytes.
pub(super) fn read_object(input: impl Read + Send + 'static, most: u64, timeout: Duration) -> Vec<u8> {
    let deadline = Instant::now() + timeout;
    let (sender, chunks) = channel();
    // A read cannot be given up. The process ends, and the thread with it.
    if thread::Builder::new().spawn(move || forward(input, most, &sender)).is_err() {
        return Vec::new();
    }
    let mut bytes = Vec::new();
    let mut object = ObjectEnd::default();
    loop {
        match chunks.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(chunk) => {
                let is_whole = object.is_in(&chunk);
                bytes.extend(chunk);
                if is_whole {
                    return bytes;
                }
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return bytes,
        }
    }
}

fn forward(input: impl Read, most: u64, to: &Sender<Vec<u8>>) {
    let mut input = input.take(most);
    let mut chunk = vec![0; CHUNK_BYTES];
    while let Ok(count @ 1..) = input.read(&mut chunk) {
        if to.send(chunk[..count].to_vec()).is_err() {
            break;
        }
    }
}

/// Finds the end of an object piece by piece. A list of messages has megabytes, so no byte is looked at twice.
#[derive(Debug, Default)]
struct ObjectEnd {
    /// The byte that the input begins with; of a list, say, no end is looked for.
    first: Option<u8>,
    depth: usize,
    is_in_text: bool,
    is_escaped: bool,
}

impl ObjectEnd {
    /// `true` if the object ends in this piece of the input.
    fn is_in(&mut self, piece: &[u8]) -> bool {
        let first = || piece.iter().copied().find(|byte| !byte.is_ascii_whitespace());
        self.first = self.first.or_else(first);
        self.first == Some(b'{') && piece.iter().any(|byte| self.is_at(*byte))
    }

    fn is_at(&mut self, byte: u8) -> bool {
        if self.is_in_text {
            let is_escaped = std::mem::take(&mut self.is_escaped);
            self.is_in_text = is_escaped || byte != b'"';
            self.is_escaped = !is_escaped && byte == b'\\';
            return false;
        }
        match byte {
            b'"' => self.is_in_text = true,
            b'{' => self.depth += 1,
            b'}' if self.depth == 1 => return true,
            b'}' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    /// A pipe whose other end says this and stays open.
    fn held_open(parts: &'static [&'static str]) -> std::io::PipeReader {
        let (reader, mut writer) = std::io::pipe().expect("a pipe");
        thread::spawn(move || {
            for part in parts {
                writer.write_all(part.as_bytes()).expect("written");
                thread::sleep(Duration::from_millis(20));
            }
            thread::sleep(Duration::from_secs(60));
            drop(writer);
        });
        reader
    }

    #[test]
    fn the_object_is_enough() {
        let long = Duration::from_secs(30);
        let begun = Instant::now();
        assert_eq!(read_object(held_open(&["{\"a\": {}", ", \"b\": 1}\n"]), 1 << 20, long), b"{\"a\": {}, \"b\": 1}\n");
        assert_eq!(read_object(&b"[] or anything"[..], 1 << 20, long), b"[] or anything");
        let text = "{\"a }\": \"\\\"}\\\\\", \"b\": {}}";
        assert_eq!(read_object(held_open(&["{\"a }\": \"\\", "\"}\\\\\", \"b\": {", "}}"]), 1 << 20, long), text.as_bytes());
        assert_eq!(read_object(&b"{\"a\": 1}"[..], 4, long), b"{\"a\"");
        assert!(begun.elapsed() < long, "none of them was waited for");
    }

    #[test]
    fn what_never_comes_is_not_waited_for() {
        assert_eq!(read_object(held_open(&["{\"a\": "]), 1 << 20, Duration::from_millis(200)), b"{\"a\": ");
    }
}

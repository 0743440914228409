//! Reading one JSON object from a pipe that may stay open.

use std::io::Read;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::de::IoRead;
use serde_json::{StreamDeserializer, value::RawValue};

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
    loop {
        match chunks.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(chunk) => bytes.extend(chunk),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return bytes,
        }
        if is_whole_object(&bytes) {
            return bytes;
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

/// `true` if the bytes begin with a whole JSON object. Most chunks of a long one do not end with a brace, so it is not parsed for them.
fn is_whole_object(bytes: &[u8]) -> bool {
    let is_closed = bytes.trim_ascii_end().last() == Some(&b'}');
    is_closed && matches!(objects(bytes).next(), Some(Ok(_)))
}

fn objects(bytes: &[u8]) -> StreamDeserializer<'_, IoRead<&[u8]>, Box<RawValue>> {
    serde_json::Deserializer::from_reader(bytes).into_iter()
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
        assert_eq!(read_object(&b"{\"a\": 1}"[..], 4, long), b"{\"a\"");
        assert!(begun.elapsed() < long, "none of them was waited for");
    }

    #[test]
    fn what_never_comes_is_not_waited_for() {
        assert_eq!(read_object(held_open(&["{\"a\": "]), 1 << 20, Duration::from_millis(200)), b"{\"a\": ");
    }
}

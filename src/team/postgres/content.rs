//! What turns say, from the bytes that come with them: for people who look with SQL, and for search.

use rayon::prelude::*;
use serde_json::json;

use super::error::PostgresError;
use super::line::clean;
use super::words::{Weight, Words};
use ctxbridge_archive::search::tokens::Tokenizer;
use ctxbridge_archive::segment::{self, Check};
use ctxbridge_archive::store::{Batch, Transcript};
use ctxbridge_common::digest;
use ctxbridge_transcript::{Told, Turn};

/// Places of words in each field: together as many as there are.
const OF_PROMPT: u16 = 4_000;
const OF_ANSWER: u16 = 5_000;
const OF_CALLS: u16 = 3_500;
const OF_OUTPUT: u16 = 3_800;

/// What a turn says.
#[derive(Clone, Debug, Default)]
pub(super) struct Said {
    pub content: String,
    pub summary: String,
    pub words: Words,
}

impl Said {
    /// From the bytes of a turn.
    pub fn of(turn: &Turn, bytes: &[u8], is_agent: bool, tokenizer: &Tokenizer) -> Self {
        let Told { fields, text, summary } = Told::of(turn, bytes, is_agent);
        let mut words = Words::default();
        words.add(tokenizer, &fields.prompt, Weight::A, OF_PROMPT);
        words.add(tokenizer, &fields.answer, Weight::B, OF_ANSWER);
        words.add(
            tokenizer,
            &format!("{}\n{}\n{}", turn.tools.join("\n"), turn.files.join("\n"), fields.input),
            Weight::C,
            OF_CALLS,
        );
        words.add(tokenizer, &fields.output, Weight::D, OF_OUTPUT);
        Self { content: clean(&text), summary, words }
    }
}

/// The bytes of a batch, unpacked.
pub(super) struct Bytes {
    start: u64,
    bytes: Vec<u8>,
}

impl Bytes {
    /// What a batch brings.
    pub fn of(batch: &Batch, failed: impl Fn(u64, String) -> PostgresError) -> Result<Self, PostgresError> {
        let unpacked: Vec<Result<Vec<u8>, (u64, String)>> = batch
            .segments
            .par_iter()
            .map(|piece| {
                segment::unpack(&piece.data, piece.bytes, &piece.sha256, None, Check::Checksum)
                    .map_err(|cause| (piece.start, cause))
            })
            .collect();
        let start = batch.segments.first().map_or(u64::MAX, |first| first.start);
        let mut bytes = Vec::with_capacity(batch.segments.iter().map(|piece| piece.bytes as usize).sum());
        for piece in unpacked {
            bytes.extend(piece.map_err(|(start, cause)| failed(start, cause))?);
        }
        Ok(Self { start, bytes })
    }

    /// Those of a turn, if they are all there.
    pub fn of_turn(&self, turn: &Turn) -> Option<&[u8]> {
        let from = usize::try_from(turn.start.checked_sub(self.start)?).ok()?;
        let to = usize::try_from(turn.end.checked_sub(self.start)?).ok()?;
        self.bytes.get(from..to)
    }
}

/// What the turns of a batch say, as far as their bytes came with it.
pub(super) fn said(batch: &Batch, bytes: &Bytes) -> Vec<Option<Said>> {
    let is_agent = batch.transcript.agent.is_some();
    let turns = batch.turns.par_iter();
    // A tokenizer for each piece of work: making one costs little, and it cannot be shared.
    turns
        .map_init(Tokenizer::default, |tokenizer, turn| {
            bytes.of_turn(turn).map(|bytes| Said::of(turn, bytes, is_agent, tokenizer))
        })
        .collect()
}

/// The key of a turn's entry, its tags, and what else is said of it: archive.md, "Turns".
pub(super) fn description(transcript: &Transcript, turn: &Turn, said: &Said) -> (String, Vec<String>, String) {
    let Transcript { session, .. } = transcript;
    let key = format!("transcript:{session}:{}:{}", turn.index, turn.started_ms);
    let tags =
        ["transcript", "compaction", session].into_iter().chain(turn.tools.iter().map(String::as_str)).map(clean).collect();
    let names = |names: &[String]| names.iter().map(|name| clean(name)).collect::<Vec<_>>();
    let metadata = json!({
        "sessionId": clean(session),
        "chunkIndex": turn.index,
        "trigger": "transcript",
        "timestamp": turn.started_ms,
        "toolNames": names(&turn.tools),
        "filePaths": names(&turn.files),
        "summary": clean(&said.summary),
        "contentHash": digest::hex(&turn.content_sha256),
        "preTokens": turn.context_tokens,
        "turnRange": [turn.index, turn.index],
    });
    (clean(&key), tags, metadata.to_string())
}

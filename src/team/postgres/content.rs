//! Content of turns, extracted from the bytes of a batch: for search, and for people who query the tables with SQL.

use rayon::prelude::*;
use serde_json::json;

use super::error::PostgresError;
use super::row::escape_nul;
use super::tsvector::{TsVector, Weight};
use ctxbridge_archive::search::tokens::Tokenizer;
use ctxbridge_archive::segment::{self, SegmentCheck};
use ctxbridge_archive::store::{Batch, Transcript};
use ctxbridge_common::digest;
use ctxbridge_transcript::{Turn, TurnDigest};

/// Maximum number of word positions per field. Together they fill all positions of a `tsvector`.
const MAX_PROMPT_POSITIONS: u16 = 4_000;
const MAX_ANSWER_POSITIONS: u16 = 5_000;
const MAX_CALL_POSITIONS: u16 = 3_500;
const MAX_OUTPUT_POSITIONS: u16 = 3_800;

/// The extracted content of a turn.
#[derive(Clone, Debug, Default)]
pub(super) struct TurnContent {
    pub content: String,
    pub summary: String,
    pub words: TsVector,
}

impl TurnContent {
    /// Extracts the content from the bytes of a turn.
    pub fn of(turn: &Turn, bytes: &[u8], is_agent: bool, tokenizer: &Tokenizer) -> Self {
        let TurnDigest { fields, text, summary } = TurnDigest::of(turn, bytes, is_agent);
        let mut words = TsVector::default();
        words.add(tokenizer, &fields.prompt, Weight::A, MAX_PROMPT_POSITIONS);
        words.add(tokenizer, &fields.answer, Weight::B, MAX_ANSWER_POSITIONS);
        words.add(
            tokenizer,
            &format!("{}\n{}\n{}", turn.tools.join("\n"), turn.files.join("\n"), fields.input),
            Weight::C,
            MAX_CALL_POSITIONS,
        );
        words.add(tokenizer, &fields.output, Weight::D, MAX_OUTPUT_POSITIONS);
        Self { content: escape_nul(&text), summary, words }
    }
}

/// The bytes of a batch, unpacked.
pub(super) struct BatchBytes {
    start: u64,
    bytes: Vec<u8>,
}

impl BatchBytes {
    /// Unpacks the segments of a batch.
    pub fn of(batch: &Batch, failed: impl Fn(u64, String) -> PostgresError) -> Result<Self, PostgresError> {
        let unpacked: Vec<Result<Vec<u8>, (u64, String)>> = batch
            .segments
            .par_iter()
            .map(|piece| {
                segment::unpack(&piece.data, piece.bytes, &piece.sha256, None, SegmentCheck::Checksum)
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

    /// The bytes of a turn, if they are all there.
    pub fn of_turn(&self, turn: &Turn) -> Option<&[u8]> {
        let from = usize::try_from(turn.start.checked_sub(self.start)?).ok()?;
        let to = usize::try_from(turn.end.checked_sub(self.start)?).ok()?;
        self.bytes.get(from..to)
    }
}

/// The content of a batch's turns; `None` for a turn whose bytes are not all in the batch.
pub(super) fn turn_contents(batch: &Batch, bytes: &BatchBytes) -> Vec<Option<TurnContent>> {
    let is_agent = batch.transcript.part.agent().is_some();
    let turns = batch.turns.par_iter();
    // A tokenizer for each piece of work: making one costs little, and it cannot be shared.
    turns
        .map_init(Tokenizer::default, |tokenizer, turn| {
            bytes.of_turn(turn).map(|bytes| TurnContent::of(turn, bytes, is_agent, tokenizer))
        })
        .collect()
}

/// Key, tags and metadata of a turn's entry, as claude-flow has them.
pub(super) fn description(transcript: &Transcript, turn: &Turn, said: &TurnContent) -> (String, Vec<String>, String) {
    let Transcript { session, .. } = transcript;
    let key = format!("transcript:{session}:{}:{}", turn.index, turn.started_ms);
    let tags =
        ["transcript", "compaction", session].into_iter().chain(turn.tools.iter().map(String::as_str)).map(escape_nul).collect();
    let names = |names: &[String]| names.iter().map(|name| escape_nul(name)).collect::<Vec<_>>();
    let metadata = json!({
        "sessionId": escape_nul(session),
        "chunkIndex": turn.index,
        "trigger": "transcript",
        "timestamp": turn.started_ms,
        "toolNames": names(&turn.tools),
        "filePaths": names(&turn.files),
        "summary": escape_nul(&said.summary),
        "contentHash": digest::hex(&turn.content_sha256),
        "preTokens": turn.context_tokens,
        "turnRange": [turn.index, turn.index],
    });
    (escape_nul(&key), tags, metadata.to_string())
}

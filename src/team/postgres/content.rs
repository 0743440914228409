//! Content of turns, extracted from the bytes of a batch: for search, and for people who query the tables with SQL.

use std::collections::BTreeSet;

use rayon::prelude::*;
use serde_json::json;

use super::connection::Connection;
use super::error::PostgresError;
use super::row::escape_nul;
use super::segments::{self as stored_segments, SegmentCache};
use super::tsvector::{TsVector, Weight};
use ctxbridge_archive::search::tokens::Tokenizer;
use ctxbridge_archive::segment::{self, SegmentCheck};
use ctxbridge_archive::store::{Batch, StoreError, Transcript};
use ctxbridge_archive::turn_text::{MAX_SEARCHED_BYTES, side_text};
use ctxbridge_common::digest;
use ctxbridge_transcript::{SearchableText, SideTexts, Turn, TurnDigest, side_files_of};

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
    /// Extracts the content from the bytes of a turn. The words of the files that it points to are among its own.
    pub fn of(turn: &Turn, (bytes, beside): (&[u8], &SideTexts<'_>), is_agent: bool, tokenizer: &Tokenizer) -> Self {
        let TurnDigest { mut fields, text, summary } = TurnDigest::of(turn, bytes, is_agent);
        if !beside.is_empty() {
            fields = beside.searchable(bytes, is_agent);
        }
        Self { content: escape_nul(&text), summary, words: words_of(turn, &fields, tokenizer) }
    }
}

/// The words of a turn.
pub(super) fn words_of(turn: &Turn, fields: &SearchableText, tokenizer: &Tokenizer) -> TsVector {
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
    words
}

/// The texts of the files that the turns of a batch point to, as far as they are on the server.
pub(super) fn side_texts<'b>(db: &mut Connection, batch: &'b Batch, bytes: &BatchBytes) -> Result<SideTexts<'b>, StoreError> {
    let session = batch.transcript.session.as_str();
    let mut texts = SideTexts::of_session(session);
    let files: BTreeSet<String> =
        batch.turns.iter().filter_map(|turn| bytes.of_turn(turn)).flat_map(|bytes| side_files_of(bytes, session)).collect();
    if files.is_empty() {
        return Ok(texts);
    }
    let sql = "SELECT id FROM ctxbridge.sessions WHERE tenant = $1 AND session = $2 AND owner = session_user::text";
    let Some(row) = db.first(sql, &[&escape_nul(session)])? else { return Ok(texts) };
    let session: i64 = row.get(0)?;
    for path in files {
        let Some(file) = stored_segments::side_file(db, session, &path)? else { continue };
        let mut bytes = Vec::new();
        SegmentCache::default().read_bytes(db, file.key, file.generation, (0, MAX_SEARCHED_BYTES), &mut bytes)?;
        texts.add(path, side_text(bytes, file.bytes));
    }
    Ok(texts)
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

    /// Bytes that start at an offset of the transcript.
    pub fn of_bytes(start: u64, bytes: Vec<u8>) -> Self {
        Self { start, bytes }
    }

    /// The bytes of a turn, if they are all there.
    pub fn of_turn(&self, turn: &Turn) -> Option<&[u8]> {
        let from = usize::try_from(turn.start.checked_sub(self.start)?).ok()?;
        let to = usize::try_from(turn.end.checked_sub(self.start)?).ok()?;
        self.bytes.get(from..to)
    }
}

/// The content of a batch's turns; `None` for a turn whose bytes are not all in the batch.
pub(super) fn turn_contents(batch: &Batch, bytes: &BatchBytes, beside: &SideTexts<'_>) -> Vec<Option<TurnContent>> {
    let is_agent = batch.transcript.part.agent().is_some();
    let turns = batch.turns.par_iter();
    // A tokenizer for each piece of work: making one costs little, and it cannot be shared.
    turns
        .map_init(Tokenizer::default, |tokenizer, turn| {
            bytes.of_turn(turn).map(|bytes| TurnContent::of(turn, (bytes, beside), is_agent, tokenizer))
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

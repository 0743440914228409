//! `ctxbridge archive restore`

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use serde_json::json;

use super::restore_blanks::BlankNotes;
use super::restore_folder::{SessionFiles, restore_to};
use crate::cli::CommandOutcome;
use crate::cli::archives;
use crate::cli::output::{GOOD, Output, short, size, styled};
use ctxbridge_archive::store::{EVERYTHING, Store, StoreError, StoredTranscript};
use ctxbridge_common::files;
use ctxbridge_common::paths;
use ctxbridge_config::StoreKind;

/// Bytes of a damaged piece that are read by themselves.
const BLOCK_BYTES: u32 = 4096;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ctxbridge archive restore 0b9e > session.jsonl
  ctxbridge archive restore 0b9e -o session.jsonl
  ctxbridge archive restore 0b9e -o session/       with sub-agents, and the files beside the transcript
  ctxbridge archive restore 0b9e --generation 0    before it was rewritten

Every segment is checked against its SHA-256.")]
pub(super) struct RestoreArgs {
    /// Session id or prefix
    session: String,
    /// Restore the transcript of this sub-agent instead
    #[arg(long, value_name = "ID")]
    agent: Option<String>,
    /// Choose a transcript by its original path, if the session has more than one
    #[arg(long, value_name = "FILE", conflicts_with = "agent")]
    path: Option<PathBuf>,
    /// Generation of a rewritten transcript; 0 is the oldest [default: the newest]
    #[arg(long, value_name = "N")]
    generation: Option<u32>,
    /// Leave out damaged pieces instead of failing at the first one; exits 1 if there are any
    #[arg(long, conflicts_with = "generation")]
    partial: bool,
    /// Write to this file, which must not exist; or the whole session below a folder: one that exists, or whose name has no ending
    #[arg(short, long, value_name = "FILE|FOLDER")]
    output: Option<PathBuf>,
    /// Restore this colleague's session from the team server
    #[arg(long, value_name = "ROLE")]
    owner: Option<String>,
}

impl RestoreArgs {
    pub fn run(&self, output: &mut Output) -> anyhow::Result<CommandOutcome> {
        let Some((mut store, session)) = archives::find_anywhere(&self.session, self.owner.as_deref(), output)? else {
            return Ok(CommandOutcome::No);
        };
        let transcripts = store.transcripts(session.key)?;
        let named = self.path.as_ref().map(|path| paths::real(path).unwrap_or_else(|_| path.clone()));
        let fits = |transcript: &&StoredTranscript| match &named {
            Some(path) => Path::new(&transcript.path) == path,
            None => transcript.part.is_transcript() && transcript.part.agent() == self.agent.as_deref(),
        };
        let mut fitting = transcripts.iter().filter(fits);
        let Some(transcript) = fitting.next() else {
            let agents: Vec<_> = transcripts.iter().filter_map(|transcript| transcript.part.agent()).collect();
            bail!("session {} has no such transcript; sub-agents: {}", session.session, agents.join(", "));
        };
        if let Some(other) = fitting.next() {
            output.note(&format!("there is another transcript of this session; --path {} restores that", other.path));
        }
        if self.generation.is_none() && self.agent.is_none() {
            archives::note_fuller(&mut *store, &session, output)?;
        }
        let generation = self.generation.unwrap_or(transcript.generation);
        if generation > transcript.generation {
            bail!(
                "{} was rewritten {} times; the newest generation is {}",
                transcript.path,
                transcript.generation,
                transcript.generation
            );
        }
        let files = SessionFiles::of(&transcripts, transcript, &session.session);
        let is_session = transcript.part.is_conversation();
        if is_session {
            files.note_omitted(&mut *store, output)?;
        }
        let left_out;
        match &self.output {
            Some(path) if is_session && is_folder(path) => {
                let write = |store: &mut dyn Store, file: &StoredTranscript, generation, sink: &mut dyn Write| {
                    let mut blanks = BlankNotes::new(sink);
                    let left_out = self.read(store, file, generation, &mut blanks)?;
                    blanks.tell(output);
                    Ok(left_out)
                };
                let own = (transcript, generation);
                let is_whole = restore_to(&mut *store, path, &session.session, own, &files, &write, output)?;
                return Ok(if is_whole { CommandOutcome::Yes } else { CommandOutcome::No });
            }
            None => {
                let mut stdout = std::io::stdout().lock();
                let mut blanks = BlankNotes::new(&mut stdout);
                match self.read(&mut *store, transcript, generation, &mut blanks) {
                    Err(StoreError::Sink(error)) => return Err(error.into()),
                    read => left_out = read?,
                }
                blanks.flush()?;
                blanks.tell(output);
            }
            Some(path) => {
                let file = files::private().create_new(true).open(path);
                let mut file = file.with_context(|| format!("cannot create {}", path.display()))?;
                let mut blanks = BlankNotes::new(&mut file);
                left_out = self.read(&mut *store, transcript, generation, &mut blanks)?;
                blanks.tell(output);
                file.sync_all()?;
                let bytes = file.metadata()?.len();
                if output.json {
                    let path = path.to_string_lossy();
                    output.value(
                        &json!({ "session": session.session, "path": path, "bytes": bytes, "is_whole": left_out.is_empty() }),
                    )?;
                } else {
                    let what = if left_out.is_empty() { "the transcript, byte for byte" } else { "what can be read" };
                    output.reports();
                    output.prose(
                        2,
                        format!("{} {}, {what}: {}", styled(GOOD, "restored:"), size(bytes.cast_signed()), short(path)),
                    )?;
                }
            }
        }
        for (start, bytes) in &left_out {
            output.note(&format!("left out: {bytes} bytes from byte {start} on, which are damaged"));
        }
        if is_session {
            files.note_left(&session.session, output);
        }
        Ok(if left_out.is_empty() { CommandOutcome::Yes } else { CommandOutcome::No })
    }

    /// Writes a transcript, and returns the start and the length of each piece that was left out.
    fn read(
        &self,
        store: &mut dyn Store,
        transcript: &StoredTranscript,
        generation: u32,
        sink: &mut dyn Write,
    ) -> Result<Vec<(u64, u32)>, StoreError> {
        if !self.partial {
            return store.read_bytes(transcript.key, generation, EVERYTHING, sink).map(|()| Vec::new());
        }
        let mut left_out = Vec::new();
        let mut end = 0;
        for (start, bytes, _) in store.segment_index(&transcript.path)? {
            if start > end {
                left_out.push((end, u32::try_from(start - end).unwrap_or(u32::MAX)));
            }
            end = start + u64::from(bytes);
            let mut piece = Vec::with_capacity(bytes as usize);
            match store.read_bytes(transcript.key, generation, (start, start + u64::from(bytes)), &mut piece) {
                Err(error) if error.is_session_local() => {
                    read_blocks(store, (transcript.key, generation), (start, bytes), sink, &mut left_out)?;
                }
                read => {
                    read?;
                    sink.write_all(&piece)?;
                }
            }
        }
        if end < transcript.bytes {
            left_out.push((end, u32::try_from(transcript.bytes - end).unwrap_or(u32::MAX)));
        }
        Ok(left_out)
    }
}

/// Writes the blocks of a damaged piece that can be read, and notes the others. Only in JSON Lines, blocks have checksums of their own.
fn read_blocks(
    store: &mut dyn Store,
    (transcript, generation): (i64, u32),
    (start, bytes): (u64, u32),
    sink: &mut dyn Write,
    left_out: &mut Vec<(u64, u32)>,
) -> Result<(), StoreError> {
    let step = if store.kind() == StoreKind::Jsonl { BLOCK_BYTES.min(bytes) } else { bytes };
    for at in (0..bytes).step_by(step.max(1) as usize) {
        let (from, length) = (start + u64::from(at), step.min(bytes - at));
        let mut block = Vec::with_capacity(length as usize);
        match store.read_bytes(transcript, generation, (from, from + u64::from(length)), &mut block) {
            Err(error) if error.is_session_local() => match left_out.last_mut() {
                Some((last, missing)) if *last + u64::from(*missing) == from => *missing = missing.saturating_add(length),
                _ => left_out.push((from, length)),
            },
            read => {
                read?;
                sink.write_all(&block)?;
            }
        }
    }
    Ok(())
}

/// `true` if a path to write to is that of a folder.
fn is_folder(path: &Path) -> bool {
    let text = path.as_os_str().to_string_lossy();
    path.is_dir() || text.ends_with(std::path::is_separator) || !path.exists() && path.extension().is_none()
}

//! Context of a hook, and the archiving of the session's transcript that most hooks start with.

use std::cell::{RefCell, RefMut};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::{Event, HookInput, HookMeasurement, Log, PendingWrite, Spool};
use crate::bundle::Project;
use ctxbridge_archive::forget::Tombstones;
use ctxbridge_archive::ingest::{self, IngestReport};
use ctxbridge_archive::open::{Location, OpenedArchive};
use ctxbridge_archive::reader::ReadError;
use ctxbridge_archive::side_files::{SideFileEffort, ingest_side_files};
use ctxbridge_archive::store::sqlite::LockPolicy;
use ctxbridge_archive::store::{Store, StoreError, Transcript, TurnSelection};
use ctxbridge_archive::transcript_paths;
use ctxbridge_common::paths;
use ctxbridge_config::{Config, LeftOut};

/// Maximum number of new bytes that a hook archives itself; more are archived in the background.
const MAX_INLINE_BYTES: u64 = 256 << 20;

/// Context of a hook: its input, the settings and the environment.
#[derive(Clone, Debug)]
pub struct HookContext {
    /// Our data folder.
    pub data: PathBuf,
    /// The client's folder, which transcripts must be in.
    pub client: Option<PathBuf>,
    /// The user's home.
    pub home: Option<PathBuf>,
    /// The folder that the client was started in, if it tells us.
    pub project: Option<PathBuf>,
    /// This program.
    pub program: PathBuf,
    /// `$PATH` of the user's shell.
    pub path_variable: Option<OsString>,
    /// Window by which the client compacts, in tokens, if the user set one.
    pub compact_window_tokens: Option<u64>,
    /// The settings.
    pub config: Config,
    /// The input from the client.
    pub input: HookInput,
    /// Milliseconds since 1970.
    pub now_ms: i64,
    /// Measurement so far.
    pub measured: RefCell<HookMeasurement>,
}

/// Errors of hooks.
#[derive(Debug, thiserror::Error)]
pub enum HookError {
    /// The input is not what the client sends.
    #[error("the input has no {0}; hooks are run by the client, with JSON on stdin")]
    Missing(&'static str),
    /// The transcript is not in the client's folder.
    #[error("{} is not a transcript in the client's folder; `ctxbridge archive import PATH` takes others", .0.display())]
    Elsewhere(PathBuf),
    /// The transcript cannot be archived.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The archive reported an error.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl HookError {
    /// Returns the error that shows that the archive is damaged and must be replaced.
    fn damage(&self) -> Option<&StoreError> {
        match self {
            Self::Store(error) | Self::Read(ReadError::Store(error)) => Some(error).filter(|error| error.is_damage()),
            _ => None,
        }
    }
}

/// Archives the files beside a transcript, then its new part, and reconciles it with turns imported from another tool.
///
/// # Errors
/// If it cannot be read, or the store cannot be written. What cannot be read beside it, the next import names.
pub(super) fn ingest_transcript(
    store: &mut dyn Store,
    transcript: &Transcript,
    path: &Path,
    effort: SideFileEffort,
) -> Result<IngestReport, ReadError> {
    ingest_side_files(store, transcript, effort, &mut |store, batch| store.append(batch))?;
    let done = ingest::ingest(store, transcript, path)?;
    ctxbridge_claude_flow::supersede_imported_after(store, transcript, &done)?;
    Ok(done)
}

impl HookContext {
    /// Opens the archive. A damaged one is replaced, and filled again in the background. With [`LockPolicy::Background`], queued writes
    /// of other hooks are applied first.
    pub fn open(&self, policy: LockPolicy) -> Result<Box<dyn Store>, HookError> {
        // A mounted bucket may be slow, and somebody waits.
        let opened = self.location().open_for_hook(policy);
        let OpenedArchive { mut store, quarantined: aside, fallback_reason: instead } =
            opened.inspect_err(|_| self.enqueue_transcript())?;
        if let Some(aside) = aside {
            super::start_reimport(&self.data, &self.program, &aside);
        }
        if let Some(instead) = instead {
            // It works, so nobody is told; whoever asks finds out why.
            self.log().note_once(Event::SessionStart, self.input.session.as_deref(), &instead, self.now_ms).ok();
        }
        if policy == LockPolicy::Background
            && let Err(error) = Spool::in_dir(&self.data).drain_into(&mut *store)
        {
            // It waits on; what this hook has to write is tried all the same.
            self.log().note(Event::SessionEnd, None, &format!("what waits to be archived: {error}"), self.now_ms).ok();
        }
        Ok(store)
    }

    /// Location of this machine's archive. No hook asks a server.
    pub fn location(&self) -> Location {
        Location::of(&self.data, &self.config.archive)
    }

    /// Opens the archive for more writes than the transcript. If it cannot be opened, they are queued for the next hook.
    pub fn open_or_spool(&self, pending: &[PendingWrite]) -> Result<Box<dyn Store>, HookError> {
        self.open(super::WRITE_LOCK_POLICY).inspect_err(|_| pending.iter().for_each(|pending| self.enqueue(pending)))
    }

    /// Writes into the archive. If that fails, the write is queued for the next hook.
    pub fn write_or_spool(&self, store: &mut dyn Store, pending: &PendingWrite) -> Result<(), HookError> {
        Ok(pending.apply(store).inspect_err(|_| self.enqueue(pending))?)
    }

    fn enqueue(&self, pending: &PendingWrite) {
        if let Err(error) = Spool::in_dir(&self.data).push(pending) {
            let error = format!("could not archive the data, nor queue it: {error}");
            self.log().note(Event::SessionEnd, self.input.session.as_deref(), &error, self.now_ms).ok();
        }
    }

    /// Queues the transcript, if it is the client's, for the next hook of any session.
    fn enqueue_transcript(&self) {
        if let Ok(Some(path)) = self.transcript() {
            self.enqueue(&PendingWrite::Transcript { path });
        }
    }

    /// Returns the measurement so far.
    pub fn measured(&self) -> RefMut<'_, HookMeasurement> {
        self.measured.borrow_mut()
    }

    /// Returns the session's project, if any. The client's folder may change in a session; its project does not.
    pub fn project(&self) -> Option<Project> {
        let folder = self.project.as_deref().or(self.input.cwd.as_deref())?;
        Project::around(folder, self.home.as_deref())
    }

    /// Returns why the session is left out of the archive, if it is.
    pub fn left_out(&self) -> Option<LeftOut> {
        let of_folder = self.folders().find_map(|folder| self.config.left_out(folder, self.home.as_deref()));
        // Where nobody can say, what is archived is checked line by line, and fails.
        let is_forgotten = |session: &String| Tombstones::read(&self.data).is_ok_and(|known| known.has_session(session));
        of_folder.or_else(|| self.input.session.as_ref().is_some_and(is_forgotten).then_some(LeftOut::Forgotten))
    }

    /// `true` if the session recalls nothing.
    pub fn is_without_recall(&self) -> bool {
        self.folders().any(|folder| self.config.is_without_recall(folder, self.home.as_deref()))
    }

    /// The folder that the client was started in, and the one it works in now.
    fn folders(&self) -> impl Iterator<Item = &Path> {
        [self.project.as_deref(), self.input.cwd.as_deref()].into_iter().flatten()
    }

    /// Returns the session's transcript, if it exists.
    ///
    /// # Errors
    /// If the client did not name it, or it is not in the client's folder.
    pub fn transcript(&self) -> Result<Option<PathBuf>, HookError> {
        let path = self.input.transcript.as_deref().ok_or(HookError::Missing("transcript_path"))?;
        self.client_transcript(path)
    }

    /// Checks that a transcript is in the client's folder; `None` if it does not exist (yet).
    pub fn client_transcript(&self, path: &Path) -> Result<Option<PathBuf>, HookError> {
        let elsewhere = || HookError::Elsewhere(path.to_owned());
        let Ok(found) = paths::real(path) else { return Ok(None) };
        let client = self.client.as_deref().ok_or_else(elsewhere)?;
        // People keep the folder, or the one with the transcripts, on another disk.
        let folders = [client.to_owned(), client.join("projects")];
        let is_inside = folders.iter().filter_map(|folder| paths::real(folder).ok()).any(|folder| found.starts_with(folder));
        let is_transcript = found.extension().is_some_and(|extension| extension == "jsonl");
        if is_inside && is_transcript { Ok(Some(path.to_owned())) } else { Err(elsewhere()) }
    }

    /// Archives the new part of the session; also of sub-agents, and large files beside it, if nobody waits.
    pub fn archive(&self, store: &mut dyn Store, with_agents: bool) -> Result<Option<IngestReport>, HookError> {
        let Some(path) = self.transcript()? else { return Ok(None) };
        let transcript = Transcript::at(&path);
        let length = std::fs::metadata(&path).map_or(0, |metadata| metadata.len());
        // The cursor is read once more when the pass begins: here only where it may matter.
        let known = if length > MAX_INLINE_BYTES { store.cursor(&transcript.path)? } else { None };
        if length.saturating_sub(known.map_or(0, |cursor| cursor.bytes)) > MAX_INLINE_BYTES {
            let path = path.to_string_lossy();
            super::background::start(&self.program, &["archive", "import", "--background", &path])
                .map_err(|cause| ReadError::Io { path: self.program.clone(), cause })?;
            return Ok(None);
        }
        let effort = if with_agents { SideFileEffort::Hook } else { SideFileEffort::Prompt };
        let done = ingest_transcript(store, &transcript, &path, effort).inspect_err(|error| {
            if matches!(error, ReadError::Store(_)) {
                self.enqueue(&PendingWrite::Transcript { path: path.clone() });
            }
        })?;
        {
            let mut measured = self.measured();
            measured.bytes += done.bytes;
            measured.turns += done.turns;
        }
        if with_agents {
            self.archive_agents(store, &transcript.session, &path)?;
        }
        self.log().record_success();
        Ok(Some(done))
    }

    fn archive_agents(&self, store: &mut dyn Store, session: &str, path: &Path) -> Result<(), HookError> {
        const RECENT: usize = 8;
        let found = store.session(session)?;
        let turns = found.map_or(Ok(Vec::new()), |session| store.turns(session.key, TurnSelection::Newest(RECENT)))?;
        let named: Vec<String> = turns.into_iter().flat_map(|turn| turn.turn.agents).collect();
        for path in transcript_paths::agent_transcripts(path, &named) {
            ingest_transcript(store, &Transcript::at(&path), &path, SideFileEffort::Hook)?;
        }
        Ok(())
    }

    /// Returns the log of failures.
    pub fn log(&self) -> Log {
        Log::in_dir(&self.data)
    }

    /// Handles a failure. Returns the notice for the user, if it is the first one. The archive is closed by now: if it is damaged,
    /// it is replaced, and the user is told of that instead.
    pub fn handle_failure(&self, event: Event, error: &HookError) -> Option<String> {
        let Some(damage) = error.damage() else { return self.log_failure(event, error) };
        match self.location().quarantine_damaged(damage) {
            Ok(Some(aside)) => {
                super::start_reimport(&self.data, &self.program, &aside);
                None
            }
            // Somebody else was first.
            Ok(None) => None,
            Err(error) => self.log_failure(event, &error),
        }
    }

    /// Logs a failure. Returns the notice for the user, if it is the first one.
    pub fn log_failure(&self, event: Event, error: &dyn std::fmt::Display) -> Option<String> {
        let error = error.to_string();
        let is_first = self.log().report_failure(event, self.input.session.as_deref(), &error, self.now_ms);
        is_first.then(|| {
            format!(
                "ctxbridge: {error}. What could not be archived waits for the next hook; `ctxbridge doctor` says how things are. \
                 (Told once; further failures are in {}.)",
                self.data.join("logs").join(Log::FILE).display()
            )
        })
    }
}

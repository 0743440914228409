//! What every hook has to go on, and the pass over the session's transcript that most of them begin with.

use std::cell::{RefCell, RefMut};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::{Event, Input, Log, Measured, Owed, Spool};
use crate::bundle::Project;
use ctxbridge_archive::ingest::{self, Pass};
use ctxbridge_archive::open::{Location, Opened};
use ctxbridge_archive::place;
use ctxbridge_archive::reader::ReadError;
use ctxbridge_archive::store::sqlite::Patience;
use ctxbridge_archive::store::{Store, StoreError, Transcript, Turns};
use ctxbridge_config::Config;

/// Bytes that a hook archives itself; what is more than that goes on in the background.
const MOST_BYTES: u64 = 256 << 20;

/// What a hook knows.
#[derive(Clone, Debug)]
pub struct Scene {
    /// Our data folder.
    pub data: PathBuf,
    /// The client's folder, which transcripts have to lie in.
    pub client: Option<PathBuf>,
    /// The user's home.
    pub home: Option<PathBuf>,
    /// The folder that the client was started in, where it says so.
    pub project: Option<PathBuf>,
    /// This program.
    pub program: PathBuf,
    /// Where the user's shell looks for programs.
    pub path_variable: Option<OsString>,
    /// The window by which the client compacts, where the user set one, in tokens.
    pub compacts_at: Option<u64>,
    /// The settings.
    pub config: Config,
    /// What the client said.
    pub input: Input,
    /// Milliseconds since 1970.
    pub now_ms: i64,
    /// What was done so far.
    pub measured: RefCell<Measured>,
}

/// Why a hook cannot do its work.
#[derive(Debug, thiserror::Error)]
pub enum HookError {
    /// The input is not what the client sends.
    #[error("the input has no {0}; hooks are run by the client, with JSON on stdin")]
    Missing(&'static str),
    /// A transcript that is none of the client's.
    #[error("{} is not a transcript in the client's folder; `ctxbridge archive import PATH` takes others", .0.display())]
    Elsewhere(PathBuf),
    /// The transcript cannot be archived.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The archive says no.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl HookError {
    /// What says that the archive has to be made anew.
    fn damage(&self) -> Option<&StoreError> {
        match self {
            Self::Store(error) | Self::Read(ReadError::Store(error)) => Some(error).filter(|error| error.is_damage()),
            _ => None,
        }
    }
}

/// One pass over one transcript. What another tool kept of its session is settled with it.
///
/// # Errors
/// When it cannot be read, or the store cannot be written.
pub(super) fn pass(store: &mut dyn Store, transcript: &Transcript, path: &Path) -> Result<Pass, ReadError> {
    let done = ingest::archive(store, transcript, path)?;
    ctxbridge_claude_flow::settle_after(store, transcript, &done)?;
    Ok(done)
}

impl Scene {
    /// Opens the archive; a damaged one is replaced, and filled again in the background. Who has patience takes in what others could not write.
    pub fn open(&self, patience: Patience) -> Result<Box<dyn Store>, HookError> {
        // A mounted bucket may be slow, and somebody waits.
        let opened = self.location().in_hook(patience);
        let Opened { mut store, aside, instead } = opened.inspect_err(|_| self.owe_transcript())?;
        if let Some(aside) = aside {
            super::refill(&self.data, &self.program, &aside);
        }
        if let Some(instead) = instead {
            // It works, so nobody is told; whoever asks finds out why.
            self.log().note_once(Event::SessionStart, self.input.session.as_deref(), &instead, self.now_ms).ok();
        }
        if patience == Patience::Patient
            && let Err(error) = Spool::in_dir(&self.data).take(&mut *store)
        {
            // It waits on; what this hook has to write is tried all the same.
            self.log().note(Event::SessionEnd, None, &format!("what waits to be archived: {error}"), self.now_ms).ok();
        }
        Ok(store)
    }

    /// Where the archive of this machine is. No hook asks a server.
    pub fn location(&self) -> Location {
        Location::of(&self.data, &self.config.archive)
    }

    /// The same for one who has something to write besides the transcript: where it cannot be opened, that waits for the next hook.
    pub fn open_for(&self, owed: &[Owed]) -> Result<Box<dyn Store>, HookError> {
        self.open(super::SAFETY).inspect_err(|_| owed.iter().for_each(|owed| self.owe(owed)))
    }

    /// Writes something into the archive; what cannot be written waits for the next hook.
    pub fn pay(&self, store: &mut dyn Store, owed: &Owed) -> Result<(), HookError> {
        Ok(owed.pay(store).inspect_err(|_| self.owe(owed))?)
    }

    fn owe(&self, owed: &Owed) {
        if let Err(error) = Spool::in_dir(&self.data).put(owed) {
            let error = format!("what could not be archived cannot wait either: {error}");
            self.log().note(Event::SessionEnd, self.input.session.as_deref(), &error, self.now_ms).ok();
        }
    }

    /// The transcript, if it is the client's, waits for the next hook, of whatever session.
    fn owe_transcript(&self) {
        if let Ok(Some(path)) = self.transcript() {
            self.owe(&Owed::Transcript { path });
        }
    }

    /// What was done so far.
    pub fn measured(&self) -> RefMut<'_, Measured> {
        self.measured.borrow_mut()
    }

    /// The project that the session is of, if it is one. The client's folder may change in a session, its project does not.
    pub fn project(&self) -> Option<Project> {
        let folder = self.project.as_deref().or(self.input.cwd.as_deref())?;
        Project::around(folder, self.home.as_deref())
    }

    /// The session's transcript, if it exists.
    ///
    /// # Errors
    /// When the client did not name it, or it is none of the client's.
    pub fn transcript(&self) -> Result<Option<PathBuf>, HookError> {
        let path = self.input.transcript.as_deref().ok_or(HookError::Missing("transcript_path"))?;
        self.own(path)
    }

    /// A file in the client's folder; nothing when it does not exist (yet).
    pub fn own(&self, path: &Path) -> Result<Option<PathBuf>, HookError> {
        let elsewhere = || HookError::Elsewhere(path.to_owned());
        let Ok(found) = path.canonicalize() else { return Ok(None) };
        let client = self.client.as_deref().ok_or_else(elsewhere)?;
        // People keep the folder, or the one with the transcripts, on another disk.
        let folders = [client.to_owned(), client.join("projects")];
        let is_inside = folders.iter().filter_map(|folder| folder.canonicalize().ok()).any(|folder| found.starts_with(folder));
        let is_transcript = found.extension().is_some_and(|extension| extension == "jsonl");
        if is_inside && is_transcript { Ok(Some(path.to_owned())) } else { Err(elsewhere()) }
    }

    /// Archives what is new of the session; sub-agents' files as well where nobody waits.
    pub fn archive(&self, store: &mut dyn Store, with_agents: bool) -> Result<Option<Pass>, HookError> {
        let Some(path) = self.transcript()? else { return Ok(None) };
        let transcript = Transcript::at(&path);
        let length = std::fs::metadata(&path).map_or(0, |metadata| metadata.len());
        // The cursor is read once more when the pass begins: here only where it may matter.
        let known = if length > MOST_BYTES { store.cursor(&transcript.path)? } else { None };
        if length.saturating_sub(known.map_or(0, |cursor| cursor.bytes)) > MOST_BYTES {
            let path = path.to_string_lossy();
            super::background::start(&self.program, &["archive", "import", "--background", &path])
                .map_err(|cause| ReadError::Io { path: self.program.clone(), cause })?;
            return Ok(None);
        }
        let done = pass(store, &transcript, &path).inspect_err(|error| {
            if matches!(error, ReadError::Store(_)) {
                self.owe(&Owed::Transcript { path: path.clone() });
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
        self.log().worked();
        Ok(Some(done))
    }

    fn archive_agents(&self, store: &mut dyn Store, session: &str, path: &Path) -> Result<(), HookError> {
        const RECENT: usize = 8;
        let found = store.session(session)?;
        let turns = found.map_or(Ok(Vec::new()), |session| store.turns(session.key, Turns::Newest(RECENT)))?;
        let named: Vec<String> = turns.into_iter().flat_map(|turn| turn.turn.agents).collect();
        for path in place::agents_of(path, &named) {
            pass(store, &Transcript::at(&path), &path)?;
        }
        Ok(())
    }

    /// The log of failures.
    pub fn log(&self) -> Log {
        Log::in_dir(&self.data)
    }

    /// What the user is told of a failure, if it is the first. The archive is closed: if it is damaged, it is replaced, and the user
    /// told of that instead.
    pub fn failed(&self, event: Event, error: &HookError) -> Option<String> {
        let Some(damage) = error.damage() else { return self.told_of(event, error) };
        match self.location().move_aside(damage) {
            Ok(Some(aside)) => {
                super::refill(&self.data, &self.program, &aside);
                None
            }
            // Somebody else was first.
            Ok(None) => None,
            Err(error) => self.told_of(event, &error),
        }
    }

    /// What the user is told of a failure, if it is the first.
    pub fn told_of(&self, event: Event, error: &dyn std::fmt::Display) -> Option<String> {
        let error = error.to_string();
        let is_first = self.log().failed(event, self.input.session.as_deref(), &error, self.now_ms);
        is_first.then(|| {
            format!(
                "ctxbridge: {error}. What could not be archived waits for the next hook; `ctxbridge doctor` says how things are. \
                 (Told once; further failures are in {}.)",
                self.data.join("logs").join(Log::FILE).display()
            )
        })
    }
}

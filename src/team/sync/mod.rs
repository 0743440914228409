/*!
Sending new content from one archive to another: from this machine to a team's server.

The other store receives what it would have archived itself if the transcripts had no secrets: a `stream` of redacted lines goes
through the ordinary reader. So a run can be interrupted anywhere and resumed, and nothing is stored twice. Turns, summaries,
learnings and snapshots are derived there, from what was sent. Records of hooks and of the user
([`annotations`](ctxbridge_archive::annotations)) are sent as well. A file (`state`) keeps the progress, so that a run costs only
what is new. At the end, a store that keeps `vectors` receives those that it lacks. [`RemoteDelete`] deletes a session there, and
sessions in [`SyncExclusions`] are never sent.

The archive can be read and written during a run. One run at a time sends to a store. Hooks only start a run, in the background.
*/

mod exclusions;
mod job;
mod outgoing;
mod preview;
mod project;
mod remote_delete;
mod retry;
mod state;
mod stream;
mod vectors;
mod worker;

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

pub use exclusions::SyncExclusions;
pub use preview::{PreviewedSecret, SyncPreview, SyncPreviewReport};
pub use remote_delete::RemoteDelete;
pub use retry::{Backoff, RetryPolicy};

use ctxbridge_archive::learn::LearningPatterns;
use ctxbridge_archive::reader::ReadError;
use ctxbridge_archive::store::{Session, Store, StoreError};
use ctxbridge_common::files;
use ctxbridge_common::paths;
use ctxbridge_redact::{RedactionCounts, Redactor};
use ctxbridge_vectors::embed::EmbeddingModel;
use job::SessionSync;
use state::SyncState;
use worker::{SharedState, WorkerStores};

/// Maximum number of workers: a team's server does not have more connections for everybody.
const MAX_WORKERS: usize = 2;

/// Longest wait for another run: it is over in a moment, or takes long.
const RUN_LOCK_TIMEOUT: Duration = Duration::from_millis(200);

/// Name of the lock file, in the folder of the state files.
const LOCK_FILE: &str = "lock";

/// Opens a store; each worker has its own.
pub type StoreOpener<'o> = &'o (dyn Fn() -> Result<Box<dyn Store>, StoreError> + Sync);

/// A run that sends an archive to another store.
pub struct SyncRun<'s> {
    /// The data folder, with the record of what was sent.
    pub data: &'s Path,
    /// Opens the local archive.
    pub from: StoreOpener<'s>,
    /// Opens the store that receives it.
    pub to: StoreOpener<'s>,
    /// Identity of the receiving store: progress is kept per identity.
    pub name: &'s str,
    /// Finds the secrets, which stay here.
    pub redactor: &'s Redactor,
    /// Patterns of the learnings that are extracted there.
    pub patterns: &'s LearningPatterns,
    /// The embedding model whose vectors are sent to a store that keeps some. They are taken from the local index, or computed if
    /// the model is installed. `None` sends no vectors.
    pub model: Option<&'s Mutex<EmbeddingModel>>,
    /// `true` to check everything again, whatever was sent before.
    pub is_full_resync: bool,
    /// Time to stop; the next run goes on.
    pub deadline: Option<Instant>,
    /// Retries after transient errors.
    pub retries: RetryPolicy,
    /// The current time, in milliseconds since 1970.
    pub now_ms: i64,
}

/// Result of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SyncReport {
    /// Sessions that were checked.
    pub looked_at: usize,
    /// Number of sessions to check.
    pub total: usize,
    /// Sessions with something new.
    pub sessions: usize,
    /// Transcripts with something new.
    pub transcripts: usize,
    /// Bytes of transcripts that are new there.
    pub bytes: u64,
    /// Turns that are new there, or have grown.
    pub turns: u64,
    /// Sent sessions that were searched for learnings afterwards.
    pub derived: usize,
    /// Learnings that are new there.
    pub learnings: usize,
    /// Entries whose vectors are new there.
    pub embedded: usize,
    /// The reason that vectors cannot be kept there, if they cannot.
    pub no_vectors: Option<String>,
    /// Number of secrets that were redacted, by rule.
    pub secrets: RedactionCounts,
    /// Number of sessions that stay private, because this user is no member of the project to show them to; by project.
    pub hidden: BTreeMap<String, usize>,
    /// Sessions that could not be sent, with the reason: unreadable bytes here, or no right to write them there any more.
    pub failed: Vec<(String, String)>,
    /// Sessions that stay private, because the names of their projects are secrets.
    pub unnamed: usize,
    /// Files beside transcripts that stay here, because they are no text, in which secrets could be found.
    pub not_text: usize,
    /// Sessions here that are excluded from sending.
    pub withheld: usize,
    /// `true` if time was up before everything was sent.
    pub is_cut: bool,
}

/// Errors that end a run.
#[derive(Debug, thiserror::Error)]
pub enum SyncError {
    /// Another process is sending.
    #[error("another ctxbridge is already sending the archive; that run, or the next one, sends what is new")]
    Running,
    /// Another process is sending, so nothing can be deleted there yet.
    #[error(
        "another ctxbridge is sending the archive, so nothing was deleted from the server yet; run this again when it is done"
    )]
    RunningAtRemoval,
    /// One of the two stores failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The record of what was sent cannot be written.
    #[error("cannot record in {folder} what was sent: {cause}; check that the folder is writable", folder = folder.display())]
    State {
        /// The folder.
        folder: std::path::PathBuf,
        /// The system's error.
        cause: io::Error,
    },
}

impl From<ReadError> for SyncError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Store(error) => Self::Store(error),
            ReadError::Io { cause, .. } => Self::Store(StoreError::Sink(cause)),
            not @ ReadError::NotAFile(_) => Self::Store(StoreError::Sink(io::Error::other(not.to_string()))),
        }
    }
}

impl SyncRun<'_> {
    /// Sends what is new. `progress` is called after each session.
    ///
    /// # Errors
    /// If another process is sending, or a store still fails after several attempts. What was sent before stays sent.
    pub fn run(&self, progress: &(dyn Fn(&SyncReport) + Sync)) -> Result<SyncReport, SyncError> {
        let failed = |cause| SyncError::State { folder: self.data.to_owned(), cause };
        let _alone = lock(self.data, RUN_LOCK_TIMEOUT).map_err(failed)?.ok_or(SyncError::Running)?;
        let mut state = SyncState::of(self.data, self.name).map_err(failed)?;
        if self.is_full_resync {
            state.forget().map_err(failed)?;
        }
        let withheld = SyncExclusions::of(self.data).map_err(failed)?;
        let mut sessions = (self.from)()?.sessions("", None, usize::MAX)?;
        let all = sessions.len();
        sessions.retain(|session| !withheld.has(&session.session));
        let work = SyncWork {
            shared: SharedState::new(self, state),
            sessions: &sessions,
            stop: AtomicBool::new(false),
            sent: Mutex::default(),
            done: Mutex::new(SyncReport { total: sessions.len(), withheld: all - sessions.len(), ..SyncReport::default() }),
            progress,
        };
        let passed = work.run_workers(sessions.len(), SyncWork::send);
        let settled = work.checkpoint_target();
        passed.and(settled)?;
        let sent = work.sent.lock().unwrap_or_else(PoisonError::into_inner).len();
        // What somebody looks for is there by now; this takes longer.
        work.run_workers(sent, SyncWork::derive)?;
        work.vectors()?;
        Ok(work.done.into_inner().unwrap_or_else(PoisonError::into_inner))
    }
}

/// State that the workers share.
struct SyncWork<'w> {
    shared: SharedState<'w>,
    /// Newest first: today's sessions are searched for first.
    sessions: &'w [Session],
    stop: AtomicBool,
    /// Indices of the sessions that were sent, with the hashes of their facts.
    sent: Mutex<Vec<(usize, String)>>,
    done: Mutex<SyncReport>,
    progress: &'w (dyn Fn(&SyncReport) + Sync),
}

impl SyncWork<'_> {
    /// Calls a function for each number below a limit, with several workers.
    fn run_workers(
        &self,
        limit: usize,
        what: fn(&Self, &mut WorkerStores, usize) -> Result<(), SyncError>,
    ) -> Result<(), SyncError> {
        let next = AtomicUsize::new(0);
        let work = || -> Result<(), SyncError> {
            let mut open = WorkerStores::default();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= limit || self.stop.load(Ordering::Relaxed) {
                    return Ok(());
                }
                if self.shared.sync.deadline.is_some_and(|deadline| Instant::now() > deadline) {
                    self.done.lock().unwrap_or_else(PoisonError::into_inner).is_cut = true;
                    return Ok(());
                }
                what(self, &mut open, number).inspect_err(|_| self.stop.store(true, Ordering::Relaxed))?;
            }
        };
        let workers = std::thread::available_parallelism().map_or(1, usize::from).min(MAX_WORKERS).min(limit).max(1);
        std::thread::scope(|scope| {
            let others: Vec<_> =
                (1..workers).filter_map(|_| std::thread::Builder::new().spawn_scoped(scope, work).ok()).collect();
            let mine = work();
            let others = others.into_iter().map(|other| other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            others.fold(mine, Result::and)
        })
    }

    /// Sends one session.
    fn send(&self, open: &mut WorkerStores, number: usize) -> Result<(), SyncError> {
        let session = &self.sessions[number];
        let job = SessionSync { shared: &self.shared, session };
        let mut from = match open.from.take() {
            Some(from) => from,
            None => (self.shared.sync.from)()?,
        };
        let sent = self.with_retries(open, |open| job.send_all(&mut *from, open));
        open.from = Some(from);
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        done.looked_at += 1;
        match sent {
            Ok(Some((sent, hash))) => {
                done.add(sent);
                self.sent.lock().unwrap_or_else(PoisonError::into_inner).push((number, hash));
            }
            Ok(None) => {}
            Err(error) => {
                drop(done);
                let reason = self.session_failure_reason(open, session, error)?;
                done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
                done.failed.push((session.session.clone(), reason));
            }
        }
        (self.progress)(&done);
        Ok(())
    }

    /// The reason that one session cannot be sent where all others can. Other errors are returned as they are.
    fn session_failure_reason(&self, open: &mut WorkerStores, session: &Session, error: SyncError) -> Result<String, SyncError> {
        match error {
            SyncError::Store(error) if error.is_session_local() => Ok(error.to_string()),
            SyncError::Store(error) if error.is_denied() => {
                let left =
                    self.with_retries(open, |open| Ok(open.target(self.shared.sync)?.revoked_project(&session.session)?))?;
                let Some(project) = left else { return Err(error.into()) };
                Ok(format!(
                    "it is shown to the project {project}, which you are no member of any more there; `ctxbridge archive share {} private` \
                     hides it from them, or one of them adds you again",
                    session.session
                ))
            }
            error => Err(error),
        }
    }

    /// Lets the other store put in order what was sent so far.
    fn checkpoint_target(&self) -> Result<(), SyncError> {
        let mut open = WorkerStores::default();
        if self.sent.lock().unwrap_or_else(PoisonError::into_inner).is_empty() {
            return Ok(());
        }
        self.with_retries(&mut open, |open| Ok(open.target(self.shared.sync)?.checkpoint()?))?;
        (self.progress)(&self.done.lock().unwrap_or_else(PoisonError::into_inner));
        Ok(())
    }

    /// Derives snapshots and learnings in the other store for a session that was sent.
    fn derive(&self, open: &mut WorkerStores, number: usize) -> Result<(), SyncError> {
        let (number, hash) = self.sent.lock().unwrap_or_else(PoisonError::into_inner)[number].clone();
        let job = SessionSync { shared: &self.shared, session: &self.sessions[number] };
        let derived = match self.with_retries(open, |open| job.derive(open, &hash)) {
            Ok(derived) => derived,
            Err(error) => {
                let reason = self.session_failure_reason(open, job.session, error)?;
                self.done.lock().unwrap_or_else(PoisonError::into_inner).failed.push((job.session.session.clone(), reason));
                return Ok(());
            }
        };
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        done.add(derived);
        done.derived += 1;
        (self.progress)(&done);
        Ok(())
    }

    /// Repeats an operation after transient errors.
    fn with_retries<T>(
        &self,
        open: &mut WorkerStores,
        mut work: impl FnMut(&mut WorkerStores) -> Result<T, SyncError>,
    ) -> Result<T, SyncError> {
        let mut attempts = self.shared.sync.retries.begin();
        loop {
            match work(open) {
                Err(SyncError::Store(error)) if error.is_transient() && !self.stop.load(Ordering::Relaxed) => {
                    // Whatever is wrong with this connection, another one may not have.
                    open.to = None;
                    if !attempts.wait() {
                        return Err(error.into());
                    }
                }
                result => return result,
            }
        }
    }
}

impl SyncReport {
    fn add(&mut self, other: Self) {
        self.sessions += other.sessions;
        self.transcripts += other.transcripts;
        self.bytes += other.bytes;
        self.turns += other.turns;
        self.learnings += other.learnings;
        for (rule, count) in other.secrets {
            *self.secrets.entry(rule).or_default() += count;
        }
        for (project, count) in other.hidden {
            *self.hidden.entry(project).or_default() += count;
        }
        self.unnamed += other.unnamed;
        self.not_text += other.not_text;
        self.is_cut |= other.is_cut;
    }
}

/// Takes the lock of runs; `None` where another process has it. Without file locks, all go on: even so nothing is sent twice.
fn lock(data: &Path, timeout: Duration) -> io::Result<Option<Option<File>>> {
    let folder = data.join(state::SYNC_FOLDER);
    paths::create_private_dir(&folder)?;
    let file = files::open_lock(folder.join(LOCK_FILE))?;
    match files::lock_within(&file, File::try_lock, timeout) {
        Ok(()) => Ok(Some(Some(file))),
        Err(std::fs::TryLockError::WouldBlock) => Ok(None),
        Err(std::fs::TryLockError::Error(_)) => Ok(Some(None)),
    }
}

/*!
Sending what is new in one archive to another: from this machine to a team's server.

What is sent is what the other store would have archived itself, had its transcripts no secrets: a `stream` of cleaned lines goes
through the ordinary reader, so that it can be interrupted anywhere and begun again, and nothing is there twice. Turns, summaries,
learnings and snapshots are made of what was sent. What hooks and the user told (`facts`) is sent besides. How far that was is kept in a
file (`state`), so that a run costs what is new. At last, a store that keeps `vectors` is given those that it lacks. `unsend` takes a session back,
and what is `withheld` is never sent.

Whoever only looks at the archive meanwhile, or adds to it, is in nobody's way. One run at a time sends to a store.
*/

mod job;
mod outgoing;
mod project;
mod retry;
mod state;
mod stream;
mod unsend;
mod vectors;
mod withheld;

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

pub use retry::{Rest, Retries};
pub use unsend::Unsending;
pub use withheld::Withheld;

use ctxbridge_archive::embed::Model;
use ctxbridge_archive::learn::Patterns;
use ctxbridge_archive::reader::ReadError;
use ctxbridge_archive::store::{Session, Store, StoreError};
use ctxbridge_common::files;
use ctxbridge_common::paths;
use ctxbridge_redact::{Found, Redactor};
use job::Job;
use state::State;

/// More connections at once than this, a server of a team does not have for everybody.
const WORKERS: usize = 2;

/// How long to wait for another run: it is over in a moment, or will be long.
const PATIENCE: Duration = Duration::from_millis(200);

/// The lock, in the folder of the states.
const LOCK: &str = "lock";

/// Opens a store; each worker has its own.
pub type Opening<'o> = &'o (dyn Fn() -> Result<Box<dyn Store>, StoreError> + Sync);

/// What is sent where.
pub struct Sending<'s> {
    /// The data folder, where it is written down what was sent.
    pub data: &'s Path,
    /// What there is.
    pub from: Opening<'s>,
    /// Where it goes.
    pub to: Opening<'s>,
    /// What tells the store that it goes to from others: another one has nothing yet.
    pub name: &'s str,
    /// What stays here.
    pub redactor: &'s Redactor,
    /// What is learned from what was sent.
    pub patterns: &'s Patterns,
    /// The model of which vectors are sent to a store that keeps some, as far as they are here or it is installed; none where there is none.
    pub model: Option<&'s Mutex<Model>>,
    /// Whether to ask for everything again, whatever was sent before.
    pub is_whole: bool,
    /// When to stop; the next run goes on.
    pub deadline: Option<Instant>,
    /// How to go on after trouble.
    pub retries: Retries,
    /// When it is, in milliseconds since 1970.
    pub now_ms: i64,
}

/// What was sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Synced {
    /// Sessions that were looked at.
    pub looked_at: usize,
    /// Of so many.
    pub of: usize,
    /// Sessions of which there was something new.
    pub sessions: usize,
    /// Transcripts of which there was.
    pub transcripts: usize,
    /// Bytes of them that are new there.
    pub bytes: u64,
    /// Turns that are new there, or have grown.
    pub turns: u64,
    /// Sessions of those that were looked through for learnings afterwards.
    pub derived: usize,
    /// Learnings that are new there.
    pub learnings: usize,
    /// Entries whose vectors are new there.
    pub embedded: usize,
    /// Why vectors cannot be kept there, where that is so.
    pub no_vectors: Option<String>,
    /// Secrets that were taken out, by rule.
    pub secrets: Found,
    /// Sessions that stay private, because this user is no member of the projects that they should be shown to; by project.
    pub hidden: BTreeMap<String, usize>,
    /// Sessions that could not be sent, and why: their bytes here cannot be read, or they may not be written there any more.
    pub failed: Vec<(String, String)>,
    /// Sessions that stay private, because what their projects are called is a secret.
    pub unnamed: usize,
    /// Sessions here that are sent to nobody.
    pub withheld: usize,
    /// Whether time was up before everything was sent.
    pub is_cut: bool,
}

/// Why nothing more was sent.
#[derive(Debug, thiserror::Error)]
pub enum SyncError {
    /// Another process does.
    #[error("another ctxbridge is sending the archive already; what is new is sent by that one, or by the next")]
    Running,
    /// The same, to who takes something back.
    #[error("another ctxbridge is sending the archive, and nothing was taken back yet; run this again when that is done")]
    Sending,
    /// One of both stores says no.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// It cannot be written down what was sent.
    #[error("cannot note down in {folder} what was sent: {cause}; see that the folder can be written", folder = folder.display())]
    State {
        /// The folder.
        folder: std::path::PathBuf,
        /// What the system says.
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

impl Sending<'_> {
    /// Sends what is new. `progress` is called after each session.
    ///
    /// # Errors
    /// When another process does, or one of the stores cannot be read or written, also after several attempts. What was sent before stays sent.
    pub fn run(&self, progress: &(dyn Fn(&Synced) + Sync)) -> Result<Synced, SyncError> {
        let failed = |cause| SyncError::State { folder: self.data.to_owned(), cause };
        let _alone = lock(self.data, PATIENCE).map_err(failed)?.ok_or(SyncError::Running)?;
        let mut state = State::of(self.data, self.name).map_err(failed)?;
        if self.is_whole {
            state.forget().map_err(failed)?;
        }
        let withheld = Withheld::of(self.data).map_err(failed)?;
        let mut sessions = (self.from)()?.sessions("", None, usize::MAX)?;
        let all = sessions.len();
        sessions.retain(|session| !withheld.has(&session.session));
        let work = Work {
            sync: self,
            sessions: &sessions,
            state: Mutex::new(state),
            stop: AtomicBool::new(false),
            sent: Mutex::default(),
            done: Mutex::new(Synced { of: sessions.len(), withheld: all - sessions.len(), ..Synced::default() }),
            progress,
        };
        let passed = work.by_all(sessions.len(), Work::send);
        let settled = work.settle();
        passed.and(settled)?;
        let sent = work.sent.lock().unwrap_or_else(PoisonError::into_inner).len();
        // What somebody looks for is there by now; this takes longer.
        work.by_all(sent, Work::derive)?;
        work.vectors()?;
        Ok(work.done.into_inner().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What workers share.
struct Work<'w> {
    sync: &'w Sending<'w>,
    /// The newest first: what was said today is asked for first.
    sessions: &'w [Session],
    state: Mutex<State>,
    stop: AtomicBool,
    /// Which of them were sent, with what their facts are known by.
    sent: Mutex<Vec<(usize, String)>>,
    done: Mutex<Synced>,
    progress: &'w (dyn Fn(&Synced) + Sync),
}

/// What one worker has open.
#[derive(Default)]
struct Open {
    from: Option<Box<dyn Store>>,
    to: Option<Box<dyn Store>>,
}

impl Work<'_> {
    /// Has several workers do something for each number below a limit.
    fn by_all(&self, limit: usize, what: fn(&Self, &mut Open, usize) -> Result<(), SyncError>) -> Result<(), SyncError> {
        let next = AtomicUsize::new(0);
        let work = || -> Result<(), SyncError> {
            let mut open = Open::default();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= limit || self.stop.load(Ordering::Relaxed) {
                    return Ok(());
                }
                if self.sync.deadline.is_some_and(|deadline| Instant::now() > deadline) {
                    self.done.lock().unwrap_or_else(PoisonError::into_inner).is_cut = true;
                    return Ok(());
                }
                what(self, &mut open, number).inspect_err(|_| self.stop.store(true, Ordering::Relaxed))?;
            }
        };
        let workers = std::thread::available_parallelism().map_or(1, usize::from).min(WORKERS).min(limit).max(1);
        std::thread::scope(|scope| {
            let others: Vec<_> =
                (1..workers).filter_map(|_| std::thread::Builder::new().spawn_scoped(scope, work).ok()).collect();
            let mine = work();
            let others = others.into_iter().map(|other| other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            others.fold(mine, Result::and)
        })
    }

    /// Sends one session.
    fn send(&self, open: &mut Open, number: usize) -> Result<(), SyncError> {
        let session = &self.sessions[number];
        let job = Job { sync: self.sync, state: &self.state, session };
        let mut from = match open.from.take() {
            Some(from) => from,
            None => (self.sync.from)()?,
        };
        let sent = self.persistently(open, |open| job.send_all(&mut *from, &mut open.to));
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
                let reason = self.reason_of_one(open, session, error)?;
                done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
                done.failed.push((session.session.clone(), reason));
            }
        }
        (self.progress)(&done);
        Ok(())
    }

    /// Why one session cannot be sent, where all others can.
    fn reason_of_one(&self, open: &mut Open, session: &Session, error: SyncError) -> Result<String, SyncError> {
        match error {
            SyncError::Store(error) if error.is_of_one() => Ok(error.to_string()),
            SyncError::Store(error) if error.is_denied() => {
                let left = self.persistently(open, |open| Ok(self.opened(open)?.left_project(&session.session)?))?;
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

    /// Has the other store put in order what was sent, as far as that went.
    fn settle(&self) -> Result<(), SyncError> {
        let mut open = Open::default();
        if self.sent.lock().unwrap_or_else(PoisonError::into_inner).is_empty() {
            return Ok(());
        }
        self.persistently(&mut open, |open| Ok(self.opened(open)?.settle()?))?;
        (self.progress)(&self.done.lock().unwrap_or_else(PoisonError::into_inner));
        Ok(())
    }

    /// Has the other store find out what it can of one that was sent.
    fn derive(&self, open: &mut Open, number: usize) -> Result<(), SyncError> {
        let (number, hash) = self.sent.lock().unwrap_or_else(PoisonError::into_inner)[number].clone();
        let job = Job { sync: self.sync, state: &self.state, session: &self.sessions[number] };
        let derived = match self.persistently(open, |open| job.derive(&mut open.to, &hash)) {
            Ok(derived) => derived,
            Err(error) => {
                let reason = self.reason_of_one(open, job.session, error)?;
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

    fn opened<'o>(&self, open: &'o mut Open) -> Result<&'o mut Box<dyn Store>, StoreError> {
        Ok(match &mut open.to {
            Some(to) => to,
            closed => closed.insert((self.sync.to)()?),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, written: io::Result<()>) -> Result<(), SyncError> {
        written.map_err(|cause| SyncError::State { folder: self.sync.data.to_owned(), cause })
    }

    /// Does something more than once where that may help.
    fn persistently<T>(&self, open: &mut Open, mut work: impl FnMut(&mut Open) -> Result<T, SyncError>) -> Result<T, SyncError> {
        let mut attempts = self.sync.retries.begin();
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

impl Synced {
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
        self.is_cut |= other.is_cut;
    }
}

/// Nothing where another process has it. On drives without locks, everybody goes on: nothing is sent twice even so.
fn lock(data: &Path, patience: Duration) -> io::Result<Option<Option<File>>> {
    let folder = data.join(state::FOLDER);
    paths::create_private_dir(&folder)?;
    let file = files::private().create(true).append(true).open(folder.join(LOCK))?;
    match files::lock_within(&file, File::try_lock, patience) {
        Ok(()) => Ok(Some(Some(file))),
        Err(std::fs::TryLockError::WouldBlock) => Ok(None),
        Err(std::fs::TryLockError::Error(_)) => Ok(Some(None)),
    }
}

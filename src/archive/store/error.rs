//! Errors of a store.

use std::error::Error;
use std::io;
use std::path::PathBuf;

use ctxbridge_common::sqlite::DatabaseOpenError;

/// Kinds of server failures, by what can be done about them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerFailure {
    /// Another one writes the same; trying again a moment later helps.
    Busy,
    /// The server is not reached now, or has too much to do.
    Transient,
    /// This user lacks a right.
    Denied,
    /// Bytes of one session are damaged; all others can be read.
    OneSession,
    /// Anything else.
    Other,
}

/// Errors of a store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process writes, and did not stop in time.
    #[error("the archive {path} is being written by another process; try again")]
    Busy {
        /// The database.
        path: PathBuf,
    },
    /// The file is damaged.
    #[error(
        "the archive {path} is damaged ({cause}); `ctxbridge archive optimize --verify` mends it, and keeps what it cannot mend"
    )]
    Damaged {
        /// The database.
        path: PathBuf,
        /// The damage that was found.
        cause: String,
    },
    /// There is no room.
    #[error("no space left to write the archive {path}; free some, and the next hook archives what is missing")]
    Full {
        /// The database.
        path: PathBuf,
    },
    /// The disk fails to read or write.
    #[error(
        "cannot read or write the archive {path}: {cause}; check the disk and free some space; the next hook archives what is missing"
    )]
    Disk {
        /// The database.
        path: PathBuf,
        /// The error from SQLite.
        cause: rusqlite::Error,
    },
    /// A file cannot be read or written.
    #[error("cannot use {path}: {cause}; check the rights of its folder, or set CTXBRIDGE_DATA_DIR to one that may be written")]
    File {
        /// The file.
        path: PathBuf,
        /// The error from the system.
        cause: io::Error,
    },
    /// Any other error from SQLite.
    #[error(
        "cannot use the archive {path}: {cause}; check the rights of the folder, or set CTXBRIDGE_DATA_DIR to one that may be written"
    )]
    Sqlite {
        /// The database.
        path: PathBuf,
        /// The error from SQLite.
        cause: rusqlite::Error,
    },
    /// The database was written by a newer version.
    #[error("cannot open the archive {path}: {cause}")]
    Open {
        /// The database.
        path: PathBuf,
        /// The problem.
        cause: DatabaseOpenError,
    },
    /// The database was written by an older version, and is opened read-only.
    #[error(
        "the archive {path} was written by an older ctxbridge; any other command, such as `ctxbridge archive status`, upgrades it"
    )]
    Older {
        /// The database.
        path: PathBuf,
    },
    /// A segment's bytes are not those that were archived.
    #[error(
        "the archive {path} is damaged from byte {start} of transcript {transcript} on: {cause}; `ctxbridge archive optimize --verify` \
         puts back what is still elsewhere"
    )]
    Segment {
        /// The database.
        path: PathBuf,
        /// The transcript's id.
        transcript: i64,
        /// Offset of the segment.
        start: u64,
        /// The problem.
        cause: String,
    },
    /// Bytes that were moved to cold storage cannot be read there.
    #[error(
        "it is in cold storage, and {file} cannot be read: {cause}; see that its folder is mounted, or put the file back; where the \
         folder is another one now, set archive.cold_folder to it and run `ctxbridge archive optimize`"
    )]
    Cold {
        /// The file.
        file: PathBuf,
        /// The error from the system, or the problem with the file.
        cause: String,
    },
    /// A damaged archive cannot be quarantined.
    #[error(
        "the archive {path} is damaged and cannot be moved aside: {cause}; close the sessions that use it and try again, or move it away by hand"
    )]
    Quarantine {
        /// The database.
        path: PathBuf,
        /// The error from the system.
        cause: io::Error,
    },
    /// A server refuses or fails a request.
    #[error("{cause}")]
    Server {
        /// Its kind.
        failure: ServerFailure,
        /// The error of the store that talks to it.
        cause: Box<dyn Error + Send + Sync>,
    },
    /// The bytes read from the archive cannot be written to the caller's sink.
    #[error(transparent)]
    Sink(#[from] io::Error),
}

impl StoreError {
    /// `true` if the database has to be created from scratch.
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Damaged { .. })
    }

    /// `true` if it concerns only a session in cold storage: all others can be read.
    pub fn is_cold(&self) -> bool {
        matches!(self, Self::Cold { .. })
    }

    /// `true` if it says nothing about other sessions: bytes of one are damaged or missing.
    pub fn is_session_local(&self) -> bool {
        matches!(self, Self::Cold { .. } | Self::Segment { .. }) || self.server_failure() == Some(ServerFailure::OneSession)
    }

    /// `true` if this user lacks a right.
    pub fn is_denied(&self) -> bool {
        self.server_failure() == Some(ServerFailure::Denied)
    }

    /// `true` if a retry a moment later may work.
    pub fn is_busy(&self) -> bool {
        matches!(self, Self::Busy { .. }) || self.server_failure() == Some(ServerFailure::Busy)
    }

    /// `true` if a later retry may work on its own: the server cannot be reached now, or has too much to do.
    pub fn is_transient(&self) -> bool {
        self.is_busy() || self.server_failure() == Some(ServerFailure::Transient)
    }

    fn server_failure(&self) -> Option<ServerFailure> {
        match self {
            Self::Server { failure, .. } => Some(*failure),
            _ => None,
        }
    }
}

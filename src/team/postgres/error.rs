//! Errors of a server, distinguished by the remedy.

use std::error::Error as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio_postgres::error::SqlState;

use super::settings::ConnectionSettings;
use ctxbridge_archive::quote;
use ctxbridge_archive::store::{ServerFailure, StoreError};

/// An error of a server. It never contains a password.
#[derive(Debug, thiserror::Error)]
pub enum PostgresError {
    /// Nothing answers at that address.
    #[error("cannot reach the PostgreSQL server {server}: {cause}; see that it runs, and that host and port are right")]
    Unreachable {
        /// Host and port.
        server: String,
        /// The system's error.
        cause: String,
    },
    /// It does not offer TLS.
    #[error(
        "the PostgreSQL server {server} does not offer TLS; enable it there (ssl = on), or set postgres.ssl to off if you trust the network in between"
    )]
    TlsRefused {
        /// Host and port.
        server: String,
    },
    /// Its certificate is not trusted, or the TLS handshake failed.
    #[error(
        "the certificate of the PostgreSQL server {server} is not trusted: {cause}; connect by the host name in the certificate, and set postgres.ca_file \
         to the file of the authority that signed it"
    )]
    Certificate {
        /// Host and port.
        server: String,
        /// The problem with it.
        cause: String,
    },
    /// The trusted certificates cannot be read.
    #[error("no certificates can be read from {place}: {cause}; set postgres.ca_file to a file with certificates (PEM)")]
    Authorities {
        /// The file, or the system's store.
        place: String,
        /// The error.
        cause: String,
    },
    /// The server rejected the login.
    #[error(
        "the PostgreSQL server {server} rejected the login for {user}: {cause}; check the user, the password, and pg_hba.conf on the server"
    )]
    Login {
        /// Host and port.
        server: String,
        /// The user.
        user: String,
        /// The server's message.
        cause: String,
    },
    /// There is no such database.
    #[error("the PostgreSQL server {server} has no database {database}; create it there (CREATE DATABASE), or name another one")]
    NoDatabase {
        /// Host and port.
        server: String,
        /// The database.
        database: String,
    },
    /// It takes no more connections.
    #[error("the PostgreSQL server {server} has no connection left: {cause}; try again later, or raise max_connections there")]
    Full {
        /// Host and port.
        server: String,
        /// The server's message.
        cause: String,
    },
    /// It is starting, stopping or recovering.
    #[error("the PostgreSQL server {server} is not ready: {cause}; try again in a moment")]
    NotReady {
        /// Host and port.
        server: String,
        /// The server's message.
        cause: String,
    },
    /// Nothing can be written there.
    #[error("the PostgreSQL server {server} is read-only: {cause}; name the primary server, not a standby")]
    ReadOnly {
        /// Host and port.
        server: String,
        /// The server's message.
        cause: String,
    },
    /// It does not answer in time.
    #[error("the PostgreSQL server {server} took more than {} s to {what}; try again when it is less busy", .limit.as_secs_f32())]
    Timeout {
        /// Host and port.
        server: String,
        /// The operation that took too long.
        what: &'static str,
        /// The timeout.
        limit: Duration,
    },
    /// All connections of this process are in use.
    #[error("all connections of this process to the PostgreSQL server {server} are in use; try again")]
    Busy {
        /// Host and port.
        server: String,
    },
    /// A concurrent write got in the way.
    #[error("the PostgreSQL server {server} aborted the transaction because of a concurrent write ({cause}); try again")]
    Conflict {
        /// Host and port.
        server: String,
        /// The server's message.
        cause: String,
    },
    /// The schema is of a later version.
    #[error(
        "the archive on the PostgreSQL server {server} was written by a newer ctxbridge (schema {found}; this version knows {known}); upgrade ctxbridge"
    )]
    SchemaTooNew {
        /// Host and port.
        server: String,
        /// The server's version.
        found: i32,
        /// The version that this program knows.
        known: i32,
    },
    /// The schema is missing or older, and this user may not change it.
    #[error("{}", match found {
        0 => format!(
            "there is no archive in that database of the PostgreSQL server {server} yet, and {user} may not create one: {owner} has to \
             run GRANT CREATE ON DATABASE … TO a role that is to own it, which then runs `ctxbridge archive sync` once (docs/postgres.md)"
        ),
        _ => format!(
            "the archive on the PostgreSQL server {server} has schema {found} instead of {known}, and {user} may not change it: {owner} \
             has to run `ctxbridge archive sync` once with this version"
        ),
    })]
    SchemaTooOld {
        /// Host and port.
        server: String,
        /// The schema's version; 0 for none.
        found: i32,
        /// The version that this program knows.
        known: i32,
        /// The user who asked.
        user: String,
        /// The user who may change it.
        owner: String,
    },
    /// The server is too old.
    #[error("the PostgreSQL server {server} has version {found}, and ctxbridge needs {needed} or later")]
    ServerTooOld {
        /// Host and port.
        server: String,
        /// The server's version.
        found: String,
        /// The oldest supported version.
        needed: u32,
    },
    /// The user is no member of the tenant.
    #[error(
        "{user} is not a member of the tenant {tenant} on the PostgreSQL server {server}; one of its admins has to run \
         SELECT ctxbridge.add_member({}, {}) there. If you meant another tenant, set postgres.tenant; to create a new one, run \
         `ctxbridge archive sync`",
        literal(tenant),
        literal(user)
    )]
    NoMember {
        /// Host and port.
        server: String,
        /// The tenant.
        tenant: String,
        /// The user who asked.
        user: String,
    },
    /// The user is not a member of the project.
    #[error(
        "{user} is not a member of the project {project} of the tenant {tenant} on the PostgreSQL server {server}; one of its members has to \
         run SELECT ctxbridge.add_to_project({}, {}, {}) there",
        literal(tenant),
        literal(project),
        literal(user)
    )]
    NoProject {
        /// Host and port.
        server: String,
        /// The tenant.
        tenant: String,
        /// The project.
        project: String,
        /// The user who asked.
        user: String,
    },
    /// The user lacks a privilege.
    #[error("the PostgreSQL server {server} does not allow that: {cause}; ask its administrator for the right")]
    Denied {
        /// Host and port.
        server: String,
        /// The server's message.
        cause: String,
    },
    /// The connection broke.
    #[error(
        "the connection to the PostgreSQL server {server} was lost ({cause}); unfinished changes were rolled back; try again"
    )]
    Lost {
        /// Host and port.
        server: String,
        /// The system's error.
        cause: String,
    },
    /// It has no disk space left.
    #[error("the PostgreSQL server {server} has no room left: {cause}; free some space there")]
    NoRoom {
        /// Host and port.
        server: String,
        /// The server's message.
        cause: String,
    },
    /// It has no extension for vectors.
    #[error(
        "the PostgreSQL server {server} has no extension `vector` (pgvector): it searches by words alone; to search by meaning, install the extension there and run \
         CREATE EXTENSION vector in the database"
    )]
    NoVectors {
        /// Host and port.
        server: String,
    },
    /// Stored data cannot be read.
    #[error("the archive on the PostgreSQL server {server} has a row that cannot be read: {cause}")]
    Unreadable {
        /// Host and port.
        server: String,
        /// The server's message.
        cause: String,
    },
    /// A segment's bytes are not those that were archived.
    #[error("the archive on the PostgreSQL server {server} is damaged from byte {start} of transcript {transcript} on: {cause}")]
    Segment {
        /// Host and port.
        server: String,
        /// The transcript's id.
        transcript: i64,
        /// Offset of the segment.
        start: u64,
        /// The problem with it.
        cause: String,
    },
    /// Any other error of the server.
    #[error("PostgreSQL error from {server}: {cause}")]
    Other {
        /// Host and port.
        server: String,
        /// The server's message.
        cause: String,
    },
}

/// Quotes a text as an SQL literal, for a statement that a message tells the user to run. A project's name comes from elsewhere.
pub fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

impl From<PostgresError> for StoreError {
    fn from(error: PostgresError) -> Self {
        let failure = match &error {
            PostgresError::Busy { .. } | PostgresError::Conflict { .. } => ServerFailure::Busy,
            PostgresError::Denied { .. } => ServerFailure::Denied,
            PostgresError::Segment { .. } => ServerFailure::OneSession,
            error if error.is_transient() => ServerFailure::Transient,
            _ => ServerFailure::Other,
        };
        Self::Server { failure, cause: Box::new(error) }
    }
}

impl PostgresError {
    /// The PostgreSQL error in a store's error, if there is one.
    pub fn of(error: &StoreError) -> Option<&Self> {
        match error {
            StoreError::Server { cause, .. } => cause.downcast_ref(),
            _ => None,
        }
    }

    /// `true` if a later attempt may succeed without anybody's help.
    pub fn is_transient(&self) -> bool {
        matches!(
            self,
            Self::Unreachable { .. }
                | Self::Full { .. }
                | Self::NotReady { .. }
                | Self::Timeout { .. }
                | Self::Busy { .. }
                | Self::Conflict { .. }
                | Self::Lost { .. }
        )
    }

    /// Interprets an error of the client from connecting.
    pub(super) fn of_connecting(settings: &ConnectionSettings, error: &tokio_postgres::Error) -> Self {
        let server = settings.server();
        let user = settings.user.clone();
        let cause = cause_of(error);
        let Some(code) = error.code() else {
            let mut source = error.source();
            while let Some(inner) = source {
                if inner.downcast_ref::<rustls::Error>().is_some() {
                    return Self::Certificate { server, cause: inner.to_string() };
                }
                // An error of input and output tells what is in it, and not what it comes from.
                source = match inner.downcast_ref::<std::io::Error>().and_then(|error| error.get_ref()) {
                    Some(wrapped) => Some(wrapped),
                    None => inner.source(),
                };
            }
            // The client keeps its kinds to itself.
            return if cause.contains("server does not support TLS") {
                Self::TlsRefused { server }
            } else if cause.contains("password missing") {
                let cause = match settings.insecure_password_file.as_deref().map(Path::display) {
                    None => "it asks for a password, and none is set".to_owned(),
                    Some(file) => format!(
                        "it wants a password, and the one in {file} is passed over, since others can read that file (`chmod 600 {file}`)"
                    ),
                };
                Self::Login { server, user, cause }
            } else if error.to_string().starts_with("authentication error") {
                Self::Login { server, user, cause }
            } else if error.to_string().starts_with("error performing TLS") {
                Self::Certificate { server, cause }
            } else {
                Self::Unreachable { server, cause }
            };
        };
        match code.code() {
            "28000" | "28P01" => Self::Login { server, user, cause },
            "3D000" => Self::NoDatabase { server, database: settings.database.clone() },
            _ => Self::of_statement(settings, error),
        }
    }

    /// Interprets an error of the client from a statement.
    pub(super) fn of_statement(settings: &ConnectionSettings, error: &tokio_postgres::Error) -> Self {
        let server = settings.server();
        let cause = cause_of(error);
        let Some(code) = error.code() else {
            let text = error.to_string();
            let is_ours = ["error serializing", "error deserializing", "invalid column", "expected "];
            return if is_ours.iter().any(|begin| text.starts_with(begin)) {
                Self::Unreadable { server, cause: text }
            } else {
                Self::Lost { server, cause }
            };
        };
        match *code {
            SqlState::TOO_MANY_CONNECTIONS => Self::Full { server, cause },
            SqlState::READ_ONLY_SQL_TRANSACTION => Self::ReadOnly { server, cause },
            SqlState::QUERY_CANCELED => Self::Timeout { server, what: "answer", limit: settings.statement_timeout },
            SqlState::LOCK_NOT_AVAILABLE | SqlState::T_R_DEADLOCK_DETECTED | SqlState::T_R_SERIALIZATION_FAILURE => {
                Self::Conflict { server, cause }
            }
            SqlState::INSUFFICIENT_PRIVILEGE => Self::Denied { server, cause },
            SqlState::DISK_FULL => Self::NoRoom { server, cause },
            SqlState::CANNOT_CONNECT_NOW => Self::NotReady { server, cause },
            SqlState::ADMIN_SHUTDOWN | SqlState::CRASH_SHUTDOWN | SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT => {
                Self::Lost { server, cause }
            }
            _ if code.code().starts_with("08") => Self::Lost { server, cause },
            _ => Self::Other { server, cause: format!("{cause} ({})", code.code()) },
        }
    }

    pub(super) fn of_authorities(file: Option<&PathBuf>, cause: impl ToString) -> Self {
        let place = file.map_or_else(|| "the system's certificates".to_owned(), |file| file.display().to_string());
        Self::Authorities { place, cause: cause.to_string() }
    }
}

/// The error's message without the server's details, which may contain row data. Any host may answer
/// at that address and its message is shown on a terminal, so unprintable characters are escaped.
fn cause_of(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(db) => quote::printable(db.message()),
        None => quote::printable(&error.source().map_or_else(|| error.to_string(), ToString::to_string)),
    }
}

/*!
The archive on a PostgreSQL server, shared by a team: the schema `ctxbridge`.

Each row belongs to a tenant and, in it, to the server role that wrote it. Row-level security hides private rows from all
other roles, whatever client they use. A session can be shown to its project or to the whole tenant. Every call ends,
with an answer or after a timeout. A transaction is committed whole or not at all, so whatever fails can be retried.

The columns `owner` and `audience` of a row name its readers, so policies need no other table. Equal turns of two users are two
entries: otherwise one could find out what the other has.
*/

mod changes;
mod compactions;
mod connection;
mod content;
mod error;
mod folders;
mod identity;
mod learnings;
mod learnings_write;
mod maintenance;
mod pins;
mod pool;
mod read;
mod removal;
mod rewinds;
mod row;
mod schema;
mod search;
mod segments;
mod session_row;
mod settings;
mod sharing;
mod store;
mod tls;
mod tsvector;
mod turns;
mod write;

pub use error::{PostgresError, literal};
pub use pool::ConnectionPool;
pub use search::EntryText;
pub use settings::{
    CONNECT_TIMEOUT, ConnectionSettings, ConnectionSettingsError, DEFAULT_PORT, DEFAULT_TENANT, STATEMENT_TIMEOUT, TlsMode,
    UrlDefaults,
};

use connection::Connection;
use ctxbridge_archive::store::{RemovalReport, RetainOnRemove, StoreError};
use ctxbridge_config::Visibility;
use segments::SegmentCache;

/// An archive on a PostgreSQL server.
#[derive(Debug)]
pub struct PostgresStore {
    pool: ConnectionPool,
    /// The role of the connection.
    user: String,
    is_new: bool,
    remembered: SegmentCache,
}

impl PostgresStore {
    /// Connects, brings the schema up to date, and enters the tenant.
    ///
    /// # Errors
    /// If the server cannot be reached, rejects the login, is too old, has a newer schema, or has
    /// an older one that this user may not change; and when the user is no member of the tenant.
    pub fn connect(settings: ConnectionSettings) -> Result<Self, PostgresError> {
        Self::of(&ConnectionPool::new(settings))
    }

    /// The same with a shared pool of connections.
    ///
    /// # Errors
    /// As [`Self::connect`].
    pub fn of(pool: &ConnectionPool) -> Result<Self, PostgresError> {
        let (user, is_new) = pool.with(enter_tenant)?;
        Ok(Self { pool: pool.clone(), user, is_new, remembered: SegmentCache::default() })
    }

    /// The connections, for another store of the same process.
    pub fn pool(&self) -> &ConnectionPool {
        &self.pool
    }

    /// `true` if the tenant was created by this connection: this user is its admin now.
    pub fn is_new_tenant(&self) -> bool {
        self.is_new
    }

    /// The role that we are logged in as.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// The server's version, as it reports it.
    ///
    /// # Errors
    /// If the server does not answer.
    pub fn server_version(&self) -> Result<String, PostgresError> {
        self.pool.with(|db| db.one_without_tenant("SELECT current_setting('server_version')", &[])?.get(0))
    }

    /// `true` if this user sees everything, whoever wrote it: row-level security does not apply to superusers.
    ///
    /// # Errors
    /// If the server does not answer.
    pub fn is_row_security_exempt(&self) -> Result<bool, PostgresError> {
        let sql = "SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = session_user";
        self.pool.with(|db| db.one_without_tenant(sql, &[])?.get(0))
    }

    /// Changes the visibility of a session. Returns `false` where this user has no such session.
    ///
    /// # Errors
    /// If it is to be shown to a project that this user is no member of, or the server fails.
    pub fn set_visibility(&mut self, session: i64, visibility: Visibility) -> Result<bool, StoreError> {
        if visibility == Visibility::Project {
            self.write(|db| sharing::join_project_of(db, session))?;
        }
        self.write(|db| sharing::set_visibility(db, session, visibility))
    }

    /// Assigns a session to a project. The first user with a session of a project
    /// becomes its first member. Returns `false` where this user has no such session.
    ///
    /// # Errors
    /// If the session is shown to its project and this user is no member of it, or the server fails.
    pub fn set_project(&mut self, session: i64, project: &str) -> Result<bool, StoreError> {
        self.write(|db| sharing::join_if_shown(db, session, project))?;
        self.write(|db| sharing::set_project(db, session, project))
    }

    /// Deletes this user's session with this id, and everything that is stored for it alone. `None`
    /// where there is none. The remaining record does not name a project whose name is a secret.
    ///
    /// # Errors
    /// If the server fails: then all of it is still there.
    pub fn remove_session(
        &mut self,
        session: &str,
        rest: RetainOnRemove,
        is_secret: &dyn Fn(&str) -> bool,
    ) -> Result<Option<RemovalReport>, StoreError> {
        let taken = self.write(|db| removal::remove_session(db, session, rest, is_secret))?;
        if let Some((_, Some(project))) = &taken {
            self.write(|db| removal::leave_project(db, project))?;
        }
        Ok(taken.map(|(taken, _)| taken))
    }

    /// Other sessions of this user that share entries with the session with this id.
    ///
    /// # Errors
    /// If the server does not answer.
    pub fn sessions_sharing_entries(&mut self, session: &str) -> Result<Vec<String>, StoreError> {
        self.read(|db| removal::sessions_sharing_entries(db, session))
    }

    /// The ids of all sessions of this user, including those without any content yet.
    ///
    /// # Errors
    /// If the server does not answer.
    pub fn own_sessions(&mut self) -> Result<Vec<String>, StoreError> {
        self.read(removal::own_sessions)
    }

    /// Texts of entries, in the given order, each cut at `chars` characters. Entries that this user may not read are left out.
    ///
    /// # Errors
    /// If the server does not answer.
    pub fn texts_of(&mut self, entries: &[i64], chars: usize) -> Result<Vec<EntryText>, StoreError> {
        self.read(|db| search::texts_of(db, entries, chars))
    }
}

/// Brings the schema up to date and enters the tenant. Returns the role that we are logged in as, and `true` if the tenant is new.
fn enter_tenant(db: &mut Connection) -> Result<(String, bool), PostgresError> {
    schema::migrate(db)?;
    let tenant = db.settings().tenant.clone();
    let begins = db.settings().creates_tenant;
    let row = db.one("SELECT session_user::text, ctxbridge.enter($1, $2), ctxbridge.ensure_vectors()", &[&begins])?;
    let user: String = row.get(0)?;
    match row.get::<Option<String>>(1)? {
        Some(entered) => Ok((user, entered == "new")),
        None => Err(PostgresError::NoMember { server: db.settings().server(), tenant, user }),
    }
}

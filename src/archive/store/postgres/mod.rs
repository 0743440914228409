/*!
The archive on a PostgreSQL server, shared by a team: the schema `ctxbridge`.

Each row belongs to a tenant and, in it, to the role of the server that wrote it. Row-level security keeps what is private to one from
all others, whatever they ask with; a session can be shown to its project or the whole tenant. Every call ends, with an answer or when
its time is over, and a transaction happens whole or not at all, so whatever fails may be tried again.
*/

mod connection;
mod error;
mod identity;
mod pool;
mod schema;
mod secret;
mod settings;
mod tls;

pub use error::PostgresError;
pub use pool::Pool;
pub use secret::Secret;
pub use settings::{CONNECT_TIMEOUT, PORT, STATEMENT_TIMEOUT, Settings, SettingsError, Ssl, TENANT, Visibility};

use connection::Connection;

/// An archive on a PostgreSQL server.
#[derive(Debug)]
pub struct PostgresStore {
    pool: Pool,
    /// The role that it is used as.
    user: String,
}

impl PostgresStore {
    /// Connects, brings the schema up to date, and enters the tenant.
    ///
    /// # Errors
    /// When the server cannot be reached or does not let us in, is too old, has a newer schema, or an older one that this user may not
    /// change, and when the user is no member of the tenant.
    pub fn connect(settings: Settings) -> Result<Self, PostgresError> {
        Self::of(&Pool::new(settings))
    }

    /// The same with connections that others use as well.
    ///
    /// # Errors
    /// As [`Self::connect`].
    pub fn of(pool: &Pool) -> Result<Self, PostgresError> {
        let user = pool.with(enter)?;
        Ok(Self { pool: pool.clone(), user })
    }

    /// The connections, for another store of the same process.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// The role that the server knows us as.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// The server's version, as it says it.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn server_version(&self) -> Result<String, PostgresError> {
        self.pool.with(|db| {
            let row = db.one("SELECT current_setting('server_version')", &[])?;
            db.get(&row, 0)
        })
    }

    /// Whether there is search by meaning: the server has pgvector, and the tables for it.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn has_vectors(&self) -> Result<bool, PostgresError> {
        self.pool.with(|db| {
            let row = db.one("SELECT to_regclass('ctxbridge.embeddings') IS NOT NULL", &[])?;
            db.get(&row, 0)
        })
    }

    /// Whether this user sees everything, whoever wrote it: row-level security does not hold for superusers.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn is_exempt(&self) -> Result<bool, PostgresError> {
        self.pool.with(|db| {
            let row = db.one("SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = session_user", &[])?;
            db.get(&row, 0)
        })
    }
}

/// The role that the server knows us as.
fn enter(db: &mut Connection) -> Result<String, PostgresError> {
    schema::migrate(db)?;
    let tenant = db.tenant().to_owned();
    let row = db.one("SELECT session_user::text, ctxbridge.enter($1), ctxbridge.ensure_vectors()", &[&tenant])?;
    let user: String = db.get(&row, 0)?;
    if db.get(&row, 1)? { Ok(user) } else { Err(PostgresError::NoMember { server: db.settings().server(), tenant, user }) }
}

/*!
The archive on a PostgreSQL server, shared by a team: the schema `ctxbridge`.

Each row belongs to a tenant and, in it, to the role of the server that wrote it. Row-level security keeps what is private to one from
all others, whatever they ask with; a session can be shown to its project or the whole tenant. Every call ends, with an answer or when
its time is over, and a transaction happens whole or not at all, so whatever fails may be tried again.
*/

mod changes;
mod compactions;
mod connection;
mod content;
mod cycle;
mod error;
mod identity;
mod kept;
mod learnings;
mod lesson;
mod line;
mod pool;
mod read;
mod removal;
mod schema;
mod search;
mod segments;
mod settings;
mod sharing;
mod store;
mod tls;
mod turns;
mod words;
mod write;

pub use error::{PostgresError, literal};
pub use pool::Pool;
pub use search::{Hit, Text};
pub use settings::{CONNECT_TIMEOUT, Otherwise, PORT, STATEMENT_TIMEOUT, Settings, SettingsError, Ssl, TENANT};

use connection::Connection;
use ctxbridge_archive::search::filter::Filter;
use ctxbridge_archive::store::{Rest, StoreError, TakenBack};
use ctxbridge_common::digest;
use ctxbridge_config::Visibility;
use segments::Remembered;

/// An archive on a PostgreSQL server.
#[derive(Debug)]
pub struct PostgresStore {
    pool: Pool,
    /// The role that it is used as.
    user: String,
    is_new: bool,
    remembered: Remembered,
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
        let (user, is_new) = pool.with(enter)?;
        Ok(Self { pool: pool.clone(), user, is_new, remembered: Remembered::default() })
    }

    /// The connections, for another store of the same process.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Whether nobody had an archive of that tenant before: this user is its admin now.
    pub fn is_new_tenant(&self) -> bool {
        self.is_new
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
        self.pool.with(|db| db.fact("SELECT current_setting('server_version')", &[])?.get(0))
    }

    /// Whether there is search by meaning: the server has pgvector, and the tables for it.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn has_vectors(&self) -> Result<bool, PostgresError> {
        self.pool.with(|db| db.fact("SELECT to_regclass('ctxbridge.embeddings') IS NOT NULL", &[])?.get(0))
    }

    /// Whether this user sees everything, whoever wrote it: row-level security does not hold for superusers.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn is_exempt(&self) -> Result<bool, PostgresError> {
        let sql = "SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = session_user";
        self.pool.with(|db| db.fact(sql, &[])?.get(0))
    }

    /// Shows a session to others, or to nobody any more. False where there is no such session of one's own.
    ///
    /// # Errors
    /// When it is to be shown to a project that this user is no member of, or the server does not do it.
    pub fn set_visibility(&mut self, session: i64, visibility: Visibility) -> Result<bool, StoreError> {
        if visibility == Visibility::Project {
            self.write(|db| sharing::enter_project_of(db, session))?;
        }
        self.write(|db| sharing::set_visibility(db, session, visibility))
    }

    /// Says what project a session is of; the first who has one of a project is its first member. False where there is no such session
    /// of one's own.
    ///
    /// # Errors
    /// When the session is shown to its project and this user is no member of it, or the server does not do it.
    pub fn set_project(&mut self, session: i64, project: &str) -> Result<bool, StoreError> {
        self.write(|db| sharing::enter_if_shown(db, session, project))?;
        self.write(|db| sharing::set_project(db, session, project))
    }

    /// Takes one's own session of this id out, with all that is kept of it and of nothing else. None where there is none. What stays does not name a project
    /// whose name is a secret.
    ///
    /// # Errors
    /// When the server does not do it: then all of it is still there.
    pub fn take_back(
        &mut self,
        session: &str,
        rest: Rest,
        is_secret: &dyn Fn(&str) -> bool,
    ) -> Result<Option<TakenBack>, StoreError> {
        let taken = self.write(|db| removal::take_back(db, session, rest, is_secret))?;
        if let Some((_, Some(project))) = &taken {
            self.write(|db| removal::leave_project(db, project))?;
        }
        Ok(taken.map(|(taken, _)| taken))
    }

    /// Other sessions of one's own in which something of one's own session of this id is said.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn also_said_in(&mut self, session: &str) -> Result<Vec<String>, StoreError> {
        self.read(|db| removal::also_said_in(db, session))
    }

    /// The ids of all of one's own sessions, also of those of which nothing was sent yet.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn own_sessions(&mut self) -> Result<Vec<String>, StoreError> {
        self.read(removal::own)
    }

    /// The best entries with these words, in the index's language ([`Terms::expression`]), of all that this user may read.
    ///
    /// [`Terms::expression`]: ctxbridge_archive::search::query::Terms::expression
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn search_words(&mut self, words: &str, filter: &Filter, most: usize) -> Result<Vec<Hit>, StoreError> {
        self.read(|db| search::words(db, words, filter, most))
    }

    /// The entries nearest to a vector of a model, of all that this user may read.
    ///
    /// # Errors
    /// When the server has no vectors, or does not answer.
    pub fn search_near(&mut self, model: &str, vector: &[f32], filter: &Filter, most: usize) -> Result<Vec<Hit>, StoreError> {
        self.with_vectors()?;
        // What is set for a search holds as long as its transaction.
        self.read(|db| db.transaction(|db| search::near(db, model, vector, filter, most)))
    }

    /// Keeps vectors of one's own entries, of each passage one, instead of those that they had of this model.
    ///
    /// # Errors
    /// When the server has no vectors, or does not keep them: they have 384 or 768 dimensions.
    pub fn put_vectors(&mut self, model: &str, vectors: &[(i64, Vec<Vec<f32>>)]) -> Result<(), StoreError> {
        self.with_vectors()?;
        self.write(|db| search::put_vectors(db, model, vectors))
    }

    /// One's own entries that have no vectors of a model, of those below an id the newest, at most so many; each with the SHA-256 of its
    /// content.
    ///
    /// # Errors
    /// When the server has no vectors, or does not answer.
    pub fn without_vectors(
        &mut self,
        model: &str,
        dimensions: usize,
        below: i64,
        most: usize,
    ) -> Result<Vec<(i64, digest::Bytes)>, StoreError> {
        self.with_vectors()?;
        self.read(|db| search::without_vectors(db, (model, dimensions), below, most))
    }

    /// What entries say, in their order, each up to so many characters; those that this user may not read are left out.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn texts_of(&mut self, entries: &[i64], chars: usize) -> Result<Vec<Text>, StoreError> {
        self.read(|db| search::texts_of(db, entries, chars))
    }

    fn with_vectors(&self) -> Result<(), StoreError> {
        if self.has_vectors()? { Ok(()) } else { Err(PostgresError::NoVectors { server: self.pool.settings().server() }.into()) }
    }
}

/// The role that the server knows us as, and whether the tenant is new.
fn enter(db: &mut Connection) -> Result<(String, bool), PostgresError> {
    schema::migrate(db)?;
    let tenant = db.settings().tenant.clone();
    let begins = db.settings().begins_tenant;
    let row = db.one("SELECT session_user::text, ctxbridge.enter($1, $2), ctxbridge.ensure_vectors()", &[&begins])?;
    let user: String = row.get(0)?;
    match row.get::<Option<String>>(1)? {
        Some(entered) => Ok((user, entered == "new")),
        None => Err(PostgresError::NoMember { server: db.settings().server(), tenant, user }),
    }
}

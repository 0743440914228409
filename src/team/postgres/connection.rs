/*!
One connection with a blocking interface: every call ends, with an answer or after a timeout.

The blocking PostgreSQL client has no timeouts, not even for returning a connection. So this
module uses the async one: a thread drives the socket, and the caller waits for the answer with a
timeout. A connection with a timed-out call is not used again, since the answer may still arrive.
*/

use std::collections::HashMap;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::oneshot;
use tokio_postgres::config::{ChannelBinding, SslMode};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Config, NoTls, Statement};

use super::error::PostgresError;
use super::row::PostgresRow;
use super::settings::{ConnectionSettings, TlsMode};
use super::tls;

/// The oldest supported version of PostgreSQL, and its `server_version_num`.
const MIN_SERVER_VERSION: (u32, i32) = (14, 140_000);

/// Time for the network, added to the server's own statement timeout.
const ROUND_TRIP_TIME: Duration = Duration::from_secs(5);

/// Longest time for closing a connection.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Longest wait for a lock.
const LOCK_TIMEOUT: Duration = Duration::from_secs(30);

/// Idle time in a transaction after which the server aborts it, so that others can go on.
const IDLE_IN_TRANSACTION_TIMEOUT: Duration = Duration::from_secs(120);

/// Idle time after which the system sends TCP keepalive probes.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);

/// Parameters of a statement.
pub(super) type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

/// A connection to the server.
pub(super) struct Connection {
    client: Client,
    statements: HashMap<String, Statement>,
    settings: Arc<ConnectionSettings>,
    /// Longest time for a statement.
    limit: Duration,
    /// `true` if it must not be used again.
    is_broken: bool,
    is_in_transaction: bool,
    /// Dropped with the connection, which ends the thread.
    _end: oneshot::Sender<()>,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("server", &self.settings.server()).field("is_spoiled", &self.is_broken).finish()
    }
}

impl Connection {
    /// Connects.
    pub fn open(settings: &Arc<ConnectionSettings>) -> Result<Self, PostgresError> {
        let (client, end) = connect(settings)?;
        let settings = Arc::clone(settings);
        let limit = settings.statement_timeout;
        let statements = HashMap::new();
        let mut connection = Self { client, statements, settings, limit, is_broken: false, is_in_transaction: false, _end: end };
        connection.configure()?;
        Ok(connection)
    }

    /// Checks the server's version and configures the session.
    fn configure(&mut self) -> Result<(), PostgresError> {
        let row = self.one_without_tenant(
            "SELECT current_setting('server_version_num')::integer, current_setting('server_version')",
            &[],
        )?;
        if row.get::<i32>(0)? < MIN_SERVER_VERSION.1 {
            return Err(PostgresError::ServerTooOld { server: self.server(), found: row.get(1)?, needed: MIN_SERVER_VERSION.0 });
        }
        // Names are written out in full everywhere: nobody else's operator or function is meant.
        let set = "SELECT set_config('search_path', 'pg_catalog', false), set_config('statement_timeout', $1, false),
            set_config('lock_timeout', $2, false), set_config('idle_in_transaction_session_timeout', $3, false),
            set_config('jit', 'off', false)";
        let check = "SELECT set_config('client_connection_check_interval', '5s', false)";
        let milliseconds = |time: Duration| time.as_millis().to_string();
        let statement = milliseconds(self.settings.statement_timeout);
        let lock = milliseconds(LOCK_TIMEOUT.min(self.settings.statement_timeout));
        let idle = milliseconds(IDLE_IN_TRANSACTION_TIMEOUT.max(self.settings.statement_timeout));
        self.one_without_tenant(set, &[&statement, &lock, &idle])?;
        // So that nothing goes on there for one who is gone. A server on Windows has no way to see that, and refuses.
        match self.one_without_tenant(check, &[]) {
            Err(PostgresError::Other { .. }) => Ok(()),
            set => set.map(drop),
        }
    }

    /// The settings it was opened with.
    pub fn settings(&self) -> &ConnectionSettings {
        &self.settings
    }

    fn server(&self) -> String {
        self.settings.server()
    }

    /// `true` if it can be reused.
    pub fn is_reusable(&self) -> bool {
        !self.is_broken && !self.is_in_transaction && !self.client.is_closed()
    }

    /// All rows of a query. The first parameter is the tenant, as in every statement; `params` follow.
    pub fn all(&mut self, sql: &str, params: Params<'_>) -> Result<Vec<PostgresRow>, PostgresError> {
        let settings = Arc::clone(&self.settings);
        self.ask(sql, &with_tenant(&settings, params))
    }

    /// The first row, if there is one.
    pub fn first(&mut self, sql: &str, params: Params<'_>) -> Result<Option<PostgresRow>, PostgresError> {
        Ok(self.all(sql, params)?.into_iter().next())
    }

    /// The first row, which has to exist.
    pub fn one(&mut self, sql: &str, params: Params<'_>) -> Result<PostgresRow, PostgresError> {
        let first = self.first(sql, params)?;
        first.ok_or_else(|| PostgresError::Unreadable { server: self.server(), cause: "there is no row".to_owned() })
    }

    /// Runs a statement. Returns the number of changed rows.
    pub fn execute(&mut self, sql: &str, params: Params<'_>) -> Result<u64, PostgresError> {
        let statement = self.prepared(sql)?;
        let settings = Arc::clone(&self.settings);
        let answer = wait(self.limit(), self.client.execute(&statement, &with_tenant(&settings, params)));
        self.check_answer(answer)
    }

    /// The first row of a query without the tenant parameter.
    pub fn one_without_tenant(&mut self, sql: &str, params: Params<'_>) -> Result<PostgresRow, PostgresError> {
        let first = self.ask(sql, params)?.into_iter().next();
        first.ok_or_else(|| PostgresError::Unreadable { server: self.server(), cause: "there is no row".to_owned() })
    }

    fn ask(&mut self, sql: &str, params: Params<'_>) -> Result<Vec<PostgresRow>, PostgresError> {
        let statement = self.prepared(sql)?;
        let answer = wait(self.limit(), self.client.query(&statement, params));
        let rows = self.check_answer(answer)?;
        Ok(rows.into_iter().map(|row| PostgresRow { row, settings: Arc::clone(&self.settings) }).collect())
    }

    /// Runs several statements without parameters. Only for SQL from this crate.
    pub fn run(&mut self, sql: &str) -> Result<(), PostgresError> {
        let answer = wait(self.limit(), self.client.batch_execute(sql));
        self.check_answer(answer)
    }

    /// Runs a transaction: it is committed whole or not at all.
    pub fn transaction<T, E: From<PostgresError>>(&mut self, work: impl FnOnce(&mut Self) -> Result<T, E>) -> Result<T, E> {
        self.within("BEGIN", "COMMIT", work)
    }

    /// Runs several queries that all see the same state.
    pub fn snapshot<T, E: From<PostgresError>>(&mut self, work: impl FnOnce(&mut Self) -> Result<T, E>) -> Result<T, E> {
        self.within("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", "COMMIT", work)
    }

    fn within<T, E: From<PostgresError>>(
        &mut self,
        begin: &str,
        end: &str,
        work: impl FnOnce(&mut Self) -> Result<T, E>,
    ) -> Result<T, E> {
        // Whatever leaves here without an end, a panic included, takes the connection with it.
        self.is_in_transaction = true;
        self.run(begin)?;
        let result = work(self);
        match &result {
            Ok(_) => self.run(end)?,
            // What cannot be taken back is taken back by the server when the connection ends.
            Err(_) if self.is_broken || self.run("ROLLBACK").is_err() => self.is_broken = true,
            Err(_) => {}
        }
        self.is_in_transaction = false;
        self.limit = self.settings.statement_timeout;
        result
    }

    fn prepared(&mut self, sql: &str) -> Result<Statement, PostgresError> {
        if let Some(statement) = self.statements.get(sql) {
            return Ok(statement.clone());
        }
        let answer = wait(self.limit(), self.client.prepare(sql));
        let statement = self.check_answer(answer)?;
        self.statements.insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }

    /// Raises the timeouts of statements and locks for the current transaction.
    pub fn extend_timeouts(&mut self, limit: Duration) -> Result<(), PostgresError> {
        let limit_ms = limit.as_millis().to_string();
        let set = "SELECT set_config('statement_timeout', $1, true), set_config('lock_timeout', $1, true)";
        self.one_without_tenant(set, &[&limit_ms])?;
        self.limit = limit;
        Ok(())
    }

    fn limit(&self) -> Duration {
        self.limit + ROUND_TRIP_TIME
    }

    fn check_answer<T>(&mut self, answer: Option<Result<T, tokio_postgres::Error>>) -> Result<T, PostgresError> {
        match answer {
            Some(Ok(value)) => Ok(value),
            Some(Err(error)) => {
                let error = PostgresError::of_statement(&self.settings, &error);
                self.is_broken |= matches!(error, PostgresError::Lost { .. } | PostgresError::Unreadable { .. });
                Err(error)
            }
            None => {
                self.is_broken = true;
                Err(PostgresError::Timeout { server: self.server(), what: "answer", limit: self.limit() })
            }
        }
    }
}

fn with_tenant<'a>(settings: &'a ConnectionSettings, params: Params<'a>) -> Vec<&'a (dyn ToSql + Sync)> {
    let tenant: &(dyn ToSql + Sync) = &settings.tenant;
    [&[tenant], params].concat()
}

/// Connects. Returns the client, and a sender whose drop ends its thread.
fn connect(settings: &Arc<ConnectionSettings>) -> Result<(Client, oneshot::Sender<()>), PostgresError> {
    let config = config_of(settings);
    let is_open = settings.is_socket() || settings.ssl == TlsMode::Off;
    // Before anything is begun, since a file is read for it.
    let tls = if is_open { None } else { Some(tls::verifying_connector(settings.ca_file.as_ref())?) };
    let (sender, receiver) = sync_channel(1);
    let (end, ended) = oneshot::channel();
    let limit = settings.connect_timeout;
    let work = move || {
        let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => return drop(sender.send(Err(ConnectFailure::System(error)))),
        };
        let told = |answer| sender.send(answer).is_ok();
        runtime.block_on(async {
            match tls {
                Some(tls) => drive(tokio::time::timeout(limit, config.connect(tls)).await, ended, told).await,
                None => drive(tokio::time::timeout(limit, config.connect(NoTls)).await, ended, told).await,
            }
        });
        // Looking up a name cannot be broken off.
        runtime.shutdown_background();
    };
    let unreachable = |cause: String| PostgresError::Unreachable { server: settings.server(), cause };
    thread::Builder::new().name("postgres".to_owned()).spawn(work).map_err(|error| unreachable(error.to_string()))?;
    let late = || PostgresError::Timeout { server: settings.server(), what: "let us in", limit };
    match receiver.recv_timeout(limit + CLOSE_TIMEOUT) {
        Ok(Ok(client)) => Ok((client, end)),
        Ok(Err(ConnectFailure::Client(error))) => Err(PostgresError::of_connecting(settings, &error)),
        Ok(Err(ConnectFailure::System(error))) => Err(unreachable(error.to_string())),
        Ok(Err(ConnectFailure::TimedOut)) | Err(RecvTimeoutError::Timeout) => Err(late()),
        Err(RecvTimeoutError::Disconnected) => Err(unreachable("the thread for it has ended".to_owned())),
    }
}

/// Errors from connecting.
enum ConnectFailure {
    Client(tokio_postgres::Error),
    System(std::io::Error),
    TimedOut,
}

type Connected<S, T> = Result<(Client, tokio_postgres::Connection<S, T>), tokio_postgres::Error>;

/// Hands the client over, and drives its socket until the connection ends.
async fn drive<S, T>(
    connected: Result<Connected<S, T>, tokio::time::error::Elapsed>,
    ended: oneshot::Receiver<()>,
    told: impl Fn(Result<Client, ConnectFailure>) -> bool,
) where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    let connection = match connected {
        Ok(Ok((client, connection))) => {
            // Who is no longer there needs no connection.
            if !told(Ok(client)) {
                return;
            }
            connection
        }
        Ok(Err(error)) => {
            told(Err(ConnectFailure::Client(error)));
            return;
        }
        Err(_) => {
            told(Err(ConnectFailure::TimedOut));
            return;
        }
    };
    let mut connection = pin!(connection);
    let is_over = tokio::select! {
        // Whoever waits for an answer is told by the client what went wrong.
        _ = connection.as_mut() => true,
        _ = ended => false,
    };
    if !is_over {
        tokio::time::timeout(CLOSE_TIMEOUT, connection).await.ok();
    }
}

fn config_of(settings: &ConnectionSettings) -> Config {
    let mut config = Config::new();
    config.host(&settings.host).port(settings.port).dbname(&settings.database).user(&settings.user);
    config.application_name("ctxbridge").connect_timeout(settings.connect_timeout);
    config.keepalives_idle(KEEPALIVE_IDLE).keepalives_interval(KEEPALIVE_IDLE / 3).keepalives_retries(3);
    config.tcp_user_timeout(settings.statement_timeout.max(KEEPALIVE_IDLE));
    config.channel_binding(ChannelBinding::Prefer);
    config.ssl_mode(match settings.ssl {
        _ if settings.is_socket() => SslMode::Disable,
        TlsMode::Off => SslMode::Disable,
        TlsMode::Offered => SslMode::Prefer,
        TlsMode::On => SslMode::Require,
    });
    if let Some(password) = &settings.password {
        config.password(password.reveal());
    }
    config
}

/// Wakes the waiting thread.
struct ThreadWaker(Thread);

impl Wake for ThreadWaker {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// The result of a future, or `None` after a timeout. It needs no runtime, so it can be called anywhere, also within one.
fn wait<T>(limit: Duration, future: impl Future<Output = T>) -> Option<T> {
    let deadline = Instant::now() + limit;
    let waker = Waker::from(Arc::new(ThreadWaker(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return Some(value);
        }
        let left = deadline.checked_duration_since(Instant::now())?;
        thread::park_timeout(left);
    }
}

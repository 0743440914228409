/*!
One connection, used without async: every call ends, with an answer or when its time is over.

The client for PostgreSQL that is not async has no deadlines, not even when a connection is given back. So this is the async one: a
thread drives what comes and goes on the socket, and who calls waits for an answer as long as it may. A connection on which something
took too long is not used again: what it was asked for may still come.
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
use super::line::Line;
use super::settings::{Settings, Ssl};
use super::tls;

/// The first version of PostgreSQL that will do, and its number.
const OLDEST: (u32, i32) = (14, 140_000);

/// What a call may take beyond the time that the server itself gives a statement: the way there and back.
const GRACE: Duration = Duration::from_secs(5);

/// How long a connection that is given up may take to say good-bye.
const PARTING: Duration = Duration::from_secs(1);

/// How long a lock is waited for.
const LOCK_TIMEOUT: Duration = Duration::from_secs(30);

/// For how long nothing may be asked within a transaction, before the server breaks it off and others may go on.
const IDLE_IN_TRANSACTION: Duration = Duration::from_secs(120);

/// After how long of silence the system asks whether the other side is still there.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// Parameters of a statement.
pub(super) type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

/// A connection.
pub(super) struct Connection {
    client: Client,
    statements: HashMap<String, Statement>,
    settings: Arc<Settings>,
    /// How long a statement may take.
    limit: Duration,
    /// Whether it must not be used again.
    is_spoilt: bool,
    is_in_transaction: bool,
    /// Gone when the connection is, which ends the thread.
    _end: oneshot::Sender<()>,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("server", &self.settings.server()).field("is_spoilt", &self.is_spoilt).finish()
    }
}

impl Connection {
    /// Connects.
    pub fn open(settings: &Arc<Settings>) -> Result<Self, PostgresError> {
        let (client, end) = connect(settings)?;
        let settings = Arc::clone(settings);
        let limit = settings.statement_timeout;
        let statements = HashMap::new();
        let mut connection = Self { client, statements, settings, limit, is_spoilt: false, is_in_transaction: false, _end: end };
        connection.begin()?;
        Ok(connection)
    }

    /// What holds for all that is asked on it.
    fn begin(&mut self) -> Result<(), PostgresError> {
        let row = self.fact("SELECT current_setting('server_version_num')::integer, current_setting('server_version')", &[])?;
        if row.get::<i32>(0)? < OLDEST.1 {
            return Err(PostgresError::TooOld { server: self.server(), found: row.get(1)?, needed: OLDEST.0 });
        }
        // Names are written out in full everywhere: nobody else's operator or function is meant.
        let set = "SELECT set_config('search_path', 'pg_catalog', false), set_config('statement_timeout', $1, false),
            set_config('lock_timeout', $2, false), set_config('idle_in_transaction_session_timeout', $3, false),
            set_config('jit', 'off', false)";
        let check = "SELECT set_config('client_connection_check_interval', '5s', false)";
        let milliseconds = |time: Duration| time.as_millis().to_string();
        let statement = milliseconds(self.settings.statement_timeout);
        let lock = milliseconds(LOCK_TIMEOUT.min(self.settings.statement_timeout));
        let idle = milliseconds(IDLE_IN_TRANSACTION.max(self.settings.statement_timeout));
        self.fact(set, &[&statement, &lock, &idle])?;
        // So that nothing goes on there for one who is gone. A server on Windows has no way to see that, and refuses.
        match self.fact(check, &[]) {
            Err(PostgresError::Other { .. }) => Ok(()),
            set => set.map(drop),
        }
    }

    /// The settings that it was made with.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    fn server(&self) -> String {
        self.settings.server()
    }

    /// Whether it can be given to the next one.
    pub fn is_sound(&self) -> bool {
        !self.is_spoilt && !self.is_in_transaction && !self.client.is_closed()
    }

    /// All rows. The first parameter is the tenant, as in every statement; `params` are those behind it.
    pub fn all(&mut self, sql: &str, params: Params<'_>) -> Result<Vec<Line>, PostgresError> {
        let settings = Arc::clone(&self.settings);
        self.ask(sql, &with_tenant(&settings, params))
    }

    /// The first row, if there is one.
    pub fn first(&mut self, sql: &str, params: Params<'_>) -> Result<Option<Line>, PostgresError> {
        Ok(self.all(sql, params)?.into_iter().next())
    }

    /// The first row.
    pub fn one(&mut self, sql: &str, params: Params<'_>) -> Result<Line, PostgresError> {
        let first = self.first(sql, params)?;
        first.ok_or_else(|| PostgresError::Unreadable { server: self.server(), cause: "there is no row".to_owned() })
    }

    /// How many rows were changed.
    pub fn execute(&mut self, sql: &str, params: Params<'_>) -> Result<u64, PostgresError> {
        let statement = self.prepared(sql)?;
        let settings = Arc::clone(&self.settings);
        let answer = wait(self.limit(), self.client.execute(&statement, &with_tenant(&settings, params)));
        self.told(answer)
    }

    /// The first row of what is no tenant's.
    pub fn fact(&mut self, sql: &str, params: Params<'_>) -> Result<Line, PostgresError> {
        let first = self.ask(sql, params)?.into_iter().next();
        first.ok_or_else(|| PostgresError::Unreadable { server: self.server(), cause: "there is no row".to_owned() })
    }

    fn ask(&mut self, sql: &str, params: Params<'_>) -> Result<Vec<Line>, PostgresError> {
        let statement = self.prepared(sql)?;
        let answer = wait(self.limit(), self.client.query(&statement, params));
        let rows = self.told(answer)?;
        Ok(rows.into_iter().map(|row| Line { row, settings: Arc::clone(&self.settings) }).collect())
    }

    /// Several statements without parameters: what we wrote ourselves.
    pub fn run(&mut self, sql: &str) -> Result<(), PostgresError> {
        let answer = wait(self.limit(), self.client.batch_execute(sql));
        self.told(answer)
    }

    /// A transaction, which happens whole or not at all.
    pub fn transaction<T, E: From<PostgresError>>(&mut self, work: impl FnOnce(&mut Self) -> Result<T, E>) -> Result<T, E> {
        self.within("BEGIN", "COMMIT", work)
    }

    /// Several questions of which all see the same state.
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
            Err(_) if self.is_spoilt || self.run("ROLLBACK").is_err() => self.is_spoilt = true,
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
        let statement = self.told(answer)?;
        self.statements.insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }

    /// Within a transaction: lets its statements, and locks that they wait for, take longer than others may.
    pub fn be_patient(&mut self, limit: Duration) -> Result<(), PostgresError> {
        let limit_ms = limit.as_millis().to_string();
        let set = "SELECT set_config('statement_timeout', $1, true), set_config('lock_timeout', $1, true)";
        self.fact(set, &[&limit_ms])?;
        self.limit = limit;
        Ok(())
    }

    fn limit(&self) -> Duration {
        self.limit + GRACE
    }

    fn told<T>(&mut self, answer: Option<Result<T, tokio_postgres::Error>>) -> Result<T, PostgresError> {
        match answer {
            Some(Ok(value)) => Ok(value),
            Some(Err(error)) => {
                let error = PostgresError::of_statement(&self.settings, &error);
                self.is_spoilt |= matches!(error, PostgresError::Lost { .. } | PostgresError::Unreadable { .. });
                Err(error)
            }
            None => {
                self.is_spoilt = true;
                Err(PostgresError::Timeout { server: self.server(), what: "answer", limit: self.limit() })
            }
        }
    }
}

fn with_tenant<'a>(settings: &'a Settings, params: Params<'a>) -> Vec<&'a (dyn ToSql + Sync)> {
    let tenant: &(dyn ToSql + Sync) = &settings.tenant;
    [&[tenant], params].concat()
}

/// The client, with what ends the thread behind it.
fn connect(settings: &Arc<Settings>) -> Result<(Client, oneshot::Sender<()>), PostgresError> {
    let config = config_of(settings);
    let is_open = settings.is_socket() || settings.ssl == Ssl::Off;
    // Before anything is begun, since a file is read for it.
    let tls = if is_open { None } else { Some(tls::checked(settings.ca_file.as_ref())?) };
    let (sender, receiver) = sync_channel(1);
    let (end, ended) = oneshot::channel();
    let limit = settings.connect_timeout;
    let work = move || {
        let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => return drop(sender.send(Err(Failure::System(error)))),
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
    match receiver.recv_timeout(limit + PARTING) {
        Ok(Ok(client)) => Ok((client, end)),
        Ok(Err(Failure::Client(error))) => Err(PostgresError::of_connecting(settings, &error)),
        Ok(Err(Failure::System(error))) => Err(unreachable(error.to_string())),
        Ok(Err(Failure::Late)) | Err(RecvTimeoutError::Timeout) => Err(late()),
        Err(RecvTimeoutError::Disconnected) => Err(unreachable("the thread for it has ended".to_owned())),
    }
}

/// Why there is no connection.
enum Failure {
    Client(tokio_postgres::Error),
    System(std::io::Error),
    Late,
}

type Connected<S, T> = Result<(Client, tokio_postgres::Connection<S, T>), tokio_postgres::Error>;

/// Hands the client over, and moves what it says and hears until it is gone.
async fn drive<S, T>(
    connected: Result<Connected<S, T>, tokio::time::error::Elapsed>,
    ended: oneshot::Receiver<()>,
    told: impl Fn(Result<Client, Failure>) -> bool,
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
            told(Err(Failure::Client(error)));
            return;
        }
        Err(_) => {
            told(Err(Failure::Late));
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
        tokio::time::timeout(PARTING, connection).await.ok();
    }
}

fn config_of(settings: &Settings) -> Config {
    let mut config = Config::new();
    config.host(&settings.host).port(settings.port).dbname(&settings.database).user(&settings.user);
    config.application_name("ctxbridge").connect_timeout(settings.connect_timeout);
    config.keepalives_idle(KEEPALIVE).keepalives_interval(KEEPALIVE / 3).keepalives_retries(3);
    config.tcp_user_timeout(settings.statement_timeout.max(KEEPALIVE));
    config.channel_binding(ChannelBinding::Prefer);
    config.ssl_mode(match settings.ssl {
        _ if settings.is_socket() => SslMode::Disable,
        Ssl::Off => SslMode::Disable,
        Ssl::Offered => SslMode::Prefer,
        Ssl::On => SslMode::Require,
    });
    if let Some(password) = &settings.password {
        config.password(password.reveal());
    }
    config
}

/// Wakes the thread that waits.
struct Alarm(Thread);

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// What comes of a future, if it comes in time. It needs nothing of a runtime's: so it may be called anywhere, in one as well.
fn wait<T>(limit: Duration, future: impl Future<Output = T>) -> Option<T> {
    let deadline = Instant::now() + limit;
    let waker = Waker::from(Arc::new(Alarm(thread::current())));
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

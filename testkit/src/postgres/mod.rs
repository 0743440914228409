/*!
A real PostgreSQL with pgvector, for tests and benchmarks.

With `$CTXBRIDGE_TEST_PG` (the URL of a superuser) that server is used, and each [`TestDatabase`] is a database of its own there.
Without it, the process gets a [`Server`] of its own, which ends with it, even if it is killed. If `$CTXBRIDGE_TEST_CITUS` is also
set, that server is the coordinator of a Citus cluster, and databases are made on its workers as well.
*/

mod install;
mod server;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use postgres::{Client, Config, NoTls};

pub use install::InstalledPostgres;
pub use server::{Server, answers};

/// The variable with the URL of a server to be used.
pub const VARIABLE: &str = "CTXBRIDGE_TEST_PG";

/// The variable with the URLs of the workers, separated by blanks, if that server is a coordinator of Citus. They are URLs of a
/// superuser as well.
pub const WORKERS: &str = "CTXBRIDGE_TEST_CITUS";

/// The variable with the name of a database on that server in which a superuser has made the tables of an archive.
pub const TEMPLATE: &str = "CTXBRIDGE_TEST_PG_TEMPLATE";

/// The address of a server, and its superuser.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The folder of its Unix socket, where it has one.
    pub socket: Option<PathBuf>,
    /// Its host.
    pub host: String,
    /// Its port, which is also part of the socket's name.
    pub port: u16,
    /// A superuser.
    pub superuser: String,
    /// Its password.
    pub password: String,
}

impl Address {
    /// Parses the address in a URL.
    ///
    /// # Errors
    /// When it is not valid.
    pub fn of(url: &str) -> io::Result<Self> {
        let config: Config = url.parse().map_err(io::Error::other)?;
        let mut address = Self {
            socket: None,
            host: "127.0.0.1".to_owned(),
            port: config.get_ports().first().copied().unwrap_or(5432),
            superuser: config.get_user().unwrap_or("postgres").to_owned(),
            password: String::from_utf8_lossy(config.get_password().unwrap_or_default()).into_owned(),
        };
        match config.get_hosts().first() {
            Some(postgres::config::Host::Tcp(host)) => address.host.clone_from(host),
            Some(postgres::config::Host::Unix(folder)) => address.socket = Some(folder.clone()),
            None => {}
        }
        Ok(address)
    }

    /// The URL of a user and a database; by the loopback, since not every client knows sockets.
    pub fn url(&self, database: &str, user: &str, password: &str) -> String {
        let [user, password, database] = [user, password, database].map(escaped);
        format!("postgres://{user}:{password}@{}:{}/{database}", self.host, self.port)
    }

    /// Configuration of a client of the `postgres` crate.
    pub fn config(&self, database: &str, user: &str, password: &str) -> Config {
        let mut config = Config::new();
        match &self.socket {
            Some(folder) => config.host_path(folder),
            None => config.host(&self.host),
        };
        config.port(self.port).dbname(database).user(user).password(password);
        config
    }

    fn admin(&self, database: &str) -> io::Result<Client> {
        self.config(database, &self.superuser, &self.password).connect(NoTls).map_err(io::Error::other)
    }
}

/// A role that is dropped with its [`TestDatabase`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestRole {
    /// Its name, which no other test has.
    pub name: String,
    /// Its password.
    pub password: String,
}

/// An empty database of one's own, dropped at the end with all roles that were made by it.
#[derive(Debug)]
pub struct TestDatabase {
    /// The address of its server.
    pub address: Address,
    /// Its name.
    pub name: String,
    roles: Mutex<Vec<String>>,
    workers: Vec<Address>,
}

impl TestDatabase {
    /// Creates a database; `cache` is the folder for downloads.
    ///
    /// # Errors
    /// When there is no server, or it does not make one.
    pub fn new(cache: &Path) -> io::Result<Self> {
        let Some(url) = set(VARIABLE) else { return Self::on(own(cache)?) };
        let mut database = Self::on(Address::of(&url)?)?;
        for url in std::env::var(WORKERS).unwrap_or_default().split_whitespace() {
            database.add_worker(Address::of(url)?)?;
        }
        Ok(database)
    }

    /// Creates a database that a superuser is the first to use. The tables may be there already: to copy them is less work than to make them.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn for_superuser(cache: &Path) -> io::Result<Self> {
        let (Some(url), Some(template)) = (set(VARIABLE), set(TEMPLATE)) else { return Self::new(cache) };
        Self::create(Address::of(&url)?, &format!("TEMPLATE {template}"))
    }

    fn add_worker(&mut self, worker: Address) -> io::Result<()> {
        let run = |client: &mut Client, sql: &str| client.batch_execute(sql).map_err(io::Error::other);
        if self.workers.is_empty() {
            let Address { host, port, .. } = &self.address;
            let sql = format!("CREATE EXTENSION citus; SELECT citus_set_coordinator_host('{host}', {port})");
            run(&mut self.admin()?, &sql)?;
            // Each has its eight parts again, on each table.
            run(&mut self.admin()?, &format!("ALTER DATABASE {} SET citus.shard_count = 2", self.name))?;
        }
        run(&mut worker.admin("postgres")?, &format!("CREATE DATABASE {}", self.name))?;
        run(&mut worker.admin(&self.name)?, "CREATE EXTENSION citus")?;
        run(&mut self.admin()?, &format!("SELECT citus_add_node('{}', {})", worker.host, worker.port))?;
        self.workers.push(worker);
        Ok(())
    }

    /// Spreads the tables of an archive over the workers, if there are any.
    ///
    /// # Errors
    /// When there are no such tables, or they cannot be spread.
    pub fn spread(&self) -> io::Result<()> {
        if self.workers.is_empty() {
            return Ok(());
        }
        self.admin()?.batch_execute("CALL ctxbridge.distribute()").map_err(io::Error::other)
    }

    /// Creates a database on a server.
    ///
    /// # Errors
    /// When it does not make one.
    pub fn on(address: Address) -> io::Result<Self> {
        Self::create(address, "")
    }

    fn create(address: Address, options: &str) -> io::Result<Self> {
        let name = unique("db");
        let sql = format!("CREATE DATABASE {name} {options}");
        address.admin("postgres")?.batch_execute(&sql).map_err(io::Error::other)?;
        Ok(Self { address, name, roles: Mutex::default(), workers: Vec::new() })
    }

    /// A connection of the superuser.
    ///
    /// # Errors
    /// When there is none.
    pub fn admin(&self) -> io::Result<Client> {
        self.address.admin(&self.name)
    }

    /// The superuser's URL.
    pub fn url(&self) -> String {
        self.address.url(&self.name, &self.address.superuser, &self.address.password)
    }

    /// The URL of a role.
    pub fn url_of(&self, role: &TestRole) -> String {
        self.address.url(&self.name, &role.name, &role.password)
    }

    /// A connection of a role.
    ///
    /// # Errors
    /// When there is none.
    pub fn client_of(&self, role: &TestRole) -> io::Result<Client> {
        self.address.config(&self.name, &role.name, &role.password).connect(NoTls).map_err(io::Error::other)
    }

    /// Makes a role that may log in and nothing else; `options` are further words of `CREATE ROLE`.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn role(&self, prefix: &str, options: &str) -> io::Result<TestRole> {
        let role = TestRole { name: unique(prefix), password: unique("p@ss word:/'\"é%") };
        let password = role.password.replace('\'', "''");
        self.admin()?
            .batch_execute(&format!("CREATE ROLE {} LOGIN PASSWORD '{password}' {options}", role.name))
            .map_err(io::Error::other)?;
        self.roles.lock().unwrap_or_else(PoisonError::into_inner).push(role.name.clone());
        Ok(role)
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        // A server that was killed on purpose takes all of it along.
        for mut admin in [&self.address].into_iter().chain(&self.workers).filter_map(|address| address.admin("postgres").ok()) {
            admin.batch_execute(&format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name)).ok();
        }
        let Ok(mut admin) = self.address.admin("postgres") else { return };
        for role in self.roles.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            admin.batch_execute(&format!("DROP ROLE IF EXISTS {role}")).ok();
        }
    }
}

/// The value of a variable that is set, and not to nothing.
fn set(variable: &str) -> Option<String> {
    std::env::var(variable).ok().filter(|value| !value.is_empty())
}

/// The server of this process. It is never dropped, but ends with the process.
fn own(cache: &Path) -> io::Result<Address> {
    static SERVER: OnceLock<Result<Server, String>> = OnceLock::new();
    match SERVER.get_or_init(|| Server::start_new(cache).map_err(|error| error.to_string())) {
        Ok(server) => Ok(server.address()),
        Err(error) => Err(io::Error::other(error.clone())),
    }
}

/// A name that nobody else has.
fn unique(prefix: &str) -> String {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    let counter = COUNTER.fetch_add(1, Ordering::Relaxed);
    let nanos = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.subsec_nanos());
    format!("{prefix}_{}_{nanos:x}_{counter}", std::process::id())
}

fn escaped(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes().map(|byte| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

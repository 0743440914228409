//! A server, and people with machines of their own.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use ctxbridge::team::postgres::{ConnectionSettings, PostgresStore, TlsMode};
use ctxbridge_testkit::postgres::{TestDatabase, TestRole};
use tempfile::TempDir;

const TENANT: &str = "acme";

/// The id of a session: the client names transcripts so.
pub fn id(number: u32) -> String {
    format!("{number:08x}-0000-4000-8000-000000000000")
}

pub struct Team {
    pub database: TestDatabase,
    /// Who made the tables, where it was no superuser.
    owner: Option<TestRole>,
}

/// Somebody with a machine.
pub struct Member {
    pub role: TestRole,
    pub url: String,
    home: std::sync::Arc<TempDir>,
    variables: Vec<(&'static str, OsString)>,
}

/// What a command printed.
pub struct Said {
    pub stdout: String,
    pub stderr: String,
    pub code: Option<i32>,
}

impl Team {
    pub fn new() -> Self {
        Self::on(TestDatabase::for_superuser(&ctxbridge::common::paths::cache_dir().unwrap()).unwrap())
    }

    /// The superuser makes the tables, and is the tenant's admin.
    pub fn on(database: TestDatabase) -> Self {
        let settings = ConnectionSettings {
            ssl: TlsMode::Off,
            tenant: TENANT.to_owned(),
            ..ConnectionSettings::from_url(&database.url()).unwrap()
        };
        drop(PostgresStore::connect(settings).unwrap());
        database.spread().unwrap();
        Self { database, owner: None }
    }

    /// On a server where nobody may install the extension for vectors.
    pub fn without_vectors() -> Self {
        let database = TestDatabase::new(&ctxbridge::common::paths::cache_dir().unwrap()).unwrap();
        let owner = database.role("owner", "").unwrap();
        database
            .admin()
            .unwrap()
            .batch_execute(&format!("GRANT CREATE ON DATABASE {} TO {}", database.name, owner.name))
            .unwrap();
        let settings = ConnectionSettings::from_url(&database.url_of(&owner)).unwrap();
        drop(PostgresStore::connect(ConnectionSettings { ssl: TlsMode::Off, tenant: TENANT.to_owned(), ..settings }).unwrap());
        Self { database, owner: Some(owner) }
    }

    pub fn member(&self, name: &str) -> Member {
        self.member_with(name, "")
    }

    /// One whose role has these options.
    pub fn member_with(&self, name: &str, options: &str) -> Member {
        let role = self.database.role(name, options).unwrap();
        let add = "SELECT ctxbridge.add_member($1, $2)";
        let mut admin = match &self.owner {
            Some(owner) => self.database.client_of(owner).unwrap(),
            None => self.database.admin().unwrap(),
        };
        admin.execute(add, &[&TENANT, &role.name]).unwrap();
        let address = &self.database.address;
        let url = format!("postgres://{}@{}:{}/{}", role.name, address.host, address.port, self.database.name);
        let variables =
            vec![("CTXBRIDGE_POSTGRES_PASSWORD", role.password.clone().into()), ("CTXBRIDGE_POSTGRES_TENANT", TENANT.into())];
        Member { role, url, home: std::sync::Arc::new(tempfile::tempdir().unwrap()), variables }
    }
}

impl Member {
    /// The same, with another environment.
    pub fn with(&self, name: &'static str, value: &str) -> Self {
        let mut variables = self.variables.clone();
        variables.retain(|(known, _)| *known != name);
        variables.push((name, value.into()));
        Self { role: self.role.clone(), url: self.url.clone(), home: self.home.clone(), variables }
    }

    /// The same, who has heard of no server.
    pub fn without_server(&self) -> Self {
        Self { url: String::new(), ..self.with("CTXBRIDGE_POSTGRES_PASSWORD", "") }
    }

    /// The same, with the server at another port.
    pub fn at_port(&self, port: u16) -> Self {
        let (before, behind) = self.url.rsplit_once('/').unwrap();
        let (host, _) = before.rsplit_once(':').unwrap();
        Self { url: format!("{host}:{port}/{behind}"), ..self.with("CTXBRIDGE_POSTGRES_TIMEOUT_S", "2") }
    }

    pub fn data(&self) -> PathBuf {
        self.home.path().join("data")
    }

    /// Where the client has its transcripts.
    pub fn client(&self) -> PathBuf {
        self.home.path().join(".claude")
    }

    pub fn transcript(&self, session: &str) -> PathBuf {
        self.client().join("projects/p").join(format!("{session}.jsonl"))
    }

    /// Archives a transcript with this content.
    pub fn archive(&self, session: &str, content: &str) {
        let path = self.transcript(session);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        self.run(&["archive", "import", path.to_str().unwrap()]);
    }

    pub fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ctxbridge"));
        command.env_clear().env("HOME", self.home.path()).env("PATH", std::env::var_os("PATH").unwrap_or_default());
        // What an import starts in the background would write beside the next one.
        command.env("CTXBRIDGE_ARCHIVE_AUTO_OPTIMIZE", "false");
        command.env("CTXBRIDGE_DATA_DIR", self.data()).env("CTXBRIDGE_CONFIG_DIR", self.home.path().join("config"));
        if !self.url.is_empty() {
            command.env("CTXBRIDGE_POSTGRES_URL", &self.url);
        }
        command.envs(self.variables.iter().cloned());
        command.current_dir(self.home.path());
        command
    }

    pub fn output(&self, arguments: &[&str]) -> Said {
        let output = self.command().args(arguments).output().unwrap();
        let [stdout, stderr] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        for said in [&stdout, &stderr] {
            assert!(!said.contains(&self.role.password), "{said}");
        }
        Said { stdout, stderr, code: output.status.code() }
    }

    pub fn run(&self, arguments: &[&str]) -> Said {
        let said = self.output(arguments);
        assert_eq!(said.code, Some(0), "{arguments:?}: {}", said.stderr);
        said
    }

    pub fn json(&self, arguments: &[&str]) -> serde_json::Value {
        serde_json::from_str(&self.run(arguments).stdout).unwrap()
    }

    /// Why a command could not do it.
    pub fn fails(&self, arguments: &[&str]) -> String {
        let said = self.output(arguments);
        assert_eq!(said.code, Some(3), "{arguments:?}: {}{}", said.stdout, said.stderr);
        said.stderr
    }

    /// Why nothing can be sent to such an address.
    pub fn fails_at(&self, url: &str) -> String {
        Self { url: url.to_owned(), ..self.with("NO_COLOR", "1") }.fails(&["archive", "sync"])
    }

    /// The archive on the server, as this member sees it.
    pub fn store(&self) -> PostgresStore {
        let mut settings = ConnectionSettings::from_url(&self.url).unwrap();
        settings.password = Some(ctxbridge::config::SecretString::new(self.role.password.clone()));
        PostgresStore::connect(ConnectionSettings { ssl: TlsMode::Off, tenant: TENANT.to_owned(), ..settings }).unwrap()
    }
}

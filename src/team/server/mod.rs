//! The team's server, as configured. Variables of other programs (`PG*`) alone never cause anything to be sent.

mod pgpass;

use std::net::IpAddr;
use std::time::Duration;

use pgpass::PgpassEntry;

use crate::postgres::{
    self, ConnectionPool, ConnectionSettings, ConnectionSettingsError, DEFAULT_TENANT, PostgresStore, UrlDefaults,
};
use ctxbridge_archive::store::StoreError;
use ctxbridge_config::{self as config, Config, SecretString, Visibility};

/// Longest time that a search waits for an answer. Local results are shown anyway.
const SEARCH_TIMEOUT: Duration = Duration::from_secs(5);

/// The configured server. Creating it does not connect, so it may be unreachable.
#[derive(Clone, Debug)]
pub struct TeamServer {
    pool: ConnectionPool,
}

/// Reasons that no server can be used.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// None is configured.
    #[error(
        "no server is configured; set postgres.url in config.toml (or CTXBRIDGE_POSTGRES_URL, or RUVECTOR_HOST), as docs/postgres.md describes"
    )]
    None,
    /// The configuration makes no sense.
    #[error(transparent)]
    Settings(#[from] ConnectionSettingsError),
}

impl TeamServer {
    /// The configured server.
    ///
    /// # Errors
    /// If none is configured, or the configuration makes no sense.
    pub fn of(config: &Config) -> Result<Self, ServerError> {
        Ok(Self { pool: ConnectionPool::new(connection_settings(&config.postgres)?) })
    }

    /// The same, for sending: creates the tenant's archive where nobody has one yet.
    ///
    /// # Errors
    /// As [`Self::of`].
    pub fn for_sync(config: &Config) -> Result<Self, ServerError> {
        Ok(Self {
            pool: ConnectionPool::new(ConnectionSettings { creates_tenant: true, ..connection_settings(&config.postgres)? }),
        })
    }

    /// The same, with short timeouts, for searches.
    ///
    /// # Errors
    /// As [`Self::of`].
    pub fn for_search(config: &Config) -> Result<Self, ServerError> {
        let mut settings = connection_settings(&config.postgres)?;
        settings.connect_timeout = settings.connect_timeout.min(SEARCH_TIMEOUT);
        settings.statement_timeout = SEARCH_TIMEOUT;
        Ok(Self { pool: ConnectionPool::new(settings) })
    }

    /// Connects. All stores opened from one `Server` share its connections.
    ///
    /// # Errors
    /// If it cannot be reached, or rejects the login.
    pub fn open(&self) -> Result<PostgresStore, StoreError> {
        Ok(PostgresStore::of(&self.pool)?)
    }

    /// The server's address and database, for people.
    pub fn address(&self) -> String {
        let settings = self.pool.settings();
        format!("{}/{}", settings.server(), settings.database)
    }

    /// The tenant whose archive is used.
    pub fn tenant(&self) -> &str {
        &self.pool.settings().tenant
    }

    /// Readers of newly sent sessions.
    pub fn visibility(&self) -> Visibility {
        self.pool.settings().visibility
    }
}

/// The connection that a password is for.
#[derive(Clone, Copy, Debug)]
struct LoginTarget<'l> {
    host: &'l str,
    port: u16,
    database: &'l str,
    user: &'l str,
}

fn connection_settings(told: &config::PostgresSettings) -> Result<ConnectionSettings, ServerError> {
    let connect_timeout = Duration::from_secs(told.timeout_s);
    let mut settings = match (&told.url, &told.host) {
        (Some(url), _) => {
            let (user, database) = (told.user.as_deref(), told.database.as_deref());
            ConnectionSettings::from_url_or(url.reveal(), UrlDefaults { user, database, connect_timeout: Some(connect_timeout) })?
        }
        (None, Some(host)) => {
            let user = told.user.clone().or_else(system_user).ok_or(ConnectionSettingsError::NoUser)?;
            let database = told.database.clone().unwrap_or_else(|| user.clone());
            let port = told.port.unwrap_or(postgres::DEFAULT_PORT);
            ConnectionSettings { port, connect_timeout, ..ConnectionSettings::new(host.clone(), database, user) }
        }
        (None, None) => return Err(ServerError::None),
    };
    settings.password = settings.password.or_else(|| told.password.clone());
    if settings.password.is_none() {
        let login = LoginTarget { host: &settings.host, port: settings.port, database: &settings.database, user: &settings.user };
        if let Some(file) = pgpass::pgpass_file() {
            match pgpass::password(&file, &login) {
                PgpassEntry::Password(password) => settings.password = Some(SecretString::new(password)),
                PgpassEntry::Insecure => settings.insecure_password_file = Some(file),
                PgpassEntry::NotFound => {}
            }
        }
    }
    // What is sent is private: where nothing is said of it, nobody on the way reads it, or pretends to be the server.
    settings.ssl = match (settings.ssl, told.ssl) {
        (postgres::TlsMode::Offered, Some(config::TlsSwitch::Off)) => postgres::TlsMode::Off,
        (postgres::TlsMode::Offered, Some(config::TlsSwitch::On)) => postgres::TlsMode::On,
        (postgres::TlsMode::Offered, None) if is_local(&settings) => postgres::TlsMode::Off,
        (postgres::TlsMode::Offered, None) => postgres::TlsMode::On,
        (said, _) => said,
    };
    settings.ca_file = settings.ca_file.or_else(|| told.ca_file.clone());
    settings.tenant = told.tenant.clone().unwrap_or_else(|| DEFAULT_TENANT.to_owned());
    settings.creates_tenant = false;
    settings.visibility = told.visibility;
    Ok(settings)
}

fn system_user() -> Option<String> {
    ["USER", "LOGNAME", "USERNAME"].iter().find_map(|name| std::env::var(name).ok()).filter(|name| !name.is_empty())
}

/// `true` if the server is on this machine.
fn is_local(settings: &ConnectionSettings) -> bool {
    let is_loopback = settings.host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    settings.is_socket() || settings.host == "localhost" || is_loopback
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(change: impl FnOnce(&mut config::PostgresSettings)) -> ConnectionSettings {
        let mut told = config::PostgresSettings::default();
        change(&mut told);
        connection_settings(&told).expect("a server")
    }

    #[test]
    fn what_a_url_leaves_out_is_taken_from_the_other_keys() {
        let url = |url: &str| Some(SecretString::new(url));
        let settings = told(|told| {
            told.url = url("postgres://ann@db.example/team");
            (told.host, told.user, told.database) = (Some("other".into()), Some("eve".into()), Some("mine".into()));
            told.password = Some(SecretString::new("hidden"));
            told.tenant = Some("acme".into());
        });
        assert_eq!((settings.server().as_str(), settings.user.as_str()), ("db.example:5432", "ann"));
        assert_eq!((settings.database.as_str(), settings.tenant.as_str()), ("team", "acme"));
        assert!(settings.password == Some(SecretString::new("hidden")) && settings.ssl == postgres::TlsMode::On);
        let settings = told(|told| {
            told.url = url("postgres://db.example");
            told.user = Some("eve".into());
        });
        assert_eq!((settings.user.as_str(), settings.database.as_str()), ("eve", "eve"));
    }

    #[test]
    fn the_url_says_how_long_to_wait() {
        let of = |url: &str| {
            let (url, timeout_s) = (Some(SecretString::new(url)), 7);
            connection_settings(&config::PostgresSettings { url, timeout_s, ..config::PostgresSettings::default() })
                .expect("a server")
                .connect_timeout
                .as_secs()
        };
        assert_eq!((of("postgres://ann@db/team"), of("postgres://ann@db/team?connect_timeout=3")), (7, 3));
    }

    #[test]
    fn what_leaves_the_machine_is_encrypted_unless_said_otherwise() {
        let ssl = |host: &str, said| {
            told(|told| {
                (told.host, told.user, told.ssl) = (Some(host.to_owned()), Some("ann".into()), said);
            })
            .ssl
        };
        for here in ["localhost", "127.0.0.1", "::1", "/run/postgresql"] {
            assert_eq!(ssl(here, None), postgres::TlsMode::Off, "{here}");
            assert_eq!(ssl(here, Some(config::TlsSwitch::On)), postgres::TlsMode::On, "{here}");
        }
        for there in ["db.example", "10.0.0.7", "localhost.example"] {
            assert_eq!(ssl(there, None), postgres::TlsMode::On, "{there}");
            assert_eq!(ssl(there, Some(config::TlsSwitch::Off)), postgres::TlsMode::Off, "{there}");
        }
        assert!(matches!(connection_settings(&config::PostgresSettings::default()), Err(ServerError::None)));
    }
}

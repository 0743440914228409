//! The team's server, as it is configured.

mod pgpass;

use std::net::IpAddr;
use std::time::Duration;

use pgpass::Kept;

use crate::postgres::{self, Otherwise, Pool, PostgresStore, Settings, SettingsError, TENANT};
use ctxbridge_archive::store::StoreError;
use ctxbridge_config::{self as config, Config, Secret, Visibility};

/// How long a search waits for an answer: who asked sees what there is here anyway.
const SEARCH_TIMEOUT: Duration = Duration::from_secs(5);

/// The server, whether it can be reached or not: nobody has asked it anything yet.
#[derive(Clone, Debug)]
pub struct Server {
    pool: Pool,
}

/// Why there is none.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// None is configured.
    #[error(
        "no server is configured; set postgres.url in config.toml (or CTXBRIDGE_POSTGRES_URL, or RUVECTOR_HOST), as docs/postgres.md tells"
    )]
    None,
    /// What is configured makes no sense.
    #[error(transparent)]
    Settings(#[from] SettingsError),
}

impl Server {
    /// The server that is configured.
    ///
    /// # Errors
    /// When none is, or what is configured makes no sense.
    pub fn of(config: &Config) -> Result<Self, ServerError> {
        Ok(Self { pool: Pool::new(settings(&config.postgres)?) })
    }

    /// The same, for one who sends: where nobody has an archive of that tenant, it is begun.
    ///
    /// # Errors
    /// As [`Self::of`].
    pub fn to_send(config: &Config) -> Result<Self, ServerError> {
        Ok(Self { pool: Pool::new(Settings { begins_tenant: true, ..settings(&config.postgres)? }) })
    }

    /// The same, for one who does not wait long.
    ///
    /// # Errors
    /// As [`Self::of`].
    pub fn in_a_hurry(config: &Config) -> Result<Self, ServerError> {
        let mut settings = settings(&config.postgres)?;
        settings.connect_timeout = settings.connect_timeout.min(SEARCH_TIMEOUT);
        settings.statement_timeout = SEARCH_TIMEOUT;
        Ok(Self { pool: Pool::new(settings) })
    }

    /// Connects; connections are shared by all that is opened here.
    ///
    /// # Errors
    /// When it cannot be reached, or does not let us in.
    pub fn open(&self) -> Result<PostgresStore, StoreError> {
        Ok(PostgresStore::of(&self.pool)?)
    }

    /// Where it is, for people.
    pub fn address(&self) -> String {
        let settings = self.pool.settings();
        format!("{}/{}", settings.server(), settings.database)
    }

    /// Whose archive it is there.
    pub fn tenant(&self) -> &str {
        &self.pool.settings().tenant
    }

    /// Who may read what is sent.
    pub fn visibility(&self) -> Visibility {
        self.pool.settings().visibility
    }
}

/// What a password belongs to.
#[derive(Clone, Copy, Debug)]
struct Login<'l> {
    host: &'l str,
    port: u16,
    database: &'l str,
    user: &'l str,
}

fn settings(told: &config::Postgres) -> Result<Settings, ServerError> {
    let connect_timeout = Duration::from_secs(told.timeout_s);
    let mut settings = match (&told.url, &told.host) {
        (Some(url), _) => {
            let (user, database) = (told.user.as_deref(), told.database.as_deref());
            Settings::from_url_or(url.reveal(), Otherwise { user, database, connect_timeout: Some(connect_timeout) })?
        }
        (None, Some(host)) => {
            let user = told.user.clone().or_else(user_of_the_system).ok_or(SettingsError::NoUser)?;
            let database = told.database.clone().unwrap_or_else(|| user.clone());
            let port = told.port.unwrap_or(postgres::PORT);
            Settings { port, connect_timeout, ..Settings::new(host.clone(), database, user) }
        }
        (None, None) => return Err(ServerError::None),
    };
    settings.password = settings.password.or_else(|| told.password.clone());
    if settings.password.is_none() {
        let login = Login { host: &settings.host, port: settings.port, database: &settings.database, user: &settings.user };
        if let Some(file) = pgpass::file() {
            match pgpass::password(&file, &login) {
                Kept::Password(password) => settings.password = Some(Secret::new(password)),
                Kept::Open => settings.open_password_file = Some(file),
                Kept::Nothing => {}
            }
        }
    }
    // What is sent is private: where nothing is said of it, nobody on the way reads it, or pretends to be the server.
    settings.ssl = match (settings.ssl, told.ssl) {
        (postgres::Ssl::Offered, Some(config::Ssl::Off)) => postgres::Ssl::Off,
        (postgres::Ssl::Offered, Some(config::Ssl::On)) => postgres::Ssl::On,
        (postgres::Ssl::Offered, None) if is_here(&settings) => postgres::Ssl::Off,
        (postgres::Ssl::Offered, None) => postgres::Ssl::On,
        (said, _) => said,
    };
    settings.ca_file = settings.ca_file.or_else(|| told.ca_file.clone());
    settings.tenant = told.tenant.clone().unwrap_or_else(|| TENANT.to_owned());
    settings.begins_tenant = false;
    settings.visibility = told.visibility;
    Ok(settings)
}

fn user_of_the_system() -> Option<String> {
    ["USER", "LOGNAME", "USERNAME"].iter().find_map(|name| std::env::var(name).ok()).filter(|name| !name.is_empty())
}

/// Whether the server is on this machine.
fn is_here(settings: &Settings) -> bool {
    let is_loopback = settings.host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    settings.is_socket() || settings.host == "localhost" || is_loopback
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(change: impl FnOnce(&mut config::Postgres)) -> Settings {
        let mut told = config::Postgres::default();
        change(&mut told);
        settings(&told).expect("a server")
    }

    #[test]
    fn what_a_url_leaves_out_is_taken_from_the_other_keys() {
        let url = |url: &str| Some(Secret::new(url));
        let settings = told(|told| {
            told.url = url("postgres://ann@db.example/team");
            (told.host, told.user, told.database) = (Some("other".into()), Some("eve".into()), Some("mine".into()));
            told.password = Some(Secret::new("hidden"));
            told.tenant = Some("acme".into());
        });
        assert_eq!((settings.server().as_str(), settings.user.as_str()), ("db.example:5432", "ann"));
        assert_eq!((settings.database.as_str(), settings.tenant.as_str()), ("team", "acme"));
        assert!(settings.password == Some(Secret::new("hidden")) && settings.ssl == postgres::Ssl::On);
        let settings = told(|told| {
            told.url = url("postgres://db.example");
            told.user = Some("eve".into());
        });
        assert_eq!((settings.user.as_str(), settings.database.as_str()), ("eve", "eve"));
    }

    #[test]
    fn the_url_says_how_long_to_wait() {
        let of = |url: &str| {
            let (url, timeout_s) = (Some(Secret::new(url)), 7);
            settings(&config::Postgres { url, timeout_s, ..config::Postgres::default() })
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
            assert_eq!(ssl(here, None), postgres::Ssl::Off, "{here}");
            assert_eq!(ssl(here, Some(config::Ssl::On)), postgres::Ssl::On, "{here}");
        }
        for there in ["db.example", "10.0.0.7", "localhost.example"] {
            assert_eq!(ssl(there, None), postgres::Ssl::On, "{there}");
            assert_eq!(ssl(there, Some(config::Ssl::Off)), postgres::Ssl::Off, "{there}");
        }
        assert!(matches!(settings(&config::Postgres::default()), Err(ServerError::None)));
    }
}

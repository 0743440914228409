//! Which server, as whom, and how: from parts, or from a URL.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use ctxbridge_config::{Secret, Visibility};

/// The port of PostgreSQL.
pub const PORT: u16 = 5432;

/// How long connecting may take, with everything: names, TLS, the password.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a statement may take.
pub const STATEMENT_TIMEOUT: Duration = Duration::from_secs(60);

/// The tenant of who does not say.
pub const TENANT: &str = "default";

/// Whether the connection is encrypted. Wherever it is, the certificate and the name in it are checked: encryption that anybody in
/// between can end keeps nothing secret.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ssl {
    /// It is not.
    Off,
    /// It is where the server offers it. Somebody in between can say that it does not.
    #[default]
    Offered,
    /// It is, or there is none.
    On,
}

impl FromStr for Ssl {
    type Err = SettingsError;

    /// The values of `PGSSLMODE`, and those of a switch. `require` and `verify-ca` check more here than they do in libpq, and `allow` is
    /// taken for `prefer`.
    fn from_str(text: &str) -> Result<Self, SettingsError> {
        match text.trim().to_ascii_lowercase().as_str() {
            "disable" | "off" | "false" | "no" | "0" => Ok(Self::Off),
            "allow" | "prefer" => Ok(Self::Offered),
            "require" | "verify-ca" | "verify-full" | "on" | "true" | "yes" | "1" => Ok(Self::On),
            _ => Err(SettingsError::Value { name: "sslmode", wanted: "disable, prefer, require, verify-ca or verify-full" }),
        }
    }
}

/// Settings of a connection. What is printed of them has no password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// A host, or the folder of a Unix socket: what begins with a slash.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The database.
    pub database: String,
    /// A role of the server: one for each person.
    pub user: String,
    /// Its password, where it needs one.
    pub password: Option<Secret>,
    /// A file that has the password and is passed over, since others can read it.
    pub open_password_file: Option<PathBuf>,
    /// Whether the connection is encrypted.
    pub ssl: Ssl,
    /// Certificates (PEM) of those who may vouch for the server; without it, those that the system trusts.
    pub ca_file: Option<PathBuf>,
    /// Who shares this archive.
    pub tenant: String,
    /// Whether a tenant that nobody has an archive of is begun: not by who only looks for something, and may have mistyped it.
    pub begins_tenant: bool,
    /// Who may read new sessions.
    pub visibility: Visibility,
    /// How long connecting may take.
    pub connect_timeout: Duration,
    /// How long a statement may take.
    pub statement_timeout: Duration,
}

/// What counts where a URL says nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Otherwise<'o> {
    /// The user.
    pub user: Option<&'o str>,
    /// The database.
    pub database: Option<&'o str>,
    /// How long connecting may take.
    pub connect_timeout: Option<Duration>,
}

/// Settings that make no sense. What is wrong is not repeated: it may have a password in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// The URL is none.
    #[error(
        "the PostgreSQL URL {0}; it has the form postgres://USER:PASSWORD@HOST:PORT/DATABASE?sslmode=verify-full, with %40 for an @ in a name or password"
    )]
    Url(&'static str),
    /// There is no user.
    #[error("no user is named for the PostgreSQL server; put one into the URL, or set PGUSER")]
    NoUser,
    /// A value that is none of these.
    #[error("{name} of the PostgreSQL server has to be {wanted}")]
    Value {
        /// Of what.
        name: &'static str,
        /// What it has to be.
        wanted: &'static str,
    },
    /// A parameter of libpq that we do not have.
    #[error("the PostgreSQL URL has the parameter {0}, which ctxbridge does not have; leave it out")]
    Parameter(&'static str),
}

impl Settings {
    /// Settings with nothing unusual.
    pub fn new(host: impl Into<String>, database: impl Into<String>, user: impl Into<String>) -> Self {
        Self {
            host: host.into(),
            port: PORT,
            database: database.into(),
            user: user.into(),
            password: None,
            open_password_file: None,
            ssl: Ssl::default(),
            ca_file: None,
            tenant: TENANT.to_owned(),
            begins_tenant: true,
            visibility: Visibility::default(),
            connect_timeout: CONNECT_TIMEOUT,
            statement_timeout: STATEMENT_TIMEOUT,
        }
    }

    /// Settings from `postgres://user:password@host:port/database?sslmode=…`. As with libpq, the host may be the folder of a Unix socket
    /// (`%2Frun%2Fpostgresql`, or `?host=/run/postgresql`), and the database has the user's name where none is named.
    ///
    /// # Errors
    /// When it is no such URL.
    pub fn from_url(url: &str) -> Result<Self, SettingsError> {
        Self::from_url_or(url, Otherwise::default())
    }

    /// The same, with what counts where the URL says nothing.
    ///
    /// # Errors
    /// As [`Self::from_url`].
    pub fn from_url_or(url: &str, otherwise: Otherwise<'_>) -> Result<Self, SettingsError> {
        let (scheme, rest) = url.trim().split_once("://").ok_or(SettingsError::Url("has no scheme"))?;
        if !["postgres", "postgresql"].contains(&scheme) {
            return Err(SettingsError::Url("does not begin with postgres://"));
        }
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        if path.contains('@') {
            return Err(SettingsError::Url("has a / in the user or password, which is %2F there"));
        }
        // A password may have an @ that was not escaped; a host may not.
        let (login, place) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (user, password) = match login.split_once(':') {
            Some((user, password)) => (user, Some(password)),
            None => (login, None),
        };
        let (host, port) = host_and_port(place)?;
        let mut parts = Parts {
            host: some(decoded(host)?),
            port: some(port.to_owned()),
            database: some(decoded(path.trim_end_matches('/'))?),
            user: some(decoded(user)?),
            password: password.map(decoded).transpose()?.map(Secret::new),
            ..Parts::default()
        };
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            parts.take(&decoded(name)?, decoded(value)?)?;
        }
        parts.user = parts.user.or_else(|| otherwise.user.map(str::to_owned));
        parts.database = parts.database.or_else(|| otherwise.database.map(str::to_owned));
        parts.connect_timeout = parts.connect_timeout.or(otherwise.connect_timeout);
        parts.settings()
    }

    /// Where it is, for messages: never the password.
    pub fn server(&self) -> String {
        if self.is_socket() {
            format!("{}/.s.PGSQL.{}", self.host, self.port)
        } else if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    /// Whether the host is the folder of a Unix socket.
    pub fn is_socket(&self) -> bool {
        self.host.starts_with('/')
    }
}

/// Parameters of libpq that would make a difference.
const UNSUPPORTED: [&str; 11] = [
    "hostaddr",
    "options",
    "passfile",
    "replication",
    "require_auth",
    "requirepeer",
    "service",
    "sslcert",
    "sslcrl",
    "sslkey",
    "sslnegotiation",
];

/// What a URL says.
#[derive(Default)]
struct Parts {
    host: Option<String>,
    port: Option<String>,
    database: Option<String>,
    user: Option<String>,
    password: Option<Secret>,
    ssl: Ssl,
    ca_file: Option<PathBuf>,
    connect_timeout: Option<Duration>,
}

impl Parts {
    fn take(&mut self, name: &str, value: String) -> Result<(), SettingsError> {
        match name {
            "host" => self.host = some(value),
            "port" => self.port = some(value),
            "dbname" => self.database = some(value),
            "user" => self.user = some(value),
            "password" => self.password = Some(Secret::new(value)),
            "sslmode" => self.ssl = value.parse()?,
            "sslrootcert" if value == "system" => {}
            "sslrootcert" => self.ca_file = some(value).map(PathBuf::from),
            "connect_timeout" => {
                let wrong = SettingsError::Value { name: "connect_timeout", wanted: "a number of seconds" };
                let seconds: u64 = value.parse().map_err(|_| wrong)?;
                self.connect_timeout = (seconds > 0).then(|| Duration::from_secs(seconds));
            }
            // What is so anyway, or makes no difference here.
            "application_name" | "channel_binding" | "gssencmode" | "keepalives" | "target_session_attrs" | "client_encoding" => {
            }
            _ => match UNSUPPORTED.iter().find(|&&known| known == name) {
                Some(known) => return Err(SettingsError::Parameter(known)),
                // It may be a part of the password.
                None => return Err(SettingsError::Url("has a parameter that PostgreSQL does not know")),
            },
        }
        Ok(())
    }

    fn settings(self) -> Result<Settings, SettingsError> {
        let user = self.user.or_else(of_the_system).ok_or(SettingsError::NoUser)?;
        let host = self.host.unwrap_or_else(|| "localhost".to_owned());
        if host.contains(',') {
            return Err(SettingsError::Url("names several hosts, and one is asked"));
        }
        let port = match self.port {
            Some(port) => port.parse().map_err(|_| SettingsError::Url("has a port that is no number"))?,
            None => PORT,
        };
        let mut settings = Settings::new(host, self.database.unwrap_or_else(|| user.clone()), user);
        settings.port = port;
        settings.password = self.password;
        settings.ssl = self.ssl;
        settings.ca_file = self.ca_file;
        settings.connect_timeout = self.connect_timeout.unwrap_or(CONNECT_TIMEOUT);
        Ok(settings)
    }
}

/// As libpq does.
fn of_the_system() -> Option<String> {
    ["USER", "LOGNAME", "USERNAME"].iter().find_map(|name| std::env::var(name).ok()).and_then(some)
}

/// An address of IPv6 stands in brackets.
fn host_and_port(place: &str) -> Result<(&str, &str), SettingsError> {
    match place.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']').ok_or(SettingsError::Url("has a [ without a ]"))?;
            Ok((host, port.strip_prefix(':').unwrap_or(port)))
        }
        None => Ok(place.rsplit_once(':').unwrap_or((place, ""))),
    }
}

fn some(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

/// Text with `%40` and the like.
fn decoded(text: &str) -> Result<String, SettingsError> {
    const WRONG: SettingsError = SettingsError::Url("has a % without two hexadecimal digits of a character behind it");
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digit = |at: usize| behind.get(at).and_then(|&byte| char::from(byte).to_digit(16));
        let (Some(high), Some(low)) = (digit(0), digit(1)) else { return Err(WRONG) };
        bytes.push((high << 4 | low) as u8);
        rest = &behind[2..];
    }
    String::from_utf8(bytes).map_err(|_| WRONG)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        let settings =
            Settings::from_url("postgres://alice:p%40ss@w:1@db.example:6432/archive?sslmode=verify-full&sslrootcert=/ca.pem");
        let settings = settings.expect("a URL");
        assert_eq!((settings.host.as_str(), settings.port), ("db.example", 6432));
        assert_eq!((settings.database.as_str(), settings.user.as_str()), ("archive", "alice"));
        assert_eq!(settings.password.as_ref().map(Secret::reveal), Some("p@ss@w:1"));
        assert_eq!((settings.ssl, settings.ca_file), (Ssl::On, Some(PathBuf::from("/ca.pem"))));

        for (url, server, database) in [
            ("postgresql://bob@localhost", "localhost:5432", "bob"),
            ("postgres://bob@[::1]:1/d", "[::1]:1", "d"),
            ("postgres://bob@[::1]/d/", "[::1]:5432", "d"),
            ("postgres://bob@%2Frun%2Fpg:7/d", "/run/pg/.s.PGSQL.7", "d"),
            ("postgres:///d?user=bob&host=/run/pg", "/run/pg/.s.PGSQL.5432", "d"),
            ("postgres://x@h/d?user=bob&port=9&dbname=e&application_name=x", "h:9", "e"),
        ] {
            let settings = Settings::from_url(url).expect(url);
            assert_eq!(
                (settings.server().as_str(), settings.database.as_str(), settings.user.as_str()),
                (server, database, "bob"),
                "{url}"
            );
        }
    }

    #[test]
    fn what_is_wrong_with_a_url_is_said_without_it() {
        for url in [
            "",
            "hunter2",
            "mysql://a:hunter2@h/d",
            "postgres://a:hunter2@h:port/d",
            "postgres://a:hunter2@[::1/d",
            "postgres://a:hunter2%zz@h/d",
            "postgres://a:hunter2@h,i/d",
            "postgres://a@h/d?sslmode=hunter2",
            "postgres://a:hunter2@h/d?sslcert=x",
            "postgres://a@h/d?connect_timeout=hunter2",
            "postgres://a:hunter2@h/d?x=%ff",
            "postgres://a:1/hunter2@h/d",
            "postgres://a:1?hunter2@h/d",
        ] {
            let error = Settings::from_url(url).expect_err(url);
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
        }
    }

    #[test]
    fn modes_of_libpq() {
        for (text, ssl) in [
            ("disable", Ssl::Off),
            ("allow", Ssl::Offered),
            ("prefer", Ssl::Offered),
            ("require", Ssl::On),
            ("verify-ca", Ssl::On),
            (" VERIFY-FULL ", Ssl::On),
            ("true", Ssl::On),
            ("off", Ssl::Off),
        ] {
            assert_eq!(text.parse(), Ok(ssl), "{text}");
        }
        assert!("verify".parse::<Ssl>().is_err());
    }

    #[test]
    fn no_password_is_printed() {
        let settings = Settings::from_url("postgres://alice:hunter2@h/d").expect("a URL");
        let secret = settings.password.clone().expect("a password");
        assert!(!format!("{settings:?} {settings:#?} {secret} {secret:?} {}", settings.server()).contains("hunter2"));
        assert_eq!(secret.reveal(), "hunter2");
    }
}

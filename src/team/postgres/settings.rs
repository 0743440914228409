//! Settings of a connection, from parts or from a URL.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use ctxbridge_config::{SecretString, Visibility};

/// The default port of PostgreSQL.
pub const DEFAULT_PORT: u16 = 5432;

/// Default timeout for connecting, including name lookup, TLS and login.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Timeout of statements.
pub const STATEMENT_TIMEOUT: Duration = Duration::from_secs(60);

/// The default tenant.
pub const DEFAULT_TENANT: &str = "default";

/// Encryption of the connection. Where it is encrypted, the certificate and its name are always checked: encryption that anybody in
/// between can terminate keeps nothing secret.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsMode {
    /// Never encrypted.
    Off,
    /// Encrypted where the server offers it. Somebody in between can suppress the offer.
    #[default]
    Offered,
    /// Always encrypted, or no connection.
    On,
}

impl FromStr for TlsMode {
    type Err = ConnectionSettingsError;

    /// Parses the values of `PGSSLMODE`, and those of a switch. `require` and `verify-ca`
    /// check more here than they do in libpq, and `allow` counts as `prefer`.
    fn from_str(text: &str) -> Result<Self, ConnectionSettingsError> {
        match text.trim().to_ascii_lowercase().as_str() {
            "disable" | "off" | "false" | "no" | "0" => Ok(Self::Off),
            "allow" | "prefer" => Ok(Self::Offered),
            "require" | "verify-ca" | "verify-full" | "on" | "true" | "yes" | "1" => Ok(Self::On),
            _ => Err(ConnectionSettingsError::Value {
                name: "sslmode",
                wanted: "disable, prefer, require, verify-ca or verify-full",
            }),
        }
    }
}

/// Settings of a connection. Their debug output has no password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionSettings {
    /// A host, or the folder of a Unix socket, which begins with a slash.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The database.
    pub database: String,
    /// A role of the server: one for each person.
    pub user: String,
    /// Its password, where it needs one.
    pub password: Option<SecretString>,
    /// A file with the password that is ignored, since others can read it.
    pub insecure_password_file: Option<PathBuf>,
    /// Encryption of the connection.
    pub ssl: TlsMode,
    /// File of trusted certificates (PEM); `None` for those that the system trusts.
    pub ca_file: Option<PathBuf>,
    /// The tenant: the team that shares the archive.
    pub tenant: String,
    /// `true` to create the tenant if it does not exist. Searches do not, since its name may be mistyped.
    pub creates_tenant: bool,
    /// Readers of new sessions.
    pub visibility: Visibility,
    /// Timeout for connecting.
    pub connect_timeout: Duration,
    /// Timeout of statements.
    pub statement_timeout: Duration,
}

/// Values for parts that a URL leaves out.
#[derive(Clone, Copy, Debug, Default)]
pub struct UrlDefaults<'o> {
    /// The user.
    pub user: Option<&'o str>,
    /// The database.
    pub database: Option<&'o str>,
    /// Timeout for connecting.
    pub connect_timeout: Option<Duration>,
}

/// Errors in settings. The wrong value is not repeated: it may contain a password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectionSettingsError {
    /// The URL is invalid.
    #[error(
        "the PostgreSQL URL {0}; it has the form postgres://USER:PASSWORD@HOST:PORT/DATABASE?sslmode=verify-full, with %40 for an @ in a name or password"
    )]
    Url(&'static str),
    /// No user is named.
    #[error("no user is named for the PostgreSQL server; put one into the URL, or set PGUSER")]
    NoUser,
    /// A value that is not allowed.
    #[error("{name} of the PostgreSQL server has to be {wanted}")]
    Value {
        /// The parameter.
        name: &'static str,
        /// The allowed values.
        wanted: &'static str,
    },
    /// A parameter of libpq that is not supported.
    #[error("the PostgreSQL URL has the parameter {0}, which ctxbridge does not have; leave it out")]
    Parameter(&'static str),
}

impl ConnectionSettings {
    /// Settings with defaults for everything else.
    pub fn new(host: impl Into<String>, database: impl Into<String>, user: impl Into<String>) -> Self {
        Self {
            host: host.into(),
            port: DEFAULT_PORT,
            database: database.into(),
            user: user.into(),
            password: None,
            insecure_password_file: None,
            ssl: TlsMode::default(),
            ca_file: None,
            tenant: DEFAULT_TENANT.to_owned(),
            creates_tenant: true,
            visibility: Visibility::default(),
            connect_timeout: CONNECT_TIMEOUT,
            statement_timeout: STATEMENT_TIMEOUT,
        }
    }

    /// Parses `postgres://user:password@host:port/database?sslmode=…`. As with libpq, the host may be the folder of a Unix socket
    /// (`%2Frun%2Fpostgresql`, or `?host=/run/postgresql`), and the database defaults to the user's name.
    ///
    /// # Errors
    /// If it is not such a URL.
    pub fn from_url(url: &str) -> Result<Self, ConnectionSettingsError> {
        Self::from_url_or(url, UrlDefaults::default())
    }

    /// The same, with values for parts that the URL leaves out.
    ///
    /// # Errors
    /// As [`Self::from_url`].
    pub fn from_url_or(url: &str, otherwise: UrlDefaults<'_>) -> Result<Self, ConnectionSettingsError> {
        let (scheme, rest) = url.trim().split_once("://").ok_or(ConnectionSettingsError::Url("has no scheme"))?;
        if !["postgres", "postgresql"].contains(&scheme) {
            return Err(ConnectionSettingsError::Url("does not begin with postgres://"));
        }
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        if path.contains('@') {
            return Err(ConnectionSettingsError::Url("has a / in the user or password, which is %2F there"));
        }
        // A password may have an @ that was not escaped; a host may not.
        let (login, place) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (user, password) = match login.split_once(':') {
            Some((user, password)) => (user, Some(password)),
            None => (login, None),
        };
        let (host, port) = host_and_port(place)?;
        let mut parts = UrlParts {
            host: some(percent_decoded(host)?),
            port: some(port.to_owned()),
            database: some(percent_decoded(path.trim_end_matches('/'))?),
            user: some(percent_decoded(user)?),
            password: password.map(percent_decoded).transpose()?.map(SecretString::new),
            ..UrlParts::default()
        };
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            parts.take(&percent_decoded(name)?, percent_decoded(value)?)?;
        }
        parts.user = parts.user.or_else(|| otherwise.user.map(str::to_owned));
        parts.database = parts.database.or_else(|| otherwise.database.map(str::to_owned));
        parts.connect_timeout = parts.connect_timeout.or(otherwise.connect_timeout);
        parts.settings()
    }

    /// The server's address for messages, without the password.
    pub fn server(&self) -> String {
        if self.is_socket() {
            format!("{}/.s.PGSQL.{}", self.host, self.port)
        } else if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    /// `true` if the host is the folder of a Unix socket.
    pub fn is_socket(&self) -> bool {
        self.host.starts_with('/')
    }
}

/// Parameters of libpq that would make a difference and are not supported.
const UNSUPPORTED_PARAMETERS: [&str; 11] = [
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

/// The parts of a URL.
#[derive(Default)]
struct UrlParts {
    host: Option<String>,
    port: Option<String>,
    database: Option<String>,
    user: Option<String>,
    password: Option<SecretString>,
    ssl: TlsMode,
    ca_file: Option<PathBuf>,
    connect_timeout: Option<Duration>,
}

impl UrlParts {
    fn take(&mut self, name: &str, value: String) -> Result<(), ConnectionSettingsError> {
        match name {
            "host" => self.host = some(value),
            "port" => self.port = some(value),
            "dbname" => self.database = some(value),
            "user" => self.user = some(value),
            "password" => self.password = Some(SecretString::new(value)),
            "sslmode" => self.ssl = value.parse()?,
            "sslrootcert" if value == "system" => {}
            "sslrootcert" => self.ca_file = some(value).map(PathBuf::from),
            "connect_timeout" => {
                let wrong = ConnectionSettingsError::Value { name: "connect_timeout", wanted: "a number of seconds" };
                let seconds: u64 = value.parse().map_err(|_| wrong)?;
                self.connect_timeout = (seconds > 0).then(|| Duration::from_secs(seconds));
            }
            // What is so anyway, or makes no difference here.
            "application_name" | "channel_binding" | "gssencmode" | "keepalives" | "target_session_attrs" | "client_encoding" => {
            }
            _ => match UNSUPPORTED_PARAMETERS.iter().find(|&&known| known == name) {
                Some(known) => return Err(ConnectionSettingsError::Parameter(known)),
                // It may be a part of the password.
                None => return Err(ConnectionSettingsError::Url("has a parameter that PostgreSQL does not know")),
            },
        }
        Ok(())
    }

    fn settings(self) -> Result<ConnectionSettings, ConnectionSettingsError> {
        let user = self.user.or_else(system_user).ok_or(ConnectionSettingsError::NoUser)?;
        let host = self.host.unwrap_or_else(|| "localhost".to_owned());
        if host.contains(',') {
            return Err(ConnectionSettingsError::Url("names several hosts, and one is asked"));
        }
        let port = match self.port {
            Some(port) => port.parse().map_err(|_| ConnectionSettingsError::Url("has a port that is no number"))?,
            None => DEFAULT_PORT,
        };
        let mut settings = ConnectionSettings::new(host, self.database.unwrap_or_else(|| user.clone()), user);
        settings.port = port;
        settings.password = self.password;
        settings.ssl = self.ssl;
        settings.ca_file = self.ca_file;
        settings.connect_timeout = self.connect_timeout.unwrap_or(CONNECT_TIMEOUT);
        Ok(settings)
    }
}

/// The name of the system's user, as libpq finds it.
fn system_user() -> Option<String> {
    ["USER", "LOGNAME", "USERNAME"].iter().find_map(|name| std::env::var(name).ok()).and_then(some)
}

/// Splits host and port. An IPv6 address is in brackets.
fn host_and_port(place: &str) -> Result<(&str, &str), ConnectionSettingsError> {
    match place.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']').ok_or(ConnectionSettingsError::Url("has a [ without a ]"))?;
            Ok((host, port.strip_prefix(':').unwrap_or(port)))
        }
        None => Ok(place.rsplit_once(':').unwrap_or((place, ""))),
    }
}

fn some(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

/// Decodes percent-encoding such as `%40`.
fn percent_decoded(text: &str) -> Result<String, ConnectionSettingsError> {
    const WRONG: ConnectionSettingsError =
        ConnectionSettingsError::Url("has a % without two hexadecimal digits of a character behind it");
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
        let settings = ConnectionSettings::from_url(
            "postgres://alice:p%40ss@w:1@db.example:6432/archive?sslmode=verify-full&sslrootcert=/ca.pem",
        );
        let settings = settings.expect("a URL");
        assert_eq!((settings.host.as_str(), settings.port), ("db.example", 6432));
        assert_eq!((settings.database.as_str(), settings.user.as_str()), ("archive", "alice"));
        assert_eq!(settings.password.as_ref().map(SecretString::reveal), Some("p@ss@w:1"));
        assert_eq!((settings.ssl, settings.ca_file), (TlsMode::On, Some(PathBuf::from("/ca.pem"))));

        for (url, server, database) in [
            ("postgresql://bob@localhost", "localhost:5432", "bob"),
            ("postgres://bob@[::1]:1/d", "[::1]:1", "d"),
            ("postgres://bob@[::1]/d/", "[::1]:5432", "d"),
            ("postgres://bob@%2Frun%2Fpg:7/d", "/run/pg/.s.PGSQL.7", "d"),
            ("postgres:///d?user=bob&host=/run/pg", "/run/pg/.s.PGSQL.5432", "d"),
            ("postgres://x@h/d?user=bob&port=9&dbname=e&application_name=x", "h:9", "e"),
        ] {
            let settings = ConnectionSettings::from_url(url).expect(url);
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
            let error = ConnectionSettings::from_url(url).expect_err(url);
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
        }
    }

    #[test]
    fn modes_of_libpq() {
        for (text, ssl) in [
            ("disable", TlsMode::Off),
            ("allow", TlsMode::Offered),
            ("prefer", TlsMode::Offered),
            ("require", TlsMode::On),
            ("verify-ca", TlsMode::On),
            (" VERIFY-FULL ", TlsMode::On),
            ("true", TlsMode::On),
            ("off", TlsMode::Off),
        ] {
            assert_eq!(text.parse(), Ok(ssl), "{text}");
        }
        assert!("verify".parse::<TlsMode>().is_err());
    }

    #[test]
    fn no_password_is_printed() {
        let settings = ConnectionSettings::from_url("postgres://alice:hunter2@h/d").expect("a URL");
        let secret = settings.password.clone().expect("a password");
        assert!(!format!("{settings:?} {settings:#?} {secret} {secret:?} {}", settings.server()).contains("hunter2"));
        assert_eq!(secret.reveal(), "hunter2");
    }
}

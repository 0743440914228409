//! Settings of the store and of the team's server.

use std::fmt;
use std::path::PathBuf;

use zeroize::Zeroizing;

use super::choice::Choice;

/// A text that neither `Debug` nor `Display` shows, and that is overwritten in memory when dropped.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct SecretString(Zeroizing<String>);

/// Kind of the store that commands read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StoreKind {
    /// A database file in the data folder.
    #[default]
    Sqlite,
    /// A team's server; hooks write to a local file, which is sent from there.
    Postgres,
    /// A folder of JSON lines, with no database at all.
    Jsonl,
}

/// Readers of sessions that are sent to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Visibility {
    /// Only the user who sent it.
    #[default]
    Private,
    /// Members of the same project.
    Project,
    /// All members of the tenant.
    Team,
}

/// Encryption of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsSwitch {
    /// Never encrypted.
    Off,
    /// Always encrypted, with a trusted certificate for this host.
    On,
}

/// Settings of a team's server (`postgres.*`).
#[derive(Debug, Clone, PartialEq)]
pub struct PostgresSettings {
    /// All in one: `postgres://user@host:5432/database`. It overrides the other keys.
    pub url: Option<SecretString>,
    /// Name, address, or the folder of a Unix socket.
    pub host: Option<String>,
    /// TCP port.
    pub port: Option<u16>,
    /// Name of the database.
    pub database: Option<String>,
    /// Role to log in as.
    pub user: Option<String>,
    /// The role's password.
    pub password: Option<SecretString>,
    /// Encryption of the connection. By default, on unless the server is on this machine.
    pub ssl: Option<TlsSwitch>,
    /// Certificates to trust instead of the system's.
    pub ca_file: Option<PathBuf>,
    /// The name of the team's archive on the server.
    pub tenant: Option<String>,
    /// Readers of sessions that are sent from now on.
    pub visibility: Visibility,
    /// `true` if the end of a session sends new content.
    pub auto_sync: bool,
    /// `true` if searches ask the server as well.
    pub search: bool,
    /// Longest wait for the server, in seconds.
    pub timeout_s: u64,
}

impl SecretString {
    /// Hides a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(Zeroizing::new(text.into()))
    }

    /// The text itself.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl fmt::Display for SecretString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl PostgresSettings {
    /// `true` if a server is named.
    pub fn is_named(&self) -> bool {
        self.url.is_some() || self.host.is_some()
    }

    /// The URL without its password, for people.
    pub fn shown_url(&self) -> Option<String> {
        let url = self.url.as_ref()?.reveal();
        let (scheme, rest) = url.split_once("://")?;
        // A password may have an `@` or a slash that is not escaped: what is before the last `@` may be part of it, but for a user's name.
        let (who, rest) = match rest.rfind('@') {
            Some(at) => (Some(&rest[..at]), &rest[at + 1..]),
            None => (None, rest),
        };
        let who = who.map(|who| match who.find([':', '/', '?']) {
            Some(end) => format!("{}:***@", &who[..end]),
            None => format!("{who}@"),
        });
        let address = rest.split_once('?').map_or(rest.to_owned(), |(address, _)| format!("{address}?***"));
        Some(format!("{scheme}://{}{address}", who.unwrap_or_default()))
    }
}

impl Default for PostgresSettings {
    fn default() -> Self {
        Self {
            url: None,
            host: None,
            port: None,
            database: None,
            user: None,
            password: None,
            ssl: None,
            ca_file: None,
            tenant: None,
            visibility: Visibility::Private,
            auto_sync: true,
            search: true,
            timeout_s: 10,
        }
    }
}

impl Choice for StoreKind {
    const WORDS: &'static [(&'static str, Self)] =
        &[("sqlite", Self::Sqlite), ("postgres", Self::Postgres), ("jsonl", Self::Jsonl)];
}

impl Choice for Visibility {
    const WORDS: &'static [(&'static str, Self)] =
        &[("private", Self::Private), ("project", Self::Project), ("team", Self::Team)];
}

/// Accepts the words of libpq as well. Those that libpq takes for optional encryption, or for encryption without a check, mean
/// checked encryption here: sent data is private.
impl Choice for TlsSwitch {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("off", Self::Off),
        ("on", Self::On),
        ("disable", Self::Off),
        ("false", Self::Off),
        ("0", Self::Off),
        ("true", Self::On),
        ("1", Self::On),
        ("allow", Self::On),
        ("prefer", Self::On),
        ("require", Self::On),
        ("verify-ca", Self::On),
        ("verify-full", Self::On),
    ];
}

impl StoreKind {
    /// Its name.
    pub fn name(self) -> &'static str {
        self.word()
    }
}

impl Visibility {
    /// Its name.
    pub fn name(self) -> &'static str {
        self.word()
    }

    /// Finds a visibility by its name.
    pub fn named(name: &str) -> Option<Self> {
        Self::WORDS.iter().find(|(word, _)| *word == name).map(|(_, value)| *value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_of_addresses_are_not_shown() {
        let shown = |url: &str| PostgresSettings { url: Some(SecretString::new(url)), ..PostgresSettings::default() }.shown_url();
        assert_eq!(shown("postgres://ann:pass@db:5432/team").as_deref(), Some("postgres://ann:***@db:5432/team"));
        assert_eq!(shown("postgres://ann:p@ss@db/team").as_deref(), Some("postgres://ann:***@db/team"));
        assert_eq!(shown("postgres://ann:p/a?s@db/team").as_deref(), Some("postgres://ann:***@db/team"));
        assert_eq!(shown("postgres://ann:p@ss/w0rd@db/team").as_deref(), Some("postgres://ann:***@db/team"));
        assert_eq!(shown("postgres://db/team?password=p@ss").as_deref(), Some("postgres://db:***@ss"));
        assert_eq!(shown("postgres://db/team?password=pass").as_deref(), Some("postgres://db/team?***"));
        assert_eq!(shown("postgres://db").as_deref(), Some("postgres://db"));
        assert_eq!(format!("{:?} {}", SecretString::new("pass"), SecretString::new("pass")), "*** ***");
    }
}

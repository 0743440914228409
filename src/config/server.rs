//! Which server a team's archive is on, and how it is reached.

use std::fmt;
use std::path::PathBuf;

use zeroize::Zeroizing;

use super::settings::Choice;

/// A text that is never shown, neither by `Debug` nor by `Display`, and written over when it is no longer needed.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(Zeroizing<String>);

/// Where the archive is that commands read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StoreKind {
    /// One file beside our other data.
    #[default]
    Sqlite,
    /// A team's server; hooks write to a file here, from which it is sent.
    Postgres,
    /// A folder of JSON lines, with no database at all.
    Jsonl,
}

/// Who may read what is sent to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Visibility {
    /// Who sent it.
    #[default]
    Private,
    /// Those who work on the same project.
    Project,
    /// All of the tenant.
    Team,
}

/// Whether the connection is encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ssl {
    /// Not at all.
    Off,
    /// Always, with a certificate that is trusted and of this host.
    On,
}

/// A server, as far as it is known.
#[derive(Debug, Clone, PartialEq)]
pub struct Postgres {
    /// All in one: `postgres://user@host:5432/database`. What it says counts more than the other keys.
    pub url: Option<Secret>,
    /// Name, address, or the folder of a Unix socket.
    pub host: Option<String>,
    /// TCP port.
    pub port: Option<u16>,
    /// Name of the database.
    pub database: Option<String>,
    /// Role to log in as.
    pub user: Option<String>,
    /// The role's password.
    pub password: Option<Secret>,
    /// Whether the connection is encrypted; where nothing is said, unless the server is on this machine.
    pub ssl: Option<Ssl>,
    /// Certificates to trust instead of the system's.
    pub ca_file: Option<PathBuf>,
    /// The name of the team's archive on the server.
    pub tenant: Option<String>,
    /// Who may read what is sent from now on.
    pub visibility: Visibility,
    /// Whether the end of a session sends what is new.
    pub auto_sync: bool,
    /// Whether searches ask the server as well.
    pub search: bool,
    /// How long to wait for the server, in seconds.
    pub timeout_s: u64,
}

impl Secret {
    /// Hides a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(Zeroizing::new(text.into()))
    }

    /// The text, for the one who needs it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl Postgres {
    /// Whether a server is named.
    pub fn is_named(&self) -> bool {
        self.url.is_some() || self.host.is_some()
    }

    /// The address without its password, for people.
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

impl Default for Postgres {
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

/// Also the words of libpq. Of those that would do without a check, or without encryption where the server has none, none is
/// meant so here: what is sent is private.
impl Choice for Ssl {
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

    /// The one of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::WORDS.iter().find(|(word, _)| *word == name).map(|(_, value)| *value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_of_addresses_are_not_shown() {
        let shown = |url: &str| Postgres { url: Some(Secret::new(url)), ..Postgres::default() }.shown_url();
        assert_eq!(shown("postgres://ann:pass@db:5432/team").as_deref(), Some("postgres://ann:***@db:5432/team"));
        assert_eq!(shown("postgres://ann:p@ss@db/team").as_deref(), Some("postgres://ann:***@db/team"));
        assert_eq!(shown("postgres://ann:p/a?s@db/team").as_deref(), Some("postgres://ann:***@db/team"));
        assert_eq!(shown("postgres://ann:p@ss/w0rd@db/team").as_deref(), Some("postgres://ann:***@db/team"));
        assert_eq!(shown("postgres://db/team?password=p@ss").as_deref(), Some("postgres://db:***@ss"));
        assert_eq!(shown("postgres://db/team?password=pass").as_deref(), Some("postgres://db/team?***"));
        assert_eq!(shown("postgres://db").as_deref(), Some("postgres://db"));
        assert_eq!(format!("{:?} {}", Secret::new("pass"), Secret::new("pass")), "*** ***");
    }
}

/*!
The password file that all PostgreSQL clients share: `$PGPASSFILE`, else `~/.pgpass` (on Windows
`%APPDATA%\postgresql\pgpass.conf`). A line is `host:port:database:user:password`. `*` matches anything, and a backslash
escapes `:` and `\`. See "The Password File" in the documentation of PostgreSQL.
*/

use std::fs;
use std::path::{Path, PathBuf};

use super::LoginTarget;
use ctxbridge_common::files;
use ctxbridge_common::paths;

/// Host name in the file for a Unix socket in a default folder. Other sockets are named by their folder.
const LOCAL_HOST: &str = "localhost";

/// Default folders of sockets.
const SOCKET_FOLDERS: [&str; 3] = ["/tmp", "/var/run/postgresql", "/run/postgresql"];

/// Path of the password file. It need not exist.
pub(super) fn pgpass_file() -> Option<PathBuf> {
    let named = std::env::var_os("PGPASSFILE").filter(|name| !name.is_empty()).map(PathBuf::from);
    named.or_else(|| match std::env::var_os("APPDATA").filter(|_| cfg!(windows)) {
        Some(folder) => Some(PathBuf::from(folder).join("postgresql/pgpass.conf")),
        None => paths::home_dir().map(|home| home.join(".pgpass")),
    })
}

/// A password file's entry for a login.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PgpassEntry {
    NotFound,
    Password(String),
    /// A password that is ignored, as libpq does, since others can read the file.
    Insecure,
}

/// Looks up the password for a login.
pub(super) fn password(file: &Path, login: &LoginTarget<'_>) -> PgpassEntry {
    // Only a file: a pipe would be waited for.
    let Some(text) = fs::metadata(file).ok().filter(fs::Metadata::is_file).and_then(|_| fs::read_to_string(file).ok()) else {
        return PgpassEntry::NotFound;
    };
    match text.lines().filter(|line| !line.starts_with('#')).find_map(|line| matching_password(line, login)) {
        None => PgpassEntry::NotFound,
        Some(_) if !files::is_private(file) => PgpassEntry::Insecure,
        Some(password) => PgpassEntry::Password(password),
    }
}

fn matching_password(line: &str, login: &LoginTarget<'_>) -> Option<String> {
    let [host, port, database, user, password] = fields(line)?;
    let is = |field: &str, wanted: &str| field == "*" || field == wanted;
    let is_host = is(&host, login.host) || (host == LOCAL_HOST && SOCKET_FOLDERS.contains(&login.host));
    let fits = is_host && is(&port, &login.port.to_string()) && is(&database, login.database) && is(&user, login.user);
    (fits && !password.is_empty()).then_some(password)
}

/// Splits a line into its fields. A password may have unescaped colons.
fn fields(line: &str) -> Option<[String; 5]> {
    let mut fields: [String; 5] = Default::default();
    let mut at = 0;
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => fields[at].push(characters.next()?),
            ':' if at < 4 => at += 1,
            other => fields[at].push(other),
        }
    }
    (at == 4).then_some(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_that_fits_counts() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("pgpass");
        let text =
            "# db:5432:team:ann:comment\nother:*:*:*:no\ndb:5432:team:ann:a\\:b:c\\\\d\n*:*:*:ann:any\nlocalhost:*:*:bob:local\n";
        ctxbridge_common::files::replace(&file, text.as_bytes()).expect("writable");
        let of = |host, port, database, user| password(&file, &LoginTarget { host, port, database, user });
        let is = |text: &str| PgpassEntry::Password(text.to_owned());
        assert_eq!(of("db", 5432, "team", "ann"), is("a:b:c\\d"));
        assert_eq!(of("db", 5433, "team", "ann"), is("any"));
        assert_eq!(of("/run/postgresql", 5432, "x", "bob"), is("local"));
        assert_eq!(of("db", 5432, "team", "eve"), PgpassEntry::NotFound);
        #[cfg(unix)]
        {
            fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o644)).expect("ours");
            assert_eq!(of("db", 5432, "team", "ann"), PgpassEntry::Insecure);
            assert_eq!(of("db", 5432, "team", "eve"), PgpassEntry::NotFound, "it would be no help to close it");
        }
        assert_eq!(
            password(&folder.path().join("none"), &LoginTarget { host: "", port: 1, database: "", user: "" }),
            PgpassEntry::NotFound
        );
    }
}

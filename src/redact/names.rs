//! Names that say that their value is a secret: `DB_PASSWORD`, `apiKey`, `client-secret`.

use std::cell::RefCell;
use std::collections::HashMap;

/// What kind of secret a name announces, which decides what may be its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// A password, which people choose: any text.
    Password,
    /// A key or token of something, which machines make: `api_key`, `GITHUB_TOKEN`.
    Key,
    /// `token` and `secret` alone, which are words of programming as well: only what looks random.
    Weak,
    /// `Authorization`, whose value has a scheme before the secret.
    Authorization,
}

/// Parts of names, of which one is in every name that counts, in lower case.
pub const PARTS: &[&str] = &[
    "pass",
    "pwd",
    "secret",
    "token",
    "credential",
    "authorization",
    "_auth",
    "api_key",
    "api-key",
    "apikey",
    "access_key",
    "access-key",
    "accesskey",
    "private_key",
    "private-key",
    "privatekey",
    "encryption_key",
    "encryptionkey",
    "signing_key",
    "signingkey",
    "shared_key",
    "sharedkey",
    "account_key",
    "accountkey",
    "master_key",
    "masterkey",
    "auth_key",
    "auth-key",
    "authkey",
];

/// Bytes of a name that are looked at, to each side of such a part.
pub const LONGEST: usize = 64;

/// What may stand behind the word that counts: `SECRET_KEY_BASE`, `password_1`.
const TAILS: &[&str] = &["base64", "b64", "base", "value", "plain", "plaintext", "raw"];

/// Tokens that are no secrets: places in a list, words of a tokenizer, and what is sent with every page.
const PUBLIC: &[&str] = &[
    "nexttoken",
    "pagetoken",
    "nextpagetoken",
    "continuationtoken",
    "synctoken",
    "eostoken",
    "bostoken",
    "padtoken",
    "unktoken",
    "septoken",
    "clstoken",
    "masktoken",
    "stoptoken",
    "currenttoken",
    "lasttoken",
    "prevtoken",
    "maxtoken",
    "pertoken",
    "cancellationtoken",
    "publicaccesskey",
];

const PASSWORDS: &[&str] =
    &["password", "passwort", "passwd", "passphrase", "passcode", "pwd", "passwrd", "userpass", "dbpass", "storepass", "keypass"];

const KEYS: &[&str] = &[
    "apikey",
    "accesskey",
    "secretkey",
    "privatekey",
    "encryptionkey",
    "signingkey",
    "sharedkey",
    "accountkey",
    "masterkey",
    "authkey",
    "credential",
    "credentials",
];

impl Name {
    /// What a name announces, if anything.
    pub fn of(name: &str) -> Option<Self> {
        let name = name.trim_matches(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        if name.is_empty() || name.len() > 3 * LONGEST || !may_announce(name) {
            return None;
        }
        if name == "_auth" || name.ends_with(":_auth") {
            return Some(Self::Key);
        }
        let has_a_part_pass = || {
            let before = name.len().checked_sub("pass".len()).and_then(|at| Some((name.get(..at)?, name.get(at..)?)));
            before.is_some_and(|(before, pass)| {
                let stands_alone = before.is_empty() || before.ends_with(['_', '-', '.']);
                pass.eq_ignore_ascii_case("pass") && (stands_alone || (pass.starts_with('P') && before.ends_with(is_lower)))
            })
        };
        let flat: String = name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
        if matches!(flat.as_str(), "pwd" | "oldpwd") || PUBLIC.iter().any(|known| flat.ends_with(known)) {
            return None;
        }
        if flat.ends_with("authorization") {
            return Some(Self::Authorization);
        }
        if has_a_part_pass() {
            return Some(Self::Password);
        }
        let flat = flat.trim_end_matches(|c: char| c.is_ascii_digit());
        let flat = TAILS.iter().find_map(|tail| flat.strip_suffix(tail)).filter(|flat| !flat.is_empty()).unwrap_or(flat);
        let ends = |words: &[&str]| words.iter().any(|word| flat.ends_with(word));
        match flat {
            _ if ends(PASSWORDS) => Some(Self::Password),
            _ if ends(KEYS) => Some(Self::Key),
            "token" | "secret" => Some(if is_loud(name) { Self::Key } else { Self::Weak }),
            _ if ends(&["token", "secret"]) => Some(Self::Key),
            _ => None,
        }
    }
}

/// Keys that are remembered, and the bytes of the longest: a transcript has the same few dozen in each line.
const REMEMBERED: usize = 500;
const LONGEST_REMEMBERED: usize = 40;

/// What the name of a key announces.
type Announced = (Option<Name>, Option<Name>);

thread_local! {
    static KNOWN: RefCell<HashMap<Box<str>, Announced>> = RefCell::default();
}

/// What a key announces of its value; and of each item, where that is a list: one of secrets has the name of one, in the plural.
pub fn of_key(key: &str) -> Announced {
    let announced = || {
        let name = Name::of(key);
        (name, key.strip_suffix('s').map_or(name, Name::of))
    };
    if key.len() > LONGEST_REMEMBERED {
        return announced();
    }
    KNOWN.with_borrow_mut(|keys| {
        if let Some(known) = keys.get(key) {
            return *known;
        }
        if keys.len() >= REMEMBERED {
            keys.clear();
        }
        *keys.entry(key.into()).or_insert_with(announced)
    })
}

/// Whether a name has three letters in a row that one that counts has, whatever stands between them. Most have not, and of a transcript
/// there are some to each hundred bytes.
fn may_announce(name: &str) -> bool {
    const LETTERS: [&[u8; 3]; 7] = [b"pas", b"pwd", b"key", b"tok", b"sec", b"cre", b"aut"];
    let mut last = [0; 3];
    name.bytes().filter(u8::is_ascii_alphanumeric).any(|byte| {
        last = [last[1], last[2], byte.to_ascii_lowercase()];
        LETTERS.contains(&&last)
    })
}

fn is_lower(c: char) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit()
}

/// Whether it is a name of an environment variable: `API_TOKEN`.
pub fn is_loud(name: &str) -> bool {
    name.bytes().any(|byte| byte.is_ascii_uppercase()) && !name.bytes().any(|byte| byte.is_ascii_lowercase())
}

/// A byte of a name, or of a path of names.
pub fn is_part(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_counts_is_not_passed_over() {
        let words = PASSWORDS.iter().chain(KEYS).chain(&["token", "secret", "authorization", "_auth", "pass"]);
        for word in words {
            for name in
                [(*word).to_owned(), word.to_uppercase(), format!("db_{word}_2"), word.split("").collect::<Vec<_>>().join("-")]
            {
                assert!(may_announce(&name), "{name}");
            }
        }
        for name in ["type", "content", "file_path", "input", "stop_reason", "usage", ""] {
            assert!(!may_announce(name), "{name}");
        }
    }

    #[test]
    fn names_say_what_they_hold() {
        for name in
            ["password", "DB_PASSWORD", "dbPassword", "mysql-passwd", "PGPASSWORD", "SMTP_PASS", "dbPass", "pass", "password2"]
        {
            assert_eq!(Name::of(name), Some(Name::Password), "{name}");
        }
        for name in
            ["apiKey", "x-api-key", "AWS_SECRET_ACCESS_KEY", "clientSecret", "github.token", "SECRET_KEY_BASE", "TOKEN", "_auth"]
        {
            assert_eq!(Name::of(name), Some(Name::Key), "{name}");
        }
        assert_eq!((Name::of("token"), Name::of("secret")), (Some(Name::Weak), Some(Name::Weak)));
        assert_eq!(Name::of("Proxy-Authorization"), Some(Name::Authorization));
        for name in [
            "tokens",
            "max_tokens",
            "token_count",
            "secretary",
            "password_file",
            "PWD",
            "nextToken",
            "compass",
            "bypass",
            "eos_token",
            "",
        ] {
            assert_eq!(Name::of(name), None, "{name}");
        }
    }
}

//! Values that look like secrets by themselves, as a sentence has them: where nothing else says that a word is one.

use super::value;

/// Minimum bytes of such a value.
const MIN_BYTES: usize = 6;
/// Maximum bytes of a key.
const MAX_KEY_BYTES: usize = 4 << 10;
/// Maximum bytes of a value by which it is judged.
const MAX_SAMPLE_BYTES: usize = 128;
/// Minimum bytes of a part that mixes letters and digits.
const MIN_MIXED_BYTES: usize = 6;
/// Minimum bytes of a value whose signs tell.
const MIN_SIGNED_BYTES: usize = 8;
/// Maximum digits behind a word, as in `version2` or `winter2026`.
const MAX_COUNTER_DIGITS: usize = 4;

/// Signs in passwords that are rare within words of code.
const SIGNS: &[u8] = b"!@#$%^&?~";

/// Beginnings of technical words that mix letters and digits.
const TECHNICAL: &[&str] = &[
    "sha1",
    "sha2",
    "sha3",
    "sha5",
    "md5",
    "base64",
    "base32",
    "base58",
    "utf8",
    "utf-8",
    "utf16",
    "aes",
    "rsa",
    "oauth",
    "argon2",
    "bcrypt",
    "scrypt",
    "pbkdf2",
    "pkcs",
    "x509",
    "x86",
    "x64",
    "ed25519",
    "curve25519",
    "secp",
    "hs256",
    "hs384",
    "hs512",
    "rs256",
    "rs384",
    "rs512",
    "es256",
    "es384",
    "ps256",
    "k8s",
    "http",
    "ipv4",
    "ipv6",
    "i18n",
    "l10n",
    "win32",
    "h264",
    "gpt",
    "claude",
    "iso",
    "rfc",
    "cve-",
    "amd64",
    "arm64",
    "crc32",
    "blake",
    "murmur",
    "p256",
    "p-256",
    "u0026",
];

/// `true` if a value is a secret although only a sentence says so: it is no word, number, name, path or version.
pub fn is_strong(value: &str) -> bool {
    let value = start(value, MAX_SAMPLE_BYTES);
    let bytes = value.as_bytes();
    let (digits, letters) = (value::count(bytes, u8::is_ascii_digit), value::count(bytes, u8::is_ascii_alphabetic));
    if value.len() < MIN_BYTES || letters == 0 {
        return false;
    }
    // Rare first, as most values are words.
    let is_signed = || {
        let may_be = value.len() >= MIN_SIGNED_BYTES && letters >= 3 && digits >= 1 && !value.ends_with('%');
        may_be && bytes[1..].iter().any(|byte| SIGNS.contains(byte))
    };
    let is_cut = |byte: &u8| !byte.is_ascii_alphanumeric() && byte.is_ascii();
    let is_any_mixed = || digits > 0 && bytes.split(is_cut).any(is_mixed);
    (is_signed() || is_any_mixed() || is_long(bytes, digits, letters)) && is_plausible(value)
}

/// The start of a value, by which it is judged: all of many long values would take too long.
fn start(value: &str, bytes: usize) -> &str {
    &value[..value.floor_char_boundary(bytes)]
}

/// `true` if a value is a word with a number behind it, as many passwords are: `hunter2`.
pub fn is_numbered_word(value: &str) -> bool {
    let word = value.trim_end_matches(|c: char| c.is_ascii_digit());
    let digits = value.len() - word.len();
    let is_word = word.len() >= 4 && word.bytes().all(|byte| byte.is_ascii_alphabetic());
    is_word && (1..=MAX_COUNTER_DIGITS + 4).contains(&digits) && !is_technical(value)
}

/// `true` for a long random value, as of a key: one word of base64 or hexadecimal digits, maybe with its encoding before it.
pub fn is_long_random(value: &str) -> bool {
    const SHORTEST: usize = 16;
    const SHORTEST_PART: usize = 12;
    let value = value.strip_prefix("base64:").unwrap_or(value);
    let is_length_of_key = (SHORTEST..=MAX_KEY_BYTES).contains(&value.len());
    let value = start(value, MAX_SAMPLE_BYTES / 2);
    let is_of_key = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=_~.-".contains(&byte);
    let is_part = |part: &[u8]| part.len() >= SHORTEST_PART && is_mixed(part);
    is_length_of_key
        && value.bytes().all(is_of_key)
        && !value.starts_with(['/', '.'])
        && (value.as_bytes().split(|byte| !byte.is_ascii_alphanumeric()).any(is_part) || is_uuid(value))
}

/// `true` if a part of a value is random: of a session's number with its signature, of a key with its encoded padding.
pub fn has_random_part(value: &str) -> bool {
    const SHORTEST: usize = 12;
    let value = start(value, 2 * MAX_SAMPLE_BYTES);
    value.as_bytes().split(|byte| !byte.is_ascii_alphanumeric()).any(|part| part.len() >= SHORTEST && is_mixed(part))
        || is_uuid(value)
}

fn is_uuid(value: &str) -> bool {
    value.len() == 36
        && value.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// `true` if no sign in a value says that it is code, an address or a path.
fn is_plausible(value: &str) -> bool {
    const STARTS: &[&str] = &["http", "www.", "/", "./", "../", "~/", "$", "%", "-", "@", "#", "&", "*"];
    let is_of_code = |c: char| c.is_whitespace() || c.is_control() || "(){}[]<>;\"'`|\\,".contains(c);
    let is_sum = value.bytes().filter(|byte| *byte == b'=').count() > 0 && !value.ends_with('=');
    !(value.contains(is_of_code)
        || value.contains("://")
        || value.contains("::")
        || value.contains("->")
        || is_sum
        || value::start_among(value, STARTS).is_some()
        || is_technical(value)
        || is_mail_address(value)
        || is_file(value))
}

fn is_technical(value: &str) -> bool {
    const LONGEST: usize = 12;
    let start = value.get(..value.len().min(LONGEST)).unwrap_or_default().to_ascii_lowercase();
    value::start_among(&start, TECHNICAL).is_some()
}

fn is_mail_address(value: &str) -> bool {
    let is_plain =
        |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_+".contains(&byte));
    value.split_once('@').is_some_and(|(name, host)| {
        let top = host.rsplit('.').next().unwrap_or_default();
        is_plain(name)
            && is_plain(host)
            && host.contains('.')
            && top.len() >= 2
            && top.bytes().all(|byte| byte.is_ascii_alphabetic())
    })
}

/// `true` for a name with the ending of a file, or a path of names.
fn is_file(value: &str) -> bool {
    const ENDINGS: &[&str] = &[
        "rs", "ts", "js", "tsx", "jsx", "py", "go", "rb", "md", "txt", "json", "yml", "yaml", "toml", "lock", "sh", "png", "jpg",
        "svg", "css", "html", "pem", "key", "crt", "env", "log", "sql", "java", "c", "h", "cpp", "php", "conf", "ini", "cfg",
        "xml", "csv", "zip", "gz", "pdf", "com", "org", "net", "io", "dev", "local",
    ];
    value
        .rsplit_once('.')
        .is_some_and(|(_, ending)| ENDINGS.contains(&ending.trim_end_matches(|c: char| c == ':' || c.is_ascii_digit())))
}

/// `true` for letters and digits that are mixed as in no word: not `version2`, `32byte`, `2026`.
fn is_mixed(part: &[u8]) -> bool {
    if part.len() < MIN_MIXED_BYTES || !part.is_ascii() {
        return false;
    }
    let mut changes = part.windows(2).filter(|pair| pair[0].is_ascii_digit() != pair[1].is_ascii_digit());
    let is_time = || part.starts_with(b"20") && part[..4].iter().all(u8::is_ascii_digit);
    changes.nth(1).is_some() && !is_time()
}

/// `true` for a long value in both cases that is no name in camel case.
fn is_long(bytes: &[u8], digits: usize, letters: usize) -> bool {
    const SHORTEST: usize = 20;
    let is_token = || bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"+/=_-".contains(byte));
    let count = |is: fn(&[u8]) -> bool| bytes.windows(2).filter(|pair| is(pair)).count();
    let is_of_cases = || {
        count(|pair| pair[0].is_ascii_uppercase() && pair[1].is_ascii_uppercase()) >= 2
            && count(|pair| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase()) >= 3
    };
    let has_capitals = || value::count(bytes, u8::is_ascii_uppercase) >= 3;
    bytes.len() >= SHORTEST
        && (digits >= 2 && letters >= 2 || (has_capitals() && is_of_cases()))
        && is_token()
        && !bytes.contains(&b'_')
        && bytes.iter().filter(|byte| matches!(byte, b'-' | b'/')).count() <= 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_strong_and_words_are_not() {
        for value in
            ["Qk7lSFKE!xnrKr", "S3cr!t-c4lsgm", "pssW0rdUFrTL", "correct-horse-77lR2Kzc", "Tr0ub4dor&3NoJgm9", "a8f3c91e07"]
        {
            assert!(is_strong(value), "{value}");
        }
        for value in [
            "required",
            "sha256-hashed",
            "32-byte",
            "version2",
            "v1.2.3",
            "2026-01-02T10:00:00Z",
            "x86_64",
            "base64url",
            "next_token",
            "config.token2",
            "user@example2.org",
            "/run/secrets/db1",
            "https://x1.example",
            "foo2.txt",
            "12345678",
            "utf8mb4",
            "a+b",
            "HttpRequest2",
            "getUser1",
            "abcdefgh",
            "ABCDEFGH",
            "100%",
            "C++17",
        ] {
            assert!(!is_strong(value), "{value}");
        }
        assert!(is_numbered_word("hunter2") && !is_numbered_word("sha256") && !is_numbered_word("abc1"));
        assert!(is_long_random("base64:DW6FuAsvRnDkDNMkSKwVLLs5gACV0ogC") && !is_long_random("user-profile-cache-2024-01"));
    }
}

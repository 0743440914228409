//! Secrets in sentences, lists and tables: `the password for admin is …`, `**Passwort:** …`, `| パスワード | … |`.
//!
//! A sentence about a password has none, as a rule. So the value has to look like one by itself.

use std::ops::Range;

use super::names::{self, SecretKind};
use super::strength;
use super::value::{self, ScannedText};

/// Words for a password or key that are in no name of code, in both cases where there are two.
pub const WORDS: &[&str] = &[
    "contraseña",
    "CONTRASEÑA",
    "contrasenya",
    "mot de passe",
    "palavra-passe",
    "hasło",
    "haslo",
    "HASŁO",
    "пароль",
    "Пароль",
    "ПАРОЛЬ",
    "пароля",
    "密码",
    "密碼",
    "口令",
    "密钥",
    "密鑰",
    "パスワード",
    "暗証番号",
    "合言葉",
    "비밀번호",
    "암호",
    "şifre",
    "Şifre",
    "ŞİFRE",
    "parola",
    "lösenord",
    "LÖSENORD",
    "losenord",
    "adgangskode",
    "kodeord",
    "salasana",
    "heslo",
    "jelszó",
    "Jelszó",
    "jelszo",
    "κωδικός",
    "Κωδικός",
    "κωδικο",
    "סיסמה",
    "סיסמא",
    "كلمة المرور",
    "كلمة السر",
    "पासवर्ड",
    "mật khẩu",
    "Mật khẩu",
    "kata sandi",
    "รหัสผ่าน",
    "schlüssel",
    "SCHLÜSSEL",
    "clave",
    "chiave",
    "clé",
    "ключ",
    "geheimnis",
    "slaptažodis",
    "parole",
    "lozinka",
    "geslo",
];

/// Words before a user and its password: `login: ann / …`.
pub const PAIR_WORDS: &[&str] = &[
    "zugangsdaten",
    "anmeldedaten",
    "login",
    "logins",
    "credentials",
    "creds",
    "credenciales",
    "credenziali",
    "credenciais",
    "identifiants",
    "inloggegevens",
    "inloggningsuppgifter",
    "user/pass",
    "user / pass",
    "username/password",
    "账号",
    "帳號",
    "ログイン",
    "учетные данные",
    "dane logowania",
    "account",
];

/// Words between the name of a secret and the secret.
const VERBS: &[&str] = &[
    "is", "was", "are", "to", "as", "be", "ist", "lautet", "war", "sei", "es", "era", "est", "était", "è", "é", "são", "som",
    "är", "er", "on", "to:", "jest", "je", "это", "=", "là", "adalah", "van",
];
/// The same where no blank is before the secret.
const SUFFIXES: &[&str] = &["是", "为", "為", "は", "는", "은", "설정"];
/// Signs between them.
const SIGNS: &[&str] = &["：", ":", "＝", "=>", "=", "->", "→", "⇒", "–", "—"];
/// Marks around either of them.
const MARKS: &[char] =
    &['*', '_', '`', '"', '\'', '“', '”', '„', '«', '»', '「', '」', '‘', '’', '(', '\\', '『', '』', '【', '】'];

/// Maximum bytes of a verb.
const LONGEST_VERB: usize = 8;
/// Maximum bytes of the words before a name in a cell of a table.
const MAX_CELL_BYTES: usize = 40;
/// Maximum bytes from a name to its secret, and maximum words between.
const MAX_GAP_BYTES: usize = 96;
const MAX_GAP_WORDS: usize = 5;

/// The manner in which a value is told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Connector {
    /// By a sign, right behind the name.
    Sign,
    /// By a verb, or by a sign that is further away.
    Sentence,
}

/// Finds the secret that a sentence tells of behind the name that ends there.
pub fn find(text: ScannedText<'_>, name: &Range<usize>, kind: SecretKind) -> Option<Range<usize>> {
    let told = connector(text, name);
    let secret = told.and_then(|(connector, at)| secret_word(text, name, kind, connector, at));
    let is_weak = matches!(kind, SecretKind::Weak | SecretKind::Generic);
    if secret.is_some() || is_weak {
        return secret;
    }
    let next = start_of_next(text, name.end);
    let is_new = text.byte(next).is_ascii_graphic() && told.is_none_or(|(_, at)| at != next);
    is_new.then(|| secret_word(text, name, kind, Connector::Sentence, next)).flatten()
}

/// The word at a position, if it is a secret.
fn secret_word(
    text: ScannedText<'_>,
    name: &Range<usize>,
    kind: SecretKind,
    connector: Connector,
    at: usize,
) -> Option<Range<usize>> {
    let value = word(text, at);
    let said = &text.text[value.clone()];
    let is_numbered = || {
        let rest = text.text[value.end..].trim_start_matches(MARKS);
        let is_last = rest.is_empty() || rest.starts_with(['.', ',', '\n', '\r', '<', '|', ')', ';', '!']);
        kind == SecretKind::Password && strength::is_numbered_word(said) && is_last && at > name.end + 1
    };
    let looks_so = match kind {
        SecretKind::Generic => strength::is_long_random(said) && strength::is_strong(said),
        _ => strength::is_strong(said) || ((connector == Connector::Sign || is_told(text, name, at)) && is_numbered()),
    };
    let is_secret = looks_so && !value::is_placeholder(said);
    (is_secret && !text.crosses_string(name.start..value.end)).then_some(value)
}

/// `true` if more than blanks and marks is between a name and a position.
fn is_told(text: ScannedText<'_>, name: &Range<usize>, at: usize) -> bool {
    text.text[name.end..at.max(name.end)].contains(|c: char| c != ' ' && !MARKS.contains(&c))
}

/// The start of what follows a name without a verb: `.setPassword("…")`, `password <- "…"`, `password: !unsafe …`.
fn start_of_next(text: ScannedText<'_>, at: usize) -> usize {
    const LONGEST_TAG: usize = 24;
    let mut at = skip_marks(text, at);
    if let Some(sign) = value::start_among(&text.text[at..], &["<-", ":", "=", ".set("]) {
        at = skip_marks(text, at + sign.len());
    }
    // A tag or an anchor of YAML, or the next line.
    if matches!(text.byte(at), b'!' | b'&') {
        let tag = text.text.as_bytes()[at..].iter().take(LONGEST_TAG).take_while(|byte| byte.is_ascii_graphic()).count();
        at = if text.byte(at + tag) == b' ' { skip_marks(text, at + tag) } else { at };
    }
    if text.byte(at) == b'\n' && matches!(text.byte(at + 1), b' ' | b'\t') {
        at = skip_marks(text, at + 1);
    }
    at
}

/// Finds the secret behind words such as `API key`, whose parts stand alone. The range is of the word `key`.
pub fn find_spaced(text: ScannedText<'_>, key: &Range<usize>) -> Option<Range<usize>> {
    const LONGEST: usize = 24;
    let before = &text.text[text.boundary(key.start.saturating_sub(LONGEST))..key.start];
    let before = before.trim_end_matches([' ', '-', '_']);
    let first =
        before.rfind(|c: char| !c.is_alphanumeric()).map_or(0, |at| at + before[at..].chars().next().map_or(1, char::len_utf8));
    let name = format!("{}_{}", &before[first..], &text.text[key.clone()]);
    let kind = SecretKind::of(&name)?;
    find(text, key, kind)
}

/// Finds the password in `login: ann / …`, where the word ends at a position.
pub fn find_pair(text: ScannedText<'_>, name: &Range<usize>) -> Option<Range<usize>> {
    const LONGEST: usize = 64;
    let mut at = skip_marks(text, name.end);
    let sign = value::start_among(&text.text[at..], SIGNS)?;
    at = skip_marks(text, at + sign.len());
    let bytes = text.text.as_bytes();
    let is_of_user = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-@+\\".contains(byte);
    let user = bytes[at..].iter().take(LONGEST).take_while(|byte| is_of_user(byte)).count();
    if user == 0 {
        return None;
    }
    at = skip_marks(text, at + user);
    if !matches!(text.byte(at), b'/' | b':' | b'|' | b',') {
        return None;
    }
    let value = word(text, skip_marks(text, at + 1));
    let is_secret = strength::is_strong(&text.text[value.clone()]) && !value::is_placeholder(&text.text[value.clone()]);
    (is_secret && !text.crosses_string(name.start..value.end)).then_some(value)
}

/// Whatever is between a name and its value, and the start of that.
fn connector(text: ScannedText<'_>, name: &Range<usize>) -> Option<(Connector, usize)> {
    let limit = text.boundary(name.end + MAX_GAP_BYTES);
    let is_cell = || {
        let before = &text.text[text.boundary(name.start.saturating_sub(MAX_CELL_BYTES))..name.start];
        before.rfind(['|', '>', '\n']).is_some_and(|at| {
            let is_plain = |c: char| c.is_alphanumeric() || c == ' ' || c == '-' || MARKS.contains(&c);
            !before[at..].starts_with('\n') && before[at + 1..].chars().all(is_plain)
        })
    };
    let mut words = 0;
    let mut at = name.end;
    while at < limit {
        at = skip_marks(text, at);
        let rest = text.text.get(at..)?;
        let manner = if words == 0 { Connector::Sign } else { Connector::Sentence };
        if let Some(sign) = value::start_among(rest, SIGNS) {
            return (!rest.starts_with("==") && !rest.starts_with("::") && !rest.starts_with("://"))
                .then(|| (manner, skip_marks(text, at + sign.len())));
        }
        if let Some(suffix) = value::start_among(rest, SUFFIXES) {
            let behind = skip_marks(text, at + suffix.len());
            let sign = value::start_among(&text.text[behind..], SIGNS);
            return Some((manner, sign.map_or(behind, |sign| skip_marks(text, behind + sign.len()))));
        }
        if words == 0 && rest.starts_with('|') && is_cell() {
            return Some((Connector::Sign, skip_marks(text, at + 1)));
        }
        if rest.starts_with('<') {
            at = skip_tags(text, at)?;
            continue;
        }
        let length = word_length(rest);
        let said = &rest[..length];
        if words == 0 && text.byte(at.saturating_sub(1)) == b'>' && is_cell() {
            return Some((Connector::Sign, at));
        }
        let is_verb = length > 0 && said.len() <= LONGEST_VERB && VERBS.iter().any(|verb| verb.eq_ignore_ascii_case(said));
        words += 1;
        if length == 0 || words > MAX_GAP_WORDS || said.ends_with('.') {
            return None;
        }
        at += length;
        if is_verb && text.byte(at) != b':' {
            return Some((Connector::Sentence, skip_marks(text, at)));
        }
    }
    None
}

/// The length of the word there in bytes; 0 if there is none, or one that is too long.
fn word_length(rest: &str) -> usize {
    const LONGEST: usize = 24;
    let is_of_word = |c: char| c.is_alphanumeric() || matches!(c, '@' | '.' | '\'' | '-' | '/');
    let length = rest.chars().take(LONGEST + 1).take_while(|c| is_of_word(*c)).map(char::len_utf8).sum();
    if length > 2 * LONGEST { 0 } else { length }
}

/// Skips blanks and marks, on one line.
fn skip_marks(text: ScannedText<'_>, at: usize) -> usize {
    let rest = text.text.get(at..).unwrap_or_default();
    // Nothing to skip, most of the time.
    if rest.as_bytes().first().is_some_and(u8::is_ascii_alphanumeric) {
        return at;
    }
    let is_mark = |c: char| c == ' ' || c == '\t' || MARKS.contains(&c);
    let length: usize = rest.chars().take(MAX_GAP_BYTES / 4).take_while(|c| is_mark(*c)).map(char::len_utf8).sum();
    // The letter of an escape is no word.
    let length = if rest[..length].ends_with('\\') { length - 1 } else { length };
    skip_tags(text, at + length).unwrap_or(at + length)
}

/// Skips tags of HTML with nothing but blanks between them.
fn skip_tags(text: ScannedText<'_>, mut at: usize) -> Option<usize> {
    const LONGEST: usize = 40;
    let start = at;
    while text.byte(at) == b'<' {
        let rest = &text.text.as_bytes()[at..];
        let end = rest.iter().take(LONGEST).position(|byte| *byte == b'>')?;
        if !rest.get(1).is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'/') {
            return None;
        }
        at = text.skip_blanks(at + end + 1);
        if text.byte(at) == b'\n' && text.byte(text.skip_blanks(at + 1)) == b'<' {
            at = text.skip_blanks(at + 1);
        }
    }
    (at > start).then_some(at)
}

/// The word there, without the marks and the punctuation behind it.
fn word(text: ScannedText<'_>, at: usize) -> Range<usize> {
    const LONGEST: usize = 600;
    let rest = text.text.get(at..).unwrap_or_default();
    let is_end = |c: char| match c {
        '<' | '|' | '"' | '`' => true,
        _ if c.is_ascii() => c.is_ascii_whitespace(),
        _ => !c.is_alphanumeric(),
    };
    let measure = || {
        let length = rest.chars().take(LONGEST).take_while(|c| !is_end(*c)).map(char::len_utf8).sum::<usize>();
        // The letter of an escape ends a word as well.
        at + rest[..length].find(r"\n").unwrap_or(length)
    };
    let said = &rest[..text.word_end(at, measure) - at];
    at..at + said.trim_end_matches(|c: char| ".,;:)]}*'\\".contains(c)).len()
}

/// `true` if a word of [`WORDS`] or [`PAIR_WORDS`] stands alone, and is no part of a name in code.
pub fn is_alone(text: ScannedText<'_>, word: &Range<usize>) -> bool {
    let is_of_name = |byte: u8| names::is_name_byte(byte) && byte != b'.';
    let is_part_before = word.start > 0 && is_of_name(text.byte(word.start - 1));
    !is_part_before && !is_of_name(text.byte(word.end))
}

/*!
Secrets that are recognized by their name: assignments in shell, `.env`, JSON, YAML, TOML and code, headers, flags.

A hand-written parser starts where a part of a name was found: one regex for all would take longer to compile than a hook may run.
*/

use std::ops::Range;

use super::authorization::{AUTHORIZATION_RULE, authorization};
use super::names::{self, SecretKind};
use super::value::{self, ScannedText, VALUE_TERMINATORS, ValueSpan};
use super::{MARKER_PREFIX, blocks, calls, prose, strength};

/// Name of the rule for named secrets.
pub const NAMED_SECRET_RULE: &str = "named-secret";

/// Separator between a name and its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Separator {
    /// `NAME=value`
    Tight,
    /// `name = value`, also `:=` and `=>`
    Spaced,
    /// `name: value`
    Colon,
    /// `--name value`, `--name=value`
    Blank,
    /// `<name>value</name>`
    Tag,
}

/// A quote in HTML.
const QUOTE_ENTITY: &str = "&quot;";

/// Minimum bytes of the value of `token: …`.
const SHORTEST_WEAK: usize = 16;

/// Bytes that end the value of an environment variable, which extends to the next blank.
const VARIABLE_TERMINATORS: &[u8] = b";|<>";

/// A secret and the name of its rule.
type NamedSecret = (&'static str, Range<usize>);

/// Finds a secret by its name, which is at this range.
pub fn find(text: ScannedText<'_>, name: &Range<usize>) -> Option<NamedSecret> {
    let spelled = &text.text[name.clone()];
    let named = |range| (NAMED_SECRET_RULE, range);
    let Some(kind) = names::of_key(spelled).0 else {
        return prose::find_spaced(text, name).filter(|_| is_key_word(spelled)).map(named);
    };
    let separator = separator(text, kind, name);
    // A pass before this one has found its value.
    if separator.is_some_and(|(_, at)| text.text.as_bytes()[at..].starts_with(MARKER_PREFIX.as_bytes())) {
        return None;
    }
    let assigned = separator.and_then(|(separator, at)| assigned(text, kind, separator, at, name));
    let in_other_place = || {
        let at = separator.map_or(name.end + text.backslashes(name.end), |(_, at)| at);
        let at = if separator.is_none() && matches!(text.byte(at), b'"' | b'\'') { at + 1 } else { at };
        let value = blocks::value_within(text, at).or_else(|| {
            calls::named_argument(text, name)
                .filter(|range| names::is_upper_case(spelled) || strength::is_strong(&text.text[range.clone()]))
        });
        let said = |range: &Range<usize>| &text.text[range.clone()];
        if kind == SecretKind::Authorization {
            return value.and_then(|range| authorization(text, range.start)).map(|range| (AUTHORIZATION_RULE, range));
        }
        value
            .filter(|range| {
                !value::is_placeholder(said(range)) && !value::is_prose(said(range)) && is_secret_text(kind, said(range))
            })
            .map(named)
    };
    let in_sentence = || (kind != SecretKind::Authorization).then(|| prose::find(text, name, kind)).flatten().map(named);
    assigned.or_else(|| value_of_pair(text, kind, name)).or_else(in_other_place).or_else(in_sentence)
}

/// `true` for the last word of a name whose words stand apart: `API key`.
fn is_key_word(spelled: &str) -> bool {
    ["key", "keys"].iter().any(|word| word.eq_ignore_ascii_case(spelled))
}

/// The secret behind a separator.
fn assigned(
    text: ScannedText<'_>,
    kind: SecretKind,
    separator: Separator,
    at: usize,
    name: &Range<usize>,
) -> Option<NamedSecret> {
    let is_loud = names::is_upper_case(&text.text[name.clone()]);
    if kind == SecretKind::Authorization {
        // A scheme with parameters looks like a type with a value.
        let gap = &text.text[name.end..at];
        let colon = gap.find(':').filter(|_| gap.contains(|c: char| c.is_ascii_alphanumeric()));
        let at = colon.map_or(at, |colon| text.skip_blanks(name.end + colon + 1));
        return authorization(text, at).map(|range| (AUTHORIZATION_RULE, range));
    }
    if separator == Separator::Colon
        && let Some(block) = blocks::yaml(text, name, at, |said| is_secret_text(kind, first_word(said)))
    {
        return Some((NAMED_SECRET_RULE, block));
    }
    let value = match html_quoted_value(text, at) {
        Some(value) => value,
        None => text.value(at, if is_loud && separator == Separator::Tight { VARIABLE_TERMINATORS } else { VALUE_TERMINATORS }),
    };
    if kind == SecretKind::Generic
        && let Some(words) = blocks::mnemonic(text, &value)
    {
        return Some((NAMED_SECRET_RULE, words));
    }
    is_secret_value(text, kind, separator, is_loud, name, &value).then_some((NAMED_SECRET_RULE, value.range))
}

fn first_word(said: &str) -> &str {
    said.split_whitespace().next().unwrap_or_default()
}

/// The range of the whole name around a part.
pub fn name_around(text: ScannedText<'_>, part: Range<usize>) -> Option<Range<usize>> {
    let (mut start, mut end) = (part.start, part.end);
    while start > 0 && names::is_name_byte(text.byte(start - 1)) {
        start -= 1;
        if part.start - start > names::MAX_NAME_BYTES {
            return None;
        }
    }
    // The letter of an escape is no part of a name.
    if start > 0 && text.byte(start - 1) == b'\\' && start < part.start {
        start += 1;
    }
    while names::is_name_byte(text.byte(end)) && text.byte(end) != b'.' {
        end += 1;
        if end - part.end > names::MAX_NAME_BYTES {
            return None;
        }
    }
    Some(start..end)
}

/// The separator after a name, and the start of its value.
fn separator(text: ScannedText<'_>, kind: SecretKind, name: &Range<usize>) -> Option<(Separator, usize)> {
    let is_flag = text.text[name.clone()].starts_with("--") || text.text[name.clone()].starts_with('-');
    let mut at = name.end;
    let slashes = text.backslashes(at);
    let is_quoted = matches!(text.byte(at + slashes), b'"' | b'\'' | b'`') && !is_flag;
    let is_key = slashes == 0 && text.is_string_quote(at);
    if is_quoted && slashes > 0 && slashes.is_multiple_of(2) && text.is_string_quote(at + slashes) {
        // An even number of them escapes no quote: the string ends here, and a key that ends with backslashes is no name.
        return None;
    }
    if is_quoted {
        at += slashes + 1;
        if text.byte(at) == b']' {
            at += 1;
        }
    }
    if text.text[at..].starts_with(QUOTE_ENTITY) {
        at += QUOTE_ENTITY.len();
    }
    let behind_name = at;
    at = text.skip_blanks(at);
    let has_blank = at > behind_name;
    let separator = match (text.byte(at), text.byte(at + 1)) {
        (b'=', b'>') | (b':', b'=') | (b'?', b'=') | (b'=', b'=') => {
            at += 2 + usize::from(text.byte(at + 2) == b'=');
            Separator::Spaced
        }
        (b'=', _) => {
            at += 1;
            let is_tight = !has_blank && !matches!(text.byte(at), b' ' | b'\t');
            match is_tight {
                true if is_flag => Separator::Blank,
                true => Separator::Tight,
                false => Separator::Spaced,
            }
        }
        // As in an address.
        (b'%', b'3') if matches!(text.byte(at + 2), b'D' | b'd') => {
            at += 3;
            Separator::Tight
        }
        (b':', next) if next != b':' && !(next == b'/' && text.byte(at + 2) == b'/') => {
            at += 1;
            after_type(text, at).map_or(Separator::Colon, |behind| {
                at = behind;
                Separator::Spaced
            })
        }
        (b'>', _) if name.start > 0 && text.byte(name.start - 1) == b'<' => {
            at += 1;
            Separator::Tag
        }
        (next, _) if is_flag && has_blank && next != b'-' => Separator::Blank,
        (next, _) if has_blank && next > b' ' && (is_set_by_word(text, name) || is_directive(text, kind, at)) => Separator::Tight,
        // `["password", "…"]` and `PASSWORD '…'` are lists and sentences as often.
        _ => return None,
    };
    let at = text.skip_blanks(at);
    // In JSON, the value of a key is a string, or is no secret; and a name in a string has its value in that string.
    (!text.is_json() || is_key == text.is_string_quote(at)).then_some((separator, at))
}

/// A value between HTML-escaped quotes.
fn html_quoted_value(text: ScannedText<'_>, at: usize) -> Option<ValueSpan> {
    let said = text.text.get(at..)?.strip_prefix(QUOTE_ENTITY)?;
    let length = said.find(QUOTE_ENTITY)?;
    let is_one = length > 0 && !said[..length].contains(['\n', '\r', '"', '\\', '<']);
    let start = at + QUOTE_ENTITY.len();
    is_one.then(|| ValueSpan { range: start..start + length, quote: Some(b'"') })
}

/// The value of a name that is itself a value: `- name: DB_PASSWORD` followed by `value: …`, and the same in JSON and XML.
fn value_of_pair(text: ScannedText<'_>, kind: SecretKind, name: &Range<usize>) -> Option<(&'static str, Range<usize>)> {
    /// Maximum bytes of quotes, commas and white space in between.
    const FURTHEST: usize = 48;
    const VALUE: &str = "value";
    let rest = text.text.get(name.end..)?;
    let between = rest.bytes().take(FURTHEST).take_while(|byte| b"\"'`,\\ \t\r\n".contains(byte)).count();
    // The letter of an escape that ends a line.
    let is_escape = rest[..between].ends_with('\\') && rest[between..].starts_with('n');
    let between = if is_escape {
        between + 1 + rest[between + 1..].bytes().take(FURTHEST).take_while(|byte| b" \t".contains(byte)).count()
    } else {
        between
    };
    let word = rest.get(between..between + VALUE.len())?;
    if between == 0 || !word.eq_ignore_ascii_case(VALUE) {
        return None;
    }
    let mut at = name.end + between + VALUE.len();
    let slashes = text.backslashes(at);
    if matches!(text.byte(at + slashes), b'"' | b'\'') {
        at += slashes + 1;
    }
    at = text.skip_blanks(at);
    if !matches!(text.byte(at), b':' | b'=') {
        return None;
    }
    let mut at = text.skip_blanks(at + 1);
    if kind == SecretKind::Authorization {
        return authorization(text, at).map(|range| (AUTHORIZATION_RULE, range));
    }
    at = text.skip_blanks(at);
    let value = text.value(at, VALUE_TERMINATORS);
    let said = &text.text[value.range.clone()];
    // In JSON, both are in one string, or each in one of its own.
    let is_apart = (name.end..name.end + between).any(|at| text.is_string_quote(at) && text.byte(at - 1) != b'\\');
    let is_placed = !text.is_json() || (is_apart == text.is_string_quote(at) && !text.is_after_string(at + 1));
    let is_secret = is_placed
        && !value::is_placeholder(said)
        && !value::is_prose(said)
        && match value.quote {
            Some(_) => is_secret_text(kind, said),
            None => is_bare_secret(kind, said, false),
        };
    is_secret.then_some((NAMED_SECRET_RULE, value.range))
}

/// Words of commands and files that set the name behind them to the value behind it.
const SETTERS: &[&str] = &[
    "ENV ",
    "ARG ",
    "setx ",
    "setx /M ",
    "set -gx ",
    "set -Ux ",
    "set -x ",
    "set -xg ",
    "set -Ugx ",
    "config set ",
    "configure set ",
    "config --global ",
    "git config ",
    "setenv ",
    "secret set ",
    "secrets set ",
    "env set ",
    "vars set ",
    "SetEnv ",
    "fastcgi_param ",
];

/// `true` if a name is set by a command or an instruction: `ENV NAME value`, `setx NAME value`.
fn is_set_by_word(text: ScannedText<'_>, name: &Range<usize>) -> bool {
    const LONGEST: usize = 24;
    let before = &text.text[text.boundary(name.start.saturating_sub(LONGEST))..name.start];
    // Each of them ends with a blank, and most differ in the letter before it already.
    let [.., last, b' '] = before.as_bytes() else { return false };
    SETTERS.iter().filter(|setter| setter.as_bytes()[setter.len() - 2] == *last).any(|setter| {
        let Some(before) = before.strip_suffix(setter) else { return false };
        if *setter != "ENV " {
            return !before.ends_with(|c: char| c.is_alphanumeric());
        }
        let before = before.trim_end_matches([' ', '\t', '→']).trim_end_matches(|c: char| c.is_ascii_digit());
        before.trim_end_matches([' ', '\t']).chars().next_back().is_none_or(|last| "\n\r\"+-:".contains(last))
            || before.ends_with("\\n")
    })
}

/// `true` if a strong value is behind a password's name on a line: `requirepass …`, `password …`.
fn is_directive(text: ScannedText<'_>, kind: SecretKind, at: usize) -> bool {
    if kind != SecretKind::Password {
        return false;
    }
    let value = text.value(at, VALUE_TERMINATORS);
    value.quote.is_none() && text.is_line_end(text.skip_blanks(value.range.end)) && strength::is_strong(&text.text[value.range])
}

/// The position after a type and its `=`, as in `const TOKEN: &str = "…"`.
fn after_type(text: ScannedText<'_>, at: usize) -> Option<usize> {
    const LONGEST: usize = 48;
    let rest = text.text.get(at..)?;
    let is_of_a_type = |byte: &u8| byte.is_ascii_alphanumeric() || b" _&<>[]'|.?".contains(byte);
    let length = rest.bytes().take(LONGEST).take_while(|byte| is_of_a_type(byte)).count();
    let equals = rest.as_bytes().get(length) == Some(&b'=') && rest.as_bytes().get(length + 1) != Some(&b'=');
    let name = rest[..length].trim();
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '&');
    // Base64 ends so as well.
    let is_padding = name.split_ascii_whitespace().next_back().is_some_and(value::looks_random);
    let has_value = rest.get(length + 1..).is_some_and(|behind| {
        let behind = behind.trim_start_matches([' ', '\t']).trim_start_matches(['"', '\'', '`', '\\']);
        behind.starts_with(|c: char| !c.is_whitespace())
    });
    (equals && begins && has_value && !is_padding).then_some(at + length + 1)
}

fn is_secret_value(
    text: ScannedText<'_>,
    kind: SecretKind,
    separator: Separator,
    is_loud: bool,
    name: &Range<usize>,
    value: &ValueSpan,
) -> bool {
    let said = &text.text[value.range.clone()];
    let is_secret = match value.quote {
        Some(_) => is_secret_text(kind, said),
        None => match separator {
            Separator::Tag => is_secret_text(kind, said),
            // What a person types, or a file that is read by a shell.
            Separator::Blank => {
                !value::is_expression(said) && (kind == SecretKind::Password || said.len() >= 6) && !is_option(said)
            }
            _ if kind == SecretKind::Generic => strength::is_long_random(said),
            Separator::Tight if is_loud => !value::is_call(said) && !is_number_of(kind, said),
            Separator::Tight => is_bare_secret(kind, said, is_argument(text, value)) && !is_option(said),
            Separator::Spaced => is_bare_secret(kind, said, true),
            // A word of programming, which a settings file has with a long value only.
            Separator::Colon if kind == SecretKind::Weak && said.len() < SHORTEST_WEAK => false,
            Separator::Colon => is_bare_secret(kind, said, !is_alone(text, name, value)) && !is_type(said),
        },
    };
    is_secret && !said.eq_ignore_ascii_case(&text.text[name.clone()]) && !value::is_placeholder(said) && !value::is_prose(said)
}

/// `true` if a text is a secret when assigned to a name of this kind, whatever is around it.
pub fn is_secret_text(kind: SecretKind, said: &str) -> bool {
    const SHORTEST: usize = 6;
    match kind {
        SecretKind::Password => true,
        SecretKind::Key | SecretKind::Authorization => said.len() >= SHORTEST && !is_number_of(kind, said),
        SecretKind::Generic => strength::is_long_random(said),
        SecretKind::Weak => {
            said.len() >= SHORTEST && value::looks_random(said) && !said.bytes().any(|byte| byte.is_ascii_whitespace())
        }
    }
}

/// `true` if a value without quotes is a secret. In code, it is a name or an expression unless it looks like neither.
fn is_bare_secret(kind: SecretKind, said: &str, is_code: bool) -> bool {
    const SHORTEST_WORD: usize = 6;
    const SHORTEST_KEY: usize = 12;
    if value::is_expression(said) || is_number_of(kind, said) {
        return false;
    }
    if kind == SecretKind::Generic {
        return strength::is_long_random(said);
    }
    // The start of a long value tells.
    let said = value::sample(said);
    let has_digit = value::count(said.as_bytes(), u8::is_ascii_digit) > 0;
    let is_name = value::is_identifier(said);
    match kind {
        SecretKind::Password if is_name && is_code => {
            has_digit && said.len() >= SHORTEST_WORD && !said.contains(['.', ':']) && !names_a_secret(said)
        }
        SecretKind::Password => !(is_name && names_a_secret(said)),
        _ if is_name && is_code => {
            said.len() >= SHORTEST_KEY && value::looks_random(said) && !said.contains(':') && !names_a_secret(said)
        }
        SecretKind::Weak => said.len() >= SHORTEST_WORD && value::looks_random(said),
        _ => said.len() >= SHORTEST_WORD && !(is_name && names_a_secret(said)) && (has_digit || !is_code),
    }
}

/// `true` if a value is itself the name of a secret, as in `password=db_password`.
fn names_a_secret(said: &str) -> bool {
    names::of_key(said).0.is_some()
}

/// `true` if a value is a number that is no secret: it counts tokens or gives the position of a key. Passwords are often numbers.
fn is_number_of(kind: SecretKind, said: &str) -> bool {
    kind != SecretKind::Password && said.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'_' | b'-' | b'+'))
}

/// `true` for a type, as in `token: String`, `secret: SecretRef`.
fn is_type(said: &str) -> bool {
    said.starts_with(|c: char| c.is_ascii_uppercase()) && said.bytes().all(|byte| byte.is_ascii_alphabetic())
        || said.ends_with('?')
        || said.starts_with(['|', '>'])
}

/// `true` for an option that only names a secret, as in `--secret id=npm,src=.npmrc`.
fn is_option(said: &str) -> bool {
    ["id=", "src=", "type=", "name="].iter().any(|begin| said.starts_with(begin))
}

/// `true` if a value is followed by a comma or parenthesis, as an argument in code.
fn is_argument(text: ScannedText<'_>, value: &ValueSpan) -> bool {
    matches!(text.byte(value.range.end), b',' | b')')
}

/// `true` if name and value are alone on their line, as in settings files but not in code.
fn is_alone(text: ScannedText<'_>, name: &Range<usize>, value: &ValueSpan) -> bool {
    let before = text.text[..name.start].trim_end_matches([' ', '\t', '-']);
    let begins = before.is_empty() || before.ends_with(['\n', '\r', '"', '\'', '{']) || before.ends_with("\\n");
    begins && text.is_line_end(text.skip_blanks(value.range.end))
}

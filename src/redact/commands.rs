//! Passwords in command lines: behind flags that are a letter, in `user:password`, in a fixed place, or piped into a command.
//!
//! A command is read word by word, once. Flags that have the name of a secret are found by that, with any command.

use std::ops::Range;

use super::strength;
use super::value::{self, ScannedText};

/// Name of the rule for command lines.
pub const COMMAND_RULE: &str = "command-password";
/// Name of the rule for curl and its like.
pub const CURL_RULE: &str = "curl-user";

/// Maximum bytes of a command that are read.
const MAX_COMMAND_BYTES: usize = 2_048;
/// Maximum number of words of a command.
const MAX_WORDS: usize = 96;

/// Maximum bytes of what echoes are piped into.
const MAX_PIPE_BYTES: usize = 160;

/// The place of the secret in a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SecretArgument {
    /// In the word of a flag: `-psecret`.
    Glued(&'static str),
    /// In the word behind a flag, or behind its `=`: `-p secret`.
    Next(&'static str),
    /// Behind the user in the word of or behind a flag: `-u ann:secret`. The signs may be between them.
    User(&'static str, &'static str),
    /// In the word with this number behind a word: `add_user ann secret`.
    After(&'static str, usize),
    /// In the word with this number behind a word, together with the user.
    UserAfter(&'static str, usize),
    /// Behind the file and the user of `htpasswd -b`; with `-n`, there is no file.
    Batch,
}

/// A command, by the start of its line, and the place of its secret.
type CommandRule = (&'static str, &'static [SecretArgument]);

/// The commands that take a password.
const COMMANDS: &[CommandRule] = &[
    ("mysql", &[SecretArgument::Glued("-p")]),
    ("mariadb", &[SecretArgument::Glued("-p")]),
    ("sshpass ", &[SecretArgument::Next("-p"), SecretArgument::Glued("-p")]),
    ("redis-cli ", &[SecretArgument::Next("-a"), SecretArgument::After("auth", 1)]),
    ("docker login", &[SecretArgument::Next("-p"), SecretArgument::Glued("-p")]),
    ("podman login", &[SecretArgument::Next("-p")]),
    ("nerdctl login", &[SecretArgument::Next("-p")]),
    ("buildah login", &[SecretArgument::Next("-p")]),
    (
        "skopeo ",
        &[
            SecretArgument::Next("-p"),
            SecretArgument::User("--src-creds", ":"),
            SecretArgument::User("--dest-creds", ":"),
            SecretArgument::User("--creds", ":"),
        ],
    ),
    ("helm registry login", &[SecretArgument::Next("-p")]),
    ("oc login", &[SecretArgument::Next("-p")]),
    ("az login", &[SecretArgument::Next("-p")]),
    ("cf login", &[SecretArgument::Next("-p")]),
    ("cf auth", &[SecretArgument::After("auth", 2)]),
    ("argocd login", &[SecretArgument::Next("-p")]),
    ("mongo", &[SecretArgument::Next("-p")]),
    ("cqlsh ", &[SecretArgument::Next("-p"), SecretArgument::Glued("-p")]),
    ("sqlcmd ", &[SecretArgument::Next("-P"), SecretArgument::Glued("-P")]),
    ("bcp ", &[SecretArgument::Next("-P")]),
    ("isql ", &[SecretArgument::Next("-P"), SecretArgument::After("isql", 3)]),
    ("ldap", &[SecretArgument::Next("-w"), SecretArgument::Glued("-w")]),
    ("7z ", &[SecretArgument::Glued("-p")]),
    ("7za ", &[SecretArgument::Glued("-p")]),
    ("7zz ", &[SecretArgument::Glued("-p")]),
    ("7zr ", &[SecretArgument::Glued("-p")]),
    ("rar ", &[SecretArgument::Glued("-p"), SecretArgument::Glued("-hp")]),
    ("unrar ", &[SecretArgument::Glued("-p")]),
    ("zip ", &[SecretArgument::Next("-P"), SecretArgument::Glued("-P")]),
    ("unzip ", &[SecretArgument::Next("-P"), SecretArgument::Glued("-P")]),
    (
        "pdftk ",
        &[SecretArgument::After("user_pw", 1), SecretArgument::After("owner_pw", 1), SecretArgument::After("input_pw", 1)],
    ),
    ("qpdf ", &[SecretArgument::After("--encrypt", 1), SecretArgument::After("--encrypt", 2)]),
    ("smbclient ", &[SecretArgument::User("-U", "%"), SecretArgument::User("--user", "%")]),
    ("smbmap ", &[SecretArgument::Next("-p")]),
    ("smbget ", &[SecretArgument::User("-U", "%")]),
    ("rpcclient ", &[SecretArgument::User("-U", "%")]),
    ("winexe ", &[SecretArgument::User("-U", "%"), SecretArgument::User("--user", "%")]),
    ("wmic ", &[SecretArgument::User("-U", "%")]),
    ("net rpc ", &[SecretArgument::User("-U", "%")]),
    ("net ads ", &[SecretArgument::User("-U", "%")]),
    ("crackmapexec ", &[SecretArgument::Next("-p")]),
    ("evil-winrm ", &[SecretArgument::Next("-p")]),
    ("xfreerdp ", &[SecretArgument::Glued("/p:"), SecretArgument::Next("-p")]),
    ("wfreerdp ", &[SecretArgument::Glued("/p:"), SecretArgument::Next("-p")]),
    ("rdesktop ", &[SecretArgument::Next("-p")]),
    ("vncviewer ", &[SecretArgument::Next("-p")]),
    ("cmdkey ", &[SecretArgument::Glued("/pass:")]),
    ("psexec ", &[SecretArgument::Next("-p")]),
    ("schtasks ", &[SecretArgument::After("/rp", 1), SecretArgument::After("/p", 1)]),
    ("openssl ", &[SecretArgument::Next("-k"), SecretArgument::Glued("pass:")]),
    ("htpasswd ", &[SecretArgument::Batch]),
    ("mosquitto_passwd ", &[SecretArgument::After("-b", 3)]),
    ("mosquitto_", &[SecretArgument::Next("-P")]),
    ("net user ", &[SecretArgument::After("user", 2)]),
    ("net use ", &[SecretArgument::After("use", 2), SecretArgument::After("use", 3)]),
    ("wpa_passphrase ", &[SecretArgument::After("wpa_passphrase", 2)]),
    (
        "rabbitmqctl ",
        &[
            SecretArgument::After("add_user", 2),
            SecretArgument::After("change_password", 2),
            SecretArgument::After("authenticate_user", 2),
        ],
    ),
    ("chpasswd", &[SecretArgument::UserAfter("<<<", 1)]),
    ("passwd ", &[SecretArgument::After("<<<", 1)]),
    ("sudo ", &[SecretArgument::After("<<<", 1)]),
    ("useradd ", &[SecretArgument::Next("-p")]),
    ("usermod ", &[SecretArgument::Next("-p")]),
    (
        "curl ",
        &[
            SecretArgument::User("-u", ":"),
            SecretArgument::User("--user", ":"),
            SecretArgument::User("-U", ":"),
            SecretArgument::User("--proxy-user", ":"),
        ],
    ),
    ("http ", &[SecretArgument::User("-a", ":"), SecretArgument::User("--auth", ":")]),
    ("https ", &[SecretArgument::User("-a", ":"), SecretArgument::User("--auth", ":")]),
    ("xhs ", &[SecretArgument::User("-a", ":"), SecretArgument::User("--auth", ":")]),
    ("ab ", &[SecretArgument::User("-A", ":"), SecretArgument::User("-P", ":")]),
    ("siege ", &[SecretArgument::User("-a", ":")]),
    ("lftp ", &[SecretArgument::User("-u", ","), SecretArgument::User("--user", ",")]),
    ("ncftp", &[SecretArgument::Next("-p")]),
    ("snmp", &[SecretArgument::Next("-A"), SecretArgument::Next("-X")]),
    ("ipmitool ", &[SecretArgument::Next("-P")]),
    ("plink ", &[SecretArgument::Next("-pw")]),
    ("pscp ", &[SecretArgument::Next("-pw")]),
    ("putty ", &[SecretArgument::Next("-pw")]),
    ("kinit ", &[SecretArgument::After("<<<", 1)]),
    ("vault login ", &[SecretArgument::After("login", 1)]),
    ("cargo login ", &[SecretArgument::After("login", 1)]),
    ("twine upload", &[SecretArgument::Next("-p")]),
    ("vsce publish", &[SecretArgument::Next("-p")]),
    ("ovsx publish", &[SecretArgument::Next("-p")]),
    ("dotnet nuget push", &[SecretArgument::Next("-k")]),
    ("nuget push", &[SecretArgument::After("push", 2)]),
    ("conan user", &[SecretArgument::Next("-p")]),
    ("conan remote login", &[SecretArgument::Next("-p")]),
    ("gh secret set", &[SecretArgument::Next("-b")]),
    ("doctl auth init", &[SecretArgument::Next("-t")]),
    ("mc alias set", &[SecretArgument::After("set", 4)]),
    ("poetry config ", &[SecretArgument::After("config", 2), SecretArgument::After("config", 3)]),
    ("composer config ", &[SecretArgument::After("config", 3)]),
    ("nmcli ", &[SecretArgument::After("password", 1)]),
    ("influx ", &[SecretArgument::Next("-p"), SecretArgument::Next("-t"), SecretArgument::Next("-password")]),
    ("svn ", &[SecretArgument::Next("--password")]),
    ("jf config ", &[SecretArgument::Next("--password")]),
    ("asadmin ", &[SecretArgument::Next("-w")]),
    ("ansible-vault ", &[SecretArgument::After("encrypt_string", 1)]),
    ("ssh-keygen ", &[SecretArgument::Next("-N"), SecretArgument::Next("-P")]),
    ("expect ", &[SecretArgument::After("send", 1)]),
];

/// Commands whose words are piped into another one that reads a password.
const ECHOES: &[&str] = &["echo ", "printf ", "echo -n ", "write-output "];
/// The commands that they are piped into.
const READERS: &[&str] = &[
    "sudo -S",
    "sudo --stdin",
    "sudo -k -S",
    "-password-stdin",
    "--password-stdin",
    "passwd",
    "--with-token",
    "cryptsetup",
    "su -",
    "su ",
    "--stdin",
    "kinit",
    "gpg ",
    "base64",
    "--passphrase-fd",
    "docker secret create",
    "kubeseal",
    "vault ",
    "gh auth",
    "wrangler secret",
    "--data-file=-",
    "podman secret create",
    "login -p",
];

/// The words that start each command, and each echo.
pub fn keywords() -> impl Iterator<Item = (&'static str, usize)> {
    let commands = COMMANDS.iter().map(|(name, _)| *name);
    commands.chain(ECHOES[..2].iter().copied()).enumerate().map(|(at, name)| (name, at))
}

/// A word of a command: all of it, and its start behind a quote.
#[derive(Clone, Debug)]
struct ShellWord {
    range: Range<usize>,
}

/// The command that was read last. Each kind of command in it is looked at once, so that many of them take no longer than one.
#[derive(Debug, Default)]
pub struct CommandLine {
    words: Vec<ShellWord>,
    range: Range<usize>,
    /// Kinds of commands that were looked for in it.
    seen: Vec<usize>,
}

impl CommandLine {
    /// The secrets of the command with an index whose name is at a range.
    pub fn find(&mut self, text: ScannedText<'_>, index: usize, name: &Range<usize>) -> Vec<(&'static str, Range<usize>)> {
        let before = name.start.checked_sub(1).map_or(b' ', |at| text.byte(at));
        let is_escape = matches!(before, b'n' | b't') && name.start > 1 && text.byte(name.start - 2) == b'\\';
        if (before.is_ascii_alphanumeric() && !is_escape) || matches!(before, b'_' | b'-' | b'.') {
            return Vec::new();
        }
        if !self.range.contains(&name.start) {
            let (words, end) = words(text, name.start);
            *self = Self { words, range: name.start..end.max(name.end), seen: Vec::new() };
        } else if self.seen.contains(&index) {
            return Vec::new();
        }
        self.seen.push(index);
        let first = self.words.partition_point(|word| word.range.end <= name.start);
        let words = &self.words[first..];
        let secrets = match COMMANDS.get(index) {
            Some((_, places)) => placed(text, words, places),
            None => echoed(text, words, self.range.end).into_iter().collect(),
        };
        let rule = if text.text[name.clone()].starts_with("curl") { CURL_RULE } else { COMMAND_RULE };
        secrets.into_iter().map(|range| (rule, range)).collect()
    }
}

fn placed(text: ScannedText<'_>, words: &[ShellWord], places: &[SecretArgument]) -> Vec<Range<usize>> {
    let said = |at: usize| &text.text[words[at].range.clone()];
    let rest_of = |at: usize, rest: &str| words[at].range.end - rest.len()..words[at].range.end;
    // A word that others are counted from is there once.
    let counted = |is_word: &dyn Fn(&str) -> bool, count: usize| {
        let at = (0..words.len()).find(|at| is_word(said(*at)))?;
        argument(text, words, at, count)
    };
    let mut found = Vec::new();
    for place in places {
        match *place {
            SecretArgument::Glued(flag) => found.extend((0..words.len()).filter_map(|at| {
                let rest = behind_flag(said(at), flag).filter(|rest| !rest.is_empty())?;
                Some(unquoted(text, &rest_of(at, rest)))
            })),
            SecretArgument::Next(flag) => found.extend((0..words.len()).filter_map(|at| {
                let value = behind(text, words, at, flag)?;
                Some(unquoted(text, &value))
            })),
            SecretArgument::User(flag, signs) => found.extend((0..words.len()).filter_map(|at| {
                let glued = || behind_flag(said(at), flag).filter(|_| flag.len() == 2).map(|rest| rest_of(at, rest));
                password_of(text, &behind(text, words, at, flag).or_else(glued)?, signs.as_bytes())
            })),
            SecretArgument::After(word, count) => {
                let value = counted(&|said| said.eq_ignore_ascii_case(word), count);
                found.extend(value.map(|value| unquoted(text, &value)));
            }
            SecretArgument::UserAfter(word, count) => {
                let value = counted(&|said| said == word, count);
                found.extend(value.and_then(|value| password_of(text, &value, b":")));
            }
            SecretArgument::Batch => {
                let is_batch =
                    |said: &str| said.strip_prefix('-').is_some_and(|letters| letters.contains('b') && letters.len() < 6);
                let has_no_file = (0..words.len()).any(|at| said(at).starts_with('-') && said(at).contains('n'));
                let value = counted(&is_batch, if has_no_file { 2 } else { 3 });
                found.extend(value.map(|value| unquoted(text, &value)));
            }
        }
    }
    found.retain(|range| is_secret(&text.text[range.clone()]));
    found
}

/// The rest of a word that starts with a flag. Most words differ in their first byte already.
fn behind_flag<'t>(word: &'t str, flag: &str) -> Option<&'t str> {
    let is_alike = word.as_bytes().first() == flag.as_bytes().first();
    is_alike.then(|| word.strip_prefix(flag)).flatten()
}

/// The value of a flag, behind its `=` or in the next word.
fn behind(text: ScannedText<'_>, words: &[ShellWord], at: usize, flag: &str) -> Option<Range<usize>> {
    let word = &words[at].range;
    let rest = behind_flag(&text.text[word.clone()], flag)?;
    if let Some(value) = rest.strip_prefix('=') {
        return Some(word.end - value.len()..word.end);
    }
    let next = words.get(at + 1).filter(|next| rest.is_empty() && !text.text[next.range.clone()].starts_with('-'))?;
    // An argument of its own, in a list of them: what is there is JSON's.
    (!text.is_string_quote(next.range.start)).then(|| next.range.clone())
}

/// The word with a number behind another one, not counting flags.
fn argument(text: ScannedText<'_>, words: &[ShellWord], at: usize, count: usize) -> Option<Range<usize>> {
    let is_flag = |said: &str| said.starts_with(['-', '>']) || (said.starts_with('/') && !said[1..].contains('/'));
    let is_value = |word: &&ShellWord| !is_flag(&text.text[word.range.clone()]);
    let word = words[at + 1..].iter().filter(is_value).nth(count - 1)?;
    (!text.is_string_quote(word.range.start)).then(|| word.range.clone())
}

/// The password behind a user's name and one of the signs.
fn password_of(text: ScannedText<'_>, value: &Range<usize>, signs: &[u8]) -> Option<Range<usize>> {
    let is_quoted = text.text[value.clone()].starts_with(['"', '\'', '\\']);
    let value = if is_quoted { unquoted(text, value) } else { value.clone() };
    let sign = text.text[value.clone()].bytes().position(|byte| signs.contains(&byte))?;
    let secret = value.start + sign + 1..value.end;
    Some(if is_quoted { secret } else { unquoted(text, &secret) })
}

/// A word without its quotes, which may be those of a nested text.
fn unquoted(text: ScannedText<'_>, word: &Range<usize>) -> Range<usize> {
    let slashes = text.backslashes(word.start);
    let quote = text.byte(word.start + slashes);
    let is_quoted = matches!(quote, b'"' | b'\'' | b'`') && (slashes == 0 || slashes % 2 == 1);
    if is_quoted {
        let value = text.value(word.start, b"").range;
        return value.start.min(word.end)..value.end.min(word.end);
    }
    let said = &text.text[word.clone()];
    let quote = said.find(['"', '\'', '`']).map_or(said.len(), |quote| said[..quote].trim_end_matches('\\').len());
    word.start..word.start + quote
}

/// The last word of an echo, if its pipe goes to a reader of passwords.
fn echoed(text: ScannedText<'_>, words: &[ShellWord], end: usize) -> Option<Range<usize>> {
    if text.byte(end) != b'|' {
        return None;
    }
    let reader = &text.text[end + 1..text.boundary(end + MAX_PIPE_BYTES)];
    let reader = reader.split(['\n', ';']).next().unwrap_or_default().trim_start();
    let found = READERS.iter().find(|known| reader.contains(**known))?;
    let word = words.get(1..)?.iter().rfind(|word| !text.text[word.range.clone()].starts_with('-'))?;
    let mut range = unquoted(text, &word.range);
    if reader.contains("chpasswd") {
        range.start += text.text[range.clone()].find(':')? + 1;
    }
    let said = &text.text[range.clone()];
    let is_plain = !matches!(*found, "base64" | "gpg " | "vault " | "--stdin" | "su " | "su -");
    let said = said.split(r"\n").next().unwrap_or_default();
    (is_secret(said) && (strength::is_strong(said) || (is_plain && !said.contains(' ')))).then_some(range)
}

fn is_secret(said: &str) -> bool {
    const SHORTEST: usize = 4;
    let is_number = said.bytes().all(|byte| byte.is_ascii_digit() || byte == b':');
    let is_of_code = said.contains(|c: char| "<>{}\n\\".contains(c)) || said.starts_with(['-', '$', '@', '*', '(', '/']);
    said.len() >= SHORTEST && !is_number && !is_of_code && !value::is_placeholder(said) && !said.contains("://")
}

/// The words of the command that starts there, and where it ends.
fn words(text: ScannedText<'_>, start: usize) -> (Vec<ShellWord>, usize) {
    let mut words = Vec::new();
    let limit = text.text.len().min(start + MAX_COMMAND_BYTES);
    let mut at = start;
    let mut word = None;
    while at < limit && words.len() < MAX_WORDS {
        let byte = text.byte(at);
        let is_here_text = text.text.as_bytes()[at..].starts_with(b"<<<");
        let next = match byte {
            b'\\' if text.byte(at + 1) == b'\n' => {
                words.extend(word.take().map(|start| ShellWord { range: start..at }));
                at + 2
            }
            b' ' | b'\t' => {
                words.extend(word.take().map(|start| ShellWord { range: start..at }));
                at + 1
            }
            b'<' if is_here_text => {
                words.extend(word.take().map(|start| ShellWord { range: start..at }));
                words.push(ShellWord { range: at..at + 3 });
                at + 3
            }
            b'\n' | b'\r' | b';' | b'|' | b')' | b'`' => break,
            b'&' if matches!(text.byte(at + 1), b'&' | b' ' | b'\n' | 0) => break,
            b'"' if text.is_string_quote(at) => break,
            b'"' | b'\'' | b'\\' => {
                word = word.or(Some(at));
                let slashes = text.backslashes(at);
                let quote = text.byte(at + slashes);
                match quote {
                    b'"' | b'\'' if slashes == 0 || slashes % 2 == 1 => {
                        let end = text.value(at, b"").range.end;
                        let closing = text.backslashes(end);
                        if text.byte(end + closing) == quote { end + closing + 1 } else { end.max(at + slashes + 1) }
                    }
                    b'n' | b'r' if slashes == 1 => break,
                    _ => at + slashes.max(1) + usize::from(quote.is_ascii() && slashes % 2 == 1 && quote != b'\n'),
                }
            }
            _ => {
                word = word.or(Some(at));
                at + 1
            }
        };
        at = next;
    }
    let at = text.boundary(at);
    words.extend(word.filter(|start| *start < at).map(|start| ShellWord { range: start..at }));
    (words, at)
}

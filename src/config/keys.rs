//! The table of keys.

use serde_json::{Value, json};

use super::Config;
use super::raw::Raw;
use super::server::Secret;
use super::settings::Choice;

/// A setting: what it is called everywhere, and how it is read.
pub struct Key {
    /// `section.name`, as in files.
    pub name: &'static str,
    /// The environment variable.
    pub variable: &'static str,
    /// Names from the designs, which are accepted as well.
    pub also: &'static [Alias],
    /// A variable that many programs read, and that counts where no server is named otherwise.
    pub otherwise: Option<&'static str>,
    /// Whether a project's file may set it. No where it decides about data that is not the project's, or about safety.
    pub by_project: bool,
    /// What it does, on one line.
    pub doc: &'static str,
    /// Reads a value into the settings.
    pub(super) set: fn(&mut Config, Raw<'_>) -> Result<(), String>,
    /// The value; null when there is none.
    pub get: fn(&Config) -> Value,
}

/// Another environment variable for a key.
#[derive(Debug)]
pub struct Alias {
    /// Its name.
    pub variable: &'static str,
    /// What its values are called here, where that differs.
    pub means: &'static [(&'static str, &'static str)],
}

impl Key {
    /// The value that holds when nobody sets it; null when there is none.
    pub fn default(&self) -> Value {
        (self.get)(&Config::default())
    }

    /// The key of a name.
    pub fn named(name: &str) -> Option<&'static Self> {
        KEYS.iter().find(|key| key.name == name)
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

const fn alias(variable: &'static str) -> Alias {
    Alias { variable, means: &[] }
}

/// More than that would crowd out the conversation, in characters.
const LARGEST_BUDGET: u64 = 100_000;

/// Windows of models, in tokens: none is smaller, and none will be larger soon.
pub const WINDOWS: std::ops::RangeInclusive<u64> = 1_000..=100_000_000;

/// A hundred years, in days.
const LONGEST_RETENTION: u64 = 36_500;

/// A petabyte, in MB.
const LARGEST_TARGET: u64 = 1_000_000_000;

/// An hour, in seconds.
const LONGEST_TIMEOUT: u64 = 3_600;

/// JavaScript's largest safe integer: the patched client reads these numbers as well.
const MOST: u64 = (1 << 53) - 1;

/// Every key. Those of `prune.*` are what the patch is applied with; the client's environment is above them.
pub const KEYS: &[Key] = &[
    Key {
        name: "archive.store",
        variable: "CTXBRIDGE_ARCHIVE_STORE",
        also: &[],
        otherwise: None,
        by_project: false,
        doc: "Where commands read the archive: sqlite, postgres (a team's server), jsonl (a folder, with no database)",
        set: |config, raw| raw.choice().map(|store| config.archive.store = store),
        get: |config| json!(config.archive.store.name()),
    },
    Key {
        name: "archive.jsonl_folder",
        variable: "CTXBRIDGE_ARCHIVE_JSONL_FOLDER",
        also: &[],
        otherwise: None,
        by_project: false,
        doc: "Folder of the JSON lines; unset, archive-jsonl in the data folder",
        set: |config, raw| raw.folder().map(|folder| config.archive.jsonl_folder = Some(folder)),
        get: |config| json!(config.archive.jsonl_folder),
    },
    Key {
        name: "archive.restore_budget",
        variable: "CTXBRIDGE_ARCHIVE_RESTORE_BUDGET",
        also: &[alias("CLAUDE_FLOW_COMPACT_RESTORE_BUDGET")],
        otherwise: None,
        by_project: true,
        doc: "Characters that may come back after a compaction; 0 restores nothing",
        set: |config, raw| raw.count(0..=LARGEST_BUDGET).map(|budget| config.archive.restore_budget = budget as usize),
        get: |config| json!(config.archive.restore_budget),
    },
    Key {
        name: "archive.instruction_budget",
        variable: "CTXBRIDGE_ARCHIVE_INSTRUCTION_BUDGET",
        also: &[alias("CLAUDE_FLOW_COMPACT_INSTRUCTION_BUDGET")],
        otherwise: None,
        by_project: true,
        doc: "Characters of instructions for a compaction; 0 gives none",
        set: |config, raw| raw.count(0..=LARGEST_BUDGET).map(|budget| config.archive.instruction_budget = budget as usize),
        get: |config| json!(config.archive.instruction_budget),
    },
    Key {
        name: "archive.auto_optimize",
        variable: "CTXBRIDGE_ARCHIVE_AUTO_OPTIMIZE",
        also: &[alias("CLAUDE_FLOW_AUTO_OPTIMIZE")],
        otherwise: None,
        by_project: false,
        doc: "Whether the end of a session starts an optimise cycle",
        set: |config, raw| raw.switch().map(|on| config.archive.auto_optimize = on),
        get: |config| json!(config.archive.auto_optimize),
    },
    Key {
        name: "archive.retention_days",
        variable: "CTXBRIDGE_ARCHIVE_RETENTION_DAYS",
        also: &[alias("CLAUDE_FLOW_RETENTION_DAYS")],
        otherwise: None,
        by_project: false,
        doc: "Days after which a turn that was never restored leaves the hot archive",
        set: |config, raw| raw.count(1..=LONGEST_RETENTION).map(|days| config.archive.retention_days = days as u32),
        get: |config| json!(config.archive.retention_days),
    },
    Key {
        name: "archive.adaptive_retention",
        variable: "CTXBRIDGE_ARCHIVE_ADAPTIVE_RETENTION",
        also: &[],
        otherwise: None,
        by_project: false,
        doc: "Whether these days are fewer when the archive is large, and more when much of it is restored",
        set: |config, raw| raw.switch().map(|on| config.archive.adaptive_retention = on),
        get: |config| json!(config.archive.adaptive_retention),
    },
    Key {
        name: "archive.size_target_mb",
        variable: "CTXBRIDGE_ARCHIVE_SIZE_TARGET_MB",
        also: &[],
        otherwise: None,
        by_project: false,
        doc: "Size of the archive, in MB, from which on turns leave the hot archive sooner; 0 for none",
        set: |config, raw| raw.count(0..=LARGEST_TARGET).map(|size| config.archive.size_target_mb = size),
        get: |config| json!(config.archive.size_target_mb),
    },
    Key {
        name: "archive.warm_after_days",
        variable: "CTXBRIDGE_ARCHIVE_WARM_AFTER_DAYS",
        also: &[],
        otherwise: None,
        by_project: false,
        doc: "Days without use after which a session is compressed anew, smaller; 0 for never",
        set: |config, raw| raw.count(0..=LONGEST_RETENTION).map(|days| config.archive.warm_after_days = days as u32),
        get: |config| json!(config.archive.warm_after_days),
    },
    Key {
        name: "archive.cold_after_days",
        variable: "CTXBRIDGE_ARCHIVE_COLD_AFTER_DAYS",
        also: &[],
        otherwise: None,
        by_project: false,
        doc: "Days without use after which a session is moved to archive.cold_folder; 0 for never",
        set: |config, raw| raw.count(0..=LONGEST_RETENTION).map(|days| config.archive.cold_after_days = days as u32),
        get: |config| json!(config.archive.cold_after_days),
    },
    Key {
        name: "archive.cold_folder",
        variable: "CTXBRIDGE_ARCHIVE_COLD_FOLDER",
        also: &[],
        otherwise: None,
        // What is moved there is all that there is of a session.
        by_project: false,
        doc: "Folder that old sessions are moved to, one file each, such as a mounted bucket; unset, nothing is moved",
        set: |config, raw| raw.folder().map(|folder| config.archive.cold_folder = Some(folder)),
        get: |config| json!(config.archive.cold_folder),
    },
    Key {
        name: "prune.enabled",
        variable: "CTXBRIDGE_PRUNE_ENABLED",
        also: &[alias("CLAUDE_TEXT_PRUNE")],
        otherwise: None,
        by_project: false,
        doc: "Whether a patched client prunes what it sends",
        set: |config, raw| raw.switch().map(|on| config.prune.enabled = on),
        get: |config| json!(config.prune.enabled),
    },
    Key {
        name: "prune.keep",
        variable: "CTXBRIDGE_PRUNE_KEEP",
        also: &[alias("CLAUDE_TEXT_PRUNE_KEEP")],
        otherwise: None,
        by_project: false,
        doc: "Newest human turns whose text stays whole",
        set: |config, raw| raw.count(1..=MOST).map(|number| config.prune.keep_turns = number),
        get: |config| json!(config.prune.keep_turns),
    },
    Key {
        name: "prune.threshold",
        variable: "CTXBRIDGE_PRUNE_THRESHOLD",
        also: &[alias("CLAUDE_TEXT_PRUNE_THRESHOLD")],
        otherwise: None,
        by_project: false,
        doc: "Estimated tokens of a conversation from which on it is pruned",
        set: |config, raw| raw.count(0..=MOST).map(|number| config.prune.threshold_tokens = number),
        get: |config| json!(config.prune.threshold_tokens),
    },
    Key {
        name: "prune.max_chars",
        variable: "CTXBRIDGE_PRUNE_MAX_CHARS",
        also: &[alias("CLAUDE_TEXT_PRUNE_MAX_CHARS")],
        otherwise: None,
        by_project: false,
        doc: "Characters that an old text keeps",
        set: |config, raw| raw.count(0..=MOST).map(|number| config.prune.max_chars = number),
        get: |config| json!(config.prune.max_chars),
    },
    Key {
        name: "prune.tail_tokens",
        variable: "CTXBRIDGE_PRUNE_TAIL_TOKENS",
        also: &[alias("CLAUDE_TEXT_PRUNE_TAIL_TOKENS")],
        otherwise: None,
        by_project: false,
        doc: "Newest tokens that are never touched",
        set: |config, raw| raw.count(0..=MOST).map(|number| config.prune.tail_tokens = number),
        get: |config| json!(config.prune.tail_tokens),
    },
    Key {
        name: "prune.step",
        variable: "CTXBRIDGE_PRUNE_STEP",
        also: &[alias("CLAUDE_TEXT_PRUNE_STEP")],
        otherwise: None,
        by_project: false,
        doc: "How far the boundary moves at once: tokens, such as 40000, or turns, such as 8turns",
        set: |config, raw| raw.parsed().map(|step| config.prune.step = step),
        get: |config| json!(config.prune.step.to_string()),
    },
    Key {
        name: "prune.scope",
        variable: "CTXBRIDGE_PRUNE_SCOPE",
        also: &[alias("CLAUDE_TEXT_PRUNE_SCOPE")],
        otherwise: None,
        by_project: false,
        doc: "What is pruned: text, tools or all",
        set: |config, raw| raw.parsed().map(|scope| config.prune.scope = scope),
        get: |config| json!(config.prune.scope.word()),
    },
    Key {
        name: "prune.handles",
        variable: "CTXBRIDGE_PRUNE_HANDLES",
        also: &[alias("CLAUDE_TEXT_PRUNE_HANDLES")],
        otherwise: None,
        by_project: false,
        doc: "Whether what is pruned says how to recall it",
        set: |config, raw| raw.switch().map(|on| config.prune.handles = on),
        get: |config| json!(config.prune.handles),
    },
    Key {
        name: "autopilot.enabled",
        variable: "CTXBRIDGE_AUTOPILOT_ENABLED",
        also: &[alias("CLAUDE_FLOW_CONTEXT_AUTOPILOT")],
        otherwise: None,
        by_project: true,
        doc: "Whether hooks watch how full the window is",
        set: |config, raw| raw.switch().map(|on| config.autopilot.enabled = on),
        get: |config| json!(config.autopilot.enabled),
    },
    Key {
        name: "autopilot.window",
        variable: "CTXBRIDGE_AUTOPILOT_WINDOW",
        also: &[alias("CLAUDE_FLOW_CONTEXT_WINDOW")],
        otherwise: None,
        // The gate goes by it: with a window that is too large, it would never open.
        by_project: false,
        doc: "Tokens in the window where the client does not say; 200000 unless set",
        set: |config, raw| raw.count(WINDOWS).map(|window| config.autopilot.window = Some(window)),
        get: |config| json!(config.autopilot.window),
    },
    Key {
        name: "autopilot.warn",
        variable: "CTXBRIDGE_AUTOPILOT_WARN",
        also: &[alias("CLAUDE_FLOW_AUTOPILOT_WARN")],
        otherwise: None,
        by_project: true,
        doc: "Share of the window from which on the phase is `warn`",
        set: |config, raw| raw.share().map(|share| config.autopilot.warn = share),
        get: |config| json!(config.autopilot.warn),
    },
    Key {
        name: "autopilot.optimise",
        variable: "CTXBRIDGE_AUTOPILOT_OPTIMISE",
        also: &[alias("CLAUDE_FLOW_AUTOPILOT_PRUNE")],
        otherwise: None,
        by_project: true,
        doc: "Share of the window from which on the phase is `optimise`",
        set: |config, raw| raw.share().map(|share| config.autopilot.optimise = share),
        get: |config| json!(config.autopilot.optimise),
    },
    Key {
        name: "autopilot.say",
        variable: "CTXBRIDGE_AUTOPILOT_SAY",
        also: &[],
        otherwise: None,
        by_project: true,
        doc: "When a prompt gets a report: off, change (of the phase), warn (that, and from `warn` on), always",
        set: |config, raw| raw.choice().map(|say| config.autopilot.say = say),
        get: |config| json!(config.autopilot.say.word()),
    },
    Key {
        name: "recall.prompts",
        variable: "CTXBRIDGE_RECALL_PROMPTS",
        also: &[],
        otherwise: None,
        by_project: false,
        doc: "Whether each prompt is given what was said and done before that has to do with it",
        set: |config, raw| raw.switch().map(|on| config.recall.prompts = on),
        get: |config| json!(config.recall.prompts),
    },
    Key {
        name: "recall.agents",
        variable: "CTXBRIDGE_RECALL_AGENTS",
        also: &[],
        otherwise: None,
        by_project: false,
        doc: "Whether what sub-agents are asked is given that as well",
        set: |config, raw| raw.switch().map(|on| config.recall.agents = on),
        get: |config| json!(config.recall.agents),
    },
    Key {
        name: "bundle.enabled",
        variable: "CTXBRIDGE_BUNDLE_ENABLED",
        also: &[],
        otherwise: None,
        by_project: true,
        doc: "Whether prompts, files and commands are written down in .ctxbridge/bundles of a project in git",
        set: |config, raw| raw.switch().map(|on| config.bundle.enabled = on),
        get: |config| json!(config.bundle.enabled),
    },
    Key {
        name: "hooks.gate",
        variable: "CTXBRIDGE_HOOKS_GATE",
        also: &[Alias {
            variable: "CLAUDE_FLOW_BLOCK_COMPACTION",
            means: &[("true", "block-auto"), ("1", "block-auto"), ("false", "off"), ("0", "off")],
        }],
        otherwise: None,
        by_project: false,
        doc: "Which compactions are blocked: off, or block-auto (automatic ones, as long as that is safe)",
        set: |config, raw| raw.choice().map(|gate| config.hooks.gate = gate),
        get: |config| json!(config.hooks.gate.word()),
    },
    Key {
        name: "event.log",
        variable: "CTXBRIDGE_EVENT_LOG",
        also: &[],
        otherwise: None,
        // It repeats everything that the user types.
        by_project: false,
        doc: "Whether what the client tells hooks is kept in logs/events, without secrets; `ctxbridge doctor --events` shows it",
        set: |config, raw| raw.switch().map(|on| config.event.log = on),
        get: |config| json!(config.event.log),
    },
    Key {
        name: "postgres.url",
        variable: "CTXBRIDGE_POSTGRES_URL",
        also: &[],
        otherwise: None,
        by_project: false,
        doc: "A team's server, all in one: postgres://user@host:5432/database; what it says counts more than the keys below",
        set: |config, raw| raw.secret().and_then(address).map(|url| config.postgres.url = Some(url)),
        get: |config| json!(config.postgres.shown_url()),
    },
    Key {
        name: "postgres.host",
        variable: "CTXBRIDGE_POSTGRES_HOST",
        also: &[alias("RUVECTOR_HOST")],
        otherwise: Some("PGHOST"),
        by_project: false,
        doc: "Name or address of the server, or the folder of its Unix socket",
        set: |config, raw| raw.text().map(|host| config.postgres.host = Some(host)),
        get: |config| json!(config.postgres.host),
    },
    Key {
        name: "postgres.port",
        variable: "CTXBRIDGE_POSTGRES_PORT",
        also: &[alias("RUVECTOR_PORT")],
        otherwise: Some("PGPORT"),
        by_project: false,
        doc: "Its port; 5432 unless set",
        set: |config, raw| raw.count(1..=65_535).map(|port| config.postgres.port = Some(port as u16)),
        get: |config| json!(config.postgres.port),
    },
    Key {
        name: "postgres.database",
        variable: "CTXBRIDGE_POSTGRES_DATABASE",
        also: &[alias("RUVECTOR_DATABASE")],
        otherwise: Some("PGDATABASE"),
        by_project: false,
        doc: "The database; unset, the one with the user's name",
        set: |config, raw| raw.text().map(|name| config.postgres.database = Some(name)),
        get: |config| json!(config.postgres.database),
    },
    Key {
        name: "postgres.user",
        variable: "CTXBRIDGE_POSTGRES_USER",
        also: &[alias("RUVECTOR_USER")],
        otherwise: Some("PGUSER"),
        by_project: false,
        doc: "The role to log in as: one for each person",
        set: |config, raw| raw.text().map(|name| config.postgres.user = Some(name)),
        get: |config| json!(config.postgres.user),
    },
    Key {
        name: "postgres.password",
        variable: "CTXBRIDGE_POSTGRES_PASSWORD",
        also: &[alias("RUVECTOR_PASSWORD")],
        otherwise: Some("PGPASSWORD"),
        by_project: false,
        doc: "Its password, which is never shown; ~/.pgpass is read as well",
        set: |config, raw| raw.secret().map(|password| config.postgres.password = Some(password)),
        get: |config| json!(config.postgres.password.as_ref().map(ToString::to_string)),
    },
    Key {
        name: "postgres.ssl",
        variable: "CTXBRIDGE_POSTGRES_SSL",
        also: &[alias("RUVECTOR_SSL")],
        otherwise: Some("PGSSLMODE"),
        by_project: false,
        doc: "Whether to encrypt, on (the certificate is checked) or off; unset, on unless the server is on this machine",
        set: |config, raw| raw.choice().map(|ssl| config.postgres.ssl = Some(ssl)),
        get: |config| json!(config.postgres.ssl.map(Choice::word)),
    },
    Key {
        name: "postgres.ca_file",
        variable: "CTXBRIDGE_POSTGRES_CA_FILE",
        also: &[],
        otherwise: Some("PGSSLROOTCERT"),
        by_project: false,
        doc: "File with the certificates to trust instead of the system's (PEM)",
        set: |config, raw| raw.path().map(|path| config.postgres.ca_file = path),
        get: |config| json!(config.postgres.ca_file),
    },
    Key {
        name: "postgres.tenant",
        variable: "CTXBRIDGE_POSTGRES_TENANT",
        also: &[],
        otherwise: None,
        by_project: false,
        doc: "The name of the team's archive on the server; `default` unless set",
        set: |config, raw| raw.text().map(|tenant| config.postgres.tenant = Some(tenant)),
        get: |config| json!(config.postgres.tenant),
    },
    Key {
        name: "postgres.visibility",
        variable: "CTXBRIDGE_POSTGRES_VISIBILITY",
        also: &[],
        otherwise: None,
        by_project: false,
        doc: "Who may read what is sent from now on: private, project or team",
        set: |config, raw| raw.choice().map(|visibility| config.postgres.visibility = visibility),
        get: |config| json!(config.postgres.visibility.name()),
    },
    Key {
        name: "postgres.auto_sync",
        variable: "CTXBRIDGE_POSTGRES_AUTO_SYNC",
        also: &[],
        otherwise: None,
        by_project: false,
        doc: "Whether the end of a session sends what is new to the server, in the background",
        set: |config, raw| raw.switch().map(|on| config.postgres.auto_sync = on),
        get: |config| json!(config.postgres.auto_sync),
    },
    Key {
        name: "postgres.search",
        variable: "CTXBRIDGE_POSTGRES_SEARCH",
        also: &[],
        otherwise: None,
        by_project: false,
        doc: "Whether searches ask the server as well",
        set: |config, raw| raw.switch().map(|on| config.postgres.search = on),
        get: |config| json!(config.postgres.search),
    },
    Key {
        name: "postgres.timeout_s",
        variable: "CTXBRIDGE_POSTGRES_TIMEOUT_S",
        also: &[],
        otherwise: None,
        by_project: false,
        doc: "Seconds to wait for the server",
        set: |config, raw| raw.count(1..=LONGEST_TIMEOUT).map(|seconds| config.postgres.timeout_s = seconds),
        get: |config| json!(config.postgres.timeout_s),
    },
    Key {
        name: "redact.patterns",
        variable: "CTXBRIDGE_REDACT_PATTERNS",
        also: &[],
        otherwise: None,
        // A pattern that finds everything would hide everything.
        by_project: false,
        doc: "Regular expressions of more secrets (group 1, where there is one): a list; in the environment one a line, or a JSON list",
        set: |config, raw| raw.list().map(|patterns| config.redact.patterns = patterns),
        get: |config| json!(config.redact.patterns),
    },
    Key {
        name: "redact.allow",
        variable: "CTXBRIDGE_REDACT_ALLOW",
        also: &[],
        otherwise: None,
        by_project: false,
        doc: "Regular expressions of what is no secret, in the same form: one that is found in a secret lets it stay",
        set: |config, raw| raw.list().map(|patterns| config.redact.allow = patterns),
        get: |config| json!(config.redact.allow),
    },
];

/// Whether a text may be the address of a server; what is wrong is said without it, since it may have a password.
fn address(url: Secret) -> Result<Secret, String> {
    let is_one = ["postgres://", "postgresql://"].iter().any(|scheme| url.reveal().starts_with(scheme));
    if is_one { Ok(url) } else { Err("is not an address such as postgres://user@host:5432/database".to_owned()) }
}

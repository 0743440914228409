//! The table of configuration keys.

use serde_json::{Value, json};

use super::Config;
use super::choice::Choice;
use super::raw::WrittenValue;
use super::server::SecretString;

/// A configuration key: its names, and how its value is read.
pub struct Key {
    /// `section.name`, as in files.
    pub name: &'static str,
    /// The environment variable.
    pub variable: &'static str,
    /// Environment variables from the designs, which are accepted as well.
    pub also: &'static [EnvAlias],
    /// Environment variable of other programs. It is used where no server is configured.
    pub fallback_env: Option<&'static str>,
    /// `true` if a project's file may set it. `false` where it affects data outside of the project, or safety.
    pub project_may_set: bool,
    /// One line of help.
    pub doc: &'static str,
    /// Reads a value into the settings.
    pub(super) set: fn(&mut Config, WrittenValue<'_>) -> Result<(), String>,
    /// The value; null when there is none.
    pub get: fn(&Config) -> Value,
}

/// Another environment variable for a key.
#[derive(Debug)]
pub struct EnvAlias {
    /// Its name.
    pub variable: &'static str,
    /// Pairs of its values and ours, where they differ.
    pub value_aliases: &'static [(&'static str, &'static str)],
}

impl Key {
    /// The default value; null when there is none.
    pub fn default(&self) -> Value {
        (self.get)(&Config::default())
    }

    /// Finds a key by its name.
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

const fn alias(variable: &'static str) -> EnvAlias {
    EnvAlias { variable, value_aliases: &[] }
}

/// Maximum budget, in characters. More would crowd out the conversation.
const MAX_BUDGET_CHARS: u64 = 100_000;

/// Allowed context windows, in tokens: no model has a smaller one, and none will have a larger one soon.
pub const WINDOW_RANGE: std::ops::RangeInclusive<u64> = 1_000..=100_000_000;

/// Maximum retention, in days: a hundred years.
const MAX_RETENTION_DAYS: u64 = 36_500;

/// Maximum size target, in MB: a petabyte.
const MAX_SIZE_TARGET_MB: u64 = 1_000_000_000;

/// Maximum timeout, in seconds: an hour.
const MAX_TIMEOUT_S: u64 = 3_600;

/// Items of the lists, as they are shown where one cannot be read.
const PATTERN_EXAMPLE: &str = "ACME-[0-9]{8}";
const TOOLS_EXAMPLE: &str = "AskUserQuestion";
const FILES_EXAMPLE: &str = "docs/**/*.md";
const FOLDERS_EXAMPLE: &str = "~/clients/*";

/// JavaScript's largest safe integer, since the patched client reads these numbers as well.
const MAX_JS_INTEGER: u64 = (1 << 53) - 1;

/// All keys. The patch is applied with the values of `prune.*`; the client's environment overrides them.
pub const KEYS: &[Key] = &[
    Key {
        name: "archive.enabled",
        variable: "CTXBRIDGE_ARCHIVE_ENABLED",
        also: &[],
        fallback_env: None,
        project_may_set: true,
        doc: "Archive sessions; off, hooks do nothing. A project can only switch it off",
        set: |config, raw| raw.switch().map(|on| config.archive.enabled = on),
        get: |config| json!(config.archive.enabled),
    },
    Key {
        name: "archive.exclude",
        variable: "CTXBRIDGE_ARCHIVE_EXCLUDE",
        also: &[],
        fallback_env: None,
        project_may_set: false,
        doc: "Folders whose sessions are left out, as globs, each with all below it",
        set: |config, raw| raw.list(FOLDERS_EXAMPLE).map(|globs| config.archive.exclude = globs),
        get: |config| json!(config.archive.exclude),
    },
    Key {
        name: "archive.private",
        variable: "CTXBRIDGE_ARCHIVE_PRIVATE",
        also: &[],
        fallback_env: None,
        project_may_set: false,
        doc: "Text between <private> and </private> in prompts: omit it from the archive, or keep it there and never show it",
        set: |config, raw| raw.choice().map(|private| config.archive.private = private),
        get: |config| json!(config.archive.private.name()),
    },
    Key {
        name: "archive.store",
        variable: "CTXBRIDGE_ARCHIVE_STORE",
        also: &[],
        fallback_env: None,
        project_may_set: false,
        doc: "Store that commands read: sqlite, postgres (a team's server), jsonl (a folder, with no database)",
        set: |config, raw| raw.choice().map(|store| config.archive.store = store),
        get: |config| json!(config.archive.store.name()),
    },
    Key {
        name: "archive.jsonl_folder",
        variable: "CTXBRIDGE_ARCHIVE_JSONL_FOLDER",
        also: &[],
        fallback_env: None,
        project_may_set: false,
        doc: "Folder of the JSON lines; unset, archive-jsonl in the data folder",
        set: |config, raw| raw.folder().map(|folder| config.archive.jsonl_folder = Some(folder)),
        get: |config| json!(config.archive.jsonl_folder),
    },
    Key {
        name: "archive.restore_budget",
        variable: "CTXBRIDGE_ARCHIVE_RESTORE_BUDGET",
        also: &[alias("CLAUDE_FLOW_COMPACT_RESTORE_BUDGET")],
        fallback_env: None,
        project_may_set: true,
        doc: "Characters that may come back after a compaction; 0 restores nothing",
        set: |config, raw| raw.count(0..=MAX_BUDGET_CHARS).map(|budget| config.archive.restore_budget = budget as usize),
        get: |config| json!(config.archive.restore_budget),
    },
    Key {
        name: "archive.instruction_budget",
        variable: "CTXBRIDGE_ARCHIVE_INSTRUCTION_BUDGET",
        also: &[alias("CLAUDE_FLOW_COMPACT_INSTRUCTION_BUDGET")],
        fallback_env: None,
        project_may_set: true,
        doc: "Characters of instructions for a compaction; 0 gives none",
        set: |config, raw| raw.count(0..=MAX_BUDGET_CHARS).map(|budget| config.archive.instruction_budget = budget as usize),
        get: |config| json!(config.archive.instruction_budget),
    },
    Key {
        name: "archive.auto_optimize",
        variable: "CTXBRIDGE_ARCHIVE_AUTO_OPTIMIZE",
        also: &[alias("CLAUDE_FLOW_AUTO_OPTIMIZE")],
        fallback_env: None,
        project_may_set: false,
        doc: "Start maintenance at the end of a session",
        set: |config, raw| raw.switch().map(|on| config.archive.auto_optimize = on),
        get: |config| json!(config.archive.auto_optimize),
    },
    Key {
        name: "archive.retention_days",
        variable: "CTXBRIDGE_ARCHIVE_RETENTION_DAYS",
        also: &[alias("CLAUDE_FLOW_RETENTION_DAYS")],
        fallback_env: None,
        project_may_set: false,
        doc: "Days after which a turn that was never restored leaves the hot archive",
        set: |config, raw| raw.count(1..=MAX_RETENTION_DAYS).map(|days| config.archive.retention_days = days as u32),
        get: |config| json!(config.archive.retention_days),
    },
    Key {
        name: "archive.adaptive_retention",
        variable: "CTXBRIDGE_ARCHIVE_ADAPTIVE_RETENTION",
        also: &[],
        fallback_env: None,
        project_may_set: false,
        doc: "Lower these days when the archive is large, and raise them when much of it is restored",
        set: |config, raw| raw.switch().map(|on| config.archive.adaptive_retention = on),
        get: |config| json!(config.archive.adaptive_retention),
    },
    Key {
        name: "archive.size_target_mb",
        variable: "CTXBRIDGE_ARCHIVE_SIZE_TARGET_MB",
        also: &[],
        fallback_env: None,
        project_may_set: false,
        doc: "Size of the archive, in MB, from which on turns leave the hot archive sooner; 0 for none",
        set: |config, raw| raw.count(0..=MAX_SIZE_TARGET_MB).map(|size| config.archive.size_target_mb = size),
        get: |config| json!(config.archive.size_target_mb),
    },
    Key {
        name: "archive.warm_after_days",
        variable: "CTXBRIDGE_ARCHIVE_WARM_AFTER_DAYS",
        also: &[],
        fallback_env: None,
        project_may_set: false,
        doc: "Days without use after which a session is compressed anew, smaller; 0 for never",
        set: |config, raw| raw.count(0..=MAX_RETENTION_DAYS).map(|days| config.archive.warm_after_days = days as u32),
        get: |config| json!(config.archive.warm_after_days),
    },
    Key {
        name: "archive.cold_after_days",
        variable: "CTXBRIDGE_ARCHIVE_COLD_AFTER_DAYS",
        also: &[],
        fallback_env: None,
        project_may_set: false,
        doc: "Days without use after which a session is moved to archive.cold_folder; 0 for never",
        set: |config, raw| raw.count(0..=MAX_RETENTION_DAYS).map(|days| config.archive.cold_after_days = days as u32),
        get: |config| json!(config.archive.cold_after_days),
    },
    Key {
        name: "archive.cold_folder",
        variable: "CTXBRIDGE_ARCHIVE_COLD_FOLDER",
        also: &[],
        fallback_env: None,
        // What is moved there is all that there is of a session.
        project_may_set: false,
        doc: "Folder that old sessions are moved to, one file each, such as a mounted bucket; unset, nothing is moved",
        set: |config, raw| raw.folder().map(|folder| config.archive.cold_folder = Some(folder)),
        get: |config| json!(config.archive.cold_folder),
    },
    Key {
        name: "patch.keep",
        variable: "CTXBRIDGE_PATCH_KEEP",
        also: &[],
        fallback_env: None,
        project_may_set: false,
        doc: "Patch an upgrade of a patched client in the background, at the start or end of a session",
        set: |config, raw| raw.switch().map(|on| config.patch.keep = on),
        get: |config| json!(config.patch.keep),
    },
    Key {
        name: "prune.enabled",
        variable: "CTXBRIDGE_PRUNE_ENABLED",
        also: &[alias("CLAUDE_TEXT_PRUNE")],
        fallback_env: None,
        project_may_set: false,
        doc: "Prune what a patched client sends",
        set: |config, raw| raw.switch().map(|on| config.prune.enabled = on),
        get: |config| json!(config.prune.enabled),
    },
    Key {
        name: "prune.policy",
        variable: "CTXBRIDGE_PRUNE_POLICY",
        also: &[alias("CLAUDE_TEXT_PRUNE_POLICY")],
        fallback_env: None,
        project_may_set: false,
        doc: "Policy: fold (old steps become digests), or reference (old text is cut at each request)",
        set: |config, raw| raw.parsed().map(|policy| config.prune.policy = policy),
        get: |config| json!(config.prune.policy.word()),
    },
    Key {
        name: "prune.keep_turns",
        variable: "CTXBRIDGE_PRUNE_KEEP_TURNS",
        also: &[alias("CLAUDE_TEXT_PRUNE_KEEP")],
        fallback_env: None,
        project_may_set: false,
        doc: "Newest human turns whose text stays whole",
        set: |config, raw| raw.count(1..=MAX_JS_INTEGER).map(|number| config.prune.keep_turns = number),
        get: |config| json!(config.prune.keep_turns),
    },
    Key {
        name: "prune.threshold_tokens",
        variable: "CTXBRIDGE_PRUNE_THRESHOLD_TOKENS",
        also: &[alias("CLAUDE_TEXT_PRUNE_THRESHOLD")],
        fallback_env: None,
        project_may_set: false,
        doc: "Prune only conversations above this many estimated tokens",
        set: |config, raw| raw.count(0..=MAX_JS_INTEGER).map(|number| config.prune.threshold_tokens = number),
        get: |config| json!(config.prune.threshold_tokens),
    },
    Key {
        name: "prune.max_chars",
        variable: "CTXBRIDGE_PRUNE_MAX_CHARS",
        also: &[alias("CLAUDE_TEXT_PRUNE_MAX_CHARS")],
        fallback_env: None,
        project_may_set: false,
        doc: "Characters that a text keeps when it is cut",
        set: |config, raw| raw.count(0..=MAX_JS_INTEGER).map(|number| config.prune.max_chars = number),
        get: |config| json!(config.prune.max_chars),
    },
    Key {
        name: "prune.keep_tokens",
        variable: "CTXBRIDGE_PRUNE_KEEP_TOKENS",
        also: &[alias("CLAUDE_TEXT_PRUNE_KEEP_TOKENS")],
        fallback_env: None,
        project_may_set: false,
        doc: "Newest tokens that stay when old steps are folded; unset, by the window",
        set: |config, raw| raw.count(1..=MAX_JS_INTEGER).map(|number| config.prune.keep_tokens = Some(number)),
        get: |config| json!(config.prune.keep_tokens),
    },
    Key {
        name: "prune.protect_tools",
        variable: "CTXBRIDGE_PRUNE_PROTECT_TOOLS",
        also: &[],
        fallback_env: None,
        project_may_set: false,
        doc: "Tools whose calls and results are never folded; a list takes the place of the default one",
        set: |config, raw| raw.list(TOOLS_EXAMPLE).map(|tools| config.prune.protect_tools = tools),
        get: |config| json!(config.prune.protect_tools),
    },
    Key {
        name: "prune.protect_files",
        variable: "CTXBRIDGE_PRUNE_PROTECT_FILES",
        also: &[],
        fallback_env: None,
        project_may_set: false,
        doc: "Files whose calls and results are never folded, as globs; a list takes the place of the default one",
        set: |config, raw| raw.list(FILES_EXAMPLE).map(|globs| config.prune.protect_files = globs),
        get: |config| json!(config.prune.protect_files),
    },
    Key {
        name: "mod.threshold_tokens",
        variable: "CTXBRIDGE_MOD_THRESHOLD_TOKENS",
        also: &[],
        fallback_env: None,
        project_may_set: false,
        doc: "Tokens in the context from which on the mod folds between turns, in the terminal; unset, never; `mod install` puts it in force",
        set: |config, raw| raw.count(WINDOW_RANGE).map(|tokens| config.client_mod.threshold_tokens = Some(tokens)),
        get: |config| json!(config.client_mod.threshold_tokens),
    },
    Key {
        name: "autopilot.enabled",
        variable: "CTXBRIDGE_AUTOPILOT_ENABLED",
        also: &[alias("CLAUDE_FLOW_CONTEXT_AUTOPILOT")],
        fallback_env: None,
        project_may_set: true,
        doc: "Have hooks watch how full the window is",
        set: |config, raw| raw.switch().map(|on| config.autopilot.enabled = on),
        get: |config| json!(config.autopilot.enabled),
    },
    Key {
        name: "autopilot.window",
        variable: "CTXBRIDGE_AUTOPILOT_WINDOW",
        also: &[alias("CLAUDE_FLOW_CONTEXT_WINDOW"), alias("CLAUDE_TEXT_PRUNE_WINDOW")],
        fallback_env: None,
        // The gate goes by it: with a window that is too large, it would never open.
        project_may_set: false,
        doc: "Tokens in the window, for pruning too; unset, as the client says, or as is known of the model",
        set: |config, raw| {
            raw.count(WINDOW_RANGE).map(|window| {
                config.autopilot.window = Some(window);
                config.prune.window_tokens = Some(window);
            })
        },
        get: |config| json!(config.autopilot.window),
    },
    Key {
        name: "autopilot.warn",
        variable: "CTXBRIDGE_AUTOPILOT_WARN",
        also: &[alias("CLAUDE_FLOW_AUTOPILOT_WARN")],
        fallback_env: None,
        project_may_set: true,
        doc: "Share of the window from which on the phase is `warn`",
        set: |config, raw| raw.share().map(|share| config.autopilot.warn = share),
        get: |config| json!(config.autopilot.warn),
    },
    Key {
        name: "autopilot.optimize",
        variable: "CTXBRIDGE_AUTOPILOT_OPTIMIZE",
        also: &[alias("CLAUDE_FLOW_AUTOPILOT_PRUNE")],
        fallback_env: None,
        project_may_set: true,
        doc: "Share of the window above which the phase is `optimize`",
        set: |config, raw| raw.share().map(|share| config.autopilot.critical = share),
        get: |config| json!(config.autopilot.critical),
    },
    Key {
        name: "autopilot.notify",
        variable: "CTXBRIDGE_AUTOPILOT_NOTIFY",
        also: &[],
        fallback_env: None,
        project_may_set: true,
        doc: "Prompts that get a report: off, change (of the phase), warn (that, and from `warn` on), always",
        set: |config, raw| raw.choice().map(|say| config.autopilot.notify = say),
        get: |config| json!(config.autopilot.notify.word()),
    },
    Key {
        name: "recall.prompts",
        variable: "CTXBRIDGE_RECALL_PROMPTS",
        also: &[],
        fallback_env: None,
        project_may_set: false,
        doc: "Add relevant past turns to prompts",
        set: |config, raw| raw.switch().map(|on| config.recall.prompts = on),
        get: |config| json!(config.recall.prompts),
    },
    Key {
        name: "recall.agents",
        variable: "CTXBRIDGE_RECALL_AGENTS",
        also: &[],
        fallback_env: None,
        project_may_set: false,
        doc: "Add relevant past turns to sub-agent prompts",
        set: |config, raw| raw.switch().map(|on| config.recall.agents = on),
        get: |config| json!(config.recall.agents),
    },
    Key {
        name: "recall.start",
        variable: "CTXBRIDGE_RECALL_START",
        also: &[],
        fallback_env: None,
        project_may_set: false,
        doc: "Tell a new session the project's last three sessions, open work and decisions, in 600 characters",
        set: |config, raw| raw.switch().map(|on| config.recall.start = on),
        get: |config| json!(config.recall.start),
    },
    Key {
        name: "recall.exclude",
        variable: "CTXBRIDGE_RECALL_EXCLUDE",
        also: &[],
        fallback_env: None,
        project_may_set: false,
        doc: "Folders whose sessions recall nothing, as globs, each with all below it",
        set: |config, raw| raw.list(FOLDERS_EXAMPLE).map(|globs| config.recall.exclude = globs),
        get: |config| json!(config.recall.exclude),
    },
    Key {
        name: "bundle.enabled",
        variable: "CTXBRIDGE_BUNDLE_ENABLED",
        also: &[],
        fallback_env: None,
        project_may_set: true,
        doc: "Record prompts, files and commands in .ctxbridge/bundles of a project in git, and recall from there",
        set: |config, raw| raw.switch().map(|on| config.bundle.enabled = on),
        get: |config| json!(config.bundle.enabled),
    },
    Key {
        name: "hooks.gate",
        variable: "CTXBRIDGE_HOOKS_GATE",
        also: &[EnvAlias {
            variable: "CLAUDE_FLOW_BLOCK_COMPACTION",
            value_aliases: &[("true", "block-auto"), ("1", "block-auto"), ("false", "off"), ("0", "off")],
        }],
        fallback_env: None,
        project_may_set: false,
        doc: "Compactions to block: off, or block-auto (automatic ones, as long as that is safe)",
        set: |config, raw| raw.choice().map(|gate| config.hooks.gate = gate),
        get: |config| json!(config.hooks.gate.word()),
    },
    Key {
        name: "hooks.event_log",
        variable: "CTXBRIDGE_HOOKS_EVENT_LOG",
        also: &[],
        fallback_env: None,
        // It repeats everything that the user types.
        project_may_set: false,
        doc: "Keep in logs/events what the client tells hooks, without secrets; `ctxbridge doctor --events` shows it",
        set: |config, raw| raw.switch().map(|on| config.hooks.event_log = on),
        get: |config| json!(config.hooks.event_log),
    },
    Key {
        name: "postgres.url",
        variable: "CTXBRIDGE_POSTGRES_URL",
        also: &[],
        fallback_env: None,
        project_may_set: false,
        doc: "A team's server, all in one: postgres://user@host:5432/database; what it says counts more than the keys below",
        set: |config, raw| raw.secret().and_then(address).map(|url| config.postgres.url = Some(url)),
        get: |config| json!(config.postgres.shown_url()),
    },
    Key {
        name: "postgres.host",
        variable: "CTXBRIDGE_POSTGRES_HOST",
        also: &[alias("RUVECTOR_HOST")],
        fallback_env: Some("PGHOST"),
        project_may_set: false,
        doc: "Name or address of the server, or the folder of its Unix socket",
        set: |config, raw| raw.text().map(|host| config.postgres.host = Some(host)),
        get: |config| json!(config.postgres.host),
    },
    Key {
        name: "postgres.port",
        variable: "CTXBRIDGE_POSTGRES_PORT",
        also: &[alias("RUVECTOR_PORT")],
        fallback_env: Some("PGPORT"),
        project_may_set: false,
        doc: "Its port; 5432 unless set",
        set: |config, raw| raw.count(1..=65_535).map(|port| config.postgres.port = Some(port as u16)),
        get: |config| json!(config.postgres.port),
    },
    Key {
        name: "postgres.database",
        variable: "CTXBRIDGE_POSTGRES_DATABASE",
        also: &[alias("RUVECTOR_DATABASE")],
        fallback_env: Some("PGDATABASE"),
        project_may_set: false,
        doc: "The database; unset, the one with the user's name",
        set: |config, raw| raw.text().map(|name| config.postgres.database = Some(name)),
        get: |config| json!(config.postgres.database),
    },
    Key {
        name: "postgres.user",
        variable: "CTXBRIDGE_POSTGRES_USER",
        also: &[alias("RUVECTOR_USER")],
        fallback_env: Some("PGUSER"),
        project_may_set: false,
        doc: "The role to log in as: one for each person",
        set: |config, raw| raw.text().map(|name| config.postgres.user = Some(name)),
        get: |config| json!(config.postgres.user),
    },
    Key {
        name: "postgres.password",
        variable: "CTXBRIDGE_POSTGRES_PASSWORD",
        also: &[alias("RUVECTOR_PASSWORD")],
        fallback_env: Some("PGPASSWORD"),
        project_may_set: false,
        doc: "Its password, which is never shown; ~/.pgpass is read as well",
        set: |config, raw| raw.secret().map(|password| config.postgres.password = Some(password)),
        get: |config| json!(config.postgres.password.as_ref().map(ToString::to_string)),
    },
    Key {
        name: "postgres.ssl",
        variable: "CTXBRIDGE_POSTGRES_SSL",
        also: &[alias("RUVECTOR_SSL")],
        fallback_env: Some("PGSSLMODE"),
        project_may_set: false,
        doc: "Encryption: on (the certificate is checked) or off; unset, on unless the server is on this machine",
        set: |config, raw| raw.choice().map(|ssl| config.postgres.ssl = Some(ssl)),
        get: |config| json!(config.postgres.ssl.map(Choice::word)),
    },
    Key {
        name: "postgres.ca_file",
        variable: "CTXBRIDGE_POSTGRES_CA_FILE",
        also: &[],
        fallback_env: Some("PGSSLROOTCERT"),
        project_may_set: false,
        doc: "File with the certificates to trust instead of the system's (PEM)",
        set: |config, raw| raw.path().map(|path| config.postgres.ca_file = path),
        get: |config| json!(config.postgres.ca_file),
    },
    Key {
        name: "postgres.tenant",
        variable: "CTXBRIDGE_POSTGRES_TENANT",
        also: &[],
        fallback_env: None,
        project_may_set: false,
        doc: "The name of the team's archive on the server; `default` unless set",
        set: |config, raw| raw.text().map(|tenant| config.postgres.tenant = Some(tenant)),
        get: |config| json!(config.postgres.tenant),
    },
    Key {
        name: "postgres.visibility",
        variable: "CTXBRIDGE_POSTGRES_VISIBILITY",
        also: &[],
        fallback_env: None,
        project_may_set: false,
        doc: "Readers of what is sent from now on: private, project or team",
        set: |config, raw| raw.choice().map(|visibility| config.postgres.visibility = visibility),
        get: |config| json!(config.postgres.visibility.name()),
    },
    Key {
        name: "postgres.auto_sync",
        variable: "CTXBRIDGE_POSTGRES_AUTO_SYNC",
        also: &[],
        fallback_env: None,
        project_may_set: false,
        doc: "Send what is new to the server at the end of a session, in the background",
        set: |config, raw| raw.switch().map(|on| config.postgres.auto_sync = on),
        get: |config| json!(config.postgres.auto_sync),
    },
    Key {
        name: "postgres.search",
        variable: "CTXBRIDGE_POSTGRES_SEARCH",
        also: &[],
        fallback_env: None,
        project_may_set: false,
        doc: "Search the server as well",
        set: |config, raw| raw.switch().map(|on| config.postgres.search = on),
        get: |config| json!(config.postgres.search),
    },
    Key {
        name: "postgres.timeout_s",
        variable: "CTXBRIDGE_POSTGRES_TIMEOUT_S",
        also: &[],
        fallback_env: None,
        project_may_set: false,
        doc: "Seconds to wait for the server",
        set: |config, raw| raw.count(1..=MAX_TIMEOUT_S).map(|seconds| config.postgres.timeout_s = seconds),
        get: |config| json!(config.postgres.timeout_s),
    },
    Key {
        name: "redact.patterns",
        variable: "CTXBRIDGE_REDACT_PATTERNS",
        also: &[],
        fallback_env: None,
        // A pattern that finds everything would hide everything.
        project_may_set: false,
        doc: "Regular expressions of more secrets (group 1, where there is one): a list; in the environment one a line, or a JSON list",
        set: |config, raw| raw.list(PATTERN_EXAMPLE).map(|patterns| config.redact.patterns = patterns),
        get: |config| json!(config.redact.patterns),
    },
    Key {
        name: "redact.allow",
        variable: "CTXBRIDGE_REDACT_ALLOW",
        also: &[],
        fallback_env: None,
        project_may_set: false,
        doc: "Regular expressions of what is no secret, in the same form: one that is found in a secret lets it stay",
        set: |config, raw| raw.list(PATTERN_EXAMPLE).map(|patterns| config.redact.allow = patterns),
        get: |config| json!(config.redact.allow),
    },
];

/// Checks that a text may be the address of a server. The error does not repeat it, since it may contain a password.
fn address(url: SecretString) -> Result<SecretString, String> {
    let is_one = ["postgres://", "postgresql://"].iter().any(|scheme| url.reveal().starts_with(scheme));
    if is_one { Ok(url) } else { Err("is not an address such as postgres://user@host:5432/database".to_owned()) }
}

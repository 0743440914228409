//! The table of configuration keys.

use serde_json::json;

use super::choice::Choice;
use super::key::{EnvAlias, Key};
use super::server::SecretString;

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
    Key::new(
        "archive.enabled",
        "CTXBRIDGE_ARCHIVE_ENABLED",
        "Archive sessions; off, hooks do nothing. A project can only switch it off",
        |config, raw| raw.switch().map(|on| config.archive.enabled = on),
        |config| json!(config.archive.enabled),
    )
    .for_projects(),
    Key::new(
        "archive.exclude",
        "CTXBRIDGE_ARCHIVE_EXCLUDE",
        "Folders whose sessions are left out, as globs, each with all below it",
        |config, raw| raw.list(FOLDERS_EXAMPLE).map(|globs| config.archive.exclude = globs),
        |config| json!(config.archive.exclude),
    ),
    Key::new(
        "archive.private",
        "CTXBRIDGE_ARCHIVE_PRIVATE",
        "Text between <private> and </private> in prompts: omit it from the archive, or keep it there and never show it",
        |config, raw| raw.choice().map(|private| config.archive.private = private),
        |config| json!(config.archive.private.name()),
    ),
    Key::new(
        "archive.store",
        "CTXBRIDGE_ARCHIVE_STORE",
        "Store that commands read: sqlite, postgres (a team's server), jsonl (a folder, with no database)",
        |config, raw| raw.choice().map(|store| config.archive.store = store),
        |config| json!(config.archive.store.name()),
    ),
    Key::new(
        "archive.jsonl_folder",
        "CTXBRIDGE_ARCHIVE_JSONL_FOLDER",
        "Folder of the JSON lines; unset, archive-jsonl in the data folder",
        |config, raw| raw.folder().map(|folder| config.archive.jsonl_folder = Some(folder)),
        |config| json!(config.archive.jsonl_folder),
    ),
    Key::new(
        "archive.restore_budget",
        "CTXBRIDGE_ARCHIVE_RESTORE_BUDGET",
        "Characters that may come back after a compaction; 0 restores nothing",
        |config, raw| raw.count(0..=MAX_BUDGET_CHARS).map(|budget| config.archive.restore_budget = budget as usize),
        |config| json!(config.archive.restore_budget),
    )
    .for_projects()
    .also(&[EnvAlias::new("CLAUDE_FLOW_COMPACT_RESTORE_BUDGET")]),
    Key::new(
        "archive.instruction_budget",
        "CTXBRIDGE_ARCHIVE_INSTRUCTION_BUDGET",
        "Characters of instructions for a compaction; 0 gives none",
        |config, raw| raw.count(0..=MAX_BUDGET_CHARS).map(|budget| config.archive.instruction_budget = budget as usize),
        |config| json!(config.archive.instruction_budget),
    )
    .for_projects()
    .also(&[EnvAlias::new("CLAUDE_FLOW_COMPACT_INSTRUCTION_BUDGET")]),
    Key::new(
        "archive.auto_optimize",
        "CTXBRIDGE_ARCHIVE_AUTO_OPTIMIZE",
        "Start maintenance at the end of a session",
        |config, raw| raw.switch().map(|on| config.archive.auto_optimize = on),
        |config| json!(config.archive.auto_optimize),
    )
    .also(&[EnvAlias::new("CLAUDE_FLOW_AUTO_OPTIMIZE")]),
    Key::new(
        "archive.retention_days",
        "CTXBRIDGE_ARCHIVE_RETENTION_DAYS",
        "Days after which a turn that was never restored leaves the hot archive",
        |config, raw| raw.count(1..=MAX_RETENTION_DAYS).map(|days| config.archive.retention_days = days as u32),
        |config| json!(config.archive.retention_days),
    )
    .also(&[EnvAlias::new("CLAUDE_FLOW_RETENTION_DAYS")]),
    Key::new(
        "archive.adaptive_retention",
        "CTXBRIDGE_ARCHIVE_ADAPTIVE_RETENTION",
        "Lower these days when the archive is large, and raise them when much of it is restored",
        |config, raw| raw.switch().map(|on| config.archive.adaptive_retention = on),
        |config| json!(config.archive.adaptive_retention),
    ),
    Key::new(
        "archive.size_target_mb",
        "CTXBRIDGE_ARCHIVE_SIZE_TARGET_MB",
        "Size of the archive, in MB, from which on turns leave the hot archive sooner; 0 for none",
        |config, raw| raw.count(0..=MAX_SIZE_TARGET_MB).map(|size| config.archive.size_target_mb = size),
        |config| json!(config.archive.size_target_mb),
    ),
    Key::new(
        "archive.warm_after_days",
        "CTXBRIDGE_ARCHIVE_WARM_AFTER_DAYS",
        "Days without use after which a session is compressed anew, smaller; 0 for never",
        |config, raw| raw.count(0..=MAX_RETENTION_DAYS).map(|days| config.archive.warm_after_days = days as u32),
        |config| json!(config.archive.warm_after_days),
    ),
    Key::new(
        "archive.cold_after_days",
        "CTXBRIDGE_ARCHIVE_COLD_AFTER_DAYS",
        "Days without use after which a session is moved to archive.cold_folder; 0 for never",
        |config, raw| raw.count(0..=MAX_RETENTION_DAYS).map(|days| config.archive.cold_after_days = days as u32),
        |config| json!(config.archive.cold_after_days),
    ),
    // What is moved there is all that there is of a session.
    Key::new(
        "archive.cold_folder",
        "CTXBRIDGE_ARCHIVE_COLD_FOLDER",
        "Folder that old sessions are moved to, one file each, such as a mounted bucket; unset, nothing is moved",
        |config, raw| raw.folder().map(|folder| config.archive.cold_folder = Some(folder)),
        |config| json!(config.archive.cold_folder),
    ),
    Key::new(
        "patch.keep",
        "CTXBRIDGE_PATCH_KEEP",
        "Patch an upgrade of a patched client in the background, at the start or end of a session",
        |config, raw| raw.switch().map(|on| config.patch.keep = on),
        |config| json!(config.patch.keep),
    ),
    Key::new(
        "prune.enabled",
        "CTXBRIDGE_PRUNE_ENABLED",
        "Prune what a patched client sends",
        |config, raw| raw.switch().map(|on| config.prune.enabled = on),
        |config| json!(config.prune.enabled),
    )
    .also(&[EnvAlias::new("CLAUDE_TEXT_PRUNE")]),
    Key::new(
        "prune.policy",
        "CTXBRIDGE_PRUNE_POLICY",
        "Policy: fold (old steps become digests), or reference (old text is cut at each request)",
        |config, raw| raw.parsed().map(|policy| config.prune.policy = policy),
        |config| json!(config.prune.policy.word()),
    )
    .also(&[EnvAlias::new("CLAUDE_TEXT_PRUNE_POLICY")]),
    Key::new(
        "prune.keep_turns",
        "CTXBRIDGE_PRUNE_KEEP_TURNS",
        "Newest human turns whose text stays whole",
        |config, raw| raw.count(1..=MAX_JS_INTEGER).map(|number| config.prune.keep_turns = number),
        |config| json!(config.prune.keep_turns),
    )
    .also(&[EnvAlias::new("CLAUDE_TEXT_PRUNE_KEEP")]),
    Key::new(
        "prune.threshold_tokens",
        "CTXBRIDGE_PRUNE_THRESHOLD_TOKENS",
        "Prune only conversations above this many estimated tokens",
        |config, raw| raw.count(0..=MAX_JS_INTEGER).map(|number| config.prune.threshold_tokens = number),
        |config| json!(config.prune.threshold_tokens),
    )
    .also(&[EnvAlias::new("CLAUDE_TEXT_PRUNE_THRESHOLD")]),
    Key::new(
        "prune.max_chars",
        "CTXBRIDGE_PRUNE_MAX_CHARS",
        "Characters that a text keeps when it is cut",
        |config, raw| raw.count(0..=MAX_JS_INTEGER).map(|number| config.prune.max_chars = number),
        |config| json!(config.prune.max_chars),
    )
    .also(&[EnvAlias::new("CLAUDE_TEXT_PRUNE_MAX_CHARS")]),
    Key::new(
        "prune.keep_tokens",
        "CTXBRIDGE_PRUNE_KEEP_TOKENS",
        "Newest tokens that stay when old steps are folded; unset, by the window",
        |config, raw| raw.count(1..=MAX_JS_INTEGER).map(|number| config.prune.keep_tokens = Some(number)),
        |config| json!(config.prune.keep_tokens),
    )
    .also(&[EnvAlias::new("CLAUDE_TEXT_PRUNE_KEEP_TOKENS")]),
    Key::new(
        "prune.protect_tools",
        "CTXBRIDGE_PRUNE_PROTECT_TOOLS",
        "Tools whose calls and results are never folded; a list takes the place of the default one",
        |config, raw| raw.list(TOOLS_EXAMPLE).map(|tools| config.prune.protect_tools = tools),
        |config| json!(config.prune.protect_tools),
    ),
    Key::new(
        "prune.protect_files",
        "CTXBRIDGE_PRUNE_PROTECT_FILES",
        "Files whose calls and results are never folded, as globs; a list takes the place of the default one",
        |config, raw| raw.list(FILES_EXAMPLE).map(|globs| config.prune.protect_files = globs),
        |config| json!(config.prune.protect_files),
    ),
    Key::new(
        "mod.threshold_tokens",
        "CTXBRIDGE_MOD_THRESHOLD_TOKENS",
        "Tokens in the context from which on the mod folds between turns, in the terminal; unset, never; `mod install` puts it in force",
        |config, raw| raw.count(WINDOW_RANGE).map(|tokens| config.client_mod.threshold_tokens = Some(tokens)),
        |config| json!(config.client_mod.threshold_tokens),
    ),
    Key::new(
        "autopilot.enabled",
        "CTXBRIDGE_AUTOPILOT_ENABLED",
        "Have hooks watch how full the window is",
        |config, raw| raw.switch().map(|on| config.autopilot.enabled = on),
        |config| json!(config.autopilot.enabled),
    )
    .for_projects()
    .also(&[EnvAlias::new("CLAUDE_FLOW_CONTEXT_AUTOPILOT")]),
    // The gate goes by it: with a window that is too large, it would never open.
    Key::new(
        "autopilot.window",
        "CTXBRIDGE_AUTOPILOT_WINDOW",
        "Tokens in the window, for pruning too; unset, as the client says, or as is known of the model",
        |config, raw| {
            raw.count(WINDOW_RANGE).map(|window| {
                config.autopilot.window = Some(window);
                config.prune.window_tokens = Some(window);
            })
        },
        |config| json!(config.autopilot.window),
    )
    .also(&[EnvAlias::new("CLAUDE_FLOW_CONTEXT_WINDOW"), EnvAlias::new("CLAUDE_TEXT_PRUNE_WINDOW")]),
    Key::new(
        "autopilot.warn",
        "CTXBRIDGE_AUTOPILOT_WARN",
        "Share of the window from which on the phase is `warn`",
        |config, raw| raw.share().map(|share| config.autopilot.warn = share),
        |config| json!(config.autopilot.warn),
    )
    .for_projects()
    .also(&[EnvAlias::new("CLAUDE_FLOW_AUTOPILOT_WARN")]),
    Key::new(
        "autopilot.optimize",
        "CTXBRIDGE_AUTOPILOT_OPTIMIZE",
        "Share of the window above which the phase is `optimize`",
        |config, raw| raw.share().map(|share| config.autopilot.critical = share),
        |config| json!(config.autopilot.critical),
    )
    .for_projects()
    .also(&[EnvAlias::new("CLAUDE_FLOW_AUTOPILOT_PRUNE")]),
    Key::new(
        "autopilot.notify",
        "CTXBRIDGE_AUTOPILOT_NOTIFY",
        "Prompts that get a report: off, change (of the phase), warn (that, and from `warn` on), always",
        |config, raw| raw.choice().map(|say| config.autopilot.notify = say),
        |config| json!(config.autopilot.notify.word()),
    )
    .for_projects(),
    Key::new(
        "recall.prompts",
        "CTXBRIDGE_RECALL_PROMPTS",
        "Add relevant past turns to prompts",
        |config, raw| raw.switch().map(|on| config.recall.prompts = on),
        |config| json!(config.recall.prompts),
    ),
    Key::new(
        "recall.agents",
        "CTXBRIDGE_RECALL_AGENTS",
        "Add relevant past turns to sub-agent prompts",
        |config, raw| raw.switch().map(|on| config.recall.agents = on),
        |config| json!(config.recall.agents),
    ),
    Key::new(
        "recall.start",
        "CTXBRIDGE_RECALL_START",
        "Tell a new session the project's last three sessions, open work and decisions, in 600 characters",
        |config, raw| raw.switch().map(|on| config.recall.start = on),
        |config| json!(config.recall.start),
    ),
    Key::new(
        "recall.exclude",
        "CTXBRIDGE_RECALL_EXCLUDE",
        "Folders whose sessions recall nothing, as globs, each with all below it",
        |config, raw| raw.list(FOLDERS_EXAMPLE).map(|globs| config.recall.exclude = globs),
        |config| json!(config.recall.exclude),
    ),
    Key::new(
        "bundle.enabled",
        "CTXBRIDGE_BUNDLE_ENABLED",
        "Record prompts, files and commands in .ctxbridge/bundles of a project in git, and recall from there",
        |config, raw| raw.switch().map(|on| config.bundle.enabled = on),
        |config| json!(config.bundle.enabled),
    )
    .for_projects(),
    Key::new(
        "hooks.gate",
        "CTXBRIDGE_HOOKS_GATE",
        "Compactions to block: off, or block-auto (automatic ones, as long as that is safe)",
        |config, raw| raw.choice().map(|gate| config.hooks.gate = gate),
        |config| json!(config.hooks.gate.word()),
    )
    .also(&[EnvAlias {
        variable: "CLAUDE_FLOW_BLOCK_COMPACTION",
        value_aliases: &[("true", "block-auto"), ("1", "block-auto"), ("false", "off"), ("0", "off")],
    }]),
    // It repeats everything that the user types.
    Key::new(
        "hooks.event_log",
        "CTXBRIDGE_HOOKS_EVENT_LOG",
        "Keep in logs/events what the client tells hooks, without secrets; `ctxbridge doctor --events` shows it",
        |config, raw| raw.switch().map(|on| config.hooks.event_log = on),
        |config| json!(config.hooks.event_log),
    ),
    Key::new(
        "postgres.url",
        "CTXBRIDGE_POSTGRES_URL",
        "A team's server, all in one: postgres://user@host:5432/database; what it says counts more than the keys below",
        |config, raw| raw.secret().and_then(address).map(|url| config.postgres.url = Some(url)),
        |config| json!(config.postgres.shown_url()),
    ),
    Key::new(
        "postgres.host",
        "CTXBRIDGE_POSTGRES_HOST",
        "Name or address of the server, or the folder of its Unix socket",
        |config, raw| raw.text().map(|host| config.postgres.host = Some(host)),
        |config| json!(config.postgres.host),
    )
    .also(&[EnvAlias::new("RUVECTOR_HOST")])
    .fallback("PGHOST"),
    Key::new(
        "postgres.port",
        "CTXBRIDGE_POSTGRES_PORT",
        "Its port; 5432 unless set",
        |config, raw| raw.count(1..=65_535).map(|port| config.postgres.port = Some(port as u16)),
        |config| json!(config.postgres.port),
    )
    .also(&[EnvAlias::new("RUVECTOR_PORT")])
    .fallback("PGPORT"),
    Key::new(
        "postgres.database",
        "CTXBRIDGE_POSTGRES_DATABASE",
        "The database; unset, the one with the user's name",
        |config, raw| raw.text().map(|name| config.postgres.database = Some(name)),
        |config| json!(config.postgres.database),
    )
    .also(&[EnvAlias::new("RUVECTOR_DATABASE")])
    .fallback("PGDATABASE"),
    Key::new(
        "postgres.user",
        "CTXBRIDGE_POSTGRES_USER",
        "The role to log in as: one for each person",
        |config, raw| raw.text().map(|name| config.postgres.user = Some(name)),
        |config| json!(config.postgres.user),
    )
    .also(&[EnvAlias::new("RUVECTOR_USER")])
    .fallback("PGUSER"),
    Key::new(
        "postgres.password",
        "CTXBRIDGE_POSTGRES_PASSWORD",
        "Its password, which is never shown; ~/.pgpass is read as well",
        |config, raw| raw.secret().map(|password| config.postgres.password = Some(password)),
        |config| json!(config.postgres.password.as_ref().map(ToString::to_string)),
    )
    .also(&[EnvAlias::new("RUVECTOR_PASSWORD")])
    .fallback("PGPASSWORD"),
    Key::new(
        "postgres.ssl",
        "CTXBRIDGE_POSTGRES_SSL",
        "Encryption: on (the certificate is checked) or off; unset, on unless the server is on this machine",
        |config, raw| raw.choice().map(|ssl| config.postgres.ssl = Some(ssl)),
        |config| json!(config.postgres.ssl.map(Choice::word)),
    )
    .also(&[EnvAlias::new("RUVECTOR_SSL")])
    .fallback("PGSSLMODE"),
    Key::new(
        "postgres.ca_file",
        "CTXBRIDGE_POSTGRES_CA_FILE",
        "File with the certificates to trust instead of the system's (PEM)",
        |config, raw| raw.path().map(|path| config.postgres.ca_file = path),
        |config| json!(config.postgres.ca_file),
    )
    .fallback("PGSSLROOTCERT"),
    Key::new(
        "postgres.tenant",
        "CTXBRIDGE_POSTGRES_TENANT",
        "The name of the team's archive on the server; `default` unless set",
        |config, raw| raw.text().map(|tenant| config.postgres.tenant = Some(tenant)),
        |config| json!(config.postgres.tenant),
    ),
    Key::new(
        "postgres.visibility",
        "CTXBRIDGE_POSTGRES_VISIBILITY",
        "Readers of what is sent from now on: private, project or team",
        |config, raw| raw.choice().map(|visibility| config.postgres.visibility = visibility),
        |config| json!(config.postgres.visibility.name()),
    ),
    Key::new(
        "postgres.auto_sync",
        "CTXBRIDGE_POSTGRES_AUTO_SYNC",
        "Send what is new to the server at the end of a session, in the background",
        |config, raw| raw.switch().map(|on| config.postgres.auto_sync = on),
        |config| json!(config.postgres.auto_sync),
    ),
    Key::new(
        "postgres.search",
        "CTXBRIDGE_POSTGRES_SEARCH",
        "Search the server as well",
        |config, raw| raw.switch().map(|on| config.postgres.search = on),
        |config| json!(config.postgres.search),
    ),
    Key::new(
        "postgres.timeout_s",
        "CTXBRIDGE_POSTGRES_TIMEOUT_S",
        "Seconds to wait for the server",
        |config, raw| raw.count(1..=MAX_TIMEOUT_S).map(|seconds| config.postgres.timeout_s = seconds),
        |config| json!(config.postgres.timeout_s),
    ),
    // A pattern that finds everything would hide everything.
    Key::new(
        "redact.patterns",
        "CTXBRIDGE_REDACT_PATTERNS",
        "Regular expressions of more secrets (group 1, where there is one): a list; in the environment one a line, or a JSON list",
        |config, raw| raw.list(PATTERN_EXAMPLE).map(|patterns| config.redact.patterns = patterns),
        |config| json!(config.redact.patterns),
    ),
    Key::new(
        "redact.allow",
        "CTXBRIDGE_REDACT_ALLOW",
        "Regular expressions of what is no secret, in the same form: one that is found in a secret lets it stay",
        |config, raw| raw.list(PATTERN_EXAMPLE).map(|patterns| config.redact.allow = patterns),
        |config| json!(config.redact.allow),
    ),
];

impl Key {
    /// Finds a key by its name.
    pub fn named(name: &str) -> Option<&'static Self> {
        KEYS.iter().find(|key| key.name == name)
    }
}

/// Checks that a text may be the address of a server. The error does not repeat it, since it may contain a password.
fn address(url: SecretString) -> Result<SecretString, String> {
    let is_one = ["postgres://", "postgresql://"].iter().any(|scheme| url.reveal().starts_with(scheme));
    if is_one { Ok(url) } else { Err("is not an address such as postgres://user@host:5432/database".to_owned()) }
}

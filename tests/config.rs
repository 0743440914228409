//! Settings: which layer counts, what a project may not set, and that nothing in a file can stop a command.

use std::fs;
use std::path::{Path, PathBuf};

use ctxbridge::config::{
    Config, ConfigSources, Gate, KEYS, NotifyLevel, PostgresSettings, SecretString, SettingSource, TlsSwitch,
};
use ctxbridge::prune::PruneSettings;
use ctxbridge::redact::Redactor;
use proptest::prelude::*;
use tempfile::TempDir;

/// The places that settings come from: the user's file, the project's, variables and flags.
struct Layers {
    folder: TempDir,
    sources: ConfigSources,
}

impl Layers {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder.path().join("project/src/deep");
        fs::create_dir_all(&deep).unwrap();
        fs::create_dir_all(folder.path().join("project/.ctxbridge")).unwrap();
        let sources =
            ConfigSources { user_file: Some(folder.path().join("config.toml")), cwd: Some(deep), ..ConfigSources::default() };
        Self { folder, sources }
    }

    fn user(self, text: &str) -> Self {
        fs::write(self.folder.path().join("config.toml"), text).unwrap();
        self
    }

    fn project_file(&self) -> PathBuf {
        self.folder.path().join("project/.ctxbridge/config.toml")
    }

    fn project(self, text: &str) -> Self {
        fs::write(self.project_file(), text).unwrap();
        self
    }

    fn variable(mut self, name: &str, value: &str) -> Self {
        self.sources.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    fn flag(mut self, name: &str, value: &str) -> Self {
        self.sources.flags.push((name.to_owned(), value.to_owned()));
        self
    }

    fn load(&self) -> Config {
        Config::load(&self.sources)
    }

    /// Problems that were passed over, one a line.
    fn problems(&self) -> String {
        let lines = self.load().problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
        lines.replace(self.folder.path().to_str().unwrap(), "[ROOT]")
    }
}

#[test]
fn without_anything_the_defaults_hold() {
    let layers = Layers::new();
    assert_eq!(layers.load(), Config::default());
    let shown: Vec<String> =
        layers.load().settings().iter().map(|setting| format!("{} = {}", setting.key.name, setting.value)).collect();
    insta::assert_snapshot!(shown.join("\n"), @r#"
    archive.enabled = true
    archive.exclude = []
    archive.private = "omit"
    archive.store = "sqlite"
    archive.jsonl_folder = null
    archive.restore_budget = 4000
    archive.instruction_budget = 1200
    archive.auto_optimize = true
    archive.retention_days = 30
    archive.adaptive_retention = true
    archive.size_target_mb = 2000
    archive.warm_after_days = 30
    archive.cold_after_days = 180
    archive.cold_folder = null
    patch.keep = false
    prune.enabled = true
    prune.policy = "fold"
    prune.keep_turns = 4
    prune.threshold_tokens = 20000
    prune.max_chars = 80
    prune.keep_tokens = null
    prune.protect_tools = ["AskUserQuestion","ExitPlanMode"]
    prune.protect_files = ["AGENTS.md","CLAUDE.md","SKILL.md"]
    mod.threshold_tokens = null
    autopilot.enabled = true
    autopilot.window = null
    autopilot.warn = 0.7
    autopilot.optimize = 0.85
    autopilot.notify = "change"
    recall.prompts = true
    recall.agents = true
    recall.start = false
    recall.exclude = []
    bundle.enabled = true
    hooks.gate = "off"
    hooks.event_log = false
    postgres.url = null
    postgres.host = null
    postgres.port = null
    postgres.database = null
    postgres.user = null
    postgres.password = null
    postgres.ssl = null
    postgres.ca_file = null
    postgres.tenant = null
    postgres.visibility = "private"
    postgres.auto_sync = true
    postgres.search = true
    postgres.timeout_s = 10
    redact.patterns = []
    redact.allow = []
    "#);
}

#[test]
fn each_layer_is_over_the_one_before() {
    let file = |budget: u32| format!("[archive]\nrestore_budget = {budget}\n");
    let layers = Layers::new();
    let seen = |layers: &Layers| {
        let config = layers.load();
        assert!(config.problems.is_empty(), "{:?}", config.problems);
        (config.archive.restore_budget, config.source("archive.restore_budget"))
    };
    assert_eq!(seen(&layers), (4000, SettingSource::Default));
    let layers = layers.user(&file(10));
    assert_eq!(seen(&layers), (10, SettingSource::User(layers.folder.path().join("config.toml"))));
    let layers = layers.project(&file(2));
    assert_eq!(seen(&layers), (2, SettingSource::Project(layers.project_file())));
    let layers = layers.variable("CLAUDE_FLOW_COMPACT_RESTORE_BUDGET", "3");
    assert_eq!(seen(&layers), (3, SettingSource::Variable("CLAUDE_FLOW_COMPACT_RESTORE_BUDGET")));
    let layers = layers.variable("CTXBRIDGE_ARCHIVE_RESTORE_BUDGET", "4");
    assert_eq!(seen(&layers), (4, SettingSource::Variable("CTXBRIDGE_ARCHIVE_RESTORE_BUDGET")));
    let layers = layers.flag("archive.restore_budget", "5");
    assert_eq!(seen(&layers), (5, SettingSource::Flag));
}

#[test]
fn every_key_can_be_set_in_a_file_and_by_its_variable() {
    let text = "[archive]\nenabled = false\nexclude = [\"~/clients/*\"]\nprivate = \"keep\"\nstore = \"jsonl\"\njsonl_folder = \"/mnt/lines\"\nrestore_budget = 1\ninstruction_budget = 2\nauto_optimize = false\nretention_days = 3\nadaptive_retention = false\nsize_target_mb = 0\nwarm_after_days = 1\ncold_after_days = 2\ncold_folder = \"/mnt/cold\"\n\
                [patch]\nkeep = true\n[prune]\nenabled = false\npolicy = \"reference\"\nkeep_turns = 5\nthreshold_tokens = 1\nmax_chars = 2\nkeep_tokens = 3\nprotect_tools = [\"Bash\"]\nprotect_files = []\n\
                [mod]\nthreshold_tokens = 90000\n[autopilot]\nenabled = false\nwindow = 1000000\nwarn = 0.5\noptimize = 0.6\nnotify = \"always\"\n[recall]\nprompts = false\nagents = false\nstart = true\nexclude = [\"/srv\"]\n[bundle]\nenabled = false\n[hooks]\ngate = \"block-auto\"\nevent_log = true\n\
                [postgres]\nurl = \"postgres://ann@db/team\"\nhost = \"db\"\nport = 5433\ndatabase = \"team\"\nuser = \"ann\"\npassword = \"***\"\nssl = \"off\"\nca_file = \"/etc/ca.pem\"\ntenant = \"acme\"\nvisibility = \"team\"\nauto_sync = false\nsearch = false\ntimeout_s = 3\n\
                [redact]\npatterns = ['[A-Z]{4}-\\d+', \"a\"]\nallow = [\"^TEST\"]\n";
    let by_file = Layers::new().user(text).load();
    assert!(by_file.problems.is_empty(), "{:?}", by_file.problems);
    let mut layers = Layers::new();
    for setting in by_file.settings() {
        assert_ne!(setting.value, setting.key.default(), "{} is not set", setting.key.name);
        assert_eq!(setting.source.kind(), "user");
        let value = setting.value.as_str().map_or_else(|| setting.value.to_string(), str::to_owned);
        layers = layers.variable(setting.key.variable, &value);
    }
    let by_variable = layers.load();
    assert_eq!(by_variable.archive, by_file.archive);
    assert_eq!((by_variable.patch, by_variable.prune), (by_file.patch, by_file.prune));
    assert_eq!(by_variable.client_mod, by_file.client_mod);
    assert_eq!(by_variable.autopilot, by_file.autopilot);
    assert_eq!((by_variable.recall, by_variable.bundle), (by_file.recall, by_file.bundle));
    assert_eq!(by_variable.hooks, by_file.hooks);
    assert_eq!(by_variable.postgres, by_file.postgres);
    assert_eq!(by_variable.redact, by_file.redact);
    assert_eq!(by_file.redact.patterns, ["[A-Z]{4}-\\d+", "a"]);
}

#[test]
fn a_server_is_one_that_is_meant() {
    let host = |layers: Layers| layers.load().postgres.host;
    // What other programs are told of a server describes that one, as a whole.
    let others = || {
        let layers = Layers::new().variable("PGHOST", "dev").variable("PGSSLMODE", "disable").variable("PGPORT", "1");
        layers.variable("PGPASSWORD", "hidden")
    };
    let config = others().load();
    assert_eq!(
        (config.postgres.host.as_deref(), config.postgres.ssl, config.postgres.port),
        (Some("dev"), Some(TlsSwitch::Off), Some(1))
    );
    assert!(!config.has_server());
    assert!(others().variable("CTXBRIDGE_ARCHIVE_STORE", "postgres").load().has_server());
    let config = others().variable("RUVECTOR_HOST", "team").load();
    assert!(config.has_server());
    assert_eq!((config.postgres.host.as_deref(), config.postgres.ssl, config.postgres.port), (Some("team"), None, None));
    assert!(config.postgres.password.is_none(), "it is of the other server");
    let alone = Layers::new().variable("PGPASSWORD", "hidden").variable("RUVECTOR_HOST", "team").load();
    assert_eq!(alone.postgres.password.as_ref().map(SecretString::reveal), Some("hidden"));
    assert_eq!(host(others().user("[postgres]\nhost = \"mine\"\n")).as_deref(), Some("mine"));
    // A repository that somebody else wrote sends nothing anywhere.
    let layers = Layers::new().project("[postgres]\nhost = \"evil\"\nvisibility = \"team\"\n[archive]\nstore = \"postgres\"\n");
    assert_eq!((layers.load().has_server(), layers.load().postgres), (false, PostgresSettings::default()));
}

#[test]
fn passwords_are_never_shown() {
    let layers = Layers::new()
        .user("[postgres]\nurl = \"postgres://ann:hunter2@db/team?password=hunter2\"\npassword = \"hunter2\"\n")
        .variable("CTXBRIDGE_POSTGRES_URL", "nonsense hunter2");
    let config = layers.load();
    assert_eq!(config.postgres.password.as_ref().map(SecretString::reveal), Some("hunter2"));
    let shown: Vec<String> = config.settings().iter().map(|setting| setting.value.to_string()).collect();
    let all = format!("{config:?} {shown:?} {}", layers.problems());
    assert!(!all.contains("hunter2") && all.contains("postgres://ann:***@db/team?***"), "{all}");
}

#[test]
fn patterns_are_lists_or_lines_and_bad_ones_are_passed_over() {
    let patterns = |value: &str| Layers::new().variable("CTXBRIDGE_REDACT_PATTERNS", value).load().redact.patterns;
    assert_eq!(patterns(r#"["a\\d", "b"]"#), ["a\\d", "b"]);
    assert_eq!(patterns("a\\d\n\n[b]\n"), ["a\\d", "[b]"]);
    // No list of texts, and so an expression.
    assert_eq!(patterns("[0]"), ["[0]"]);
    let layers = Layers::new()
        .user("[redact]\npatterns = [\"(\", \"good\", \"(a{1000}){1000}\"]\nallow = 7\n")
        .project("[redact]\nallow = [\".\"]\n");
    insta::assert_snapshot!(layers.problems(), @r#"
    [ROOT]/config.toml: redact.allow is 7, not a list of at most 100 texts, such as ["ACME-[0-9]{8}"]; it stays []
    [ROOT]/project/.ctxbridge/config.toml: redact.allow is not for a project to set; put it into your own config.toml
    [ROOT]/config.toml: redact.patterns has a pattern that is passed over: `(` is no regular expression that can be used: unclosed group
    [ROOT]/config.toml: redact.patterns has a pattern that is passed over: `(a{1000}){1000}` is no regular expression that can be used: compiled, it takes more than 1048576 bytes
    "#);
    let redact = layers.load().redact;
    let (redactor, problems) = Redactor::of(&redact);
    assert_eq!((redactor.redact("a good one").text.as_ref(), problems.len()), ("a [redacted:pattern] one", 2));
    assert!(Redactor::strict(&redact).is_err(), "what leaves the machine has to be told");
}

#[test]
fn pruning_is_set_by_the_names_that_a_patched_client_reads() {
    let layers = Layers::new()
        .user("[prune]\npolicy = \"reference\"\nkeep_tokens = 1000\nprotect_tools = \"Bash\"\nprotect_files = [\"docs/**\", 7]\n")
        .variable("CLAUDE_TEXT_PRUNE_POLICY", "FOLD")
        .variable("CLAUDE_TEXT_PRUNE_KEEP_TOKENS", "20000")
        .variable("CLAUDE_TEXT_PRUNE_WINDOW", "half")
        .variable("CTXBRIDGE_PRUNE_POLICY", "all")
        .project("[prune]\nprotect_files = [\"**\"]\n");
    let prune = layers.load().prune;
    let wanted = PruneSettings { keep_tokens: Some(20_000), protect_tools: vec!["Bash".to_owned()], ..PruneSettings::default() };
    assert_eq!(prune, wanted);
    insta::assert_snapshot!(layers.problems(), @r#"
    [ROOT]/config.toml: prune.protect_files is this array, not a list of at most 100 texts, such as ["docs/**/*.md"]; it stays ["AGENTS.md","CLAUDE.md","SKILL.md"]
    [ROOT]/project/.ctxbridge/config.toml: prune.protect_files is not for a project to set; put it into your own config.toml
    $CTXBRIDGE_PRUNE_POLICY: prune.policy is "all", not one of fold, reference; it stays "fold"
    $CLAUDE_TEXT_PRUNE_WINDOW: autopilot.window is "half", not a whole number from 1000 to 100000000; it is unset
    "#);
    let list = |value: &str| Layers::new().variable("CTXBRIDGE_PRUNE_PROTECT_FILES", value).load().prune.protect_files;
    assert_eq!(list("docs/**\n*.md\n"), ["docs/**", "*.md"]);
    assert_eq!(list("[\"a/b\"]"), ["a/b"]);
    assert_eq!(list("[]"), [""; 0]);
}

#[test]
fn names_are_what_the_contract_says() {
    for key in KEYS {
        assert_eq!(key.variable, format!("CTXBRIDGE_{}", key.name.replace('.', "_").to_uppercase()));
        assert!(!key.doc.is_empty() && !key.doc.ends_with('.'), "{}", key.name);
    }
}

#[test]
fn the_names_of_the_designs_are_accepted() {
    let config = Layers::new()
        .variable("CLAUDE_FLOW_AUTO_OPTIMIZE", "false")
        .variable("CLAUDE_FLOW_RETENTION_DAYS", "7")
        .variable("CLAUDE_FLOW_CONTEXT_AUTOPILOT", "0")
        .variable("CLAUDE_FLOW_CONTEXT_WINDOW", "1000000")
        .variable("CLAUDE_FLOW_AUTOPILOT_WARN", "0.6")
        .variable("CLAUDE_FLOW_AUTOPILOT_PRUNE", "0.9")
        .variable("CLAUDE_FLOW_COMPACT_INSTRUCTION_BUDGET", "9")
        .variable("CLAUDE_FLOW_BLOCK_COMPACTION", "true")
        .load();
    assert!(config.problems.is_empty(), "{:?}", config.problems);
    assert!(!config.archive.auto_optimize && !config.autopilot.enabled);
    assert_eq!((config.archive.retention_days, config.archive.instruction_budget), (7, 9));
    assert_eq!((config.autopilot.window, config.autopilot.warn, config.autopilot.critical), (Some(1_000_000), 0.6, 0.9));
    assert_eq!(config.hooks.gate, Gate::BlockAuto);
    assert_eq!(Layers::new().variable("CLAUDE_FLOW_BLOCK_COMPACTION", "false").load().hooks.gate, Gate::Off);
}

#[test]
fn a_bad_value_leaves_that_of_the_layer_below() {
    let layers = Layers::new()
        .user("[archive]\nretention_days = 7\n[autopilot]\nnotify = \"change\"\n")
        .variable("CTXBRIDGE_ARCHIVE_RETENTION_DAYS", "0")
        .variable("CTXBRIDGE_AUTOPILOT_NOTIFY", "loudly")
        .variable("CTXBRIDGE_AUTOPILOT_WARN", "70")
        .variable("CTXBRIDGE_AUTOPILOT_WINDOW", "-5")
        .variable("CTXBRIDGE_ARCHIVE_AUTO_OPTIMIZE", "")
        .flag("autopilot.enabled", "maybe");
    let config = layers.load();
    assert_eq!((config.archive.retention_days, config.autopilot.notify, config.autopilot.warn), (7, NotifyLevel::Change, 0.7));
    insta::assert_snapshot!(layers.problems(), @r#"
    $CTXBRIDGE_ARCHIVE_RETENTION_DAYS: archive.retention_days is "0", not a whole number from 1 to 36500; it stays 7
    $CTXBRIDGE_AUTOPILOT_WINDOW: autopilot.window is "-5", not a whole number from 1000 to 100000000; it is unset
    $CTXBRIDGE_AUTOPILOT_WARN: autopilot.warn is "70", not a share of the window, such as 0.70; it stays 0.7
    $CTXBRIDGE_AUTOPILOT_NOTIFY: autopilot.notify is "loudly", not one of off, change, warn, always; it stays "change"
    command line: autopilot.enabled is "maybe", not true or false; it stays true
    "#);
}

/// A repository that somebody else wrote must not switch off what keeps the user's data, nor make the client block.
#[test]
fn a_project_cannot_set_what_is_the_user_s() {
    let layers = Layers::new().project(
        "[archive]\nretention_days = 1\nauto_optimize = false\nrestore_budget = 10\ninstruction_budget = 2001\n\
         [autopilot]\nwindow = 100000000\nwarn = 0.5\n[hooks]\ngate = \"block-auto\"\nevent_log = true\n",
    );
    let config = layers.load();
    assert!(!config.hooks.event_log);
    assert_eq!(config.hooks.gate, Gate::Off);
    assert_eq!((config.archive.retention_days, config.autopilot.window), (30, None));
    assert_eq!((config.archive.restore_budget, config.autopilot.warn), (10, 0.5));
    assert_eq!(config.archive.instruction_budget, 1_200, "budgets may only be lowered");
    assert_eq!(config.source("archive.instruction_budget"), SettingSource::Default);
    insta::assert_snapshot!(layers.problems(), @"
    [ROOT]/project/.ctxbridge/config.toml: archive.auto_optimize is not for a project to set; put it into your own config.toml
    [ROOT]/project/.ctxbridge/config.toml: archive.instruction_budget is not for a project to raise; it stays 1200
    [ROOT]/project/.ctxbridge/config.toml: archive.retention_days is not for a project to set; put it into your own config.toml
    [ROOT]/project/.ctxbridge/config.toml: autopilot.window is not for a project to set; put it into your own config.toml
    [ROOT]/project/.ctxbridge/config.toml: hooks.event_log is not for a project to set; put it into your own config.toml
    [ROOT]/project/.ctxbridge/config.toml: hooks.gate is not for a project to set; put it into your own config.toml
    ");
}

#[test]
fn what_is_no_setting_is_told() {
    let layers = Layers::new()
        .user("loose = 1\n[archive]\nstoer = 1\nrestore_budget = [1]\n\"\\u001b[31mred\" = 1\n[a.b]\nc = 1\n")
        .project("[archive\nrestore_budget = 1\n");
    assert_eq!(layers.load().archive.restore_budget, 4000);
    insta::assert_snapshot!(layers.problems(), @r"
    [ROOT]/config.toml: a.b is no setting; `ctxbridge config show` lists them
    [ROOT]/config.toml: archive.\u{1b}[31mred is no setting; `ctxbridge config show` lists them
    [ROOT]/config.toml: archive.restore_budget is this array, not a whole number from 0 to 100000; it stays 4000
    [ROOT]/config.toml: archive.stoer is no setting; `ctxbridge config show` lists them
    [ROOT]/config.toml: loose stands outside of a section, such as [autopilot]
    [ROOT]/project/.ctxbridge/config.toml: cannot be read and is passed over: line 1: unclosed table, expected `]`
    ");
}

#[test]
fn shares_that_contradict_each_other_are_settled() {
    let layers = Layers::new().variable("CTXBRIDGE_AUTOPILOT_WARN", "0.9");
    let config = layers.load();
    assert_eq!((config.autopilot.warn, config.autopilot.critical), (0.85, 0.85));
    insta::assert_snapshot!(layers.problems(), @"$CTXBRIDGE_AUTOPILOT_WARN: autopilot.warn is 0.9, above autopilot.optimize, and counts as 0.85 like that");
}

#[test]
fn the_nearest_project_counts() {
    let layers = Layers::new().project("[archive]\nrestore_budget = 1\n");
    let near = layers.folder.path().join("project/src/.ctxbridge");
    fs::create_dir(&near).unwrap();
    fs::write(near.join("config.toml"), "[autopilot]\nnotify = \"off\"\n").unwrap();
    let config = layers.load();
    assert_eq!((config.archive.restore_budget, config.autopilot.notify), (4000, NotifyLevel::Off));
}

#[test]
fn files_that_cannot_be_read_are_passed_over() {
    let reason = |make: &dyn Fn(&Path)| {
        let layers = Layers::new();
        make(&layers.project_file());
        let config = layers.load();
        assert_eq!(config.archive, Config::default().archive);
        assert_eq!(config.problems.len(), 1, "{:?}", config.problems);
        layers.problems().replace("[ROOT]/project/.ctxbridge/config.toml: cannot be read and is passed over: ", "")
    };
    assert_eq!(reason(&|path| fs::create_dir(path).unwrap()), "it is no file");
    assert_eq!(reason(&|path| fs::write(path, "a = 1\n".repeat(100_000)).unwrap()), "it is larger than 256 KB");
    assert_eq!(reason(&|path| fs::write(path, b"\xff\xfe").unwrap()), "stream did not contain valid UTF-8");
    #[cfg(unix)]
    {
        assert_eq!(reason(&|path| std::os::unix::fs::symlink("/dev/zero", path).unwrap()), "it is no file");
        let circle = reason(&|path| std::os::unix::fs::symlink("config.toml", path).unwrap());
        assert!(circle.contains("symbolic links"), "{circle}");
    }
}

#[test]
fn a_file_full_of_problems_does_not_flood() {
    let text: String = (0..500).map(|number| format!("key{number} = 1\n")).collect();
    let config = Layers::new().user(&text).load();
    assert_eq!(config.problems.len(), 21);
    assert_eq!(config.problems[20].message, "has 480 more problems of this kind");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever is written somewhere: loading ends, values stay in their ranges, messages are one harmless line.
    #[test]
    fn nothing_stops_it(user in "\\PC{0,80}|(\\[(archive|autopilot|hooks)\\]\n([a-z_]{1,18} = (-?[0-9.]{1,9}|true|\"\\PC{0,9}\"|nan|inf)\n){0,4}){0,3}",
                        value in "\\PC{0,20}|-?[0-9.e]{1,9}", key in 0..KEYS.len()) {
        let config = Layers::new().user(&user).project(&user).variable(KEYS[key].variable, &value).load();
        prop_assert!(config.archive.restore_budget <= 100_000 && config.archive.retention_days >= 1);
        prop_assert!(config.autopilot.warn > 0.0 && config.autopilot.warn <= config.autopilot.critical && config.autopilot.critical <= 1.0);
        prop_assert!(config.problems.iter().all(|problem| !problem.to_string().chars().any(char::is_control)));
    }
}

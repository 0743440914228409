//! The driver, against small scripts that behave like a client, or misbehave.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use ctxbridge::client::{Client, ClientError, ConversationLimits};
use serde_json::Value;
use tempfile::TempDir;

/// Calls `turn(prompt, n)` for each line of input, and fails when two come at once.
const READ_PROMPTS: &str = r"
    const say = line => console.log(JSON.stringify(line));
    const result = (text, more) =>
        say({ type: 'result', subtype: 'success', is_error: false, result: text, ...more });
    let buffer = '', n = 0;
    process.stdin.on('data', data => {
        buffer += data;
        const lines = buffer.split('\n');
        buffer = lines.pop();
        if (lines.length > 1) throw new Error('two prompts at once');
        for (const line of lines) turn(JSON.parse(line).message.content, ++n);
    });
";

/// A client whose reaction to a prompt is `turn`, in the folder that keeps its script.
fn client(turn: &str) -> (Client, TempDir) {
    script(&format!("const turn = (prompt, n) => {{ {turn} }};{READ_PROMPTS}"))
}

fn script(script: &str) -> (Client, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cli.js");
    fs::write(&path, script).unwrap();
    (Client::node_script(path).unwrap(), folder)
}

fn seconds(turn: u64, total: u64) -> ConversationLimits {
    ConversationLimits { turn: Duration::from_secs(turn), total: Duration::from_secs(total) }
}

fn failure(client: &Client, prompts: &[&str], limits: ConversationLimits) -> ClientError {
    client.converse(prompts, limits).unwrap_err()
}

#[test]
fn each_prompt_waits_for_the_result_before_it() {
    let (client, _folder) = client(
        "say({ type: 'assistant' }); console.log('not JSON'); console.error('careful');
         setTimeout(() => result(`${n}: ${prompt.length}`), 50);",
    );
    let prompts = ["one".to_owned(), "x".repeat(200_000), "ünf".to_owned()];
    let conversation = client.converse(&prompts, ConversationLimits::default()).unwrap();
    let texts: Vec<_> = conversation.turns.iter().map(|turn| turn.text.as_str()).collect();
    assert_eq!(texts, ["1: 3", "2: 200000", "3: 3"]);
    assert!(conversation.is_success());
    assert!(conversation.diagnostics.contains("careful"));
    assert!(conversation.diagnostics.contains("not JSON"));
}

#[test]
fn an_error_of_the_client_is_a_turn_that_failed() {
    let (client, _folder) = client(
        "process.exitCode = 1;
         if (n === 1) result('API Error: 400', { is_error: true });
         if (n === 2) say({ type: 'result', subtype: 'error_during_execution', errors: ['torn'] });
         if (n === 3) say({ type: 'result', subtype: 'error_max_turns' });",
    );
    let conversation = client.converse(&["a", "b", "c"], ConversationLimits::default()).unwrap();
    let turns: Vec<_> = conversation.turns.iter().map(|turn| (turn.is_error, turn.text.as_str())).collect();
    assert_eq!(turns, [(true, "API Error: 400"), (true, "[\"torn\"]"), (true, "error_max_turns")]);
    assert_eq!(conversation.status.code(), Some(1));
    assert!(!conversation.is_success());
}

#[test]
fn the_environment_is_clean_and_scratch() {
    let (client, _folder) =
        client("result(JSON.stringify({ env: process.env, cwd: process.cwd(), argv: process.argv.slice(2) }));");
    let client = client.api("http://127.0.0.1:4").env("CLAUDE_TEXT_PRUNE_KEEP", "2").arg("--more");
    let conversation = client.converse(&["x"], ConversationLimits::default()).unwrap();
    let seen: Value = serde_json::from_str(&conversation.turns[0].text).unwrap();
    let env = seen["env"].as_object().unwrap();

    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
    assert!(!env.contains_key("CARGO_MANIFEST_DIR"), "leaks the caller's environment");
    assert_eq!(env["ANTHROPIC_BASE_URL"], "http://127.0.0.1:4");
    assert_eq!(env["HTTPS_PROXY"], "http://127.0.0.1:9");
    assert_eq!(env["CLAUDE_TEXT_PRUNE_KEEP"], "2");
    assert_eq!(env["HOME"], client.home().to_str().unwrap());
    for name in ["USERPROFILE", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"] {
        let folder = Path::new(env[name].as_str().unwrap());
        assert!(folder.starts_with(client.home()), "{name} is {}", folder.display());
    }
    let same = |a: &Path, b: &Path| ctxbridge::common::paths::real(a).unwrap() == ctxbridge::common::paths::real(b).unwrap();
    assert!(same(Path::new(seen["cwd"].as_str().unwrap()), &client.project()));
    assert_eq!(seen["argv"][0], "-p");
    assert_eq!(seen["argv"].as_array().unwrap().last().unwrap(), "--more");

    let home = client.home();
    drop(client);
    assert!(!home.exists(), "the scratch home stays behind");
}

#[test]
fn without_an_api_or_a_fence_nothing_is_left_open() {
    let echo = "result([process.env.ANTHROPIC_BASE_URL, process.env.HTTPS_PROXY].join(' '));";
    let said = |client: &Client| client.converse(&["x"], ConversationLimits::default()).unwrap().turns[0].text.clone();
    let (client, _folder) = client(echo);
    assert_eq!(said(&client), "http://127.0.0.1:9 http://127.0.0.1:9");
    assert_eq!(said(&client.without_dead_proxy()), "http://127.0.0.1:9 ");
}

#[test]
fn a_turn_that_takes_too_long_ends_the_client() {
    let (client, _folder) = client(
        "require('fs').writeFileSync('pid', String(process.pid));
         console.error('thinking'); if (n === 1) result('fine');",
    );
    let error = failure(&client, &["a", "b"], seconds(3, 60));
    let ClientError::Timeout { step, limit, diagnostics, .. } = &error else { panic!("{error}") };
    assert_eq!((step.as_str(), *limit), ("answer prompt 2", Duration::from_secs(3)));
    assert!(diagnostics.starts_with("thinking"), "{diagnostics}");
    if cfg!(unix) {
        let pid = fs::read_to_string(client.project().join("pid")).unwrap();
        let alive = Command::new("kill").args(["-0", &pid]).output().unwrap();
        assert!(!alive.status.success(), "process {pid} is still there");
    }
}

#[test]
fn the_whole_conversation_has_a_limit_too() {
    let (client, _folder) = client("setTimeout(() => result('slow'), 600);");
    let error = failure(&client, &["a"; 20], seconds(60, 2));
    let ClientError::Timeout { limit, .. } = &error else { panic!("{error}") };
    assert_eq!(*limit, Duration::from_secs(2));
}

#[test]
fn a_client_that_does_not_exit_is_ended() {
    let (client, _folder) = client("result('done'); setInterval(() => {}, 1000);");
    let error = failure(&client, &["a"], seconds(60, 2));
    assert!(matches!(&error, ClientError::Timeout { step, .. } if step == "exit"), "{error}");
}

#[test]
fn a_client_that_reads_nothing_does_not_hold_us_up() {
    let (client, _folder) = script("setInterval(() => {}, 1000);");
    let error = failure(&client, &["x".repeat(1_000_000).as_str()], seconds(1, 60));
    assert!(matches!(error, ClientError::Timeout { .. }), "{error}");
}

#[test]
fn a_client_that_dies_says_why() {
    let (client, _folder) = script("console.error('x'.repeat(9000) + ' out of luck'); process.exit(3);");
    let error = failure(&client, &["a"], ConversationLimits::default());
    let ClientError::Ended { status, diagnostics, step, .. } = &error else { panic!("{error}") };
    assert_eq!((status.code(), step.as_str()), (Some(3), "answer prompt 1"));
    assert!(diagnostics.ends_with("x out of luck") && diagnostics.len() <= 4096);
}

#[test]
fn what_cannot_be_run_is_named() {
    let error = Client::node_script("no/such/cli.js").unwrap_err();
    assert!(error.to_string().starts_with("no client script at no/such/cli.js;"), "{error}");
    let missing = Client::new("no-such-program", ["a"]).unwrap();
    let error = missing.version().unwrap_err().to_string();
    assert!(error.starts_with("cannot start no-such-program:"), "{error}");
}

#[test]
fn the_version_is_what_the_client_prints() {
    let print = "if (process.argv[2] !== '--version') process.exit(9);";
    let (client, _folder) = script(&format!("{print} console.log('2.0.76 (Claude Code)');"));
    assert_eq!(client.version().unwrap(), "2.0.76 (Claude Code)");

    let (broken, _folder) = script("throw new Error('torn');");
    let error = broken.version().unwrap_err().to_string();
    assert!(error.contains("tell its version") && error.contains("Error: torn"), "{error}");
}

//! What a simulation says.

use ctxbridge_testkit::sandbox::Sandbox;
use ctxbridge_testkit::transcript::Kind;
use serde_json::{Value, json};

use super::{prune, prune_with, session};

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    session(&sandbox, "tools.jsonl", Kind::Tools, 480);
    sandbox
}

fn policy<'a>(said: &'a Value, name: &str) -> &'a Value {
    let policies = said["policies"].as_array().unwrap();
    policies.iter().find(|policy| policy["name"] == name).unwrap()
}

#[test]
fn as_a_sentence() {
    insta::assert_snapshot!(prune(&sandbox(), &["simulate", "tools.jsonl"]));
}

#[test]
fn as_a_table() {
    let said = prune(&sandbox(), &["simulate", "tools.jsonl", "-v"]);
    assert!(said.stdout.lines().all(|line| line.chars().count() <= 80), "{said}");
    insta::assert_snapshot!(said);
}

#[test]
fn as_json() {
    insta::assert_snapshot!(prune(&sandbox(), &["simulate", "tools.jsonl", "--json"]));
}

#[test]
fn several_transcripts_have_a_sum() {
    let sandbox = sandbox();
    session(&sandbox, "chat.jsonl", Kind::Chat, 60);
    insta::assert_snapshot!(prune(&sandbox, &["simulate", "tools.jsonl", "chat.jsonl"]));
    let said = prune(&sandbox, &["simulate", "--json", "tools.jsonl", "chat.jsonl"]).calm().json();
    for key in ["calls", "input_tokens", "cache_write_tokens", "compactions"] {
        let parts = said["transcripts"].as_array().unwrap().iter();
        let parts: u64 = parts.map(|part| policy(part, "fold")[key].as_u64().unwrap()).sum();
        assert_eq!(policy(&said, "fold")[key], parts, "{key}");
    }
}

/// Without pruning, a session that was never compacted is what the API counted, call by call.
#[test]
fn nothing_pruned_is_what_was_recorded() {
    let sandbox = Sandbox::new();
    let mut lines = String::new();
    let mut recorded = 0;
    for call in 0..40_u64 {
        let context = 15_000 + call * 777 + call % 3;
        recorded += context;
        let prompt =
            json!({ "type": "user", "message": { "role": "user", "content": "why? ".repeat(call as usize * 31 % 90 + 1) } });
        let usage = json!({ "input_tokens": 3, "cache_read_input_tokens": context - 3, "output_tokens": 9 });
        let content = json!([{ "type": "text", "text": "because. ".repeat(call as usize * 17 % 50) }]);
        let message = json!({ "id": format!("m{call}"), "model": "claude-opus-4-5", "content": content, "usage": usage });
        lines += &format!("{prompt}\n{}\n", json!({ "type": "assistant", "message": message }));
    }
    sandbox.write("work/recorded.jsonl", lines);
    let said = prune(&sandbox, &["simulate", "--json", "recorded.jsonl"]).calm().json();
    assert_eq!(policy(&said, "none")["input_tokens"], recorded);
    assert_eq!(policy(&said, "none")["peak_tokens"], 15_000 + 39 * 777);
    assert_eq!(policy(&said, "none")["verbatim_share"], 1.0);
    assert_eq!(said["transcripts"][0]["model"], "claude-opus-4-5");
}

#[test]
fn an_exact_cache_costs_no_more() {
    let sandbox = sandbox();
    let api = prune(&sandbox, &["simulate", "--json", "tools.jsonl"]).calm().json();
    let exact = prune(&sandbox, &["simulate", "--json", "tools.jsonl", "--cache", "exact"]).calm().json();
    assert_eq!(exact["cache"], "exact");
    let cost = |said: &Value, name: &str| policy(said, name)["cost_usd"].as_f64().unwrap();
    for name in ["none", "reference", "fold"] {
        assert!(cost(&exact, name) <= cost(&api, name), "{name}");
    }
    assert!(cost(&exact, "reference") < cost(&api, "reference"), "a cut in the middle leaves what is before it");
}

#[test]
fn a_smaller_window_is_compacted_more_often() {
    let sandbox = sandbox();
    let compactions = |args: &[&str], env: &[(&str, &str)]| {
        let said = prune_with(&sandbox, &[&["simulate", "--json", "tools.jsonl"], args].concat(), env).calm().json();
        let transcript = &said["transcripts"][0];
        (transcript["threshold_tokens"].as_u64().unwrap(), policy(&said, "none")["compactions"].as_u64().unwrap())
    };
    let (usual, few) = compactions(&[], &[]);
    assert_eq!(usual, 167_000);
    let (threshold, more) = compactions(&["--window", "93000"], &[]);
    assert!(threshold == 60_000 && more > few, "{more} and {few}");
    assert_eq!(compactions(&["--threshold", "60000"], &[]), (threshold, more));
    assert_eq!(compactions(&["--threshold", "30%"], &[]), (threshold, more));
    assert_eq!(compactions(&[], &[("CLAUDE_AUTOCOMPACT_PCT_OVERRIDE", "30")]), (threshold, more));
}

#[test]
fn prices_and_model_can_be_others() {
    let sandbox = sandbox();
    let cost = |args: &[&str]| {
        let said = prune(&sandbox, &[&["simulate", "--json", "tools.jsonl"], args].concat()).calm().json();
        (said["prices_dated"].clone(), policy(&said, "none")["cost_usd"].as_f64().unwrap())
    };
    let (_, usual) = cost(&[]);
    let (_, dear) = cost(&["--model", "claude-opus-4-1"]);
    assert!((dear / usual - 5.0).abs() < 1e-3, "{dear} {usual}");
    sandbox.write("work/free.toml", "dated = \"2030-01-01\"\n[fallback]\ninput = 0\noutput = 0\nnote = \"free\"\n");
    let said = prune(&sandbox, &["simulate", "--json", "tools.jsonl", "--prices", "free.toml"]);
    assert_eq!(said.stderr, "price: claude-sonnet-4-5: free\n");
    let json: Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!((policy(&json, "fold")["cost_usd"].as_f64(), &policy(&json, "fold")["cost_ratio"]), (Some(0.0), &Value::Null));
}

/// The environment's settings are ours, and its switch does not matter here.
#[test]
fn settings_are_those_of_the_environment() {
    let sandbox = sandbox();
    let peak = |env: &[(&str, &str)]| {
        let said = prune_with(&sandbox, &["simulate", "--json", "tools.jsonl"], env).calm().json();
        policy(&said, "fold")["peak_tokens"].as_u64().unwrap()
    };
    let usual = peak(&[]);
    assert_eq!(peak(&[("CLAUDE_TEXT_PRUNE", "off")]), usual);
    assert!(peak(&[("CLAUDE_TEXT_PRUNE_KEEP_TOKENS", "90000")]) > usual);
}

#[test]
fn settings_are_those_of_the_configuration() {
    let sandbox = sandbox();
    let left = |env: &[(&str, &str)]| {
        let config = sandbox.path("config");
        let env = [env, &[("CTXBRIDGE_CONFIG_DIR", config.to_str().unwrap())]].concat();
        let said = prune_with(&sandbox, &["preview", "--json", "tools.jsonl"], &env).calm().json();
        said["tokens_saved"].as_u64().unwrap()
    };
    let usual = left(&[]);
    std::fs::create_dir(sandbox.path("config")).unwrap();
    sandbox.write("config/config.toml", "[prune]\nprotect_tools = [\"Bash\", \"Read\", \"Grep\"]\n");
    assert!(left(&[]) < usual);
    assert_eq!(left(&[("CTXBRIDGE_PRUNE_PROTECT_TOOLS", "AskUserQuestion")]), usual);
}

/// Every session of the archive, without naming one.
#[test]
fn all_archived_sessions() {
    let sandbox = Sandbox::new();
    let none = prune(&sandbox, &["simulate", "--all"]);
    assert_eq!((none.code, none.stdout.as_str()), (Some(1), ""), "{none}");
    assert!(none.stderr.starts_with("the archive has no sessions"), "{none}");
    let made = [sandbox.generate(Kind::Tools, 480, 5).remove(0), sandbox.generate(Kind::Chat, 60, 6).remove(0)];
    sandbox.cli(&["archive", "import"]);
    insta::assert_snapshot!(prune(&sandbox, &["simulate", "--all"]));
    let ids = made.each_ref().map(|session| session.id.as_str());
    let all = prune(&sandbox, &["simulate", "--all", "--json"]).calm().json();
    let named = prune(&sandbox, &["simulate", "--json", ids[0], &ids[1][..8]]).calm().json();
    let files = made.each_ref().map(|session| session.path.to_str().unwrap());
    let read = prune(&sandbox, &["simulate", "--json", files[0], files[1]]).calm().json();
    for other in [&named, &read] {
        // Sums of fractions depend on their order.
        let round = |said: &Value| {
            let mut policies = said["policies"].clone();
            policies.as_array_mut().unwrap().iter_mut().for_each(|policy| policy["cost_usd"] = Value::Null);
            policies
        };
        assert_eq!(round(&all), round(other));
        assert_eq!(all["sessions_by_cost"], other["sessions_by_cost"]);
    }
    assert_eq!(named["transcripts"][0]["session"], ids[0]);
    assert_eq!(named["transcripts"][0]["transcript"], Value::Null);
    let missing = prune(&sandbox, &["simulate", "ffffffff"]);
    let why = "no session begins with ffffffff; `ctxbridge sessions` lists them\n";
    assert_eq!((missing.code, missing.stderr.as_str()), (Some(1), why));
}

/// A policy of the settings is the one that is compared with no pruning.
#[test]
fn the_sentence_is_of_the_policy_in_the_settings() {
    let sandbox = sandbox();
    let said = |policy: &str| {
        let env = [("CLAUDE_TEXT_PRUNE_POLICY", policy)];
        let said = prune_with(&sandbox, &["simulate", "tools.jsonl"], &env).calm().stdout;
        (said, prune_with(&sandbox, &["simulate", "tools.jsonl", "--json"], &env).calm().json())
    };
    for policy_name in ["fold", "reference"] {
        let (sentence, json) = said(policy_name);
        let cost = policy(&json, policy_name)["cost_usd"].as_f64().unwrap();
        assert_eq!(json["policy"], policy_name);
        assert!(sentence.contains(&format!("${cost:.2} instead of ")), "{sentence}");
    }
}

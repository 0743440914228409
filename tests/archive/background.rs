//! A sub-agent that runs in the background: the client says Stop twice, and its end comes as a prompt that nobody typed.

use std::fs;

use ctxbridge_testkit::sandbox::{Sandbox, run};
use serde_json::{Value, json};

use super::lines::Lines;

const PROMPT: &str = "Let an agent count the callers of skip_comment in the parser.";
const NOTIFICATION: &str = "<task-notification>\n<task-id>a1</task-id>\n<summary>The upload of ledgers does stall at midnight.</summary>\n</task-notification>";

#[test]
fn the_end_of_an_agent_is_no_prompt_and_the_second_stop_adds_to_the_turn() {
    let sandbox = Sandbox::new();
    let project = sandbox.path("project");
    fs::create_dir_all(project.join(".git")).unwrap();
    run(sandbox.command(&["bundle", "init"]).current_dir(&project), b"").done();
    for (number, prompt) in [(1, "Who calls skip_comment in the parser?"), (3, "Does the upload of ledgers stall at midnight?")] {
        let said = Lines::of("earlier").seed(number).turn(prompt).replace("/home/dev/src/ledger", project.to_str().unwrap());
        sandbox.quiet_hook("stop", &sandbox.talk(number as u32, said).input());
    }
    run(sandbox.command(&["archive", "search", "parser"]), b"").done();

    let mut lines = Lines::of("now").seed(2);
    let talk = sandbox.talk(2, "");
    let input = |more: Value| {
        let mut input = talk.input_with(more);
        input["cwd"] = json!(project);
        input
    };
    let agent = json!({ "description": "count callers", "prompt": PROMPT, "subagent_type": "general-purpose" });
    let told = sandbox.hook("user-prompt-submit", &input(json!({ "prompt": PROMPT, "prompt_id": "p1" }))).context().unwrap();
    assert!(told.contains("Who calls skip_comment"), "{told}");
    talk.append(lines.prompt(PROMPT) + &lines.call("Agent", agent.clone()));
    let launched = json!({ "isAsync": true, "status": "async_launched", "agentId": "a1", "description": "count callers" });
    sandbox.quiet_hook("post-tool-use", &input(json!({ "tool_name": "Agent", "tool_input": agent, "tool_response": launched })));
    talk.append(lines.result("Async agent launched successfully.") + &lines.answer("It is counting."));
    let working = json!([{ "id": "a1", "type": "subagent", "status": "running" }]);
    sandbox.quiet_hook("stop", &input(json!({ "stop_hook_active": false, "background_tasks": working })));
    // The archive has no more than one turn of it, and that is not closed.
    let shown = || sandbox.json(&["archive", "show", &talk.id]);
    assert_eq!(shown()["turns"].as_array().unwrap().len(), 1);

    // Its words are those of an earlier turn, which a user would be told of.
    let asked = NOTIFICATION.replace(['<', '>'], " ");
    let other = sandbox.talk(4, "").input_with(json!({ "prompt": asked, "cwd": project }));
    assert!(sandbox.hook("user-prompt-submit", &other).context().unwrap().contains("stall at midnight"));
    sandbox.quiet_hook("user-prompt-submit", &input(json!({ "prompt": NOTIFICATION, "prompt_id": "p2" })));
    talk.append(lines.other(json!({
        "type": "user", "message": { "role": "user", "content": NOTIFICATION }, "origin": { "kind": "task-notification" },
        "turnOrigin": "task_notification", "promptSource": "system",
    })));
    talk.append(lines.answer("There are two callers."));
    sandbox.quiet_hook("stop", &input(json!({ "stop_hook_active": false, "background_tasks": [] })));
    sandbox.quiet_hook("session-end", &input(json!({ "reason": "other" })));

    assert_eq!(shown()["turns"].as_array().unwrap().len(), 1, "{:#}", shown());
    let found = run(sandbox.command(&["archive", "search", "--json", "two callers"]), b"").done().json();
    assert_eq!(found["results"][0]["session"], talk.id, "what came after the notification is in the turn: {found:#}");
    assert_eq!(sandbox.restored(&talk.id, &[]), talk.bytes());
    let noted: String = fs::read_dir(project.join(".ctxbridge/bundles"))
        .unwrap()
        .map(|file| file.unwrap().path())
        .filter(|path| path.to_string_lossy().contains(&talk.id))
        .map(|path| fs::read_to_string(path).unwrap())
        .collect();
    assert_eq!(noted.lines().count(), 2, "the prompt and the agent: {noted}");
    assert!(!noted.contains("notification"), "{noted}");
    assert_eq!(sandbox.log(), [Value::Null; 0]);
}

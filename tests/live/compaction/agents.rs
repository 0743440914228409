//! The conversation of a sub-agent is compacted like the user's.

use ctxbridge::stub::{RequestKind, ScriptedReply, ToolCall};
use serde_json::json;

use super::stage::{Stage, Turn, count, counted, holds_the_cut, is_folded};
use super::{LINES, WINDOW, calls};
use crate::live::agentic::handles;

const TASK: &str = "Count the plovers on each beach, one by one.";

/// Its requests are the client's side requests with this prompt.
fn the_conversation_of_an_agent(version: &'static str) {
    let stage = Stage::new(version, WINDOW);
    let steps = (1..=26).map(|number| calls([count(number, LINES)]));
    stage.script_agent(steps.chain([ScriptedReply::Text("The agent has counted.".into())]));
    let input = json!({ "description": "count", "prompt": TASK, "subagent_type": "general-purpose", "run_in_background": false });
    let call = calls([ToolCall { name: "Agent".into(), input }]);
    let said = stage.say(vec![Turn::with_calls("Have an agent count.", [call], "It has."), Turn::new("And now?", "Nothing.")]);
    assert_eq!((stage.summaries(), stage.answered()), (0, vec!["auto".to_owned()]), "{version}");
    let is_of_agent = |text: &str| text.contains(TASK);
    let of_agent: Vec<_> = said
        .iter()
        .filter(|request| request.kind == RequestKind::Side)
        .filter(|request| request.text_blocks().iter().any(|block| is_of_agent(block.text)))
        .collect();
    let cut = of_agent.iter().position(|request| is_folded(request));
    let cut = cut.expect("a request with a digest");
    let (before, kept) = (counted(of_agent[cut - 1]), counted(of_agent[cut]));
    println!("{version}: {} tokens, then {}: {before:?} became {kept:?}", of_agent[cut - 1].tokens, of_agent[cut].tokens);
    for request in &of_agent[cut..] {
        holds_the_cut(version, request, &before, &kept);
    }
    handles::resolve(version, of_agent.iter().map(|request| &***request), |handle| stage.ctxbridge(&["recall", handle]));
    assert_eq!(stage.log(), "", "{version}");
}

scenes! {
    #[ignore = "nightly: another release is tried"]
    the_conversation_of_an_agent_2_1_280: the_conversation_of_an_agent("2.1.280"),
    #[ignore = "nightly: another release is tried"]
    the_conversation_of_an_agent_2_1_295: the_conversation_of_an_agent("2.1.295"),
    #[ignore = "nightly: another release is tried"]
    the_conversation_of_an_agent_2_1_311: the_conversation_of_an_agent("2.1.311"),
    #[ignore = "nightly: it is much the same in the middle of a turn"]
    the_conversation_of_an_agent_2_1_330: the_conversation_of_an_agent("2.1.330"),
    #[ignore = "nightly: another release is tried"]
    the_conversation_of_an_agent_2_1_332: the_conversation_of_an_agent("2.1.332"),
}

//! The tools: their descriptions for a model, and their functions.

use std::sync::Arc;

use rmcp::model::{JsonObject, Tool, ToolAnnotations};

use super::answer::ToolAnswer;
use super::arguments::{self, schema_of_input, schema_of_output};
use super::error::ToolError;
use super::{Library, learnings, recall, search, session, timeline};

/// A tool.
struct ToolEntry {
    name: &'static str,
    title: &'static str,
    description: &'static str,
    input: fn() -> Arc<JsonObject>,
    output: fn() -> Arc<JsonObject>,
    run: fn(&mut Library, &JsonObject) -> Result<ToolAnswer, ToolError>,
}

/// All tools.
const TOOLS: [ToolEntry; 5] = [
    ToolEntry {
        name: "search",
        title: "Search earlier conversations",
        description: "Finds turns of this and earlier Claude Code sessions by words and meaning: what was said, decided, tried, run or \
                      edited, also what a compaction took out of the context. Use it before asking the user for something that may \
                      have come up before, or when work seems to have been done already. Each hit has a handle (ctx:1a2b3c4d) for \
                      `recall`.",
        input: schema_of_input::<arguments::SearchArguments>,
        output: schema_of_output::<search::SearchOutput>,
        run: search::run,
    },
    ToolEntry {
        name: "recall",
        title: "Recall by handle",
        description: "Gives the full text behind a handle: ctx:1a2b3c4d is a turn (prompt, tool calls, answer), ctx:1a2b3c4d..5e6f7a8b the \
                      messages behind `[earlier context folded: …, recall ctx:1a2b3c4d..5e6f7a8b]`, ctx:1a2b3c4d.0 one text of them, such \
                      as the result of a call that is listed there, ctx:summary.12 a compaction's summary. Use it whenever you need \
                      what such a handle stands for, rather than guess.",
        input: schema_of_input::<arguments::RecallArguments>,
        output: schema_of_output::<recall::RecallOutput>,
        run: recall::run,
    },
    ToolEntry {
        name: "timeline",
        title: "What happened in a session",
        description: "Lists the turns of one session, one line each with handle and time, and its compactions, in order of time. Use it to \
                      see how work went on before a compaction or in an earlier session; `session` and `search` give ids.",
        input: schema_of_input::<arguments::TimelineArguments>,
        output: schema_of_output::<timeline::TimelineOutput>,
        run: timeline::run,
    },
    ToolEntry {
        name: "session",
        title: "Archived sessions",
        description: "Lists archived sessions, the newest first: id, folder, times, number of turns and compactions, model. Use it to find \
                      out which sessions there are of a project, or the facts of one session.",
        input: schema_of_input::<arguments::SessionArguments>,
        output: schema_of_output::<session::SessionsOutput>,
        run: session::run,
    },
    ToolEntry {
        name: "learnings",
        title: "What was decided and found out",
        description: "Lists what was learned in archived sessions, one sentence each as it was said: decisions with their reasons, causes of \
                      faults and what fixed them, outcomes, hand-offs, checkpoints. Use it before deciding something again, or when \
                      something fails that may have failed before. With a query the best first, else those with reasons; what was taken back \
                      is left out unless asked for.",
        input: schema_of_input::<arguments::LearningsArguments>,
        output: schema_of_output::<learnings::LearningsOutput>,
        run: learnings::run,
    },
];

/// Lists the tools for a client.
pub fn list() -> Vec<Tool> {
    let tool = |entry: &ToolEntry| {
        let annotations = ToolAnnotations::with_title(entry.title).read_only(true).idempotent(true).open_world(false);
        Tool::new(entry.name, entry.description, (entry.input)())
            .with_title(entry.title)
            .with_raw_output_schema((entry.output)())
            .with_annotations(annotations)
    };
    TOOLS.iter().map(tool).collect()
}

/// Calls a tool.
///
/// # Errors
/// If there is no such tool, its arguments are wrong, or it cannot answer.
pub fn call(library: &mut Library, name: &str, arguments: &JsonObject) -> Result<ToolAnswer, ToolError> {
    let Some(entry) = TOOLS.iter().find(|entry| entry.name == name) else {
        let names: Vec<&str> = TOOLS.iter().map(|entry| entry.name).collect();
        return Err(ToolError::invalid_argument("name", format!("there is no tool {name:?}; there are {}", names.join(", "))));
    };
    (entry.run)(library, arguments)
}

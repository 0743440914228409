//! Arguments of tools: read strictly, so that a wrong argument is named.

use std::collections::BTreeMap;
use std::sync::Arc;

use clap::ValueEnum;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use rmcp::model::JsonObject;
use rmcp::schemars::JsonSchema;
use rmcp::schemars::generate::{Contract, SchemaSettings};
use serde::de::{DeserializeOwned, Error, IntoDeserializer};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::Library;
use super::error::ToolError;
use ctxbridge_archive::learn::LearningKind;
use ctxbridge_archive::project::{KnownFolders, ProjectError, ProjectScope};
use ctxbridge_archive::search::{Mode, TextKind, time};
use ctxbridge_archive::store::Store;

/// Arguments of `search`.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
#[serde(deny_unknown_fields)]
pub(super) struct SearchArguments {
    /// The query: words, names of code, paths, error messages, or a description. Text in "quotes" is matched exactly, and * after a
    /// word matches any ending. A time in it counts: yesterday, last week, in March, 2026-05-04.
    pub query: String,
    /// Only in sessions that worked in this folder or below; the end of its path is enough, `.` is the current one
    pub project: Option<String>,
    /// Only in this session; the start of its id is enough
    pub session: Option<String>,
    /// Only what began then or later: a day (2026-05-04), a time (2026-05-04T12:00:00Z), or words such as `last week`
    pub since: Option<String>,
    /// Only what began before then
    pub until: Option<String>,
    /// Only turns that used this tool, such as Bash
    pub tool: Option<String>,
    /// Only turns that read or wrote a file with this in its path
    pub file: Option<String>,
    /// Only words that stand in prompts, in answers, in calls and results of tools, in paths of files, or in summaries
    #[schemars(with = "Option<String>", extend("enum" = ["prompt", "answer", "tool", "file", "summary"]))]
    #[serde(default, deserialize_with = "named")]
    pub kind: Option<TextKind>,
    /// Hits on a page at most; 10 unless given
    #[schemars(range(min = 1, max = 50))]
    pub limit: Option<u32>,
    /// Compare words (lexical), meaning (dense), or both (hybrid, the default)
    #[schemars(with = "Option<String>", extend("enum" = ["lexical", "dense", "hybrid"]))]
    #[serde(default, deserialize_with = "named")]
    pub mode: Option<Mode>,
    /// Size of the answer in tokens; 2000 unless given
    #[schemars(range(min = 500, max = 20_000))]
    pub max_tokens: Option<u32>,
    /// `next_cursor` of the page before, with the same arguments
    pub cursor: Option<String>,
}

/// Arguments of `recall`.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
#[serde(deny_unknown_fields)]
pub(super) struct RecallArguments {
    /// ctx:1a2b3c4d (a turn), ctx:1a2b3c4d..5e6f7a8b (messages that were folded), ctx:1a2b3c4d.0 (a text of one) or ctx:summary.12 (a
    /// compaction's summary)
    pub handle: String,
    /// Size of the answer in tokens; 2000 unless given
    #[schemars(range(min = 500, max = 20_000))]
    pub max_tokens: Option<u32>,
    /// `next_cursor` of the page before, with the same handle
    pub cursor: Option<String>,
}

/// Arguments of `timeline`.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
#[serde(deny_unknown_fields)]
pub(super) struct TimelineArguments {
    /// The session's id, or the start of it
    pub session: String,
    /// Only what began then or later: a day, a time, or words such as `yesterday`
    pub since: Option<String>,
    /// Only what began before then
    pub until: Option<String>,
    /// Begin with the newest
    pub newest_first: Option<bool>,
    /// Size of the answer in tokens; 2000 unless given
    #[schemars(range(min = 500, max = 20_000))]
    pub max_tokens: Option<u32>,
    /// `next_cursor` of the page before, with the same arguments
    pub cursor: Option<String>,
}

/// Arguments of `session`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
#[serde(deny_unknown_fields)]
pub(super) struct SessionArguments {
    /// Only sessions whose id begins so
    pub session: Option<String>,
    /// Only sessions that worked in this folder or below; the end of its path is enough, `.` is the current one
    pub project: Option<String>,
    /// Size of the answer in tokens; 2000 unless given
    #[schemars(range(min = 500, max = 20_000))]
    pub max_tokens: Option<u32>,
    /// `next_cursor` of the page before, with the same arguments
    pub cursor: Option<String>,
}

/// Arguments of `learnings`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
#[serde(deny_unknown_fields)]
pub(super) struct LearningsArguments {
    /// Words of it
    pub query: Option<String>,
    /// Only decisions, solutions, outcomes, hand-offs, or checkpoints
    #[schemars(with = "Option<String>", extend("enum" = ["decision", "solution", "outcome", "handoff", "checkpoint"]))]
    #[serde(default, deserialize_with = "learning_kind")]
    pub kind: Option<LearningKind>,
    /// Only of sessions that worked in this folder or below; the end of its path is enough, `.` is the current one
    pub project: Option<String>,
    /// Only what was said then or later: a day, a time, or words such as `last week`
    pub since: Option<String>,
    /// Also what was taken back by a later decision
    pub with_superseded: Option<bool>,
    /// Size of the answer in tokens; 2000 unless given
    #[schemars(range(min = 500, max = 20_000))]
    pub max_tokens: Option<u32>,
    /// `next_cursor` of the page before, with the same arguments
    pub cursor: Option<String>,
}

/// Parses the arguments of a tool.
///
/// # Errors
/// If one is missing, unknown or of a wrong type.
pub(super) fn read<T: DeserializeOwned>(given: &JsonObject) -> Result<T, ToolError> {
    serde_path_to_error::deserialize(Value::Object(given.clone())).map_err(|error| {
        let why = in_plain_words(&error.inner().to_string());
        // What is missing or unknown is named by the message alone.
        let named = why.split('`').nth(1).unwrap_or("arguments").to_owned();
        let path = error.path().to_string();
        let is_of_all = path == "." || why.starts_with("missing field") || why.starts_with("unknown field");
        ToolError::InvalidArgument { name: if is_of_all { named } else { path }, why }
    })
}

/// The reason without the name of a Rust type, which means nothing to a model.
fn in_plain_words(why: &str) -> String {
    why.replace("expected u32", "expected a whole number from 0 on")
}

/// Text that identifies a request, for cursors. It does not depend on the order of arguments, the page or its size.
pub(super) fn request_key(tool: &str, given: &JsonObject) -> String {
    let counts = |(name, value): &(&String, &Value)| !matches!(name.as_str(), "cursor" | "max_tokens") && !value.is_null();
    let sorted: BTreeMap<_, _> = given.iter().filter(counts).collect();
    format!("{tool} {}", serde_json::to_string(&sorted).unwrap_or_default())
}

/// Parses a time, in milliseconds since 1970; for a period, its start.
///
/// # Errors
/// If the text is no time.
pub(super) fn moment(name: &str, text: Option<&str>) -> Result<Option<i64>, ToolError> {
    let Some(text) = text else { return Ok(None) };
    time::parse_moment(text, Timestamp::now(), &TimeZone::system())
        .map(Some)
        .map_err(|why| ToolError::invalid_argument(name, why))
}

/// Resolves the name of a project by the folders that the archive knows: `.` is the client's.
///
/// # Errors
/// If there is no such folder, or several are named so.
pub(super) fn project(given: Option<&str>, library: &Library, store: &mut dyn Store) -> Result<Option<ProjectScope>, ToolError> {
    let Some(named) = given else { return Ok(None) };
    let known = KnownFolders::of(store, library.remote().is_some())?;
    match ProjectScope::resolve(named, library.folder(), &known) {
        Err(ProjectError::Store(error)) => Err(error.into()),
        resolved => resolved.map(Some).map_err(|why| ToolError::invalid_argument("project", why.to_string())),
    }
}

/// Deserializes one of a few names.
fn named<'de, D: Deserializer<'de>, T: ValueEnum>(deserializer: D) -> Result<Option<T>, D::Error> {
    let Some(name) = Option::<String>::deserialize(deserializer)? else { return Ok(None) };
    T::from_str(&name, true).map(Some).map_err(|_| {
        let names: Vec<String> =
            T::value_variants().iter().filter_map(|one| Some(one.to_possible_value()?.get_name().to_owned())).collect();
        D::Error::custom(format!("{name:?} is not one of {}", names.join(", ")))
    })
}

/// Deserializes a kind of learnings from a string alone: an enum could be written as an object as well.
fn learning_kind<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<LearningKind>, D::Error> {
    let Some(name) = Option::<String>::deserialize(deserializer)? else { return Ok(None) };
    LearningKind::deserialize(name.into_deserializer()).map(Some)
}

/// The schema of arguments.
pub(super) fn schema_of_input<T: JsonSchema>() -> Arc<JsonObject> {
    schema::<T>(Contract::Deserialize)
}

/// The schema of a result.
pub(super) fn schema_of_output<T: JsonSchema>() -> Arc<JsonObject> {
    schema::<T>(Contract::Serialize)
}

/// Makes a schema without parts that a model does not need: references, formats of numbers, and null for optional fields.
fn schema<T: JsonSchema>(contract: Contract) -> Arc<JsonObject> {
    let is_input = contract == Contract::Deserialize;
    let mut settings = SchemaSettings::draft2020_12();
    settings.inline_subschemas = true;
    settings.contract = contract;
    settings.meta_schema = None;
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    simplify(&mut schema, is_input);
    let Value::Object(mut object) = schema else { return Arc::default() };
    for key in ["title", "description"] {
        object.remove(key);
    }
    Arc::new(object)
}

fn simplify(schema: &mut Value, is_input: bool) {
    match schema {
        Value::Object(fields) => {
            if fields.get("format").is_some_and(Value::is_string) {
                fields.remove("format");
            }
            if is_input && fields.get("default").is_some_and(Value::is_null) {
                fields.remove("default");
            }
            if let Some(Value::Array(types)) = fields.get_mut("type").filter(|_| is_input) {
                types.retain(|name| name != "null");
                if let [only] = types.as_slice() {
                    let only = only.clone();
                    fields.insert("type".to_owned(), only);
                }
            }
            if let Some(Value::String(text)) = fields.get_mut("description") {
                *text = text.replace('\n', " ");
            }
            fields.values_mut().for_each(|value| simplify(value, is_input));
        }
        Value::Array(items) => items.iter_mut().for_each(|value| simplify(value, is_input)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn failed<T: DeserializeOwned + std::fmt::Debug>(given: Value) -> String {
        let Value::Object(given) = given else { panic!("an object") };
        read::<T>(&given).expect_err("wrong").to_string()
    }

    #[test]
    fn what_is_wrong_is_named() {
        assert_eq!(failed::<SearchArguments>(json!({})), "`query`: missing field `query`");
        assert!(failed::<SearchArguments>(json!({ "query": "a", "limits": 1 })).starts_with("`limits`: unknown field `limits`"));
        let limit = failed::<SearchArguments>(json!({ "query": "a", "limit": "many" }));
        assert_eq!(limit, "`limit`: invalid type: string \"many\", expected a whole number from 0 on");
        assert_eq!(failed::<SearchArguments>(json!({ "query": ["a"] })), "`query`: invalid type: sequence, expected a string");
        let kind = failed::<LearningsArguments>(json!({ "kind": 5 }));
        assert_eq!(kind, "`kind`: invalid type: integer `5`, expected a string");
        let kind = "`kind`: \"words\" is not one of prompt, answer, tool, file, summary";
        assert_eq!(failed::<SearchArguments>(json!({ "query": "a", "kind": "words" })), kind);
        assert!(
            moment("since", Some("soonish")).expect_err("no time").to_string().starts_with("`since`: \"soonish\" is no time")
        );
        let error = moment("until", Some("blah yesterday blub")).expect_err("a time in something else").to_string();
        assert!(error.starts_with("`until`: \"blah yesterday blub\" is no time; give a day as in 2026-05-04"), "{error}");
        assert_eq!(moment("since", Some("1970-01-01T00:00:01Z")).expect("a time"), Some(1_000));
    }

    #[test]
    fn the_schema_names_the_choices_that_are_read() {
        let schema = schema_of_input::<SearchArguments>();
        let names = |list: Vec<String>| Value::from(list);
        let of = |variants: &[&str]| names(variants.iter().map(|name| (*name).to_owned()).collect());
        let kinds: Vec<String> =
            TextKind::value_variants().iter().filter_map(|kind| Some(kind.to_possible_value()?.get_name().to_owned())).collect();
        assert_eq!(schema["properties"]["kind"]["enum"], names(kinds));
        assert_eq!(schema["properties"]["mode"]["enum"], of(&["lexical", "dense", "hybrid"]));
        assert_eq!(schema["required"], of(&["query"]));
        assert_eq!(schema["properties"]["limit"]["type"], "integer");
    }

    #[test]
    fn the_order_of_arguments_does_not_count() {
        let of = |value: Value| match value {
            Value::Object(given) => request_key("search", &given),
            _ => String::new(),
        };
        let one = of(json!({ "query": "a", "project": "b", "cursor": "1-x", "max_tokens": 700, "tool": null }));
        assert_eq!(one, of(json!({ "project": "b", "query": "a" })));
        assert_ne!(one, of(json!({ "query": "a" })));
    }
}

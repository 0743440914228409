/*!
The answer to a client that is about to compact: the messages that stay, instead of a summary.

The client hands its messages to a plugin as *rows* ([`Row`]), one for each line of its transcript that has a message, and takes a list of rows back.
A row that names the one that it was stays as it is, with all that only the client knows of it: images, thinking, attachments. Any other is made anew, of
text, calls and results alone.

What is folded is decided by [`Fold::compact`], on the messages of the transcript: they say more than the rows, and have those that a patched client folded
already.

Only prompts name the row that they were. An answer that does brings back, when the session is resumed, all lines of the transcript with its
id, and their results whole, beside those that are here. So each answer is made anew, as one row for all of its lines, and its results are another one.
*/

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::PruneSettings;
use crate::fold::{Fold, MessageView};
use crate::message::{conversation_content, is_type, plain_texts};
use crate::simulate::ReplayConversation;

/// A message as the client hands it over.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// `user` or `assistant`.
    pub role: String,
    /// Its texts, joined.
    #[serde(default)]
    pub text: String,
    /// Calls of an answer.
    #[serde(default)]
    pub tool_uses: Vec<RowCall>,
    /// Results of calls.
    #[serde(default)]
    pub tool_results: Vec<RowResult>,
    /// The id of its line in the transcript.
    pub handle: Option<String>,
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowCall {
    /// Its id.
    pub tool_use_id: String,
    /// Name of the tool.
    pub tool: String,
    /// Its arguments.
    pub input: Value,
}

/// The result of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowResult {
    /// The id of the call.
    pub tool_use_id: String,
    /// Its text.
    pub text: String,
    /// `true` if the call failed.
    #[serde(default, rename = "isError")]
    pub is_error: bool,
}

/// A message that stays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum AnswerRow {
    /// One of the client's rows, by its index, as it is.
    Kept {
        /// The index.
        row: usize,
    },
    /// A new one.
    #[serde(rename_all = "camelCase")]
    New {
        /// `user` or `assistant`.
        role: &'static str,
        /// Its text.
        text: String,
        /// Calls of an answer.
        tool_uses: Vec<RowCall>,
        /// Results of calls.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_results: Vec<RowResult>,
    },
}

/// The reason why the client is to compact by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Declined {
    /// The transcript has none of the rows: it is another one.
    #[error("the transcript has none of the messages that the client is about to compact")]
    OtherTranscript,
    /// Something would be folded that the transcript does not have.
    #[error("the transcript does not have all of what would be folded")]
    NotWritten,
    /// Folding does not free enough.
    #[error("folding would not free enough")]
    TooLittle,
}

/// Answers a compaction. `transcript` has the lines from the last compaction on; it need not have the newest ones yet.
///
/// # Errors
/// If the client is to compact by itself.
pub fn answer(rows: &[Row], transcript: &ReplayConversation, settings: &PruneSettings) -> Result<Vec<AnswerRow>, Declined> {
    let messages = Messages::of(rows, transcript)?;
    let mut fold = Fold::for_compactions(settings);
    messages.list.iter().for_each(|message| fold.push(&message.value));
    if !fold.compact() {
        return Err(Declined::TooLittle);
    }
    let views = fold.views(messages.list.iter().map(|message| &message.value));
    let mut writer = AnswerWriter { rows, answer: Vec::new(), open: OpenAnswer::default() };
    for (message, view) in messages.list.iter().zip(&views) {
        let is_gone = matches!(view, MessageView::Gone(_) | MessageView::Digest(_) | MessageView::Short);
        if is_gone && !message.is_written && view != &MessageView::Gone(None) {
            return Err(Declined::NotWritten);
        }
        writer.add(message, view);
    }
    Ok(writer.finish())
}

/// Text in the place of an image in a result.
const NO_IMAGE: &str = "\n[an image was here: call the tool again to see it]";

/// The model of what the client writes in the model's name, and of what a compaction made anew.
const NO_MODEL: &str = "<synthetic>";

/// `true` if the result of a call has an image.
fn has_image(message: &Value, call: &str) -> bool {
    let blocks = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let results = conversation_content(message).map(blocks).unwrap_or_default();
    let of_call = results.iter().filter(|block| block["tool_use_id"] == call);
    of_call.flat_map(|block| blocks(&block["content"])).any(|part| is_type(&part, "image"))
}

/// A message of the conversation, oldest first.
struct Message {
    value: Value,
    /// Index of its row; none if the client has folded it, or it never was one.
    row: Option<usize>,
    /// `true` if the transcript has it.
    is_written: bool,
    /// Texts of the client for the model behind it, such as that of a skill.
    told: Vec<String>,
}

struct Messages {
    list: Vec<Message>,
}

impl Messages {
    /// Puts rows and lines together, in their order.
    fn of(rows: &[Row], transcript: &ReplayConversation) -> Result<Self, Declined> {
        let id = |value: &Value| value["uuid"].as_str().map(str::to_owned);
        let places: HashMap<String, usize> =
            transcript.messages.iter().enumerate().filter_map(|(place, line)| Some((id(&line.value)?, place))).collect();
        let mut messages = Self { list: Vec::new() };
        let mut next = 0;
        for (index, row) in rows.iter().enumerate() {
            let place = row.handle.as_ref().and_then(|handle| places.get(handle)).copied().filter(|place| *place >= next);
            let Some(place) = place else {
                messages.list.push(Message { value: message_of(row), row: Some(index), is_written: false, told: Vec::new() });
                continue;
            };
            transcript.messages[next..place].iter().for_each(|line| messages.add_line(&line.value, None));
            messages.add_line(&transcript.messages[place].value, Some(index));
            next = place + 1;
        }
        // What the client told behind the last row.
        let rest = transcript.messages[next..].iter().take_while(|line| is_meta(&line.value));
        rest.for_each(|line| messages.add_line(&line.value, None));
        messages.unite_answers();
        if messages.list.iter().any(|message| message.is_written && message.row.is_some()) {
            Ok(messages)
        } else {
            Err(Declined::OtherTranscript)
        }
    }

    /// Rows that a compaction made anew have an id each, and those that are not written yet have none: what stands together is one answer.
    fn unite_answers(&mut self) {
        let mut before = None;
        for message in &mut self.list {
            if !is_type(&message.value, "assistant") {
                before = None;
                continue;
            }
            let own = message.value["message"]["id"].as_str().or(message.value["uuid"].as_str()).map(str::to_owned);
            if !message.is_written || message.value["message"]["model"] == NO_MODEL {
                let id = before.or(own);
                message.value["message"]["id"] = json!(id);
                message.value["message"]["model"] = Value::Null;
                before = id;
            } else {
                before = own;
            }
        }
    }

    fn add_line(&mut self, value: &Value, row: Option<usize>) {
        // The model never saw that.
        if value["isApiErrorMessage"] == true {
            return;
        }
        // A summary that the client goes on from is a row.
        if conversation_content(value).is_none() || (value["isCompactSummary"] == true && row.is_none()) {
            return;
        }
        if is_meta(value) {
            if let Some(last) = self.list.last_mut() {
                last.told.extend(plain_texts(value).into_iter().map(|(_, text)| text.to_owned()));
            }
            return;
        }
        self.list.push(Message { value: value.clone(), row, is_written: true, told: Vec::new() });
    }
}

fn is_meta(value: &Value) -> bool {
    is_type(value, "user") && value["isMeta"] == true
}

/// A message of the client, from a row that the transcript does not have yet.
fn message_of(row: &Row) -> Value {
    let text = (!row.text.is_empty()).then(|| json!({ "type": "text", "text": row.text }));
    let calls = row
        .tool_uses
        .iter()
        .map(|call| json!({ "type": "tool_use", "id": call.tool_use_id, "name": call.tool, "input": call.input }));
    let results = row.tool_results.iter().map(|result| {
        json!({ "type": "tool_result", "tool_use_id": result.tool_use_id, "content": result.text, "is_error": result.is_error })
    });
    let is_answer = row.role == "assistant";
    let content: Vec<Value> = if is_answer { text.into_iter().chain(calls).collect() } else { results.chain(text).collect() };
    let kind = if is_answer { "assistant" } else { "user" };
    json!({ "type": kind, "uuid": row.handle, "message": { "role": kind, "content": content } })
}

/// The rows of an answer, which become one.
#[derive(Default)]
struct OpenAnswer {
    id: Option<String>,
    texts: Vec<String>,
    calls: Vec<RowCall>,
    results: Vec<RowResult>,
    /// Texts beside results.
    said: Vec<String>,
}

struct AnswerWriter<'r> {
    rows: &'r [Row],
    answer: Vec<AnswerRow>,
    open: OpenAnswer,
}

impl AnswerWriter<'_> {
    fn add(&mut self, message: &Message, view: &MessageView) {
        match view {
            MessageView::Gone(_) => return,
            MessageView::Digest(text) => return self.say(text.clone()),
            MessageView::Whole | MessageView::WithoutThinking | MessageView::Short => {}
        }
        let Some((index, row)) = message.row.and_then(|index| Some((index, self.rows.get(index)?))) else { return };
        if row.role == "assistant" {
            let id = message.value["message"]["id"].as_str().or(message.value["uuid"].as_str());
            if self.open.id.as_deref() != id {
                self.close();
                self.open.id = id.map(str::to_owned);
            }
            self.open.texts.extend((!row.text.trim().is_empty()).then(|| row.text.clone()));
            self.open.calls.extend(row.tool_uses.iter().cloned());
        } else if !row.tool_results.is_empty() {
            self.open.results.extend(row.tool_results.iter().map(|result| RowResult {
                text: format!("{}{}", result.text, if has_image(&message.value, &result.tool_use_id) { NO_IMAGE } else { "" }),
                ..result.clone()
            }));
            self.open.said.extend((!row.text.trim().is_empty()).then(|| row.text.clone()));
        } else {
            let has_more = conversation_content(&message.value)
                .and_then(Value::as_array)
                .is_some_and(|blocks| blocks.iter().any(|block| !is_type(block, "text")));
            self.close();
            let short = view.of(&message.value).filter(|_| *view == MessageView::Short && !has_more);
            match short {
                Some(short) => {
                    self.say(plain_texts(&short).into_iter().map(|(_, text)| text).collect::<Vec<_>>().join("\n"));
                }
                // What the client told behind it stays with it.
                None => {
                    self.answer.push(AnswerRow::Kept { row: index });
                    return;
                }
            }
        }
        self.open.said.extend(message.told.iter().cloned());
    }

    /// Adds something that is said to the model in the user's name.
    fn say(&mut self, text: String) {
        self.close();
        if !text.trim().is_empty() {
            self.answer.push(AnswerRow::New { role: "user", text, tool_uses: Vec::new(), tool_results: Vec::new() });
        }
    }

    /// Writes the open answer and its results. A call without a result, and a result without its call, are left out.
    fn close(&mut self) {
        let OpenAnswer { texts, mut calls, mut results, said, .. } = std::mem::take(&mut self.open);
        let answered: HashSet<String> = results.iter().map(|result| result.tool_use_id.clone()).collect();
        calls.retain(|call| answered.contains(&call.tool_use_id));
        results.retain(|result| calls.iter().any(|call| call.tool_use_id == result.tool_use_id));
        let mut seen = HashSet::new();
        results.retain(|result| seen.insert(result.tool_use_id.clone()));
        if !texts.is_empty() || !calls.is_empty() {
            self.answer.push(AnswerRow::New {
                role: "assistant",
                text: texts.join("\n\n"),
                tool_uses: calls,
                tool_results: Vec::new(),
            });
        }
        if !results.is_empty() || !said.is_empty() {
            let text = said.join("\n\n");
            self.answer.push(AnswerRow::New { role: "user", text, tool_uses: Vec::new(), tool_results: results });
        }
    }

    fn finish(mut self) -> Vec<AnswerRow> {
        self.close();
        self.answer
    }
}

#[cfg(test)]
mod tests;

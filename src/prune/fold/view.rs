//! The messages that are sent after folding.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::Fold;
use super::digest::digest;
use super::prompt::{long_texts, shortened};
use super::round::{Level, Round, digits, is_thinking};
use crate::message::{conversation_content, is_type, set_plain_text};
use crate::settings::PruneSettings;

/// The part of a message that is sent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum MessageView {
    /// All of it.
    #[default]
    Whole,
    /// All but its thinking.
    WithoutThinking,
    /// A prompt with the start of its long texts.
    Short,
    /// Nothing; if it was folded, the index of the message that has the digest.
    Gone(Option<usize>),
    /// A digest in its place.
    Digest(String),
}

impl Fold {
    /// Returns the part of each message that is sent, as of the newest request. `messages` are those that were pushed.
    pub fn views<'m>(&self, messages: impl Iterator<Item = &'m Value>) -> Vec<MessageView> {
        let messages: Vec<&Value> = messages.collect();
        let mut views = vec![MessageView::Whole; messages.len()];
        let mut run = Run::default();
        for (index, message) in messages.iter().enumerate() {
            let known = self.messages.get(index).copied().unwrap_or_default();
            let round = known.round.and_then(|number| Some((number, self.rounds.get(number)?)));
            if let Some((number, round)) = round
                && round.level != Level::Whole
            {
                run.add(index, message, number, round);
                views[index] = MessageView::Gone(run.at);
                continue;
            }
            let blocks = || conversation_content(message).and_then(Value::as_array).into_iter().flatten();
            if known.is_thinking_gone && known.round.is_some() && blocks().any(is_thinking) {
                let has_others = blocks().any(|block| !is_thinking(block));
                views[index] = if has_others { MessageView::WithoutThinking } else { MessageView::Gone(None) };
            }
            let prompt = self.prompts.binary_search_by_key(&index, |prompt| prompt.index).map(|number| self.prompts[number]);
            if prompt.is_ok_and(|prompt| prompt.is_cut && prompt.long_units > 0) {
                views[index] = MessageView::Short;
            }
            // What the client attaches, or does not send at all, parts nothing.
            let is_of_conversation = is_type(message, "user") || is_type(message, "assistant");
            if is_of_conversation && !matches!(views[index], MessageView::Gone(_)) {
                run.end(&mut views);
            }
        }
        run.end(&mut views);
        views
    }
}

/// Folded rounds with no message of the conversation between them.
#[derive(Default)]
struct Run<'f> {
    at: Option<usize>,
    rounds: Vec<(usize, &'f Round)>,
    ends: Option<(String, String)>,
}

impl<'f> Run<'f> {
    fn add(&mut self, index: usize, message: &Value, number: usize, round: &'f Round) {
        self.at.get_or_insert(index);
        if self.rounds.last().is_none_or(|(last, _)| *last != number) {
            self.rounds.push((number, round));
        }
        let own = || digits(message).map(|digits| (digits.clone(), digits));
        let ends = round.earlier.as_ref().map_or_else(own, |earlier| earlier.ends.clone());
        if let Some((first, last)) = ends {
            let first = self.ends.take().map_or(first, |(first, _)| first);
            self.ends = Some((first, last));
        }
    }

    fn end(&mut self, views: &mut [MessageView]) {
        let Self { at, rounds, ends } = std::mem::take(self);
        if let Some(at) = at {
            let rounds: Vec<&Round> = rounds.into_iter().map(|(_, round)| round).collect();
            views[at] = MessageView::Digest(digest(&rounds, ends));
        }
    }
}

/// Folds a conversation, an array of Claude Code's internal messages, as in a request at its end. Borrowed if nothing changes.
pub fn fold<'a>(messages: &'a [Value], settings: &PruneSettings) -> Cow<'a, [Value]> {
    let mut folding = Fold::new(settings);
    messages.iter().for_each(|message| folding.push(message));
    folding.request();
    let views = folding.views(messages.iter());
    if views.iter().all(|view| *view == MessageView::Whole) {
        return Cow::Borrowed(messages);
    }
    Cow::Owned(messages.iter().zip(views).filter_map(|(message, view)| view.of(message)).map(Cow::into_owned).collect())
}

impl MessageView {
    /// Returns the message that is sent in the place of one.
    pub fn of<'m>(&self, message: &'m Value) -> Option<Cow<'m, Value>> {
        Some(match self {
            Self::Whole => Cow::Borrowed(message),
            Self::WithoutThinking => {
                let mut message = message.clone();
                if let Some(blocks) = message["message"]["content"].as_array_mut() {
                    blocks.retain(|block| !is_thinking(block));
                }
                Cow::Owned(message)
            }
            Self::Short => Cow::Owned(short(message)),
            Self::Gone(_) => return None,
            Self::Digest(text) => Cow::Owned(digest_message(message, text)),
        })
    }
}

/// A prompt with the start of its long texts.
fn short(message: &Value) -> Value {
    let mut short = message.clone();
    for (block, text) in long_texts(message) {
        set_plain_text(&mut short, block, shortened(message, block, text));
    }
    short
}

/// A message with a digest, in the place of the first of those that it stands for.
fn digest_message(first: &Value, text: &str) -> Value {
    let mut message = json!({ "type": "user", "isMeta": true, "message": { "role": "user", "content": text } });
    if let Some(uuid) = first.get("uuid").and_then(Value::as_str) {
        message["uuid"] = digest_id(uuid).into();
    }
    if let Some(timestamp) = first.get("timestamp") {
        message["timestamp"] = timestamp.clone();
    }
    message
}

/// The id of a digest: another one than that of its first message, and the same each time.
fn digest_id(uuid: &str) -> String {
    let is_uuid = uuid.len() == 36 && uuid.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    if is_uuid { format!("{}f{}", &uuid[..14], &uuid[15..]) } else { format!("{uuid}-digest") }
}

/*!
Number of tokens of each block of a conversation.

The tokens of a block's characters are only an estimate. But the API reported the size of each request, and so the growth between
two answers. A part of that growth belongs to the characters, and goes away with them. Its ratio to the estimate is the slope of a
straight line through all additions of the session. The rest was added by the client unseen (reminders and the like), and counts
with the last block. So a replay without changes has exactly the recorded sizes. If the difference says nothing (usage is missing,
or the session was compacted or pruned while it was recorded), the estimates are multiplied by the median of the factors so far.
*/

use serde_json::Value;

use super::cache::BlockRun;
use super::conversation::{ReplayConversation, ReplayMessage};
use crate::{CHARS_PER_TOKEN, ConversationSize, TOKENS_PER_MEDIA_BLOCK};

/// Minimum number of additions to compute a slope.
const MIN_ADDITIONS: usize = 8;

/// Minimum spread of their sizes, as a share of the mean size.
const MIN_SPREAD: f64 = 0.1;

/// Range of slopes that languages and tokenizers lead to.
const SLOPES: std::ops::RangeInclusive<f64> = 0.7..=2.0;

/// A block of a message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WeighedBlock {
    /// UTF-16 code units of its text.
    pub chars: u64,
    /// Images and documents in it.
    pub media: u64,
    /// Tokens that it takes of the context.
    pub tokens: u64,
    /// Tokens of these that do not go away with its text.
    pub unseen: u64,
    /// Kind of its run, if it is a call or a result.
    pub run: Option<BlockRun>,
    /// `true` for thinking.
    pub is_thinking: bool,
}

impl WeighedBlock {
    /// Estimated tokens, by the rule of thumb.
    pub(super) fn estimate(&self) -> f64 {
        self.chars as f64 / CHARS_PER_TOKEN + (self.media * TOKENS_PER_MEDIA_BLOCK) as f64
    }
}

/// A conversation with the size of everything in it.
#[derive(Debug, Clone, Default)]
pub struct WeighedConversation {
    /// Tokens of the system prompt and of the tools.
    pub base: u64,
    /// Tokens of each estimated one.
    pub slope: f64,
    /// The blocks of each message, in the order of its content; a content that is a string is one.
    pub messages: Vec<Vec<WeighedBlock>>,
}

impl WeighedConversation {
    /// Computes the sizes of everything that was sent.
    pub fn new(conversation: &ReplayConversation) -> Self {
        let mut messages: Vec<Vec<WeighedBlock>> = conversation.messages.iter().map(blocks).collect();
        let mut base = None;
        let slope = slope(&additions(conversation, &messages));
        let mut factors = Median::default();
        let mut start = 0;
        // Size of the context at the call before, where it is known.
        let mut before: Option<u64> = None;
        for call in &conversation.calls {
            let stretch = &mut messages[start..call.messages_before];
            let is_reset = conversation.resets.iter().any(|reset| (start..call.messages_before).contains(reset));
            let estimate = stretch.iter().flatten().map(WeighedBlock::estimate).sum::<f64>();
            match (base, before.filter(|_| !is_reset), call.context_tokens) {
                (None, _, Some(context)) => {
                    // All that stands before it, also where earlier calls did not say.
                    let all = &mut messages[..call.messages_before];
                    let estimate = all.iter().flatten().map(WeighedBlock::estimate).sum::<f64>();
                    let text = context.min(estimate.round() as u64);
                    base = Some(context - text);
                    distribute(text, all);
                }
                (Some(_), Some(before), Some(context)) if context >= before => {
                    let growth = context - before;
                    let shown = growth.min((estimate * slope).round() as u64);
                    distribute(shown, stretch);
                    add_unseen(growth - shown, stretch);
                    if estimate > 0.0 {
                        factors.push((context - before) as f64 / estimate);
                    }
                }
                _ => distribute((estimate * factors.median()).round() as u64, stretch),
            }
            before = call.context_tokens;
            start = call.messages_before;
        }
        Self { base: base.unwrap_or(0), slope, messages }
    }
}

/// Estimate and recorded growth of all that was added between two calls whose contexts are known.
fn additions(conversation: &ReplayConversation, messages: &[Vec<WeighedBlock>]) -> Vec<(f64, f64)> {
    let pairs = conversation.calls.windows(2).filter_map(|calls| {
        let [earlier, later] = calls else { return None };
        let range = earlier.messages_before..later.messages_before;
        let growth = later.context_tokens?.checked_sub(earlier.context_tokens?)?;
        let estimate = messages[range.clone()].iter().flatten().map(WeighedBlock::estimate).sum::<f64>();
        let is_reset = conversation.resets.iter().any(|reset| range.contains(reset));
        (estimate > 0.0 && !is_reset).then_some((estimate, growth as f64))
    });
    pairs.collect()
}

/// Tokens per estimated token: the slope of a straight line (least squares) through the additions, clamped to a sensible range.
fn slope(additions: &[(f64, f64)]) -> f64 {
    let count = additions.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| additions.iter().map(of).sum::<f64>() / count;
    let (estimate, growth) = (mean(|(estimate, _)| *estimate), mean(|(_, growth)| *growth));
    let spread = additions.iter().map(|(x, _)| (x - estimate).powi(2)).sum::<f64>();
    // Additions of the same size say nothing about it.
    if additions.len() < MIN_ADDITIONS || spread < count * (estimate * MIN_SPREAD).powi(2) {
        return 1.0;
    }
    let together = additions.iter().map(|(x, y)| (x - estimate) * (y - growth)).sum::<f64>();
    (together / spread).clamp(*SLOPES.start(), *SLOPES.end())
}

/// Gives each block its share of the tokens; their sum is exact.
fn distribute(tokens: u64, messages: &mut [Vec<WeighedBlock>]) {
    let whole = messages.iter().flatten().map(WeighedBlock::estimate).sum::<f64>();
    if whole <= 0.0 {
        return add_unseen(tokens, messages);
    }
    let (mut so_far, mut given) = (0.0, 0);
    for block in messages.iter_mut().flatten() {
        so_far += block.estimate();
        let up_to = ((so_far / whole).min(1.0) * tokens as f64).round() as u64;
        block.tokens = up_to - given;
        given = up_to;
    }
    // The last digit of a sum of fractions may be missing.
    if let Some(last) = messages.iter_mut().flatten().last() {
        last.tokens += tokens - given;
    }
}

/// Adds the tokens that the client sends unseen to the last block, or as a block of their own if the last message has none.
fn add_unseen(tokens: u64, messages: &mut [Vec<WeighedBlock>]) {
    let Some(last) = messages.last_mut().filter(|_| tokens > 0) else { return };
    match last.last_mut() {
        Some(block) => (block.tokens, block.unseen) = (block.tokens + tokens, block.unseen + tokens),
        None => last.push(WeighedBlock { tokens, unseen: tokens, ..WeighedBlock::default() }),
    }
}

/// The blocks of a message without their tokens. Summaries have none: a replay makes its own.
fn blocks(message: &ReplayMessage) -> Vec<WeighedBlock> {
    if message.is_stand_in {
        return Vec::new();
    }
    // What the client tells the model unasked stands beside its attachment as it was sent.
    if message.value["type"] == "attachment" {
        let ConversationSize { chars, .. } = ConversationSize::of_nested(&message.value["rendered"]);
        return if chars > 0 { vec![WeighedBlock { chars, ..WeighedBlock::default() }] } else { Vec::new() };
    }
    match &message.value["message"]["content"] {
        Value::Array(items) => items.iter().map(sized).collect(),
        text @ Value::String(_) => {
            vec![WeighedBlock { chars: ConversationSize::of_nested(text).chars, ..WeighedBlock::default() }]
        }
        _ => Vec::new(),
    }
}

fn sized(content: &Value) -> WeighedBlock {
    let ConversationSize { chars, media_blocks: media } = ConversationSize::of_block(content);
    let run = match content["type"].as_str() {
        Some("tool_use") => Some(BlockRun::Calls),
        Some("tool_result") => Some(BlockRun::Results),
        _ => None,
    };
    let is_thinking = matches!(content["type"].as_str(), Some("thinking" | "redacted_thinking"));
    WeighedBlock { chars, media, run, is_thinking, ..WeighedBlock::default() }
}

/// The median of the numbers so far.
#[derive(Debug, Default)]
struct Median(Vec<f64>);

impl Median {
    fn push(&mut self, number: f64) {
        let at = self.0.partition_point(|other| *other < number);
        self.0.insert(at, number);
    }

    /// 1 when there are none.
    fn median(&self) -> f64 {
        self.0.get(self.0.len() / 2).copied().unwrap_or(1.0)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::conversation::ReplayCall;
    use super::*;

    /// A conversation with one message before each call, of the given number of estimated tokens.
    fn conversation(calls: &[(u64, Option<u64>)]) -> ReplayConversation {
        let mut conversation = ReplayConversation::default();
        for (at, (tokens, context_tokens)) in calls.iter().enumerate() {
            let text = "abcdefg".repeat(*tokens as usize / 2);
            let value = json!({ "type": "user", "message": { "content": text } });
            conversation.messages.push(ReplayMessage { line: at + 1, value, at_ms: 0, is_stand_in: false });
            conversation.calls.push(ReplayCall {
                messages_before: at + 1,
                context_tokens: *context_tokens,
                ..ReplayCall::default()
            });
        }
        conversation
    }

    fn contexts(calls: &[(u64, Option<u64>)]) -> Vec<u64> {
        let weighed = WeighedConversation::new(&conversation(calls));
        let mut context = weighed.base;
        let sizes = weighed.messages.iter().map(|blocks| {
            context += blocks.iter().map(|block| block.tokens).sum::<u64>();
            context
        });
        sizes.collect()
    }

    #[test]
    fn recorded_sizes_come_out_exactly() {
        let calls = [(100, Some(1_000)), (10, Some(1_013)), (0, Some(1_020)), (40, Some(1_020))];
        assert_eq!(contexts(&calls), [1_000, 1_013, 1_020, 1_020]);
        assert_eq!(WeighedConversation::new(&conversation(&calls)).base, 900);
    }

    #[test]
    fn a_first_context_smaller_than_its_text_has_no_base() {
        assert_eq!(contexts(&[(100, Some(50)), (10, Some(60))]), [50, 60]);
    }

    #[test]
    fn what_says_nothing_grows_by_the_median_factor() {
        // Factors 2 and 2, then a compaction, then usage that is missing.
        let calls =
            [(10, Some(100)), (10, Some(120)), (10, Some(140)), (10, Some(30)), (10, None), (10, Some(90)), (10, Some(130))];
        assert_eq!(contexts(&calls), [100, 120, 140, 160, 180, 200, 240]);
    }

    #[test]
    fn without_any_usage_the_estimate_stands() {
        assert_eq!(contexts(&[(10, None), (20, None)]), [10, 30]);
        assert_eq!(contexts(&[(10, None), (20, Some(100))]), [80, 100]);
    }

    #[test]
    fn sizes_of_blocks() {
        let content = json!([
            { "type": "text", "text": "a🦀" },
            { "type": "tool_use", "input": { "ab": ["c", 1, { "d": "ef" }] } },
            { "type": "tool_result", "content": [{ "type": "text", "text": "xyz" }, { "type": "image" }] },
            { "type": "tool_result", "content": "four" },
            { "type": "redacted_thinking", "data": "zzz" },
        ]);
        let value = json!({ "type": "user", "message": { "content": content } });
        let found: Vec<_> = blocks(&ReplayMessage { line: 1, value, at_ms: 0, is_stand_in: false })
            .into_iter()
            .map(|block| (block.chars, block.media))
            .collect();
        assert_eq!(found, [(3, 0), (6, 0), (3, 1), (4, 0), (0, 0)]);
    }

    /// Each addition of n estimated tokens is 1.5 n and 100 that nobody sees: with the text, only the former go away.
    #[test]
    fn what_is_not_shown_does_not_go_away_with_the_text() {
        let calls: Vec<_> = (0..20_u64).map(|call| call * 200 % 900 + 100).collect();
        let mut context = 10_000;
        let calls: Vec<_> = calls
            .into_iter()
            .map(|tokens| {
                context += tokens * 3 / 2 + 100;
                (tokens, Some(context))
            })
            .collect();
        let weighed = WeighedConversation::new(&conversation(&calls));
        for ((tokens, _), blocks) in calls.iter().zip(&weighed.messages).skip(1) {
            assert_eq!((blocks[0].tokens, blocks[0].unseen), (tokens * 3 / 2 + 100, 100));
        }
    }
}

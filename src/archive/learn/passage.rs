/*!
The model's own sentences in an answer: no code, no quotation, no heading, no table.

Markdown is parsed by pulldown-cmark; sentences end according to Unicode (UAX 29). Text that is not the model's own is masked in
place, so that a sentence and its mask are the same range of the same text.
*/

use std::ops::Range;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use unicode_segmentation::UnicodeSegmentation as _;

/// Replaces each byte that is not to be read: neither a letter nor a space.
const MASK: u8 = 1;

/// Maximum bytes of a text to read: the model's longest answers are a tenth of that.
const MAX_ANSWER_BYTES: usize = 1 << 20;

/// A sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sentence {
    /// Byte range in the text.
    pub range: Range<usize>,
    /// The sentence, with all text that is not the model's own masked; as long as the sentence.
    pub masked: String,
    /// `true` if it is a checked item of a task list.
    pub is_ticked: bool,
}

/// The sentences of an answer, in order.
pub fn sentences(text: &str) -> Vec<Sentence> {
    let text = &text[..floor(text, MAX_ANSWER_BYTES)];
    let mut found = Vec::new();
    for block in blocks(text) {
        block.sentences(text, &mut found);
    }
    found
}

/// A paragraph or a list item.
struct ProseBlock {
    range: Range<usize>,
    /// Ranges in it that are not to be read.
    masked: Vec<Range<usize>>,
    /// State of its checkbox, if it has one.
    ticked: Option<bool>,
}

fn blocks(text: &str) -> Vec<ProseBlock> {
    let mut blocks: Vec<ProseBlock> = Vec::new();
    let mut open: Option<ProseBlock> = None;
    // In code, quotations, tables and headings nothing is said, however deep it is.
    let mut silent = 0_u32;
    let options = Options::ENABLE_TABLES | Options::ENABLE_TASKLISTS | Options::ENABLE_STRIKETHROUGH;
    for (event, range) in Parser::new_ext(text, options).into_offset_iter() {
        match event {
            Event::Start(tag) if is_silent(&tag) => {
                blocks.extend(open.take());
                silent += 1;
            }
            Event::End(tag) if is_silent_end(tag) => silent = silent.saturating_sub(1),
            Event::Start(Tag::Paragraph | Tag::Item | Tag::List(_))
            | Event::End(TagEnd::Paragraph | TagEnd::Item | TagEnd::List(_)) => {
                blocks.extend(open.take());
            }
            _ if silent > 0 => {}
            Event::TaskListMarker(is_ticked) => {
                open = Some(ProseBlock { range: range.end..range.end, masked: Vec::new(), ticked: Some(is_ticked) });
            }
            Event::Start(Tag::Strikethrough) => hide(&mut open, range),
            Event::Code(_) | Event::Html(_) | Event::InlineHtml(_) | Event::InlineMath(_) | Event::DisplayMath(_) => {
                hide(&mut open, range)
            }
            Event::Text(_)
            | Event::SoftBreak
            | Event::HardBreak
            | Event::Start(Tag::Strong | Tag::Emphasis | Tag::Link { .. }) => {
                extend(&mut open, &range);
            }
            _ => {}
        }
    }
    blocks.extend(open);
    blocks
}

fn is_silent(tag: &Tag<'_>) -> bool {
    matches!(
        tag,
        Tag::CodeBlock(_) | Tag::BlockQuote(_) | Tag::Table(_) | Tag::Heading { .. } | Tag::HtmlBlock | Tag::Image { .. }
    )
}

fn is_silent_end(tag: TagEnd) -> bool {
    matches!(
        tag,
        TagEnd::CodeBlock | TagEnd::BlockQuote(_) | TagEnd::Table | TagEnd::Heading(_) | TagEnd::HtmlBlock | TagEnd::Image
    )
}

fn extend<'b>(open: &'b mut Option<ProseBlock>, range: &Range<usize>) -> &'b mut ProseBlock {
    let block = open.get_or_insert_with(|| ProseBlock { range: range.clone(), masked: Vec::new(), ticked: None });
    block.range.end = block.range.end.max(range.end);
    block
}

fn hide(open: &mut Option<ProseBlock>, range: Range<usize>) {
    extend(open, &range).masked.push(range);
}

impl ProseBlock {
    fn sentences(&self, text: &str, found: &mut Vec<Sentence>) {
        // A list of things to do is no report.
        if self.ticked == Some(false) {
            return;
        }
        let shown = &text[self.range.clone()];
        let masked = self.mask(shown);
        let lines = lines(&masked);
        // Where a line goes on in the next one, no sentence ends.
        let masked = masked.replace('\n', " ");
        let mut start = 0;
        for line in lines {
            for sentence in masked[line.clone()].split_sentence_bounds().flat_map(split_before_lowercase) {
                let end = start.max(line.start) + sentence.len();
                let range = start.max(line.start)..end;
                start = end;
                self.add(shown, &masked, range, found);
            }
            start = line.end;
        }
    }

    fn add(&self, shown: &str, masked: &str, range: Range<usize>, found: &mut Vec<Sentence>) {
        let skipped = shown[range.clone()].len() - shown[range.clone()].trim_start().len();
        let range = range.start + skipped..range.start + skipped + shown[range.clone()].trim().len();
        if range.is_empty() {
            return;
        }
        found.push(Sentence {
            range: self.range.start + range.start..self.range.start + range.end,
            masked: masked[range].to_owned(),
            is_ticked: self.ticked == Some(true),
        });
    }

    /// Returns the block with hidden ranges and quotations masked; emphasis and line breaks are spaces.
    fn mask(&self, shown: &str) -> String {
        let mut bytes = shown.as_bytes().to_vec();
        for hidden in &self.masked {
            for byte in &mut bytes[hidden.start - self.range.start..hidden.end - self.range.start] {
                *byte = MASK;
            }
        }
        for byte in bytes.iter_mut().filter(|byte| matches!(byte, b'*' | b'\r' | b'\t')) {
            *byte = b' ';
        }
        let mut masked = String::from_utf8(bytes).unwrap_or_default();
        for quoted in quotations(&masked) {
            let mask = String::from_utf8(vec![MASK; quoted.len()]).unwrap_or_default();
            masked.replace_range(quoted, &mask);
        }
        masked
    }
}

/// Ranges of quotations, with their quotation marks.
fn quotations(text: &str) -> Vec<Range<usize>> {
    const MAX_QUOTATION_BYTES: usize = 600;
    let mut found = Vec::new();
    let mut open: Option<(usize, char)> = None;
    for (at, character) in text.char_indices() {
        match (open, character) {
            (Some((start, end)), _) if character == end => {
                found.push(start..at + character.len_utf8());
                open = None;
            }
            (Some((start, _)), _) if at - start > MAX_QUOTATION_BYTES => open = None,
            (Some(_), _) => {}
            (None, '"') => open = Some((at, '"')),
            (None, '“') => open = Some((at, '”')),
            (None, '„') => open = Some((at, '“')),
            (None, '«') => open = Some((at, '»')),
            (None, _) => {}
        }
    }
    found
}

/// Splits a sentence where the next one begins with a lowercase letter: with the name of something, or in that style. It is not
/// split after a possible abbreviation.
fn split_before_lowercase(sentence: &str) -> Vec<&str> {
    const MIN_LAST_WORD_BYTES: usize = 4;
    const SHORT_FORMS: [&str; 6] = ["approx", "incl", "resp", "excl", "spec", "misc"];
    let mut parts = Vec::new();
    let mut rest = sentence;
    let mut from = 0;
    while let Some(at) = rest[from..].find(". ").map(|at| from + at) {
        let word = rest[..at].rsplit(|c: char| !c.is_alphabetic()).next().unwrap_or_default();
        let is_end = word.len() >= MIN_LAST_WORD_BYTES && !SHORT_FORMS.contains(&word.to_lowercase().as_str());
        from = at + 2;
        if is_end && rest[from..].starts_with(|c: char| c.is_lowercase() || c == '\u{1}') {
            parts.push(&rest[..from]);
            rest = &rest[from..];
            from = 0;
        }
    }
    parts.push(rest);
    parts
}

/// Ranges of lines that continue each other; a line that starts its own sentence starts a new range.
fn lines(text: &str) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let range = start..start + line.len();
        start = range.end;
        let before = found.last().map(|last| text[last.clone()].trim_end());
        match found
            .last_mut()
            .filter(|_| before.is_some_and(|before| !before.ends_with([':', '.', '!', '?']) && !starts_own_sentence(line)))
        {
            Some(last) => last.end = range.end,
            None => found.push(range),
        }
    }
    found
}

fn starts_own_sentence(line: &str) -> bool {
    let line = line.trim_start();
    ["To:", "From:", "HANDOFF", "Handoff"].iter().any(|begin| line.starts_with(begin))
        || line.starts_with(['✅', '✔', '✓', '☑', '❌', '✗', '✘', '⚠', '•'])
}

fn floor(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Vec<String> {
        sentences(text).into_iter().map(|sentence| sentence.masked.replace('\u{1}', "·")).collect()
    }

    #[test]
    fn only_what_the_model_says_itself_is_read() {
        let text = "# We decided to\n\nI went with `zstd`. It is \"fast\".\n\n> They chose X.\n\n```\nfixed by y\n```\n\n| a |\n|---|\n| b |\n\n\
            - **Chose** A over B\n- [x] done\n- [ ] not done\n  1. nested, 0.15 of\n     two lines\n\nTo: x_agent\nwith ✅ tests\n✅ all of them\n";
        let expected = [
            "I went with ······.",
            "It is ······.",
            "  Chose   A over B",
            "done",
            "nested, 0.15 of      two lines",
            "To: x_agent with ✅ tests",
            "✅ all of them",
        ];
        assert_eq!(read(text), expected);
        assert!(sentences("- [x] a")[0].is_ticked);
    }

    proptest! {
        #[test]
        fn masks_are_as_long_as_what_they_stand_for(text in "(\\PC|[\n`\"*“”>#|\\-. ]){0,80}") {
            let mut last = 0;
            for sentence in sentences(&text) {
                prop_assert!(sentence.range.start >= last);
                last = sentence.range.end;
                prop_assert_eq!(text[sentence.range.clone()].len(), sentence.masked.len());
            }
        }
    }
}

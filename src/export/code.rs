//! Colored code: spans with a class for each kind of token. Their text is that of the code, character for character.

use std::cell::RefCell;
use std::collections::HashMap;

use synoptic::{Highlighter, TokOpt, from_extension};

use super::escape::escape;

/// Maximum bytes of a block that are colored; the rest is plain.
const MAX_COLORED_BLOCK_BYTES: usize = 16 << 10;

/// Maximum bytes of a line. A block with a longer one is data, or minified, and is not colored.
const LINE_BYTES: usize = 2_000;

/// A language that can be colored, by the extension of its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct CodeLanguage(&'static str);

/// Extensions with rules for coloring.
const KNOWN_EXTENSIONS: [&str; 35] = [
    "rs", "asm", "py", "rb", "lua", "r", "go", "js", "ts", "dart", "c", "h", "cpp", "hpp", "cc", "cs", "swift", "json", "kt",
    "java", "php", "scala", "hs", "css", "html", "md", "toml", "yaml", "yml", "sh", "sql", "xml", "tex", "diff", "tsx",
];

/// Names of languages at fences, and equivalent extensions.
const ALIASES: [(&str, &str); 27] = [
    ("rust", "rs"),
    ("python", "py"),
    ("python3", "py"),
    ("pyi", "py"),
    ("ruby", "rb"),
    ("golang", "go"),
    ("javascript", "js"),
    ("jsx", "js"),
    ("mjs", "js"),
    ("cjs", "js"),
    ("typescript", "ts"),
    ("mts", "ts"),
    ("c++", "cpp"),
    ("cxx", "cpp"),
    ("csharp", "cs"),
    ("kotlin", "kt"),
    ("kts", "kt"),
    ("haskell", "hs"),
    ("bash", "sh"),
    ("shell", "sh"),
    ("zsh", "sh"),
    ("console", "sh"),
    ("htm", "html"),
    ("svg", "xml"),
    ("markdown", "md"),
    ("patch", "diff"),
    ("jsonl", "json"),
];

impl CodeLanguage {
    pub const SHELL: Self = Self("sh");
    pub const JSON: Self = Self("json");

    /// Finds a language by its name at a fence, or by an extension.
    pub fn named(name: &str) -> Option<Self> {
        let name = name.trim().to_ascii_lowercase();
        let alias = ALIASES.iter().find(|(alias, _)| *alias == name).map(|(_, known)| *known);
        alias.or_else(|| KNOWN_EXTENSIONS.into_iter().find(|known| *known == name)).map(Self)
    }

    /// Finds a language by the name of a file.
    pub fn of_file(path: &str) -> Option<Self> {
        let name = path.rsplit(['/', '\\']).next()?;
        Self::named(name.rsplit_once('.')?.1)
    }

    /// The name at a fence.
    pub fn name(self) -> &'static str {
        self.0
    }
}

thread_local! {
    /// Highlighters of this thread. Each has caches of its own; making one costs more than coloring a block.
    static HIGHLIGHTERS: RefCell<HashMap<CodeLanguage, Highlighter>> = RefCell::default();
}

/// Adds a block of code to HTML, colored as long as there is `budget` (bytes).
pub(super) fn highlight(html: &mut String, code: &str, language: Option<CodeLanguage>, budget: &mut usize) {
    let mut length = code.len().min(MAX_COLORED_BLOCK_BYTES).min(*budget);
    while !code.is_char_boundary(length) {
        length -= 1;
    }
    let (colorful, plain) = code.split_at(length);
    match language {
        Some(language) if colorful.lines().all(|line| line.len() <= LINE_BYTES) => {
            *budget -= length;
            HIGHLIGHTERS.with_borrow_mut(|known| {
                if !known.contains_key(&language) {
                    // With tabs of one character, positions are those of the text.
                    known.extend(from_extension(language.0, 1).map(|made| (language, made)));
                }
                match known.get_mut(&language) {
                    Some(highlighter) => colored(html, colorful, highlighter),
                    None => escape(html, colorful),
                }
            });
        }
        _ => escape(html, colorful),
    }
    escape(html, plain);
}

fn colored(html: &mut String, code: &str, highlighter: &mut Highlighter) {
    let lines: Vec<String> = code.split('\n').map(str::to_owned).collect();
    highlighter.run(&lines);
    for (at, line) in lines.iter().enumerate() {
        if at > 0 {
            html.push('\n');
        }
        let mut rest = line.as_str();
        let (mut class, mut length) = ("", 0);
        for token in highlighter.line(at, line) {
            let (text, next) = match &token {
                TokOpt::Some(text, kind) => (text, class_of(kind)),
                TokOpt::None(text) => (text, ""),
            };
            // The token has blanks for tabs: only its length is taken.
            let bytes: usize = rest[length..].chars().take(text.chars().count()).map(char::len_utf8).sum();
            if next != class {
                rest = span(html, class, rest, length);
                (class, length) = (next, 0);
            }
            length += bytes;
        }
        rest = span(html, class, rest, length);
        escape(html, rest);
    }
}

/// Writes the first `length` bytes of a text, and returns the rest.
fn span<'t>(html: &mut String, class: &str, text: &'t str, length: usize) -> &'t str {
    let (front, rest) = text.split_at(length);
    if class.is_empty() || front.is_empty() {
        escape(html, front);
    } else {
        html.push_str("<span class=\"");
        html.push_str(class);
        html.push_str("\">");
        escape(html, front);
        html.push_str("</span>");
    }
    rest
}

/// The class of a kind of token. Kinds that are not told apart on the page have none.
fn class_of(kind: &str) -> &'static str {
    match kind {
        "keyword" | "tag" => "k",
        "string" | "character" | "key" | "link" => "s",
        "comment" | "quote" => "c",
        "digit" | "boolean" => "n",
        "function" | "macro" | "attribute" => "f",
        "struct" | "namespace" | "heading" => "t",
        "insertion" => "i",
        "deletion" => "d",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn html(code: &str, language: &str) -> String {
        let mut html = String::new();
        highlight(&mut html, code, CodeLanguage::named(language), &mut usize::MAX.clone());
        html
    }

    #[test]
    fn tokens_have_classes() {
        insta::assert_snapshot!(html("let x = \"<b>\"; // why\nreturn 1;", "rust"), @r#"
        <span class="k">let</span> x = <span class="s">&quot;&lt;b&gt;&quot;</span>; <span class="c">// why</span>
        <span class="k">return</span> <span class="n">1</span>;
        "#);
        assert_eq!(html("a < b", "unheard of"), "a &lt; b");
        assert_eq!(CodeLanguage::of_file("/src/a.b/main.RS"), CodeLanguage::named("rust"));
        assert_eq!(CodeLanguage::of_file("/src.rs/Makefile"), None);
    }

    #[test]
    fn a_budget_is_kept() {
        let mut budget = 10;
        let mut html = String::new();
        highlight(&mut html, "let a = 1; let b = 2;", CodeLanguage::named("rs"), &mut budget);
        assert_eq!(budget, 0);
        assert!(html.starts_with("<span class=\"k\">let</span>") && html.ends_with("let b = 2;"), "{html}");
    }

    proptest! {
        #[test]
        fn what_it_says_stays(
            code in "(let |fn |'|\"|/\\*|\\*/|//|#|\\\\|\\$\\{|\\}|<|>|&|\n|\t|é|漢|👩|`|-- |=begin|[a-z0-9]{1,3}| ){0,40}",
            language in proptest::sample::select(KNOWN_EXTENSIONS.to_vec()),
        ) {
            let html = html(&code, language);
            let mut text = String::new();
            let mut rest = html.as_str();
            while let Some(at) = rest.find('<') {
                text += &rest[..at];
                let end = rest.find('>').unwrap();
                let tag = &rest[at..=end];
                prop_assert!(tag == "</span>" || tag.strip_prefix("<span class=\"").is_some_and(|c| c.len() == 3), "{tag}");
                rest = &rest[end + 1..];
            }
            text += rest;
            let plain = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&#39;", "'").replace("&amp;", "&");
            prop_assert_eq!(plain, code);
        }
    }
}

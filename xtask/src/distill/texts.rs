//! Texts to fit the table on: what the crates in `Cargo.lock` say of themselves, in comments of documentation and in Markdown.

use std::collections::BTreeMap;
use std::fs;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use ctxbridge::common::digest;

use crate::tools::cargo_metadata;

/// Maximum number of texts; of more, those with the least SHA-256 are taken, which is a sample.
const MAX_TEXTS: usize = 150_000;
/// Words that a text has at least and at most.
const WORDS: RangeInclusive<usize> = 4..=150;
/// One crate in this many is held out.
const HELD_OUT_DIVISOR: u8 = 16;

/// A text of the dependencies.
pub struct Text {
    pub text: String,
    /// `true` if nothing is to be fitted on it, so that it tells how good the fit is. Crates are held out as a whole: texts of one say the same in
    /// other words. What another crate says, too, is not.
    pub is_held_out: bool,
}

/// Paragraphs and their sentences of all crates from a registry, in an order that does not depend on the crates.
pub fn of_dependencies() -> Result<Vec<Text>> {
    let metadata = cargo_metadata(&["--locked"])?;
    let packages = metadata["packages"].as_array().context("`cargo metadata` names no packages")?;
    let mut texts: BTreeMap<_, Text> = BTreeMap::new();
    for package in packages.iter().filter(|package| !package["source"].is_null()) {
        let of = |key| package[key].as_str().with_context(|| format!("`cargo metadata` says no {key} of a package"));
        let is_held_out = digest::sha256(of("name")?.as_bytes())[0].is_multiple_of(HELD_OUT_DIVISOR);
        let manifest = Path::new(of("manifest_path")?);
        for text in manifest.parent().map(texts_in).transpose()?.unwrap_or_default() {
            let known = texts.entry(digest::sha256(text.as_bytes()));
            known.or_insert(Text { text, is_held_out }).is_held_out &= is_held_out;
        }
    }
    ensure!(!texts.is_empty(), "no crate in Cargo.lock says anything");
    Ok(texts.into_values().take(MAX_TEXTS).collect())
}

/// Paragraphs and their sentences in the files of a crate.
fn texts_in(folder: &Path) -> Result<Vec<String>> {
    let mut texts = Vec::new();
    for path in files(folder)? {
        // A file of something else than text says nothing.
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let is_rust = path.extension().is_some_and(|extension| extension == "rs");
        for paragraph in if is_rust { paragraphs(comments(&text)) } else { paragraphs(text.lines()) } {
            let some = sentences(&paragraph).chain([paragraph.as_str()]);
            texts.extend(some.filter(|text| WORDS.contains(&text.split_whitespace().count())).map(str::to_owned));
        }
    }
    Ok(texts)
}

/// Files of Rust and Markdown below a folder.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let (mut found, mut left) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = left.pop() {
        for entry in fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))? {
            let entry = entry?;
            let path = entry.path();
            if entry.file_type()?.is_dir() {
                left.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs" || extension == "md") {
                found.push(path);
            }
        }
    }
    Ok(found)
}

/// Comments of documentation, line by line; code between two of them is an empty line.
fn comments(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(|line| {
        let line = line.trim_start();
        line.strip_prefix("///").or_else(|| line.strip_prefix("//!")).map_or("", str::trim)
    })
}

/// Paragraphs of Markdown, each in one line, without its marks and without code and tables.
fn paragraphs<'t>(lines: impl Iterator<Item = &'t str>) -> Vec<String> {
    let (mut all, mut current, mut is_code) = (Vec::new(), String::new(), false);
    for line in lines {
        let line = line.trim();
        let is_fence = line.starts_with("```");
        is_code ^= is_fence;
        let is_item = line.starts_with(['#', '-', '*', '|', '>']);
        if line.is_empty() || is_fence || is_item {
            all.push(std::mem::take(&mut current));
        }
        let is_definition = line.starts_with('[') && line.contains("]:");
        let is_text = !is_code && !is_fence && !line.starts_with(['|', '<']) && !is_definition;
        if is_text && !line.is_empty() {
            if !current.is_empty() {
                current.push(' ');
            }
            let line = without_targets(line.trim_start_matches(['#', '-', '*', '>', ' ']));
            current.extend(line.chars().filter(|one| !"`[]*".contains(*one)));
        }
    }
    all.push(current);
    all.retain(|text| !text.is_empty());
    all
}

/// A line with what its links say, and not where they go.
fn without_targets(line: &str) -> String {
    let mut parts = line.split("](");
    let first = parts.next().unwrap_or_default().to_owned();
    first + &parts.map(|part| part.split_once(')').map_or("", |(_, rest)| rest)).collect::<String>()
}

/// Sentences of a paragraph that has several.
fn sentences(paragraph: &str) -> impl Iterator<Item = &str> {
    let parts = paragraph.split_inclusive(". ").map(str::trim);
    parts.filter(|part| part.len() < paragraph.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_are_of_prose() {
        let text = "# The title\nA paragraph of `code` and\nwords.\n\n```rust\nlet x = 1;\n```\n| a | table |\n- one item\n[link]: there\n";
        assert_eq!(paragraphs(text.lines()), ["The title A paragraph of code and words.", "one item"]);
        assert_eq!(
            paragraphs("See [the book](there) and [`Vec`], or\n[this](that.\n".lines()),
            ["See the book and Vec, or this"]
        );
    }

    #[test]
    fn comments_of_documentation_count_and_code_parts_them() {
        let text = "//! The module.\nuse std::fs; // no\n    /// A function\n    /// of two lines.\n    fn f() {}\n// A note.\n";
        assert_eq!(paragraphs(comments(text)), ["The module.", "A function of two lines."]);
    }

    #[test]
    fn a_paragraph_of_one_sentence_is_not_there_twice() {
        assert_eq!(sentences("One. Two of them. Three.").collect::<Vec<_>>(), ["One.", "Two of them.", "Three."]);
        assert_eq!(sentences("Just one.").count(), 0);
    }
}

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

/// Paragraphs and their sentences of all crates from a registry, in an order that does not depend on the crates.
pub fn of_dependencies() -> Result<Vec<String>> {
    let metadata = cargo_metadata(&["--locked"])?;
    let packages = metadata["packages"].as_array().context("`cargo metadata` names no packages")?;
    let from_registry = packages.iter().filter(|package| !package["source"].is_null());
    let manifests = from_registry.filter_map(|package| package["manifest_path"].as_str());
    let mut texts = BTreeMap::new();
    for path in manifests.filter_map(|manifest| Path::new(manifest).parent()).map(files).collect::<Result<Vec<_>>>()?.concat() {
        // A file of something else than text says nothing.
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let is_rust = path.extension().is_some_and(|extension| extension == "rs");
        for paragraph in if is_rust { paragraphs(comments(&text)) } else { paragraphs(text.lines()) } {
            let some = sentences(&paragraph).chain([paragraph.as_str()]);
            let some = some.filter(|text| WORDS.contains(&text.split_whitespace().count()));
            texts.extend(some.map(|text| (digest::sha256(text.as_bytes()), text.to_owned())));
        }
    }
    ensure!(!texts.is_empty(), "no crate in Cargo.lock says anything");
    Ok(texts.into_values().take(MAX_TEXTS).collect())
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

/// Paragraphs of Markdown, each in one line, without its marks and without code and tables; lines with links are left out, too.
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
        let is_text = !is_code && !is_fence && !line.starts_with(['|', '<', '[']) && !line.contains("](http");
        if is_text && !line.is_empty() {
            if !current.is_empty() {
                current.push(' ');
            }
            current.extend(line.trim_start_matches(['#', '-', '*', '>', ' ']).chars().filter(|one| !"`[]*".contains(*one)));
        }
    }
    all.push(current);
    all.retain(|text| !text.is_empty());
    all
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

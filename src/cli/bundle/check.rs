//! `ctxbridge bundle check`

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde_json::json;

use super::bundles;
use crate::cli::CommandOutcome;
use crate::cli::config::load;
use crate::cli::output::{BAD, Output, count, styled};
use ctxbridge_archive::quote::printable;
use ctxbridge_common::files;
use ctxbridge_redact::Redactor;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ctxbridge bundle check
  ctxbridge bundle check .ctxbridge/bundles/*.jsonl

Hooks leave secrets out when they write. This finds what came in another way, and what redact.patterns knows only since then.

To check every commit, write this into .git/hooks/pre-commit and make it executable:
  #!/bin/sh
  git diff --cached --name-only --diff-filter=ACM -z -- '*.ctxbridge/bundles/*.jsonl' |
    xargs -0 -r ctxbridge bundle check

Exits 1 if a line has a secret. The secret itself is not printed.")]
pub(super) struct BundleCheckArgs {
    /// Files to check, rather than all bundles of this project
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
}

/// A line with secrets.
struct SecretLine {
    file: PathBuf,
    /// Counts from 1.
    number: usize,
    rules: BTreeSet<&'static str>,
}

impl BundleCheckArgs {
    pub fn run(&self, output: &mut Output) -> anyhow::Result<CommandOutcome> {
        // A pattern that is no regular expression would find nothing.
        let redactor = Redactor::strict(&load(output).redact).context("nothing was checked: redact.patterns or redact.allow")?;
        let paths = if self.files.is_empty() { paths_of_project()? } else { self.files.clone() };
        let mut found = Vec::new();
        for path in &paths {
            found.extend(lines_with_secrets(path, &redactor).with_context(|| format!("cannot read {}", path.display()))?);
        }
        let files = count(paths.len() as u64, "file");
        if output.json {
            let line = |line: &SecretLine| json!({ "file": line.file, "line": line.number, "rules": line.rules });
            output.value(&json!({ "files": paths.len(), "lines": found.iter().map(line).collect::<Vec<_>>() }))?;
        } else {
            for SecretLine { file, number, rules } in &found {
                let rules = rules.iter().copied().collect::<Vec<_>>().join(", ");
                output.prose(2, format!("{}:{number}: {rules}", printable(&file.display().to_string())))?;
            }
            if found.is_empty() {
                output.prose(2, format!("no secrets in {files}"))?;
            } else {
                let lines = count(found.len() as u64, "line");
                output.note(&format!("{} in {lines} of {files}; redact.allow lists what is none", styled(BAD, "secrets")));
            }
        }
        Ok(if found.is_empty() { CommandOutcome::Yes } else { CommandOutcome::No })
    }
}

/// The bundles of the current project, by their shortest paths.
fn paths_of_project() -> anyhow::Result<Vec<PathBuf>> {
    let here = std::env::current_dir()?;
    let paths = bundles()?.files()?.into_iter();
    Ok(paths.map(|path| path.strip_prefix(&here).map_or_else(|_| path.clone(), Path::to_owned)).collect())
}

fn lines_with_secrets(path: &Path, redactor: &Redactor) -> std::io::Result<Vec<SecretLine>> {
    let file: File = files::open(path)?;
    let mut found = Vec::new();
    for (at, line) in BufReader::new(file).split(b'\n').enumerate() {
        let (_, rules) = redactor.redact_line(&line?);
        if !rules.is_empty() {
            found.push(SecretLine { file: path.to_owned(), number: at + 1, rules: rules.into_keys().collect() });
        }
    }
    Ok(found)
}

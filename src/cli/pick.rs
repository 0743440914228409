//! The picker: `ctxbridge` without arguments on a terminal, and `ctxbridge search -i`.

mod source;

use std::io::{IsTerminal, stdin, stdout};
use std::path::PathBuf;

use super::output::Output;
use super::{CommandOutcome, UsageError, archives, run_typed};
use ctxbridge_archive::quote::printable;
use ctxbridge_common::paths;
use ctxbridge_config::StoreKind;
use ctxbridge_picker::{Decision, PickerOptions, Selection};
use source::{ArchiveSearch, ArchiveSource};

/// `true` if there is a terminal that can show the picker.
pub(super) fn can_show() -> bool {
    let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    stdin().is_terminal() && stdout().is_terminal() && !is_dumb
}

/// Shows the picker, and does what the user decides in it.
pub(super) fn run(query: &str, project: Option<&str>, output: &mut Output) -> anyhow::Result<CommandOutcome> {
    if output.json || !can_show() {
        return Err(UsageError("--interactive needs a terminal; without it, the hits are printed".to_owned()).into());
    }
    let settings = archives::settings();
    let is_local = settings.archive.store != StoreKind::Postgres;
    if is_local && !archives::location(&settings)?.is_begun() {
        return nothing_yet(output);
    }
    // Two, since the archive is searched while sessions are read.
    let (mut store, mut searched) = (archives::open_to_read(output)?, archives::open_to_read(output)?);
    let project = archives::project(project, &mut *searched, false, output)?;
    if store.sessions("", project.as_ref(), 1)?.is_empty() {
        if project.is_none() {
            return nothing_yet(output);
        }
        output.note("no archived session is of this project");
        return Ok(CommandOutcome::No);
    }
    let here = std::env::current_dir().ok();
    let has_color = anstream::AutoStream::choice(&stdout()) != anstream::ColorChoice::Never;
    let source = ArchiveSource::new(store, project.clone());
    let search = ArchiveSearch::new(searched, project, paths::data_dir()?);
    let options = PickerOptions { query: query.to_owned(), here, has_color };
    let outcome = ctxbridge_picker::run(options, Box::new(source), Box::new(search))?;
    let done = match &outcome.decision {
        Decision::Quit => CommandOutcome::Yes,
        Decision::Show(Selection::Session(id)) => run_typed(&["show", "--", id], output)?,
        Decision::Show(Selection::Turn(handle)) => run_typed(&["recall", "--", handle], output)?,
        Decision::Export(id) => {
            let file = export_file(id);
            run_typed(&["export", "--output", &file.to_string_lossy(), "--", id], output)?
        }
    };
    if let Some(command) = &outcome.copied {
        output.line(printable(command))?;
    }
    Ok(done)
}

fn nothing_yet(output: &Output) -> anyhow::Result<CommandOutcome> {
    output.note("no sessions are archived yet; `ctxbridge setup` archives those that Claude Code has, and wires the hooks");
    Ok(CommandOutcome::No)
}

/// A file in this folder for the export of a session; none that is there.
fn export_file(session: &str) -> PathBuf {
    let short: String = session.chars().filter(char::is_ascii_alphanumeric).take(8).collect();
    let first = PathBuf::from(format!("session-{short}.html"));
    let others = (2..1_000).map(|number| PathBuf::from(format!("session-{short}-{number}.html")));
    std::iter::once(first.clone()).chain(others).find(|file| !file.exists()).unwrap_or(first)
}

//! `ctxbridge archive import`

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde_json::json;

use crate::cli::CommandOutcome;
use crate::cli::archives;
use crate::cli::output::{BAD, GOOD, Output, count, size, styled};
use crate::hook;
use ctxbridge_archive::import::{ImportReport, import_to};
use ctxbridge_archive::quote::printable;
use ctxbridge_archive::reader::Comparison;
use ctxbridge_archive::transcript_paths::{client_folder, folder_of, transcripts_below};
use ctxbridge_claude_flow::{self as claude_flow, ImportError, source::sources_at};
use ctxbridge_common::paths;
use ctxbridge_config::{Config, ConfigSources};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ctxbridge archive import                all of ~/.claude/projects
  ctxbridge archive import ~/old/session.jsonl
  ctxbridge archive import --from claude-flow ~/src/project

Safe to interrupt; the next run resumes.")]
pub(super) struct ImportArgs {
    /// Transcripts or folders with transcripts [default: ~/.claude/projects]; with --from, archives of that tool or projects with
    /// one [default: the current folder and your home]
    paths: Vec<PathBuf>,
    /// Import from another tool: `transcript-archive.db` or `.json` of claude-flow (ruflo)
    #[arg(long, value_name = "TOOL")]
    from: Option<ImportTool>,
    /// Run detached from the terminal at low priority, as hooks start it
    #[arg(long, hide = true)]
    background: bool,
}

/// Another tool whose archives can be imported.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum ImportTool {
    ClaudeFlow,
}

impl ImportArgs {
    pub fn run(&self, output: &mut Output) -> anyhow::Result<CommandOutcome> {
        output.reports();
        if let Some(ImportTool::ClaudeFlow) = self.from {
            return self.take_claude_flow(output);
        }
        if self.background {
            hook::detach_and_renice();
        }
        let given = if self.paths.is_empty() {
            let folder = client_folder().context("no home directory; give the path of transcripts")?.join("projects");
            anyhow::ensure!(folder.exists(), "no transcripts: there is no {}; give the path of some", folder.display());
            vec![folder]
        } else {
            self.paths.clone()
        };
        let mut trouble = Vec::new();
        let mut paths = Vec::new();
        for path in &given {
            let path = std::path::absolute(path)?;
            paths.extend(transcripts_below(&path, &mut |path, error| trouble.push((path.to_owned(), error.to_string()))));
        }
        paths.dedup();
        let all = paths.len();
        let mut scopes = FolderScopes::default();
        paths.retain(|path| !scopes.leave_out(path));
        let left_out = all - paths.len();
        let progress = std::sync::Mutex::new(std::time::Instant::now());
        let shown: &Output = output;
        let data = paths::data_dir()?;
        let location = archives::location(&archives::settings())?;
        // What was archived while there was no database is older than what is new in the transcripts.
        crate::cli::merge_back::merge_back(&location, None, output);
        let imported = import_to(&location, &paths, Comparison::Whole, &claude_flow::supersede_imported_after, &|done| {
            const OFTEN_ENOUGH: std::time::Duration = std::time::Duration::from_millis(100);
            if let Ok(mut last) = progress.try_lock()
                && last.elapsed() > OFTEN_ENOUGH
            {
                *last = std::time::Instant::now();
                shown.progress(&format!(
                    "{} of {} transcripts, {}",
                    done.transcripts,
                    done.total,
                    size(done.bytes.cast_signed())
                ));
            }
        });
        output.clear_progress();
        let mut imported = imported?;
        imported.failed.extend(trouble);
        if let Some(aside) = imported.quarantined.as_ref().filter(|_| self.background) {
            hook::queue_damage_notice(&data, aside);
        }
        super::follow_projects(&location, self.background, output);
        tell(&imported, left_out, output)?;
        start_upkeep(imported.turns > 0, output)?;
        anyhow::ensure!(imported.failed.is_empty() || imported.transcripts > imported.failed.len(), "nothing could be archived");
        Ok(CommandOutcome::Yes)
    }

    fn take_claude_flow(&self, output: &mut Output) -> anyhow::Result<CommandOutcome> {
        let given = if self.paths.is_empty() {
            [std::env::current_dir().ok(), paths::home_dir()].into_iter().flatten().collect()
        } else {
            self.paths.clone()
        };
        let mut sources: Vec<PathBuf> = Vec::new();
        for path in &given {
            let path = paths::real(path).with_context(|| format!("cannot read {}", path.display()))?;
            for source in sources_at(&path) {
                let source = paths::real(&source).with_context(|| format!("cannot read {}", source.display()))?;
                if !sources.contains(&source) {
                    sources.push(source);
                }
            }
        }
        if sources.is_empty() {
            let given: Vec<_> = given.iter().map(|path| path.display().to_string()).collect();
            output.note(&format!(
                "no archive of claude-flow in {}; give the path of a transcript-archive.db or .json, or the project that has it in \
                 .claude-flow/data",
                given.join(", ")
            ));
            if output.json {
                output.value(&claude_flow_value(&sources, &claude_flow::EntryImportReport::default()))?;
            }
            return Ok(CommandOutcome::No);
        }
        let projects = client_folder().map(|folder| folder.join("projects")).filter(|folder| folder.is_dir());
        let mut store = archives::open_to_write(output)?;
        let mut imported = claude_flow::EntryImportReport::default();
        let mut unreadable = Vec::new();
        for source in &sources {
            let mut progress = |done: &claude_flow::EntryImportReport| {
                output.progress(&format!("{}: {} entries of {} sessions", source.display(), done.entries, done.sessions.len()));
            };
            match claude_flow::import(&mut *store, source, projects.as_deref(), &mut imported, &mut progress) {
                Err(ImportError::Source(error)) => unreadable.push(error),
                done => done?,
            }
        }
        output.clear_progress();
        if unreadable.len() == sources.len() {
            return Err(unreadable.swap_remove(0).into());
        }
        imported.failed.extend(unreadable.into_iter().map(|error| claude_flow::Failed { id: None, reason: error.to_string() }));
        tell_of_claude_flow(&sources, &imported, output)?;
        start_upkeep(imported.new > 0, output)?;
        anyhow::ensure!(imported.failed.is_empty() || imported.entries > 0, "nothing could be read");
        Ok(CommandOutcome::Yes)
    }
}

/// A first search would have to make the index.
fn start_upkeep(has_new_turns: bool, output: &Output) -> anyhow::Result<()> {
    if has_new_turns && hook::start_upkeep(&paths::data_dir()?, &archives::settings().archive) {
        output.note("Index, learnings and vectors are made in the background. `ctxbridge doctor` says how far they are.");
    }
    Ok(())
}

fn claude_flow_value(sources: &[PathBuf], imported: &claude_flow::EntryImportReport) -> serde_json::Value {
    let claude_flow::EntryImportReport { sessions, entries, new, matched, unchanged, updated, embeddings, failed, more_failed } =
        imported;
    let failed: Vec<_> = failed.iter().map(|failed| json!({ "id": failed.id, "reason": failed.reason })).collect();
    json!({
        "from": claude_flow::NAME, "sources": sources, "sessions": sessions.len(), "entries": entries, "new": new, "matched": matched,
        "unchanged": unchanged, "updated": updated, "embeddings": embeddings, "failed": failed, "more_failed": more_failed,
    })
}

fn tell_of_claude_flow(
    sources: &[PathBuf],
    imported: &claude_flow::EntryImportReport,
    output: &mut Output,
) -> anyhow::Result<()> {
    const MAX_SHOWN_FAILURES: usize = 10;
    for failed in imported.failed.iter().take(MAX_SHOWN_FAILURES) {
        let id = failed.id.as_deref().map_or_else(String::new, |id| format!("{}: ", printable(id)));
        output.note(&format!("{} {id}{}", styled(BAD, "not read:"), printable(&failed.reason)));
    }
    let more = imported.failed.len().saturating_sub(MAX_SHOWN_FAILURES) as u64 + imported.more_failed;
    if more > 0 {
        output.note(&format!("and {more} more; --json lists them"));
    }
    if output.json {
        return output.value(&claude_flow_value(sources, imported));
    }
    let claude_flow::EntryImportReport { sessions, entries, new, matched, unchanged, updated, embeddings, .. } = imported;
    output.prose(
        2,
        format!(
            "{} {} of {} from {}; {new} became turns",
            styled(GOOD, "imported:"),
            crate::cli::output::count(*entries, "entry"),
            count(sessions.len() as u64, "session"),
            names(sources)
        ),
    )?;
    for (number, what) in [
        (matched, "are in the sessions' own transcripts, which say more"),
        (unchanged, "were there from an earlier import"),
        (updated, "brought higher counts or trust"),
        (embeddings, "brought a vector"),
    ] {
        if *number > 0 {
            output.prose(2, format!("{number} {what}"))?;
        }
    }
    Ok(())
}

fn names(sources: &[PathBuf]) -> String {
    let name = |path: &PathBuf| Path::new(path).display().to_string();
    sources.iter().map(name).collect::<Vec<_>>().join(", ")
}

/// Answers if transcripts are left out, by the folders that their sessions were started in.
#[derive(Default)]
struct FolderScopes(HashMap<PathBuf, bool>);

impl FolderScopes {
    fn leave_out(&mut self, transcript: &Path) -> bool {
        let Some(folder) = folder_of(transcript) else { return false };
        let is_left_out = |folder: &Path| {
            let config = Config::load(&ConfigSources::of_process(Some(folder)));
            config.left_out(folder, paths::home_dir().as_deref()).is_some()
        };
        *self.0.entry(folder).or_insert_with_key(|folder| is_left_out(folder))
    }
}

fn tell(imported: &ImportReport, left_out: usize, output: &mut Output) -> anyhow::Result<()> {
    if let Some(aside) = &imported.quarantined {
        output.note(&format!(
            "the archive was damaged and is now {}; the new one begins with what could be read of it",
            aside.display()
        ));
    }
    if let Some(instead) = &imported.fallback_reason {
        output.note(instead);
    }
    let failed = || imported.failed.iter().chain(&imported.side_failed);
    for (path, error) in failed() {
        let error = if error.contains(&*path.to_string_lossy()) { error.clone() } else { format!("{}: {error}", path.display()) };
        output.note(&format!("{} {error}", styled(BAD, "not archived:")));
    }
    for (path, file) in &imported.omitted {
        let bytes = size(file.bytes.cast_signed());
        output.note(&format!("noted, not kept, since it is too large ({bytes}): {}", printable(&path.to_string_lossy())));
    }
    if output.json {
        let failed: Vec<_> = failed().map(|(path, error)| json!({ "path": path, "reason": error })).collect();
        return output.value(&json!({
            "transcripts": imported.transcripts, "bytes": imported.bytes, "turns": imported.turns,
            "left_out": left_out, "bad_lines": imported.bad_lines, "rewritten": imported.rewritten, "side_files": imported.side_files,
            "side_bytes": imported.side_bytes,
            "omitted": imported.omitted.iter().map(|(path, file)| json!({
                "path": path, "bytes": file.bytes, "sha256": file.sha256,
            })).collect::<Vec<_>>(),
            "failed": failed,
        }));
    }
    let ImportReport { transcripts, turns, bytes, bad_lines, rewritten, .. } = imported;
    output.prose(
        2,
        format!(
            "{} {}; {} and {} were new",
            styled(GOOD, "archived:"),
            count(*transcripts as u64, "transcript"),
            size(bytes.cast_signed()),
            count(*turns, "turn")
        ),
    )?;
    if left_out > 0 {
        output
            .prose(2, format!("{} left out, by `archive.exclude` or `archive.enabled`", count(left_out as u64, "transcript")))?;
    }
    if imported.side_files > 0 {
        let (files, bytes) = (count(imported.side_files, "file"), size(imported.side_bytes.cast_signed()));
        output.prose(2, format!("{files} beside them, new or changed: {bytes}"))?;
    }
    if *rewritten > 0 {
        output.prose(2, format!("{rewritten} had been rewritten; what they were before is kept"))?;
    }
    if *bad_lines > 0 {
        output.prose(2, format!("{bad_lines} lines could not be read; their bytes are kept"))?;
    }
    Ok(())
}

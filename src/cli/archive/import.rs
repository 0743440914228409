//! `ctxbridge archive import`

use std::path::PathBuf;

use anyhow::Context as _;
use serde_json::json;

use crate::archive::import::{Imported, import};
use crate::archive::place::{client_folder, transcripts_below};
use crate::archive::reader::Comparison;
use crate::cli::Answer;
use crate::cli::output::{BAD, GOOD, Output, count, size, styled};
use crate::{hook, paths};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ctxbridge archive import                       everything in ~/.claude/projects
  ctxbridge archive import ~/old/session.jsonl

It can be interrupted and begun again: it goes on where it was.")]
pub(super) struct ImportArgs {
    /// Transcripts, or folders of them [default: the client's projects]
    paths: Vec<PathBuf>,
    /// Leave the terminal and step back, as hooks start it
    #[arg(long, hide = true)]
    background: bool,
}

impl ImportArgs {
    pub fn run(&self, output: &mut Output) -> anyhow::Result<Answer> {
        if self.background {
            hook::settle();
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
        let progress = std::sync::Mutex::new(std::time::Instant::now());
        let shown: &Output = output;
        let data = paths::data_dir()?;
        let imported = import(&data, &paths, Comparison::Whole, &|done| {
            const OFTEN_ENOUGH: std::time::Duration = std::time::Duration::from_millis(100);
            if let Ok(mut last) = progress.try_lock()
                && last.elapsed() > OFTEN_ENOUGH
            {
                *last = std::time::Instant::now();
                shown.progress(&format!("{} of {} transcripts, {}", done.transcripts, done.of, size(done.bytes.cast_signed())));
            }
        });
        output.clear_progress();
        let mut imported = imported?;
        imported.failed.extend(trouble);
        if let Some(aside) = imported.aside.as_ref().filter(|_| self.background) {
            hook::tell_of_damage(&data, aside);
        }
        tell(&imported, output)?;
        anyhow::ensure!(imported.failed.is_empty() || imported.transcripts > imported.failed.len(), "nothing could be archived");
        Ok(Answer::Yes)
    }
}

fn tell(imported: &Imported, output: &mut Output) -> anyhow::Result<()> {
    if let Some(aside) = &imported.aside {
        output.note(&format!("the archive was damaged and is now {}; this is a new one", aside.display()));
    }
    for (path, error) in &imported.failed {
        let error = if error.contains(&*path.to_string_lossy()) { error.clone() } else { format!("{}: {error}", path.display()) };
        output.note(&format!("{} {error}", styled(BAD, "not archived:")));
    }
    if output.json {
        let failed: Vec<_> = imported.failed.iter().map(|(path, error)| json!({ "path": path, "reason": error })).collect();
        return output.value(&json!({
            "transcripts": imported.transcripts, "bytes": imported.bytes, "turns": imported.turns,
            "bad_lines": imported.bad_lines, "rewritten": imported.rewritten, "failed": failed,
        }));
    }
    let Imported { transcripts, turns, bytes, bad_lines, rewritten, .. } = imported;
    output.line(format!(
        "{} {}; {} and {} were new",
        styled(GOOD, "archived:"),
        count(*transcripts as u64, "transcript"),
        size(bytes.cast_signed()),
        count(*turns, "turn")
    ))?;
    if *rewritten > 0 {
        output.line(format!("{rewritten} had been rewritten; what they were before is kept"))?;
    }
    if *bad_lines > 0 {
        output.line(format!("{bad_lines} lines could not be read; their bytes are kept"))?;
    }
    Ok(())
}

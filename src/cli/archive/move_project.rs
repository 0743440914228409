//! `ctxbridge archive move`

use std::path::{Path, PathBuf};

use serde_json::json;

use crate::cli::output::{DIM, GOOD, Output, count, styled};
use crate::cli::{CommandOutcome, UsageError, archives, server};
use ctxbridge_archive::project::{KnownFolders, ProjectScope, similar};
use ctxbridge_archive::project_moves::{apply_move, follow_project, plan_move, plan_return, sessions_of};
use ctxbridge_archive::quote;
use ctxbridge_archive::store::{Session, SessionMove};
use ctxbridge_config::StoreKind;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ctxbridge archive move ~/src/old-name ~/src/new-name --dry-run
  ctxbridge archive move ~/src/old-name ~/src/new-name

Tells the archive that a project's folder is now elsewhere, so that --project, recall and learnings find its sessions there. A \
renamed folder with a git repository is recognized without this command.

Only the archive changes: no transcript, and no folder. To undo a move, move the project back: what was moved returns.")]
pub(super) struct MoveArgs {
    /// Folder that the project had: a path, or the end of one
    old: String,
    /// Folder that it has now
    new: PathBuf,
    /// Show what would be moved without changing anything
    #[arg(long)]
    dry_run: bool,
}

impl MoveArgs {
    pub fn run(&self, output: &mut Output) -> anyhow::Result<CommandOutcome> {
        output.reports();
        let mut store = archives::open_to_write(output)?;
        let from = std::env::current_dir()?;
        let known = KnownFolders::of(&mut *store, false)?;
        let old = ProjectScope::resolve(&self.old, &from, &known).map_err(|why| UsageError(why.to_string()))?;
        let sessions = sessions_of(&mut *store, &old)?;
        let new = std::path::absolute(&self.new)?;
        let new_name = new.to_string_lossy().into_owned();
        let moves = self.plan(&sessions, &old, &new, &known)?;
        let before = |one: &SessionMove| {
            let session = sessions.iter().find(|session| session.session == one.session);
            session.and_then(|session| session.folder.clone()).unwrap_or_default()
        };
        let now_ms = jiff::Timestamp::now().as_millisecond();
        if !self.dry_run {
            apply_move(&mut *store, &moves, &old, &known.facts)?;
            let config = archives::settings();
            if config.archive.store == StoreKind::Postgres {
                server::open(&config)?.move_sessions(&moves)?;
            }
            // What it is now is known again when it is renamed the next time.
            follow_project(&mut *store, &new, now_ms)?;
        }
        if output.json {
            let moved: Vec<_> =
                moves.iter().map(|one| json!({ "session": one.session, "from": before(one), "to": one.folder })).collect();
            output.value(&json!({ "dry_run": self.dry_run, "moved": moved.len(), "sessions": moved }))?;
            return Ok(CommandOutcome::Yes);
        }
        let sessions = count(moves.len() as u64, "session");
        let (old, new) = (quote::line(&self.old), quote::line(&new_name));
        if self.dry_run {
            output.prose(2, format!("would move {sessions} from {old} to {new}"))?;
        } else {
            output.prose(2, format!("{} {sessions} from {old} to {new}", styled(GOOD, "moved:")))?;
        }
        let mut folders: Vec<(String, &String)> = moves.iter().map(|one| (before(one), &one.folder)).collect();
        folders.sort_unstable();
        folders.dedup();
        for (before, after) in folders {
            output.prose(2, styled(DIM, format!("  {} is {} now", quote::line(&before), quote::line(after))))?;
        }
        Ok(CommandOutcome::Yes)
    }

    /// The sessions to move. Those that came from the new folder go back there, and only they if both folders exist.
    fn plan(
        &self,
        sessions: &[Session],
        old: &ProjectScope,
        new: &Path,
        known: &KnownFolders,
    ) -> Result<Vec<SessionMove>, UsageError> {
        let new_name = new.to_string_lossy();
        let moved_back = plan_return(sessions, &new_name);
        let old_exists = old.roots().iter().any(|root| Path::new(root.path()).is_dir());
        if !moved_back.is_empty() && (old_exists || !new.is_dir()) {
            return Ok(moved_back);
        }
        if sessions.is_empty() {
            let near = similar(&self.old, known);
            let near = if near.is_empty() { String::new() } else { format!("; there are {}", near.join(", ")) };
            return Err(UsageError(format!("no session worked in {}{}", quote::printable(&self.old), quote::printable(&near))));
        }
        if !new.is_dir() {
            return Err(UsageError(format!("{} is not a folder; give the one that the project is in now", new.display())));
        }
        let moves = plan_move(sessions, old, &new_name);
        if moves.is_empty() {
            return Err(UsageError(format!("all sessions of {} are in {} already", quote::printable(&self.old), new.display())));
        }
        Ok(moves)
    }
}

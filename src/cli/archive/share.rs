//! `ctxbridge archive share`

use serde_json::json;

use crate::cli::CommandOutcome;
use crate::cli::archives;
use crate::cli::config::load;
use crate::cli::output::Output;
use ctxbridge_config::Visibility;
use ctxbridge_team::server::TeamServer;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ctxbridge archive share 0b9e5a11 team
  ctxbridge archive share 0b9e5a11 private

The session must be on the server already (`ctxbridge archive sync`). Turns of it that are sent later get the same visibility. \
The default for new sessions is postgres.visibility.")]
pub(super) struct ShareArgs {
    /// Session id or prefix
    session: String,
    /// Visibility of the session; you can always read it
    #[arg(value_enum)]
    with: VisibilityArg,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum VisibilityArg {
    /// Nobody
    Private,
    /// Members of its project
    Project,
    /// All members of the tenant
    Team,
}

impl ShareArgs {
    pub fn run(&self, output: &mut Output) -> anyhow::Result<CommandOutcome> {
        output.reports();
        let server = TeamServer::of(&load(output))?;
        let mut store = server.open()?;
        let Some(session) = archives::find(&mut store, &self.session)? else {
            output.note(&format!(
                "{} has no session {} that you may read; `ctxbridge archive sync` sends what is archived here",
                server.address(),
                self.session
            ));
            return Ok(CommandOutcome::No);
        };
        let visibility = match self.with {
            VisibilityArg::Private => Visibility::Private,
            VisibilityArg::Project => Visibility::Project,
            VisibilityArg::Team => Visibility::Team,
        };
        let is_own = store.set_visibility(session.key, visibility)?;
        anyhow::ensure!(is_own, "session {} is somebody else's; only who sent it can show or hide it", session.session);
        if output.json {
            output.value(&json!({ "session": session.session, "visibility": visibility.name() }))?;
        } else {
            output.prose(2, format!("session {} is seen by {}", session.session, super::sync::audience_text(visibility)))?;
        }
        Ok(CommandOutcome::Yes)
    }
}

//! `ctxbridge archive share`

use serde_json::json;

use crate::cli::Answer;
use crate::cli::config::load;
use crate::cli::output::Output;
use ctxbridge_config::Visibility;
use ctxbridge_team::server::Server;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ctxbridge archive share 0b9e5a11 team
  ctxbridge archive share 0b9e5a11 private

The session has to be on the server (`ctxbridge archive sync`). What is sent of it later is seen by the same people. Sessions that are sent from now on
are seen by those that postgres.visibility says.")]
pub(super) struct ShareArgs {
    /// The session; the begin of its id is enough
    session: String,
    /// Who may read it, besides you
    #[arg(value_enum)]
    with: With,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum With {
    /// Nobody
    Private,
    /// Members of its project
    Project,
    /// All members of the tenant
    Team,
}

impl ShareArgs {
    pub fn run(&self, output: &mut Output) -> anyhow::Result<Answer> {
        let server = Server::of(&load(output))?;
        let mut store = server.open()?;
        let Some(session) = super::find(&mut store, &self.session)? else {
            output.note(&format!(
                "{} has no session {} that you may read; `ctxbridge archive sync` sends what is archived here",
                server.address(),
                self.session
            ));
            return Ok(Answer::No);
        };
        let visibility = match self.with {
            With::Private => Visibility::Private,
            With::Project => Visibility::Project,
            With::Team => Visibility::Team,
        };
        let is_own = store.set_visibility(session.key, visibility)?;
        anyhow::ensure!(is_own, "session {} is somebody else's; only who sent it can show or hide it", session.session);
        if output.json {
            output.value(&json!({ "session": session.session, "visibility": visibility.name() }))?;
        } else {
            output.line(format!("session {} is seen by {}", session.session, super::sync::who(visibility)))?;
        }
        Ok(Answer::Yes)
    }
}

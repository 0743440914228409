//! `ctxbridge archive sync`

use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde_json::json;

use super::sync_preview;
use crate::cli::CommandOutcome;
use crate::cli::config::load;
use crate::cli::output::{BAD, DIM, GOOD, Output, count, size, styled};
use crate::hook;
use ctxbridge_archive::learn::LearningPatterns;
use ctxbridge_archive::open::Location;
use ctxbridge_archive::store::StoreError;
use ctxbridge_archive::store::sqlite::LockPolicy;
use ctxbridge_common::paths;
use ctxbridge_config::Visibility;
use ctxbridge_redact::Redactor;
use ctxbridge_team::postgres::literal;
use ctxbridge_team::server::TeamServer;
use ctxbridge_team::sync::{Backoff, RetryPolicy, SyncError, SyncReport, SyncRun};
use ctxbridge_vectors::embed::EmbeddingModel;

/// Time limit for sending in the background; the next run resumes.
const IN_BACKGROUND: Duration = Duration::from_secs(10 * 60);

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ctxbridge archive sync            send new turns
  ctxbridge archive sync --full     compare all turns with the server
  ctxbridge archive sync --dry-run --show-redactions

Set the server with postgres.url, or postgres.host and related settings (`ctxbridge config show`). docs/postgres.md describes \
the setup.

Secrets are removed before sending; the local archive keeps them. --dry-run looks at what was not sent yet, or with --full at \
everything, and sends nothing; --show-redactions never prints a secret itself. If a server is configured, this also runs in the background at \
the end of each session. Exits 1 if a session could not be sent.")]
pub(super) struct SyncArgs {
    /// Ignore the record of what was sent, and compare everything with the server
    #[arg(long)]
    full: bool,
    /// Send nothing; count the secrets that would be removed
    #[arg(long, conflicts_with = "background")]
    dry_run: bool,
    /// List each secret with its rule and what is around it
    #[arg(long, requires = "dry_run")]
    show_redactions: bool,
    /// Run detached from the terminal at low priority, as hooks start it
    #[arg(long, hide = true)]
    background: bool,
}

impl SyncArgs {
    pub fn run(&self, output: &mut Output) -> anyhow::Result<CommandOutcome> {
        output.reports();
        if self.dry_run {
            return sync_preview::run(self.full, self.show_redactions, output);
        }
        if self.background {
            hook::detach_and_renice();
        }
        let begun = Instant::now();
        let data = paths::data_dir()?;
        let config = load(output);
        let rest = Backoff::in_dir(&data);
        let now_ms = jiff::Timestamp::now().as_millisecond();
        // Whoever types this command means the server that other programs' variables name, too.
        if self.background && (rest.is_active(now_ms) || !config.has_server()) {
            return Ok(CommandOutcome::No);
        }
        // Nor does it go to another server than the one that is meant.
        if let Some(problem) = config.problems.iter().find(|problem| problem.key.starts_with("postgres.")) {
            anyhow::bail!("nothing was sent: {problem}");
        }
        // Nobody is there to see that a tenant was mistyped.
        let server = if self.background { TeamServer::of(&config) } else { TeamServer::for_sync(&config) }?;
        // What the user calls a secret does not leave because of a typing mistake.
        let redactor = Redactor::strict(&config.redact).context("nothing was sent: redact.patterns or redact.allow")?;
        let sent = self.send(&Location::of(&data, &config.archive), &server, &redactor, now_ms, output);
        output.clear_progress();
        match &sent {
            Ok(_) => rest.reset().ok(),
            // Who else sends will note down how that went.
            Err(error) if error.downcast_ref::<SyncError>().is_some_and(|error| matches!(error, SyncError::Running)) => None,
            Err(error) => rest.record_failure(&error.to_string(), now_ms).ok(),
        };
        tell(&sent?, &server, begun.elapsed(), output)
    }

    fn send(
        &self,
        location: &Location,
        server: &TeamServer,
        redactor: &Redactor,
        now_ms: i64,
        output: &Output,
    ) -> anyhow::Result<SyncReport> {
        let patterns = LearningPatterns::of_user().0;
        let model = Mutex::new(EmbeddingModel::installed(location.data()));
        let opened = server.open()?;
        if opened.is_new_tenant() {
            output.note(&format!(
                "the tenant {} is new on {}: {} is its first member, and its admin. Others are added with SELECT ctxbridge.add_member({}, 'ROLE') \
                 there; if it was mistyped, set postgres.tenant",
                server.tenant(),
                server.address(),
                opened.user(),
                literal(server.tenant())
            ));
        }
        let name = opened.identity().map_err(StoreError::from)?;
        let sending = SyncRun {
            data: location.data(),
            from: &|| Ok(location.open_for_reading(LockPolicy::Background)?.store),
            to: &|| Ok(Box::new(server.open()?)),
            name: &name,
            redactor,
            patterns: &patterns,
            model: Some(&model),
            is_full_resync: self.full,
            deadline: self.background.then(|| Instant::now() + IN_BACKGROUND),
            retries: RetryPolicy::default(),
            now_ms,
        };
        Ok(sending.run(&|done| {
            output.progress(&match done.derived {
                _ if done.embedded > 0 => format!("vectors: of {} so far", done.embedded),
                0 => format!("{} of {} sessions, {}", done.looked_at, done.total, size(done.bytes.cast_signed())),
                derived => format!("learning: {derived} of {} sessions", done.sessions),
            });
        })?)
    }
}

fn tell(sent: &SyncReport, server: &TeamServer, took: Duration, output: &mut Output) -> anyhow::Result<CommandOutcome> {
    for (session, reason) in &sent.failed {
        output.note(&format!("{} session {session}: {reason}", styled(BAD, "not sent:")));
    }
    for (project, sessions) in &sent.hidden {
        output.note(&format!(
            "{} of {project} {}: you are no member of that project on the server. One of its members runs \
             SELECT ctxbridge.add_to_project({}, {}, 'YOUR ROLE') there; then `ctxbridge archive share SESSION project`",
            count(*sessions as u64, "session"),
            styled(BAD, if *sessions == 1 { "stays private" } else { "stay private" }),
            literal(server.tenant()),
            literal(project)
        ));
    }
    if sent.unnamed > 0 && server.visibility() == Visibility::Project {
        output.note(&format!(
            "{} {}: what the project is called has a secret in it (redact.patterns)",
            count(sent.unnamed as u64, "session"),
            styled(BAD, if sent.unnamed == 1 { "stays private" } else { "stay private" }),
        ));
    }
    if sent.not_text > 0 {
        output.note(&format!(
            "{} beside transcripts not sent: no text, so secrets in them would not be found",
            count(sent.not_text as u64, "file")
        ));
    }
    let secrets: usize = sent.secrets.values().sum();
    if output.json {
        let failed: Vec<_> =
            sent.failed.iter().map(|(session, reason)| json!({ "session": session, "reason": reason })).collect();
        output.value(&json!({
            "server": server.address(), "tenant": server.tenant(), "visibility": server.visibility().name(),
            "looked_at": sent.looked_at, "sessions": sent.sessions, "transcripts": sent.transcripts, "turns": sent.turns,
            "bytes": sent.bytes, "learnings": sent.learnings, "embedded": sent.embedded, "no_vectors": sent.no_vectors, "redacted": secrets, "redacted_by_rule": sent.secrets,
            "failed": failed, "stay_private": sent.hidden, "unnamed": sent.unnamed,
            "not_text": sent.not_text, "withheld": sent.withheld, "is_cut": sent.is_cut, "elapsed_ms": took.as_millis() as u64,
        }))?;
    } else if sent.sessions == 0 {
        output.prose(2, format!("nothing is new for {}", server.address()))?;
    } else {
        output.prose(
            2,
            format!(
                "{} of {} sent to {}: {} of {}",
                count(sent.turns, "turn"),
                size(sent.bytes.cast_signed()),
                server.address(),
                count(sent.transcripts as u64, "transcript"),
                count(sent.sessions as u64, "session"),
            ),
        )?;
        output.prose(
            2,
            format!(
                "as {}, seen by {}; {} found there",
                server.tenant(),
                audience_text(server.visibility()),
                count(sent.learnings as u64, "new learning")
            ),
        )?;
        if secrets > 0 {
            let rules: Vec<_> = sent.secrets.iter().map(|(rule, count)| format!("{count} {rule}")).collect();
            output.prose(2, format!("{} taken out: {}", count(secrets as u64, "secret"), rules.join(", ")))?;
        }
        output.prose(2, styled(DIM, format!("in {:.1} s", took.as_secs_f64())))?;
    }
    if let Some(reason) = sent.no_vectors.as_ref().filter(|_| !output.json) {
        output.note(reason);
    }
    if sent.withheld > 0 && !output.json {
        output
            .prose(2, styled(DIM, format!("{} not sent (`ctxbridge archive revoke`)", count(sent.withheld as u64, "session"))))?;
    }
    if sent.is_cut {
        output.note("time was up; the next run goes on");
    }
    if sent.failed.is_empty() && !output.json && sent.sessions > 0 {
        output.prose(2, styled(GOOD, "done"))?;
    }
    Ok(if sent.failed.is_empty() { CommandOutcome::Yes } else { CommandOutcome::No })
}

/// Describes who may read sent sessions.
pub(super) fn audience_text(visibility: Visibility) -> &'static str {
    match visibility {
        Visibility::Private => "you alone",
        Visibility::Project => "those of its project",
        Visibility::Team => "the whole team",
    }
}

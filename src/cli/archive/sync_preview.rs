//! `ctxbridge archive sync --dry-run`

use anyhow::Context as _;
use serde_json::json;

use crate::cli::CommandOutcome;
use crate::cli::config::load;
use crate::cli::output::{BOLD, DIM, Output, count, styled};
use ctxbridge_archive::open::Location;
use ctxbridge_archive::quote;
use ctxbridge_archive::quote::printable;
use ctxbridge_archive::store::sqlite::LockPolicy;
use ctxbridge_common::paths;
use ctxbridge_config::Config;
use ctxbridge_redact::Redactor;
use ctxbridge_team::server::TeamServer;
use ctxbridge_team::sync::{PreviewedSecret, SyncPreview, SyncPreviewReport};

/// Maximum characters of a context, so that its line fits 80 columns.
const MAX_CONTEXT_CHARS: usize = 76;

/// Looks at what would be sent.
pub fn run(is_full: bool, shows_redactions: bool, output: &mut Output) -> anyhow::Result<CommandOutcome> {
    let data = paths::data_dir()?;
    let config = load(output);
    let redactor = Redactor::strict(&config.redact).context("nothing was looked at: redact.patterns or redact.allow")?;
    let name = if is_full { None } else { server_name(&config, output) };
    let location = Location::of(&data, &config.archive);
    let mut store = location.open_for_reading(LockPolicy::Background)?.store;
    let mut secrets = Vec::new();
    let preview = SyncPreview { data: &data, name: name.as_deref(), redactor: &redactor };
    let report = preview.run(&mut *store, &mut |secret| {
        if shows_redactions {
            secrets.push(secret);
        }
    })?;
    if output.json {
        let of_secret = |secret: &PreviewedSecret| json!({ "session": secret.session, "place": secret.place, "rule": secret.finding.rule, "context": secret.finding.context });
        let list: Option<Vec<_>> = shows_redactions.then(|| secrets.iter().map(of_secret).collect());
        output.value(&json!({
            "sessions": report.sessions, "withheld": report.withheld, "not_text": report.not_text,
            "redacted_by_rule": report.secrets, "redactions": list,
        }))?;
    } else {
        list(&secrets, output)?;
        summarize(&report, output)?;
    }
    Ok(CommandOutcome::Yes)
}

/// Identity of the server, whose record says what it has. Without one, everything is looked at.
fn server_name(config: &Config, output: &Output) -> Option<String> {
    if !config.has_server() {
        return None;
    }
    let identity = || -> anyhow::Result<String> { Ok(TeamServer::for_sync(config)?.open()?.identity()?) };
    identity()
        .map_err(|error| output.note(&format!("all sessions are looked at, since the server does not answer: {error:#}")))
        .ok()
}

fn list(secrets: &[PreviewedSecret], output: &mut Output) -> anyhow::Result<()> {
    let mut last = None;
    for PreviewedSecret { session, place: place_of, finding } in secrets {
        if last != Some((session, place_of)) {
            let place = place_of.as_deref().map(|place| format!(" {place}")).unwrap_or_default();
            output.line(styled(BOLD, printable(&format!("session {session}{place}"))))?;
            last = Some((session, place_of));
        }
        let context = quote::cut(&printable(&quote::line(&finding.context)), MAX_CONTEXT_CHARS);
        output.line(format!("  {context}"))?;
    }
    Ok(())
}

fn summarize(report: &SyncPreviewReport, output: &mut Output) -> anyhow::Result<()> {
    if report.sessions == 0 {
        output.line("nothing is new for the server")?;
    } else {
        let all: usize = report.secrets.values().sum();
        let sessions = count(report.sessions as u64, "session");
        output.line(format!("{} would be removed from {sessions}; nothing was sent", count(all as u64, "secret")))?;
        for (rule, count) in &report.secrets {
            output.line(format!("  {count:>6}  {rule}"))?;
        }
    }
    for (number, what) in [(report.withheld, "session"), (report.not_text, "file")] {
        let reason = if what == "file" { "no text" } else { "`ctxbridge archive revoke`" };
        if number > 0 {
            output.line(styled(DIM, format!("{} not sent ({reason})", count(number as u64, what))))?;
        }
    }
    Ok(())
}

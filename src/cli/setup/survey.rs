//! Survey of a machine: its client, its sessions, and what is installed already.

use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;

use crate::bundle::{Bundles, Project};
use crate::cli::client_mod::user_settings;
use crate::cli::{Output, archives, configuration, with_windows};
use crate::client_mod::install::{ReleaseSupport, is_enabled};
use crate::dashboard::data::simulate;
use crate::hook::settings::scope::{SettingsPaths, SettingsScope};
use crate::hook::settings::status::{ScopeStatus, status};
use crate::hook::settings::statusline::{StatuslineState, statusline_state};
use crate::hook::settings::wiring::WIRED;
use crate::hook::{Event, supported_events};
use ctxbridge_archive::open::Location;
use ctxbridge_archive::store::sqlite::LockPolicy;
use ctxbridge_archive::transcript_paths::{client_folder, transcripts_below};
use ctxbridge_common::{files, paths};
use ctxbridge_patch::catalog::Catalog;
use ctxbridge_patch::inspect::TargetState;
use ctxbridge_patch::install::Target;
use ctxbridge_patch::patcher::Patcher;
use ctxbridge_vectors::embed::install as model;

/// Time that the replay of sessions may take: whoever sets up waits.
const REPLAYING: Duration = Duration::from_secs(6);
/// Maximum bytes of a transcript that is replayed: larger ones would take most of the time.
const MAX_REPLAYED_BYTES: u64 = 24 << 20;

/// The state of a machine before the setup.
pub(super) struct Survey {
    /// The client that the shell runs, or the reason why there is none.
    pub client: Result<Target, String>,
    /// State of its file; none if it cannot be told.
    pub patch: Option<TargetState>,
    /// `true` if upgrades of a patched client are patched by themselves.
    pub keeps_patch: bool,
    /// Transcripts of sessions, the newest first.
    pub transcripts: Vec<PathBuf>,
    /// Time of the oldest.
    pub since: Option<SystemTime>,
    /// Compactions, replayed without and with pruning.
    pub replayed: Replayed,
    /// Sessions in the archive.
    pub archived: u64,
    /// Transcripts whose session is not in it.
    pub unarchived: u64,
    /// `true` if the plugin with the mod is enabled.
    pub has_plugin: bool,
    /// `true` if all hooks are wired in settings.
    pub has_hooks: bool,
    /// The status line, or the reason why the settings cannot be read.
    pub statusline: Result<StatuslineState, String>,
    /// The project around the current folder, and whether it has bundles.
    pub project: Option<(PathBuf, bool)>,
    /// `true` if the embedding model is installed.
    pub has_model: bool,
    /// The client's settings of the user.
    pub settings: PathBuf,
}

/// Compactions of sessions, as they are replayed.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Replayed {
    /// Sessions that were replayed, the newest ones.
    pub sessions: u64,
    /// Compactions without pruning.
    pub compactions: u64,
    /// Compactions with it.
    pub pruned_compactions: u64,
}

impl Survey {
    /// Looks at this machine. Nothing is changed.
    pub fn of_this_machine(output: &Output) -> anyhow::Result<Self> {
        let (settings, current) = (user_settings()?, std::env::current_dir()?);
        output.progress("looking for Claude Code");
        let client = Target::resolve(None).map_err(|error| error.to_string());
        let patch = client.as_ref().ok().and_then(state_of_file);
        output.progress("looking for sessions");
        let mut found: Vec<(SystemTime, PathBuf)> = client_folder()
            .map(|folder| transcripts_below(&folder.join("projects"), &mut |_, _| {}))
            .unwrap_or_default()
            .into_iter()
            .filter(|path| !is_of_agent(path))
            .filter_map(|path| Some((path.metadata().ok()?.modified().ok()?, path)))
            .collect();
        found.sort_by(|a, b| b.cmp(a));
        let since = found.last().map(|(time, _)| *time);
        let transcripts: Vec<PathBuf> = found.into_iter().map(|(_, path)| path).collect();
        let replayed = replay(&transcripts, output);
        output.clear_progress();
        let config_dir = std::env::var_os("CLAUDE_CONFIG_DIR").map(Into::into);
        let places = SettingsPaths::new(paths::home_dir(), config_dir, &current);
        let path = std::env::var_os("PATH");
        // Those of the user's settings: a project's are for that project.
        let version = client.as_ref().ok().and_then(|client| client.version.clone());
        let wanted = version.map(|version| supported_events(&version)).unwrap_or_default();
        let wanted: Vec<Event> = WIRED.iter().map(|wiring| wiring.event).filter(|event| wanted.contains(event)).collect();
        let wired = status(&places, &[SettingsScope::User], (&wanted, &[]), path.as_deref());
        let in_settings = |scope: &ScopeStatus| wanted.iter().all(|event| scope.hooks.iter().any(|hook| hook.event == *event));
        let has_hooks = !wanted.is_empty() && wired.is_ok_and(|status| status.scopes.iter().all(in_settings));
        let (archived, unarchived) = archived(&transcripts);
        let project = Project::around(&current, paths::home_dir().as_deref());
        let model = model::folder().is_ok_and(|folder| model::status(&folder).state == model::InstallState::Installed);
        Ok(Self {
            client,
            patch,
            keeps_patch: configuration(output).patch.keep,
            transcripts,
            since,
            replayed,
            archived,
            unarchived,
            has_plugin: is_enabled(&settings),
            has_hooks,
            statusline: statusline_state(&settings).map_err(|error| error.to_string()),
            project: project.map(|project| {
                let has_bundles = Bundles::of(&project).exist().is_ok_and(|exist| exist);
                (project.root, has_bundles)
            }),
            has_model: model,
            settings,
        })
    }

    /// The support of the client for the mod.
    pub fn mod_support(&self) -> ReleaseSupport {
        let version = self.client.as_ref().ok().and_then(|client| client.version.as_ref());
        version.map_or(ReleaseSupport::No, ReleaseSupport::of)
    }

    /// The oldest session's day.
    pub fn since_day(&self) -> Option<String> {
        let since = Timestamp::try_from(self.since?).ok()?;
        Some(since.to_zoned(TimeZone::system()).strftime("%B %Y").to_string())
    }
}

fn state_of_file(client: &Target) -> Option<TargetState> {
    let patcher_data = paths::data_path().ok()?;
    Patcher::new(&patcher_data, Catalog::embedded().ok()?, &|_| {}).verify(client).ok().map(|inspection| inspection.state)
}

/// `true` for the transcript of a sub-agent, which is in its session's folder.
fn is_of_agent(path: &std::path::Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("agent-"))
}

/// Number of sessions in the archive, and of transcripts whose session is not in it. An archive that cannot be read now has none.
fn archived(transcripts: &[PathBuf]) -> (u64, u64) {
    let all = transcripts.len() as u64;
    // Looking makes no folder.
    let Ok(data) = paths::data_path() else { return (0, all) };
    let location = Location::of(&data, &archives::settings().archive);
    let Ok(Some(mut store)) = location.open_without_repair(LockPolicy::Interactive) else { return (0, all) };
    let Ok(totals) = store.totals() else { return (0, all) };
    let is_archived = |path: &&PathBuf| {
        let id = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        store.session(&id).is_ok_and(|found| found.is_some())
    };
    (totals.sessions, all - transcripts.iter().filter(is_archived).count() as u64)
}

/// Replays the newest sessions without and with pruning, as many as the time allows.
fn replay(transcripts: &[PathBuf], output: &Output) -> Replayed {
    let settings = with_windows(configuration(output).prune);
    let deadline = Instant::now() + REPLAYING;
    let mut replayed = Replayed::default();
    for (at, path) in transcripts.iter().enumerate() {
        if Instant::now() > deadline {
            break;
        }
        output.progress(&format!("replaying session {} of {}", at + 1, transcripts.len()));
        let is_large = path.metadata().map_or(true, |metadata| metadata.len() > MAX_REPLAYED_BYTES);
        let Some(bytes) = (!is_large).then(|| files::read(path).ok()).flatten() else { continue };
        if let Ok(savings) = simulate("", &bytes, &settings) {
            replayed.sessions += 1;
            replayed.compactions += savings.without.totals.compactions;
            replayed.pruned_compactions += savings.pruned.totals.compactions;
        }
    }
    replayed
}

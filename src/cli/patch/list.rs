//! `ctxbridge patch list`

use std::path::Path;

use semver::Version;
use serde::Serialize;
use serde_json::json;

use super::{CommandOutcome, Output};
use crate::cli::client_mod::user_settings;
use crate::cli::output::{DIM, GOOD, styled};
use crate::client_mod::install::{ENABLING_VARIABLE, FIRST_RELEASE, ReleaseSupport};
use crate::client_mod::status::{ModStatus, mod_status};
use ctxbridge_common::paths;
use ctxbridge_patch::catalog::Catalog;
use ctxbridge_patch::container::ContainerKind;
use ctxbridge_patch::era::era;
use ctxbridge_patch::inspect::TargetState;
use ctxbridge_patch::install::{Installation, TargetOpenError, discover};
use ctxbridge_patch::patcher::{PatchError, Patcher};

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  ctxbridge patch list --json")]
pub(super) struct PatchListArgs {}

#[derive(Serialize)]
struct ListedClient {
    path: String,
    same_file: Vec<String>,
    on_path: bool,
    kind: Option<ContainerKind>,
    package: Option<String>,
    version: Option<String>,
    era: Option<&'static str>,
    state: Option<TargetState>,
    patches: Vec<String>,
    #[serde(rename = "mod")]
    module: Option<ListedMod>,
    problem: Option<String>,
}

/// The mod, as it is in a client.
#[derive(Serialize)]
struct ListedMod {
    support: ReleaseSupport,
    in_force: bool,
    #[serde(flatten)]
    status: ModStatus,
}

impl PatchListArgs {
    pub fn run(&self, catalog: Catalog, output: &mut Output) -> anyhow::Result<CommandOutcome> {
        output.progress("looking for clients");
        let project = std::env::current_dir().ok();
        let installations = discover(project.as_deref());
        let notice = |text: &str| output.note(text);
        let (data, settings) = (paths::data_dir()?, user_settings()?);
        let patcher = Patcher::new(&data, catalog, &notice);
        let count = installations.len();
        let mut entries = Vec::new();
        for (index, installation) in installations.into_iter().enumerate() {
            // An executable that was not looked at before is read whole, which takes a second.
            output.progress(&format!("reading client {} of {count}, {}", index + 1, installation.path.display()));
            let version = installation.client.as_ref().ok().and_then(|target| target.version.as_ref());
            let module = version.map(|version| listed_mod(&data, &settings, version, installation.on_path));
            entries.push(ListedClient { module, ..entry(installation, &patcher) });
        }
        output.clear_progress();
        let found = !entries.is_empty();
        if output.json {
            output.value(&json!({ "installations": entries }))?;
        } else if found {
            for entry in &entries {
                tell(entry, output)?;
            }
        } else {
            output.prose(27, "no client found; install Claude Code, or name one: ctxbridge patch apply PATH")?;
        }
        Ok(if found { CommandOutcome::Yes } else { CommandOutcome::No })
    }
}

fn entry(installation: Installation, patcher: &Patcher<'_>) -> ListedClient {
    let Installation { path, same_file, on_path, client } = installation;
    let mut entry = ListedClient {
        path: text(&path),
        same_file: same_file.iter().map(|path| text(path)).collect(),
        on_path,
        kind: None,
        package: None,
        version: None,
        era: None,
        state: None,
        patches: Vec::new(),
        module: None,
        problem: None,
    };
    let target = match client {
        Ok(target) => target,
        Err(error) => return ListedClient { problem: Some(error.to_string()), ..entry },
    };
    match patcher.verify(&target) {
        Ok(inspection) => {
            entry.state = Some(inspection.state);
            entry.patches = inspection.patches;
            entry.problem = inspection.reason;
        }
        // The path is told anyway.
        Err(PatchError::Open(TargetOpenError::Container { cause, .. })) => entry.problem = Some(cause.to_string()),
        Err(error) => entry.problem = Some(error.to_string()),
    }
    entry.kind = Some(target.kind);
    entry.package = target.package;
    entry.era = target.version.as_ref().and_then(era);
    entry.version = target.version.map(|version| version.to_string());
    entry
}

fn listed_mod(data: &Path, settings: &Path, version: &Version, on_path: bool) -> ListedMod {
    let (support, status) = (ReleaseSupport::of(version), mod_status(data, settings, Some(version)));
    ListedMod { support, in_force: status.is_in_force_in(support, on_path), status }
}

impl ListedMod {
    /// At most 53 characters, for they are indented.
    fn text(&self) -> String {
        match (&self.status, self.support) {
            _ if self.in_force => "the mod answers its compactions".to_owned(),
            (_, ReleaseSupport::No) => format!("the mod needs {FIRST_RELEASE} or newer"),
            (_, ReleaseSupport::WithVariable) => format!("the mod needs {ENABLING_VARIABLE}=1"),
            (ModStatus::NotInstalled | ModStatus::UnknownClient, _) => "the mod works here: `ctxbridge mod install`".to_owned(),
            _ => "the mod is installed, not loaded: `ctxbridge doctor`".to_owned(),
        }
    }
}

/// Formats a path for people and JSON. Paths that are not Unicode are shown lossily.
fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn tell(entry: &ListedClient, output: &mut Output) -> anyhow::Result<()> {
    let state = match entry.state {
        Some(TargetState::Patched) => styled(GOOD, format!("{:<10}", "patched")),
        Some(TargetState::Unpatched) => format!("{:<10}", "unpatched"),
        Some(TargetState::Upgraded) => format!("{:<10}", "upgraded"),
        Some(TargetState::Modified) => format!("{:<10}", "modified"),
        Some(TargetState::Foreign) => format!("{:<10}", "foreign"),
        None => format!("{:<10}", "-"),
    };
    let version = entry.version.as_deref().unwrap_or("?");
    let era = entry.era.unwrap_or("?");
    let kind = entry.kind.filter(|kind| kind.is_native()).map(|kind| kind.to_string());
    let runs = entry.on_path.then(|| "what `claude` runs".to_owned());
    let remarks = kind.into_iter().chain(runs).collect::<Vec<_>>().join(", ");
    let remarks = if remarks.is_empty() { String::new() } else { styled(DIM, format!(" ({remarks})")) };
    output.prose(27, format!("{version:<10} {era:<4} {state} {}{remarks}", entry.path))?;
    for path in &entry.same_file {
        let told = format!("{:<26} the same file as {}, which a patch leaves as it is", "", path);
        output.prose(27, styled(DIM, told))?;
    }
    if let Some(module) = &entry.module {
        output.prose(27, styled(DIM, format!("{:<26} {}", "", module.text())))?;
    }
    if let Some(problem) = &entry.problem {
        output.prose(27, styled(DIM, format!("{:<26} {problem}", "")))?;
    }
    Ok(())
}

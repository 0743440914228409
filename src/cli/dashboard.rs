//! `ctxbridge dashboard`

use std::io::{Read, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context as _;
use jiff::tz::TimeZone;
use serde_json::json;

use super::output::Output;
use super::{CommandOutcome, configuration, with_windows};
use crate::dashboard::{Dashboard, DashboardConfig};
use crate::doctor::Environment;
use ctxbridge_archive::open::Location;
use ctxbridge_common::files;
use ctxbridge_common::paths;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ctxbridge dashboard            print an address to open in a browser
  ctxbridge dashboard --open     open it
  ctxbridge dashboard --port 8080 --json

Serves only on 127.0.0.1, until Ctrl-C. The address contains a new token each time; anyone who has it can read your \
transcripts. The dashboard is read-only and loads nothing from the network.")]
pub(super) struct DashboardArgs {
    /// Port to listen on [default: any free port]
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    port: u16,
    /// Open the dashboard in the browser
    #[arg(long)]
    open: bool,
    /// Exit when stdin is closed, so that the server does not outlive its parent
    #[arg(long, hide = true)]
    until_eof: bool,
}

/// Locations and settings of this machine.
pub(super) fn source(output: &Output) -> anyhow::Result<DashboardConfig> {
    let data = paths::data_dir()?;
    let config = configuration(output);
    let (place, current) = (data.clone(), std::env::current_dir().unwrap_or_default());
    Ok(DashboardConfig {
        archive: Location::of(&data, &config.archive),
        data,
        prune: with_windows(config.prune),
        zone: TimeZone::system(),
        surroundings: Box::new(move || Environment::of_process(place.clone(), current.clone())),
    })
}

impl DashboardArgs {
    pub fn run(&self, output: &mut Output) -> anyhow::Result<CommandOutcome> {
        let source = source(output)?;
        let data = source.data.clone();
        let dashboard = Dashboard::start(source, self.port)?;
        let url = dashboard.url();
        if output.json {
            output.value(&json!({ "url": url }))?;
        } else {
            output.line(&url)?;
            output.note("Ctrl-C ends it");
        }
        let _door = self.open.then(|| RedirectPage::open(&data, &url)).transpose()?;
        self.wait()?;
        drop(dashboard);
        Ok(CommandOutcome::Yes)
    }

    fn wait(&self) -> anyhow::Result<()> {
        if self.until_eof {
            std::io::copy(&mut std::io::stdin().lock().by_ref(), &mut std::io::sink())?;
            return Ok(());
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(tokio::signal::ctrl_c()).context("cannot wait for Ctrl-C")
    }
}

/// File that redirects the browser to the address. Everybody on the machine can read program arguments, and the address contains
/// the token. The file can be read by its owner alone, and is removed when the server ends.
struct RedirectPage(PathBuf);

impl RedirectPage {
    fn open(data: &Path, url: &str) -> anyhow::Result<Self> {
        let path = data.join("dashboard.html");
        let page = format!(
            "<!doctype html><meta charset=utf-8><meta http-equiv=refresh content=\"0; url={url}\"><a href=\"{url}\">ctxbridge</a>\n"
        );
        std::fs::remove_file(&path).ok();
        let written = files::private().create_new(true).open(&path).and_then(|mut file| file.write_all(page.as_bytes()));
        written.with_context(|| format!("{} cannot be written", path.display()))?;
        let door = Self(path);
        let program = match std::env::consts::OS {
            "macos" => "open",
            "windows" => "explorer",
            _ => "xdg-open",
        };
        let opened = Command::new(program).arg(&door.0).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        opened.with_context(|| {
            format!("there is no `{program}` to open a browser with; leave --open out and open the address yourself")
        })?;
        Ok(door)
    }
}

impl Drop for RedirectPage {
    fn drop(&mut self) {
        std::fs::remove_file(&self.0).ok();
    }
}

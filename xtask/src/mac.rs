//! `cargo xtask mac-check`: what can only be seen on a Mac, for the first person who has one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context as _, Result, bail, ensure};
use ctxbridge::client::releases;
use ctxbridge::common::digest;

use crate::tools::built_program;

#[derive(Debug, clap::Args)]
pub struct MacArgs {
    /// Executable of the client to copy [default: the newest release, fetched with npm]
    #[arg(long, value_name = "FILE")]
    client: Option<PathBuf>,
    /// Only list what would be looked at
    #[arg(long)]
    list: bool,
}

/// A thing to look at, and the way to do so.
type Look = (&'static str, fn(&MacTrial) -> Result<()>);

const LOOKS: [Look; 9] = [
    ("the publisher's signature is valid", |scene| scene.is_signed()),
    ("the client is patched, and runs", |scene| scene.patch("apply")),
    ("the new signature is valid, strictly", |scene| scene.is_signed()),
    ("the entitlements are the publisher's", |scene| {
        ensure!(scene.entitlements()? == scene.entitlements, "they are {}", scene.entitlements()?);
        Ok(())
    }),
    ("the patched client says its version", |scene| {
        let said = succeeded(Command::new(&scene.copy).arg("--version"))?;
        ensure!(!said.stdout.is_empty(), "it says nothing");
        Ok(())
    }),
    ("patching it again changes nothing", |scene| {
        let before = digest::of_file(&scene.copy)?;
        scene.patch("apply")?;
        ensure!(digest::of_file(&scene.copy)? == before, "the file is another one");
        Ok(())
    }),
    ("extended attributes are as before", |scene| {
        ensure!(scene.attributes()? == scene.attributes, "they are {}", scene.attributes()?);
        Ok(())
    }),
    ("the original comes back, to the byte", |scene| {
        scene.patch("revert")?;
        ensure!(digest::of_file(&scene.copy)? == scene.sha256, "it is another file");
        Ok(())
    }),
    ("the publisher's signature is valid again", |scene| scene.is_signed()),
];

/// A copy of the client, and what it was like before.
struct MacTrial {
    program: PathBuf,
    copy: PathBuf,
    data: PathBuf,
    sha256: String,
    entitlements: String,
    attributes: String,
}

/// Looks at everything, in order. `false` if something is not as it should be.
pub fn run(args: &MacArgs) -> Result<bool> {
    if args.list {
        LOOKS.iter().for_each(|(what, _)| println!("{what}"));
        return Ok(true);
    }
    if !cfg!(target_os = "macos") {
        bail!("this looks at signatures with macOS's own `codesign`; run it on a Mac, or see what it does with --list");
    }
    let client = match &args.client {
        Some(client) => client.clone(),
        None => releases::fetch_client(&releases::newest()?)?,
    };
    let folder = tempfile::tempdir()?;
    let copy = folder.path().join(client.file_name().context("the client is a file")?);
    fs::copy(&client, &copy).with_context(|| format!("cannot copy {}", client.display()))?;
    let (program, data, sha256) = (built_program()?, folder.path().join("data"), digest::of_file(&copy)?);
    let mut scene = MacTrial { program, copy, data, sha256, entitlements: String::new(), attributes: String::new() };
    (scene.entitlements, scene.attributes) = (scene.entitlements()?, scene.attributes()?);
    let mut failed = 0;
    for (what, look) in LOOKS {
        match look(&scene) {
            Ok(()) => println!("ok    {what}"),
            Err(error) => {
                println!("WRONG {what}: {error:#}");
                failed += 1;
            }
        }
    }
    println!("{} looked at, {failed} wrong; please report this with the macOS and client version", LOOKS.len());
    Ok(failed == 0)
}

impl MacTrial {
    fn patch(&self, verb: &str) -> Result<()> {
        let mut command = Command::new(&self.program);
        succeeded(command.args(["patch", verb]).arg(&self.copy).env("CTXBRIDGE_DATA_DIR", &self.data)).map(drop)
    }

    fn is_signed(&self) -> Result<()> {
        succeeded(Command::new("codesign").args(["--verify", "--strict", "-vvv"]).arg(&self.copy)).map(drop)
    }

    fn entitlements(&self) -> Result<String> {
        text(Command::new("codesign").args(["-d", "--entitlements", "-", "--xml"]), &self.copy)
    }

    /// The extended attributes, but for the mark of a download, which only the publisher's file may have.
    fn attributes(&self) -> Result<String> {
        let all = text(Command::new("xattr").arg("-l"), &self.copy)?;
        Ok(all.lines().filter(|line| !line.starts_with("com.apple.quarantine:")).collect::<Vec<_>>().join("\n"))
    }
}

/// Output of a command about a file.
fn text(command: &mut Command, file: &Path) -> Result<String> {
    Ok(String::from_utf8_lossy(&succeeded(command.arg(file))?.stdout).into_owned())
}

fn succeeded(command: &mut Command) -> Result<Output> {
    let output = command.output().with_context(|| format!("cannot start {}", command.get_program().display()))?;
    ensure!(output.status.success(), "{}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    Ok(output)
}

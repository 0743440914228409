//! `cargo xtask crates`: the picture of the crates in ARCHITECTURE.md, from what cargo knows.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::tools::{cargo_metadata, root};

/// The file that has the picture, and the lines around it.
const FILE: &str = "ARCHITECTURE.md";
const START: &str = "<!-- made by `cargo xtask crates --write` -->\n```text\n";
const END: &str = "```\n";

#[derive(Debug, clap::Args)]
pub struct CratesArgs {
    /// Put the picture into ARCHITECTURE.md
    #[arg(long)]
    write: bool,
}

pub fn run(args: &CratesArgs) -> Result<bool> {
    let picture = picture()?;
    if args.write {
        let path = root().join(FILE);
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {FILE}"))?;
        fs::write(&path, replace(&text, &picture)?).with_context(|| format!("cannot write {FILE}"))?;
    } else {
        print!("{picture}");
    }
    Ok(true)
}

/// Checks that the picture in ARCHITECTURE.md is that of today.
pub fn check() -> Result<()> {
    let text = fs::read_to_string(root().join(FILE)).with_context(|| format!("cannot read {FILE}"))?;
    if replace(&text, &picture()?)? != text {
        bail!("{FILE} shows other crates than there are; `cargo xtask crates --write` draws them");
    }
    Ok(())
}

fn replace(text: &str, picture: &str) -> Result<String> {
    let lacks = || format!("{FILE} has no line {START:?}");
    let (before, rest) = text.split_once(START).with_context(lacks)?;
    let (_, after) = rest.split_once(END).with_context(lacks)?;
    Ok(format!("{before}{START}{picture}{END}{after}"))
}

/// One line for each crate of the product: its name, and the crates that it uses directly. Each stands above all that it uses.
fn picture() -> Result<String> {
    Ok(draw(&uses(&cargo_metadata(&["--no-deps"])?)))
}

/// The crates below `src`, and the package itself, with what they use of each other.
fn uses(metadata: &Value) -> BTreeMap<String, Vec<String>> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let name = |value: &Value| value["name"].as_str().unwrap_or_default().to_owned();
    let is_ours = |name: &str| name == "ctxbridge" || name.starts_with("ctxbridge-") && name != "ctxbridge-testkit";
    let short = |name: &str| name.trim_start_matches("ctxbridge-").to_owned();
    let packages = list(&metadata["packages"]);
    let ours = packages.iter().filter(|package| is_ours(&name(package)));
    ours.map(|package| {
        let normal = list(&package["dependencies"]).into_iter().filter(|used| used["kind"].is_null());
        let mut used: Vec<String> =
            normal.map(|used| name(&used)).filter(|name| is_ours(name)).map(|name| short(&name)).collect();
        used.sort();
        (short(&name(package)), used)
    })
    .collect()
}

fn draw(uses: &BTreeMap<String, Vec<String>>) -> String {
    let mut lines = Vec::new();
    let mut drawn: Vec<&String> = Vec::new();
    // From the bottom: what uses nothing that is not drawn yet. Cargo refuses circles.
    while drawn.len() < uses.len() {
        let next: Vec<_> =
            uses.iter().filter(|(name, used)| !drawn.contains(name) && used.iter().all(|used| drawn.contains(&used))).collect();
        if next.is_empty() {
            break;
        }
        for (name, used) in next {
            lines.push(if used.is_empty() { format!("{name}\n") } else { format!("{name:<12} → {}\n", used.join(", ")) });
            drawn.push(name);
        }
    }
    lines.into_iter().rev().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_crate_stands_above_what_it_uses() {
        let metadata = serde_json::json!({ "packages": [
            { "name": "ctxbridge-a", "dependencies": [{ "name": "ctxbridge-b", "kind": null }, { "name": "ctxbridge-c", "kind": "dev" }, { "name": "serde", "kind": null }] },
            { "name": "ctxbridge-b", "dependencies": [] },
            { "name": "ctxbridge-c", "dependencies": [{ "name": "ctxbridge-a", "kind": null }, { "name": "ctxbridge-b", "kind": null }] },
            { "name": "ctxbridge-testkit", "dependencies": [] },
        ]});
        assert_eq!(draw(&uses(&metadata)), "c            → a, b\na            → b\nb\n");
    }

    #[test]
    fn the_picture_is_put_between_its_lines() {
        let text = format!("# A\n{START}old\n{END}rest\n");
        assert_eq!(replace(&text, "new\n").expect("a place"), format!("# A\n{START}new\n{END}rest\n"));
        assert!(replace("# A\n", "new\n").is_err());
    }
}

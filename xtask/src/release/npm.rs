//! Packages for npm: one with a launcher, and one for each system with the binary. npm installs, of the optional dependencies,
//! only the one whose `os` and `cpu` fit. No script runs at installation, so `--ignore-scripts` costs nothing.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Map, Value, json};

use super::{Archives, NAME, REPOSITORY, SUMMARY, VERSION, template};
use crate::tools::root;

/// Writes the packages into folders below `out`, and returns them: those for the systems first, as they have to be published.
pub fn write(archives: &Archives, out: &Path) -> Result<Vec<PathBuf>> {
    let is_used = fs::read_dir(out).is_ok_and(|mut entries| entries.next().is_some());
    ensure!(!is_used, "{} is not empty", out.display());
    let mut folders = Vec::new();
    let mut systems = Map::new();
    for packed in &archives.packed {
        let target = packed.target;
        let name = target.npm_package();
        let about = format!("{NAME} for {} on {}", target.npm_os, target.npm_cpu);
        let mut manifest = manifest(&name, &about);
        manifest.insert("os".to_owned(), json!([target.npm_os]));
        manifest.insert("cpu".to_owned(), json!([target.npm_cpu]));
        // Yarn would keep it in an archive otherwise, where nothing can be run.
        manifest.insert("preferUnplugged".to_owned(), json!(true));
        let package = NpmPackage { name: &name, folder: out.join(format!("{NAME}-{}-{}", target.npm_os, target.npm_cpu)) };
        package.write_texts(&manifest, "npm/system.md", &about)?;
        package.write(&format!("bin/{}", target.binary()), &packed.binary, true)?;
        systems.insert(name.clone(), json!(VERSION));
        folders.push(package.folder);
    }
    let mut manifest = manifest(NAME, SUMMARY);
    manifest.insert("keywords".to_owned(), json!(["claude-code", "context-window", "compaction", "memory", "mcp"]));
    manifest.insert("bin".to_owned(), json!({ NAME: "bin/ctxbridge.js" }));
    manifest.insert("engines".to_owned(), json!({ "node": ">=18" }));
    manifest.insert("optionalDependencies".to_owned(), Value::Object(systems));
    let package = NpmPackage { name: NAME, folder: out.join(NAME) };
    package.write_texts(&manifest, "npm/README.md", SUMMARY)?;
    package.write("bin/ctxbridge.js", template::read("npm/ctxbridge.js")?.as_bytes(), true)?;
    folders.push(package.folder);
    Ok(folders)
}

/// The fields that all packages have.
fn manifest(name: &str, description: &str) -> Map<String, Value> {
    let fields = [
        ("name", json!(name)),
        ("version", json!(VERSION)),
        ("description", json!(description)),
        ("license", json!(env!("CARGO_PKG_LICENSE"))),
        ("homepage", json!(REPOSITORY)),
        // npm compares it with the repository that vouches for the package.
        ("repository", json!({ "type": "git", "url": format!("git+{REPOSITORY}.git") })),
        ("bugs", json!(format!("{REPOSITORY}/issues"))),
        ("files", json!(["bin"])),
        ("publishConfig", json!({ "access": "public" })),
    ];
    fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

struct NpmPackage<'a> {
    name: &'a str,
    folder: PathBuf,
}

impl NpmPackage<'_> {
    /// Writes the texts that every package has.
    fn write_texts(&self, manifest: &Map<String, Value>, readme: &str, about: &str) -> Result<()> {
        let manifest = format!("{}\n", serde_json::to_string_pretty(manifest)?);
        let readme = template::fill(readme, &template::read(readme)?, &|words| {
            let value = match *words {
                ["NAME"] => self.name,
                ["ABOUT"] => about,
                ["REPOSITORY"] => REPOSITORY,
                ["VERSION"] => VERSION,
                _ => return Ok(None),
            };
            Ok(Some(value.to_owned()))
        })?;
        let license = fs::read(root().join("LICENSE")).context("cannot read LICENSE")?;
        self.write("package.json", manifest.as_bytes(), false)?;
        self.write("README.md", readme.as_bytes(), false)?;
        self.write("LICENSE", &license, false)
    }

    fn write(&self, name: &str, content: &[u8], is_program: bool) -> Result<()> {
        let path = self.folder.join(name);
        let cannot = || format!("cannot write {}", path.display());
        fs::create_dir_all(path.parent().unwrap_or(&self.folder)).with_context(cannot)?;
        fs::write(&path, content).with_context(cannot)?;
        // npm packs the modes that it finds.
        #[cfg(unix)]
        {
            let mode = if is_program { 0o755 } else { 0o644 };
            fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(mode)).with_context(cannot)?;
        }
        #[cfg(not(unix))]
        let _ = is_program;
        Ok(())
    }
}

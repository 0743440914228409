/*!
Every client that is installed where installers are known to put it.

A place is a pattern of paths, with `~` for the home directory; a new installer is a new line in [`PLACES`].
*/

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::Target;

/// Folders that hold `node_modules`, and files that are the client.
const PLACES: &[&str] = &[
    // The client's own local installer.
    "~/.claude/local/node_modules",
    // npm, by prefix.
    "/usr/lib/node_modules",
    "/usr/local/lib/node_modules",
    "/opt/homebrew/lib/node_modules",
    "~/.npm-global/lib/node_modules",
    "~/.local/lib/node_modules",
    "~/AppData/Roaming/npm/node_modules",
    // Version managers.
    "~/.nvm/versions/node/*/lib/node_modules",
    "~/.local/share/fnm/node-versions/*/installation/lib/node_modules",
    "~/.fnm/node-versions/*/installation/lib/node_modules",
    "~/.volta/tools/image/packages/@anthropic-ai/claude-code/lib/node_modules",
    "~/.asdf/installs/nodejs/*/lib/node_modules",
    "~/.asdf/installs/nodejs/*/.npm/lib/node_modules",
    "~/.local/share/mise/installs/node/*/lib/node_modules",
    "~/.local/share/mise/installs/npm-anthropic-ai-claude-code/*/lib/node_modules",
    // Other package managers.
    "~/.local/share/pnpm/global/*/node_modules",
    "~/Library/pnpm/global/*/node_modules",
    "~/.config/yarn/global/node_modules",
    "~/.bun/install/global/node_modules",
    // Editor extensions.
    "~/.vscode/extensions/anthropic.claude-code-*/resources/claude-code",
    "~/.vscode-server/extensions/anthropic.claude-code-*/resources/claude-code",
    "~/.cursor/extensions/anthropic.claude-code-*/resources/claude-code",
];

/// The clients that are installed, the one on the `PATH` first; each real file once. `project` is a folder whose own
/// `node_modules`, and those above it, are looked into.
pub fn discover(project: Option<&Path>) -> Vec<Target> {
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    let mut add = |target: Result<Target, super::TargetError>| {
        if let Ok(target) = target
            && seen.insert(target.path.clone())
        {
            found.push(target);
        }
    };
    add(Target::resolve(None));
    let beside_node = std::env::var_os("PATH").into_iter().flat_map(|path| std::env::split_paths(&path).collect::<Vec<_>>());
    let beside_node = beside_node.filter_map(|bin| Some(bin.parent()?.join("lib/node_modules")));
    let above = project.into_iter().flat_map(Path::ancestors).map(|folder| folder.join("node_modules"));
    for folder in beside_node.chain(PLACES.iter().flat_map(|place| expand(place))).chain(above) {
        add(Target::at(&folder.join("cli.js")));
        for package in [crate::releases::CLIENT_PACKAGE, crate::releases::SDK_PACKAGE] {
            add(Target::at(&folder.join(package).join("cli.js")));
        }
    }
    found
}

fn expand(place: &str) -> Vec<PathBuf> {
    let pattern = match place.strip_prefix("~/") {
        None => place.to_owned(),
        Some(rest) => match crate::paths::home_dir() {
            // A home directory may contain characters that mean something in a pattern.
            Some(home) => format!("{}/{rest}", glob::Pattern::escape(&home.to_string_lossy())),
            None => return Vec::new(),
        },
    };
    glob::glob(&pattern).map_or_else(|_| Vec::new(), |paths| paths.filter_map(Result::ok).collect())
}

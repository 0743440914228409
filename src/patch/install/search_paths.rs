/*!
Paths where installers put the client.

A place is a pattern of paths; a new installer is a new line. `~` is the home directory, `$NAME` the folder in an environment
variable. A place that ends in `node_modules` is searched for packages, any other is a client's file or folder.
*/

use std::path::{Path, PathBuf};

use ctxbridge_client::releases::{CLIENT_PACKAGE, SDK_PACKAGE};

const INSTALL_PATTERNS: &[&str] = &[
    // The native installer: a link to one of the versions, on Windows a copy of one. Then its app for macOS' privacy settings.
    "~/.local/bin/claude",
    "~/.local/bin/claude.exe",
    "$XDG_DATA_HOME/claude/versions/[0-9]*",
    "~/.local/share/claude/versions/[0-9]*",
    "~/.local/share/claude/ClaudeCode.app/Contents/MacOS/claude",
    // The installer before that one.
    "~/.claude/local/node_modules",
    // Homebrew's casks, `claude-code` and `claude-code@latest`.
    "$HOMEBREW_PREFIX/Caskroom/claude-code*/*/claude",
    "/opt/homebrew/Caskroom/claude-code*/*/claude",
    "/usr/local/Caskroom/claude-code*/*/claude",
    "/home/linuxbrew/.linuxbrew/Caskroom/claude-code*/*/claude",
    // Packages of Linux distributions (apt, dnf, apk; pacman).
    "/usr/bin/claude",
    "/usr/local/bin/claude",
    "/opt/claude-code/bin/claude",
    // WinGet for one user and for all, Scoop, Chocolatey.
    "~/AppData/Local/Microsoft/WinGet/Packages/Anthropic.ClaudeCode_*/claude.exe",
    "C:/Program Files/WinGet/Packages/Anthropic.ClaudeCode_*/claude.exe",
    "~/scoop/apps/claude-code*/current/claude.exe",
    "C:/ProgramData/chocolatey/lib/claude-code/tools/claude.exe",
    // npm, by prefix.
    "$NPM_CONFIG_PREFIX/lib/node_modules",
    "/usr/lib/node_modules",
    "/usr/local/lib/node_modules",
    "/opt/homebrew/lib/node_modules",
    "/home/linuxbrew/.linuxbrew/lib/node_modules",
    "~/.npm-global/lib/node_modules",
    "~/.npm-packages/lib/node_modules",
    "~/.local/lib/node_modules",
    "~/AppData/Roaming/npm/node_modules",
    "C:/Program Files/nodejs/node_modules",
    // npx.
    "~/.npm/_npx/*/node_modules",
    "~/AppData/Local/npm-cache/_npx/*/node_modules",
    // nvm, nvm for Windows.
    "$NVM_DIR/versions/node/*/lib/node_modules",
    "~/.nvm/versions/node/*/lib/node_modules",
    "/usr/local/share/nvm/versions/node/*/lib/node_modules",
    "~/AppData/Roaming/nvm/*/node_modules",
    "C:/nvm4w/nodejs/node_modules",
    // fnm.
    "$FNM_DIR/node-versions/*/installation/lib/node_modules",
    "~/.local/share/fnm/node-versions/*/installation/lib/node_modules",
    "~/.fnm/node-versions/*/installation/lib/node_modules",
    "~/Library/Application Support/fnm/node-versions/*/installation/lib/node_modules",
    "~/AppData/Roaming/fnm/node-versions/*/installation/node_modules",
    // Volta.
    "$VOLTA_HOME/tools/image/packages/@anthropic-ai/claude-code/lib/node_modules",
    "~/.volta/tools/image/packages/@anthropic-ai/claude-code/lib/node_modules",
    "~/AppData/Local/Volta/tools/image/packages/@anthropic-ai/claude-code/node_modules",
    // asdf: Node.js, and plugins of the client's own.
    "$ASDF_DATA_DIR/installs/nodejs/*/lib/node_modules",
    "~/.asdf/installs/nodejs/*/lib/node_modules",
    "~/.asdf/installs/nodejs/*/.npm/lib/node_modules",
    "~/.asdf/installs/claude*/*/bin/claude",
    "~/.asdf/installs/claude*/*/lib/node_modules",
    // mise: npm in Node.js or in a folder of the tool's own, and the executable, which its other backends download.
    "$MISE_DATA_DIR/installs/*/*/lib/node_modules",
    "$MISE_DATA_DIR/installs/*claude*/*/claude",
    "~/.local/share/mise/installs/*/*/lib/node_modules",
    "~/.local/share/mise/installs/*claude*/*/claude",
    "~/AppData/Local/mise/installs/*/*/node_modules",
    "~/AppData/Local/mise/installs/*claude*/*/claude.exe",
    // n, nodenv.
    "$N_PREFIX/lib/node_modules",
    "~/n/lib/node_modules",
    "~/.nodenv/versions/*/lib/node_modules",
    // pnpm; from version 11 on each global package has a folder of its own.
    "$PNPM_HOME/global/*/node_modules",
    "$PNPM_HOME/global/*/*/node_modules",
    "~/.local/share/pnpm/global/*/node_modules",
    "~/.local/share/pnpm/global/*/*/node_modules",
    "~/Library/pnpm/global/*/node_modules",
    "~/Library/pnpm/global/*/*/node_modules",
    "~/AppData/Local/pnpm/global/*/node_modules",
    "~/AppData/Local/pnpm/global/*/*/node_modules",
    // yarn, bun.
    "~/.config/yarn/global/node_modules",
    "~/AppData/Local/Yarn/Data/global/node_modules",
    "$BUN_INSTALL/install/global/node_modules",
    "~/.bun/install/global/node_modules",
    // Extensions of VS Code and the editors made from it (.vscode, .vscode-server, .cursor, .windsurf …), and code-server.
    "~/.*/extensions/anthropic.claude-code-*/resources/native-binary/claude",
    "~/.*/extensions/anthropic.claude-code-*/resources/native-binary/claude.exe",
    "~/.*/extensions/anthropic.claude-code-*/resources/claude-code/cli.js",
    "~/.local/share/code-server/extensions/anthropic.claude-code-*/resources/native-binary/claude",
    // Zed's agent.
    "~/.local/share/zed/external_agents/*/*/node_modules",
    "~/Library/Application Support/Zed/external_agents/*/*/node_modules",
    "~/AppData/Local/Zed/external_agents/*/*/node_modules",
    // Claude Desktop, which brings clients of its own.
    "~/Library/Application Support/Claude/claude-code/*/claude.app/Contents/MacOS/claude",
    "~/Library/Application Support/Claude/claude-code/*/claude",
    "~/.config/Claude/claude-code/*/claude",
    "~/AppData/Roaming/Claude/claude-code/*/claude.exe",
    "~/AppData/Roaming/Claude/claude-code/*/*/claude.exe",
    "~/AppData/Local/Packages/Claude_*/LocalCache/Roaming/Claude/claude-code/*/claude.exe",
    "~/AppData/Local/Packages/Claude_*/LocalCache/Roaming/Claude/claude-code/*/*/claude.exe",
    // The Agent SDK for Python.
    "~/.local/lib/python*/site-packages/claude_agent_sdk/_bundled/claude",
    "/usr/local/lib/python*/*-packages/claude_agent_sdk/_bundled/claude",
    "~/.local/share/uv/tools/*/lib/python*/site-packages/claude_agent_sdk/_bundled/claude",
    "~/.local/share/pipx/venvs/*/lib/python*/site-packages/claude_agent_sdk/_bundled/claude",
    "~/AppData/Local/Programs/Python/Python*/Lib/site-packages/claude_agent_sdk/_bundled/claude.exe",
    "~/AppData/Roaming/Python/Python*/site-packages/claude_agent_sdk/_bundled/claude.exe",
];

/// Places in a project and the folders above it.
const IN_PROJECT: &[&str] = &[
    "node_modules",
    ".venv/lib/python*/site-packages/claude_agent_sdk/_bundled/claude",
    ".venv/Lib/site-packages/claude_agent_sdk/_bundled/claude.exe",
    "venv/lib/python*/site-packages/claude_agent_sdk/_bundled/claude",
];

/// Folders of packages in a `node_modules`: installed there, nested in another package, or in pnpm's store.
const IN_NODE_MODULES: &[&str] = &[
    "@anthropic-ai/claude-*",
    "*/node_modules/@anthropic-ai/claude-*",
    "@*/*/node_modules/@anthropic-ai/claude-*",
    ".pnpm/@anthropic-ai+claude-*/node_modules/@anthropic-ai/claude-*",
];

/// Every file or folder where a client is or should be: in the places of installers for this user or all users, in places relative
/// to the folders of a `PATH`, and in a project.
pub(super) fn client_paths(on_path: &[PathBuf], project: Option<&Path>) -> Vec<PathBuf> {
    // Where node is, npm installs: `bin` and `lib` share a folder, or on Windows all is in one.
    let of_node = on_path
        .iter()
        .flat_map(|bin| [bin.parent().map(|prefix| prefix.join("lib/node_modules")), Some(bin.join("node_modules"))]);
    let installed = INSTALL_PATTERNS.iter().filter_map(|place| rooted(place));
    let above =
        project.into_iter().flat_map(Path::ancestors).flat_map(|folder| IN_PROJECT.iter().map(|place| below(folder, place)));
    let node = of_node.flatten().map(|folder| glob::Pattern::escape(&folder.to_string_lossy()));
    let places = node.chain(installed).chain(above).flat_map(|pattern| matching(&pattern));
    places
        .flat_map(
            |place| if place.file_name().is_some_and(|name| name == "node_modules") { packages(&place) } else { vec![place] },
        )
        .collect()
}

/// The client's packages in a `node_modules` folder; a package that another one leads to comes after that.
fn packages(node_modules: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = IN_NODE_MODULES.iter().flat_map(|place| matching(&below(node_modules, place))).collect();
    found.retain(|folder| is_clients(folder));
    found.sort_by_key(|folder| is_platform(folder));
    found
}

/// `true` if a folder has the name of a package with the client.
fn is_clients(folder: &Path) -> bool {
    [CLIENT_PACKAGE, SDK_PACKAGE].iter().any(|package| folder.ends_with(package)) || is_platform(folder)
}

/// `true` if a folder has the name of a platform package.
pub(super) fn is_platform(folder: &Path) -> bool {
    let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    [CLIENT_PACKAGE, SDK_PACKAGE].iter().filter_map(|package| package.rsplit('/').next()).any(|package| {
        let platform = name.strip_prefix(package).and_then(|rest| rest.strip_prefix('-'));
        platform.is_some_and(|platform| ["linux-", "darwin-", "win32-"].iter().any(|system| platform.starts_with(system)))
    })
}

/// A place as a pattern of absolute paths; `None` if it does not apply here.
fn rooted(place: &str) -> Option<String> {
    let (root, rest) = place.split_once('/')?;
    let folder = match root.strip_prefix('$') {
        Some(variable) => PathBuf::from(std::env::var_os(variable).filter(|value| !value.is_empty())?),
        None if root == "~" => ctxbridge_common::paths::home_dir()?,
        // Drive letters mean nothing elsewhere.
        None => return Path::new(place).is_absolute().then(|| place.to_owned()),
    };
    folder.is_absolute().then(|| below(&folder, rest))
}

/// A pattern below a folder. Special characters of patterns in the folder's path are escaped.
fn below(folder: &Path, place: &str) -> String {
    format!("{}/{place}", glob::Pattern::escape(&folder.to_string_lossy()))
}

fn matching(pattern: &str) -> Vec<PathBuf> {
    glob::glob(pattern).map_or_else(|_| Vec::new(), |paths| paths.filter_map(Result::ok).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_is_a_pattern_and_there_once() {
        let mut seen = std::collections::BTreeSet::new();
        for place in INSTALL_PATTERNS.iter().chain(IN_PROJECT).chain(IN_NODE_MODULES) {
            assert!(glob::Pattern::new(place).is_ok(), "{place}");
            assert!(seen.insert(place), "{place} twice");
        }
    }

    #[test]
    fn platform_packages_are_known_by_name() {
        let is = |name: &str| is_platform(&Path::new("/node_modules/@anthropic-ai").join(name));
        assert!(is("claude-code-linux-x64-musl") && is("claude-agent-sdk-win32-arm64") && is("claude-code-darwin-arm64"));
        assert!(!is("claude-code") && !is("claude-agent-sdk") && !is("claude-code-router"));
    }
}

/*!
Files that another tool has patched.

Patching them would back up a file that is not the original. They are recognized by text that the tools leave behind
(`patches/foreign.toml`) or, for releases whose hash is known, by another hash.
*/

use std::sync::LazyLock;

use memchr::memmem;
use serde::Deserialize;

use super::container::Container;
use super::install::Target;
use ctxbridge_client::releases;
use ctxbridge_common::digest;

#[derive(Deserialize)]
struct Tools {
    tool: Vec<ForeignTool>,
}

#[derive(Deserialize)]
struct ForeignTool {
    name: String,
    marks: Vec<String>,
}

static TOOLS: LazyLock<Vec<ForeignTool>> = LazyLock::new(|| {
    toml::from_str::<Tools>(include_str!("../../patches/foreign.toml")).map_or_else(|_| Vec::new(), |tools| tools.tool)
});

/// The reason why these bytes are not a published file; `None` if they may be one. Their hash is not that of a known release.
pub(super) fn modification_reason(target: &Target, bytes: &[u8], container: Option<&Container>) -> Option<String> {
    // Of an executable, what tools change are its modules; the rest is a program that may well contain any word.
    let tool = match container.filter(|container| container.kind().is_native()) {
        Some(container) => container.modules().find_map(|raw| tool(raw.bytes)),
        None => tool(bytes),
    };
    if let Some(release) = releases::published(target.package.as_deref(), target.version.as_ref()) {
        if digest::of_bytes(&with_published_shebang(bytes)) == release.sha256 {
            return None;
        }
        let tool = tool.map_or_else(String::new, |tool| format!(", and contains the marks of {tool}"));
        return Some(format!("it is not the published {} {}{tool}", release.package, release.version));
    }
    if let Some(tool) = tool {
        return Some(format!("it contains the marks of {tool}"));
    }
    // An executable outside of its package: one of that version and that very size is that build, or was.
    let version = target.version.as_ref().filter(|_| target.kind.is_native())?;
    let is_this = |release: &&releases::Release| release.is_native() && release.version == *version;
    let build = releases::known().iter().filter(is_this).find(|release| release.size_bytes == bytes.len() as u64)?;
    Some(format!("it is not the published {} {}, whose size it has", build.package, build.version))
}

fn tool(bytes: &[u8]) -> Option<&'static str> {
    let has = |tool: &&ForeignTool| tool.marks.iter().any(|mark| memmem::find(bytes, mark.as_bytes()).is_some());
    TOOLS.iter().find(has).map(|tool| tool.name.as_str())
}

/// The bytes with the published first line. Distributions that have Node.js elsewhere change that line, and nothing else.
fn with_published_shebang(bytes: &[u8]) -> Vec<u8> {
    let end = memchr::memchr(b'\n', bytes).unwrap_or(0);
    if bytes.starts_with(b"#!") { [b"#!/usr/bin/env node".as_slice(), &bytes[end..]].concat() } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_tools_is_readable() {
        assert!(!TOOLS.is_empty());
        assert!(TOOLS.iter().all(|tool| !tool.marks.is_empty() && tool.marks.iter().all(|mark| mark.len() >= 4)));
    }
}

//! The command as users and their scripts meet it: what it prints, on which stream, and how it exits.

// Elsewhere, the paths of temporary folders are longer, and lines break at other words.
#[cfg(target_os = "linux")]
mod at_80_columns;
mod doctor;
mod general;
#[cfg(unix)]
mod installations;
mod patch;
mod surface;
#[cfg(unix)]
mod targets;

use std::path::Path;

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Filters of what differs from run to run: hashes and times; and what differs with each release of ours: its version, and the size of the
/// injected code.
fn filters() -> insta::internals::SettingsBindDropGuard {
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(r"\b[0-9a-f]{64}\b", "[SHA-256]");
    settings.add_filter(r#""elapsed_ms": \d+"#, r#""elapsed_ms": [MS]"#);
    settings.add_filter(r#""grew_by_bytes": \d+"#, r#""grew_by_bytes": [BYTES]"#);
    settings.add_filter(r#""version":"[\d.]+","patch""#, r#""version":"[VERSION]","patch""#);
    settings.add_filter(r#""runtime":\[(\d+),[1-9]\d*\]"#, r#""runtime":[$1,[BYTES]]"#);
    settings.add_filter(r"@@ -0,0 \+1,\d+ @@", "@@ -0,0 +1,[LINES] @@");
    settings.add_filter(r"grew by   [\d.]+ (KB|bytes) in [\d.]+ (ms|s)", "grew by   [SIZE] in [TIME]");
    settings.bind_to_scope()
}

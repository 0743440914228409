//! Reading bundles. Anybody may have written them, so there are limits, and unreadable lines are skipped rather than refused.

use std::fs::{self, Metadata};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::bundle_paths::session_of;
use super::{BundleLine, BundlePathError, Bundles, Episode};
use ctxbridge_common::files;

/// Maximum bytes that are read of a file. Files of an hour grow to 256 KiB, but folded months may be large.
pub(super) const MAX_BUNDLE_BYTES: u64 = 8 << 20;

/// Maximum number of files that are considered.
const MAX_BUNDLE_FILES: usize = 50_000;

/// Content of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParsedBundle {
    /// The episodes, in order of time.
    pub episodes: Vec<Episode>,
    /// Counts of the content that could not be used.
    pub skipped: Skipped,
}

/// Counts of skipped content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    /// Lines that do not belong to a bundle.
    pub lines: usize,
    /// Lines without a time.
    pub timeless: usize,
    /// `true` if the file is longer than the part that is read.
    pub is_cut: bool,
}

/// A file, with the properties that show a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BundleFile {
    pub name: String,
    pub bytes: u64,
    /// Nanoseconds since 1970.
    pub changed: i64,
}

impl BundleFile {
    fn of(name: String, metadata: &Metadata) -> Self {
        let changed = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        Self { name, bytes: metadata.len(), changed: nanoseconds(changed) }
    }

    /// The current state of a file; none if it is no regular file.
    pub fn now(bundles: &Bundles, name: &str) -> Option<Self> {
        let metadata = bundles.folder().join(name).symlink_metadata().ok()?;
        metadata.is_file().then(|| Self::of(name.to_owned(), &metadata))
    }
}

/// Converts a time of change to nanoseconds since 1970.
pub(super) fn nanoseconds(time: SystemTime) -> i64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

/// Lists the names of possible bundles.
///
/// # Errors
/// If the folder leads elsewhere or cannot be listed.
pub(super) fn names(bundles: &Bundles) -> Result<Vec<String>, BundlePathError> {
    if !bundles.exist()? {
        return Ok(Vec::new());
    }
    let folder = bundles.folder();
    let entries = fs::read_dir(folder).map_err(|cause| BundlePathError::Io { step: "list", path: folder.to_owned(), cause })?;
    let names = entries.flatten().take(MAX_BUNDLE_FILES).filter_map(|entry| entry.file_name().into_string().ok());
    let is_ours = |name: &String| Path::new(name).extension().is_some_and(|extension| extension == "jsonl");
    Ok(names.filter(is_ours).collect())
}

/// Lists the bundles, in order of their names. Links do not count.
///
/// # Errors
/// As [`names`].
pub(super) fn list(bundles: &Bundles) -> Result<Vec<BundleFile>, BundlePathError> {
    let mut listed: Vec<BundleFile> = names(bundles)?.iter().filter_map(|name| BundleFile::now(bundles, name)).collect();
    listed.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(listed)
}

impl Bundles {
    /// The paths of all bundles, in order of their names. Links do not count.
    ///
    /// # Errors
    /// If the folder leads elsewhere or cannot be listed.
    pub fn files(&self) -> Result<Vec<PathBuf>, BundlePathError> {
        Ok(list(self)?.into_iter().map(|file| self.folder().join(file.name)).collect())
    }
}

/// Reads one file.
///
/// # Errors
/// If it cannot be read.
pub fn read(bundles: &Bundles, name: &str) -> Result<ParsedBundle, BundlePathError> {
    let path = bundles.folder().join(name);
    let mut bytes = Vec::new();
    let length = files::open(&path).and_then(|file| {
        let length = file.metadata()?.len();
        file.take(MAX_BUNDLE_BYTES).read_to_end(&mut bytes).map(|_| length)
    });
    let length = length.map_err(|cause| BundlePathError::Io { step: "read", path, cause })?;
    let mut bundle = parse(session_of(name).unwrap_or_default(), &bytes);
    bundle.skipped.is_cut = length > MAX_BUNDLE_BYTES;
    Ok(bundle)
}

/// Parses the bytes of a bundle. Lines without a session of their own belong to `session`.
pub fn parse(session: &str, bytes: &[u8]) -> ParsedBundle {
    let mut skipped = Skipped::default();
    let mut lines = Vec::new();
    for text in bytes.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).filter(|text| !text.is_empty()) {
        // What is no text would be another one when it is folded.
        match str::from_utf8(text).ok().and_then(BundleLine::parse) {
            Some(line) => {
                skipped.timeless += usize::from(line.at.is_none());
                lines.push(line);
            }
            None => skipped.lines += 1,
        }
    }
    ParsedBundle { episodes: Episode::of_lines(session, lines), skipped }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_a_merge_left_is_passed_over() {
        let text =
            b"<<<<<<< HEAD\n{\"op\":\"prompt\",\"text\":\"a\"}\n=======\n\n{\"op\":\"read\",\"file\":\"b\"}\r\n>>>>>>> x\n\
            {\"op\":\"read\",\"file\":\"\xff\"}\n{\"op\":\"rea";
        let bundle = parse("s", text);
        assert_eq!(bundle.skipped, Skipped { lines: 5, timeless: 2, is_cut: false });
        assert_eq!(bundle.episodes.iter().map(Episode::line).collect::<Vec<_>>(), ["a | Read: b"]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_and_fold_to_the_same(
            lines in proptest::collection::vec("\\PC{0,20}|\\{\"op\":\"(prompt\",\"text|read\",\"file|command\",\"cmd)\":\"[a-c`<\\n]{0,4}\"(,\"ts\":\"2026-09-0[1-3]T00:00:00Z\")?\\}", 0..8),
        ) {
            let episodes = parse("s", lines.join("\n").as_bytes()).episodes;
            for episode in &episodes {
                let line = episode.line();
                prop_assert!(!line.contains(['\n', '\u{1b}']) && !line.contains("```"), "{line}");
            }
            let unique = Episode::unique(episodes);
            let folded: String = unique.iter().map(|episode| episode.to_line().to_json()).collect();
            prop_assert_eq!(Episode::unique(parse("other", folded.as_bytes()).episodes), unique);
        }
    }
}

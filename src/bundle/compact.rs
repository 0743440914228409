/*!
Folding old bundles: those of a month become one file, with a line for each episode.

Files of an hour are small so that branches merge without conflicts. Once nobody writes to them any more, they are only numerous.
A file with content that cannot be read stays as it is.
*/

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use jiff::Timestamp;
use serde::Serialize;

use super::bundle_paths::session_of;
use super::read::{self, BundleFile};
use super::record::remove_if_unchanged;
use super::{BundlePathError, Bundles, Episode};
use ctxbridge_common::files;

/// Report on the files that were folded, or would be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BundleFoldingReport {
    /// Files that are folded.
    pub files: usize,
    /// Bytes of these files.
    pub bytes: u64,
    /// The months' files, and their bytes after folding.
    pub months: BTreeMap<String, u64>,
    /// Files that stay, with the reason.
    pub left: BTreeMap<String, String>,
}

/// Folds all bundles whose last line is older than a time. A dry run changes nothing.
///
/// # Errors
/// If something cannot be read or written. The files that were read stay then.
pub fn compact(bundles: &Bundles, before: Timestamp, is_dry: bool) -> Result<BundleFoldingReport, BundlePathError> {
    let mut done = BundleFoldingReport::default();
    let mut months: BTreeMap<String, (Vec<Episode>, Vec<BundleFile>)> = BTreeMap::new();
    for file in read::list(bundles)? {
        // What was folded is no hour.
        if session_of(&file.name).is_none() {
            continue;
        }
        let bundle = read::read(bundles, &file.name)?;
        let reason = if bundle.skipped.lines > 0 {
            Some(format!("{} of its lines cannot be read", bundle.skipped.lines))
        } else if bundle.skipped.timeless > 0 {
            Some("it has lines without a time".to_owned())
        } else if bundle.skipped.is_cut {
            Some("it is too long".to_owned())
        } else {
            None
        };
        let Some(last) = bundle.episodes.last().and_then(|episode| episode.at) else {
            done.left.insert(file.name, reason.unwrap_or_else(|| "it is empty".to_owned()));
            continue;
        };
        if last >= before {
            continue;
        }
        if let Some(reason) = reason {
            done.left.insert(file.name, reason);
            continue;
        }
        done.files += 1;
        done.bytes += file.bytes;
        // An hour is in one month, or in two: all of it goes where it ends.
        let (episodes, files) = months.entry(format!("{}.jsonl", last.strftime("%Y-%m"))).or_default();
        episodes.extend(bundle.episodes);
        files.push(file);
    }
    for (month, (mut episodes, files)) in months {
        if let Some(there) = read::list(bundles)?.iter().find(|file| file.name == month) {
            let known = read::read(bundles, &there.name)?;
            if known.skipped.lines > 0 || known.skipped.is_cut {
                done.left.insert(month, "some of it cannot be read; resolve that first".to_owned());
                done.files -= files.len();
                done.bytes -= files.iter().map(|file| file.bytes).sum::<u64>();
                continue;
            }
            episodes.extend(known.episodes);
        }
        let text: String = Episode::unique(episodes).iter().map(|episode| episode.to_line().to_json()).collect();
        if text.len() as u64 > read::MAX_BUNDLE_BYTES {
            let reason = format!("it would be longer than the {} MB that are read of a file", read::MAX_BUNDLE_BYTES >> 20);
            done.left.insert(month, reason);
            done.files -= files.len();
            done.bytes -= files.iter().map(|file| file.bytes).sum::<u64>();
            continue;
        }
        done.months.insert(month.clone(), text.len() as u64);
        if is_dry {
            continue;
        }
        write(&bundles.folder().join(&month), &text)?;
        // Where this ends, some are there twice, and are folded into the same lines next time.
        for file in files {
            let path = bundles.folder().join(&file.name);
            if !remove_if_unchanged(bundles, &path, file.bytes).map_err(|cause| BundlePathError::Io {
                step: "remove",
                path,
                cause,
            })? {
                done.files -= 1;
                done.bytes -= file.bytes;
                done.left.insert(file.name, "it was written to meanwhile".to_owned());
            }
        }
    }
    Ok(done)
}

/// Writes a file whole or not at all.
fn write(path: &Path, text: &str) -> Result<(), BundlePathError> {
    let failed = |cause| BundlePathError::Io { step: "write", path: path.to_owned(), cause };
    let folder = path.parent().unwrap_or(path);
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
    file.write_all(text.as_bytes()).and_then(|()| file.as_file().sync_all()).map_err(failed)?;
    files::persist(file, path).map_err(failed)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::bundle::{BundleAction, Project, record};

    #[test]
    fn old_hours_become_a_month_and_say_the_same() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir(folder.path().join(".git")).expect("a folder");
        let bundles = Bundles::of(&Project::around(folder.path(), None).expect("a project"));
        bundles.prepare().expect("made");
        let at = |text: &str| text.parse::<Timestamp>().expect("a time");
        for (session, time, op) in [
            ("a", "2026-09-04T10:00:00Z", BundleAction::Prompt("Skip empty lines in the parser".into())),
            ("a", "2026-09-04T10:01:00Z", BundleAction::Edit("src/parser.rs".into())),
            ("b", "2026-09-30T23:59:00Z", BundleAction::Prompt("Write the changelog".into())),
            ("c", "2026-11-20T10:00:00Z", BundleAction::Prompt("Still being written".into())),
        ] {
            record(&bundles, session, op, at(time), &|| None).expect("written");
        }
        fs::write(
            bundles.folder().join("FRI_10_d.jsonl"),
            "<<<<<<< HEAD\n{\"op\":\"read\",\"file\":\"x\",\"ts\":\"2026-09-04T10:00:00Z\"}\n",
        )
        .expect("written");
        let all = |bundles: &Bundles| {
            let listed = read::list(bundles).expect("listed");
            Episode::unique(listed.iter().flat_map(|file| read::read(bundles, &file.name).expect("read").episodes))
        };
        let before = all(&bundles);
        let dry = compact(&bundles, at("2026-10-20T00:00:00Z"), true).expect("planned");
        assert_eq!(read::list(&bundles).expect("listed").len(), 4, "a dry run changes nothing");
        let done = compact(&bundles, at("2026-10-20T00:00:00Z"), false).expect("folded");
        assert_eq!((done.files, &done.months, &done.left), (2, &dry.months, &dry.left));
        let names: Vec<String> = read::list(&bundles).expect("listed").into_iter().map(|file| file.name).collect();
        assert_eq!(names, ["2026-09.jsonl", "FRI_10_c.jsonl", "FRI_10_d.jsonl"]);
        assert_eq!(all(&bundles), before);
        // A colleague folded the same on another branch, and git put both together.
        let month = bundles.folder().join("2026-09.jsonl");
        let text = fs::read_to_string(&month).expect("there");
        fs::write(&month, format!("{text}{text}")).expect("written");
        assert_eq!(all(&bundles), before);
        assert_eq!(compact(&bundles, at("2026-10-20T00:00:00Z"), false).expect("nothing to do").files, 0);
    }

    #[test]
    fn a_month_that_would_not_be_read_whole_is_not_made() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir(folder.path().join(".git")).expect("a folder");
        let bundles = Bundles::of(&Project::around(folder.path(), None).expect("a project"));
        bundles.prepare().expect("made");
        bundles.prepare().expect("made");
        let line = |hour: usize, number: usize| {
            let text = format!("{number} {}", "x".repeat(400));
            format!("{{\"op\":\"prompt\",\"text\":\"{text}\",\"ts\":\"2026-09-04T{hour:02}:00:00Z\"}}\n")
        };
        for hour in 0..20 {
            let lines: String = (0..1_000).map(|number| line(hour, number)).collect();
            fs::write(bundles.folder().join(format!("FRI_{hour:02}_s.jsonl")), lines).expect("written");
        }
        let before = "2026-10-20T00:00:00Z".parse().expect("a time");
        let done = compact(&bundles, before, false).expect("left alone");
        assert_eq!((done.files, done.bytes, done.months.len()), (0, 0, 0));
        assert_eq!(done.left.keys().collect::<Vec<_>>(), ["2026-09.jsonl"]);
        assert_eq!(read::list(&bundles).expect("listed").len(), 20);
    }
}

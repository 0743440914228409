//! Real releases, one of each era, and more in a full run: the sites are found under the names that `releases.toml` has, and the patched file is
//! the original but for the edits. `cargo xtask signatures` does the same for the whole list.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use ctxbridge::client::releases::{self, Release};
use ctxbridge::common::digest;
use ctxbridge::patch::catalog::Catalog;
use ctxbridge::patch::check::{CheckState, check};
use ctxbridge::patch::container::{Container, PiecewiseFile, RawModule};
use ctxbridge::patch::inspect::TargetState;
use ctxbridge::patch::install::Target;
use ctxbridge::patch::marker;
use ctxbridge::patch::patcher::Patcher;
use ctxbridge::patch::plan::plan;
use ctxbridge::prune::PATCH;
use ctxbridge::syntax::with_deep_stack;
use ctxbridge_testkit::{RunIndex, is_full_run};
use semver::Version;

/// Releases that are tried: the newest of each era, and in a full run all that are marked for tests.
fn tested() -> impl Iterator<Item = &'static Release> {
    let marked = || releases::known().iter().filter(|release| release.tested);
    let is_newest = move |release: &Release| {
        marked().filter(|other| other.era == release.era).all(|other| other.client_version() <= release.client_version())
    };
    marked().filter(move |release| is_full_run() || is_newest(release))
}

fn fetched(release: &Release) -> std::path::PathBuf {
    let path = release.fetch().unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(digest::of_file(&path).unwrap(), release.sha256, "{} {} is the published one", release.package, release.version);
    path
}

#[test]
fn every_era_is_tested_and_the_list_is_long_enough() {
    let eras: std::collections::BTreeSet<&str> = tested().map(|release| release.era.as_str()).collect();
    assert_eq!(Vec::from_iter(eras), ["E1a", "E1b", "E2", "E3a", "E3b", "E4a", "E4d", "E5d"]);
    let of = |package: &str| releases::known().iter().filter(|release| release.package.ends_with(package)).count();
    assert!(of("claude-code") >= 24 && of("claude-agent-sdk") >= 4 && of("claude-code-linux-x64") >= 16);
    for platform in ["linux-arm64", "linux-x64-musl", "darwin-arm64", "darwin-x64", "win32-x64", "win32-arm64"] {
        assert!(of(&format!("claude-code-{platform}")) >= 1, "{platform}");
    }
}

/// The signatures of each release between two listed ones, from `shapes.toml`.
fn shapes() -> BTreeMap<Version, String> {
    #[derive(serde::Deserialize)]
    struct Shapes {
        signatures: BTreeMap<Version, String>,
    }
    toml::from_str::<Shapes>(include_str!("../fixtures/cli-js/shapes.toml")).unwrap().signatures
}

/// Whoever tries the listed releases has tried each shape, also that of a release which looks unlike its neighbors.
#[test]
fn no_release_between_two_listed_ones_is_out_of_line() {
    let shapes: Vec<(Version, String)> = shapes().into_iter().collect();
    assert_eq!(shapes.len(), 52);
    let package = Some(releases::CLIENT_PACKAGE);
    for pair in shapes.windows(2).filter(|pair| pair[0].1 != pair[1].1) {
        for (version, shape) in pair {
            assert!(releases::published(package, Some(version)).is_some(), "{version} ({shape}) is not listed");
        }
    }
}

#[test]
#[ignore = "by hand: fetches all 52 releases"]
fn the_shapes_are_those_of_the_releases() {
    let catalog = Catalog::embedded().unwrap();
    for (version, expected) in shapes() {
        let checked = check(&catalog, &releases::fetch_client(&version.to_string()).unwrap()).unwrap();
        let sites: Vec<_> = checked.patches.iter().filter(|patch| patch.id == PATCH).flat_map(|patch| &patch.sites).collect();
        let shape = ["microcompact.call", "autocompact.call", "microcompact.definition", "autocompact.definition"]
            .map(|name| sites.iter().find(|site| site.site == name).map_or("", |site| site.signature.as_str()));
        assert_eq!(shape.join(" "), expected, "{version}");
    }
}

#[test]
fn the_sites_are_where_other_tools_found_them() {
    let catalog = Catalog::embedded().unwrap();
    for release in tested() {
        let checked = check(&catalog, &fetched(release)).unwrap();
        let name = format!("{} {}", release.package, release.version);
        assert_eq!(checked.version.as_ref(), Some(release.client_version()), "{name}");
        assert!(checked.patches.iter().all(|patch| patch.state != CheckState::Drift), "{name}: {checked:#?}");
        for (site, names) in &release.sites {
            let found = checked.patches.iter().flat_map(|patch| &patch.sites).find(|found| found.site == *site);
            let found = found.unwrap_or_else(|| panic!("{name}: {site} is not found"));
            for (metavariable, expected) in names {
                assert_eq!(found.names.get(metavariable), Some(expected), "{name}: {site}: {metavariable}");
            }
        }
    }
}

#[test]
fn a_patched_release_is_the_original_but_for_the_edits() {
    let catalog = Catalog::embedded().unwrap();
    for release in tested().filter(|release| !release.is_native()) {
        let name = format!("{} {}", release.package, release.version);
        let original = fs::read(fetched(release)).unwrap();
        let version = release.client_version();
        let patches: Vec<_> = catalog.patches().iter().filter(|patch| patch.applies_to(Some(version))).collect();
        let container = Container::open("cli.js", original.clone()).unwrap();
        let planned = with_deep_stack(|| plan(&container, &patches, Some(version), &release.sha256));
        let planned = planned.unwrap_or_else(|error| panic!("{name}: {error}"));
        let grown: i64 = planned.changes.iter().map(|change| change.new.len() as i64 - change.old.len() as i64).sum();
        let bytes = container.rewrite(&planned.modules).unwrap().to_bytes(container.source());
        assert_eq!(bytes.len() as i64, original.len() as i64 + grown, "{name}");

        let text = String::from_utf8(bytes).unwrap();
        let restored = marker::undo(&text, &marker::find(&text)).unwrap_or_else(|| panic!("{name}: the marker undoes nothing"));
        assert!(restored.into_bytes() == original, "{name}: what was put in can be taken out to the byte");
        // Not by our parser, and not in pieces, as the patcher checks it.
        let scratch = tempfile::tempdir().unwrap();
        let module = scratch.path().join("cli.mjs");
        fs::write(&module, &text).unwrap();
        let checked = Command::new("node").arg("--check").arg(&module).output().expect("Node.js");
        assert!(checked.status.success(), "{name}: {}", String::from_utf8_lossy(&checked.stderr));
    }
}

/// Of an executable: with no edits it is written as it was, and after apply and revert it is what it was. What is in between has
/// grown by no more than what is injected, and is the original but for one module.
#[test]
#[ignore = "nightly: by day live tests patch one and put it back"]
fn an_executable_comes_back_to_the_byte() {
    for release in tested().filter(|release| release.is_native()) {
        let name = format!("{} {}", release.package, release.version);
        let path = fetched(release);
        let container = Target::at(&path).unwrap().open().unwrap();
        assert_eq!(container.rewrite(&[]).unwrap(), PiecewiseFile::kept(0..container.source().len()), "{name}: nothing is new");

        let scratch = tempfile::tempdir().unwrap();
        let copy = scratch.path().join(path.file_name().unwrap());
        fs::copy(&path, &copy).unwrap();
        let target = Target::at(&copy).unwrap();
        assert_eq!(target.version.as_ref(), Some(&release.version), "{name}: the version is read from the code");
        let catalog = Catalog::embedded().unwrap();
        let data = scratch.path().join("data");
        fs::create_dir(&data).unwrap();
        let patcher = Patcher::new(&data, catalog, &|_| {});
        let applied = patcher.apply(&target, &[], false).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!((1..=64 << 10).contains(&applied.grew_by_bytes), "{name} grew by {}", applied.grew_by_bytes);
        assert_eq!(digest::of_file(&copy).unwrap(), applied.patched_sha256, "{name}");

        let patched = Target::at(&copy).unwrap().open().unwrap();
        let marked = |(index, module): (usize, RawModule<'_>)| marker::occurs_in(module.bytes).then_some(index);
        let edited: Vec<usize> = patched.modules().enumerate().filter_map(marked).collect();
        assert_eq!(edited.len(), 1, "{name}: one module is edited");
        container.compare(&patched, &edited).unwrap_or_else(|difference| panic!("{name}: {difference}"));
        // Nobody's word but the file's own.
        let elsewhere = tempfile::tempdir().unwrap();
        let stranger = Patcher::new(elsewhere.path(), Catalog::embedded().unwrap(), &|_| {});
        assert_eq!(stranger.verify(&target).unwrap().state, TargetState::Patched, "{name}");

        patcher.revert(&target, false).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(digest::of_file(&copy).unwrap(), release.sha256, "{name}");
    }
}

/// What two texts may have in common by chance, or because the signatures need it: the longest such piece has 39 bytes.
const LONGEST_SHARED: usize = 39;

/// Not a byte of the client is ours to publish: the bundles have its shape, and their own words.
#[test]
fn no_fixture_shares_a_long_run_with_a_release() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/cli-js");
    let paths = [folder.join("e5"), folder].into_iter().flat_map(|folder| fs::read_dir(folder).unwrap());
    let paths = paths.map(|entry| entry.unwrap().path());
    let bundles: Vec<_> = paths.filter(|path| path.extension().is_some_and(|extension| extension == "js")).collect();
    assert!(bundles.len() >= 10, "{bundles:?}");
    let texts: Vec<Vec<u8>> = bundles.iter().map(|path| fs::read(path).unwrap()).collect();
    let own = RunIndex::new(&texts, LONGEST_SHARED + 1);
    // Where a run begins that a release has, too, and which release.
    let mut shared: Vec<BTreeMap<usize, String>> = vec![BTreeMap::new(); texts.len()];
    for release in tested() {
        let container = Target::at(&fetched(release)).unwrap().open().unwrap();
        for (at, begin) in container.modules().flat_map(|module| own.shared_with(module.bytes)) {
            shared[at].entry(begin).or_insert_with(|| format!("{} {}", release.package, release.version));
        }
    }
    let mut found = Vec::new();
    for ((bundle, text), begins) in bundles.iter().zip(&texts).zip(&shared) {
        let mut end = 0;
        for (begin, release) in begins {
            let piece = String::from_utf8_lossy(&text[end.max(*begin)..begin + LONGEST_SHARED + 1]);
            match found.last_mut() {
                Some((_, whole)) if *begin < end => *whole += piece.as_ref(),
                _ => found.push((format!("{} and {release}", bundle.display()), piece.into_owned())),
            }
            end = begin + LONGEST_SHARED + 1;
        }
    }
    let found: Vec<String> = found.iter().map(|(both, piece)| format!("{both} have in common: {piece}")).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

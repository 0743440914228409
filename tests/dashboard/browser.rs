//! The page in headless Chromium. `browser/page.mjs` is what is done with it.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use ctxbridge_testkit::files::bring;
use ctxbridge_testkit::sandbox::Sandbox;
use ctxbridge_testkit::transcript::Kind;

use crate::dashboard::answers::{asked_compactions, hostile, import, metrics};
use crate::dashboard::conversations::branched;
use crate::dashboard::place::Served;

const NEXT: &str =
    "these tests need Node.js 20.11 or newer with npm; on anything but Linux on x64 also Chrome, or CTXBRIDGE_CHROMIUM=PATH";

/// A folder with the scripts, what they import, and the browser; filled once for all tests.
fn workshop() -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/dashboard/browser");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("dashboard-browser");
    fs::create_dir_all(&folder).unwrap();
    let lock = File::create(folder.join(".lock")).unwrap();
    lock.lock().unwrap();
    let wanted = fs::read(source.join("package-lock.json")).unwrap();
    let done = folder.join("installed");
    for file in fs::read_dir(&source).unwrap().map(Result::unwrap).filter(|file| file.path().is_file()) {
        // The lock covers the filling; Node.js of another test may be reading them.
        bring(&file.path(), &folder.join(file.file_name())).unwrap();
    }
    if fs::read(&done).is_ok_and(|installed| installed == wanted) {
        return folder;
    }
    let npm = Command::new("npm").args(["ci", "--no-audit", "--no-fund", "--ignore-scripts"]).current_dir(&folder).output();
    let npm = npm.unwrap_or_else(|error| panic!("npm: {error}; {NEXT}"));
    assert!(npm.status.success(), "npm ci: {}; is the registry reachable? {NEXT}", String::from_utf8_lossy(&npm.stderr));
    // The browser is unpacked beside it, before several processes want to do so.
    let mut warm = node(
        &folder,
        &["--input-type=module", "-e", "const { launch } = await import('./browser.mjs'); await (await launch()).close();"],
    );
    let warm = warm.output().unwrap_or_else(|error| panic!("node: {error}; {NEXT}"));
    assert!(warm.status.success(), "Chromium does not start: {}; {NEXT}", String::from_utf8_lossy(&warm.stderr));
    fs::write(&done, &wanted).unwrap();
    folder
}

fn node(folder: &Path, arguments: &[&str]) -> Command {
    let unpacked = folder.join("tmp");
    fs::create_dir_all(&unpacked).unwrap();
    let mut command = Command::new("node");
    command.args(arguments).current_dir(folder).env("TMPDIR", unpacked);
    command
}

#[track_caller]
fn passes(cases: &[&str], served: &Served) {
    let arguments = [&["page.mjs"], cases, &[&served.url]].concat();
    let output = node(&workshop(), &arguments).output().unwrap_or_else(|error| panic!("node: {error}; {NEXT}"));
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{cases:?}: {}{}", said(&output.stdout), said(&output.stderr));
}

/// Four sessions, one of them hostile and one with a branch, and others with compactions; learnings, memory that was used, and hooks
/// that were measured.
fn lived_in() -> Sandbox {
    let sandbox = Sandbox::new();
    hostile(&sandbox);
    let branched = branched(&sandbox);
    for seed in [1, 2] {
        sandbox.generate(Kind::Compacted, 500, seed);
    }
    import(&sandbox);
    metrics(&sandbox, 60);
    asked_compactions(&sandbox);
    // Those of the generator are of its own time, and the page shows the last 30 days.
    let db = rusqlite::Connection::open(sandbox.database()).unwrap();
    let now = jiff::Timestamp::now().as_millisecond();
    let recent = "INSERT INTO compactions (session, at_ms, cause, turns, summary)
        SELECT session, ?1 - 86400000 * (id % 9), 'auto', turns, summary FROM compactions";
    assert!(db.execute(recent, [now]).unwrap() > 3, "the sessions have no compactions");
    drop(db);
    sandbox.cli(&["archive", "optimize"]).done();
    let turns = sandbox.json(&["archive", "show", &branched])["turns"].clone();
    sandbox.cli(&["recall", turns[0]["handle"].as_str().unwrap()]).done();
    sandbox
}

/// Cases of which none changes anything: a browser takes seconds to start, and an archive to make.
fn in_a_browser(cases: &[&str]) {
    let sandbox = lived_in();
    passes(cases, &Served::start(&sandbox));
}

#[test]
fn savings_are_shown_first_and_charts_have_data_and_sensible_axes() {
    in_a_browser(&["loads", "axes"]);
}

#[test]
fn sessions_are_found_and_read_and_learnings_are_listed() {
    in_a_browser(&["searches", "reads", "pages", "learnings"]);
}

#[test]
fn it_fits_every_window_light_and_dark_works_with_the_keyboard_and_axe_finds_nothing() {
    in_a_browser(&["fits", "dark", "keyboard"]);
}

#[test]
fn health_is_told_when_something_is_wrong() {
    in_a_browser(&["health"]);
}

#[test]
fn a_new_user_sees_what_to_do() {
    passes(&["empty"], &Served::start(&Sandbox::new()));
}

#[test]
fn what_is_archived_meanwhile_appears_without_a_reload() {
    let sandbox = lived_in();
    let served = Served::start(&sandbox);
    let mut page = node(&workshop(), &["page.mjs", "live", &served.url]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(page.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().expect("the page is ready").unwrap(), "ready");
    sandbox.generate(Kind::Chat, 40, 9);
    import(&sandbox);
    assert!(page.wait().unwrap().success());
}

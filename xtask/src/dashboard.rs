//! `cargo xtask dashboard-pictures`: screenshots of the dashboard, and the time until it is visible.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use ctxbridge::common::paths;
use ctxbridge_testkit::files::bring;
use ctxbridge_testkit::transcript::{Kind, Spec, generate};
use jiff::{SignedDuration, Timestamp};
use rusqlite::Connection;
use serde_json::json;
use tempfile::TempDir;

use crate::steps::Steps;
use crate::tools::{require_node, root, target};

#[derive(Debug, clap::Args)]
pub struct PicturesArgs {
    /// Folder for dashboard-light.png, dashboard-session-light.png, and the same in dark and narrow
    folder: PathBuf,
    /// Turns of other sessions in the archive, in addition to the few that are visible
    #[arg(long, default_value_t = 0)]
    turns: u64,
    /// The ctxbridge to run
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
}

/// Turns of a session, and messages and bytes of a turn.
const TURNS: u64 = 14_500;
const MESSAGES_EACH: f64 = 2.75;
const BYTES_EACH: u64 = 1_300;
/// Sessions that are seen, and hours between them.
const SESSIONS: u64 = 12;
const HOURS: i64 = 41;
/// Runs of hooks that were measured.
const RUNS: i64 = 900;
/// Sessions into which turns came back, and the most of these turns.
const RECALLED: usize = 9;
const RECALLED_TURNS: usize = 6;

pub fn run(args: &PicturesArgs) -> Result<bool> {
    require_node()?;
    let name = format!("ctxbridge{}", std::env::consts::EXE_SUFFIX);
    let program = args.program.clone().unwrap_or_else(|| target().join("release").join(name));
    ensure!(program.is_file(), "{} does not exist; `cargo build --release` makes it", program.display());
    fs::create_dir_all(&args.folder)?;
    let folder = paths::real(&args.folder)?;
    let place =
        DemoHome { program: paths::real(&program)?, folder: tempfile::Builder::new().prefix("ctxbridge-pictures-").tempdir()? };
    place.fill(args.turns)?;
    let workshop = workshop()?;
    let mut server = DashboardProcess::start(&place)?;
    let longest = place.longest_session()?;
    let of_longest = ["conversation/ID/0", "conversation/ID/last", "session/ID"].map(|what| format!("api/{what}"));
    let paths = ["overview", "overview", "sessions/0", "memory", "learnings/all", "changes"].map(|what| format!("api/{what}"));
    for what in paths.into_iter().chain(of_longest) {
        let begun = Instant::now();
        let bytes = server.get(&what.replace("ID", &longest))?;
        println!("{what}: {:.0} ms, {bytes} bytes", begun.elapsed().as_secs_f64() * 1e3);
    }
    let mut pictures = Command::new("node");
    pictures.arg("pictures.mjs").arg(&server.url).arg(&folder).current_dir(&workshop).env("TMPDIR", workshop.join("tmp"));
    Steps::default().run("pictures", &mut pictures, "Is there a browser? CTXBRIDGE_CHROMIUM says where.")?;
    server.stop()?;
    Ok(true)
}

/// A home with sessions, an archive of them, and nothing of the user's.
struct DemoHome {
    program: PathBuf,
    folder: TempDir,
}

impl DemoHome {
    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let home = self.folder.path().join("home");
        let mut command = Command::new(&self.program);
        command.args(arguments).current_dir(self.folder.path()).env_clear().env("HOME", &home).env("USERPROFILE", &home);
        command.env("CTXBRIDGE_DATA_DIR", self.data()).env("PATH", "/usr/bin:/bin").env("XDG_CONFIG_HOME", home.join(".config"));
        // Nothing is to run beside what is measured.
        command.env("CTXBRIDGE_ARCHIVE_AUTO_OPTIMIZE", "false");
        command
    }

    fn fill(&self, turns: u64) -> Result<()> {
        let sessions = self.folder.path().join("home/.claude/projects/-home-dev-src-ledger");
        let mut made = 0;
        for seed in 0..turns.div_ceil(TURNS) {
            let messages = (TURNS.min(turns - made) as f64 * MESSAGES_EACH) as u64;
            generate(&Spec { bytes: Some(messages * BYTES_EACH), ..Spec::new(Kind::Chat, messages, 100 + seed) }, &sessions)?;
            made += TURNS;
        }
        for seed in 0..SESSIONS {
            generate(&Spec::new(Kind::Compacted, 900 + 230 * (seed % 5), seed), &sessions)?;
        }
        Steps::default().run("importing", self.command(&["archive", "import"]).arg(&sessions), "")?;
        self.bring_to_now()?;
        // The sums of the pages that were written do not fit. The first run repairs and reports that, and exits with 1.
        self.command(&["archive", "optimize", "--quiet"]).status()?;
        Steps::default().run("indexing", &mut self.command(&["archive", "optimize"]), "")?;
        self.recall_turns()?;
        self.measure_hooks()
    }

    /// The session with the most turns.
    fn longest_session(&self) -> Result<String> {
        let db = Connection::open(self.data().join("archive.db"))?;
        let sql = "SELECT sessions.session FROM turns JOIN transcripts ON transcripts.id = turns.transcript
            JOIN sessions ON sessions.id = transcripts.session GROUP BY sessions.id ORDER BY count(*) DESC LIMIT 1";
        Ok(db.query_row(sql, [], |row| row.get(0))?)
    }

    /// Notes down that turns came back into sessions, as hooks do.
    fn recall_turns(&self) -> Result<()> {
        let db = Connection::open(self.data().join("archive.db"))?;
        let newest =
            "SELECT lower(hex(substr(uuid, 1, 4))) FROM turns WHERE superseded IS NULL ORDER BY started_ms DESC LIMIT ?1";
        let handles: Vec<String> =
            db.prepare(newest)?.query_map([(RECALLED + RECALLED_TURNS) as i64], |row| row.get(0))?.collect::<Result<_, _>>()?;
        let folder = self.data().join("recalled");
        fs::create_dir_all(&folder)?;
        for (number, some) in handles.windows(RECALLED_TURNS).take(RECALLED).enumerate() {
            let some = &some[..1 + number % RECALLED_TURNS];
            fs::write(folder.join(number.to_string()), some.iter().map(|digits| format!("ctx:{digits}\n")).collect::<String>())?;
        }
        Ok(())
    }

    /// Made-up sessions are of a made-up time, and the page shows the last 30 days.
    fn bring_to_now(&self) -> Result<()> {
        let db = Connection::open(self.data().join("archive.db"))?;
        let now = Timestamp::now().as_millisecond();
        let ends: Vec<(i64, i64)> = db
            .prepare("SELECT id, last_ms FROM sessions ORDER BY id DESC")?
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect::<Result<_, _>>()?;
        for (number, (session, last_ms)) in (0_i64..).zip(ends) {
            let later = now - number * HOURS * 3_600_000 - last_ms;
            db.execute("UPDATE sessions SET first_ms = first_ms + ?2, last_ms = last_ms + ?2 WHERE id = ?1", [session, later])?;
            db.execute("UPDATE compactions SET at_ms = at_ms + ?2 WHERE session = ?1", [session, later])?;
            let turns = "UPDATE turns SET started_ms = started_ms + ?2 WHERE transcript IN (SELECT id FROM transcripts WHERE session = ?1)";
            db.execute(turns, [session, later])?;
        }
        Ok(())
    }

    fn measure_hooks(&self) -> Result<()> {
        let logs = self.data().join("logs");
        fs::create_dir_all(&logs)?;
        let mut file = fs::File::create(logs.join("metrics.jsonl"))?;
        for run in (0..RUNS).rev() {
            let ts = Timestamp::now().saturating_sub(SignedDuration::from_mins(run * 47))?;
            let event = ["UserPromptSubmit", "PostToolUse", "Stop", "PreCompact"][run as usize % 4];
            // Numbers that jump about, and are the same each time.
            let jump = (run * 7919 % 97) as f64 / 97.0;
            let ms = 4.0 + 6.0 * jump + if run % 23 == 0 { 18.0 } else { 0.0 };
            let line = json!({ "ts": format!("{ts:.3}"), "event": event, "session": "0", "ms": ms, "bytes": 2_000, "ok": run % 311 != 5 });
            writeln!(file, "{line}")?;
        }
        Ok(())
    }
}

/// The scripts of the browser tests, and what they import.
fn workshop() -> Result<PathBuf> {
    let folder = target().join("tmp").join("dashboard-browser");
    fs::create_dir_all(folder.join("tmp"))?;
    let source = root().join("tests/dashboard/browser");
    for file in fs::read_dir(&source)? {
        let file = file?;
        if file.path().is_file() {
            bring(&file.path(), &folder.join(file.file_name()))?;
        }
    }
    if !folder.join("node_modules").is_dir() {
        let mut npm = Command::new(if cfg!(windows) { "npm.cmd" } else { "npm" });
        npm.args(["ci", "--no-audit", "--no-fund", "--ignore-scripts"]).current_dir(&folder);
        Steps::default().run("installing the browser", &mut npm, "Is the registry reachable?")?;
    }
    Ok(folder)
}

struct DashboardProcess {
    process: Child,
    url: String,
}

impl DashboardProcess {
    fn start(place: &DemoHome) -> Result<Self> {
        let mut command = place.command(&["dashboard", "--until-eof"]);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut url = String::new();
        BufReader::new(process.stdout.take().context("piped")?).read_line(&mut url)?;
        Ok(Self { process, url: url.trim().to_owned() })
    }

    /// Bytes of an answer.
    fn get(&self, what: &str) -> Result<usize> {
        let rest = self.url.strip_prefix("http://").context("no address")?;
        let (host, path) = rest.split_once('/').context("no path")?;
        let mut stream = TcpStream::connect(host)?;
        write!(stream, "GET /{path}{what} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        ensure!(answer.starts_with(b"HTTP/1.1 200"), "{what}: {}", String::from_utf8_lossy(&answer));
        Ok(answer.len())
    }

    fn stop(&mut self) -> Result<()> {
        drop(self.process.stdin.take());
        ensure!(self.process.wait()?.success(), "the server failed");
        Ok(())
    }
}

impl Drop for DashboardProcess {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        self.process.wait().ok();
    }
}

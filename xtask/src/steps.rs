//! Steps of a long command: each runs a program, and the table at the end says what each of them took.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use wait4::Wait4 as _;

/// Rows that `table` gives to the slowest tests.
const SLOWEST: usize = 10;

/// The time a step took.
struct StepTime {
    name: String,
    wall: Duration,
    /// User and system time of the program and all that it ran; none where the step ran inside this process.
    processor: Option<Duration>,
}

/// Steps that were run so far.
#[derive(Default)]
pub struct Steps {
    rows: Vec<StepTime>,
    slowest: Vec<(f64, String)>,
}

impl Steps {
    /// Runs a program, and fails with a hint when it fails.
    pub fn run(&mut self, name: &str, command: &mut Command, hint: &str) -> Result<()> {
        self.run_reading(name, command, hint, &mut |_| {})
    }

    /// The same; each line that the program writes to stderr is passed on, and given to `line`.
    pub fn run_with_lines(&mut self, name: &str, command: &mut Command, hint: &str, line: &mut dyn FnMut(&str)) -> Result<()> {
        command.stderr(Stdio::piped());
        self.run_reading(name, command, hint, line)
    }

    fn run_reading(&mut self, name: &str, command: &mut Command, hint: &str, line: &mut dyn FnMut(&str)) -> Result<()> {
        eprintln!("\n== {name}");
        let begun = Instant::now();
        let mut child =
            command.stdin(Stdio::null()).spawn().with_context(|| format!("cannot start {:?}", command.get_program()))?;
        if let Some(stderr) = child.stderr.take() {
            let mut stderr = BufReader::new(stderr);
            let mut read = Vec::new();
            while stderr.read_until(b'\n', &mut read)? > 0 {
                let text = String::from_utf8_lossy(&read);
                eprint!("{text}");
                line(text.trim_end());
                read.clear();
            }
        }
        let used = child.wait4()?;
        let processor = Some(used.rusage.utime + used.rusage.stime);
        self.rows.push(StepTime { name: name.to_owned(), wall: begun.elapsed(), processor });
        if !used.status.success() {
            bail!("{name}: failed ({}). {hint}", used.status);
        }
        Ok(())
    }

    /// Does something in this process as a step.
    pub fn within<T>(&mut self, name: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
        eprintln!("\n== {name}");
        let begun = Instant::now();
        let done = work();
        self.rows.push(StepTime { name: name.to_owned(), wall: begun.elapsed(), processor: None });
        done
    }

    /// Takes the times of tests out of a report in JUnit's format, as cargo-nextest writes it.
    pub fn add_tests(&mut self, junit: &str) {
        self.slowest.extend(times(junit));
        self.slowest.sort_by(|one, other| other.0.total_cmp(&one.0));
        self.slowest.truncate(SLOWEST);
    }

    /// Prints what every step took, and the slowest tests.
    pub fn print(&self) {
        eprintln!("\n{:<34} {:>9} {:>12}", "step", "wall", "processor");
        for StepTime { name, wall, processor } in &self.rows {
            let processor = processor.map_or_else(|| "-".to_owned(), |time| format!("{:.0} s", time.as_secs_f64()));
            eprintln!("{name:<34} {:>7.0} s {processor:>12}", wall.as_secs_f64());
        }
        let wall: Duration = self.rows.iter().map(|row| row.wall).sum();
        let processor: Duration = self.rows.iter().filter_map(|row| row.processor).sum();
        eprintln!("{:<34} {:>7.0} s {:>10.0} s", "all", wall.as_secs_f64(), processor.as_secs_f64());
        if !self.slowest.is_empty() {
            eprintln!("\nslowest tests");
        }
        for (seconds, name) in &self.slowest {
            eprintln!("{seconds:>7.1} s  {name}");
        }
    }
}

/// Seconds and name of each test in a report in JUnit's format.
fn times(junit: &str) -> impl Iterator<Item = (f64, String)> {
    junit.split("<testcase ").skip(1).filter_map(|case| {
        let attribute = |name: &str| {
            let (_, rest) = case.split_once(&format!("{name}=\""))?;
            Some(rest.split_once('"')?.0)
        };
        // `classname` ends in `name`, too.
        Some((attribute(" time")?.parse().ok()?, attribute("name")?.to_owned()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_gives_names_and_seconds() {
        let report = r#"<testsuite name="it"><testcase name="a::b" classname="it" timestamp="2026" time="1.25"></testcase>
            <testcase name="c" classname="it" timestamp="2026" time="0.5"/></testsuite>"#;
        assert_eq!(times(report).collect::<Vec<_>>(), [(1.25, "a::b".to_owned()), (0.5, "c".to_owned())]);
    }

    #[test]
    fn only_the_slowest_are_listed() {
        let case = |seconds: usize| format!("<testcase name=\"t{seconds}\" classname=\"it\" time=\"{seconds}\"/>");
        let mut steps = Steps::default();
        steps.add_tests(&(0..2 * SLOWEST).map(case).collect::<String>());
        let expected = (SLOWEST..2 * SLOWEST).rev().map(|seconds| (seconds as f64, format!("t{seconds}")));
        assert_eq!(steps.slowest, expected.collect::<Vec<_>>());
    }
}

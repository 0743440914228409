//! Whole processes, measured.

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use wait4::Wait4;

use crate::tools::target;

/// One run of a process.
#[derive(Clone, Copy)]
pub struct Sample {
    pub wall: Duration,
    /// Processor time, of the program and of the system for it.
    pub processor: Duration,
    pub peak_bytes: u64,
}

/// A program of the workspace, built in release mode.
pub fn program(name: &str) -> PathBuf {
    Path::new(&target()).join("release").join(format!("{name}{}", std::env::consts::EXE_SUFFIX))
}

/// Runs a command to its end; its output is dropped.
///
/// A child's peak memory starts with that of its parent process, so the process that measures has to stay small. Work that needs
/// memory is done in other processes.
pub fn measure(command: &mut Command) -> Result<Sample> {
    measure_with_input(command, b"")
}

/// The same for a command that reads `input`.
pub fn measure_with_input(command: &mut Command, input: &[u8]) -> Result<Sample> {
    let begun = Instant::now();
    let stdin = if input.is_empty() { Stdio::null() } else { Stdio::piped() };
    let mut child = command.stdin(stdin).stdout(Stdio::null()).spawn().with_context(|| format!("cannot start {command:?}"))?;
    if let Some(mut stdin) = child.stdin.take() {
        // One that ends before it has read all is judged by how it ends.
        stdin.write_all(input).or_else(|error| if error.kind() == ErrorKind::BrokenPipe { Ok(()) } else { Err(error) })?;
    }
    let used = child.wait4()?;
    let wall = begun.elapsed();
    ensure!(used.status.success(), "{command:?} failed: {}", used.status);
    let processor = used.rusage.utime + used.rusage.stime;
    Ok(Sample { wall, processor, peak_bytes: used.rusage.maxrss })
}

/// The peak memory of this process in MB, if the system reports it.
pub fn own_peak() -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok());
    kilobytes.unwrap_or(0.0) * 1_024.0 / 1e6
}

/// Runs of a command, each with a run of its reference right before it.
#[derive(Default)]
pub struct Pairs(Vec<(Sample, Sample)>);

impl Pairs {
    pub fn push(&mut self, own: Sample, base: Sample) {
        self.0.push((own, base));
    }

    /// Median, lowest and highest of a figure.
    pub fn spread(&self, of: impl Fn(&Sample, &Sample) -> f64) -> [f64; 3] {
        let mut all: Vec<f64> = self.0.iter().map(|(own, base)| of(own, base)).collect();
        all.sort_by(f64::total_cmp);
        let at = |at: usize| all.get(at).copied().unwrap_or(f64::NAN);
        [at(all.len() / 2), at(0), at(all.len().saturating_sub(1))]
    }

    /// The line of a table: reference, ratio, target, time with the median of processor time, peaks.
    pub fn print(&self, name: &str, reference: &str, goal: &str) {
        let time = self.spread(|own, _| own.wall.as_secs_f64() * 1e3);
        let [processor, ..] = self.spread(|own, _| own.processor.as_secs_f64() * 1e3);
        let ratio = self.spread(|own, base| own.wall.as_secs_f64() / base.wall.as_secs_f64());
        let [_, _, own] = self.spread(|own, _| own.peak_bytes as f64 / 1e6);
        let [_, _, base] = self.spread(|_, base| base.peak_bytes as f64 / 1e6);
        let range = |[median, low, high]: [f64; 3], digits| format!("{median:.digits$} [{low:.digits$} – {high:.digits$}]");
        let digits = if time[0] < 100.0 { 1 } else { 0 };
        let (time, ratio) = (range(time, digits), range(ratio, 2));
        println!(
            "| {name} | {reference} | {ratio} | {goal} | {time} ms, processor {processor:.digits$} ms | {own:.0} MB | {base:.0} MB |"
        );
    }
}

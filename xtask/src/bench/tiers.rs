//! Sizes after compressing again, by level and size of the dictionary, and times of moving between tiers.

use std::time::Instant;

use anyhow::{Context as _, Result};
use ctxbridge::archive::store::sqlite::{LockPolicy, SqliteStore};
use ctxbridge::archive::tier::dictionary::{Packer, Samples};
use ctxbridge_testkit::transcript::Kind;

use super::scratch::Scratch;

#[derive(Debug, clap::Args)]
pub struct TiersArgs {
    /// Sessions of each kind
    #[arg(long, default_value_t = 4)]
    sessions: u64,
    /// Messages of each
    #[arg(long, default_value_t = 3_000)]
    messages: u64,
    /// Also without ours: a folder of transcripts to archive instead
    #[arg(long)]
    folder: Option<std::path::PathBuf>,
}

/// Bytes of a message.
const BYTES: u64 = 1_800;

pub fn run(args: &TiersArgs) -> Result<bool> {
    let scratch = Scratch::new()?;
    match &args.folder {
        Some(folder) => drop(scratch.run(&["archive", "import", folder.to_str().context("a path that is text")?])?),
        None => {
            for seed in 0..args.sessions {
                for kind in [Kind::Chat, Kind::Tools, Kind::Agents] {
                    scratch.generate(kind, args.messages, args.messages * BYTES, seed)?;
                }
            }
            scratch.import()?;
        }
    }
    levels(&scratch)?;
    let data = scratch.data();
    println!("\n| what | sessions | before | after | time |\n| --- | --- | --- | --- | --- |");
    let cold = scratch.project().join("cold");
    for (name, folder) in [("warm", None), ("cold", Some(&cold))] {
        let before = scratch.archive_bytes()?;
        let mut store = SqliteStore::open(&data, LockPolicy::Background)?;
        let settings = ctxbridge::archive::tier::TierSettings {
            warm_after_days: 1,
            cold_after_days: u32::from(folder.is_some()),
            cold_folder: folder.cloned(),
        };
        let begun = Instant::now();
        let moves = ctxbridge::archive::tier::run(&mut store, &data, &settings, None, i64::MAX / 2, &mut |_| {})?;
        let took = begun.elapsed().as_secs_f64();
        let moved = if folder.is_some() { moves.cold } else { moves.warm };
        let (from, to) = (mb(moved.before), mb(moved.after));
        println!("| {name} | {} | {from:.1} MB | {to:.1} MB | {took:.1} s |", moved.sessions);
        let begun = Instant::now();
        store.shrink()?;
        ctxbridge::archive::store::MaintenanceStore::checkpoint(&mut store)?;
        drop(store);
        let (before, after, took) = (mb(before), mb(scratch.archive_bytes()?), begun.elapsed().as_secs_f64());
        println!("| the database afterwards, `VACUUM` | | {before:.1} MB | {after:.1} MB | {took:.1} s |");
    }
    Ok(true)
}

/// All segments, compressed in different ways.
fn levels(scratch: &Scratch) -> Result<()> {
    let mut store = SqliteStore::open(&scratch.data(), LockPolicy::Background)?;
    let sessions: Vec<i64> = store.known_sessions()?.iter().map(|session| session.key).collect();
    let candidates = store.warm_candidates(&sessions)?;
    let packed: u64 = candidates.iter().map(|candidate| candidate.packed).sum();
    let mut texts = Vec::new();
    for candidate in &candidates {
        texts.push(store.segment_bytes(candidate.id, &candidate.sha256)?.context("a segment is gone")?);
    }
    let all: u64 = texts.iter().map(|text| text.len() as u64).sum();
    // Every other text is sampled, and only the others are measured: a dictionary of what it is measured by proves nothing.
    let measured: Vec<&Vec<u8>> = texts.iter().skip(1).step_by(2).collect();
    let bytes: u64 = measured.iter().map(|text| text.len() as u64).sum();
    let hot: u64 = candidates.iter().skip(1).step_by(2).map(|candidate| candidate.packed).sum();
    let (raw, stored) = (mb(all), mb(packed));
    println!("{} segments, {raw:.1} MB, hot {stored:.1} MB; half of them sampled, the other half measured:\n", texts.len());
    println!("| dictionary | level | raw / compressed | of hot | MB/s |\n| --- | --- | --- | --- | --- |");
    println!("| – | as hot | {:.2} | 1.00 | |", bytes as f64 / hot as f64);
    for kilobytes in [0, 110, 256, 512, 1_024] {
        let mut samples = Samples::default();
        texts.iter().step_by(2).for_each(|text| samples.take(text, (all / 2).div_ceil(16 << 20) as usize));
        let begun = Instant::now();
        let dictionary = if kilobytes > 0 { samples.train_to(kilobytes << 10) } else { None };
        let trained = begun.elapsed().as_secs_f64();
        for level in [9, 12, 15, 19] {
            let mut packer = Packer::new(dictionary.as_deref(), level)?;
            let begun = Instant::now();
            let mut size = 0;
            for text in &measured {
                size += packer.pack(text)?.len() as u64;
            }
            let speed = mb(bytes) / begun.elapsed().as_secs_f64();
            let name = if kilobytes > 0 { format!("{kilobytes} KB, {trained:.1} s") } else { "–".to_owned() };
            println!("| {name} | {level} | {:.2} | {:.2} | {speed:.1} |", bytes as f64 / size as f64, size as f64 / hot as f64);
        }
    }
    Ok(())
}

fn mb(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

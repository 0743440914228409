/*!
Compares two executables, except for the code of some modules.

This checks a file that cannot be run here. It uses the contents of the new file, not the intention of the writer: sections are
those that the `object` crate's reader finds, modules and ranges those of the new table.
*/

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;

use object::{Object as _, ObjectSection as _, ObjectSegment as _};

use super::graph::{Graph, GraphEntry};
use super::{Bun, Executable};
use crate::container::FileBytes;

/// Number of bytes compared at once.
const WINDOW: usize = 1 << 20;

/// One of the two compared files.
#[derive(Clone, Copy)]
pub(in crate::container) struct Side<'a> {
    pub bun: &'a Bun,
    pub file: &'a FileBytes,
}

impl Side<'_> {
    fn graph(&self) -> &Graph {
        &self.bun.graph
    }

    fn blob(&self, range: Range<usize>) -> Range<usize> {
        let start = self.bun.executable.section().start + 8;
        start + range.start..start + range.end
    }
}

/// Compares all of two executables except the contents of these modules (indices among those of JavaScript). Returns a description
/// of the compared parts, or of the difference.
pub(in crate::container) fn compare(old: Side<'_>, new: Side<'_>, edited: &[usize]) -> Result<String, String> {
    let edited: Vec<usize> = edited.iter().map(|module| old.bun.scripts[*module]).collect();
    let sections = sections(old, new)?;
    let modules = modules(old, new, &edited)?;
    let signature = match &new.bun.executable {
        Executable::Elf(_) => "",
        Executable::Macho(new_macho) => {
            if let Executable::Macho(old_macho) = &old.bun.executable {
                // These are no section's.
                same(old.file, old_macho.tables(), new.file, new_macho.tables(), "the tables for dyld")?;
            }
            super::codesign::verify_signature(new.file)?;
            ", the ad-hoc signature in the place of the publisher's is valid"
        }
        Executable::Pe(_) => {
            super::pe::verify_checksum(new.file)?;
            ", the checksum is right, the publisher's signature is out"
        }
    };
    Ok(format!("{modules} other modules and {sections} other sections are the original's{signature}"))
}

/// Compares names, addresses and bytes of all sections but the one with the graph. Returns their number.
fn sections(old: Side<'_>, new: Side<'_>) -> Result<usize, String> {
    let (before, after) = (list(old)?, list(new)?);
    if before.len() != after.len() {
        return Err(format!("it has {} sections, not {}", after.len(), before.len()));
    }
    for (before, after) in before.iter().zip(&after) {
        if (&before.name, before.address) != (&after.name, after.address) {
            return Err(format!("the section {} is {} now, or elsewhere", before.name, after.name));
        }
        let graph = before.range == Some(old.bun.executable.section());
        if let (Some(one), Some(other), false) = (&before.range, &after.range, graph) {
            same(old.file, one.clone(), new.file, other.clone(), &before.name)?;
        }
    }
    // What is loaded must not overlap, in the file or in memory.
    let file = object::File::parse(&**new.file).map_err(|error| error.to_string())?;
    let mut segments: Vec<(u64, u64)> = file.segments().map(|segment| (segment.address(), segment.size())).collect();
    segments.sort_unstable();
    for pair in segments.windows(2) {
        if pair[0].0.saturating_add(pair[0].1) > pair[1].0 {
            return Err(format!("two segments overlap in memory, at {:#x}", pair[1].0));
        }
    }
    Ok(before.len().saturating_sub(1))
}

struct Section {
    name: String,
    address: u64,
    range: Option<Range<usize>>,
}

fn list(side: Side<'_>) -> Result<Vec<Section>, String> {
    let file = object::File::parse(&**side.file).map_err(|error| format!("it cannot be read: {error}"))?;
    let section = |section: object::Section<'_, '_>| {
        let range = section.file_range().map(|(start, length)| start as usize..start.saturating_add(length) as usize);
        let name = section.name().map_err(|error| format!("a section has no readable name: {error}"))?;
        Ok(Section { name: name.to_owned(), address: section.address(), range })
    };
    file.sections().map(section).collect()
}

/// Compares the modules that were not edited, and their table entries. Returns their number.
fn modules(old: Side<'_>, new: Side<'_>, edited: &[usize]) -> Result<usize, String> {
    let (before, after) = (old.graph(), new.graph());
    let shape = |graph: &Graph| (graph.entries.len(), graph.entry_point, graph.flags);
    if shape(before) != shape(after) {
        return Err("it does not hold the same modules".to_owned());
    }
    same(old.file, old.blob(before.argv()), new.file, new.blob(after.argv()), "the arguments")?;
    // Ranges of bytecode overlap by the thousand; those that moved alike are compared once.
    let mut shared: BTreeMap<i64, Vec<Range<usize>>> = BTreeMap::new();
    for (index, (one, other)) in before.entries.iter().zip(&after.entries).enumerate() {
        let name = String::from_utf8_lossy(&old.file[old.blob(one.name())]).into_owned();
        let kinds = |entry: &GraphEntry| (entry.encoding, entry.loader, entry.format, entry.side);
        if kinds(one) != kinds(other) {
            return Err(format!("the module {name} has another format"));
        }
        let is_edited = edited.contains(&index);
        for ((one, stays), (other, _)) in one.spans().zip(other.spans()) {
            if is_edited && !stays {
                continue;
            }
            if one.length != other.length {
                return Err(format!("the module {name} has other sizes"));
            }
            if one.length > 0 {
                let moved = i64::from(other.offset) - i64::from(one.offset);
                shared.entry(moved).or_default().push(one.range());
            }
        }
    }
    for (moved, ranges) in shared {
        for range in union(ranges) {
            let to = |at: usize| usize::try_from(at as i64 + moved).map_err(|_| "an offset is negative".to_owned());
            let there = to(range.start)?..to(range.end)?;
            same(old.file, old.blob(range), new.file, new.blob(there), "the modules")?;
        }
    }
    Ok(before.entries.len() - edited.len())
}

/// Merges ranges that overlap.
fn union(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut union: Vec<Range<usize>> = Vec::new();
    for range in ranges {
        match union.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => union.push(range),
        }
    }
    union
}

fn same(old: &FileBytes, one: Range<usize>, new: &FileBytes, other: Range<usize>, what: &str) -> Result<(), String> {
    if one.len() != other.len() {
        return Err(format!("{what}: {} bytes became {}", one.len(), other.len()));
    }
    let cannot = |error: io::Error| format!("it cannot be read: {error}");
    let mut at = 0;
    while at < one.len() {
        let length = WINDOW.min(one.len() - at);
        let (mut before, mut after) = (Vec::with_capacity(length), Vec::with_capacity(length));
        old.stream(one.start + at..one.start + at + length, &mut |bytes| before.extend_from_slice(bytes)).map_err(cannot)?;
        new.stream(other.start + at..other.start + at + length, &mut |bytes| after.extend_from_slice(bytes)).map_err(cannot)?;
        if before != after {
            return Err(format!("{what}: not the original's bytes"));
        }
        at += length;
    }
    Ok(())
}

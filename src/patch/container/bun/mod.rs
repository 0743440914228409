/*!
Executables made by Bun: the client since 2.1.113.

Bun puts a module graph into a section of its own executable. [`graph`] reads and edits that section. [`elf`], [`macho`] and [`pe`]
find it in a file, and change the other parts of the file when it grows.
*/

mod codesign;
mod compare;
mod elf;
mod graph;
mod macho;
mod pe;

#[cfg(test)]
#[path = "../../../../tests/native/builder/mod.rs"]
mod builder;

use std::ops::Range;

use super::{ContainerKind, Encoding, FileBytes, ModuleEntry, PiecewiseFile};
use ctxbridge_syntax::Goal;
use graph::Graph;

/// A layout that is not understood. Nothing is guessed: a file is only patched if all of its layout is known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LayoutError(String);

impl LayoutError {
    pub(super) fn new(what: String) -> Self {
        Self(what)
    }
}

/// The executable around the graph.
#[derive(Clone, Debug)]
enum Executable {
    Elf(elf::Elf),
    Macho(Box<macho::Macho>),
    Pe(pe::Pe),
}

impl Executable {
    fn parse(kind: ContainerKind, file: &[u8]) -> Result<Self, LayoutError> {
        match kind {
            ContainerKind::BunElf => elf::Elf::parse(file).map(Self::Elf),
            ContainerKind::BunMacho => macho::Macho::parse(file).map(|macho| Self::Macho(Box::new(macho))),
            ContainerKind::BunPe => pe::Pe::parse(file).map(Self::Pe),
            ContainerKind::Script => Err(LayoutError::new("a script is no executable".to_owned())),
        }
    }

    /// Range of the section with the graph, in the file.
    fn section(&self) -> Range<usize> {
        match self {
            Self::Elf(elf) => elf.section(),
            Self::Macho(macho) => macho.section(),
            Self::Pe(pe) => pe.section(),
        }
    }

    /// The whole new file with this `section`, whose kept pieces are ranges of the file. It has room for its signature or checksum,
    /// which [`Self::finish`] fills in.
    fn with_section(&self, file: &[u8], section: PiecewiseFile) -> Result<PiecewiseFile, LayoutError> {
        match self {
            Self::Elf(elf) => elf.with_section(file, section),
            Self::Macho(macho) => macho.with_section(file, section),
            Self::Pe(pe) => pe.with_section(file, section),
        }
    }
}

impl Executable {
    /// Fills in the signature or checksum, which is computed from the rest of the file.
    fn finish(&self, file: &FileBytes, new: PiecewiseFile) -> Result<PiecewiseFile, LayoutError> {
        match self {
            Self::Elf(_) => Ok(new),
            Self::Macho(macho) => macho.finish(file, new),
            Self::Pe(pe) => pe.finish(file, new),
        }
    }
}

/// An executable and its graph.
#[derive(Clone, Debug)]
pub(super) struct Bun {
    executable: Executable,
    graph: Graph,
    /// Index in the graph of each JavaScript module.
    scripts: Vec<usize>,
}

/// Bun's numbers for JavaScript and for the CommonJS format.
const JAVASCRIPT: u8 = 1;
const COMMON_JS: u8 = 2;

/// The text around the code of a CommonJS module: the end of its head, and its tail.
const WRAPPER: (&[u8], &[u8]) = (b"(function(exports, require, module, __filename, __dirname) {", b"})");
/// Maximum length of a head in bytes: a line of comments for Bun comes before the wrapper.
const MAX_WRAPPER_HEAD_BYTES: usize = 256;

impl Bun {
    /// Reads an executable; also returns its JavaScript modules, in the order of the graph.
    pub(super) fn open(kind: ContainerKind, file: &[u8]) -> Result<(Self, Vec<ModuleEntry>), LayoutError> {
        let executable = Executable::parse(kind, file)?;
        let section = executable.section();
        let graph = Graph::parse(&file[section.clone()])?;
        let blob = section.start + 8;
        let mut modules = Vec::new();
        let mut scripts = Vec::new();
        for (index, entry) in graph.entries.iter().enumerate().filter(|(_, entry)| entry.loader == JAVASCRIPT) {
            let name = entry.name();
            let name = String::from_utf8_lossy(&file[blob + name.start..blob + name.end]).into_owned();
            let encoding = match entry.encoding {
                1 => Encoding::Latin1,
                2 => Encoding::Utf8,
                _ => continue,
            };
            let contents = blob + entry.contents().start..blob + entry.contents().end;
            let start = contents.start;
            let (code, goal) = match entry.format {
                COMMON_JS => match unwrap(&file[contents.clone()]) {
                    Some(code) => (contents.start + code.start..contents.start + code.end, Goal::FunctionBody),
                    // Not made by this bundler, and so none of the client's own code.
                    None => continue,
                },
                _ => (contents, Goal::Module),
            };
            modules.push(ModuleEntry::new(name, code, encoding, goal).behind(start));
            scripts.push(index);
        }
        if modules.is_empty() {
            return Err(LayoutError::new("the module graph has no JavaScript in it".to_owned()));
        }
        Ok((Self { executable, graph, scripts }, modules))
    }

    /// Index of the module that runs first, among the JavaScript modules.
    pub(super) fn entry_point(&self) -> Option<usize> {
        self.scripts.iter().position(|index| *index == self.graph.entry_point)
    }

    /// The file with other code in these modules: index among the JavaScript modules, range of the old code, new code.
    pub(super) fn rewrite(&self, file: &[u8], code: Vec<(usize, Range<usize>, Vec<u8>)>) -> Result<PiecewiseFile, LayoutError> {
        if code.is_empty() {
            return Ok(PiecewiseFile::kept(0..file.len()));
        }
        let section = self.executable.section();
        let blob = section.start + 8;
        let edits = code.into_iter().map(|(module, old, new)| {
            let index = self.scripts[module];
            let contents = self.graph.entries[index].contents();
            let (head, tail) = (&file[blob + contents.start..old.start], &file[old.end..blob + contents.end]);
            graph::ModuleEdit { index, contents: [head, &new, tail].concat() }
        });
        let bytes = &file[section.clone()];
        let mut new = self.graph.edit(bytes, edits.collect())?;
        new.keep(self.graph.used()..bytes.len());
        self.executable.with_section(file, new.within(section.start))
    }

    /// Range of the file's own checksum or signature.
    pub(super) fn checksum_ranges(&self) -> Vec<Range<usize>> {
        match &self.executable {
            Executable::Elf(_) => Vec::new(),
            Executable::Macho(macho) => vec![macho.signature()],
            Executable::Pe(pe) => vec![pe.checksum()],
        }
    }

    /// Compares this executable with another, except for these modules. Returns a description of the compared parts, or of the
    /// difference.
    pub(super) fn compare(&self, file: &FileBytes, new: &Self, new_file: &FileBytes, edited: &[usize]) -> Result<String, String> {
        compare::compare(compare::Side { bun: self, file }, compare::Side { bun: new, file: new_file }, edited)
    }

    /// Fills in the signature or checksum, which is computed from the rest of the file.
    pub(super) fn finish(&self, file: &FileBytes, new: PiecewiseFile) -> Result<PiecewiseFile, LayoutError> {
        self.executable.finish(file, new)
    }
}

/// The code within the wrapper of a CommonJS module.
fn unwrap(contents: &[u8]) -> Option<Range<usize>> {
    let head = &contents[..contents.len().min(MAX_WRAPPER_HEAD_BYTES)];
    let start = memchr::memmem::find(head, WRAPPER.0)? + WRAPPER.0.len();
    let end = contents.trim_ascii_end().len().checked_sub(WRAPPER.1.len()).filter(|end| *end >= start)?;
    contents[end..].starts_with(WRAPPER.1).then_some(start..end)
}

//! Executables in the shape of those that Bun makes, small and made by code: a module graph, and the ELF, PE and Mach-O files around
//! it. They do not run. What is read back here is read by code of its own, which shares nothing with the library's.
//!
//! Also a part of the unit tests and of the fuzz targets, which include this file.

// Nobody who includes it needs all of it.
#![allow(dead_code, unused_imports)]

mod elf;
mod macho;
mod pe;
mod read;

pub use elf::{AARCH64, Elf, X86_64};
pub use macho::Macho;
pub use pe::Pe;
pub use read::{Reading, bun_of_elf};

pub const BINARY: u8 = 0;
pub const LATIN1: u8 = 1;
pub const UTF8: u8 = 2;

/// Loaders: plain files, and JavaScript.
pub const FILE: u8 = 6;
pub const JAVASCRIPT: u8 = 1;

/// Formats.
pub const NO_FORMAT: u8 = 0;
pub const ES_MODULE: u8 = 1;
pub const COMMON_JS: u8 = 2;

pub const TRAILER: &[u8] = b"\n---- Bun! ----\n";
pub const HEAD: &str = "// @bun @bytecode @bun-cjs\n(function(exports, require, module, __filename, __dirname) {";
pub const TAIL: &str = "})\n";
/// What Bun aligns bytecode to, counted from the start of the section.
pub const BYTECODE_ALIGNMENT: usize = 128;

/// The bytecode of a module.
#[derive(Clone, Debug, Default)]
pub enum Bytecode {
    #[default]
    None,
    Own(Vec<u8>),
    /// From here to the end of the region that all modules share.
    Shared(usize),
}

#[derive(Clone, Debug, Default)]
pub struct Module {
    pub name: String,
    pub contents: Vec<u8>,
    pub source_map: Vec<u8>,
    pub bytecode: Bytecode,
    /// Only in entries of 52 bytes.
    pub info: Vec<u8>,
    pub origin: Vec<u8>,
    pub encoding: u8,
    pub loader: u8,
    pub format: u8,
    pub side: u8,
}

impl Module {
    /// An ES module whose characters are those of Latin-1.
    pub fn es(name: &str, text: &str) -> Self {
        let contents = latin1(text);
        Self { name: path(name), contents, encoding: LATIN1, loader: JAVASCRIPT, format: ES_MODULE, ..Self::default() }
    }

    /// A CommonJS module with this body in the function that Bun puts around it.
    pub fn common_js(name: &str, body: &str) -> Self {
        let contents = latin1(&format!("{HEAD}{body}{TAIL}"));
        Self { contents, format: COMMON_JS, ..Self::es(name, "") }
    }

    /// Something that is no code, such as an add-on.
    pub fn file(name: &str, contents: &[u8]) -> Self {
        Self { name: path(name), contents: contents.to_vec(), loader: FILE, ..Self::default() }
    }

    /// The same text in UTF-8.
    pub fn utf8(self) -> Self {
        let text: String = self.contents.iter().copied().map(char::from).collect();
        Self { contents: text.into_bytes(), encoding: UTF8, ..self }
    }

    pub fn with_bytecode(self, bytecode: Bytecode) -> Self {
        Self { bytecode, ..self }
    }
}

/// The name of a module in the file system that Bun makes of the graph.
pub fn path(name: &str) -> String {
    format!("/$bunfs/root/{name}")
}

/// One byte for each character, none of which may be beyond Latin-1.
pub fn latin1(text: &str) -> Vec<u8> {
    let byte = |character| u8::try_from(u32::from(character)).unwrap_or_else(|_| panic!("Latin-1 has no `{character}`"));
    text.chars().map(byte).collect()
}

/// A module graph to be made.
#[derive(Clone, Debug)]
pub struct Graph {
    pub modules: Vec<Module>,
    /// 52, or 36 as older versions of Bun have it.
    pub entry_size: usize,
    pub entry_point: u32,
    /// The region that bytecode is shared in.
    pub shared: Vec<u8>,
    pub argv: Vec<u8>,
    /// Bytes between the module table and the arguments that nobody knows the meaning of.
    pub junk: Vec<u8>,
    pub flags: u32,
    /// Whether bytecode and module info of all modules come before all contents, and names last, as from 2.1.246 on; before that,
    /// one module followed the other.
    pub sorted: bool,
}

impl Graph {
    pub fn new(modules: Vec<Module>) -> Self {
        let (shared, argv, junk) = (Vec::new(), Vec::new(), Vec::new());
        Self { modules, entry_size: 52, entry_point: 0, shared, argv, junk, flags: 0x3fff, sorted: false }
    }

    /// The section `.bun`: the length of the blob, and the blob.
    pub fn section(&self) -> Vec<u8> {
        let blob = self.blob();
        [&(blob.len() as u64).to_le_bytes()[..], &blob].concat()
    }

    fn blob(&self) -> Vec<u8> {
        // An offset of zero is that of what is not there.
        let mut data = vec![0; 8];
        let mut spans = vec![[[0; 2]; 6]; self.modules.len()];
        let all = || self.modules.iter().enumerate();
        let mut region = [0; 2];
        if self.sorted {
            region = aligned(&mut data, &self.shared);
            all().for_each(|(index, module)| module.compiled(&mut data, &mut spans[index]));
            all().for_each(|(index, module)| spans[index][CONTENTS] = text(&mut data, &module.contents));
            all().for_each(|(index, module)| module.names(&mut data, &mut spans[index]));
        } else {
            for (index, module) in all() {
                module.names(&mut data, &mut spans[index]);
                module.compiled(&mut data, &mut spans[index]);
                spans[index][CONTENTS] = text(&mut data, &module.contents);
            }
            if !self.shared.is_empty() {
                region = aligned(&mut data, &self.shared);
            }
        }
        let [region, length] = region;
        let mut table = Vec::new();
        for (module, mut spans) in self.modules.iter().zip(spans) {
            if let Bytecode::Shared(from) = module.bytecode {
                spans[BYTECODE] = [region + from as u32, length - from as u32];
            }
            let shown = &spans[..(self.entry_size - 4) / 8];
            table.extend(shown.iter().flatten().flat_map(|number| number.to_le_bytes()));
            table.extend([module.encoding, module.loader, module.format, module.side]);
        }
        // Not aligned, as in the releases.
        let table = raw(&mut data, &table);
        data.extend(&self.junk);
        let argv = text(&mut data, &self.argv);
        let mut blob = data;
        blob.extend((blob.len() as u64).to_le_bytes());
        let offsets = [table[0], table[1], self.entry_point, argv[0], argv[1], self.flags];
        blob.extend(offsets.map(u32::to_le_bytes).concat());
        blob.extend(TRAILER);
        blob
    }
}

const NAME: usize = 0;
const CONTENTS: usize = 1;
const SOURCE_MAP: usize = 2;
const BYTECODE: usize = 3;
const INFO: usize = 4;
const ORIGIN: usize = 5;

impl Module {
    fn names(&self, data: &mut Vec<u8>, spans: &mut [[u32; 2]; 6]) {
        spans[NAME] = text(data, self.name.as_bytes());
        spans[ORIGIN] = present(data, &self.origin);
        spans[SOURCE_MAP] = present(data, &self.source_map);
    }

    fn compiled(&self, data: &mut Vec<u8>, spans: &mut [[u32; 2]; 6]) {
        if let Bytecode::Own(bytes) = &self.bytecode {
            spans[BYTECODE] = aligned(data, bytes);
        }
        spans[INFO] = present(data, &self.info);
    }
}

/// What may be missing.
fn present(data: &mut Vec<u8>, bytes: &[u8]) -> [u32; 2] {
    if bytes.is_empty() { [0; 2] } else { text(data, bytes) }
}

fn raw(data: &mut Vec<u8>, bytes: &[u8]) -> [u32; 2] {
    let at = data.len() as u32;
    data.extend(bytes);
    [at, bytes.len() as u32]
}

fn text(data: &mut Vec<u8>, bytes: &[u8]) -> [u32; 2] {
    let span = raw(data, bytes);
    data.push(0);
    span
}

fn aligned(data: &mut Vec<u8>, bytes: &[u8]) -> [u32; 2] {
    // The blob begins eight bytes behind the section.
    let at = (data.len() + 8).next_multiple_of(BYTECODE_ALIGNMENT) - 8;
    data.resize(at, 0);
    raw(data, bytes)
}

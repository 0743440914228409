//! The modules of a container: bytes in the file, and the text that they encode.

use std::ops::Range;
use std::sync::OnceLock;

use super::ContainerError;
use ctxbridge_syntax::{Goal, line_and_column};

const LATIN1_PIECE_BYTES: usize = 1024;

/// Encoding of text in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    /// One byte for each of the first 256 characters.
    Latin1,
    Utf8,
}

/// A module as it is in the file.
#[derive(Clone, Copy, Debug)]
pub struct RawModule<'c> {
    /// Its name in the file; for a script, the file's name.
    pub name: &'c str,
    /// Its code, as bytes. ASCII is ASCII in either encoding.
    pub bytes: &'c [u8],
    /// Position of the bytes in the file.
    pub start: usize,
}

/// A module as text.
#[derive(Clone, Copy, Debug)]
pub struct Module<'c> {
    /// Its name in the file; for a script, the file's name.
    pub name: &'c str,
    /// Its code.
    pub text: &'c str,
    /// Goal symbol by which it is parsed.
    pub goal: Goal,
    /// Text before the code in the file: for a CommonJS module, the head of the function around it.
    head: &'c [u8],
    encoding: Encoding,
}

impl Module<'_> {
    /// 1-based line and column (in characters) of a byte of the text, counted from the start of the module.
    pub fn position(&self, offset: u32) -> (u32, u32) {
        let (line, column) = line_and_column(self.text, offset);
        let lines = memchr::memchr_iter(b'\n', self.head).count() as u32;
        let last = memchr::memrchr(b'\n', self.head).map_or(self.head.len(), |at| self.head.len() - at - 1) as u32;
        (line + lines, if line == 1 { column + last } else { column })
    }

    /// Position in the module's bytes of a byte of the text.
    pub fn byte_offset(&self, offset: u32) -> usize {
        let offset = offset as usize;
        self.head.len()
            + match self.encoding {
                Encoding::Utf8 => offset,
                // A character of the text is one byte there.
                Encoding::Latin1 => self.text[..offset].chars().count(),
            }
    }
}

/// A module as a container stores it.
#[derive(Clone, Debug)]
pub(super) struct ModuleEntry {
    name: String,
    code: Range<usize>,
    head: Range<usize>,
    encoding: Encoding,
    goal: Goal,
    text: OnceLock<ModuleText>,
    replaced: bool,
}

#[derive(Clone, Debug)]
enum ModuleText {
    /// The bytes in the file are the text, since they are ASCII or UTF-8.
    AsIs,
    Other(String),
}

impl ModuleEntry {
    pub fn new(name: String, code: Range<usize>, encoding: Encoding, goal: Goal) -> Self {
        let head = code.start..code.start;
        Self { name, code, head, encoding, goal, text: OnceLock::new(), replaced: false }
    }

    /// Adds the start of the module, before its code.
    pub fn behind(self, start: usize) -> Self {
        Self { head: start..self.code.start, ..self }
    }

    /// Range of its code in the file.
    pub fn code(&self) -> Range<usize> {
        self.code.clone()
    }

    /// Sets another text than the one in the file.
    pub fn replace(&mut self, text: String) {
        self.text = OnceLock::from(ModuleText::Other(text));
        self.replaced = true;
    }

    pub fn raw<'c>(&'c self, file: &'c [u8]) -> RawModule<'c> {
        let bytes = match self.text.get() {
            Some(ModuleText::Other(text)) if self.replaced => text.as_bytes(),
            _ => &file[self.code.clone()],
        };
        RawModule { name: &self.name, bytes, start: self.code.start }
    }

    pub fn read<'c>(&'c self, file: &'c [u8]) -> Result<Module<'c>, ContainerError> {
        let bytes = &file[self.code.clone()];
        let text = self.text.get_or_init(|| match self.encoding {
            Encoding::Latin1 if !bytes.is_ascii() => ModuleText::Other(from_latin1(bytes)),
            _ => ModuleText::AsIs,
        });
        let text = match text {
            ModuleText::Other(text) => text,
            ModuleText::AsIs => std::str::from_utf8(bytes)
                .map_err(|error| ContainerError::NotText { module: self.name.clone(), offset: error.valid_up_to() })?,
        };
        Ok(Module { name: &self.name, text, goal: self.goal, head: &file[self.head.clone()], encoding: self.encoding })
    }

    /// Encodes a text as in the file.
    pub fn encode(&self, text: &str) -> Result<Vec<u8>, ContainerError> {
        let latin1 = |character: char| {
            u8::try_from(u32::from(character)).map_err(|_| ContainerError::NotLatin1 { module: self.name.clone(), character })
        };
        match self.encoding {
            Encoding::Utf8 => Ok(text.as_bytes().to_vec()),
            Encoding::Latin1 => text.chars().map(latin1).collect(),
        }
    }
}

/// Decodes Latin-1. Nearly all of a client's code is ASCII, which is taken by the piece.
fn from_latin1(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for piece in bytes.chunks(LATIN1_PIECE_BYTES) {
        match std::str::from_utf8(piece) {
            Ok(ascii) if piece.is_ascii() => text.push_str(ascii),
            _ => text.extend(piece.iter().copied().map(char::from)),
        }
    }
    text
}

/*!
Files of the client as containers of JavaScript modules: reads the modules, and writes the file with some of them changed.

A `cli.js` is the simplest case, one module that is the whole file; an executable has thousands. The code that uses this module
(locate, splice, verify) does not depend on the kind of file: it reads the code of modules as text, and gives new text back.
A layout that is not understood is refused by name ([`LayoutError`]). A new file is a list of ranges that stay and new bytes
([`PiecewiseFile`]).
*/

mod bun;
mod module;
mod piecewise_file;
mod source;

use std::fmt;
use std::ops::Range;

use serde::Serialize;

use super::syntax::Goal;
use bun::Bun;
pub use bun::LayoutError;
use module::{Encoding, ModuleEntry};
pub use module::{Module, RawModule};
pub use piecewise_file::{FilePiece, PiecewiseFile};
pub use source::FileBytes;

/// The kinds of file the client comes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ContainerKind {
    /// JavaScript for Node.js.
    Script,
    /// A Bun executable for Linux.
    BunElf,
    /// A Bun executable for macOS.
    BunMacho,
    /// A Bun executable for Windows.
    BunPe,
}

impl fmt::Display for ContainerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Script => "script",
            Self::BunElf => "Linux executable",
            Self::BunMacho => "macOS executable",
            Self::BunPe => "Windows executable",
        })
    }
}

impl ContainerKind {
    /// Determines the kind by the first bytes of a file; anything that is not an executable counts as a script.
    pub fn of(head: &[u8]) -> Self {
        match head {
            [0x7F, b'E', b'L', b'F', ..] => Self::BunElf,
            [0xCF | 0xCE, 0xFA, 0xED, 0xFE, ..] | [0xFE, 0xED, 0xFA, 0xCF | 0xCE, ..] | [0xCA, 0xFE, 0xBA, 0xBE | 0xBF, ..] => {
                Self::BunMacho
            }
            [b'M', b'Z', ..] => Self::BunPe,
            _ => Self::Script,
        }
    }

    /// `true` if it is an executable.
    pub fn is_native(self) -> bool {
        self != Self::Script
    }
}

/// Errors from reading modules from a file, or writing it with other modules.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ContainerError {
    /// The file is empty.
    #[error("the file is empty; reinstall the client")]
    Empty,
    /// Binary data that is not an executable.
    #[error("not text: byte {offset} of {module} is not UTF-8; is this the client's cli.js?")]
    NotText {
        /// The module.
        module: String,
        /// Position of the first byte that is not text.
        offset: usize,
    },
    /// A character that the module's encoding lacks.
    #[error("the module {module} is Latin-1, which has no `{character}`; please report this")]
    NotLatin1 {
        /// The module.
        module: String,
        /// The character.
        character: char,
    },
    /// An executable with an unknown layout.
    #[error(
        "ctxbridge does not know the layout of this {kind}: {cause}. Nothing was changed. If it is an intact executable of the client, upgrade ctxbridge, or report this release if there is no newer version"
    )]
    Layout {
        /// Kind of the file.
        kind: ContainerKind,
        /// The part of the layout that is not understood.
        cause: LayoutError,
    },
}

/// A module with its new text.
#[derive(Debug, Clone)]
pub struct RewrittenModule {
    /// The module's index.
    pub module: usize,
    /// Its whole new text.
    pub text: String,
}

/// An open file of the client.
#[derive(Debug, Clone)]
pub struct Container {
    kind: ContainerKind,
    source: FileBytes,
    modules: Vec<ModuleEntry>,
    /// The executable around the modules, unless it is a script.
    bun: Option<Bun>,
}

impl Container {
    /// Reads the modules of a file named `name`.
    ///
    /// # Errors
    /// If it has no module that can be read.
    pub fn open(name: &str, source: impl Into<FileBytes>) -> Result<Self, ContainerError> {
        let source = source.into();
        if source.is_empty() {
            return Err(ContainerError::Empty);
        }
        let kind = ContainerKind::of(&source);
        if kind.is_native() {
            let (bun, modules) = Bun::open(kind, &source).map_err(|cause| ContainerError::Layout { kind, cause })?;
            return Ok(Self { kind, source, modules, bun: Some(bun) });
        }
        let module = ModuleEntry::new(name.to_owned(), 0..source.len(), Encoding::Utf8, Goal::Module);
        let container = Self { kind, source, modules: vec![module], bun: None };
        container.module(0).map(drop)?;
        Ok(container)
    }

    /// Kind of the file.
    pub fn kind(&self) -> ContainerKind {
        self.kind
    }

    /// The file's bytes.
    pub fn source(&self) -> &FileBytes {
        &self.source
    }

    /// Its modules as they are in the file, not decoded.
    pub fn modules(&self) -> impl ExactSizeIterator<Item = RawModule<'_>> {
        self.modules.iter().map(|module| module.raw(&self.source))
    }

    /// A module's text. A module with this index must exist.
    ///
    /// # Errors
    /// If it is not text.
    pub fn module(&self, index: usize) -> Result<Module<'_>, ContainerError> {
        self.modules[index].read(&self.source)
    }

    /// The release that the file states.
    pub fn stated_version(&self) -> Option<String> {
        let entry_point = self.bun.as_ref().map_or(Some(0), Bun::entry_point)?;
        let code = self.modules[entry_point].raw(&self.source).bytes;
        stated_version(&code[..code.len().min(INSPECTED_HEAD_BYTES)])
    }

    /// The same file as if these modules had other text: for reading, not for writing.
    #[must_use]
    pub fn with(&self, modules: &[RewrittenModule]) -> Self {
        let mut changed = self.clone();
        for RewrittenModule { module, text } in modules {
            changed.modules[*module].replace(text.clone());
        }
        changed
    }

    /// The file with these modules changed and everything else as it was. [`Self::finish`] completes it.
    ///
    /// # Errors
    /// If the file cannot hold them.
    pub fn rewrite(&self, modules: &[RewrittenModule]) -> Result<PiecewiseFile, ContainerError> {
        let Some(bun) = &self.bun else {
            let mut pieces = PiecewiseFile::default();
            match modules {
                [] => pieces.keep(0..self.source.len()),
                [.., module] => pieces.insert(module.text.as_bytes()),
            }
            return Ok(pieces);
        };
        let encoded = modules.iter().map(|RewrittenModule { module, text }| {
            let entry = &self.modules[*module];
            Ok((*module, entry.code(), entry.encode(text)?))
        });
        let encoded = encoded.collect::<Result<Vec<_>, ContainerError>>()?;
        bun.rewrite(&self.source, encoded).map_err(|cause| ContainerError::Layout { kind: self.kind, cause })
    }

    /// Compares this file with another, except for the text of these modules. Returns a description of the compared parts.
    ///
    /// # Errors
    /// A description of the difference.
    pub fn compare(&self, other: &Self, edited: &[usize]) -> Result<String, String> {
        match (&self.bun, &other.bun) {
            (Some(own), Some(others)) => own.compare(&self.source, others, &other.source, edited),
            _ => Err("they are not both executables".to_owned()),
        }
    }

    /// Ranges of the file's own checksums and signatures, which are computed last.
    pub fn checksum_ranges(&self) -> Vec<Range<usize>> {
        self.bun.as_ref().map_or_else(Vec::new, Bun::checksum_ranges)
    }

    /// Updates the checksums and signatures of a rewritten file, as the last step.
    ///
    /// # Errors
    /// If the file that was rewritten cannot be read.
    pub fn finish(&self, pieces: PiecewiseFile) -> Result<PiecewiseFile, ContainerError> {
        let finished = match &self.bun {
            Some(bun) => bun.finish(&self.source, pieces),
            None => Ok(pieces),
        };
        finished.map_err(|cause| ContainerError::Layout { kind: self.kind, cause })
    }
}

/// Number of bytes at the start of a file that are searched for its kind and version.
pub(super) const INSPECTED_HEAD_BYTES: usize = 16 << 10;

/// The version in the comment at the head of the client's code.
pub(super) fn stated_version(head: &[u8]) -> Option<String> {
    let head = String::from_utf8_lossy(head);
    let line = head.lines().take(40).find_map(|line| line.strip_prefix("// Version: "))?;
    Some(line.trim().to_owned())
}

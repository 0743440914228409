/*!
What a target holds: modules of JavaScript, and how to write it anew with some of them changed.

A `cli.js` is the simplest case, one module that is the whole file; an executable has thousands. Nothing behind this seam (locate,
splice, verify) knows what kind of file it deals with: it sees the code of modules as text, and gives new text back.
*/

mod bun;
mod module;
mod pieces;
mod source;

use std::fmt;
use std::ops::Range;

use serde::Serialize;

use super::syntax::Goal;
use bun::Bun;
pub use bun::LayoutError;
use module::{Encoding, ModuleEntry};
pub use module::{Module, RawModule};
pub use pieces::{Piece, Pieces};
pub use source::Source;

/// The kinds of file the client comes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// JavaScript for Node.js.
    Script,
    /// A Bun executable for Linux.
    BunElf,
    /// A Bun executable for macOS.
    BunMacho,
    /// A Bun executable for Windows.
    BunPe,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Script => "script",
            Self::BunElf => "Linux executable",
            Self::BunMacho => "macOS executable",
            Self::BunPe => "Windows executable",
        })
    }
}

impl Kind {
    /// By the first bytes of a file; anything that is no executable is taken for a script.
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

    /// Whether it is an executable.
    pub fn is_native(self) -> bool {
        self != Self::Script
    }
}

/// A file that no module can be read from, or that cannot be written with other modules.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ContainerError {
    /// Nothing in it.
    #[error("the file is empty; reinstall the client")]
    Empty,
    /// Binary data that is no executable.
    #[error("not text: byte {offset} of {module} is not UTF-8; is this the client's cli.js?")]
    NotText {
        /// The module.
        module: String,
        /// Where the text stops being text.
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
    /// An executable that is laid out in an unknown way.
    #[error(
        "this {kind} is laid out in a way that ctxbridge does not know: {cause}. Nothing was changed. If it is the client's executable, and whole, upgrade ctxbridge, or report this release if there is nothing newer"
    )]
    Layout {
        /// What kind of file it is.
        kind: Kind,
        /// What is not understood.
        cause: LayoutError,
    },
}

/// A module with its new text.
#[derive(Debug, Clone)]
pub struct Rewritten {
    /// The module's index.
    pub module: usize,
    /// Its whole new text.
    pub text: String,
}

/// A file of the client, open.
#[derive(Debug, Clone)]
pub struct Container {
    kind: Kind,
    source: Source,
    modules: Vec<ModuleEntry>,
    /// The executable around the modules, unless it is a script.
    bun: Option<Bun>,
}

impl Container {
    /// Reads what is in a file named `name`.
    ///
    /// # Errors
    /// When it holds no module that can be read.
    pub fn open(name: &str, source: impl Into<Source>) -> Result<Self, ContainerError> {
        let source = source.into();
        if source.is_empty() {
            return Err(ContainerError::Empty);
        }
        let kind = Kind::of(&source);
        if kind.is_native() {
            let (bun, modules) = Bun::open(kind, &source).map_err(|cause| ContainerError::Layout { kind, cause })?;
            return Ok(Self { kind, source, modules, bun: Some(bun) });
        }
        let module = ModuleEntry::new(name.to_owned(), 0..source.len(), Encoding::Utf8, Goal::Module);
        let container = Self { kind, source, modules: vec![module], bun: None };
        container.module(0).map(drop)?;
        Ok(container)
    }

    /// What kind of file it is.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The file's bytes.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// Its modules as they are in the file, without a look at what they say.
    pub fn modules(&self) -> impl ExactSizeIterator<Item = RawModule<'_>> {
        self.modules.iter().map(|module| module.raw(&self.source))
    }

    /// A module's text. There must be one with this index.
    ///
    /// # Errors
    /// When it is no text.
    pub fn module(&self, index: usize) -> Result<Module<'_>, ContainerError> {
        self.modules[index].read(&self.source)
    }

    /// The release that the file says it is.
    pub fn stated_version(&self) -> Option<String> {
        let entry_point = self.bun.as_ref().map_or(Some(0), Bun::entry_point)?;
        let code = self.modules[entry_point].raw(&self.source).bytes;
        stated_version(&code[..code.len().min(HEAD)])
    }

    /// The same file as if these modules had other text: for looking at, not for writing.
    #[must_use]
    pub fn with(&self, modules: &[Rewritten]) -> Self {
        let mut changed = self.clone();
        for Rewritten { module, text } in modules {
            changed.modules[*module].replace(text.clone());
        }
        changed
    }

    /// The file with these modules changed and everything else as it was. [`Self::finish`] completes it.
    ///
    /// # Errors
    /// When the file cannot hold them.
    pub fn rewrite(&self, modules: &[Rewritten]) -> Result<Pieces, ContainerError> {
        let Some(bun) = &self.bun else {
            let mut pieces = Pieces::default();
            match modules {
                [] => pieces.keep(0..self.source.len()),
                [.., module] => pieces.insert(module.text.as_bytes()),
            }
            return Ok(pieces);
        };
        let encoded = modules.iter().map(|Rewritten { module, text }| {
            let entry = &self.modules[*module];
            Ok((*module, entry.code(), entry.encode(text)?))
        });
        let encoded = encoded.collect::<Result<Vec<_>, ContainerError>>()?;
        bun.rewrite(&self.source, encoded).map_err(|cause| ContainerError::Layout { kind: self.kind, cause })
    }

    /// Whether this file and another are the same but for the text of these modules; says what was compared, or what differs.
    ///
    /// # Errors
    /// What differs.
    pub fn compare(&self, other: &Self, edited: &[usize]) -> Result<String, String> {
        match (&self.bun, &other.bun) {
            (Some(own), Some(others)) => own.compare(&self.source, others, &other.source, edited),
            _ => Err("they are not both executables".to_owned()),
        }
    }

    /// Where the file's own checksums and signatures are, which are made when all the rest is.
    pub fn made_last(&self) -> Vec<Range<usize>> {
        self.bun.as_ref().map_or_else(Vec::new, Bun::made_last)
    }

    /// Makes the checksums and signatures of a rewritten file right, as the last step.
    ///
    /// # Errors
    /// When what was rewritten cannot be read.
    pub fn finish(&self, pieces: Pieces) -> Result<Pieces, ContainerError> {
        let finished = match &self.bun {
            Some(bun) => bun.finish(&self.source, pieces),
            None => Ok(pieces),
        };
        finished.map_err(|cause| ContainerError::Layout { kind: self.kind, cause })
    }
}

/// How much of a file is looked at for what it says of itself.
pub(super) const HEAD: usize = 16 << 10;

/// The version in the comment at the head of the client's code.
pub(super) fn stated_version(head: &[u8]) -> Option<String> {
    let head = String::from_utf8_lossy(head);
    let line = head.lines().take(40).find_map(|line| line.strip_prefix("// Version: "))?;
    Some(line.trim().to_owned())
}

/*!
What a target holds: modules of JavaScript, and how to write it anew with some of them changed.

A `cli.js` is the simplest case, one module that is the whole file. Nothing behind this seam (locate, splice, verify) knows what
kind of file it deals with.
*/

mod script;

use std::fmt;

use serde::Serialize;

use super::syntax::Goal;
pub use script::Script;

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
            [0xCF | 0xCE, 0xFA, 0xED, 0xFE, ..] | [0xFE, 0xED, 0xFA, 0xCF | 0xCE, ..] | [0xCA, 0xFE, 0xBA, 0xBE, ..] => {
                Self::BunMacho
            }
            [b'M', b'Z', ..] => Self::BunPe,
            _ => Self::Script,
        }
    }
}

/// A file that no module can be read from.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ContainerError {
    /// Nothing in it.
    #[error("the file is empty; reinstall the client")]
    Empty,
    /// Binary data that is no executable.
    #[error("not text: byte {offset} is not UTF-8; is this the client's cli.js?")]
    NotText {
        /// Where the text stops being text.
        offset: usize,
    },
    /// A kind of file that this version cannot patch.
    #[error("a {0} of the client cannot be patched by this version of ctxbridge, only its cli.js (releases up to 2.1.112)")]
    Unsupported(Kind),
}

/// One module.
#[derive(Debug, Clone, Copy)]
pub struct Module<'c> {
    /// Its name in the file; of a script, the file's own.
    pub name: &'c str,
    /// Its text.
    pub text: &'c str,
    /// How it is to be parsed.
    pub goal: Goal,
}

/// A module with its new text.
#[derive(Debug, Clone)]
pub struct Rewritten {
    /// The module's name.
    pub name: String,
    /// Its whole new text.
    pub text: String,
}

/// A file of the client, open.
#[derive(Debug)]
pub enum Container {
    /// A `cli.js`.
    Script(Script),
}

impl Container {
    /// Reads what is in the bytes of a file named `name`.
    ///
    /// # Errors
    /// When it holds no module that can be read.
    pub fn open(name: &str, bytes: Vec<u8>) -> Result<Self, ContainerError> {
        if bytes.is_empty() {
            return Err(ContainerError::Empty);
        }
        match Kind::of(&bytes) {
            Kind::Script => Script::open(name, bytes).map(Self::Script),
            other => Err(ContainerError::Unsupported(other)),
        }
    }

    /// What kind of file it is.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Script(_) => Kind::Script,
        }
    }

    /// Its modules.
    pub fn modules(&self) -> Vec<Module<'_>> {
        match self {
            Self::Script(script) => vec![script.module()],
        }
    }

    /// The file's bytes with these modules changed and everything else as it was.
    pub fn rewrite(&self, modules: Vec<Rewritten>) -> Vec<u8> {
        match self {
            Self::Script(script) => script.rewrite(modules),
        }
    }
}

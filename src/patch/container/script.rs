//! A `cli.js`: one ES module, the whole file.

use super::{ContainerError, Module, Rewritten};
use crate::patch::syntax::Goal;

/// A script and its text.
#[derive(Debug)]
pub struct Script {
    name: String,
    text: String,
}

impl Script {
    pub(super) fn open(name: &str, bytes: Vec<u8>) -> Result<Self, ContainerError> {
        let text = String::from_utf8(bytes);
        let text = text.map_err(|error| ContainerError::NotText { offset: error.utf8_error().valid_up_to() })?;
        Ok(Self { name: name.to_owned(), text })
    }

    pub(super) fn module(&self) -> Module<'_> {
        Module { name: &self.name, text: &self.text, goal: Goal::Module }
    }

    pub(super) fn rewrite(&self, mut modules: Vec<Rewritten>) -> Vec<u8> {
        modules.pop().map_or_else(|| self.text.clone(), |module| module.text).into_bytes()
    }
}

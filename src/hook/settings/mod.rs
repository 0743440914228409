/*!
The hooks in the client's settings: wiring them, taking them out again, saying what is wired, and trying them.

From the inside out: [`wiring`] says which events are wired, `command` how ours are called and recognised, `document` where they
are in the text, `layout` how new text looks, [`edit`] changes the text, `proof` looks at the result before it is written. Around
that, `file` and `registry` read and replace files so that all can be undone, [`editor`] is install and uninstall, [`scope`] knows
the files, [`clients`] who reads them, [`status`] what is in effect, and [`verify`] runs the hooks. [`plugin`] is the other way to
wire them, and [`project`] the folder that they fill.

Edits are splices into the text. The editing functions of parsers of JSON also tidy up around what they touch: they drop blank lines
and break one-line objects. Here every byte that is not ours has to stay as it is.
*/

pub mod clients;
mod command;
mod document;
pub mod edit;
pub mod editor;
mod error;
mod file;
mod layout;
pub mod pipeline;
pub mod plugin;
pub mod project;
mod proof;
mod registry;
mod sample;
pub mod scope;
pub mod status;
mod subprocess;
pub mod verify;
pub mod wiring;

pub use document::DocumentError;
pub use error::SettingsError;

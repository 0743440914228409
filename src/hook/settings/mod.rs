/*!
Hooks in the client's settings: install, uninstall, status and test.

From the inside out:
- [`wiring`] lists the events to install, `command` formats and recognizes our commands.
- `document` finds them in the text, `layout` detects its style, [`edit`] changes it, and `edit_check` checks the result.
- `file` and `registry` read and replace files so that all edits can be undone. [`editor`] installs and uninstalls.
- [`scope`] has the paths of the files, [`clients`] the clients that read them, [`status`] the hooks in effect.
- [`statusline`] adds the status line, and takes it out.
- [`verify`] tests the hooks. [`plugin`] is the other way to install them.

Edits are splices into the text. The editing functions of JSON parsers also reformat text nearby: they drop blank lines and break
one-line objects. Here every byte that is not ours must stay unchanged.
*/

pub mod clients;
mod command;
mod document;
pub mod edit;
mod edit_check;
pub mod editor;
mod error;
mod file;
mod layout;
pub mod own_program;
pub mod pipeline;
pub mod plugin;
mod registry;
mod sample;
pub mod scope;
pub mod status;
pub mod statusline;
pub(crate) mod subprocess;
pub mod tried_settings;
pub mod verify;
pub mod wiring;

pub use document::DocumentError;
pub use error::HookSettingsError;

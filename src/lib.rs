/*!
ctxbridge keeps Claude Code's context window lean without losing anything.

This package is the command and what the client runs; the rest are crates below `src`, which cargo holds apart:

- [`patch`] finds the compaction sites of an installed client by the shape of its syntax tree, patches it, checks that it runs,
  and puts the original back, to the byte. [`syntax`] is the tree.
- [`prune`] is what the first patch injects: the policy by which old text leaves a request, in Rust and in JavaScript.
- [`transcript`] reads the client's JSON lines: records, turns, usage. [`archive`] keeps every byte of them, knows their turns,
  learns from them and brings the best ones back. [`vectors`] tell what a text means. [`claude_flow`] imports another tool's archive.
- `team` sends what is archived to a PostgreSQL server and searches there as well; it is a feature of the build.
- [`client`] runs a real client, cut off from the network; [`stub`] stands in for the Messages API.
- [`redact`] takes secrets out of text that is written or sent anywhere besides the archive.
- [`config`] is what the user can set; [`common`] is what everybody stands on.

Of this package itself: [`cli`] turns arguments into calls. [`hook`] is what the client runs at its events, and how that is wired into its
settings; [`client_mod`] is what it runs to compact. [`bundle`] keeps a log of the work in the project. [`autopilot`] watches the window. [`export`] writes a conversation as a page, as
Markdown or as JSON, and compares two. [`mcp`] lets a model ask the archive, and [`dashboard`] a person, with a browser. [`doctor`] looks
whether all of that is as it should be, and [`demo`] shows it.
*/

pub use ctxbridge_archive as archive;
pub use ctxbridge_claude_flow as claude_flow;
pub use ctxbridge_client as client;
pub use ctxbridge_common as common;
pub use ctxbridge_config as config;
pub use ctxbridge_patch as patch;
pub use ctxbridge_prune as prune;
pub use ctxbridge_redact as redact;
pub use ctxbridge_stub as stub;
pub use ctxbridge_syntax as syntax;
#[cfg(feature = "team")]
pub use ctxbridge_team as team;
pub use ctxbridge_transcript as transcript;
pub use ctxbridge_vectors as vectors;

pub mod autopilot;
pub mod bundle;
pub mod cli;
pub mod client_mod;
pub mod dashboard;
pub mod demo;
pub mod doctor;
pub mod export;
pub mod hook;
pub mod mcp;

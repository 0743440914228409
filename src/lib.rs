/*!
ctxbridge keeps Claude Code's context window lean without losing anything.

The map of the house:

- [`patch`] finds the compaction sites of an installed client by the shape of its syntax tree, patches it, checks that it runs,
  and puts the original back, to the byte.
- [`prune`] is what the first patch injects: the policy by which old text leaves a request, in Rust and in JavaScript.
- [`transcript`] reads the client's JSON lines: records, turns, usage. [`archive`] keeps every byte of them, knows their turns, and
  brings the best ones back.
- [`learn`] draws what was decided and found out from conversations; [`export`] writes one as a page, as Markdown or as JSON, and compares two.
- [`mcp`] lets a model ask the archive, and [`dashboard`] a person, with a browser.
- [`hook`] is what the client runs at its events, and how that is wired into its settings. [`autopilot`] watches the window.
- [`client`] runs a real client, cut off from the network; [`stub`] stands in for the Messages API; [`demo`] lets them talk.
- [`redact`] takes secrets out of text that is written or sent anywhere besides the archive.
- [`releases`] knows published releases and fetches them; [`config`] is what the user can set; [`paths`], [`files`], [`sqlite`],
  [`digest`], [`exact`] and [`parallel`] are what everybody stands on.
- [`doctor`] looks whether all of that is as it should be.
- [`cli`] turns arguments into calls.

Arrows point one way: cli → dashboard → doctor → hook, mcp, demo, export → archive, autopilot, patch, stub → transcript, client, releases → config → prune, redact, paths,
sqlite, digest.
*/

pub mod archive;
pub mod autopilot;
pub mod bundle;
pub mod cli;
pub mod client;
pub mod config;
pub mod dashboard;
pub mod demo;
pub mod digest;
pub mod doctor;
pub mod exact;
pub mod export;
pub mod files;
pub mod hook;
pub mod learn;
pub mod mcp;
pub mod parallel;
pub mod patch;
pub mod paths;
pub mod prune;
pub mod redact;
pub mod releases;
pub mod sqlite;
pub mod stub;
pub mod transcript;

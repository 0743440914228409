//! Errors from running a client.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

/// Errors from running a client. An API error is not one of them: see
/// [`PromptResult::is_error`](super::PromptResult::is_error).
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// There is no file at the path given for `cli.js`.
    #[error(
        "no client script at {}; unpack one with `npm pack @anthropic-ai/claude-code@2.1.112`",
        .0.display()
    )]
    NoScript(PathBuf),
    /// The scratch home could not be made.
    #[error("cannot make a scratch home in the temporary folder: {0}; check its space and rights")]
    Scratch(#[source] io::Error),
    /// The program did not start.
    #[error("cannot start {program}: {source}; install it or put it on PATH")]
    Start {
        /// The program.
        program: String,
        /// The error from the system.
        source: io::Error,
    },
    /// Watching the running program failed.
    #[error("lost track of {program}: {source}")]
    Watch {
        /// The program.
        program: String,
        /// The error from the system.
        source: io::Error,
    },
    /// A time limit passed; the client was killed.
    #[error(
        "{program} did not {step} within {limit:?} and was stopped; raise the limit if \
         the machine is slow; it last said: {diagnostics}"
    )]
    Timeout {
        /// The program.
        program: String,
        /// The step that was waited for.
        step: String,
        /// The limit that passed.
        limit: Duration,
        /// The end of its output.
        diagnostics: String,
    },
    /// The client ended before it had finished the step.
    #[error("{program} ended ({status}) and did not {step}; it last said: {diagnostics}")]
    Ended {
        /// The program.
        program: String,
        /// The step that was waited for.
        step: String,
        /// Exit status of the client.
        status: ExitStatus,
        /// The end of its output.
        diagnostics: String,
    },
}

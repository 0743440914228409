//! The `ctxbridge` command: everything is in the library, see [`ctxbridge::cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    ctxbridge::cli::main()
}

//! The `ctxbridge` command: everything is in the library, see [`ctxbridge::cli`].

use std::process::ExitCode;

/// Parsing makes and drops some million small nodes; the system's allocator takes a quarter of the time for that.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    ctxbridge::cli::main()
}

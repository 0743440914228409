//! Bare work on a file, in a process of its own: what the commands are measured against.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};

use anyhow::Result;
use ctxbridge::common::digest;
use serde_json::Value;
use swc_common::BytePos;
use swc_ecma_parser::{EsSyntax, Parser, StringInput, Syntax, lexer::Lexer};

/// A file to read, or a folder.
#[derive(Debug, clap::Args)]
pub struct ReferenceFile {
    file: PathBuf,
}

/// Parses the file with swc, and does nothing else.
pub fn parse(reference: &ReferenceFile) -> Result<bool> {
    let text = fs::read_to_string(&reference.file)?;
    let input = StringInput::new(&text, BytePos(1), BytePos(1 + text.len() as u32));
    let lexer = Lexer::new(Syntax::Es(EsSyntax::default()), swc_ecma_ast::EsVersion::EsNext, input, None);
    let module = Parser::new_from(lexer).parse_module().map_err(|error| anyhow::anyhow!("{error:?}"))?;
    println!("{} items", module.body.len());
    // A process that only parses would end here; freeing a tree of 300 MB is not part of parsing it.
    std::mem::forget(module);
    Ok(true)
}

/// Reads and hashes the file, and does nothing else.
pub fn hash(reference: &ReferenceFile) -> Result<bool> {
    println!("{}", digest::of_file(&reference.file)?);
    Ok(true)
}

/// Copies the file and hashes the copy once, and does nothing else.
pub fn copy(reference: &ReferenceFile) -> Result<bool> {
    let copy = reference.file.with_extension("copy");
    fs::copy(&reference.file, &copy)?;
    println!("{}", digest::of_file(&copy)?);
    fs::remove_file(&copy)?;
    Ok(true)
}

/// Reads transcripts and parses each line, on one thread, and does nothing else.
pub fn json(reference: &ReferenceFile) -> Result<bool> {
    let mut lines = 0;
    parse_lines(&reference.file, &mut lines)?;
    println!("{lines} lines");
    Ok(true)
}

fn parse_lines(path: &Path, lines: &mut u64) -> Result<()> {
    if path.is_dir() {
        for entry in fs::read_dir(path)? {
            parse_lines(&entry?.path(), lines)?;
        }
    } else if path.extension().is_some_and(|extension| extension == "jsonl") {
        let mut file = BufReader::with_capacity(1 << 16, File::open(path)?);
        let mut line = Vec::new();
        while file.read_until(b'\n', &mut line)? > 0 {
            std::hint::black_box(serde_json::from_slice::<Value>(&line)?);
            line.clear();
            *lines += 1;
        }
    }
    Ok(())
}

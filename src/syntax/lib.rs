/*!
JavaScript as the patcher sees it.

A release of the client is one file of 13 MB whose syntax tree would take 330 MB. Nothing here needs the whole tree at once, so
[`for_each_item`] hands out one top-level statement at a time and drops it before it parses the next: the same parser, the same
errors, about a tenth of the memory, and no slower (the allocator reuses warm memory instead of faulting in new pages).

Items that are examined more closely are lowered to a [`tree::Node`], the canonical form in which two ways of writing the same
thing are equal.
*/

mod lower;
mod parallel;
pub mod tree;

use swc_common::{BytePos, Spanned};
use swc_ecma_ast::{EsVersion, ModuleItem};
use swc_ecma_parser::{Context, EsSyntax, Parser, StringInput, Syntax, input::Tokens, lexer::Lexer};

pub use lower::lower_items;
pub use parallel::fold_items;
pub use tree::{Node, NodeKind, Span};

/// The [goal symbol](https://tc39.es/ecma262/#sec-context-free-grammars) by which the text of a module is parsed, in ECMAScript's
/// term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// An ES module: strict, with `import`, `export` and top-level `await`.
    Module,
    /// The body of a function, as in a CommonJS wrapper: sloppy, no `import`.
    FunctionBody,
}

/// Text that is not JavaScript.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {message}")]
pub struct SyntaxError {
    /// The parser's message: what it expected or could not read.
    pub message: String,
    /// Byte offset in the text.
    pub offset: u32,
    /// 1-based line.
    pub line: u32,
    /// 1-based column, in characters.
    pub column: u32,
}

/// One top-level statement or declaration, alive until the next one is parsed.
pub struct Item<'a> {
    /// The whole text of the module.
    pub text: &'a str,
    /// The bytes of this item in the text.
    pub span: Span,
    /// The parsed item; its spans count from 1 (0 is swc's "no position").
    pub ast: ModuleItem,
}

impl Item<'_> {
    /// The item's own source text.
    pub fn source(&self) -> &str {
        &self.text[self.span.range()]
    }

    /// The canonical form: a body that holds this one item.
    pub fn lower(&self) -> Node {
        lower_items(self.text, std::slice::from_ref(&self.ast))
    }

    /// The name, if the item declares a function (exported or not).
    pub fn function_name(&self) -> Option<&str> {
        use swc_ecma_ast::{Decl, DefaultDecl, ModuleDecl, Stmt};
        match &self.ast {
            ModuleItem::Stmt(Stmt::Decl(Decl::Fn(f))) => Some(&f.ident.sym),
            ModuleItem::ModuleDecl(ModuleDecl::ExportDecl(e)) => match &e.decl {
                Decl::Fn(f) => Some(&f.ident.sym),
                _ => None,
            },
            ModuleItem::ModuleDecl(ModuleDecl::ExportDefaultDecl(e)) => match &e.decl {
                DefaultDecl::Fn(f) => f.ident.as_ref().map(|i| &*i.sym),
                _ => None,
            },
            _ => None,
        }
    }
}

/// Parses `text` and calls `visit` with each top-level item in order. Returns the number of items.
///
/// # Errors
/// The first [`SyntaxError`]; items before it have been visited by then.
pub fn for_each_item<'a>(text: &'a str, goal: Goal, mut visit: impl FnMut(Item<'a>)) -> Result<usize, SyntaxError> {
    for_each_item_in(text, Span::new(0, text.len() as u32), goal, &mut visit)
}

/// Like [`for_each_item`], for a part of `text`, which must start and end at item boundaries. Spans still count from the start of
/// `text`.
///
/// Not generic, so that swc's parser is compiled here, once and optimized, and not in every crate that parses.
///
/// # Errors
/// As [`for_each_item`].
pub fn for_each_item_in<'a>(
    text: &'a str,
    part: Span,
    goal: Goal,
    visit: &mut dyn FnMut(Item<'a>),
) -> Result<usize, SyntaxError> {
    refuse_deep_nesting(text, part)?;
    let end = BytePos(part.hi + 1);
    let input = StringInput::new(&text[part.range()], BytePos(part.lo + 1), end);
    // `using` declarations: the client has them since its modules are split.
    let syntax = EsSyntax { explicit_resource_management: true, import_attributes: true, ..EsSyntax::default() };
    let mut lexer = Lexer::new(Syntax::Es(syntax), EsVersion::EsNext, input, None);
    if goal == Goal::Module {
        lexer.set_ctx(Context::Module | Context::Strict);
    }
    let mut parser = Parser::new_from(lexer);
    if goal == Goal::Module {
        parser.allow_module_syntax();
    }
    let fail = |error: swc_ecma_parser::error::Error| SyntaxError::at(text, error.span().lo, &error.kind().msg());
    parser.parse_shebang().map_err(fail)?;
    let mut count = 0;
    // The lexer stands on end-of-file when its current token starts at the end of the input; where there are only comments, swc
    // puts an empty token at the start.
    while parser.input().cur_pos() < end && parser.input().cur_span().lo != parser.input().cur_span().hi {
        let ast = parser.parse_module_item().map_err(fail)?;
        if let Some(error) = parser.take_errors().into_iter().next() {
            return Err(fail(error));
        }
        let span = Span::of(ast.span());
        visit(Item { text, span, ast });
        count += 1;
    }
    match parser.take_errors().into_iter().next() {
        Some(error) => Err(fail(error)),
        None => Ok(count),
    }
}

/// Maximum number of brackets open at once. The client has some dozens; parsing and dropping this many fits [`with_deep_stack`].
const MAX_OPEN_BRACKETS: usize = 100_000;

/// Refuses text whose tree would be too deep to walk: a stack overflow would end the process, and nothing can catch it. Brackets in
/// strings count, too; the client's strings have too few to matter.
fn refuse_deep_nesting(text: &str, part: Span) -> Result<(), SyntaxError> {
    let mut open = 0_usize;
    for (at, byte) in text.as_bytes()[part.range()].iter().enumerate() {
        match byte {
            b'(' | b'[' | b'{' => open += 1,
            b')' | b']' | b'}' => open = open.saturating_sub(1),
            _ => continue,
        }
        if open > MAX_OPEN_BRACKETS {
            let pos = BytePos(part.lo + at as u32 + 1);
            return Err(SyntaxError::at(
                text,
                pos,
                &format!("more than {MAX_OPEN_BRACKETS} brackets are open; this is no client"),
            ));
        }
    }
    Ok(())
}

impl SyntaxError {
    fn at(text: &str, pos: BytePos, message: &str) -> Self {
        let offset = pos.0.saturating_sub(1).min(text.len() as u32);
        let (line, column) = line_and_column(text, offset);
        Self { message: message.to_owned(), offset, line, column }
    }
}

/// 1-based line and column (in characters) of a byte offset.
pub fn line_and_column(text: &str, offset: u32) -> (u32, u32) {
    let before = &text.as_bytes()[..(offset as usize).min(text.len())];
    let line = memchr::memchr_iter(b'\n', before).count() as u32 + 1;
    let start = memchr::memrchr(b'\n', before).map_or(0, |at| at + 1);
    let column = before[start..].iter().filter(|byte| (**byte & 0xC0) != 0x80).count() as u32 + 1;
    (line, column)
}

/// Runs `work` where deep nesting cannot overflow the stack.
///
/// swc grows its stack while it parses. Dropping the tree and lowering it are plain recursion, so a hostile file of a million
/// parentheses would end the process. The stack is reserved, not used, so its size costs nothing.
pub fn with_deep_stack<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let mut work = Some(work);
    let mut result = None;
    for stack in STACK_SIZES {
        let (work, result) = (&mut work, &mut result);
        let ran = std::thread::scope(|scope| {
            let run = || *result = work.take().map(|work| work());
            let thread = std::thread::Builder::new().stack_size(stack).spawn_scoped(scope, run);
            thread.map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))).is_ok()
        });
        if ran {
            break;
        }
    }
    match (result, work) {
        (Some(value), _) => value,
        // Not even a small thread can be had: what is not hostile fits the stack that is there.
        (None, Some(work)) => work(),
        (None, None) => unreachable!("work that was taken has run, or its panic has gone on"),
    }
}

/// Stack sizes to try, in order: some systems limit the address space that may be reserved.
const STACK_SIZES: [usize; 3] =
    if cfg!(target_pointer_width = "64") { [1 << 30, 256 << 20, 32 << 20] } else { [64 << 20, 32 << 20, 8 << 20] };

fn deep_thread() -> std::thread::Builder {
    std::thread::Builder::new().stack_size(STACK_SIZES[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(text: &str, goal: Goal) -> Result<Vec<String>, SyntaxError> {
        let mut found = Vec::new();
        for_each_item(text, goal, |item| found.push(item.source().to_owned()))?;
        Ok(found)
    }

    #[test]
    fn hands_out_items_with_their_bytes() {
        let text =
            "#!/usr/bin/env node\n// é\nimport{a}from'b';var x=1,y;async function*f(){await 1}\nawait x;export{y};\n// end\n";
        let expected =
            ["import{a}from'b';", "var x=1,y;", "async function*f(){await 1}", "await x;", "export{y};"].map(String::from);
        assert_eq!(items(text, Goal::Module), Ok(expected.to_vec()));
    }

    #[test]
    fn says_where_the_text_stops_being_javascript() {
        let error = items("var a=1;\nvar é=2,+;", Goal::Module).expect_err("not JavaScript");
        assert_eq!((error.line, error.column), (2, 9));
        assert!(items("function f(){ if(1){", Goal::Module).is_err());
        assert!(items("PK\u{3}\u{4}\u{0}", Goal::Module).is_err());
    }

    #[test]
    fn what_newer_releases_are_written_in_can_be_read() {
        for text in ["function f(){using a=b();}", "async function f(){await using a=b();}", "import a from'b'with{type:'file'};"]
        {
            assert!(items(text, Goal::Module).is_ok(), "{text}");
        }
    }

    #[test]
    fn text_without_code_has_no_items() {
        for text in ["", " \n", "// a", "/* a */ // b\n"] {
            assert_eq!(items(text, Goal::Module), Ok(Vec::new()), "{text:?}");
        }
    }

    #[test]
    fn goal_decides_what_is_allowed() {
        assert!(items("import a from 'b'", Goal::Module).is_ok());
        assert!(items("with(a)b", Goal::FunctionBody).is_ok());
        assert!(items("with(a)b", Goal::Module).is_err());
    }

    #[test]
    fn deep_nesting_is_no_crash() {
        for (open, close) in [("(", ")"), ("[", "]"), ("{", "}"), ("(()=>", ")"), ("function f(){", "}"), ("`${", "}`")] {
            let nested = |depth: usize| format!("{}1{}", open.repeat(depth), close.repeat(depth));
            let read = |text: &str| with_deep_stack(|| for_each_item(text, Goal::Module, |item| drop(item.lower())));
            assert_eq!(read(&nested(MAX_OPEN_BRACKETS / 4)), Ok(1), "{open}");
            let error = read(&nested(MAX_OPEN_BRACKETS * 10)).expect_err("too deep");
            assert!(error.message.contains("brackets are open"), "{open}: {error}");
        }
    }
}

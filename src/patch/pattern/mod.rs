/*!
Patterns: JavaScript with metavariables.

A pattern is a piece of JavaScript, parsed like its target and lowered to the same canonical tree, in which

- `$NAME` matches one expression, identifier, property name or parameter and binds it; the same name again has to match the same
  thing; `$_` matches without binding;
- `$$$NAME` (the name may be left out) matches any run of arguments, parameters, properties, elements or statements.

A pattern that is one expression is looked for at every place an expression can stand. Any other pattern is a run of statements
and is looked for in every body; it matches units that follow each other, see [`tree`](super::syntax::tree). `var` in a pattern
stands for any kind of declaration, `let` and `const` only for themselves. To match an object literal write `({ … })`, since `{`
begins a block.
*/

mod matcher;

use std::collections::BTreeSet;

pub(crate) use matcher::same;
pub use matcher::{Bindings, Match, Nearest, Search};

use super::syntax::{Goal, Kind, Node, Span, SyntaxError, for_each_item};

/// A compiled pattern.
#[derive(Clone, Debug)]
pub struct Pattern {
    source: String,
    shape: Shape,
}

#[derive(Clone, Debug)]
enum Shape {
    /// One expression, looked for everywhere.
    Expr(Node),
    /// Units in a row, looked for in every body.
    Units(Vec<Node>),
}

/// A pattern that cannot be compiled.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum PatternError {
    /// It is not JavaScript.
    #[error("pattern `{pattern}` is not JavaScript: {cause}")]
    Syntax {
        /// The pattern's source.
        pattern: String,
        /// Where and why.
        cause: SyntaxError,
    },
    /// There is nothing in it.
    #[error("pattern `{0}` matches nothing: it has no statement or expression")]
    Empty(String),
    /// The metavariable does not occur.
    #[error("pattern `{pattern}` has no metavariable ${name}")]
    NoMetavariable {
        /// The pattern's source.
        pattern: String,
        /// The name that was asked for.
        name: String,
    },
}

/// Patterns may contain `await`, `yield` and `return`, so they are parsed as the body of the one kind of function that has all.
const PROLOGUE: &str = "async function*pattern(){";

impl Pattern {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// When it is not JavaScript or empty.
    pub fn parse(source: &str) -> Result<Self, PatternError> {
        let text = format!("{PROLOGUE}{source}\n}}");
        let mut bodies = Vec::new();
        // Where it is wrong, counted in what was written.
        let fail = |SyntaxError { message, offset, line, column }: SyntaxError| {
            let offset = (offset as usize).saturating_sub(PROLOGUE.len()).min(source.len()) as u32;
            let column = if line == 1 { column.saturating_sub(PROLOGUE.len() as u32).max(1) } else { column };
            PatternError::Syntax { pattern: source.to_owned(), cause: SyntaxError { message, offset, line, column } }
        };
        for_each_item(&text, Goal::Module, |item| bodies.push(item.lower())).map_err(fail)?;
        // More than one item: the source closed the function and went on behind it.
        let [body] = bodies.as_mut_slice() else {
            let message = "unbalanced `}`".to_owned();
            return Err(fail(SyntaxError { message, offset: 0, line: 1, column: 1 }));
        };
        let mut units = body.kids.swap_remove(0).kids.swap_remove(2).kids;
        for unit in &mut units {
            mark(unit);
        }
        let shape = match units.len() {
            0 => return Err(PatternError::Empty(source.to_owned())),
            1 if is_expression(units[0].kind) => Shape::Expr(units.swap_remove(0)),
            _ => Shape::Units(units),
        };
        Ok(Self { source: source.to_owned(), shape })
    }

    /// The pattern as it was written.
    pub fn source(&self) -> &str {
        &self.source
    }

    fn roots(&self) -> &[Node] {
        match &self.shape {
            Shape::Expr(node) => std::slice::from_ref(node),
            Shape::Units(units) => units,
        }
    }

    /// Words that any matching text contains literally: strings and property names, long enough to be rare.
    pub fn anchors(&self) -> BTreeSet<&str> {
        const SHORTEST: usize = 4;
        let mut found = BTreeSet::new();
        for root in self.roots() {
            root.walk(&mut |node| {
                let plain =
                    |text: &str| text.len() >= SHORTEST && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b));
                if matches!(node.kind, Kind::Str | Kind::Name) && plain(&node.text) {
                    found.insert(&*node.text);
                }
            });
        }
        found
    }

    /// The metavariable that names the declared function, if the pattern is a function declaration.
    pub fn declared_function(&self) -> Option<&str> {
        match self.roots() {
            [only] if only.kind == Kind::FunctionDecl && only.kids[0].kind == Kind::Metavariable => Some(&only.kids[0].text),
            _ => None,
        }
    }

    /// The same pattern with `text` in place of the first occurrence of a metavariable: what the target looks like after an
    /// edit there.
    ///
    /// # Errors
    /// When the metavariable does not occur, or `text` does not fit.
    pub fn replacing(&self, name: &str, text: &str) -> Result<Self, PatternError> {
        let mut first: Option<Span> = None;
        for root in self.roots() {
            root.walk(&mut |node| {
                if node.kind == Kind::Metavariable && node.text == name && first.is_none() {
                    first = Some(node.span);
                }
            });
        }
        let missing = || PatternError::NoMetavariable { pattern: self.source.clone(), name: name.to_owned() };
        let mut range = first.ok_or_else(missing)?.range();
        range.start -= PROLOGUE.len();
        range.end -= PROLOGUE.len();
        let mut source = self.source.clone();
        source.replace_range(range, text);
        Self::parse(&source)
    }

    /// The part of the pattern's source that a node of it came from; nothing when it is the pattern's end.
    fn excerpt(&self, span: Span) -> &str {
        let start = (span.lo as usize).saturating_sub(PROLOGUE.len());
        let end = (span.hi as usize).saturating_sub(PROLOGUE.len()).min(self.source.len());
        self.source.get(start..end).unwrap_or_default()
    }
}

/// Turns the identifiers that are metavariables into such.
fn mark(node: &mut Node) {
    if let Some(name) = ellipsis_name(node) {
        *node = Node::new(Kind::Ellipsis, name, Vec::new(), node.span);
        return;
    }
    if matches!(node.kind, Kind::Ident | Kind::Name)
        && let Some(name) = node.text.strip_prefix('$')
        && is_metavariable(name)
    {
        node.text = name.to_owned().into();
        node.kind = Kind::Metavariable;
    }
    node.kids.iter_mut().for_each(mark);
}

fn is_metavariable(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|b| b.is_ascii_uppercase() || b == b'_')
        && bytes.all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
}

/// `$$$NAME` as it parses in each place it can stand: an identifier, a shorthand property, a declaration without a value.
fn ellipsis_name(node: &Node) -> Option<String> {
    let ident = match (node.kind, node.kids.as_slice()) {
        (Kind::Ident, _) => node,
        (Kind::Property, [name, value]) if value.kind == Kind::Ident && name.text == value.text => value,
        (Kind::Declare, [name, value]) if name.kind == Kind::Ident && value.kind == Kind::Absent => name,
        _ => return None,
    };
    ident.text.strip_prefix("$$$").map(str::to_owned)
}

fn is_expression(kind: Kind) -> bool {
    matcher::is_operand(kind) || kind == Kind::Metavariable
}

#[cfg(test)]
mod tests;

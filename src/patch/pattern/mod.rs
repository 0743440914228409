/*!
Patterns: JavaScript with metavariables.

A pattern is a piece of JavaScript, parsed like its target and lowered to the same canonical tree, in which

- `$NAME` matches one expression, identifier, property name or parameter and binds it; the same name again has to match the same
  thing; `$_` matches without binding;
- `$$$NAME` (the name may be left out) matches any run of arguments, parameters, properties, elements or statements.

A pattern that is one expression is looked for wherever an expression can be. Any other pattern is a run of statements and is
looked for in every body; it matches units that follow each other, see [`tree`](super::syntax::tree). `var` in a pattern matches
any kind of declaration, `let` and `const` only themselves. To match an object literal write `({ … })`, since `{` starts a block.
*/

mod matcher;

use std::collections::BTreeSet;

pub(crate) use matcher::same;
pub use matcher::{Bindings, Match, NearestMiss, PatternSearch};

use super::syntax::{Goal, Node, NodeKind, Span, SyntaxError, for_each_item};

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
    /// Units in sequence, looked for in every body.
    Units(Vec<Node>),
}

/// Errors from compiling a pattern.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum CodePatternError {
    /// It is not JavaScript.
    #[error("pattern `{pattern}` is not JavaScript: {cause}")]
    Syntax {
        /// The pattern's source.
        pattern: String,
        /// The syntax error, with its position.
        cause: SyntaxError,
    },
    /// It is empty.
    #[error("pattern `{0}` matches nothing: it has no statement or expression")]
    Empty(String),
    /// The metavariable does not occur.
    #[error("pattern `{pattern}` has no metavariable ${name}")]
    NoMetavariable {
        /// The pattern's source.
        pattern: String,
        /// The requested name.
        name: String,
    },
}

/// Text before a pattern for the parser. Patterns may contain `await`, `yield` and `return`, so they are parsed as the body of the
/// one kind of function that allows all three.
const PROLOGUE: &str = "async function*pattern(){";

impl Pattern {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// If it is not JavaScript or empty.
    pub fn parse(source: &str) -> Result<Self, CodePatternError> {
        let text = format!("{PROLOGUE}{source}\n}}");
        let mut bodies = Vec::new();
        // Where it is wrong, counted in what was written.
        let fail = |SyntaxError { message, offset, line, column }: SyntaxError| {
            let offset = (offset as usize).saturating_sub(PROLOGUE.len()).min(source.len()) as u32;
            let column = if line == 1 { column.saturating_sub(PROLOGUE.len() as u32).max(1) } else { column };
            CodePatternError::Syntax { pattern: source.to_owned(), cause: SyntaxError { message, offset, line, column } }
        };
        for_each_item(&text, Goal::Module, |item| bodies.push(item.lower())).map_err(fail)?;
        // More than one item: the source closed the function and went on after it.
        let [body] = bodies.as_mut_slice() else {
            let message = "unbalanced `}`".to_owned();
            return Err(fail(SyntaxError { message, offset: 0, line: 1, column: 1 }));
        };
        let mut units = body.kids.swap_remove(0).kids.swap_remove(2).kids;
        for unit in &mut units {
            mark(unit);
        }
        let shape = match units.len() {
            0 => return Err(CodePatternError::Empty(source.to_owned())),
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
        const MIN_ANCHOR_CHARS: usize = 4;
        let mut found = BTreeSet::new();
        for root in self.roots() {
            root.walk(&mut |node| {
                let plain = |text: &str| {
                    text.len() >= MIN_ANCHOR_CHARS && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b))
                };
                if matches!(node.kind, NodeKind::Str | NodeKind::Name) && plain(&node.text) {
                    found.insert(&*node.text);
                }
            });
        }
        found
    }

    /// The metavariable that names the declared function, if the pattern is a function declaration.
    pub fn declared_function(&self) -> Option<&str> {
        match self.roots() {
            [only] if only.kind == NodeKind::FunctionDecl && only.kids[0].kind == NodeKind::Metavariable => {
                Some(&only.kids[0].text)
            }
            _ => None,
        }
    }

    /// The pattern with `text` in place of the first occurrence of a metavariable: the shape of the target after an edit there.
    ///
    /// # Errors
    /// If the metavariable does not occur, or `text` does not fit.
    pub fn replacing(&self, name: &str, text: &str) -> Result<Self, CodePatternError> {
        let mut first: Option<Span> = None;
        for root in self.roots() {
            root.walk(&mut |node| {
                if node.kind == NodeKind::Metavariable && node.text == name && first.is_none() {
                    first = Some(node.span);
                }
            });
        }
        let missing = || CodePatternError::NoMetavariable { pattern: self.source.clone(), name: name.to_owned() };
        let mut range = first.ok_or_else(missing)?.range();
        range.start -= PROLOGUE.len();
        range.end -= PROLOGUE.len();
        let mut source = self.source.clone();
        source.replace_range(range, text);
        Self::parse(&source)
    }

    /// The source text of a node of the pattern; empty at the pattern's end.
    fn excerpt(&self, span: Span) -> &str {
        let start = (span.lo as usize).saturating_sub(PROLOGUE.len());
        let end = (span.hi as usize).saturating_sub(PROLOGUE.len()).min(self.source.len());
        self.source.get(start..end).unwrap_or_default()
    }
}

/// Turns identifiers that name metavariables into metavariables.
fn mark(node: &mut Node) {
    if let Some(name) = ellipsis_name(node) {
        *node = Node::new(NodeKind::Ellipsis, name, Vec::new(), node.span);
        return;
    }
    if matches!(node.kind, NodeKind::Ident | NodeKind::Name)
        && let Some(name) = node.text.strip_prefix('$')
        && is_metavariable(name)
    {
        node.text = name.to_owned().into();
        node.kind = NodeKind::Metavariable;
    }
    node.kids.iter_mut().for_each(mark);
}

fn is_metavariable(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|b| b.is_ascii_uppercase() || b == b'_')
        && bytes.all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
}

/// The name of `$$$NAME`, which parses as an identifier, a shorthand property, or a declaration without a value.
fn ellipsis_name(node: &Node) -> Option<String> {
    let ident = match (node.kind, node.kids.as_slice()) {
        (NodeKind::Ident, _) => node,
        (NodeKind::Property, [name, value]) if value.kind == NodeKind::Ident && name.text == value.text => value,
        (NodeKind::Declare, [name, value]) if name.kind == NodeKind::Ident && value.kind == NodeKind::Absent => name,
        _ => return None,
    };
    ident.text.strip_prefix("$$$").map(str::to_owned)
}

fn is_expression(kind: NodeKind) -> bool {
    matcher::is_operand(kind) || kind == NodeKind::Metavariable
}

#[cfg(test)]
mod tests;

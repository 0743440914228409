/*!
The canonical tree, in which patterns and targets are compared.

JavaScript has many ways to write one thing, and every release of a minifier picks others. Both sides are lowered to this tree
before they are compared, so the comparison is plain equality:

| written as | lowered to |
| --- | --- |
| `(a)` | `a` |
| `!0`, `!1` | `true`, `false` |
| `void 0` | `undefined` |
| `'a'`, `` `a` `` | `"a"` |
| `4e4`, `0x9C40` | `40000` |
| `a["b"]`, `{"b": 1}`, `{b}` | `a.b`, `{b: 1}`, `{b: b}` |
| `() => a` | `() => { return a }` |
| `a, b;` | `a; b;` |
| `let a = 1, b = 2;` | `let a = 1; let b = 2;` |
| `if (a, b) c` | `a; if (b) { c }` |
| `return a, b` | `a; return b` |

The statements of a body are therefore a list of *units*, finer than statements.
*/

use std::borrow::Cow;
use std::ops::Range;

/// A range of bytes in a module's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// First byte.
    pub lo: u32,
    /// End, one past the last byte.
    pub hi: u32,
}

impl Span {
    /// The bytes from `lo` up to, not including, `hi`.
    pub fn new(lo: u32, hi: u32) -> Self {
        Self { lo, hi }
    }

    /// Converts swc's span, whose positions count from 1.
    pub fn of(span: swc_common::Span) -> Self {
        Self { lo: span.lo.0.saturating_sub(1), hi: span.hi.0.saturating_sub(1) }
    }

    /// The span as an index into a string or slice.
    pub fn range(self) -> Range<usize> {
        self.lo as usize..self.hi as usize
    }

    /// `true` if `other` lies within this span.
    pub fn contains(self, other: Span) -> bool {
        self.lo <= other.lo && other.hi <= self.hi
    }
}

/// The kind of a [`Node`]. Each comment lists the children in order, and `text` if it has a meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NodeKind {
    /// A missing optional child.
    Absent,
    /// Children of one role: arguments, parameters, properties, elements.
    List,
    /// Units in order: a function's body, a block, a program.
    Body,

    /// `text`: the identifier.
    Ident,
    /// `text`: a property's name, a label, a private name.
    Name,
    /// `undefined`, however written.
    Undefined,
    /// `text`: the string's value.
    Str,
    /// `text`: the number's value.
    Num,
    /// `text`: `true` or `false`.
    Bool,
    /// `null`
    Null,
    /// `text`: the digits.
    BigInt,
    /// `text`: as written.
    Regex,
    /// Alternating [`NodeKind::Str`] parts and expressions.
    Template,
    /// Tag, template.
    TaggedTemplate,
    /// `this`
    This,
    /// `super`
    Super,
    /// `import(…)`'s callee, `import.meta`, `new.target`; `text` says which.
    Meta,
    /// Object, name. `text`: `?.` or nothing, as for [`NodeKind::Index`] and [`NodeKind::Call`].
    Member,
    /// Object, expression.
    Index,
    /// Callee, arguments.
    Call,
    /// Callee, arguments.
    New,
    /// The spread expression.
    Spread,
    /// Target, value. `text`: the operator.
    Assign,
    /// The expressions, flat.
    Sequence,
    /// Test, consequent, alternative.
    Conditional,
    /// Left, right. `text`: the operator.
    Binary,
    /// Operand. `text`: the operator.
    Unary,
    /// Operand. `text`: the operator, `p++` for postfix.
    Update,
    /// Operand.
    Await,
    /// Operand. `text`: `*` when it delegates.
    Yield,
    /// Parameters, body. `text`: `async` or nothing.
    Arrow,
    /// Name, parameters, body. `text`: of `async`, `*`.
    Function,
    /// Name, superclass, members.
    Class,
    /// A list of properties.
    Object,
    /// A list of elements.
    Array,
    /// Name or [`NodeKind::Computed`], value.
    Property,
    /// Name or [`NodeKind::Computed`], function. `text`: `get`, `set`, `static`, `constructor`.
    Method,
    /// The expression of a computed name.
    Computed,

    /// A list of properties.
    ObjectPattern,
    /// A list of elements.
    ArrayPattern,
    /// Pattern, default value.
    Default,
    /// The pattern that binds the rest.
    Rest,

    /// Pattern, initial value. `text`: `var`, `let`, `const`, `using`.
    Declare,
    /// As [`NodeKind::Function`].
    FunctionDecl,
    /// As [`NodeKind::Class`].
    ClassDecl,
    /// Test, body, alternative.
    If,
    /// Value.
    Return,
    /// Value.
    Throw,
    /// Body.
    Block,
    /// Initial units, test, update, body.
    For,
    /// Target, subject, body.
    ForIn,
    /// Target, subject, body. `text`: `await` or nothing.
    ForOf,
    /// Test, body.
    While,
    /// Body, test.
    DoWhile,
    /// Block, parameter, handler, finalizer.
    Try,
    /// Subject, cases.
    Switch,
    /// Test, body.
    Case,
    /// Label, body.
    Labeled,
    /// Label. `text`: `break` or `continue`.
    Jump,
    /// Units that are exported. `text`: `default` or nothing.
    Export,
    /// `text`: anything else, as written.
    Opaque,

    /// Pattern only: `$$$NAME`, any run of a list. `text`: the name.
    Ellipsis,
    /// Pattern only: `$NAME`, any one expression, identifier or pattern. `text`: the name.
    Metavariable,
}

impl NodeKind {
    /// `true` if `this`, `return` and `yield` inside the node belong to the node itself.
    pub fn is_function(self) -> bool {
        matches!(self, Self::Function | Self::FunctionDecl | Self::Arrow)
    }
}

/// A node of the canonical tree.
#[derive(Clone, Debug)]
pub struct Node {
    /// Kind of the node.
    pub kind: NodeKind,
    /// Its literal part, see [`NodeKind`].
    pub text: Cow<'static, str>,
    /// Its children, see [`NodeKind`].
    pub kids: Vec<Node>,
    /// Its bytes in the module's text.
    pub span: Span,
}

/// Compares the meaning; positions are ignored.
impl PartialEq for Node {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind && self.text == other.text && self.kids == other.kids
    }
}

impl Node {
    /// Creates a node from its parts.
    pub fn new(kind: NodeKind, text: impl Into<Cow<'static, str>>, kids: Vec<Node>, span: Span) -> Self {
        Self { kind, text: text.into(), kids, span }
    }

    pub(super) fn absent(span: Span) -> Self {
        Self::new(NodeKind::Absent, "", Vec::new(), span)
    }

    /// The name, if the node is an identifier or a property's name.
    pub fn name(&self) -> Option<&str> {
        match self.kind {
            NodeKind::Ident | NodeKind::Name => Some(&self.text),
            NodeKind::Undefined => Some("undefined"),
            _ => None,
        }
    }

    /// Visits this node and everything below it, parents first.
    pub fn walk<'n>(&'n self, visit: &mut impl FnMut(&'n Node)) {
        visit(self);
        for kid in &self.kids {
            kid.walk(visit);
        }
    }
}

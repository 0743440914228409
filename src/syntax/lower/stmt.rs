//! Statements, as units.

use swc_common::Spanned;
use swc_ecma_ast::{Expr, ForHead, Pat, Stmt, VarDeclOrExpr, VarDeclarator};

use super::{Lower, list, named};
use crate::tree::{Node, NodeKind, Span};

impl Lower<'_> {
    pub(super) fn body(self, stmts: &[Stmt], span: Span) -> Node {
        let mut units = Vec::with_capacity(stmts.len());
        stmts.iter().for_each(|stmt| self.stmt(stmt, &mut units));
        Node::new(NodeKind::Body, "", units, span)
    }

    /// Lowers the body of a loop or branch: a block and a single statement give the same result.
    fn branch(self, stmt: &Stmt) -> Node {
        match stmt {
            Stmt::Block(block) => self.body(&block.stmts, Span::of(block.span)),
            single => self.body(std::slice::from_ref(single), Span::of(single.span())),
        }
    }

    /// Adds the units of one statement: none for an empty one, several for one that joins parts which could be statements
    /// themselves.
    pub(super) fn stmt(self, stmt: &Stmt, units: &mut Vec<Node>) {
        let span = Span::of(stmt.span());
        let node = |kind, text: &'static str, kids| Node::new(kind, text, kids, span);
        let unit = match stmt {
            Stmt::Empty(_) => return,
            Stmt::Expr(stmt) => return self.sequence(&stmt.expr, units),
            Stmt::Decl(decl) => return self.decl(decl, units),
            Stmt::Return(stmt) => return self.leave(NodeKind::Return, stmt.arg.as_deref(), span, units),
            Stmt::Throw(stmt) => return self.leave(NodeKind::Throw, Some(&stmt.arg), span, units),
            Stmt::If(stmt) => {
                let test = self.split(&stmt.test, units);
                let alternative = stmt.alt.as_deref().map_or_else(|| Node::absent(span), |alt| self.branch(alt));
                node(NodeKind::If, "", vec![test, self.branch(&stmt.cons), alternative])
            }
            Stmt::Switch(stmt) => {
                let subject = self.split(&stmt.discriminant, units);
                let cases = stmt.cases.iter().map(|case| {
                    let span = Span::of(case.span);
                    Node::new(NodeKind::Case, "", vec![self.maybe(case.test.as_deref(), span), self.body(&case.cons, span)], span)
                });
                node(NodeKind::Switch, "", vec![subject, list(cases.collect(), span)])
            }
            Stmt::Block(block) => node(NodeKind::Block, "", vec![self.body(&block.stmts, span)]),
            Stmt::While(stmt) => node(NodeKind::While, "", vec![self.expr(&stmt.test), self.branch(&stmt.body)]),
            Stmt::DoWhile(stmt) => node(NodeKind::DoWhile, "", vec![self.branch(&stmt.body), self.expr(&stmt.test)]),
            Stmt::For(stmt) => {
                let mut initial = Vec::new();
                match &stmt.init {
                    Some(VarDeclOrExpr::VarDecl(var)) => self.declare(var.kind.as_str(), &var.decls, &mut initial),
                    Some(VarDeclOrExpr::Expr(expr)) => self.sequence(expr, &mut initial),
                    None => {}
                }
                let (test, update) = (self.maybe(stmt.test.as_deref(), span), self.maybe(stmt.update.as_deref(), span));
                node(NodeKind::For, "", vec![list(initial, span), test, update, self.branch(&stmt.body)])
            }
            Stmt::ForIn(stmt) => {
                node(NodeKind::ForIn, "", vec![self.for_head(&stmt.left), self.expr(&stmt.right), self.branch(&stmt.body)])
            }
            Stmt::ForOf(stmt) => {
                let kids = vec![self.for_head(&stmt.left), self.expr(&stmt.right), self.branch(&stmt.body)];
                node(NodeKind::ForOf, if stmt.is_await { "await" } else { "" }, kids)
            }
            Stmt::Try(stmt) => {
                let (parameter, handler) = match &stmt.handler {
                    Some(clause) => {
                        (self.maybe_pat(clause.param.as_ref(), span), self.body(&clause.body.stmts, Span::of(clause.span)))
                    }
                    None => (Node::absent(span), Node::absent(span)),
                };
                let finalizer = stmt.finalizer.as_ref();
                let finalizer =
                    finalizer.map_or_else(|| Node::absent(span), |block| self.body(&block.stmts, Span::of(block.span)));
                node(
                    NodeKind::Try,
                    "",
                    vec![self.body(&stmt.block.stmts, Span::of(stmt.block.span)), parameter, handler, finalizer],
                )
            }
            Stmt::Labeled(stmt) => {
                let label = named(NodeKind::Name, stmt.label.sym.to_string(), &stmt.label);
                node(NodeKind::Labeled, "", vec![label, self.branch(&stmt.body)])
            }
            Stmt::Break(stmt) => node(NodeKind::Jump, "break", self.label(stmt.label.as_ref())),
            Stmt::Continue(stmt) => node(NodeKind::Jump, "continue", self.label(stmt.label.as_ref())),
            Stmt::Debugger(_) | Stmt::With(_) => self.opaque(stmt),
        };
        units.push(unit);
    }

    /// Lowers `return a, b` and `throw a, b`: all but the last part are units of their own.
    pub(super) fn leave(self, kind: NodeKind, value: Option<&Expr>, span: Span, units: &mut Vec<Node>) {
        let value = value.map_or_else(|| Node::absent(span), |value| self.split(value, units));
        units.push(Node::new(kind, "", vec![value], span));
    }

    /// Adds one unit for each declarator.
    pub(super) fn declare(self, kind: &'static str, declarators: &[VarDeclarator], units: &mut Vec<Node>) {
        for declarator in declarators {
            let span = Span::of(declarator.span);
            let kids = vec![self.pat(&declarator.name), self.maybe(declarator.init.as_deref(), span)];
            units.push(Node::new(NodeKind::Declare, kind, kids, span));
        }
    }

    /// Returns the last part of a sequence; the parts before it become units.
    fn split(self, expr: &Expr, units: &mut Vec<Node>) -> Node {
        let mut parts = Vec::new();
        self.sequence(expr, &mut parts);
        let last = parts.pop().unwrap_or_else(|| self.expr(expr));
        units.append(&mut parts);
        last
    }

    fn maybe(self, expr: Option<&Expr>, span: Span) -> Node {
        expr.map_or_else(|| Node::absent(span), |expr| self.expr(expr))
    }

    fn maybe_pat(self, pat: Option<&Pat>, span: Span) -> Node {
        pat.map_or_else(|| Node::absent(span), |pat| self.pat(pat))
    }

    fn for_head(self, head: &ForHead) -> Node {
        match head {
            ForHead::VarDecl(var) => {
                let mut units = Vec::new();
                self.declare(var.kind.as_str(), &var.decls, &mut units);
                list(units, Span::of(var.span))
            }
            ForHead::UsingDecl(using) => {
                let mut units = Vec::new();
                self.declare("using", &using.decls, &mut units);
                list(units, Span::of(using.span))
            }
            ForHead::Pat(pat) => self.pat(pat),
        }
    }

    fn label(self, label: Option<&swc_ecma_ast::Ident>) -> Vec<Node> {
        label.map(|label| named(NodeKind::Name, label.sym.to_string(), label)).into_iter().collect()
    }
}

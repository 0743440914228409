/*!
Lowers swc's tree to the canonical one; [`tree`](super::tree) lists the results.

Every construct of the language is handled, also those that no pattern uses today: a construct that was skipped would hide
its contents.
*/

mod expr;
mod function;
mod stmt;

use std::borrow::Cow;

use swc_common::Spanned;
use swc_ecma_ast::{Decl, DefaultDecl, ModuleDecl, ModuleItem};

use super::tree::{Node, NodeKind, Span};

/// Lowers top-level items to one [`NodeKind::Body`].
pub fn lower_items(text: &str, items: &[ModuleItem]) -> Node {
    let lower = Lower { text };
    let mut units = Vec::new();
    for item in items {
        match item {
            ModuleItem::Stmt(stmt) => lower.stmt(stmt, &mut units),
            ModuleItem::ModuleDecl(decl) => units.push(lower.module_decl(decl)),
        }
    }
    let span = match (units.first(), units.last()) {
        (Some(first), Some(last)) => Span::new(first.span.lo, last.span.hi),
        _ => Span::new(0, 0),
    };
    Node::new(NodeKind::Body, "", units, span)
}

/// The lowering of one text, which is needed for constructs that are kept as written.
#[derive(Clone, Copy)]
struct Lower<'t> {
    text: &'t str,
}

impl Lower<'_> {
    fn opaque(self, node: &impl Spanned) -> Node {
        let span = Span::of(node.span());
        let text = self.text.get(span.range()).unwrap_or_default().to_owned();
        Node::new(NodeKind::Opaque, text, Vec::new(), span)
    }

    fn module_decl(self, decl: &ModuleDecl) -> Node {
        let span = Span::of(decl.span());
        match decl {
            ModuleDecl::ExportDecl(export) => {
                let mut units = Vec::new();
                self.decl(&export.decl, &mut units);
                Node::new(NodeKind::Export, "", units, span)
            }
            ModuleDecl::ExportDefaultExpr(export) => Node::new(NodeKind::Export, "default", vec![self.expr(&export.expr)], span),
            ModuleDecl::ExportDefaultDecl(export) => {
                let unit = match &export.decl {
                    DefaultDecl::Fn(f) => self.function(NodeKind::FunctionDecl, f.ident.as_ref(), &f.function),
                    DefaultDecl::Class(c) => self.class(NodeKind::ClassDecl, c.ident.as_ref(), &c.class),
                    DefaultDecl::TsInterfaceDecl(other) => self.opaque(other),
                };
                Node::new(NodeKind::Export, "default", vec![unit], span)
            }
            other => self.opaque(other),
        }
    }

    fn decl(self, decl: &Decl, units: &mut Vec<Node>) {
        match decl {
            Decl::Fn(f) => {
                let mut node = self.function(NodeKind::FunctionDecl, Some(&f.ident), &f.function);
                node.span = Span::of(f.span());
                units.push(node);
            }
            Decl::Class(c) => units.push(self.class(NodeKind::ClassDecl, Some(&c.ident), &c.class)),
            Decl::Var(var) => self.declare(var.kind.as_str(), &var.decls, units),
            Decl::Using(using) => {
                self.declare(if using.is_await { "await using" } else { "using" }, &using.decls, units);
            }
            other => units.push(self.opaque(other)),
        }
    }
}

fn named(kind: NodeKind, text: impl Into<Cow<'static, str>>, node: &impl Spanned) -> Node {
    Node::new(kind, text, Vec::new(), Span::of(node.span()))
}

fn list(kids: Vec<Node>, span: Span) -> Node {
    Node::new(NodeKind::List, "", kids, span)
}

/// The value roughly as JavaScript prints it: exact enough to tell numbers apart.
fn number(value: f64) -> String {
    if value == 0.0 { "0".to_owned() } else { value.to_string() }
}

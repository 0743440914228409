//! Functions and classes.

use swc_common::Spanned;
use swc_ecma_ast::{
    ArrowExpr, ArrowFunctionBody, Class, ClassMember, Function, FunctionBody, Ident, Key, MethodKind, ParamOrTsParamProp,
    PrivateName,
};

use super::{Lower, list, named};
use crate::tree::{Node, NodeKind, Span};

impl Lower<'_> {
    pub(super) fn function(self, kind: NodeKind, name: Option<&Ident>, function: &Function) -> Node {
        let span = Span::of(function.span);
        let text = match (function.is_async, function.is_generator) {
            (true, true) => "async*",
            (true, false) => "async",
            (false, true) => "*",
            (false, false) => "",
        };
        let name = name.map_or_else(|| Node::absent(span), |name| self.ident(name));
        let params = list(function.params.iter().map(|param| self.pat(&param.pat)).collect(), span);
        Node::new(kind, text, vec![name, params, self.function_body(function.body.as_ref(), span)], span)
    }

    fn function_body(self, body: Option<&FunctionBody>, span: Span) -> Node {
        body.map_or_else(|| Node::absent(span), |body| self.body(&body.stmts, Span::of(body.span)))
    }

    pub(super) fn arrow(self, arrow: &ArrowExpr) -> Node {
        let span = Span::of(arrow.span);
        let params = list(arrow.params.iter().map(|param| self.pat(param)).collect(), span);
        let body = match &*arrow.body {
            ArrowFunctionBody::FunctionBody(body) => self.body(&body.stmts, Span::of(body.span)),
            ArrowFunctionBody::Expr(value) => {
                let mut units = Vec::new();
                self.leave(NodeKind::Return, Some(value), Span::of(value.span()), &mut units);
                Node::new(NodeKind::Body, "", units, Span::of(value.span()))
            }
        };
        Node::new(NodeKind::Arrow, if arrow.is_async { "async" } else { "" }, vec![params, body], span)
    }

    pub(super) fn class(self, kind: NodeKind, name: Option<&Ident>, class: &Class) -> Node {
        let span = Span::of(class.span);
        let name = name.map_or_else(|| Node::absent(span), |name| self.ident(name));
        let base = class.super_class.as_deref().map_or_else(|| Node::absent(span), |base| self.expr(base));
        let members = class.body.iter().map(|member| self.class_member(member)).collect();
        Node::new(kind, "", vec![name, base, list(members, span)], span)
    }

    fn class_member(self, member: &ClassMember) -> Node {
        let span = Span::of(member.span());
        let node = |kind, text: &'static str, kids| Node::new(kind, text, kids, span);
        let static_or = |is_static: bool| if is_static { "static" } else { "" };
        let value = |value: Option<&swc_ecma_ast::Expr>| value.map_or_else(|| Node::absent(span), |value| self.expr(value));
        let method = |kind: MethodKind, is_static: bool, key: Node, function: &Function| {
            let text = match (kind, is_static) {
                (MethodKind::Method, is_static) => static_or(is_static),
                (MethodKind::Getter, false) => "get",
                (MethodKind::Getter, true) => "static get",
                (MethodKind::Setter, false) => "set",
                (MethodKind::Setter, true) => "static set",
            };
            node(NodeKind::Method, text, vec![key, self.function(NodeKind::Function, None, function)])
        };
        match member {
            ClassMember::Constructor(constructor) => {
                let params = constructor.params.iter().map(|param| match param {
                    ParamOrTsParamProp::Param(param) => self.pat(&param.pat),
                    ParamOrTsParamProp::TsParamProp(other) => self.opaque(other),
                });
                let params = list(params.collect(), span);
                let body = self.function_body(constructor.body.as_ref(), span);
                let function = node(NodeKind::Function, "", vec![Node::absent(span), params, body]);
                node(NodeKind::Method, "constructor", vec![self.prop_name(&constructor.key), function])
            }
            ClassMember::Method(m) => method(m.kind, m.is_static, self.prop_name(&m.key), &m.function),
            ClassMember::PrivateMethod(m) => method(m.kind, m.is_static, private(&m.key), &m.function),
            ClassMember::ClassProp(prop) => {
                node(NodeKind::Property, static_or(prop.is_static), vec![self.prop_name(&prop.key), value(prop.value.as_deref())])
            }
            ClassMember::PrivateProp(prop) => {
                node(NodeKind::Property, static_or(prop.is_static), vec![private(&prop.key), value(prop.value.as_deref())])
            }
            ClassMember::AutoAccessor(accessor) => {
                node(NodeKind::Property, "accessor", vec![self.key(&accessor.key), value(accessor.value.as_deref())])
            }
            ClassMember::StaticBlock(block) => {
                node(NodeKind::Block, "static", vec![self.body(&block.body.stmts, Span::of(block.body.span))])
            }
            ClassMember::Empty(_) => Node::absent(span),
            ClassMember::TsIndexSignature(other) => self.opaque(other),
        }
    }

    fn key(self, key: &Key) -> Node {
        match key {
            Key::Private(name) => private(name),
            Key::Public(name) => self.prop_name(name),
        }
    }
}

fn private(name: &PrivateName) -> Node {
    named(NodeKind::Name, format!("#{}", name.name), name)
}

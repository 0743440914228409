//! Expressions, literals, properties, patterns.

use swc_common::Spanned;
use swc_ecma_ast::{
    ArrayLit, ArrayPat, AssignTarget, AssignTargetPat, Callee, Expr, ExprOrSpread, Ident, Lit, MemberExpr, MemberProp, ObjectPat,
    ObjectPatProp, OptChainBase, OptChainExpr, Pat, Prop, PropName, PropOrSpread, SimpleAssignTarget, Str, SuperProp,
    SuperPropExpr, Tpl, UnaryExpr, UnaryOp,
};

use super::{Lower, list, named, number};
use crate::tree::{Node, NodeKind, Span};

impl Lower<'_> {
    pub(super) fn expr(self, expr: &Expr) -> Node {
        let span = Span::of(expr.span());
        let node = |kind, text: &'static str, kids| Node::new(kind, text, kids, span);
        match expr {
            Expr::Paren(paren) => self.expr(&paren.expr),
            Expr::Ident(ident) => self.ident(ident),
            Expr::Lit(lit) => self.lit(lit),
            Expr::Tpl(tpl) => self.template(tpl),
            Expr::TaggedTpl(tagged) => {
                node(NodeKind::TaggedTemplate, "", vec![self.expr(&tagged.tag), self.template_parts(&tagged.tpl)])
            }
            Expr::This(_) => node(NodeKind::This, "", vec![]),
            Expr::Unary(unary) => self.unary(unary),
            Expr::Update(update) => {
                let operator = match (update.prefix, update.op.as_str()) {
                    (true, "++") => "++",
                    (true, _) => "--",
                    (false, "++") => "p++",
                    (false, _) => "p--",
                };
                node(NodeKind::Update, operator, vec![self.expr(&update.arg)])
            }
            Expr::Bin(bin) => {
                let (left, right) = (self.expr(&bin.left), self.expr(&bin.right));
                // Minifiers write Infinity as 1/0.
                if bin.op.as_str() == "/"
                    && (left.kind, right.kind) == (NodeKind::Num, NodeKind::Num)
                    && right.text == "0"
                    && left.text == "1"
                {
                    return Node::new(NodeKind::Num, number(f64::INFINITY), vec![], span);
                }
                node(NodeKind::Binary, bin.op.as_str(), vec![left, right])
            }
            Expr::Assign(assign) => {
                node(NodeKind::Assign, assign.op.as_str(), vec![self.assign_target(&assign.left), self.expr(&assign.right)])
            }
            Expr::Member(member) => self.member(member, ""),
            Expr::SuperProp(prop) => self.super_prop(prop),
            Expr::Cond(cond) => {
                node(NodeKind::Conditional, "", vec![self.expr(&cond.test), self.expr(&cond.cons), self.expr(&cond.alt)])
            }
            Expr::Call(call) => {
                let callee = match &call.callee {
                    Callee::Expr(callee) => self.expr(callee),
                    Callee::Super(callee) => named(NodeKind::Super, "", callee),
                    Callee::Import(callee) => named(NodeKind::Meta, "import", callee),
                };
                node(NodeKind::Call, "", vec![callee, self.args(&call.args, span)])
            }
            Expr::New(new) => {
                node(NodeKind::New, "", vec![self.expr(&new.callee), self.args(new.args.as_deref().unwrap_or_default(), span)])
            }
            Expr::Seq(_) => {
                let mut parts = Vec::new();
                self.sequence(expr, &mut parts);
                node(NodeKind::Sequence, "", parts)
            }
            Expr::Fn(f) => self.function(NodeKind::Function, f.ident.as_ref(), &f.function),
            Expr::Arrow(arrow) => self.arrow(arrow),
            Expr::Class(class) => self.class(NodeKind::Class, class.ident.as_ref(), &class.class),
            Expr::Await(wait) => node(NodeKind::Await, "", vec![self.expr(&wait.arg)]),
            Expr::Yield(give) => {
                let operand = give.arg.as_deref().map_or_else(|| Node::absent(span), |arg| self.expr(arg));
                node(NodeKind::Yield, if give.delegate { "*" } else { "" }, vec![operand])
            }
            Expr::Object(object) => {
                let properties = object.props.iter().map(|prop| self.property(prop)).collect();
                node(NodeKind::Object, "", vec![list(properties, span)])
            }
            Expr::Array(array) => self.array(array),
            Expr::OptChain(chain) => self.chain(chain),
            Expr::MetaProp(meta) => node(NodeKind::Meta, meta.kind.as_str(), vec![]),
            Expr::PrivateName(name) => Node::new(NodeKind::Name, format!("#{}", name.name), vec![], span),
            other => self.opaque(other),
        }
    }

    pub(super) fn ident(self, ident: &Ident) -> Node {
        match &*ident.sym {
            "undefined" => named(NodeKind::Undefined, "", ident),
            "Infinity" => named(NodeKind::Num, number(f64::INFINITY), ident),
            name => named(NodeKind::Ident, name.to_owned(), ident),
        }
    }

    /// Collects the parts of nested sequences into a flat list.
    pub(super) fn sequence(self, expr: &Expr, parts: &mut Vec<Node>) {
        match expr {
            Expr::Paren(paren) => self.sequence(&paren.expr, parts),
            Expr::Seq(seq) => seq.exprs.iter().for_each(|part| self.sequence(part, parts)),
            other => parts.push(self.expr(other)),
        }
    }

    fn lit(self, lit: &Lit) -> Node {
        match lit {
            Lit::Str(value) => string(value),
            Lit::Bool(value) => named(NodeKind::Bool, if value.value { "true" } else { "false" }, value),
            Lit::Null(value) => named(NodeKind::Null, "", value),
            Lit::Num(value) => named(NodeKind::Num, number(value.value), value),
            Lit::BigInt(value) => named(NodeKind::BigInt, value.value.to_string(), value),
            Lit::Regex(value) => named(NodeKind::Regex, format!("/{}/{}", value.exp, value.flags), value),
            Lit::JSXText(value) => self.opaque(value),
        }
    }

    fn template(self, tpl: &Tpl) -> Node {
        let mut node = self.template_parts(tpl);
        match node.kids.len() {
            1 => {
                let mut only = node.kids.remove(0);
                only.span = node.span;
                only
            }
            _ => node,
        }
    }

    fn template_parts(self, tpl: &Tpl) -> Node {
        let mut kids = Vec::with_capacity(tpl.quasis.len() * 2);
        for (index, quasi) in tpl.quasis.iter().enumerate() {
            let value =
                quasi.cooked.as_ref().map_or_else(|| quasi.raw.to_string(), |cooked| cooked.to_string_lossy().into_owned());
            kids.push(named(NodeKind::Str, value, quasi));
            kids.extend(tpl.exprs.get(index).map(|expr| self.expr(expr)));
        }
        Node::new(NodeKind::Template, "", kids, Span::of(tpl.span))
    }

    fn unary(self, unary: &UnaryExpr) -> Node {
        let operand = self.expr(&unary.arg);
        let span = Span::of(unary.span);
        let literal = |kind, text: String| Node::new(kind, text, vec![], span);
        match (unary.op, operand.kind) {
            (UnaryOp::Bang, NodeKind::Num) => literal(NodeKind::Bool, (operand.text == "0").to_string()),
            (UnaryOp::Void, NodeKind::Num) => literal(NodeKind::Undefined, String::new()),
            (UnaryOp::Minus, NodeKind::Num) => literal(NodeKind::Num, format!("-{}", operand.text)),
            (op, _) => Node::new(NodeKind::Unary, op.as_str(), vec![operand], span),
        }
    }

    fn member(self, member: &MemberExpr, optional: &'static str) -> Node {
        let object = self.expr(&member.obj);
        let (kind, property) = match &member.prop {
            MemberProp::Ident(name) => (NodeKind::Member, named(NodeKind::Name, name.sym.to_string(), name)),
            MemberProp::PrivateName(name) => (NodeKind::Member, named(NodeKind::Name, format!("#{}", name.name), name)),
            MemberProp::Computed(computed) => index_or_name(self.expr(&computed.expr)),
        };
        Node::new(kind, optional, vec![object, property], Span::of(member.span))
    }

    fn super_prop(self, prop: &SuperPropExpr) -> Node {
        let (kind, property) = match &prop.prop {
            SuperProp::Ident(name) => (NodeKind::Member, named(NodeKind::Name, name.sym.to_string(), name)),
            SuperProp::Computed(computed) => index_or_name(self.expr(&computed.expr)),
        };
        Node::new(kind, "", vec![named(NodeKind::Super, "", &prop.obj), property], Span::of(prop.span))
    }

    fn chain(self, chain: &OptChainExpr) -> Node {
        let optional = if chain.optional { "?." } else { "" };
        let span = Span::of(chain.span);
        match &*chain.base {
            OptChainBase::Member(member) => Node { span, ..self.member(member, optional) },
            OptChainBase::Call(call) => {
                Node::new(NodeKind::Call, optional, vec![self.expr(&call.callee), self.args(&call.args, span)], span)
            }
        }
    }

    fn args(self, args: &[ExprOrSpread], span: Span) -> Node {
        list(args.iter().map(|arg| self.arg(arg)).collect(), span)
    }

    fn arg(self, arg: &ExprOrSpread) -> Node {
        let value = self.expr(&arg.expr);
        match arg.spread {
            Some(_) => Node::new(NodeKind::Spread, "", vec![value], Span::of(arg.span())),
            None => value,
        }
    }

    fn array(self, array: &ArrayLit) -> Node {
        let span = Span::of(array.span);
        let elements = array.elems.iter();
        let elements = elements.map(|element| element.as_ref().map_or_else(|| Node::absent(span), |element| self.arg(element)));
        Node::new(NodeKind::Array, "", vec![list(elements.collect(), span)], span)
    }

    fn property(self, property: &PropOrSpread) -> Node {
        let span = Span::of(property.span());
        let prop = match property {
            PropOrSpread::Spread(spread) => return Node::new(NodeKind::Spread, "", vec![self.expr(&spread.expr)], span),
            PropOrSpread::Prop(prop) => &**prop,
        };
        let method = |text, key, function| {
            Node::new(NodeKind::Method, text, vec![self.prop_name(key), self.function(NodeKind::Function, None, function)], span)
        };
        match prop {
            Prop::Shorthand(ident) => {
                let name = named(NodeKind::Name, ident.sym.to_string(), ident);
                Node::new(NodeKind::Property, "", vec![name, self.ident(ident)], span)
            }
            Prop::KeyValue(pair) => {
                Node::new(NodeKind::Property, "", vec![self.prop_name(&pair.key), self.expr(&pair.value)], span)
            }
            Prop::Assign(assign) => self.opaque(assign),
            Prop::Getter(getter) => method("get", &getter.key, &getter.function),
            Prop::Setter(setter) => method("set", &setter.key, &setter.function),
            Prop::Method(plain) => method("", &plain.key, &plain.function),
        }
    }

    pub(super) fn prop_name(self, name: &PropName) -> Node {
        match name {
            PropName::Ident(name) => named(NodeKind::Name, name.sym.to_string(), name),
            PropName::Str(name) => Node { kind: NodeKind::Name, ..string(name) },
            PropName::Num(name) => named(NodeKind::Name, number(name.value), name),
            PropName::BigInt(name) => named(NodeKind::Name, name.value.to_string(), name),
            PropName::Computed(computed) => match self.expr(&computed.expr) {
                literal if literal.kind == NodeKind::Str => Node { kind: NodeKind::Name, ..literal },
                value => Node::new(NodeKind::Computed, "", vec![value], Span::of(computed.span)),
            },
        }
    }

    pub(super) fn pat(self, pat: &Pat) -> Node {
        let span = Span::of(pat.span());
        match pat {
            Pat::Ident(binding) => self.ident(&binding.id),
            Pat::Array(array) => self.array_pat(array),
            Pat::Object(object) => self.object_pat(object),
            Pat::Rest(rest) => Node::new(NodeKind::Rest, "", vec![self.pat(&rest.arg)], span),
            Pat::Assign(assign) => Node::new(NodeKind::Default, "", vec![self.pat(&assign.left), self.expr(&assign.right)], span),
            Pat::Expr(expr) => self.expr(expr),
            Pat::Invalid(invalid) => self.opaque(invalid),
        }
    }

    fn array_pat(self, array: &ArrayPat) -> Node {
        let span = Span::of(array.span);
        let elements = array.elems.iter();
        let elements = elements.map(|element| element.as_ref().map_or_else(|| Node::absent(span), |element| self.pat(element)));
        Node::new(NodeKind::ArrayPattern, "", vec![list(elements.collect(), span)], span)
    }

    fn object_pat(self, object: &ObjectPat) -> Node {
        let span = Span::of(object.span);
        let properties = object.props.iter().map(|prop| {
            let span = Span::of(prop.span());
            match prop {
                ObjectPatProp::KeyValue(pair) => {
                    Node::new(NodeKind::Property, "", vec![self.prop_name(&pair.key), self.pat(&pair.value)], span)
                }
                ObjectPatProp::Assign(short) => {
                    let ident = self.ident(&short.key.id);
                    let value = match &short.value {
                        Some(value) => Node::new(NodeKind::Default, "", vec![ident, self.expr(value)], span),
                        None => ident,
                    };
                    Node::new(
                        NodeKind::Property,
                        "",
                        vec![named(NodeKind::Name, short.key.sym.to_string(), &short.key), value],
                        span,
                    )
                }
                ObjectPatProp::Rest(rest) => Node::new(NodeKind::Rest, "", vec![self.pat(&rest.arg)], span),
            }
        });
        Node::new(NodeKind::ObjectPattern, "", vec![list(properties.collect(), span)], span)
    }

    fn assign_target(self, target: &AssignTarget) -> Node {
        match target {
            AssignTarget::Pat(AssignTargetPat::Array(array)) => self.array_pat(array),
            AssignTarget::Pat(AssignTargetPat::Object(object)) => self.object_pat(object),
            AssignTarget::Simple(SimpleAssignTarget::Ident(binding)) => self.ident(&binding.id),
            AssignTarget::Simple(SimpleAssignTarget::Member(member)) => self.member(member, ""),
            AssignTarget::Simple(SimpleAssignTarget::SuperProp(prop)) => self.super_prop(prop),
            AssignTarget::Simple(SimpleAssignTarget::Paren(paren)) => self.expr(&paren.expr),
            AssignTarget::Simple(SimpleAssignTarget::OptChain(chain)) => self.chain(chain),
            other => self.opaque(other),
        }
    }
}

fn string(value: &Str) -> Node {
    named(NodeKind::Str, value.value.to_string_lossy().into_owned(), value)
}

/// Lowers `a["b"]` to `a.b`.
fn index_or_name(index: Node) -> (NodeKind, Node) {
    match index.kind {
        NodeKind::Str => (NodeKind::Member, Node { kind: NodeKind::Name, ..index }),
        _ => (NodeKind::Index, index),
    }
}

//! Searches a canonical tree for a pattern.

use super::{Pattern, Shape};
use ctxbridge_syntax::{Node, NodeKind, Span};

/// Values of the metavariables, in the order of binding.
#[derive(Clone, Debug, Default)]
pub struct Bindings<'n> {
    bound: Vec<(String, &'n Node)>,
}

impl<'n> Bindings<'n> {
    /// The node a metavariable is bound to.
    pub fn get(&self, name: &str) -> Option<&'n Node> {
        self.bound.iter().find(|(bound, _)| bound == name).map(|(_, node)| *node)
    }

    /// All bindings.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &'n Node)> {
        self.bound.iter().map(|(name, node)| (name.as_str(), *node))
    }
}

/// One place where a pattern matches.
#[derive(Clone, Debug)]
pub struct Match<'n> {
    /// From the first matched unit or expression to the last.
    pub span: Span,
    /// Values of the metavariables.
    pub bindings: Bindings<'n>,
    /// The functions around it, outermost first.
    pub functions: Vec<&'n Node>,
    /// The matched nodes.
    pub nodes: &'n [Node],
}

/// The best attempt that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NearestMiss {
    /// Number of pattern nodes with an equal node in the same place, also after the one that did not match.
    pub alike: usize,
    /// Number of pattern nodes that had matched by then.
    pub matched: usize,
    /// The part of the pattern that did not match, as written.
    pub expected: String,
    /// The code that is there instead.
    pub found: Span,
}

/// A search for one pattern.
pub struct PatternSearch<'p> {
    pattern: &'p Pattern,
    matched: usize,
    /// The furthest point of the current attempt: number of matched nodes, expected span, found span.
    furthest: Option<(usize, Span, Span)>,
    /// The best attempt that failed: the most similar one as a whole, then the one that got furthest.
    nearest: Option<(usize, (usize, Span, Span))>,
}

impl<'p> PatternSearch<'p> {
    /// Creates a search without results.
    pub fn new(pattern: &'p Pattern) -> Self {
        Self { pattern, matched: 0, furthest: None, nearest: None }
    }

    /// Every place below `root` where the pattern matches, given what is already bound.
    pub fn all<'n>(&mut self, root: &'n Node, given: &Bindings<'n>) -> Vec<Match<'n>> {
        let mut found = Vec::new();
        self.visit(root, given, &mut Vec::new(), &mut |found_here| {
            found.push(found_here);
            true
        });
        found
    }

    /// The first place below `root`.
    pub fn first<'n>(&mut self, root: &'n Node, given: &Bindings<'n>) -> Option<Match<'n>> {
        let mut found = None;
        self.visit(root, given, &mut Vec::new(), &mut |found_here| {
            found = Some(found_here);
            false
        });
        found
    }

    /// The best failed attempt of this search; `None` unless it got past the first node.
    pub fn nearest(&self) -> Option<NearestMiss> {
        let (alike, (matched, expected, found)) = self.nearest?;
        Some(NearestMiss { alike, matched, expected: self.pattern.excerpt(expected).to_owned(), found })
    }

    /// Calls `report` with each match until it asks to stop; returns `true` if it never did.
    fn visit<'n>(
        &mut self,
        node: &'n Node,
        given: &Bindings<'n>,
        functions: &mut Vec<&'n Node>,
        report: &mut dyn FnMut(Match<'n>) -> bool,
    ) -> bool {
        let pattern = self.pattern;
        match &pattern.shape {
            Shape::Expr(expr) => {
                let mut bindings = given.clone();
                self.begin();
                if self.node(expr, node, &mut bindings) {
                    let nodes = std::slice::from_ref(node);
                    if !report(Match { span: node.span, bindings, functions: functions.clone(), nodes }) {
                        return false;
                    }
                } else {
                    self.failed(std::slice::from_ref(expr), std::slice::from_ref(node));
                }
            }
            Shape::Units(units) if node.kind == NodeKind::Body => {
                for start in 0..node.kids.len() {
                    let mut bindings = given.clone();
                    self.begin();
                    if let Some(length) = self.run(units, &node.kids[start..], &mut bindings, false) {
                        let nodes = &node.kids[start..start + length];
                        let span = match nodes {
                            [first, .., last] => Span::new(first.span.lo, last.span.hi),
                            [only] => only.span,
                            [] => continue,
                        };
                        if !report(Match { span, bindings, functions: functions.clone(), nodes }) {
                            return false;
                        }
                    } else {
                        self.failed(units, &node.kids[start..]);
                    }
                }
            }
            Shape::Units(_) => {}
        }
        if node.kind.is_function() {
            functions.push(node);
        }
        let all = node.kids.iter().all(|kid| self.visit(kid, given, functions, report));
        if node.kind.is_function() {
            functions.pop();
        }
        all
    }

    fn node<'n>(&mut self, pattern: &'p Node, target: &'n Node, bindings: &mut Bindings<'n>) -> bool {
        let fits = match pattern.kind {
            NodeKind::Metavariable => is_operand(target.kind) && bind(&pattern.text, target, bindings),
            NodeKind::List | NodeKind::Body if pattern.kind == target.kind => {
                return self.run(&pattern.kids, &target.kids, bindings, true).is_some();
            }
            kind => kind == target.kind && same_text(pattern, target) && pattern.kids.len() == target.kids.len(),
        };
        if !fits {
            self.note(pattern.span, target.span);
            return false;
        }
        self.matched += 1;
        pattern.kids.iter().zip(&target.kids).all(|(pattern, target)| self.node(pattern, target, bindings))
    }

    /// Matches a list from its start; if `whole`, also to its end. Returns the number of targets used.
    fn run<'n>(&mut self, patterns: &'p [Node], targets: &'n [Node], bindings: &mut Bindings<'n>, whole: bool) -> Option<usize> {
        let Some((pattern, rest)) = patterns.split_first() else {
            if whole && let Some(extra) = targets.first() {
                self.note(Span::new(u32::MAX, u32::MAX), extra.span);
                return None;
            }
            return Some(0);
        };
        let (matched, bound) = (self.matched, bindings.bound.len());
        if pattern.kind == NodeKind::Ellipsis {
            // Nothing follows: no shorter run is worth a try, and none that failed worth a mention.
            if rest.is_empty() {
                return Some(if whole { targets.len() } else { 0 });
            }
            // The shortest run that lets the rest match; what a longer try bound is taken back.
            for skipped in 0..=targets.len() {
                if let Some(used) = self.run(rest, &targets[skipped..], bindings, whole) {
                    return Some(skipped + used);
                }
                self.matched = matched;
                bindings.bound.truncate(bound);
            }
            return None;
        }
        let (target, behind) = targets.split_first()?;
        let used = if self.node(pattern, target, bindings) { self.run(rest, behind, bindings, whole) } else { None };
        if used.is_none() {
            self.matched = matched;
            bindings.bound.truncate(bound);
        }
        used.map(|used| used + 1)
    }

    fn note(&mut self, expected: Span, found: Span) {
        if self.matched > self.furthest.map_or(0, |(matched, ..)| matched) {
            self.furthest = Some((self.matched, expected, found));
        }
    }

    fn begin(&mut self) {
        self.matched = 0;
        self.furthest = None;
    }

    fn failed(&mut self, patterns: &[Node], targets: &[Node]) {
        let Some(furthest) = self.furthest else { return };
        let likeness = likeness(patterns, targets);
        if self.nearest.is_none_or(|(best, (matched, ..))| (best, matched) < (likeness, furthest.0)) {
            self.nearest = Some((likeness, furthest));
        }
    }
}

/// Number of pattern nodes with an equal node in the same place of a target, also after those that differ. Only for reports: at a
/// place that drifted, the code around the difference is still the same.
fn likeness(patterns: &[Node], targets: &[Node]) -> usize {
    let pairs = patterns.iter().take_while(|pattern| pattern.kind != NodeKind::Ellipsis).zip(targets);
    let alike = pairs.map(|(pattern, target)| {
        let own = match pattern.kind {
            NodeKind::Metavariable => is_operand(target.kind),
            kind => kind == target.kind && same_text(pattern, target),
        };
        usize::from(own) + likeness(&pattern.kids, &target.kids)
    });
    alike.sum()
}

/// `true` if `$NAME` can match this kind: one expression, identifier, name or parameter, but no statement and no list.
pub(super) fn is_operand(kind: NodeKind) -> bool {
    use NodeKind as K;
    !matches!(
        kind,
        K::Absent
            | K::List
            | K::Body
            | K::Property
            | K::Method
            | K::Computed
            | K::Declare
            | K::FunctionDecl
            | K::ClassDecl
            | K::If
            | K::Return
            | K::Throw
            | K::Block
            | K::For
            | K::ForIn
            | K::ForOf
            | K::While
            | K::DoWhile
            | K::Try
            | K::Switch
            | K::Case
            | K::Labeled
            | K::Jump
            | K::Export
            | K::Opaque
            | K::Ellipsis
            | K::Metavariable
    )
}

fn bind<'n>(name: &str, target: &'n Node, bindings: &mut Bindings<'n>) -> bool {
    if name == "_" {
        return true;
    }
    match bindings.get(name) {
        Some(bound) => same(bound, target),
        None => {
            bindings.bound.push((name.to_owned(), target));
            true
        }
    }
}

/// `true` if two nodes are equal; an identifier equals a property's name with the same text.
pub(crate) fn same(one: &Node, other: &Node) -> bool {
    match (one.name(), other.name()) {
        (Some(one), Some(other)) => one == other,
        _ => one == other,
    }
}

fn same_text(pattern: &Node, target: &Node) -> bool {
    pattern.text == target.text || (pattern.kind == NodeKind::Declare && pattern.text == "var")
}

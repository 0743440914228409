/*!
A signature: a pattern and the constraints on its place.

Constraints on one top-level item alone are checked in [`Signature::candidates`]; relations between sites are left to
[`locate`](super::locate).
*/

use std::collections::{BTreeMap, BTreeSet};

use semver::VersionReq;

use super::pattern::{Bindings, CodePatternError, Match, NearestMiss, Pattern, PatternSearch};
use super::schema::{ContextToml, EditRule, SignatureToml};
use super::syntax::{Node, NodeKind, Span};

/// One shape of a site.
#[derive(Debug, Clone)]
pub struct Signature {
    /// Its name within the site.
    pub id: String,
    /// The releases in which the site looks like this.
    pub versions: VersionReq,
    /// Sites that it follows, in the same function.
    pub after: Option<String>,
    /// Sites that it precedes, in the same function.
    pub before: Option<String>,
    /// Sites whose metavariables it shares.
    pub using: Vec<String>,
    pattern: Pattern,
    edited: Pattern,
    inside: Option<Context>,
    contains: Vec<Pattern>,
    looks_like: BTreeMap<String, Pattern>,
    assignable: Vec<String>,
    identifiers: Vec<String>,
    anchors: Vec<String>,
}

#[derive(Debug, Clone)]
struct Context {
    name: String,
    kind: String,
    contains: Vec<Pattern>,
}

/// Errors from compiling a signature.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum SignatureError {
    /// One of its patterns is invalid.
    #[error(transparent)]
    Pattern(#[from] CodePatternError),
    /// `inside` names no context.
    #[error("inside = \"{0}\", but there is no [context.{0}]")]
    NoContext(String),
    /// Nothing leads to it: it would have to be tried on all code.
    #[error(
        "pattern `{0}` has no string or property name that leads to it, and it declares no function that another site names; give it `anchors`"
    )]
    NoAnchor(String),
}

/// State of the text that is searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextForm {
    /// The client as published.
    Original,
    /// The client after the patch's edits.
    Edited,
}

/// A place that fits a signature by itself.
#[derive(Debug, Clone)]
pub struct SiteCandidate {
    /// The matched code.
    pub span: Span,
    /// The top-level item it is in.
    pub item: Span,
    /// The name of the nearest named function around it, or of the matched function.
    pub function: Option<String>,
    /// The innermost function around it.
    pub function_span: Option<Span>,
    /// Values of the metavariables.
    pub bindings: BTreeMap<String, BoundNode>,
}

/// Value of a metavariable.
#[derive(Debug, Clone)]
pub struct BoundNode {
    /// The node, in canonical form; its span is that of the first match.
    pub node: Node,
}

/// A place that fits the pattern, but not the constraints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RejectedMatch {
    /// The matched code.
    pub span: Span,
    /// The constraint that failed, as a clause.
    pub reason: String,
}

/// Results of a signature in one item.
#[derive(Debug, Default)]
pub struct SignatureMatches {
    /// Places that fit.
    pub candidates: Vec<SiteCandidate>,
    /// Places that fit but for a constraint.
    pub rejected: Vec<RejectedMatch>,
    /// The best attempt that failed in the pattern.
    pub nearest: Option<NearestMiss>,
}

impl Signature {
    pub(super) fn compile<'e>(
        toml: SignatureToml,
        contexts: &BTreeMap<String, ContextToml>,
        edits: impl Iterator<Item = &'e EditRule>,
    ) -> Result<Self, SignatureError> {
        let compile = |sources: &[String]| sources.iter().map(|source| Pattern::parse(source)).collect::<Result<Vec<_>, _>>();
        let pattern = Pattern::parse(&toml.pattern)?;
        let mut edited = pattern.clone();
        for edit in edits {
            edited = edited.replacing(&edit.replace, &edit.with)?;
        }
        let inside = match toml.inside {
            None => None,
            Some(name) => {
                let context = contexts.get(&name).ok_or_else(|| SignatureError::NoContext(name.clone()))?;
                Some(Context { name, kind: context.kind.clone(), contains: compile(&context.contains)? })
            }
        };
        let looks_like = toml.looks_like.iter().map(|(name, source)| Ok((name.clone(), Pattern::parse(source)?)));
        let signature = Self {
            id: toml.id,
            versions: toml.versions,
            after: toml.after,
            before: toml.before,
            using: toml.using,
            pattern,
            edited,
            inside,
            contains: compile(&toml.contains)?,
            looks_like: looks_like.collect::<Result<_, CodePatternError>>()?,
            assignable: toml.assignable,
            identifiers: toml.identifiers,
            anchors: toml.anchors,
        };
        if signature.anchors(TextForm::Original).is_empty() && signature.pattern.declared_function().is_none() {
            return Err(SignatureError::NoAnchor(toml.pattern));
        }
        Ok(signature)
    }

    /// The pattern for this form of the text.
    pub fn pattern(&self, form: TextForm) -> &Pattern {
        match form {
            TextForm::Original => &self.pattern,
            TextForm::Edited => &self.edited,
        }
    }

    /// The sites that must be found before this one.
    pub fn depends_on(&self) -> impl Iterator<Item = &String> {
        self.after.iter().chain(&self.before).chain(&self.using)
    }

    /// Words that the item around any match contains literally.
    pub fn anchors(&self, form: TextForm) -> BTreeSet<&str> {
        let around = self.inside.iter().flat_map(|context| &context.contains).chain(&self.contains);
        let words = around.chain([self.pattern(form)]).flat_map(Pattern::anchors);
        words.chain(self.anchors.iter().map(String::as_str)).collect()
    }

    /// `true` if it is found by a name that another site binds, not by its words: it declares a function, and shares names with
    /// that site.
    pub fn is_looked_up(&self) -> bool {
        !self.using.is_empty() && self.pattern.declared_function().is_some()
    }

    /// The places in one item that fit, by the constraints on the item alone.
    pub fn candidates(&self, form: TextForm, item: &Node, item_span: Span) -> SignatureMatches {
        let mut search = PatternSearch::new(self.pattern(form));
        let mut found = SignatureMatches::default();
        for place in search.all(item, &Bindings::default()) {
            match self.examine(place) {
                Ok((place, bindings)) => found.candidates.push(SiteCandidate {
                    span: place.span,
                    item: item_span,
                    function: function_name(&place),
                    function_span: place.functions.last().map(|function| function.span),
                    bindings: bindings.iter().map(|(name, node)| (name.to_owned(), BoundNode { node: node.clone() })).collect(),
                }),
                Err(rejected) => found.rejected.push(rejected),
            }
        }
        found.nearest = search.nearest();
        found
    }

    fn examine<'n>(&self, place: Match<'n>) -> Result<(Match<'n>, Bindings<'n>), RejectedMatch> {
        let span = place.span;
        let reject = |reason: String| RejectedMatch { span, reason };
        let mut bindings = place.bindings.clone();
        for (name, pattern) in &self.looks_like {
            // In the edited form the metavariable may have become the edit.
            let Some(node) = bindings.get(name) else { continue };
            let fits = PatternSearch::new(pattern).all(node, &bindings).iter().any(|found| found.span == node.span);
            if !fits {
                return Err(reject(format!("${name} does not look like `{}`", pattern.source())));
            }
        }
        if let Some(context) = &self.inside {
            let function = place.functions.last().copied();
            let function = function.ok_or_else(|| reject(format!("it is not in a function, let alone a {}", context.name)))?;
            if kind_name(function) != context.kind {
                return Err(reject(format!(
                    "it is in {} {}, not {} {}",
                    article(kind_name(function)),
                    kind_name(function),
                    article(&context.kind),
                    context.kind
                )));
            }
            for pattern in &context.contains {
                let inner = PatternSearch::new(pattern).first(function, &bindings);
                let inner = inner.ok_or_else(|| reject(format!("the function around it has no `{}`", pattern.source())))?;
                bindings = inner.bindings;
            }
        }
        for pattern in &self.contains {
            let inner = place.nodes.iter().find_map(|node| PatternSearch::new(pattern).first(node, &bindings));
            let inner = inner.ok_or_else(|| reject(format!("it has no `{}` in it", pattern.source())))?;
            bindings = inner.bindings;
        }
        for name in &self.identifiers {
            if bindings.get(name).is_some_and(|node| node.kind != NodeKind::Ident) {
                return Err(reject(format!("${name} is no plain name")));
            }
        }
        for name in &self.assignable {
            let (Some(node), Some(function)) = (bindings.get(name), place.functions.last()) else { continue };
            let variable = node.name().ok_or_else(|| reject(format!("${name} is not a variable")))?;
            match declared_as(function, variable).as_deref() {
                None => return Err(reject(format!("`{variable}` (${name}) is not a variable of the function around it"))),
                Some("const" | "using" | "await using") => {
                    return Err(reject(format!("`{variable}` (${name}) is a constant and cannot be assigned to")));
                }
                Some(_) => {}
            }
        }
        Ok((place, bindings))
    }
}

/// `async generator function`, `arrow function` and so on.
fn kind_name(function: &Node) -> &'static str {
    match (function.kind, &*function.text) {
        (NodeKind::Arrow, "async") => "async arrow function",
        (NodeKind::Arrow, _) => "arrow function",
        (_, "async*") => "async generator function",
        (_, "async") => "async function",
        (_, "*") => "generator function",
        _ => "function",
    }
}

fn article(word: &str) -> &'static str {
    if word.starts_with('a') { "an" } else { "a" }
}

fn function_name(place: &Match<'_>) -> Option<String> {
    let own = place.nodes.first().filter(|node| node.kind.is_function());
    let named = |node: &&&Node| node.kind != NodeKind::Arrow && node.kids[0].name().is_some();
    let function = own.or_else(|| place.functions.iter().rev().find(named).copied())?;
    function.kids.first().and_then(Node::name).map(str::to_owned)
}

/// Kind of a variable's declaration in a function: `var`, `let`, `const`, `using`, `param`, `function`, `class`; the strictest of
/// several.
fn declared_as(function: &Node, variable: &str) -> Option<String> {
    let mut kinds = Vec::new();
    let (parameters, body) = match (function.kind, function.kids.as_slice()) {
        (NodeKind::Arrow, [parameters, body]) | (_, [_, parameters, body]) => (parameters, body),
        _ => return None,
    };
    if binds(parameters, variable) {
        kinds.push("param".to_owned());
    }
    declarations(body, variable, &mut kinds);
    kinds.iter().find(|kind| matches!(kind.as_str(), "const" | "using" | "await using")).or(kinds.first()).cloned()
}

fn declarations(node: &Node, variable: &str, kinds: &mut Vec<String>) {
    match node.kind {
        NodeKind::Declare if binds(&node.kids[0], variable) => kinds.push(node.text.to_string()),
        NodeKind::FunctionDecl | NodeKind::ClassDecl if node.kids[0].name() == Some(variable) => {
            kinds.push("function".to_owned())
        }
        NodeKind::Try if binds(&node.kids[1], variable) => kinds.push("param".to_owned()),
        _ => {}
    }
    if !node.kind.is_function() {
        node.kids.iter().for_each(|kid| declarations(kid, variable, kinds));
    }
}

/// `true` if a pattern (in JavaScript's sense) introduces the variable.
fn binds(pattern: &Node, variable: &str) -> bool {
    match pattern.kind {
        NodeKind::Ident => pattern.text == variable,
        NodeKind::Property => binds(&pattern.kids[1], variable),
        NodeKind::Default => binds(&pattern.kids[0], variable),
        NodeKind::List | NodeKind::ObjectPattern | NodeKind::ArrayPattern | NodeKind::Rest => {
            pattern.kids.iter().any(|kid| binds(kid, variable))
        }
        _ => false,
    }
}

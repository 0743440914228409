/*!
Edits for people: a unified diff of the code around them, in readable form.

The client is minified; a diff of its lines would show one line of 100,000 characters. So the function around each edit is
pretty-printed, before and after, and those texts are compared. Printed code is only in the diff: the written file is spliced.
*/

use similar::TextDiff;
use swc_common::sync::Lrc;
use swc_common::{SourceMap, Spanned};
use swc_ecma_ast::{ArrowExpr, FnDecl, FnExpr, ModuleItem};
use swc_ecma_codegen::text_writer::JsWriter;
use swc_ecma_codegen::{Config, Emitter, Node};
use swc_ecma_visit::{Visit, VisitWith};

use super::container::Module;
use super::plan::PlannedChange;
use super::splice::{TextEdit, splice};
use super::syntax::{Goal, Span, for_each_item, for_each_item_in};

/// Lines of context around each change.
const CONTEXT: usize = 3;

/// The unified diff of these changes of a module.
pub fn unified(module: &Module<'_>, changes: &[&PlannedChange]) -> String {
    let mut text = String::new();
    let mut regions: Vec<(Span, Vec<&PlannedChange>)> = Vec::new();
    for change in changes {
        let region = if change.site.is_some() { around(module, change) } else { change.span };
        match regions.iter_mut().find(|(known, _)| *known == region) {
            Some((_, own)) => own.push(change),
            None => regions.push((region, vec![change])),
        }
    }
    regions.sort_by_key(|(region, _)| (region.lo, region.hi));
    for (region, changes) in regions {
        let before = &module.text[region.range()];
        let edits = changes.iter().map(|change| {
            let span = Span::new(change.span.lo - region.lo, change.span.hi - region.lo);
            TextEdit { span, text: change.new.clone() }
        });
        let Ok(after) = splice(before, edits.collect()) else { continue };
        let (line, column) = module.position(region.lo);
        let (before, after) = (pretty(before), pretty(&after));
        let diff = TextDiff::from_lines(&before, &after);
        let place = format!("{} at {line}:{column}", module.name.trim_start_matches('/'));
        text.push_str(
            &diff.unified_diff().context_radius(CONTEXT).header(&format!("a/{place}"), &format!("b/{place}")).to_string(),
        );
    }
    text
}

/// The innermost function around a change, or the whole top-level item.
fn around(module: &Module<'_>, change: &PlannedChange) -> Span {
    let mut innermost = Innermost { change: change.span, found: change.item };
    // The item was parsed to find the site, so it parses again.
    let parsed = for_each_item_in(module.text, change.item, module.goal, &mut |item| item.ast.visit_with(&mut innermost));
    parsed.map_or(change.item, |_| innermost.found)
}

struct Innermost {
    change: Span,
    found: Span,
}

impl Innermost {
    fn offer(&mut self, node: &impl Spanned) {
        let span = Span::of(node.span());
        if span.contains(self.change) && self.found.contains(span) {
            self.found = span;
        }
    }
}

impl Visit for Innermost {
    fn visit_fn_decl(&mut self, node: &FnDecl) {
        self.offer(node);
        node.visit_children_with(self);
    }

    fn visit_fn_expr(&mut self, node: &FnExpr) {
        self.offer(node);
        node.visit_children_with(self);
    }

    fn visit_arrow_expr(&mut self, node: &ArrowExpr) {
        self.offer(node);
        node.visit_children_with(self);
    }
}

/// Pretty-prints code; returns it as it is if it cannot be parsed by itself.
fn pretty(code: &str) -> String {
    print(code).or_else(|| print(&format!("({code})"))).unwrap_or_else(|| format!("{code}\n"))
}

fn print(code: &str) -> Option<String> {
    let mut items: Vec<ModuleItem> = Vec::new();
    for_each_item(code, Goal::Module, |item| items.push(item.ast)).ok()?;
    let map = Lrc::new(SourceMap::default());
    let mut bytes = Vec::new();
    let writer = JsWriter::new(map.clone(), "\n", &mut bytes, None);
    let mut emitter = Emitter { cfg: Config::default(), cm: map, comments: None, wr: writer };
    for item in &items {
        item.emit_with(&mut emitter).ok()?;
    }
    drop(emitter);
    // The emitter knows no comments; the marker at the head of what is injected is the one that matters.
    let comment = if code.starts_with("/*") { code.find("*/").map_or("", |end| &code[..end + 2]) } else { "" };
    let printed = String::from_utf8(bytes).ok()?;
    Some(if comment.is_empty() { printed } else { format!("{comment}\n{printed}") })
}

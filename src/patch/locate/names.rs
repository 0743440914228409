/*!
Resolves names at the top level of modules, also through imports.

The client's executables hold thousands of ES modules, which import from each other by the names that the bundler gave them. A site
in one module may name a function that another one declares.
*/

use std::borrow::Cow;
use std::collections::HashMap;

use swc_ecma_ast::{Decl, DefaultDecl, ExportSpecifier, ImportSpecifier, ModuleDecl, ModuleExportName, ModuleItem, Str};

use crate::container::Container;
use ctxbridge_syntax::{Item, Span, fold_items};

/// Maximum number of modules through which a name is followed; more count as a circle.
const MAX_MODULES_FOLLOWED: usize = 16;

/// The names at the top level of a module.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    functions: HashMap<String, Span>,
    /// Local name → specifier of a module, and the name there.
    imports: HashMap<String, (String, String)>,
    /// Exported name → the exported thing.
    exports: HashMap<String, Export>,
    /// Modules from which everything is exported.
    passed_on: Vec<String>,
}

#[derive(Debug, Clone)]
enum Export {
    Local(String),
    From(String, String),
}

impl Names {
    pub fn add(&mut self, item: &Item<'_>) {
        if let Some(name) = item.function_name() {
            self.functions.insert(name.to_owned(), item.span);
        }
        match &item.ast {
            ModuleItem::ModuleDecl(ModuleDecl::Import(import)) => {
                for specifier in &import.specifiers {
                    let (local, imported) = match specifier {
                        ImportSpecifier::Named(named) => {
                            (&named.local, named.imported.as_ref().map_or_else(|| named.local.sym.to_string(), export_name))
                        }
                        ImportSpecifier::Default(default) => (&default.local, "default".to_owned()),
                        ImportSpecifier::Namespace(_) => continue,
                    };
                    self.imports.insert(local.sym.to_string(), (text(&import.src), imported));
                }
            }
            ModuleItem::ModuleDecl(ModuleDecl::ExportNamed(export)) => {
                for specifier in &export.specifiers {
                    let ExportSpecifier::Named(named) = specifier else { continue };
                    let own = export_name(&named.orig);
                    let exported = named.exported.as_ref().map_or_else(|| own.clone(), export_name);
                    let what = match &export.src {
                        Some(source) => Export::From(text(source), own),
                        None => Export::Local(own),
                    };
                    self.exports.insert(exported, what);
                }
            }
            ModuleItem::ModuleDecl(ModuleDecl::ExportAll(all)) => self.passed_on.push(text(&all.src)),
            ModuleItem::ModuleDecl(ModuleDecl::ExportDecl(export)) => {
                if let Decl::Fn(function) = &export.decl {
                    let name = function.ident.sym.to_string();
                    self.exports.insert(name.clone(), Export::Local(name));
                }
            }
            ModuleItem::ModuleDecl(ModuleDecl::ExportDefaultDecl(export)) => {
                if let DefaultDecl::Fn(function) = &export.decl
                    && let Some(ident) = &function.ident
                {
                    self.exports.insert("default".to_owned(), Export::Local(ident.sym.to_string()));
                }
            }
            // Names that are no function's lead nowhere.
            _ => {}
        }
    }

    /// Adds the names found in later modules.
    pub fn merge(&mut self, later: Self) {
        self.functions.extend(later.functions);
        self.imports.extend(later.imports);
        self.exports.extend(later.exports);
        self.passed_on.extend(later.passed_on);
    }

    /// The names of a module, from `known` or by parsing it.
    fn get<'k>(container: &Container, known: &'k HashMap<usize, Self>, module: usize) -> Option<Cow<'k, Self>> {
        match known.get(&module) {
            Some(names) => Some(Cow::Borrowed(names)),
            None => Self::of(container, module).map(Cow::Owned),
        }
    }

    /// Parses a module and returns its names.
    fn of(container: &Container, module: usize) -> Option<Self> {
        let module = container.module(module).ok()?;
        let parts = fold_items(module.text, module.goal, Self::default, |names, item| names.add(&item)).ok()?;
        let mut all = Self::default();
        parts.into_iter().for_each(|part| all.merge(part));
        Some(all)
    }
}

/// The function behind a top-level name of a module: its module and the place of its declaration. `known` has the names of modules
/// that were parsed already.
pub(super) fn function(container: &Container, known: &HashMap<usize, Names>, module: usize, name: &str) -> Option<(usize, Span)> {
    let (mut module, mut name) = (module, name.to_owned());
    for _ in 0..MAX_MODULES_FOLLOWED {
        let names = Names::get(container, known, module)?;
        if let Some(span) = names.functions.get(&name) {
            return Some((module, *span));
        }
        let (from, exported) = names.imports.get(&name)?;
        (module, name) = exporter(container, known, resolve(container, module, from)?, exported)?;
    }
    None
}

/// The module that declares or imports what a module exports under a name, and its name there.
fn exporter(container: &Container, known: &HashMap<usize, Names>, module: usize, exported: &str) -> Option<(usize, String)> {
    let (mut module, mut exported) = (module, exported.to_owned());
    for _ in 0..MAX_MODULES_FOLLOWED {
        let names = Names::get(container, known, module)?;
        match (names.exports.get(&exported), names.passed_on.as_slice()) {
            (Some(Export::Local(local)), _) => return Some((module, local.clone())),
            (Some(Export::From(from, name)), _) => (module, exported) = (resolve(container, module, from)?, name.clone()),
            // Of several, none is chosen: the site counts as missing, which is said.
            (None, [from]) => module = resolve(container, module, from)?,
            (None, _) => return None,
        }
    }
    None
}

/// The module that a specifier in another module refers to, by its name or a relative path.
fn resolve(container: &Container, from: usize, specifier: &str) -> Option<usize> {
    let by_name = |name: &str| container.modules().position(|module| module.name == name);
    if let Some(relative) = specifier.strip_prefix("./") {
        let importer = container.modules().nth(from)?.name;
        let folder = importer.rsplit_once('/').map_or("", |(folder, _)| folder);
        return by_name(&format!("{folder}/{relative}"));
    }
    by_name(specifier)
}

fn export_name(name: &ModuleExportName) -> String {
    match name {
        ModuleExportName::Ident(ident) => ident.sym.to_string(),
        ModuleExportName::Str(string) => text(string),
    }
}

fn text(string: &Str) -> String {
    string.value.to_string_lossy().into_owned()
}

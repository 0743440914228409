/*!
The catalog of patches, read from `patches/<id>/patch.toml` (format: [`schema`](super::schema)) and
`patches/<id>/runtime.js`.
*/

use std::path::{Path, PathBuf};

use include_dir::{Dir, include_dir};
use semver::{Version, VersionReq};

use super::schema::{EditRule, PatchToml, ReleaseConstant, in_range};
use super::signature::{Signature, SignatureError};
use super::syntax::{Goal, SyntaxError, for_each_item};

static EMBEDDED: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../patches");

/// All known patches.
#[derive(Debug, Clone)]
pub struct Catalog {
    patches: Vec<Patch>,
}

/// One patch.
#[derive(Debug, Clone)]
pub struct Patch {
    /// The name of its folder.
    pub id: String,
    /// One line for people.
    pub title: String,
    /// The releases that it supports.
    pub versions: VersionReq,
    /// Releases among them that it does not support.
    pub except: Vec<Version>,
    /// `true` if it is applied without being named.
    pub default: bool,
    /// Code to inject; see [`Self::runtime_of`].
    pub runtime: Option<Runtime>,
    /// Constants of that code that depend on the release.
    pub constants: Vec<ReleaseConstant>,
    /// Changes at the sites.
    pub edits: Vec<EditRule>,
    /// The sites it needs to find.
    pub sites: Vec<SiteRule>,
}

/// Code that a patch adds.
#[derive(Debug, Clone)]
pub struct Runtime {
    /// The JavaScript, one function declaration.
    pub source: String,
    /// The function's name.
    pub function: String,
    /// It goes before the top-level item that holds this site.
    pub site: String,
}

impl Runtime {
    fn parse(patch: &str, site: String, source: &str) -> Result<Self, CatalogError> {
        let source = source.trim_end().to_owned();
        if !source.is_ascii() {
            return Err(invalid(patch, "runtime.js has to be ASCII: executables keep their modules in Latin-1"));
        }
        let mut functions = Vec::new();
        for_each_item(&source, Goal::Module, |item| functions.push(item.function_name().map(str::to_owned)))
            .map_err(|cause| CatalogError::Runtime { patch: patch.to_owned(), cause })?;
        match functions.as_mut_slice() {
            [Some(function)] => Ok(Self { function: std::mem::take(function), source, site }),
            _ => Err(invalid(patch, "runtime.js has to be one function declaration: it is hoisted, wherever it is put")),
        }
    }
}

impl Patch {
    /// Sets constants of the runtime to other values. Each is a line `const NAME = …;` of it.
    ///
    /// # Errors
    /// If the runtime has no such line.
    pub fn set_constants(&mut self, constants: &[(&str, serde_json::Value)]) -> Result<(), CatalogError> {
        let Some(runtime) = &mut self.runtime else { return Ok(()) };
        match constants.iter().find(|(name, value)| !runtime.set_constant(name, value)) {
            Some((name, _)) => Err(no_constant(&self.id, name)),
            None => Ok(()),
        }
    }

    /// The runtime as it is injected into a release, with the constants of that release.
    pub fn runtime_of(&self, version: Option<&Version>) -> Option<Runtime> {
        let mut runtime = self.runtime.clone()?;
        for constant in self.constants.iter().filter(|constant| version.is_some() && in_range(&constant.versions, version)) {
            runtime.set_constant(&constant.name, &constant.value);
        }
        Some(runtime)
    }
}

impl Runtime {
    /// Sets a constant to another value. Returns `false` if there is none of that name.
    fn set_constant(&mut self, name: &str, value: &serde_json::Value) -> bool {
        let line = format!("const {name} = ");
        let at = self.source.find(&line).map(|at| at + line.len());
        let length = at.and_then(|at| self.source[at..].find(";\n"));
        let (Some(at), Some(length)) = (at, length) else { return false };
        self.source.replace_range(at..at + length, &value.to_string());
        true
    }
}

fn no_constant(patch: &str, name: &str) -> CatalogError {
    invalid(patch, &format!("runtime.js has no line `const {name} = …;`"))
}

/// A place in the client, in all shapes it had so far.
#[derive(Debug, Clone)]
pub struct SiteRule {
    /// Its name, the same in all patches.
    pub name: String,
    /// `true` if the patch cannot be applied without it.
    pub required: bool,
    /// The releases that have it.
    pub versions: VersionReq,
    /// Its shapes.
    pub signatures: Vec<Signature>,
}

/// Errors from reading a catalog or selecting patches.
#[derive(Debug, thiserror::Error)]
pub enum CatalogError {
    /// A file or folder could not be read.
    #[error("cannot read {path}: {cause}")]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// The cause.
        cause: std::io::Error,
    },
    /// There is no patch in it.
    #[error("no patch in {0}: a catalog has a folder with a patch.toml for each patch")]
    Empty(PathBuf),
    /// `patch.toml` is not what it should be.
    #[error("{patch}/patch.toml: {cause}")]
    Toml {
        /// The patch's id.
        patch: String,
        /// The parser's error, with its position.
        cause: Box<toml::de::Error>,
    },
    /// A pattern does not compile.
    #[error("{patch}/patch.toml: site {site}: {cause}")]
    Pattern {
        /// The patch's id.
        patch: String,
        /// The site.
        site: String,
        /// The cause.
        cause: SignatureError,
    },
    /// `runtime.js` is not JavaScript.
    #[error("{patch}/runtime.js: {cause}")]
    Runtime {
        /// The patch's id.
        patch: String,
        /// The parser's error, with its position.
        cause: SyntaxError,
    },
    /// Something else does not fit together.
    #[error("{patch}: {message}")]
    Invalid {
        /// The patch's id.
        patch: String,
        /// The problem.
        message: String,
    },
    /// No patch was named, and there are no default patches.
    #[error("no patch of this catalog is a default one; name one with --patch")]
    NoDefault,
    /// The named patch does not exist.
    #[error("no patch named `{id}`; there are: {}", known.join(", "))]
    Unknown {
        /// The requested id.
        id: String,
        /// The existing ids.
        known: Vec<String>,
    },
}

impl Catalog {
    /// The built-in catalog.
    ///
    /// # Errors
    /// Only if a patch of this build is invalid, which a test excludes.
    pub fn embedded() -> Result<Self, CatalogError> {
        let mut patches = Vec::new();
        for dir in EMBEDDED.dirs() {
            let id = dir.path().to_string_lossy().into_owned();
            let text = |name: &str| EMBEDDED.get_file(dir.path().join(name)).and_then(|file| file.contents_utf8());
            let Some(toml) = text("patch.toml") else { continue };
            patches.push(Patch::parse(&id, toml, text("runtime.js"))?);
        }
        Ok(Self::sorted(patches))
    }

    /// A patch, mutably.
    pub fn patch_mut(&mut self, id: &str) -> Option<&mut Patch> {
        self.patches.iter_mut().find(|patch| patch.id == id)
    }

    /// Reads a folder that has a folder for each patch.
    ///
    /// # Errors
    /// If a file cannot be read or a patch is invalid.
    pub fn load(folder: &Path) -> Result<Self, CatalogError> {
        let fail = |path: &Path, cause| CatalogError::Read { path: path.to_owned(), cause };
        let mut patches = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(|cause| fail(folder, cause))? {
            let path = entry.map_err(|cause| fail(folder, cause))?.path();
            let file = path.join("patch.toml");
            if !file.is_file() {
                continue;
            }
            let toml = std::fs::read_to_string(&file).map_err(|cause| fail(&file, cause))?;
            let file = path.join("runtime.js");
            let runtime = match std::fs::read_to_string(&file) {
                Ok(text) => Some(text),
                Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => None,
                Err(cause) => return Err(fail(&file, cause)),
            };
            let id = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
            patches.push(Patch::parse(&id, &toml, runtime.as_deref())?);
        }
        if patches.is_empty() {
            return Err(CatalogError::Empty(folder.to_owned()));
        }
        Ok(Self::sorted(patches))
    }

    fn sorted(mut patches: Vec<Patch>) -> Self {
        patches.sort_by(|one, other| one.id.cmp(&other.id));
        Self { patches }
    }

    /// Every patch, by id.
    pub fn patches(&self) -> &[Patch] {
        &self.patches
    }

    /// The named patches, or the default ones when none is named.
    ///
    /// # Errors
    /// If a name is unknown.
    pub fn select(&self, ids: &[String]) -> Result<Vec<&Patch>, CatalogError> {
        if ids.is_empty() {
            let patches: Vec<&Patch> = self.patches.iter().filter(|patch| patch.default).collect();
            return if patches.is_empty() { Err(CatalogError::NoDefault) } else { Ok(patches) };
        }
        for id in ids {
            if !self.patches.iter().any(|patch| patch.id == *id) {
                let known = self.patches.iter().map(|patch| patch.id.clone()).collect();
                return Err(CatalogError::Unknown { id: id.clone(), known });
            }
        }
        Ok(self.patches.iter().filter(|patch| ids.contains(&patch.id)).collect())
    }
}

impl Patch {
    fn parse(id: &str, toml: &str, runtime: Option<&str>) -> Result<Self, CatalogError> {
        let patch: PatchToml =
            toml::from_str(toml).map_err(|cause| CatalogError::Toml { patch: id.to_owned(), cause: Box::new(cause) })?;
        let mut sites = Vec::new();
        for site in patch.site {
            let mut signatures = Vec::new();
            for signature in site.signature {
                let fail = |cause| CatalogError::Pattern { patch: id.to_owned(), site: site.name.clone(), cause };
                let edits = patch.edit.iter().filter(|edit| edit.site == site.name && edit.is_for(&signature.id));
                let edits: Vec<&EditRule> = edits.collect();
                signatures.push(Signature::compile(signature, &patch.context, edits.into_iter()).map_err(fail)?);
            }
            sites.push(SiteRule { name: site.name, required: site.required, versions: site.versions, signatures });
        }
        let runtime = match (patch.runtime, runtime) {
            (Some(site), Some(source)) => Some(Runtime::parse(id, site, source)?),
            (None, None) => None,
            (Some(_), None) => return Err(invalid(id, "patch.toml names a site for the runtime, but there is no runtime.js")),
            (None, Some(_)) => {
                return Err(invalid(id, "there is a runtime.js, but patch.toml does not say `runtime = \"SITE\"`"));
            }
        };
        let patch = Self {
            id: id.to_owned(),
            title: patch.title,
            versions: patch.versions,
            except: patch.except,
            default: patch.default,
            runtime,
            constants: patch.constant,
            edits: patch.edit,
            sites,
        };
        patch.check()?;
        Ok(patch)
    }

    /// The site's rule.
    pub fn site(&self, name: &str) -> Option<&SiteRule> {
        self.sites.iter().find(|site| site.name == name)
    }

    /// `true` if the patch supports this release, or if the version is unknown.
    pub fn applies_to(&self, version: Option<&Version>) -> bool {
        let is_excepted = version.is_some_and(|version| self.except.contains(version));
        in_range(&self.versions, version) && !is_excepted
    }

    /// The supported releases, for people.
    pub fn supported(&self) -> String {
        let except = self.except.iter().map(|version| format!(" except {version}"));
        except.fold(self.versions.to_string(), |text, except| text + &except)
    }

    fn check(&self) -> Result<(), CatalogError> {
        let known = |name: &String| match self.site(name) {
            Some(_) => Ok(()),
            None => Err(invalid(&self.id, &format!("there is no site named `{name}`"))),
        };
        self.edits.iter().map(|edit| &edit.site).try_for_each(known)?;
        for edit in &self.edits {
            let has = |id: &String| self.site(&edit.site).is_some_and(|site| site.signatures.iter().any(|own| own.id == *id));
            if let Some(id) = edit.signatures.iter().flatten().find(|id| !has(id)) {
                return Err(invalid(&self.id, &format!("site `{}` has no signature `{id}`", edit.site)));
            }
        }
        self.runtime.iter().map(|runtime| &runtime.site).try_for_each(known)?;
        let mut runtime = self.runtime.clone();
        let mut is_there = |constant: &ReleaseConstant| {
            runtime.as_mut().is_some_and(|runtime| runtime.set_constant(&constant.name, &constant.value))
        };
        if let Some(constant) = self.constants.iter().find(|constant| !is_there(constant)) {
            return Err(no_constant(&self.id, &constant.name));
        }
        for site in &self.sites {
            site.signatures.iter().flat_map(Signature::depends_on).try_for_each(known)?;
        }
        self.sites.iter().try_for_each(|site| self.check_cycle(&site.name, &mut vec![&site.name]))
    }

    fn check_cycle<'s>(&'s self, name: &'s str, path: &mut Vec<&'s String>) -> Result<(), CatalogError> {
        for next in self.site(name).iter().flat_map(|site| &site.signatures).flat_map(Signature::depends_on) {
            if path.contains(&next) {
                return Err(invalid(&self.id, &format!("site `{next}` depends on itself")));
            }
            path.push(next);
            self.check_cycle(next, path)?;
            path.pop();
        }
        Ok(())
    }
}

fn invalid(patch: &str, message: &str) -> CatalogError {
    CatalogError::Invalid { patch: patch.to_owned(), message: message.to_owned() }
}

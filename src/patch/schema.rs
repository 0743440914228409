/*!
Format of `patch.toml`.

```toml
title = "…"                         # one line for people
versions = ">=1.0.60"               # releases of the client the patch is for (semver)
except = ["2.1.64"]                 # (optional) releases in that range that it is not for
default = true                      # applied without being named
runtime = "site.name"               # runtime.js goes before the top-level item that holds this site

[[constant]]                        # in these releases, the line `const NAME = …;` of runtime.js has this value
name = "NAME"
value = 45000                       # whatever JSON can say
versions = "<2.1.25"

[context.NAME]                      # a kind of function that sites can be told to stand in
kind = "async generator function"
contains = ['pattern', …]           # it also contains all of these

[[edit]]                            # at this site, the text bound to $REPLACE becomes the template `with`
site = "site.name"
signatures = ["ID", …]              # (optional) only where one of these signatures found the site
replace = "MESSAGES"
with = "$MESSAGES = f($MESSAGES)"

[[site]]
name = "site.name"
required = true                     # (default) the patch is not applied when the site is missing
versions = "…"                      # releases that have the site; all by default

[[site.signature]]                  # one for each shape the site has had
id = "…"
versions = "…"                      # releases in which it looks like this; decides only where several shapes fit
pattern = "…"                       # see `pattern`
inside = "NAME"                     # the innermost function around it is of this context
contains = ['pattern', …]           # the matched code itself contains all of these
anchors = ["text", …]               # literal text that the item contains, beside the words of the patterns
where = { NAME = "pattern" }        # what a metavariable is bound to looks like this
identifiers = ["NAME"]              # bound to plain names, not to other expressions
assignable = ["NAME"]               # bound to a variable of that function that can be assigned to
after = "site.name"                 # stands behind that site in the same function; `before` likewise
using = ["site.name"]               # metavariables of the same name mean the same thing there and here; edits may read all of them
```

A site with `versions` is not required of a client that does not say its release. `after` and `before` include `using`. A signature
whose pattern declares a function named by a metavariable that another site binds is looked up by that name among the functions of
the module.
*/

use std::collections::BTreeMap;

use semver::{Version, VersionReq};
use serde::Deserialize;

/// A change at a site.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EditRule {
    /// The site.
    pub site: String,
    /// The signatures of the site that it is for; all by default.
    pub signatures: Option<Vec<String>>,
    /// The metavariable whose text is replaced.
    pub replace: String,
    /// The new text. Metavariables in it, of the site and of those it is `using`, are replaced by their text.
    pub with: String,
}

impl EditRule {
    /// `true` if it is made where this signature found the site.
    pub fn is_for(&self, signature: &str) -> bool {
        self.signatures.as_ref().is_none_or(|ids| ids.iter().any(|id| id == signature))
    }
}

/// A constant of the runtime that has another value in some releases.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReleaseConstant {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: serde_json::Value,
    /// The releases; one that is not known is none of them.
    pub versions: VersionReq,
}

/// `true` if a release is in a range; a pre-release counts as the release it precedes.
pub fn in_range(range: &VersionReq, version: Option<&Version>) -> bool {
    version.is_none_or(|version| range.matches(&Version::new(version.major, version.minor, version.patch)))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PatchToml {
    pub title: String,
    pub versions: VersionReq,
    #[serde(default)]
    pub except: Vec<Version>,
    #[serde(default)]
    pub default: bool,
    pub runtime: Option<String>,
    #[serde(default)]
    pub context: BTreeMap<String, ContextToml>,
    #[serde(default)]
    pub constant: Vec<ReleaseConstant>,
    #[serde(default)]
    pub edit: Vec<EditRule>,
    pub site: Vec<SiteToml>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ContextToml {
    pub kind: String,
    #[serde(default)]
    pub contains: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SiteToml {
    pub name: String,
    #[serde(default = "yes")]
    pub required: bool,
    #[serde(default)]
    pub versions: VersionReq,
    pub signature: Vec<SignatureToml>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SignatureToml {
    pub id: String,
    #[serde(default)]
    pub versions: VersionReq,
    pub pattern: String,
    pub inside: Option<String>,
    #[serde(default)]
    pub contains: Vec<String>,
    #[serde(default)]
    pub anchors: Vec<String>,
    #[serde(default, rename = "where")]
    pub looks_like: BTreeMap<String, String>,
    #[serde(default)]
    pub identifiers: Vec<String>,
    #[serde(default)]
    pub assignable: Vec<String>,
    pub after: Option<String>,
    pub before: Option<String>,
    #[serde(default)]
    pub using: Vec<String>,
}

fn yes() -> bool {
    true
}

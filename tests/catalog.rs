//! Catalogs that people write: what is wrong with one is said with the file and the cause, and a right one does what the built-in
//! one does.

use std::fs;

use ctxbridge::patch::catalog::{Catalog, Patch};
use ctxbridge::patch::container::Container;
use ctxbridge::patch::locate::locate;
use ctxbridge::patch::plan::plan;
use ctxbridge::patch::signature::TextForm;
use ctxbridge_testkit::files::source;
use semver::Version;
use tempfile::TempDir;

/// A small catalog that is right.
const PATCH: &str = r#"title = "A test"
versions = ">=1.0.0"
default = true
runtime = "call"

[context.loop]
kind = "async function"
contains = ['"marker"']

[[edit]]
site = "call"
replace = "A"
with = "twice($A)"

[[site]]
name = "call"

[[site.signature]]
id = "plain"
pattern = "work($A)"
inside = "loop"

[[site]]
name = "other"

[[site.signature]]
id = "plain"
pattern = "rest($B)"
anchors = ["rest"]
after = "call"
"#;

const RUNTIME: &str = "function twice(a) { return a + a }\n";

fn catalog(patch: &str, runtime: Option<&str>) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().join("double");
    fs::create_dir(&own).unwrap();
    fs::write(own.join("patch.toml"), patch).unwrap();
    if let Some(runtime) = runtime {
        fs::write(own.join("runtime.js"), runtime).unwrap();
    }
    folder
}

/// The error of a catalog that differs from the right one in one place.
#[track_caller]
fn error(old: &str, new: &str) -> String {
    assert_eq!(PATCH.matches(old).count(), 1, "`{old}` is not there once");
    let folder = catalog(&PATCH.replacen(old, new, 1), Some(RUNTIME));
    Catalog::load(folder.path()).unwrap_err().to_string()
}

#[track_caller]
fn runtime_error(runtime: Option<&str>) -> String {
    Catalog::load(catalog(PATCH, runtime).path()).unwrap_err().to_string()
}

#[test]
fn the_small_catalog_is_right() {
    let folder = catalog(PATCH, Some(RUNTIME));
    let catalog = Catalog::load(folder.path()).unwrap();
    let patches = catalog.select(&[]).unwrap();
    assert_eq!(patches.len(), 1);
    let container = Container::open("a.js", b"async function f(x){log('marker');g(work(x)),rest(1)}".to_vec()).unwrap();
    let plan = plan(&container, &patches, None, "0").unwrap();
    let text = &plan.modules[0].text;
    assert!(
        text.ends_with("*/function twice(a) { return a + a }async function f(x){log('marker');g(work(twice(x))),rest(1)}"),
        "{text}"
    );
}

#[test]
fn a_constant_depends_on_the_release() {
    let constant = "default = true\n[[constant]]\nname = 'N'\nvalue = 3\nversions = '<1.2.0'\n";
    let patch =
        PATCH.replacen("runtime = \"call\"\n", "", 1).replacen("default = true", &format!("runtime = \"call\"\n{constant}"), 1);
    let folder = catalog(&patch, Some("function twice(a) {\n  const N = 2;\n  return a * N }\n"));
    let catalog = Catalog::load(folder.path()).unwrap();
    for (version, value) in [(Some("1.1.9"), 3), (Some("1.2.0"), 2), (None, 2)] {
        let version = version.map(|version| Version::parse(version).unwrap());
        let runtime = catalog.select(&[]).unwrap()[0].runtime_of(version.as_ref()).unwrap().source;
        assert!(runtime.contains(&format!("const N = {value};")), "{runtime}");
    }
    insta::assert_snapshot!(error("[context.loop]", "[[constant]]\nname = 'N'\nvalue = 3\nversions = '*'\n[context.loop]"),
        @"double: runtime.js has no line `const N = …;`");
}

#[test]
fn toml_that_is_none_is_shown_with_its_line() {
    insta::assert_snapshot!(error("title = \"A test\"", "title = A test"), @r#"
    double/patch.toml: TOML parse error at line 1, column 9
      |
    1 | title = A test
      |         ^^^^^^
    string values must be quoted, expected literal string
    "#);
}

#[test]
fn keys_that_mean_nothing_are_refused() {
    insta::assert_snapshot!(error("default = true", "defualt = true"), @r#"
    double/patch.toml: TOML parse error at line 3, column 1
      |
    3 | defualt = true
      | ^^^^^^^
    unknown field `defualt`, expected one of `title`, `versions`, `except`, `default`, `runtime`, `context`, `constant`, `edit`, `site`
    "#);
    insta::assert_snapshot!(error("replace = \"A\"", "replaces = \"A\""), @r#"
    double/patch.toml: TOML parse error at line 12, column 1
       |
    12 | replaces = "A"
       | ^^^^^^^^
    unknown field `replaces`, expected one of `site`, `signatures`, `replace`, `with`
    "#);
    insta::assert_snapshot!(error("kind = \"async function\"", "kind = \"async function\"\ncontain = []"), @r#"
    double/patch.toml: TOML parse error at line 8, column 1
      |
    8 | contain = []
      | ^^^^^^^
    unknown field `contain`, expected `kind` or `contains`
    "#);
    insta::assert_snapshot!(error("name = \"other\"", "name = \"other\"\noptional = true"), @r#"
    double/patch.toml: TOML parse error at line 25, column 1
       |
    25 | optional = true
       | ^^^^^^^^
    unknown field `optional`, expected one of `name`, `required`, `versions`, `signature`
    "#);
    insta::assert_snapshot!(error("inside = \"loop\"", "inside = \"loop\"\nwithin = \"loop\""), @r#"
    double/patch.toml: TOML parse error at line 22, column 1
       |
    22 | within = "loop"
       | ^^^^^^
    unknown field `within`, expected one of `id`, `versions`, `pattern`, `inside`, `contains`, `anchors`, `where`, `identifiers`, `assignable`, `after`, `before`, `using`
    "#);
}

#[test]
fn what_is_needed_is_asked_for() {
    insta::assert_snapshot!(error("versions = \">=1.0.0\"", ""), @r#"
    double/patch.toml: TOML parse error at line 1, column 1
      |
    1 | title = "A test"
      | ^
    missing field `versions`
    "#);
    insta::assert_snapshot!(error("versions = \">=1.0.0\"", "versions = \"newer than 1\""), @r#"
    double/patch.toml: TOML parse error at line 2, column 12
      |
    2 | versions = "newer than 1"
      |            ^^^^^^^^^^^^^^
    unexpected character 'n' while parsing major version number
    "#);
    insta::assert_snapshot!(error("pattern = \"work($A)\"", ""), @r#"
    double/patch.toml: TOML parse error at line 18, column 1
       |
    18 | [[site.signature]]
       | ^^^^^^^^^^^^^^^^^^
    missing field `pattern`
    "#);
}

#[test]
fn sites_that_are_not_there_are_named() {
    insta::assert_snapshot!(error("site = \"call\"", "site = \"cal\""), @r#"double: there is no site named `cal`"#);
    insta::assert_snapshot!(error("runtime = \"call\"", "runtime = \"cal\""), @r#"double: there is no site named `cal`"#);
    insta::assert_snapshot!(error("after = \"call\"", "after = \"cal\""), @r#"double: there is no site named `cal`"#);
    insta::assert_snapshot!(error("after = \"call\"", "before = \"cal\""), @r#"double: there is no site named `cal`"#);
    insta::assert_snapshot!(error("after = \"call\"", "using = [\"cal\"]"), @r#"double: there is no site named `cal`"#);
}

#[test]
fn sites_that_depend_on_themselves_are_named() {
    insta::assert_snapshot!(error("inside = \"loop\"", "inside = \"loop\"\nbefore = \"other\""), @r#"double: site `call` depends on itself"#);
    insta::assert_snapshot!(error("after = \"call\"", "using = [\"other\"]"), @r#"double: site `other` depends on itself"#);
}

#[test]
fn patterns_that_do_not_compile_are_shown() {
    insta::assert_snapshot!(error("work($A)", "work($A"), @r#"double/patch.toml: site call: pattern `work($A` is not JavaScript: line 2, column 1: Expected ',', got '}'"#);
    insta::assert_snapshot!(error("work($A)", ";"), @r#"double/patch.toml: site call: pattern `;` matches nothing: it has no statement or expression"#);
    insta::assert_snapshot!(error("contains = ['\"marker\"']", "contains = ['\"marker']"), @r#"double/patch.toml: site call: pattern `"marker` is not JavaScript: line 1, column 1: Unterminated string constant"#);
    insta::assert_snapshot!(error("inside = \"loop\"", "where = { A = \"]\" }"), @r#"double/patch.toml: site call: pattern `]` is not JavaScript: line 1, column 1: Expression expected"#);
    insta::assert_snapshot!(error("with = \"twice($A)\"", "with = \"twice($A\""), @r#"double/patch.toml: site call: pattern `work(twice($A)` is not JavaScript: line 2, column 1: Expected ',', got '}'"#);
}

#[test]
fn names_that_are_not_there_are_named() {
    insta::assert_snapshot!(error("inside = \"loop\"", "inside = \"lop\""), @r#"double/patch.toml: site call: inside = "lop", but there is no [context.lop]"#);
    insta::assert_snapshot!(error("replace = \"A\"", "replace = \"B\""), @r#"double/patch.toml: site call: pattern `work($A)` has no metavariable $B"#);
}

/// Such a signature would be tried on nothing, and matching nowhere would look like drift.
#[test]
fn a_pattern_that_nothing_leads_to_is_refused() {
    insta::assert_snapshot!(error("anchors = [\"rest\"]", ""), @r#"double/patch.toml: site other: pattern `rest($B)` has no string or property name that leads to it, and it declares no function that another site names; give it `anchors`"#);
}

#[test]
fn a_runtime_that_cannot_be_injected_is_refused() {
    insta::assert_snapshot!(runtime_error(Some("function twice(a) { return 'é' }")), @r#"double: runtime.js has to be ASCII: executables keep their modules in Latin-1"#);
    insta::assert_snapshot!(runtime_error(Some("function twice(a) { return a + }")), @r#"double/runtime.js: line 1, column 32: Expression expected"#);
    insta::assert_snapshot!(runtime_error(Some("const twice = a => a + a;")), @r#"double: runtime.js has to be one function declaration: it is hoisted, wherever it is put"#);
    insta::assert_snapshot!(runtime_error(Some("function one() {} function two() {}")), @r#"double: runtime.js has to be one function declaration: it is hoisted, wherever it is put"#);
    insta::assert_snapshot!(runtime_error(None), @r#"double: patch.toml names a site for the runtime, but there is no runtime.js"#);
    insta::assert_snapshot!(error("runtime = \"call\"", ""), @r#"double: there is a runtime.js, but patch.toml does not say `runtime = "SITE"`"#);
}

#[test]
fn a_folder_without_patches_is_no_catalog() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("eras.toml"), "").unwrap();
    fs::create_dir(folder.path().join("empty")).unwrap();
    let error = Catalog::load(folder.path()).unwrap_err().to_string();
    let expected = "a catalog has a folder with a patch.toml for each patch";
    assert_eq!(error, format!("no patch in {}: {expected}", folder.path().display()));
    let missing = folder.path().join("nowhere");
    let error = Catalog::load(&missing).unwrap_err().to_string();
    assert!(error.starts_with(&format!("cannot read {}: ", missing.display())), "{error}");
}

#[test]
fn a_patch_that_is_not_there_is_named_with_those_that_are() {
    let error = Catalog::embedded().unwrap().select(&["text-prune".to_owned()]).unwrap_err();
    let expected = "no patch named `text-prune`; there are: aggressive-text-prune, microcompact-thresholds, precompact-gate";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn the_embedded_catalog_is_the_one_in_the_sources() {
    let [embedded, loaded] = [Catalog::embedded().unwrap(), Catalog::load(&source("patches")).unwrap()];
    let ids = |catalog: &Catalog| catalog.patches().iter().map(|patch| patch.id.clone()).collect::<Vec<_>>();
    assert_eq!(ids(&embedded), ["aggressive-text-prune", "microcompact-thresholds", "precompact-gate"]);
    assert_eq!(ids(&embedded), ids(&loaded));
    let default = |catalog: &Catalog| catalog.select(&[]).unwrap().iter().map(|patch| patch.id.clone()).collect::<Vec<_>>();
    assert_eq!(default(&embedded), ["aggressive-text-prune"]);
    assert_eq!(default(&embedded), default(&loaded));

    for name in ["e1a", "e1b", "e2", "e3a", "e3b", "e4a", "e4b", "e4c", "e4d", "e5/chunk-b7q0n3xw", "e5/chunk-h5w3k1ze"] {
        let text = fs::read_to_string(source(&format!("fixtures/cli-js/{name}.js"))).unwrap();
        let version = text.lines().find_map(|line| line.strip_prefix("// Version: ")).unwrap().parse().ok();
        let container = Container::open("cli.js", text.into_bytes()).unwrap();
        let [one, other] = [&embedded, &loaded].map(|catalog| {
            let patches: Vec<&Patch> = catalog.patches().iter().collect();
            let located = locate(&container, &patches, version.as_ref(), TextForm::Original).unwrap();
            let sites = located.sites.iter().map(|site| (site.site.clone(), site.signature.clone(), site.span, site.names()));
            sites.collect::<Vec<_>>()
        });
        assert_eq!(one, other, "{name}");
        assert!(one.iter().any(|(site, ..)| site == "autocompact.call"), "{name}");
    }
}

//! Sites are found where they are, in whatever module, and told by the bytes of the file.

use ctxbridge::patch::catalog::{Catalog, Patch};
use ctxbridge::patch::locate::{Excerpts, Located, locate};
use ctxbridge::patch::signature::TextForm;
use serde_json::Value;

use crate::native::builder::{Graph, Module, latin1};
use crate::native::client::{CODE, Installation, LOOPS, WHOLE, arm64, chunks, everywhere, name_of, open, reading, whole, x64};

fn located(file: &[u8]) -> Located {
    let container = open(file);
    let version = container.stated_version().unwrap().parse().unwrap();
    let catalog = Catalog::embedded().unwrap();
    let patches: Vec<&Patch> = catalog.patches().iter().filter(|patch| patch.applies_to(Some(&version))).collect();
    let located = locate(&container, &patches, Some(&version), TextForm::Original).unwrap();
    let excerpts = Excerpts::of(&container);
    let missing: Vec<String> = located.missing.iter().map(|missing| excerpts.reason(missing)).collect();
    assert!(missing.is_empty(), "{missing:?}");
    located
}

/// Site, module, and the code that it begins with, which is once in that module.
type Expected = (&'static str, String, &'static str);

fn definition(site: &'static str, code: &'static str) -> Expected {
    (site, name_of("chunk-c4ht61qz"), code)
}

fn expected(loop_chunk: &str) -> Vec<Expected> {
    let (call, deps) = match loop_chunk {
        "chunk-b7q0n3xw" => ("Stt=yield*te.autocompact(ke,", "return{callModel:cLm,autocompact:aUt,"),
        "chunk-x2f9c8ta" => ("S=wW.autocompact(jU,", "return{callModel:cLm,autocompact:aUt,"),
        _ => ("S=(B?sTd:Gd.autocompact)(Fm,", "return{callModel:wRp(cLm),autocompact:aUt,"),
    };
    let name = name_of(loop_chunk);
    vec![
        ("autocompact.call", name.clone(), call),
        ("compaction.deps", name, deps),
        definition("autocompact.definition", "async function*aUt("),
        definition("autocompact.parameter", "async function*aUt("),
        definition("autocompact.estimate", "async function oKu("),
    ]
}

/// The offset that the code has among the bytes of its module, in the file.
fn offset(file: &[u8], module: &str, code: &[u8]) -> usize {
    let contents = &reading(file).module(module).contents.clone();
    let found: Vec<usize> = (0..contents.len()).filter(|at| contents[*at..].starts_with(code)).collect();
    assert_eq!(found.len(), 1, "{} is not once in {module}", String::from_utf8_lossy(code));
    found[0]
}

#[test]
fn sites_are_found_across_chunks_and_their_offsets_are_those_of_bytes() {
    for loop_chunk in LOOPS {
        let file = arm64(&chunks(loop_chunk));
        // A character that takes two bytes in UTF-8 and one here stands before.
        assert!(reading(&file).modules[CODE].contents.contains(&0xa7));
        let located = located(&file);
        let found: Vec<&str> = located.sites.iter().map(|site| site.site.as_str()).collect();
        let expected = expected(loop_chunk);
        assert_eq!(found, expected.iter().map(|(site, ..)| *site).collect::<Vec<_>>());
        for (site, (_, module, code)) in located.sites.iter().zip(&expected) {
            assert_eq!(&site.module_name, module, "{}", site.site);
            assert_eq!(site.offset, offset(&file, module, &latin1(code)), "{}", site.site);
        }
    }
}

#[test]
fn sites_are_the_same_in_every_kind_of_file() {
    let graph = chunks(LOOPS[2]);
    let plain = located(&arm64(&graph));
    for (kind, file) in everywhere(&graph) {
        let located = located(&file);
        for (site, plain) in located.sites.iter().zip(&plain.sites) {
            assert_eq!(
                (site.module, site.span, site.offset, site.names()),
                (plain.module, plain.span, plain.offset, plain.names()),
                "{kind}"
            );
        }
    }
}

/// In a CommonJS module, offsets, lines and columns count from the start of the module, not of what is in the wrapper.
#[test]
fn sites_in_a_wrapper_are_told_by_the_module_around_it() {
    for name in WHOLE {
        let file = x64(&whole(name));
        let located = located(&file);
        let call = located.sites.iter().find(|site| site.site == "autocompact.call").unwrap();
        let contents = reading(&file).modules[CODE].contents.clone();
        let before = &contents[..call.offset];
        assert!(contents[call.offset..].windows(12).take(80).any(|code| code == b".autocompact"), "{name}");
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        let column = before.iter().rev().take_while(|byte| **byte != b'\n').count() + 1;
        assert_eq!((call.line as usize, call.column as usize), (line, column), "{name}");
    }
}

/// As above, when a character that is one byte in the file stands on the very line.
#[test]
fn columns_count_characters() {
    let mut graph = chunks(LOOPS[0]);
    let contents = &graph.modules[CODE].contents;
    let at = contents.windows(13).position(|code| code == b"let{hostNotes").unwrap();
    graph.modules[CODE].contents.splice(at..at, *b"\"\xe9\xe8\xff\";");
    let file = arm64(&graph);
    let located = located(&file);
    let call = &located.sites[0];
    assert_eq!(call.offset, offset(&file, "chunk-b7q0n3xw.js", b"Stt=yield*te.autocompact(ke,"));
    let contents = reading(&file).modules[CODE].contents.clone();
    let column = contents[..call.offset].iter().rev().take_while(|byte| **byte != b'\n').count() + 1;
    assert_eq!(call.column as usize, column);
}

#[test]
fn offsets_in_a_module_of_utf_8_are_those_of_its_bytes() {
    let mut graph = chunks(LOOPS[1]);
    graph.modules[CODE] = graph.modules[CODE].clone().utf8();
    let file = arm64(&graph);
    assert!(reading(&file).modules[CODE].contents.windows(2).any(|bytes| bytes == "§".as_bytes()));
    let call = &located(&file).sites[0];
    assert_eq!(call.offset, offset(&file, "chunk-x2f9c8ta.js", b"S=wW.autocompact(jU,"));
}

fn replaced(graph: &mut Graph, module: usize, old: &str, new: &str) {
    let contents = &mut graph.modules[module].contents;
    let at = contents.windows(old.len()).position(|code| code == old.as_bytes()).unwrap_or_else(|| panic!("no {old}"));
    contents.splice(at..at + old.len(), new.bytes());
}

/// The loop may import the definition from a module that only passes it on, by another name, or as its default.
#[test]
fn definitions_are_followed_through_modules_that_pass_them_on() {
    let import = r#"import{aUt}from"/$bunfs/root/chunk-c4ht61qz.js""#;
    let from = r#"from"/$bunfs/root/chunk-c4ht61qz.js";"#;
    for (imported, passed_on) in [
        ("import{aUt}", format!("export{{aUt}}{from}")),
        ("import{aUt}", format!("export*{from}")),
        ("import{zQq as aUt}", format!("export{{aUt as zQq}}{from}")),
        ("import{zQq as aUt}", format!("import{{aUt as bRr}}{from}export{{bRr as zQq}};")),
        ("import aUt ", format!("export{{aUt as default}}{from}")),
    ] {
        let mut graph = chunks(LOOPS[2]);
        replaced(&mut graph, CODE, import, &format!(r#"{imported}from"/$bunfs/root/chunk-passedon.js""#));
        graph.modules.push(Module::es("chunk-passedon.js", &format!("// @bun @bytecode\n{passed_on}")));
        let located = located(&arm64(&graph));
        let site = located.sites.iter().find(|site| site.site == "autocompact.definition").unwrap();
        assert_eq!(site.module_name, name_of("chunk-c4ht61qz"), "{passed_on}");
    }
}

#[test]
fn a_definition_that_leads_nowhere_is_missing() {
    let mut graph = chunks(LOOPS[2]);
    replaced(&mut graph, CODE, r#"{aUt}from"/$bunfs/root/chunk-c4ht61qz.js""#, r#"{aUt}from"/$bunfs/root/chunk-gone.js""#);
    let installation = Installation::of(&arm64(&graph));
    let answer = installation.json(&["locate", "--json"], 1);
    assert_eq!(answer["missing"][0]["site"], "autocompact.definition");
    assert!(answer["missing"][0]["reason"].as_str().unwrap().contains("`aUt`, which no module declares"), "{answer}");
    let before = installation.bytes();
    let error = installation.try_apply(false).unwrap_err().to_string();
    assert!(error.contains("site autocompact.definition was not found"), "{error}");
    assert_eq!(installation.bytes(), before);
}

#[test]
fn the_command_tells_module_and_byte() {
    let graph = chunks(LOOPS[2]);
    let file = arm64(&graph);
    let installation = Installation::of(&file);
    let answer = installation.json(&["locate", "--json"], 0);
    assert_eq!((&answer["kind"], &answer["version"]), (&Value::from("bun_elf"), &Value::from("2.1.399")));
    for (site, (name, module, code)) in answer["sites"].as_array().unwrap().iter().zip(expected(LOOPS[2])) {
        assert_eq!((&site["site"], &site["module"]), (&Value::from(name), &Value::from(module.clone())));
        assert_eq!(site["offset"], offset(&file, &module, &latin1(code)));
    }
    let (code, text, _) = installation.run(&["locate"]);
    assert_eq!(code, Some(0));
    assert!(text.contains("autocompact.call") && text.contains("chunk-h5w3k1ze.js:") && text.contains("in yG"), "{text}");
}

#[test]
fn of_a_patched_client_the_sites_are_the_originals() {
    for graph in [chunks(LOOPS[1]), whole("e4d")] {
        let installation = Installation::of(&arm64(&graph));
        let before = installation.json(&["locate", "--json"], 0);
        installation.apply();
        let after = installation.json(&["locate", "--json"], 0);
        assert_eq!(after["sites"], before["sites"]);
        assert_ne!(after["sha256"], before["sha256"]);
    }
}

//! Files of every kind, read and written with other modules, without anything of the client in them.

use ctxbridge::patch::container::{Container, ContainerError, ContainerKind, RewrittenModule};
use proptest::prelude::*;

use crate::native::builder::{Bytecode, Elf, Graph, Module, Reading, X86_64, bun_of_elf};
use crate::native::client::{everywhere, open, whole};

/// Modules of each kind, with all that can belong to them; the ones in between are no JavaScript.
fn graph() -> Graph {
    let mut graph = Graph::new(vec![
        Module::es("one.js", "// é\nexport{a};").with_bytecode(Bytecode::Shared(0)),
        Module::file("two.node", b"\0\xff\0"),
        Module::common_js("three.js", "\u{ff}b()").with_bytecode(Bytecode::Own(vec![3; 200])),
        Module { loader: 9, ..Module::es("four.css", "p{}") },
        Module { info: vec![5; 9], bytecode: Bytecode::Shared(100), ..Module::es("five.js", "c-d").utf8() },
        Module { format: crate::native::builder::COMMON_JS, ..Module::es("six.js", "not wrapped") },
        Module::es("seven.js", ""),
    ]);
    graph.shared = vec![0xbc; 500];
    graph.entry_point = 2;
    graph.argv = b"--argument".to_vec();
    graph.junk = vec![0xee; 13];
    graph.sorted = true;
    graph
}

/// The modules of JavaScript in that graph, by their places in it.
const SCRIPTS: [usize; 4] = [0, 2, 4, 6];

fn texts() -> impl Strategy<Value = Vec<Option<String>>> {
    let text = prop_oneof![
        "[ -~é§\u{80}-\u{ff}\n]{0,40}",
        (0..9000_usize).prop_map(|length| "x".repeat(length)),
        (4080..4112_usize).prop_map(|length| "é".repeat(length)),
    ];
    prop::collection::vec(prop::option::of(text), SCRIPTS.len())
}

fn edits(texts: &[Option<String>]) -> Vec<RewrittenModule> {
    let texts = texts.iter().enumerate();
    texts.filter_map(|(module, text)| Some(RewrittenModule { module, text: text.clone()? })).collect()
}

fn written(container: &Container, modules: &[RewrittenModule]) -> Vec<u8> {
    let pieces = container.finish(container.rewrite(modules).unwrap()).unwrap();
    pieces.to_bytes(container.source())
}

#[test]
fn modules_are_the_code_in_them() {
    for (kind, file) in everywhere(&graph()) {
        let container = open(&file);
        assert_eq!(container.kind(), kind);
        let names: Vec<&str> = container.modules().map(|module| module.name.rsplit('/').next().unwrap()).collect();
        assert_eq!(names, ["one.js", "three.js", "five.js", "seven.js"]);
        let texts: Vec<&str> = (0..4).map(|module| container.module(module).unwrap().text).collect();
        assert_eq!(texts, ["// é\nexport{a};", "\u{ff}b()", "c-d", ""]);
        // Without the wrapper, which ends the line it is on.
        assert_eq!(container.module(1).unwrap().position(0), (2, 61));
        for raw in container.modules() {
            assert_eq!(&file[raw.start..raw.start + raw.bytes.len()], raw.bytes, "{}", raw.name);
        }
    }
}

#[test]
fn a_file_rewritten_with_no_edits_is_the_same() {
    for old in [false, true] {
        let graph = Graph { entry_size: if old { 36 } else { 52 }, ..graph() };
        for (kind, file) in everywhere(&graph) {
            assert_eq!(written(&open(&file), &[]), file, "{kind}");
        }
    }
}

/// A text that is what it was is an edit all the same: what was compiled of it is gone, and nothing has grown.
#[test]
fn a_module_with_its_own_text_grows_nothing() {
    for (kind, file) in everywhere(&graph()) {
        let container = open(&file);
        let text = container.module(1).unwrap().text.to_owned();
        let new = written(&container, &[RewrittenModule { module: 1, text }]);
        if kind == ContainerKind::BunElf {
            assert_eq!(new.len(), file.len());
        }
        assert!(container.compare(&open(&new), &[1]).is_ok());
        assert!(container.compare(&open(&new), &[]).is_err(), "that the bytecode is gone goes unnoticed");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ctxbridge_testkit::share_of(200), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_edited_the_rest_is_as_it_was(texts in texts(), old in any::<bool>(), sorted in any::<bool>()) {
        let mut graph = Graph { entry_size: if old { 36 } else { 52 }, sorted, ..graph() };
        if !sorted {
            graph.junk.clear();
        }
        let section = graph.section();
        let before = Reading::of(&section, graph.entry_size);
        for (kind, file) in everywhere(&graph) {
            let container = open(&file);
            let modules = edits(&texts);
            let new = written(&container, &modules);
            if modules.is_empty() {
                prop_assert!(new == file);
                continue;
            }
            let edited: Vec<usize> = modules.iter().map(|module| module.module).collect();
            let patched = Container::open("", new.clone()).unwrap();
            let compared = container.compare(&patched, &edited);
            prop_assert!(compared.is_ok(), "{}: {:?}", kind, compared);
            for (module, text) in texts.iter().enumerate() {
                let original = container.module(module).unwrap().text;
                prop_assert_eq!(patched.module(module).unwrap().text, text.as_deref().unwrap_or(original));
            }
            let injected: usize = modules.iter().map(|module| module.text.len()).sum();
            // Of Mach-O also what is left of a page of 16 KB, and the signature's hashes.
            let slack = if kind == ContainerKind::BunMacho { 4 * 4096 + 2048 } else { 512 };
            prop_assert!(new.len() <= file.len() + injected + 4096 * modules.len() + slack, "{}: {} to {}", kind, file.len(), new.len());
            if kind == ContainerKind::BunElf {
                prop_assert_eq!(new.len() % 4096, file.len() % 4096);
                let after = Reading::of(&new[bun_of_elf(&new)], graph.entry_size);
                prop_assert_eq!((&after.argv, after.flags, after.entry_point), (&before.argv, before.flags, before.entry_point));
                for (index, (before, after)) in before.modules.iter().zip(&after.modules).enumerate() {
                    let script = SCRIPTS.iter().position(|script| *script == index);
                    if script.is_some_and(|script| texts[script].is_some()) {
                        prop_assert!(after.bytecode.is_empty() && after.info.is_empty());
                    } else {
                        prop_assert_eq!((&before.contents, &before.bytecode, &before.info), (&after.contents, &after.bytecode, &after.info));
                    }
                }
            }
        }
    }
}

#[test]
fn what_differs_is_said() {
    let graph = graph();
    let file = Elf::new(X86_64).build(&graph.section());
    let original = open(&file);
    let differs = |change: &dyn Fn(&mut Graph)| {
        let mut other = graph.clone();
        change(&mut other);
        original.compare(&open(&Elf::new(X86_64).build(&other.section())), &[0]).unwrap_err()
    };
    assert_eq!(differs(&|graph| graph.modules[1].contents[0] = 9), "the modules: not the original's bytes");
    assert_eq!(differs(&|graph| graph.modules[4].contents[0] = b'd'), "the modules: not the original's bytes");
    assert_eq!(differs(&|graph| graph.modules[4].info[0] = 6), "the modules: not the original's bytes");
    assert_eq!(differs(&|graph| graph.shared[499] = 0), "the modules: not the original's bytes");
    assert_eq!(differs(&|graph| graph.modules[0].name.replace_range(..1, "_")), "the modules: not the original's bytes");
    assert_eq!(differs(&|graph| graph.modules[2].source_map = vec![1]), "the module /$bunfs/root/three.js has other sizes");
    assert_eq!(differs(&|graph| graph.modules[6].format = 0), "the module /$bunfs/root/seven.js has another format");
    assert_eq!(differs(&|graph| graph.modules[6].side = 1), "the module /$bunfs/root/seven.js has another format");
    assert_eq!(differs(&|graph| graph.argv[0] = b'+'), "the arguments: not the original's bytes");
    assert_eq!(differs(&|graph| graph.entry_point = 0), "it does not hold the same modules");
    assert_eq!(differs(&|graph| graph.flags ^= 1), "it does not hold the same modules");
    assert_eq!(differs(&|graph| drop(graph.modules.pop())), "it does not hold the same modules");
    // What is edited may be another.
    let mut other = graph.clone();
    other.modules[0].contents.fill(b';');
    assert_eq!(
        original.compare(&open(&Elf::new(X86_64).build(&other.section())), &[0]).unwrap(),
        "6 other modules and 7 other sections are the original's"
    );
    // Outside of the graph.
    let section = |at: usize| {
        let mut other = file.clone();
        other[at] ^= 1;
        original.compare(&open(&other), &[]).unwrap_err()
    };
    assert_eq!(section(0x1000), ".data: not the original's bytes");
    assert_eq!(section(0x43f), ".text: not the original's bytes");
}

#[test]
fn a_character_that_latin_1_lacks_is_refused() {
    let container = open(&Elf::new(X86_64).build(&graph().section()));
    let text = "thread: \u{1f9f5}".to_owned();
    let error = container.rewrite(&[RewrittenModule { module: 0, text: text.clone() }]).unwrap_err();
    assert_eq!(error, ContainerError::NotLatin1 { module: "/$bunfs/root/one.js".to_owned(), character: '\u{1f9f5}' });
    // UTF-8 has it.
    let new = written(&container, &[RewrittenModule { module: 2, text: text.clone() }]);
    assert_eq!(open(&new).module(2).unwrap().text, text);
}

#[test]
fn a_module_that_says_it_is_utf_8_and_is_not_is_told() {
    let mut graph = graph();
    graph.modules[4].contents[1] = 0xff;
    let container = open(&Elf::new(X86_64).build(&graph.section()));
    let error = container.module(2).unwrap_err();
    assert_eq!(error, ContainerError::NotText { module: "/$bunfs/root/five.js".to_owned(), offset: 1 });
    // The others are none the worse.
    assert_eq!(container.module(0).unwrap().text, "// é\nexport{a};");
}

#[test]
fn files_without_code_or_with_an_unknown_layout_are_refused_by_name() {
    let graph = Graph::new(vec![Module::file("only.node", b"\0")]);
    for (kind, file) in everywhere(&graph) {
        let said = Container::open("claude", file).unwrap_err().to_string();
        let expected = format!(
            "ctxbridge does not know the layout of this {kind}: the module graph has no JavaScript in it. \
             Nothing was changed. If it is an intact executable of the client, upgrade ctxbridge, or report this release if there is no newer version"
        );
        assert_eq!(said, expected);
    }
    for (kind, file) in everywhere(&whole("e4a")) {
        let said = Container::open("claude", file[..file.len() / 2].to_vec()).unwrap_err().to_string();
        assert!(said.starts_with(&format!("ctxbridge does not know the layout of this {kind}: ")), "{said}");
    }
}

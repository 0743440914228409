use proptest::prelude::*;
use proptest::sample::Index;

use super::*;
use crate::container::bun::builder::{self, Bytecode, Module, Reading};

fn contents() -> impl Strategy<Value = Vec<u8>> {
    // Also around the size of a page, where growth rounds up or does not.
    let lengths = prop_oneof![0..40_usize, 4090..4100_usize, 0..9000_usize];
    (lengths, any::<u8>()).prop_map(|(length, first)| (0..length).map(|at| first.wrapping_add(at as u8)).collect())
}

fn bytes(most: usize) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..most)
}

const SHARED: usize = 700;

fn module() -> impl Strategy<Value = Module> {
    let bytecode = prop_oneof![
        Just(Bytecode::None),
        bytes(300).prop_map(Bytecode::Own),
        (0..SHARED).prop_map(Bytecode::Shared),
        Just(Bytecode::Shared(0)),
    ];
    let kinds = (0..3_u8, prop_oneof![4 => Just(builder::JAVASCRIPT), 1 => any::<u8>()], 0..3_u8, any::<u8>());
    (contents(), bytecode, kinds, [bytes(20), bytes(20), bytes(20)]).prop_map(|(contents, bytecode, kinds, rest)| {
        let (encoding, loader, format, side) = kinds;
        let [source_map, info, origin] = rest;
        Module { name: String::new(), contents, source_map, bytecode, info, origin, encoding, loader, format, side }
    })
}

prop_compose! {
    fn graph()(
        mut modules in prop::collection::vec(module(), 1..7),
        old in any::<bool>(),
        entry_point in any::<Index>(),
        argv in bytes(30),
        junk in bytes(30),
        flags in any::<u32>(),
        sorted in any::<bool>(),
    ) -> builder::Graph {
        for (index, module) in modules.iter_mut().enumerate() {
            module.name = builder::path(&format!("chunk-{index}.js"));
        }
        let entry_point = entry_point.index(modules.len()) as u32;
        let shared = (0..SHARED).map(|at| (at % 241) as u8).collect();
        builder::Graph { modules, entry_size: if old { 36 } else { 52 }, entry_point, shared, argv, junk, flags, sorted }
    }
}

/// Edits of the chosen modules of text.
fn edits(graph: &Graph, chosen: &[(bool, Vec<u8>)]) -> Vec<ModuleEdit> {
    let texts = graph.entries.iter().enumerate().filter(|(_, entry)| entry.encoding != 0);
    let chosen = texts.zip(chosen).filter(|(_, (edited, _))| *edited);
    chosen.map(|((index, _), (_, contents))| ModuleEdit { index, contents: contents.clone() }).collect()
}

/// Checks the properties of a section in which modules were edited.
fn check_edited(section: &[u8], graph: &Graph, edits: &[ModuleEdit], new: &[u8]) -> Result<(), TestCaseError> {
    let read = |section: &[u8]| Reading::of(section, graph.entry_size);
    let (before, after) = (read(section), read(new));
    let again = Graph::parse(new).map_err(|error| TestCaseError::fail(error.to_string()))?;
    prop_assert_eq!(again.used(), new.len());
    prop_assert_eq!((&after.argv, after.flags, after.entry_point), (&before.argv, before.flags, before.entry_point));
    prop_assert_eq!(after.modules.len(), before.modules.len());

    let grown = new.len() - graph.used();
    let injected: usize =
        edits.iter().map(|edit| edit.contents.len().saturating_sub(graph.entries[edit.index].contents().len())).sum();
    prop_assert!(grown.is_multiple_of(4096) && grown <= injected + 4096 * edits.len(), "{} grew to {}", injected, grown);
    for (index, (before, after)) in before.modules.iter().zip(&after.modules).enumerate() {
        let edit = edits.iter().find(|edit| edit.index == index);
        prop_assert_eq!((&after.name, after.kinds), (&before.name, before.kinds));
        prop_assert_eq!((&after.source_map, &after.origin), (&before.source_map, &before.origin));
        match edit {
            Some(edit) => {
                prop_assert_eq!(&after.contents, &edit.contents);
                prop_assert!(after.bytecode.is_empty() && after.info.is_empty(), "what was made of other code is still there");
                prop_assert_eq!(after.spans[BYTECODE], [0, 0]);
            }
            None => {
                prop_assert_eq!(&after.contents, &before.contents);
                prop_assert_eq!((&after.bytecode, &after.info), (&before.bytecode, &before.info));
            }
        }
        let dropped = |field: &usize| edit.is_some() && [BYTECODE, MODULE_INFO].contains(field);
        for (field, (before, after)) in before.spans.iter().zip(&after.spans).enumerate().filter(|(field, _)| !dropped(field)) {
            let moved = after[0].checked_sub(before[0]);
            prop_assert!(
                moved.is_some_and(|moved| moved.is_multiple_of(4096)),
                "field {} of {} moved by {:?}",
                field,
                index,
                moved
            );
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn what_was_made_is_read(made in graph(), slack in bytes(9)) {
        let section = [made.section(), slack.clone()].concat();
        let graph = Graph::parse(&section).unwrap();
        prop_assert_eq!(graph.used(), section.len() - slack.len());
        prop_assert_eq!(graph.entry_point, made.entry_point as usize);
        prop_assert_eq!(graph.entries.len(), made.modules.len());
        let blob = &section[8..];
        prop_assert_eq!(&blob[graph.argv()], &made.argv);
        for (entry, made) in graph.entries.iter().zip(&made.modules) {
            prop_assert_eq!(&blob[entry.name()], made.name.as_bytes());
            prop_assert_eq!(&blob[entry.contents()], &made.contents);
            prop_assert_eq!((entry.encoding, entry.loader, entry.format), (made.encoding, made.loader, made.format));
        }
    }

    #[test]
    fn only_what_is_edited_changes(made in graph(), chosen in prop::collection::vec((any::<bool>(), contents()), 7)) {
        let section = made.section();
        let graph = Graph::parse(&section).unwrap();
        let edits = edits(&graph, &chosen);
        let loaded = [BYTECODE, MODULE_INFO];
        let first = edits.iter().map(|edit| graph.entries[edit.index].contents().end).min().unwrap_or(usize::MAX);
        let behind = graph.entries.iter().any(|entry| loaded.iter().any(|field| entry.span(*field).is_some_and(|span| span.range().start > first)));
        let new = graph.edit(&section, edits.clone());
        if behind && made.junk.iter().any(|byte| *byte != 0) {
            let said = new.unwrap_err().to_string();
            prop_assert_eq!(said, "bytecode behind the module to be edited may be pointed to from where is not known");
            return Ok(());
        }
        let new = new.unwrap().to_bytes(&section);
        if edits.is_empty() {
            prop_assert_eq!(&new, &section);
        }
        check_edited(&section, &graph, &edits, &new)?;
        // Whatever nobody understands moves with what is around it.
        let between = |section: &[u8], reading: &Reading| section[8 + reading.table.end..][..made.junk.len()].to_vec();
        prop_assert_eq!(between(&new, &Reading::of(&new, made.entry_size)), made.junk);
        // And a second time, back to what it was.
        let again = Graph::parse(&new).unwrap();
        let back: Vec<ModuleEdit> =
            edits.iter().map(|edit| ModuleEdit { contents: made.modules[edit.index].contents.clone(), ..edit.clone() }).collect();
        let restored = again.edit(&new, back.clone()).unwrap().to_bytes(&new);
        check_edited(&new, &again, &back, &restored)?;
    }

    /// After any change to a graph, it is refused, or editing it keeps everything else as it is.
    #[test]
    fn a_broken_graph_is_refused_or_understood(
        made in graph(),
        changes in prop::collection::vec((any::<Index>(), any::<bool>(), value(), 0..3_usize), 0..5),
        cut in prop::option::weighted(0.1, any::<Index>()),
        chosen in prop::collection::vec((any::<bool>(), contents()), 7),
    ) {
        let mut section = made.section();
        let Reading { table, byte_count, .. } = Reading::of(&section, made.entry_size);
        for (at, in_table, value, width) in changes {
            // Where the numbers are: in the table, and at both ends.
            let numbers = (byte_count + 8..byte_count + 40).step_by(4).chain([0, 4]);
            let rows = 8 + table.start..8 + table.end;
            let at = if in_table { rows.start + at.index(rows.len() / 4) * 4 } else { at.get(&numbers.collect::<Vec<_>>()).to_owned() };
            // Small numbers, so that things come to lie on each other; and bytes, for the kinds.
            let value = match width {
                0 => value % section.len() as u32,
                1 => short(&section, at) & !0xff | value & 0xff,
                _ => value,
            };
            section[at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
        section.truncate(cut.map_or(section.len(), |cut| cut.index(section.len())));
        survives(&section, &chosen)?;
    }

    #[test]
    fn noise_is_refused_or_edited_soundly(mut bytes in bytes(300), framed in any::<bool>(), chosen in prop::collection::vec((any::<bool>(), contents()), 7)) {
        if framed {
            let length = bytes.len() as u64 + 48;
            bytes.splice(0..0, length.to_le_bytes());
            bytes.extend((length - 48).to_le_bytes());
            bytes.extend([0; 24]);
            bytes.extend(TRAILER);
        }
        prop_assert!(framed || Graph::parse(&bytes).is_err(), "bytes without the trailer");
        survives(&bytes, &chosen)?;
    }
}

fn short(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

/// Values at which something could go wrong, and others.
fn value() -> impl Strategy<Value = u32> {
    prop_oneof![
        prop::sample::select(vec![0, 1, 35, 36, 51, 52, 0x7fff_ffff, u32::MAX - 4095, u32::MAX - 1, u32::MAX]),
        any::<u32>()
    ]
}

fn survives(section: &[u8], chosen: &[(bool, Vec<u8>)]) -> Result<(), TestCaseError> {
    let Ok(graph) = Graph::parse(section) else { return Ok(()) };
    let edits = edits(&graph, chosen);
    let Ok(new) = graph.edit(section, edits.clone()) else { return Ok(()) };
    check_edited(section, &graph, &edits, &new.to_bytes(section))
}

/// Three modules, everything that a graph can have, and the positions of its numbers in the section.
struct Sound {
    section: Vec<u8>,
    table: usize,
    offsets: usize,
}

fn sound() -> Sound {
    let mut made = builder::Graph::new(vec![
        Module::es("one.js", "export{a};").with_bytecode(Bytecode::Own(vec![7; 40])),
        Module::common_js("two.js", "b()").with_bytecode(Bytecode::Shared(20)),
        Module::file("three.node", b"\0\x01\x02"),
    ]);
    made.shared = vec![9; 60];
    made.argv = b"--smol".to_vec();
    made.junk = vec![0xee; 5];
    made.sorted = true;
    let section = made.section();
    let Reading { table, byte_count, .. } = Reading::of(&section, 52);
    Sound { section, table: 8 + table.start, offsets: 8 + byte_count }
}

impl Sound {
    /// Position of the offset of a module's field in the section; its length follows.
    fn field(&self, module: usize, field: usize) -> usize {
        self.table + 52 * module + 8 * field
    }

    fn span(&self, module: usize, field: usize) -> [u32; 2] {
        let at = self.field(module, field);
        [short(&self.section, at), short(&self.section, at + 4)]
    }

    fn put(&mut self, at: usize, value: u32) {
        self.section[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }

    fn point(&mut self, module: usize, field: usize, [offset, length]: [u32; 2]) {
        let at = self.field(module, field);
        self.put(at, offset);
        self.put(at + 4, length);
    }
}

type GraphCase = (&'static str, fn(&mut Sound));

const CASES: &[GraphCase] = &[
    ("is missing: the section is empty", |sound| sound.section.clear()),
    ("is longer than its section", |sound| sound.section[0] += 1),
    ("is longer than its section", |sound| sound.section[..8].fill(0xff)),
    ("does not end in Bun's trailer", |sound| sound.section[0] -= 1),
    ("does not end in Bun's trailer", |sound| sound.section[..8].fill(0)),
    ("does not end in Bun's trailer", |sound| {
        let last = sound.section.len() - 2;
        sound.section[last] = b'+';
    }),
    ("is too short", |sound| sound.section = [&16_u64.to_le_bytes()[..], TRAILER].concat()),
    ("is too short", |sound| sound.section = [&47_u64.to_le_bytes()[..], &[0; 31], TRAILER].concat()),
    ("counts other bytes than it has", |sound| sound.section[sound.offsets] ^= 1),
    ("counts other bytes than it has", |sound| sound.section[sound.offsets + 7] = 0xff),
    ("has a module table outside of itself", |sound| sound.put(sound.offsets + 8, u32::MAX)),
    ("has a module table outside of itself", |sound| sound.put(sound.offsets + 12, u32::MAX)),
    ("has arguments outside of itself", |sound| sound.put(sound.offsets + 20, u32::MAX)),
    ("has arguments outside of itself", |sound| sound.put(sound.offsets + 24, 1000)),
    ("starts with a module that it does not have", |sound| sound.put(sound.offsets + 16, 3)),
    ("starts with a module that it does not have", |sound| sound.put(sound.offsets + 16, u32::MAX)),
    // No modules; half a module more.
    ("has a module table in a form", |sound| sound.put(sound.offsets + 12, 0)),
    ("has a module table in a form", |sound| sound.put(sound.offsets + 12, 52 * 3 - 26)),
    ("has a module table in a form", |sound| sound.put(sound.offsets + 8, sound.table as u32 - 8 + 4)),
    ("has a module table in a form", |sound| sound.point(0, NAME, [0, 0])),
    ("has a module table in a form", |sound| sound.point(2, NAME, [u32::MAX, 3])),
    ("has a module table in a form", |sound| sound.point(1, CONTENTS, [10, u32::MAX])),
    ("has a module table in a form", |sound| sound.point(1, BYTECODE, [u32::MAX, u32::MAX])),
    // No longer up to the NUL.
    ("has a module table in a form", |sound| sound.section[sound.table + 4] -= 1),
    ("has a module table in a form", |sound| sound.section[sound.table + 12] -= 1),
    ("has a module table in a form", |sound| {
        let [name, _] = sound.span(0, NAME);
        sound.section[8 + name as usize] = 0xff;
    }),
    // An encoding and a format that are not known.
    ("has a module table in a form", |sound| sound.section[sound.table + 48] = 3),
    ("has a module table in a form", |sound| sound.section[sound.table + 50] = 3),
    ("has something else in its module table", |sound| sound.point(2, CONTENTS, [sound.table as u32, 3])),
    ("has something else in its module table", |sound| sound.point(2, BYTECODE, [0, sound.table as u32 - 7])),
    ("has something else in its module table", |sound| sound.put(sound.offsets + 20, sound.table as u32)),
];

#[test]
fn graphs_that_are_not_understood_are_refused_by_name() {
    for (index, (said, change)) in CASES.iter().enumerate() {
        let mut sound = sound();
        assert!(Graph::parse(&sound.section).is_ok());
        change(&mut sound);
        let error = Graph::parse(&sound.section).map(|_| ()).expect_err(said).to_string();
        assert!(error.starts_with(&format!("the module graph {said}")), "case {index}, {said}: {error}");
    }
}

#[test]
fn a_graph_that_ends_too_soon_is_refused() {
    let Sound { section, .. } = sound();
    for end in 0..section.len() {
        let error = Graph::parse(&section[..end]).map(|_| ()).unwrap_err().to_string();
        let said = if end < 8 { "is missing" } else { "is longer than its section" };
        assert!(error.contains(said), "{end}: {error}");
    }
}

const EDIT_CASES: &[GraphCase] = &[
    ("are part of `/$bunfs/root/two.js`", |sound| sound.point(1, CONTENTS, sound.span(0, CONTENTS))),
    // The end of it; a byte more than nothing of it.
    ("are part of `/$bunfs/root/two.js`", |sound| {
        let [at, length] = sound.span(0, CONTENTS);
        sound.point(1, CONTENTS, [at + 3, length - 3]);
    }),
    ("are part of `/$bunfs/root/three.node`", |sound| sound.point(2, CONTENTS, [sound.span(0, CONTENTS)[0], 1])),
    // Its own name, and its own source map.
    ("are part of `one.js", |sound| {
        let [name, length] = sound.span(0, NAME);
        sound.point(0, NAME, [name + 13, length - 13]);
        sound.point(0, CONTENTS, [name + 17, length - 17]);
    }),
    ("are part of `/$bunfs/root/one.js`", |sound| sound.point(0, 2, sound.span(0, CONTENTS))),
    // Bytecode that goes on through it, whoever's.
    ("are part of `/$bunfs/root/two.js`", |sound| sound.point(1, BYTECODE, [0, sound.table as u32 - 8])),
    ("are part of `/$bunfs/root/three.node`", |sound| sound.point(2, MODULE_INFO, [sound.span(0, CONTENTS)[0] + 9, 2])),
    // An empty text that ends in the same NUL.
    ("are part of `/$bunfs/root/two.js`", |sound| {
        let [at, length] = sound.span(0, CONTENTS);
        sound.point(1, CONTENTS, [at + length, 0]);
    }),
    // Data after the table may point to bytecode, with or without arguments.
    ("may be pointed to from where is not known", |sound| sound.point(2, BYTECODE, sound.span(0, NAME))),
    ("may be pointed to from where is not known", |sound| {
        sound.point(2, MODULE_INFO, sound.span(0, NAME));
        sound.put(sound.offsets + 20, 0);
        sound.put(sound.offsets + 24, 0);
    }),
    ("overlap the module table", |sound| {
        let [at, _] = sound.span(0, CONTENTS);
        sound.put(sound.offsets + 20, at);
    }),
];

#[test]
fn modules_that_share_their_bytes_are_not_edited() {
    for (index, (said, change)) in EDIT_CASES.iter().enumerate() {
        let mut sound = sound();
        change(&mut sound);
        let graph = Graph::parse(&sound.section).unwrap();
        for contents in [vec![b'x'; 30], vec![b'x'; 5000], Vec::new()] {
            let refused = graph.edit(&sound.section, vec![ModuleEdit { index: 0, contents }]);
            let error = refused.map(|new| new.len()).expect_err(said).to_string();
            assert!(error.contains(said), "case {index}, {said}: {error}");
        }
    }
}

/// The first byte of the table may be the NUL after the last text.
#[test]
fn a_module_that_ends_in_the_table_is_not_edited() {
    let mut sound = sound();
    let [last, length] = sound.span(2, CONTENTS);
    let table = sound.table as u32 - 8;
    // Offsets up to 65535 end in two zeros.
    sound.point(0, CONTENTS, [last, table + 2 - last]);
    assert_eq!(sound.section[8 + (table + 2) as usize], 0);
    assert!(length > 0);
    let error = Graph::parse(&sound.section).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("something else in its module table"), "{error}");
    // Nothing but the NUL.
    let zero = (0..52 * 3).find(|at| sound.section[sound.table + at] == 0).unwrap() as u32;
    sound.point(0, CONTENTS, [table + zero, 0]);
    let graph = Graph::parse(&sound.section).unwrap();
    let refused = graph.edit(&sound.section, vec![ModuleEdit { index: 0, contents: b"longer".to_vec() }]);
    let error = refused.map(|new| new.len()).unwrap_err().to_string();
    assert!(error.contains("overlap the module table"), "{error}");
}

#[test]
fn a_module_is_edited_once() {
    let Sound { section, .. } = sound();
    let graph = Graph::parse(&section).unwrap();
    let edit = ModuleEdit { index: 1, contents: b"c()".to_vec() };
    let error = graph.edit(&section, vec![edit.clone(), edit]).map(|new| new.len()).unwrap_err().to_string();
    assert_eq!(error, "two modules that are to be edited share their contents");
}

/// The bytes that are new are the module's and the numbers; the rest is the old file's, and never copied.
#[test]
fn what_did_not_change_is_a_range_of_the_old_section() {
    let Sound { section, .. } = sound();
    let graph = Graph::parse(&section).unwrap();
    let new = graph.edit(&section, vec![ModuleEdit { index: 0, contents: vec![b'x'; 1000] }]).unwrap();
    let written: usize =
        new.iter().map(|piece| if let crate::container::FilePiece::New(bytes) = piece { bytes.len() } else { 0 }).sum();
    // The blob's length; old contents, their NUL and a page; the table; three numbers of the offsets.
    assert_eq!(written, 8 + (10 + 1 + 4096) + 3 * 52 + (8 + 4 + 4));
}

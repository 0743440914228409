//! Finding turns again, whatever the archive is kept in.

use std::fmt::Write;

use ctxbridge::archive::project::ProjectScope;
use ctxbridge::archive::search::{Filter, Hit, HitContent, Mode, SearchRequest, SearchResults, Searcher, TextKind as Texts};
use ctxbridge::archive::store::Store;
use ctxbridge_testkit::transcript::{Kind as Made, Spec, generate};
use serde_json::json;

use super::kinds::Kind;
use super::lines::{boundary, calls, compact_summary, line, result, says, user, with};
use super::{Place, transcript};

on_every_store!(
    the_best_is_first,
    what_is_in_quotes_is_there,
    filters_let_through_what_they_say,
    a_time_is_enough,
    summaries_are_found,
    an_empty_archive_has_nothing,
);

const ONE: &str = "aaaa1111-0000-4000-8000-000000000000";
const OTHER: &str = "bbbb2222-0000-4000-8000-000000000000";

/// Two sessions, in two folders and on two days.
fn talk(kind: Kind) -> (Place, Box<dyn Store>) {
    let place = Place::new(kind);
    let mut store = place.open();
    place.archive(
        &mut *store,
        ONE,
        &[
            user(1, "Why does the upload fail at midnight?"),
            says(2, "The token expires: max_retries is zero."),
            user(3, "Write the parser."),
            calls(4, "Edit", json!({ "file_path": "/work/p/src/parser.rs", "new_string": "fn parse_header() {}" })),
            result(5, "error[E0308]: mismatched types"),
            says(6, "The parser is there."),
            user(7, "Thanks"),
            says(8, "Good."),
        ],
    );
    let other = |line| with(line, json!({ "cwd": "/work/other", "sessionId": OTHER }));
    let late = |of: serde_json::Value| with(of, json!({ "timestamp": "2026-06-09T10:00:00.000Z" }));
    let lines = [
        user(101, "Paint the shed green."),
        says(102, "Which green?"),
        user(103, "Like the parser's colors, trying until it is right."),
        calls(104, "Bash", json!({ "command": "cargo test", "description": "Run the tests" })),
        says(105, "Done: a darker green."),
    ];
    place.archive(&mut *store, OTHER, &lines.map(other).map(late));
    (place, store)
}

fn request(text: &str) -> SearchRequest {
    SearchRequest {
        now: "2026-06-10T12:00:00Z".parse().unwrap(),
        zone: jiff::tz::TimeZone::UTC,
        mode: Some(Mode::Lexical),
        ..SearchRequest::new(text)
    }
}

fn found(place: &Place, store: &mut dyn Store, request: &SearchRequest) -> SearchResults {
    Searcher::new(place.data.path().to_owned()).search(store, request, usize::MAX, &mut |_| {}).unwrap()
}

/// Begin of the session and index of each turn, `-` for a summary.
fn shown(hits: &[Hit]) -> String {
    let mut shown = String::new();
    for hit in hits {
        match &hit.content {
            HitContent::Turn(turn) => write!(shown, "{}{} ", &turn.session[..1], turn.turn.index).unwrap(),
            HitContent::Summary(..) => shown.push_str("- "),
        }
    }
    shown.trim_end().to_owned()
}

fn hits(place: &Place, store: &mut dyn Store, request: &SearchRequest) -> String {
    // Those that are there for their neighbors alone depend on which words are how rare.
    let mut found = found(place, store, request);
    found.hits.retain(|hit| !hit.is_neighbor);
    shown(&found.hits)
}

fn the_best_is_first(kind: Kind) {
    let (place, mut store) = talk(kind);
    for (query, expected) in [
        ("upload midnight", "a0"),
        ("token", "a0"),
        ("maxRetries", "a0"),
        ("E0308 mismatched", "a1"),
        ("parse_head*", "a1"),
        ("darker green", "b1 b0"),
        ("zebra", ""),
    ] {
        assert_eq!(hits(&place, &mut *store, &request(query)), expected, "{query}");
    }
    let found = found(&place, &mut *store, &request("upload"));
    let hit = &found.hits[0];
    assert_eq!(hit.words, [("prompt", vec!["upload".to_owned()])]);
    assert!(hit.snippet.text.contains("upload fail") && hit.snippet.marks.len() == 1, "{hit:?}");
    assert!(hit.summary.contains("upload") && hit.score > 0.0 && !hit.is_elsewhere, "{hit:?}");
    assert_eq!((found.mode, &found.notes[..]), (Mode::Lexical, &[][..]));
    assert_eq!(found.hits.len(), found.hits.iter().map(Hit::identity).collect::<std::collections::HashSet<_>>().len());
    let limited = SearchRequest { limit: 1, ..request("green parser token") };
    assert_eq!(self::found(&place, &mut *store, &limited).hits.len(), 1);
}

fn what_is_in_quotes_is_there(kind: Kind) {
    let (place, mut store) = talk(kind);
    for (query, expected) in [
        ("\"mismatched types\"", "a1"),
        ("\"max_retries is zero\"", "a0"),
        ("\"darker green\" parser", "b1"),
        ("\"token expi*\"", "a0"),
    ] {
        assert_eq!(hits(&place, &mut *store, &request(query)), expected, "{query}");
    }
    // Where nothing has it, its words are looked for, which is said.
    let found = found(&place, &mut *store, &request("\"types mismatched\""));
    assert_eq!((shown(&found.hits[..1]), found.notes.len()), ("a1".to_owned(), 1));
}

fn filters_let_through_what_they_say(kind: Kind) {
    let (place, mut store) = talk(kind);
    let all = "green parser token tests";
    let of = |filter: Filter| SearchRequest { filter, ..request(all) };
    let day = |text: &str| Some(text.parse::<jiff::Timestamp>().unwrap().as_millisecond());
    let text = |text: &str| Some(text.to_owned());
    let project = |folder: &str| Some(ProjectScope::at(folder));
    for (name, filter, expected) in [
        ("all", Filter::default(), "a0 a1 b0 b1"),
        ("session", Filter { session: text("bbbb"), ..Filter::default() }, "b0 b1"),
        ("no session", Filter { session: text("cccc"), ..Filter::default() }, ""),
        ("folder", Filter { project: project("/work/p"), ..Filter::default() }, "a0 a1"),
        ("folder above", Filter { project: project("/work/"), ..Filter::default() }, "a0 a1 b0 b1"),
        ("begin of a folder", Filter { project: project("/wor"), ..Filter::default() }, ""),
        ("another folder", Filter { project: project("/work/./p/../other/"), ..Filter::default() }, "b0 b1"),
        ("since", Filter { since_ms: day("2026-06-05T00:00:00Z"), ..Filter::default() }, "b0 b1"),
        ("until", Filter { until_ms: day("2026-06-05T00:00:00Z"), ..Filter::default() }, "a0 a1"),
        ("tool", Filter { tool: text("bash"), ..Filter::default() }, "b1"),
        ("file", Filter { file: text("SRC/parser"), ..Filter::default() }, "a1"),
        ("two", Filter { tool: text("Edit"), project: project("/work/other"), ..Filter::default() }, ""),
    ] {
        let found = hits(&place, &mut *store, &of(filter));
        let mut found: Vec<&str> = found.split_whitespace().collect();
        found.sort_unstable();
        assert_eq!(found.join(" "), expected, "{name}");
    }
    let of = |kind: Texts| SearchRequest { kinds: vec![kind], ..request("parser") };
    for (kind, expected) in [(Texts::Prompt, "a1 b1"), (Texts::Answer, "a1"), (Texts::File, "a1"), (Texts::Summary, "")] {
        let found = hits(&place, &mut *store, &of(kind));
        let mut found: Vec<&str> = found.split_whitespace().collect();
        found.sort_unstable();
        assert_eq!(found.join(" "), expected, "{kind:?}");
    }
}

fn a_time_is_enough(kind: Kind) {
    let (place, mut store) = talk(kind);
    let found = found(&place, &mut *store, &request("what did we do yesterday"));
    assert_eq!(found.time.as_deref(), Some("yesterday"));
    let mut turns: Vec<_> = shown(&found.hits).split_whitespace().map(str::to_owned).collect();
    turns.sort_unstable();
    assert_eq!(turns, ["b0", "b1"]);
    assert!(found.hits.iter().all(|hit| hit.is_in_time));
}

fn summaries_are_found(kind: Kind) {
    let place = Place::new(kind);
    let mut store = place.open();
    let lines = [
        user(1, "Go on."),
        says(2, "I went on."),
        boundary(3),
        compact_summary(4, "They built a walrus detector together."),
        user(5, "And now?"),
        says(6, "Now it is done."),
        line(7, json!({ "type": "system", "subtype": "local_command", "content": "x", "level": "info" })),
    ];
    place.archive(&mut *store, ONE, &lines);
    let found = found(&place, &mut *store, &SearchRequest { kinds: vec![Texts::Summary], ..request("walrus") });
    let [hit] = &found.hits[..] else { panic!("{found:?}") };
    let HitContent::Summary(session, summary) = &hit.content else { panic!("{hit:?}") };
    assert_eq!(session, ONE);
    assert!(summary.text.contains("walrus detector"));
    let (handle, ..) = hit.identity();
    let entry: i64 = handle.strip_prefix("ctx:summary.").unwrap().parse().unwrap();
    assert_eq!(store.summary_of(entry).unwrap().unwrap().1.text, summary.text);
}

fn an_empty_archive_has_nothing(kind: Kind) {
    let place = Place::new(kind);
    let mut store = place.open();
    let found = found(&place, &mut *store, &request("anything"));
    assert_eq!((found.hits.len(), &found.notes[..]), (0, &[][..]));
}

/// The scan has no index to go by, and scores all the same as FTS5 does.
#[test]
fn a_scan_finds_what_an_index_finds() {
    let places = [Kind::Sqlite, Kind::Jsonl].map(Place::new);
    let mut stores = places.each_ref().map(|place| place.open());
    let folder = tempfile::tempdir().unwrap();
    for (kind, seed) in [(Made::Chat, 1), (Made::Tools, 2), (Made::Agents, 3)] {
        let made = generate(&Spec::new(kind, 120, seed), &folder.path().join(seed.to_string())).unwrap();
        for session in &made.sessions {
            let id = session.path.file_stem().unwrap().to_string_lossy().into_owned();
            for store in &mut stores {
                ctxbridge::archive::ingest::ingest(&mut **store, &transcript(&session.path, &id), &session.path).unwrap();
            }
        }
    }
    let words: Vec<String> = {
        let store = &mut stores[0];
        let mut texts = String::new();
        for turn in store.turns_by_id("").unwrap().into_iter().take(40) {
            texts += &ctxbridge::archive::turn_text::content(&mut **store, &turn).unwrap();
        }
        let mut words: Vec<String> = texts
            .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .filter(|word| word.len() > 3)
            .map(str::to_owned)
            .collect();
        words.sort_unstable();
        words.dedup();
        words
    };
    assert!(words.len() > 100, "{}", words.len());
    let mut compared = 0;
    for (number, three) in words.chunks_exact(3).step_by(words.len() / 60).enumerate() {
        let query = match number % 3 {
            0 => three.join(" "),
            1 => three[0].clone(),
            _ => format!("{} {}*", three[1], &three[2][..3]),
        };
        let filter = match number % 4 {
            1 => Filter { tool: Some("Bash".to_owned()), ..Filter::default() },
            2 => Filter { project: Some(ProjectScope::at("/")), ..Filter::default() },
            _ => Filter::default(),
        };
        let request = SearchRequest { limit: 20, filter, ..request(&query) };
        let [index, scan] = [0, 1].map(|which| found(&places[which], &mut *stores[which], &request));
        let scores = |found: &SearchResults| -> Vec<(String, String)> {
            let hit = |hit: &Hit| (hit.identity().0, format!("{:.9} {:?}", hit.score, hit.snippet));
            let mut hits: Vec<_> = found.hits.iter().map(hit).collect();
            hits.sort_unstable();
            hits
        };
        assert_eq!(scores(&index), scores(&scan), "{query}");
        compared += index.hits.len();
    }
    assert!(compared > 60, "{compared}");
}

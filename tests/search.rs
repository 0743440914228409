//! Search with vectors: a stand-in for the model knows which words mean the same, and nothing else.

use std::path::Path;
use std::time::{Duration, Instant};

use ctxbridge::archive::import::import;
use ctxbridge::archive::project::ProjectScope;
use ctxbridge::archive::reader::Comparison;
use ctxbridge::archive::search::{
    self, HitContent, Mode, RelatedQuery, SearchIndex, SearchRequest, SearchResults, Searcher, Stages, TextKind as Texts,
};
use ctxbridge::archive::store::sqlite::{LockPolicy, SqliteStore};
use ctxbridge::vectors::embed::install::MODEL;
use ctxbridge::vectors::embed::{EmbedError, Embedder, EmbeddingModel, STATIC};
use ctxbridge_testkit::transcript::{Kind, Spec, generate};
use serde_json::json;
use tempfile::TempDir;

/// A dimension for each group of words.
const MEANINGS: [&[&str]; 4] =
    [&["hang", "hangs", "frozen", "stuck"], &["upload", "sending"], &["night", "midnight"], &["cost", "price", "expensive"]];

struct Meanings;

impl Embedder for Meanings {
    fn id(&self) -> &'static str {
        MODEL
    }

    fn dimensions(&self) -> usize {
        MEANINGS.len() + 1
    }

    fn embed(&mut self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let vector = |text: &&str| {
            let text = text.to_lowercase();
            let words: Vec<&str> = text.split(|c: char| !c.is_alphanumeric()).collect();
            let count = |group: &[&str]| words.iter().filter(|word| group.contains(*word)).count() as f32;
            let mut vector: Vec<f32> = MEANINGS.iter().map(|group| count(group)).collect();
            vector.push(0.1);
            let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
            vector.iter().map(|value| value / length).collect()
        };
        Ok(texts.iter().map(vector).collect())
    }
}

/// An archive with its index.
struct Archive {
    folder: TempDir,
    store: SqliteStore,
    index: SearchIndex,
}

impl Archive {
    /// One of sessions, each of prompts with their answers.
    fn new(sessions: &[&[(&str, &str)]]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut paths = Vec::new();
        for (number, turns) in sessions.iter().enumerate() {
            let session = format!("{number:08x}-0000-4000-8000-000000000000");
            let path = folder.path().join(format!("{session}.jsonl"));
            let mut text = String::new();
            for (at, (prompt, answer)) in turns.iter().enumerate() {
                for (kind, said, minute) in [("user", prompt, 2 * at), ("assistant", answer, 2 * at + 1)] {
                    let line = json!({
                        "type": kind, "uuid": format!("{number:04x}{at:04x}-{minute:04x}-4000-8000-000000000000"), "sessionId": session,
                        "cwd": "/p", "timestamp": format!("2026-06-0{}T10:{minute:02}:00Z", number + 1),
                        "message": { "role": kind, "content": [{ "type": "text", "text": said }] },
                    });
                    text += &format!("{line}\n");
                }
            }
            std::fs::write(&path, text).unwrap();
            paths.push(path);
        }
        import(folder.path(), &paths, Comparison::Whole, ctxbridge::archive::ingest::NO_FOLLOW_UP, &|_| {}).unwrap();
        Self::open(folder)
    }

    fn open(folder: TempDir) -> Self {
        let store = SqliteStore::open(folder.path(), LockPolicy::Background).unwrap();
        let index = SearchIndex::open(folder.path()).unwrap();
        Self { folder, store, index }
    }

    fn refresh(&mut self) -> usize {
        search::refresh(&mut self.store, &mut self.index, usize::MAX, &mut |_, _| {}).unwrap().entries
    }

    fn embed(&mut self, most: usize) -> usize {
        search::embed_missing(&mut self.store, &mut self.index, &mut Meanings, most, &mut |_| true).unwrap().entries
    }

    fn found(&mut self, request: &SearchRequest) -> SearchResults {
        search::search(&mut self.store, &mut self.index, &mut EmbeddingModel::from(Box::new(Meanings) as Box<_>), request)
            .unwrap()
    }

    /// Session and index of the hits.
    fn hits(&mut self, request: &SearchRequest) -> Vec<(usize, u32)> {
        let hits = self.found(request).hits;
        let turn = |what| match what {
            HitContent::Turn(turn) => (usize::from_str_radix(&turn.session[..8], 16).unwrap(), turn.turn.index),
            HitContent::Summary(..) => panic!("there is none"),
        };
        hits.into_iter().map(|hit| turn(hit.content)).collect()
    }
}

fn request(text: &str) -> SearchRequest {
    SearchRequest { now: "2026-06-20T00:00:00Z".parse().unwrap(), zone: jiff::tz::TimeZone::UTC, ..SearchRequest::new(text) }
}

fn talk() -> Archive {
    let mut archive = Archive::new(&[
        &[
            ("The editor is stuck when I save", "The lock was never released."),
            ("Fine", "Good."),
            ("Next: colors", "Blue it is."),
        ],
        &[("Sending files fails at midnight", "The token expires."), ("What does it cost?", "Nothing.")],
        &[("Rename the module", "Renamed."), ("The tests are red", "A snapshot was old.")],
    ]);
    assert_eq!(archive.refresh(), 7);
    assert_eq!(archive.refresh(), 0, "nothing is new");
    archive
}

#[test]
fn the_static_embedding_makes_way_for_the_model_and_never_the_other_way_round() {
    let mut archive = talk();
    let search = |archive: &mut Archive| {
        let mut searcher = Searcher::new(archive.folder.path().to_owned());
        searcher.search(&mut archive.store, &request("stuck"), usize::MAX, &mut |_| {}).unwrap()
    };
    assert_eq!(search(&mut archive).mode, Mode::Hybrid);
    assert_eq!([STATIC, MODEL].map(|id| archive.index.coverage(id).unwrap()), [(7, 7), (0, 7)]);
    assert_eq!(archive.embed(100), 7);
    assert_eq!([STATIC, MODEL].map(|id| archive.index.coverage(id).unwrap()), [(0, 7), (7, 7)]);
    // The model is not installed here, or its files are away for a moment.
    let found = search(&mut archive);
    assert!(found.mode == Mode::Lexical && found.notes[0].contains("not installed"), "{found:?}");
    let mut searcher = Searcher::new(archive.folder.path().to_owned());
    searcher.catch_up(&mut archive.store, None, &mut |_| {}).unwrap();
    assert_eq!(archive.index.coverage(MODEL).unwrap(), (7, 7));
    // Nor does a process that began before the model came.
    assert_eq!(archive.index.without_vectors(STATIC, 100).unwrap(), [0; 0]);
    archive.index.set_vectors(STATIC, &[(1, vec![vec![1.0; 128]])]).unwrap();
    assert_eq!(archive.index.coverage(MODEL).unwrap(), (7, 7));
    assert_eq!(archive.hits(&request("frozen"))[0], (0, 0));
}

#[test]
fn a_switch_to_another_model_ends_the_making_of_vectors() {
    let turns: Vec<(String, String)> = (0..50).map(|number| (format!("Chapter {number}"), "Read.".to_owned())).collect();
    let turns: Vec<(&str, &str)> = turns.iter().map(|(prompt, answer)| (prompt.as_str(), answer.as_str())).collect();
    let mut archive = Archive::new(&[&turns]);
    archive.refresh();
    let mut other = SearchIndex::open(archive.folder.path()).unwrap();
    let mut switch = |_| {
        other.switch_model(STATIC).unwrap();
        true
    };
    let made = search::embed_missing(&mut archive.store, &mut archive.index, &mut Meanings, usize::MAX, &mut switch).unwrap();
    assert!(!made.is_complete && made.entries < 50, "{made:?}");
    assert!(archive.index.has_vectors_of(STATIC).unwrap());
}

/// By words, the longest of the turns that have the rare one is the last.
#[test]
fn recall_looks_at_turns_by_words_and_meaning() {
    let wanted = ("The zorbix of database migrations and locks", "Fine.");
    let about = [
        "apple cake",
        "summer holidays",
        "football players",
        "love songs",
        "rain and snow",
        "garden birds",
        "old coins",
        "winter shoes",
        "goat cheese",
    ];
    let about = about.map(|what| format!("The zorbix of {what}"));
    let fillers: Vec<String> = (0..60).map(|number| format!("Chapter {number}")).collect();
    let rare = about.iter().map(|prompt| (prompt.as_str(), "Fine.")).chain([wanted]);
    let turns: Vec<(&str, &str)> = fillers.iter().map(|prompt| (prompt.as_str(), "Read.")).chain(rare).collect();
    let mut archive = Archive::new(&[&turns]);
    archive.refresh();
    let asked = "zorbix: Postgres transactions hang during a schema upgrade";
    let last = (0, turns.len() as u32 - 1);
    let lexical = SearchRequest { mode: Some(Mode::Lexical), limit: 3, stages: Stages::NONE, ..request(asked) };
    assert!(!archive.hits(&lexical).contains(&last));
    let project = ProjectScope::at("/p");
    let deadline = Instant::now() + Duration::from_secs(600);
    let query = RelatedQuery { text: asked, project: &project, session: "", forgotten_turns: 0, limit: 3, deadline };
    let considered = search::consider(&mut archive.store, &mut archive.index, &query).unwrap();
    assert_eq!((considered.len(), considered[0].place.index), (8, last.1), "{considered:?}");
}

#[test]
fn meaning_finds_what_words_do_not() {
    let mut archive = talk();
    let lexical = SearchRequest { mode: Some(Mode::Lexical), ..request("frozen program") };
    assert_eq!(archive.hits(&lexical), []);
    let found = archive.found(&request("frozen program"));
    assert_eq!((found.mode, found.notes.len()), (Mode::Lexical, 1), "nothing has a vector yet: {found:?}");
    assert_eq!(archive.embed(3), 3);
    let found = archive.found(&request("frozen program"));
    assert!(found.notes[0].starts_with("4 of 7 entries have no vector yet"), "{found:?}");
    assert_eq!(archive.embed(100), 4);
    assert_eq!(archive.embed(100), 0);
    for mode in [Mode::Dense, Mode::Hybrid] {
        assert_eq!(archive.hits(&SearchRequest { mode: Some(mode), ..request("frozen program") })[0], (0, 0), "{mode:?}");
    }
    assert_eq!(archive.hits(&request("upload at night"))[0], (1, 0));
    assert_eq!(archive.hits(&request("expensive"))[0], (1, 1));
    let mut gone = EmbeddingModel::installed(Path::new("nowhere"));
    let without = search::search(&mut archive.store, &mut archive.index, &mut gone, &request("tests")).unwrap();
    assert!(without.mode == Mode::Lexical && without.notes[0].contains("`ctxbridge model install`"), "{without:?}");
    assert!(!without.hits.is_empty());
}

#[test]
fn a_kind_is_asked_for_in_every_mode() {
    let mut archive = talk();
    archive.embed(100);
    for mode in [Mode::Lexical, Mode::Dense, Mode::Hybrid] {
        let of = |kinds: &[Texts], text| SearchRequest { mode: Some(mode), kinds: kinds.to_vec(), ..request(text) };
        assert_eq!(archive.hits(&of(&[Texts::Summary], "stuck")), [], "{mode:?}: there is no summary");
        assert_eq!(archive.hits(&of(&[Texts::Prompt], "stuck"))[0], (0, 0), "{mode:?}");
        let by_meaning = archive.hits(&of(&[Texts::Answer], "stuck"));
        assert_eq!(by_meaning.is_empty(), mode == Mode::Lexical, "{mode:?}: the word is in the prompt, and vectors are of both");
        let found = archive.found(&of(&[Texts::Answer], "editor lock"));
        assert!(found.hits.iter().all(|hit| hit.words.iter().all(|(place, _)| *place == "answer")), "{mode:?}: {found:?}");
    }
}

#[test]
fn a_vector_that_is_none_changes_nothing() {
    let mut archive = talk();
    archive.embed(100);
    let before = archive.hits(&request("frozen program"));
    let HitContent::Turn(best) = archive.found(&request("frozen program")).hits.remove(0).content else { panic!("a summary") };
    for scale in [1e38_f32, 50.0, f32::NAN, -1.0] {
        let db = rusqlite::Connection::open(archive.folder.path().join("search.db")).unwrap();
        let last: (i64, Vec<u8>) = db
            .query_row("SELECT id, data FROM vectors WHERE entry <> ?1", [best.entry], |row| Ok((row.get(0)?, row.get(1)?)))
            .unwrap();
        let data = [&scale.to_le_bytes()[..], &last.1[4..]].concat();
        db.execute("UPDATE vectors SET data = ?2 WHERE id = ?1", rusqlite::params![last.0, data]).unwrap();
        archive.index = SearchIndex::open(archive.folder.path()).unwrap();
        let found = archive.found(&request("frozen program"));
        assert!(found.hits.iter().all(|hit| hit.score.is_finite() && hit.cosine.is_none_or(|cosine| cosine <= 1.0)), "{found:?}");
        assert_eq!(archive.hits(&request("frozen program"))[0], before[0]);
    }
}

#[test]
fn a_model_that_comes_later_is_looked_at() {
    let data = tempfile::tempdir().unwrap();
    let mut model = EmbeddingModel::installed(data.path());
    assert!(!model.is_present());
    let error = |model: &mut EmbeddingModel| model.get().map(|_| ()).unwrap_err().to_string();
    assert!(error(&mut model).contains("not installed"));
    let folder = data.path().join("models").join(MODEL);
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("vocab.txt"), "not the words").unwrap();
    assert!(model.is_present() && error(&mut model).contains("damaged"), "{}", error(&mut model));
}

#[test]
fn another_model_s_vectors_are_not_compared() {
    struct Other;
    impl Embedder for Other {
        fn id(&self) -> &'static str {
            "other"
        }
        fn dimensions(&self) -> usize {
            2
        }
        fn embed(&mut self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
            Ok(texts.iter().map(|_| vec![0.6, 0.8]).collect())
        }
    }
    let mut archive = talk();
    archive.embed(100);
    let found = search::search(
        &mut archive.store,
        &mut archive.index,
        &mut EmbeddingModel::from(Box::new(Other) as Box<_>),
        &request("stuck"),
    )
    .unwrap();
    assert_eq!(found.hits.len(), 3, "by words, with its neighbors: {found:?}");
    assert_eq!(search::embed_missing(&mut archive.store, &mut archive.index, &mut Other, 100, &mut |_| true).unwrap().entries, 7);
    assert_eq!(archive.embed(100), 7, "and back");
}

#[test]
fn stages_can_be_left_out() {
    let mut archive = talk();
    archive.embed(100);
    let plain = Stages { scores: true, ..Stages::NONE };
    let lexical = |stages| SearchRequest { mode: Some(Mode::Lexical), stages, ..request("stuck") };
    assert_eq!(archive.hits(&lexical(plain)), [(0, 0)]);
    assert_eq!(archive.hits(&lexical(Stages { neighbors: true, ..plain })), [(0, 0), (0, 1), (0, 2)]);
    // The day that is named.
    let named = |text| SearchRequest { mode: Some(Mode::Lexical), ..request(text) };
    assert_eq!(archive.hits(&named("the token or the module on 2 June"))[0], (1, 0));
    assert_eq!(archive.hits(&named("the token or the module on 3 June"))[0], (2, 0));
    assert_eq!(archive.hits(&named("what was that on 3 June?"))[0].0, 2, "a time and nothing else");
}

#[test]
fn a_query_of_a_time_alone_lists_its_turns() {
    let mut archive = Archive::new(&[
        &[("What did we do about the lock?", "We worked on it."), ("Fine", "Good.")],
        &[("Rename the module", "Renamed."), ("The tests are red", "The snapshot of 2026-06-01 was old.")],
    ]);
    archive.refresh();
    let sorted = |mut hits: Vec<(usize, u32)>| {
        hits.sort_unstable();
        hits
    };
    for mode in [Mode::Lexical, Mode::Hybrid] {
        if mode == Mode::Hybrid {
            assert_eq!(archive.embed(100), 4);
        }
        for text in ["what did we do on 2 June?", "what happened 18 days ago", "2 June"] {
            let request = SearchRequest { mode: Some(mode), limit: 2, ..request(text) };
            assert_eq!(sorted(archive.hits(&request)), [(1, 0), (1, 1)], "{text}");
        }
    }
    let lexical = |text| SearchRequest { mode: Some(Mode::Lexical), ..request(text) };
    // The day's turns, then one that speaks of it.
    assert_eq!(sorted(archive.hits(&lexical("what did we do on 2026-06-01?"))[..2].to_vec()), [(0, 0), (0, 1)]);
    assert!(archive.hits(&lexical("what did we do on 2026-06-01?")).contains(&(1, 1)));
    // The begin of a log's line is no time.
    let found = archive.found(&lexical("[2026-06-01 10:00] snapshot"));
    assert_eq!((found.time, found.hits.len()), (None, 2), "it, and its neighbor");
}

#[test]
fn what_is_in_quotes_is_found_behind_many_that_are_alike() {
    let numbered: Vec<(String, String)> = (0..8 * 25).map(|n| (format!("parsers {n}"), format!("parsers parse {n}"))).collect();
    let last = ("It is one parser.".to_owned(), "And many other words, of which none says more. ".repeat(20));
    let turns: Vec<(&str, &str)> = numbered.iter().chain([&last]).map(|(prompt, answer)| (&**prompt, &**answer)).collect();
    let sessions: Vec<&[(&str, &str)]> = turns.chunks(25).collect();
    let mut archive = Archive::new(&sessions);
    archive.refresh();
    assert_eq!(archive.hits(&SearchRequest { mode: Some(Mode::Lexical), ..request("\"parser\"") }), [(8, 0)]);
}

#[test]
fn words_are_enough_where_nothing_has_what_is_in_quotes() {
    let mut archive = Archive::new(&[&[("why does it hang?", "The task took 93 seconds."), ("seconds", "Of what?")]]);
    archive.refresh();
    let lexical = |text| SearchRequest { mode: Some(Mode::Lexical), ..request(text) };
    let found = archive.found(&lexical("\"took 90 seconds\""));
    assert_eq!(found.notes, ["nothing has what is in quotes as it is typed, so its words were looked for"]);
    assert!(!found.hits.is_empty());
    let found = archive.found(&lexical("\"took 93 seconds\""));
    assert_eq!((found.hits.len(), found.notes), (1, vec![]));
    let found = archive.found(&lexical("\"unheard of\""));
    assert_eq!((found.hits.len(), found.notes), (0, vec![]));
}

#[test]
fn a_short_turn_is_found_by_what_was_said_before_it() {
    let long = "It is done, and there is much more to be said about it. ".repeat(10);
    let mut archive = Archive::new(&[
        &[("Shall we cache in redis or in memcached?", "Both would do."), ("the second one", "Fine."), ("Go on.", long.as_str())],
        &[("Go on.", "With what?")],
    ]);
    archive.refresh();
    let plain = |context| SearchRequest {
        mode: Some(Mode::Lexical),
        stages: Stages { scores: true, context, ..Stages::NONE },
        ..request("memcached")
    };
    let found = archive.found(&plain(true));
    assert_eq!(found.hits.iter().map(|hit| hit.is_neighbor).collect::<Vec<_>>(), [false, true], "{found:?}");
    assert_eq!(archive.hits(&plain(true)), [(0, 0), (0, 1)]);
    assert_eq!(archive.hits(&plain(false)), [(0, 0)]);
    assert_eq!(archive.hits(&SearchRequest { kinds: vec![Texts::Prompt], ..plain(true) }), [(0, 0)], "nobody typed it there");
}

#[test]
fn what_is_said_often_is_shown_once() {
    let mut archive =
        Archive::new(&[&[("run the tests", "All green."), ("Now what?", "Nothing.")], &[("run the tests", "All green.")]]);
    archive.refresh();
    let request = SearchRequest {
        mode: Some(Mode::Lexical),
        stages: Stages { duplicates: true, ..Stages::NONE },
        ..request("tests green")
    };
    let found = archive.found(&request);
    assert_eq!(found.hits.len(), 1, "{found:?}");
}

#[test]
fn what_the_archive_no_longer_has_is_not_found() {
    let mut archive = talk();
    archive.embed(100);
    let Archive { folder, store, index } = archive;
    drop((store, index));
    // A new archive in the place of the old one, as after a damage.
    std::fs::remove_file(folder.path().join("archive.db")).unwrap();
    let mut archive = Archive::open(folder);
    let found = archive.found(&request("stuck"));
    assert_eq!(found.hits, [], "not even before the index knows");
    archive.refresh();
    assert_eq!(archive.index.coverage(MODEL).unwrap(), (0, 0));
}

/// Whatever is in a session, its turns are found by their own first words.
#[test]
fn generated_sessions() {
    for (seed, kind) in (1..).zip([Kind::Chat, Kind::Tools, Kind::Agents, Kind::Compacted]) {
        let folder = tempfile::tempdir().unwrap();
        let made = generate(&Spec::new(kind, 300, seed), Path::new(folder.path())).unwrap();
        let paths: Vec<_> = made.sessions.iter().map(|session| session.path.clone()).collect();
        import(folder.path(), &paths, Comparison::Whole, ctxbridge::archive::ingest::NO_FOLLOW_UP, &|_| {}).unwrap();
        let mut archive = Archive::open(folder);
        let all = archive.refresh();
        assert!(all > 5, "{kind:?}: {all}");
        archive.embed(usize::MAX);
        assert_eq!(archive.index.coverage(MODEL).unwrap(), (all as u64, all as u64));
        let found = archive.found(&SearchRequest { limit: 50, ..request("the tests failed with an error") });
        assert!(!found.hits.is_empty() && found.hits.iter().all(|hit| hit.score.is_finite()), "{kind:?}");
    }
}

/// From some thousand vectors on a file makes it fast to find the nearest. It is a cache: with it, without it, with a damaged one or
/// one that is behind, the same is found.
#[test]
fn many_vectors_are_found_with_and_without_their_file() {
    const DIMENSIONS: usize = 32;
    const EACH: usize = 60;
    let numbered: Vec<(String, String)> = (0..200).map(|n| (format!("question {n}"), format!("answer {n}"))).collect();
    let turns: Vec<(&str, &str)> = numbered.iter().map(|(prompt, answer)| (&**prompt, &**answer)).collect();
    let mut archive = Archive::new(&[&turns]);
    archive.refresh();
    let mut rng = ctxbridge_testkit::Rng::new(1);
    let mut vector = || -> Vec<f32> {
        let values: Vec<f32> = (0..DIMENSIONS).map(|_| (rng.roll() - 0.5) as f32).collect();
        let length = values.iter().map(|value| value * value).sum::<f32>().sqrt();
        values.iter().map(|value| value / length).collect()
    };
    archive.index.switch_model(MODEL).unwrap();
    let entries = archive.index.without_vectors(MODEL, 1_000).unwrap();
    let mut give = |index: &mut SearchIndex, entries: &[i64]| {
        let vectors: Vec<_> = entries.iter().map(|entry| (*entry, (0..EACH).map(|_| vector()).collect())).collect();
        index.set_vectors(MODEL, &vectors).unwrap();
        vectors.into_iter().map(|(entry, vectors): (i64, Vec<Vec<f32>>)| (entry, vectors[0].clone())).collect::<Vec<_>>()
    };
    let given = give(&mut archive.index, &entries);
    let file = archive.folder.path().join("search.nearest");
    let own = |index: &mut SearchIndex, given: &[(i64, Vec<f32>)]| {
        given.iter().filter(|(entry, vector)| index.search_dense(MODEL, vector, None, 5).unwrap()[0].0 == *entry).count()
    };
    assert!(!file.exists());
    assert_eq!(own(&mut archive.index, &given[..50]), 50);
    let without = archive.index.search_dense(MODEL, &given[7].1, None, 5).unwrap();
    assert!(archive.index.refresh_ann_file(MODEL, DIMENSIONS).unwrap() && file.exists());
    assert!(!archive.index.refresh_ann_file(MODEL, DIMENSIONS).unwrap(), "it is not behind");
    assert_eq!(own(&mut archive.index, &given[..50]), 50);
    assert_eq!(archive.index.search_dense(MODEL, &given[7].1, None, 5).unwrap()[0], without[0]);
    // Replaced vectors count at once, and those before no more.
    let new = give(&mut archive.index, &entries[..3]);
    assert_eq!(own(&mut archive.index, &new), 3);
    assert!(archive.index.search_dense(MODEL, &given[0].1, None, 1).unwrap()[0].1 < 0.99);
    let allowed = std::collections::HashSet::from([entries[9]]);
    assert_eq!(archive.index.search_dense(MODEL, &given[7].1, Some(&allowed), 5).unwrap().len(), 1);
    // Damaged, then lost: nobody notices, and the next optimize cycle makes it anew.
    let mut bytes = std::fs::read(&file).unwrap();
    bytes.iter_mut().for_each(|byte| *byte ^= 0x55);
    std::fs::write(&file, bytes).unwrap();
    let Archive { folder, store, index } = archive;
    drop((store, index));
    let mut archive = Archive::open(folder);
    assert_eq!(own(&mut archive.index, &given[10..30]), 20);
    assert!(!file.exists(), "it is put away");
    assert!(archive.index.refresh_ann_file(MODEL, DIMENSIONS).unwrap());
    assert_eq!(own(&mut archive.index, &given[10..30]), 20);
}

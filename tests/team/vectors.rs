//! Vectors of what was sent: those that are here where they tell nothing else, others made of what is there, and none of a secret.

use std::sync::Mutex;
use std::time::Instant;

use ctxbridge::archive::learn::LearningPatterns;
use ctxbridge::archive::search::filter::Filter;
use ctxbridge::archive::search::{self, SearchIndex};
use ctxbridge::archive::store::sqlite::{LockPolicy, SqliteStore};
use ctxbridge::archive::store::{ImportedEmbedding, SearchBackend, SessionReader, TurnReader, TurnSelection, UsageWriter};
use ctxbridge::redact::Redactor;
use ctxbridge::team::sync::{RetryPolicy, SyncReport, SyncRun};
use ctxbridge::vectors::embed::install::MODEL;
use ctxbridge::vectors::embed::{EmbedError, Embedder, EmbeddingModel};

use super::TOKEN;
use super::lines::{says, text, user};
use super::member::{Member, Team, id};

const DIMENSIONS: usize = 384;

/// Words more than a short turn has.
const LONG: usize = 90;

/// Counts words, and remembers what it was given.
#[derive(Clone, Default)]
struct Counts {
    seen: std::sync::Arc<Mutex<Vec<String>>>,
}

impl Counts {
    fn vector(text: &str) -> Vec<f32> {
        let mut vector = vec![0.01; DIMENSIONS];
        for word in text.split_whitespace() {
            vector[word.bytes().fold(7, |sum, byte| (sum * 31 + usize::from(byte)) % DIMENSIONS)] += 1.0;
        }
        let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
        vector.iter().map(|value| value / length).collect()
    }

    fn model(&self) -> Mutex<EmbeddingModel> {
        Mutex::new(EmbeddingModel::from(Box::new(self.clone()) as Box<dyn Embedder>))
    }

    fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }
}

impl Embedder for Counts {
    fn id(&self) -> &'static str {
        MODEL
    }

    fn dimensions(&self) -> usize {
        DIMENSIONS
    }

    fn embed(&mut self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        self.seen.lock().unwrap().extend(texts.iter().map(|text| (*text).to_owned()));
        Ok(texts.iter().map(|text| Self::vector(text)).collect())
    }
}

/// A turn of many words, all of them with a number.
fn long(at: u32, name: &str) -> [serde_json::Value; 2] {
    let words: Vec<String> = (0..LONG).map(|number| format!("{name}{number}")).collect();
    [user(2 * at, format!("Tell me of {name}.")), says(2 * at + 1, &words.join(" "))]
}

/// A long turn without secrets, a short one, a long one with a secret, and a short one beside it.
fn fill(member: &Member) {
    let secret = [user(4, format!("Log in with {TOKEN}.")), says(5, &["logged in"; LONG].join(" "))];
    let short = [user(2, "And now?"), says(3, "Nothing.")];
    let beside = [user(6, "Is it done?"), says(7, "Yes.")];
    member.archive(&id(1), &text(&[&long(0, "apple")[..], &short, &secret, &beside].concat()));
}

fn index(member: &Member) {
    let mut store = here(member);
    let mut index = SearchIndex::open(&member.data()).unwrap();
    search::refresh(&mut store, &mut index, usize::MAX, &mut |_, _| {}).unwrap();
    search::embed_missing(&mut store, &mut index, &mut Counts::default(), usize::MAX, &mut |_| true).unwrap();
}

fn here(member: &Member) -> SqliteStore {
    SqliteStore::open(&member.data(), LockPolicy::Background).unwrap()
}

fn sync(member: &Member, model: &Mutex<EmbeddingModel>, deadline: Option<Instant>) -> SyncReport {
    let sending = SyncRun {
        data: &member.data(),
        from: &|| Ok(Box::new(here(member))),
        to: &|| Ok(Box::new(member.store())),
        name: "there",
        redactor: Redactor::standard(),
        patterns: &LearningPatterns::of_user().0,
        model: Some(model),
        is_full_resync: false,
        deadline,
        retries: RetryPolicy::default(),
        now_ms: 1_780_000_000_000,
    };
    sending.run(&|_| {}).unwrap()
}

/// The entries of the session there, in the order of their turns, with the cosine of the best of their vectors to that of a text.
fn near(member: &Member, text: &str) -> Vec<Option<f32>> {
    let mut store = member.store();
    let session = store.session(&id(1)).unwrap().unwrap();
    let turns = store.turns(session.key, TurnSelection::All).unwrap();
    let hits = store.search_vectors(MODEL, &Counts::vector(text), &Filter::default(), 99).unwrap();
    turns.iter().map(|turn| hits.iter().find(|hit| hit.0 == turn.entry).map(|hit| hit.1)).collect()
}

/// The passage of the long turn.
fn passage() -> String {
    let [_, answer] = long(0, "apple");
    let answer = answer["message"]["content"][0]["text"].as_str().unwrap().to_owned();
    format!("Tell me of apple.\n{answer}")
}

#[test]
fn without_the_model_those_are_sent_that_are_here_and_tell_nothing_else() {
    let team = Team::new();
    let ann = team.member("ann");
    fill(&ann);
    index(&ann);
    let none = Mutex::new(EmbeddingModel::installed(&ann.data()));
    let sent = sync(&ann, &none, None);
    assert_eq!((sent.turns, sent.embedded, sent.no_vectors), (4, 1, None));
    let found = near(&ann, &passage());
    assert!(found[0].is_some_and(|score| score > 0.999) && found[1..] == [None; 3], "{found:?}");
    // The model comes later, and what is there already stays.
    let counts = Counts::default();
    assert_eq!(sync(&ann, &counts.model(), None).embedded, 3);
    assert!(near(&ann, &passage()).iter().all(Option::is_some));
    assert_eq!(sync(&ann, &counts.model(), None).embedded, 0);
}

#[test]
fn no_vector_tells_of_a_secret() {
    let team = Team::new();
    let ann = team.member("ann");
    fill(&ann);
    index(&ann);
    let counts = Counts::default();
    assert_eq!(sync(&ann, &counts.model(), None).embedded, 4);
    let seen = counts.seen();
    assert!(!seen.is_empty() && seen.iter().all(|text| !text.contains(TOKEN)), "{seen:?}");
    let redacted: Vec<&String> = seen.iter().filter(|text| text.contains("[redacted:")).collect();
    // The turn itself, and the two beside it.
    assert!(redacted.iter().any(|text| text.starts_with("Log in with [redacted:")) && redacted.len() >= 3, "{seen:?}");
    // What is there is what was made of that, to the last digit.
    let own = redacted.iter().filter(|text| text.starts_with("Log in")).max_by_key(|text| text.len()).unwrap();
    assert!(near(&ann, own)[2].unwrap() > 0.9999);
    // With the secret, the word that has it would count.
    let with = Counts::vector(&format!("{TOKEN}."));
    let largest = (0..DIMENSIONS).max_by(|a, b| with[*a].total_cmp(&with[*b])).unwrap();
    let sql = "SELECT v.embedding::text FROM ctxbridge.embeddings v JOIN ctxbridge.turns t ON t.tenant = v.tenant AND t.entry = v.entry WHERE t.idx = 2";
    let rows = team.database.admin().unwrap().query(sql, &[]).unwrap();
    assert!(!rows.is_empty());
    for row in rows {
        let text: String = row.get(0);
        let values: Vec<f32> = text.trim_matches(['[', ']']).split(',').map(|value| value.parse().unwrap()).collect();
        assert!(values[largest] <= values.iter().copied().fold(f32::MAX, f32::min) * 1.001, "the secret counts");
    }
}

#[test]
fn what_came_from_other_tools_is_sent_where_there_is_no_secret() {
    let team = Team::new();
    let ann = team.member("ann");
    fill(&ann);
    let mut store = here(&ann);
    let session = store.session(&id(1)).unwrap().unwrap();
    let entries: Vec<i64> = store.turns(session.key, TurnSelection::All).unwrap().iter().map(|turn| turn.entry).collect();
    let imported = |entry: i64, number: usize, dimensions: usize| ImportedEmbedding {
        entry,
        source: "claude-flow".to_owned(),
        source_id: format!("{entry}:{number}"),
        model: "hash-768".to_owned(),
        vector: (0..dimensions).map(|at| if at == number { 1.0 } else { 0.0 }).collect(),
    };
    let all =
        [imported(entries[0], 0, 768), imported(entries[0], 1, 768), imported(entries[1], 2, 384), imported(entries[2], 3, 768)];
    store.keep_embeddings(&all).unwrap();
    let none = Mutex::new(EmbeddingModel::installed(&ann.data()));
    assert_eq!(sync(&ann, &none, None).embedded, 1);
    let sql = "SELECT t.idx, v.passage, v.model FROM ctxbridge.embeddings_768 v JOIN ctxbridge.turns t ON t.tenant = v.tenant AND t.entry = v.entry ORDER BY 2";
    let rows = team.database.admin().unwrap().query(sql, &[]).unwrap();
    let rows: Vec<(i32, i16, String)> = rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect();
    assert_eq!(rows, [(0, 0, "hash-768".to_owned()), (0, 1, "hash-768".to_owned())]);
    assert_eq!(sync(&ann, &none, None).embedded, 0);
}

#[test]
fn what_time_was_too_short_for_comes_next_time() {
    let team = Team::new();
    let ann = team.member("ann");
    fill(&ann);
    let counts = Counts::default();
    assert_eq!(sync(&ann, &Mutex::new(EmbeddingModel::installed(&ann.data())), None).embedded, 0);
    let late = sync(&ann, &counts.model(), Some(Instant::now()));
    assert!(late.is_cut && late.embedded == 0);
    assert_eq!(sync(&ann, &counts.model(), None).embedded, 4);
    // A turn that grows is another text, and its old vectors are none of it.
    let longer = [&long(0, "apple")[..], &[user(9, "And pears?"), says(10, "Those as well.")]].concat();
    ann.archive(&id(2), &text(&longer[..3]));
    assert_eq!(sync(&ann, &counts.model(), None).embedded, 1, "the first turn is known");
    ann.archive(&id(2), &text(&longer));
    assert_eq!(sync(&ann, &counts.model(), None).embedded, 1);
}

#[test]
fn a_server_without_the_extension_has_words() {
    let team = Team::without_vectors();
    let ann = team.member("ann");
    fill(&ann);
    index(&ann);
    let said = ann.run(&["archive", "sync"]);
    assert_eq!(said.stderr.matches("has no extension `vector`").count(), 1, "{}", said.stderr);
    let sent = ann.json(&["archive", "sync", "--json", "--full"]);
    assert!(sent["no_vectors"].as_str().is_some_and(|reason| reason.contains("words alone")), "{sent}");
    let hits = ann.store().search_text("\"apple7\"", &Filter::default(), 9).unwrap();
    assert_eq!(hits.len(), 1);
}

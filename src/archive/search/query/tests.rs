use std::collections::HashSet;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use proptest::prelude::*;

use super::*;
use crate::search::index::Document;
use crate::search::{SearchIndex, TextKind, time};
use crate::store::sqlite::{LockPolicy, SqliteStore};
use ctxbridge_transcript::SearchableText;

/// A real index of these documents, the first of which is 1.
fn index(documents: Vec<(SearchableText, Vec<String>)>) -> (tempfile::TempDir, SearchIndex) {
    let folder = tempfile::tempdir().expect("a folder");
    SqliteStore::open(folder.path(), LockPolicy::Background).expect("an archive");
    let mut index = SearchIndex::open(folder.path()).expect("an index");
    let documents = (1..).zip(documents);
    let documents: Vec<Document> =
        documents.map(|(entry, (fields, files))| Document { entry, fields, files, ..Document::default() }).collect();
    index.add(&documents).expect("room");
    (folder, index)
}

pub(super) fn index_of(texts: &[String]) -> (tempfile::TempDir, SearchIndex) {
    index(texts.iter().map(|text| (SearchableText { prompt: text.clone(), ..SearchableText::default() }, Vec::new())).collect())
}

/// Returns what the words of the index give for a query.
pub(super) fn found(index: &mut SearchIndex, query: &str, kinds: &[TextKind]) -> Vec<(i64, f64)> {
    let terms = QueryTerms::of(query, index.tokenizer());
    let columns: Vec<&str> = kinds.iter().flat_map(|kind| kind.columns()).copied().collect();
    let asked = index.prepare(&terms, &columns).expect("an answer");
    index.search_lexical(&asked, None, 100, &[]).expect("an answer")
}

/// So many texts; each word is in every so many of them.
fn texts_with(words: &[(&str, usize)], count: usize) -> Vec<String> {
    let text = |number: usize| {
        let has = words.iter().filter(|(_, each)| number.is_multiple_of(*each)).map(|(word, _)| *word);
        has.chain(std::iter::repeat_n("filler", number % 11)).chain(["everywhere"]).collect::<Vec<_>>().join(" ")
    };
    (1..=count).map(text).collect()
}

#[test]
fn who_is_not_scored_would_not_be_among_the_best() {
    let (_folder, index) = index_of(&texts_with(&[("alpha", 2), ("beta", 3), ("gamma", 7), ("delta", 500)], 6_000));
    for query in [
        "beta gamma",
        "alpha beta gamma",
        "delta alpha everywhere",
        "alpha filler everywhere",
        "everywhere",
        "gamm* beta",
        "\"alpha beta\"",
    ] {
        let asked = index.prepare(&QueryTerms::of(query, index.tokenizer()), &[]).expect("an answer");
        let lexical = |allowed: Option<&HashSet<i64>>, limit, also: &[i64]| {
            index.search_lexical(&asked, allowed, limit, also).expect("an answer")
        };
        let exact = lexical(None, usize::MAX, &[]);
        assert_eq!(lexical(None, 50, &[])[..10], exact[..10], "{query}");
        let allowed: HashSet<i64> = (1_000..4_000).collect();
        let of_these: Vec<(i64, f64)> = exact.iter().copied().filter(|(entry, _)| allowed.contains(entry)).collect();
        assert_eq!(lexical(Some(&allowed), 50, &[])[..5], of_these[..5], "{query}");
        // Whatever else is wanted has its score, where it has one.
        let also: Vec<i64> = exact.iter().rev().take(3).map(|(entry, _)| *entry).chain([9_999]).collect();
        let found = lexical(None, 50, &also);
        assert!(exact.iter().rev().take(3).all(|one| found.contains(one)), "{query}");
        assert!(!found.iter().any(|(entry, _)| *entry == 9_999), "{query}");
    }
}

/// Only entries with all words are listed where all are everywhere; of few that are allowed, each is looked at.
#[test]
fn words_that_are_everywhere_find_the_best_as_well() {
    let (_folder, index) = index_of(&texts_with(&[("alpha", 3), ("beta", 4)], 2_500));
    for query in ["alpha beta", "alpha filler everywhere"] {
        let asked = index.prepare(&QueryTerms::of(query, index.tokenizer()), &[]).expect("an answer");
        let mut exact: Vec<(i64, f64)> = Vec::new();
        for few in (1..=2_500).collect::<Vec<i64>>().chunks(29) {
            let few: HashSet<i64> = few.iter().copied().collect();
            exact.extend(index.search_lexical(&asked, Some(&few), usize::MAX, &[]).expect("an answer"));
        }
        exact.sort_by(|one, other| other.1.total_cmp(&one.1).then(other.0.cmp(&one.0)));
        assert_eq!(index.search_lexical(&asked, None, 50, &[]).expect("an answer")[..10], exact[..10], "{query}");
    }
}

#[test]
fn frequent_words_are_counted_once() {
    let texts: Vec<String> =
        (0..5_000).map(|number| if number % 4 == 0 { "stored often" } else { "stored" }.to_owned()).collect();
    let (_folder, mut index) = index_of(&texts);
    let docs = |index: &SearchIndex| {
        let asked = index.prepare_rare(&QueryTerms::of("often stored nowhere", index.tokenizer()), 1_000).expect("an answer");
        asked.terms().iter().map(|term| term.docs).collect::<Vec<_>>()
    };
    assert_eq!(docs(&index), [1_250, 5_000, 0]);
    index.optimize(false).expect("an index");
    assert_eq!(docs(&index), [1_250, 5_000, 0], "as noted");
    let more: Vec<Document> = (5_001..=5_500).map(|entry| Document { entry, ..Document::default() }).collect();
    index.add(&more).expect("room");
    assert_eq!(docs(&index), [1_375, 5_500, 0], "as likely among more");
    index.scrub().expect("an index");
    assert_eq!(docs(&index), [1_250, 5_000, 0], "counted");
}

fn expression(query: &str) -> String {
    QueryTerms::of(query, &Tokenizer::default()).expression(&[]).unwrap_or_default()
}

fn besides(query: &str) -> (String, bool) {
    let now: Timestamp = "2026-06-20T10:00:00Z".parse().expect("a time");
    let named = time::find_time(query, now, &TimeZone::UTC).expect("a time");
    let terms = QueryTerms::without_time(query, &named, &Tokenizer::default());
    (terms.expression(&[]).unwrap_or_default(), terms.is_time_only)
}

#[test]
fn queries() {
    for (query, expected) in [
        ("why does the parser hang", r#""parser" OR "hang""#),
        ("max_retries", r#""max" OR "retri" OR "maxretries""#),
        ("\"connection reset\" upload", r#"(NEAR("connect" "reset", 4)) OR ((NEAR("connect" "reset", 4)) AND ("upload"))"#),
        ("ECONN* reset", r#""reset" OR "econn"* OR "econ""#),
        ("archive*", r#""archive"* OR "archiv""#),
        ("max_ret*", r#""max" OR "ret"* OR "maxret"*"#),
        ("max_*", r#""max"*"#),
        (r#""connection res*""#, r#""connect" AND ("res"*)"#),
        ("what is it", r#""what" OR "is" OR "it""#),
        ("NOT (a OR b) NEAR col:x^2 --", r#""b" OR "near" OR "col" OR "x" OR "2""#),
        ("\"unclosed quote", r#""unclos" OR "quot""#),
        ("\"one\" \"\"", r#""one""#),
        ("commit 3f9c2ab", r#""commit" OR "3f9c2ab"*"#),
        ("1234567 a1b2c3", r#""1234567" OR "a1b2c3""#),
        ("列", r#""列"*"#),
        ("* \" ' ; DROP TABLE", r#""drop" OR "tabl""#),
        ("", ""),
    ] {
        assert_eq!(expression(query), expected, "{query}");
    }
    let terms = QueryTerms::of("parser hang", &Tokenizer::default());
    assert_eq!(terms.expression(&["prompt", "answer"]).as_deref(), Some(r#"{prompt answer} : ("parser" OR "hang")"#));
}

#[test]
fn a_time_is_no_word_but_a_day_as_texts_have_it_is_one() {
    for (query, expected, is_alone) in [
        ("what did we do yesterday?", "", true),
        ("what happened last week", "", true),
        ("show me everything I worked on in March", "", true),
        ("the parser, yesterday", r#""parser""#, false),
        ("work on the parser since May 3", r#""work" OR "parser""#, false),
        ("errors on 2026-05-04", r#""error" OR "2026_05_04""#, false),
        ("what did we do on 2026-05-04", r#""2026_05_04""#, true),
        ("errors before 2026-05-04", r#""error""#, false),
        ("\"what did\" yesterday", r#"NEAR("what" "did", 4)"#, false),
    ] {
        assert_eq!(besides(query), (expected.to_owned(), is_alone), "{query}");
    }
}

#[test]
fn a_word_in_quotes_is_required() {
    let texts = ["the parser", "parsers", "the lexer", "src/parser.rs"].map(str::to_owned);
    let (_folder, mut index) = index_of(&texts);
    let entries = |found: Vec<(i64, f64)>| {
        let mut entries: Vec<i64> = found.into_iter().map(|(entry, _)| entry).collect();
        entries.sort_unstable();
        entries
    };
    // The stem is all that the index knows.
    assert_eq!(entries(found(&mut index, "\"parser\" lexer", &[])), [1, 2, 4]);
    let terms = QueryTerms::of("\"parser\" lexer", index.tokenizer());
    assert!(terms.has_quotes());
    assert_eq!(texts.each_ref().map(|text| terms.quotes_are_in([text.as_str()].into_iter())), [true, false, false, true]);
}

#[test]
fn a_long_query_is_no_error() {
    let (_folder, mut index) = index_of(&["ab archive".to_owned()]);
    assert_eq!(found(&mut index, &format!("\"{}\"", "ab ".repeat(330)), &[]).len(), 1, "the text is read for how often");
    assert_eq!(found(&mut index, &"\"ab\" ".repeat(200), &[]).len(), 1);
    let begins: Vec<String> = (0..120).map(|number| format!("archive* w{number}ing* ")).collect();
    assert_eq!(found(&mut index, &begins.concat(), &[]).len(), 1);
}

/// Words that are written, with endings, and names.
fn word() -> impl Strategy<Value = String> {
    prop_oneof![
        "(archive|cache|parse|retries|running|connections|relational|happily|happy|dying|agreed|use|flies|the)",
        "(archiv|pars|cach|retr|connect|relat|nation|optim)(e|es|ed|ing|ings|ion|ions|al|ally|ational|ization|er|ers|y|ies|able|ive)",
        // Of eight parts at most: longer ones are no names, and only their parts are in the index.
        "[a-zA-Z]{1,3}([_.-]?[a-zA-Z][a-z]{0,4}){0,3}[0-9]{0,2}",
        "(max_retries|maxRetries|parseHTTPHeader2|2\\.1\\.330|E0308|naïveté|日本語)",
    ]
}

const QUERIES: &str = "\"?(the |pars|max|max_retries|type null|null|1\\.12|retries|日本|lock)\"?\\*?";

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ctxbridge_testkit::share_of(512)))]

    #[test]
    fn sqlite_reads_every_expression(query in r#".{0,40}|["*a-z():^+ -]{0,40}"#) {
        let db = rusqlite::Connection::open_in_memory().expect("a database");
        db.execute_batch("CREATE VIRTUAL TABLE words USING fts5(prompt, content='', tokenize = \"ascii tokenchars '_'\")").expect("FTS5");
        if let Some(expression) = QueryTerms::of(&query, &Tokenizer::default()).expression(&["prompt"]) {
            let found = db.query_row("SELECT count(*) FROM words WHERE words MATCH ?1", [&expression], |row| row.get::<_, i64>(0));
            prop_assert!(found.is_ok(), "{query:?}: {expression}: {found:?}");
        }
    }

    #[test]
    fn every_begin_of_a_word_finds_its_text(words in proptest::collection::vec(word(), 1..6)) {
        let texts = [words.join(" "), "another text".to_owned()];
        let (_folder, mut index) = index_of(&texts);
        for word in &words {
            for end in word.char_indices().map(|(at, character)| at + character.len_utf8()).skip(1) {
                let query = format!("{}*", &word[..end]);
                let found = found(&mut index, &query, &[]);
                prop_assert!(found.iter().any(|(entry, _)| *entry == 1), "{query} in {texts:?}");
            }
        }
    }

    #[test]
    fn what_stands_in_a_text_is_found_in_quotes(words in proptest::collection::vec(word(), 1..8), from in 0_usize..8, length in 1_usize..6) {
        let text = words.join(" ");
        let (_folder, mut index) = index_of(&[text.clone(), "another text".to_owned()]);
        let lower = text.to_lowercase();
        let runs = quote::runs(&lower);
        let first = runs[from % runs.len()];
        let last = runs[(from % runs.len() + length).min(runs.len()) - 1];
        let at = |run: &str| run.as_ptr() as usize - lower.as_ptr() as usize;
        let quoted = format!("\"{}\"", &text[at(first)..at(last) + last.len()]);
        let terms = QueryTerms::of(&quoted, index.tokenizer());
        prop_assert!(terms.quotes_are_in([text.as_str()].into_iter()), "{quoted} in {text}");
        prop_assert!(found(&mut index, &quoted, &[]).iter().any(|(entry, _)| *entry == 1), "{quoted} in {text}");
    }

    #[test]
    fn scores_are_parts_of_the_most_there_could_be(
        texts in proptest::collection::vec(proptest::collection::vec("(the |parse |parser |max_retries |type null |mimeType null |1.12 |lock |日本語 ){0,12}", 4), 1..12),
        query in proptest::collection::vec(QUERIES, 1..5),
        kinds in proptest::sample::subsequence(vec![TextKind::Prompt, TextKind::Answer, TextKind::Tool, TextKind::File], 0..3),
    ) {
        let documents = texts.into_iter().map(|texts| {
            let fields = SearchableText { prompt: texts[0].clone(), answer: texts[1].clone(), output: texts[2].clone(), ..SearchableText::default() };
            (fields, vec![texts[3].clone()])
        });
        let (_folder, mut index) = index(documents.collect());
        let query = query.join(" ");
        for (entry, score) in found(&mut index, &query, &kinds) {
            prop_assert!((0.0..=1.0).contains(&score), "{query} {kinds:?}: {entry} has {score}");
        }
    }
}

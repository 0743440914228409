//! What the model makes of texts, compared with what its publishers' own code does (`tokens.json`: the tokenizers library;
//! `vectors.json`: ONNX Runtime with the published 32-bit weights).

use std::fs;

use ctxbridge::vectors::embed::install::{MODEL, VOCABULARY, WEIGHTS};
use ctxbridge::vectors::embed::{EmbedError, Embedder, EmbeddingModel, MAX_TOKENS, MiniLm, QUANTIZED};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::model;

/// Of 8-bit weights and inputs: 0.998 and more were measured. Processors without a product of 8-bit numbers have weights of 7 bits,
/// for which it is 0.995.
const LEAST_COSINE: f32 = 0.994;

#[derive(Deserialize)]
struct Reference {
    text: String,
    #[serde(default)]
    vector: Vec<f32>,
    #[serde(default)]
    tokens: Vec<u32>,
}

fn read<T: DeserializeOwned>(text: &str) -> T {
    serde_json::from_str(text).unwrap()
}

fn load() -> MiniLm {
    MiniLm::load(model()).unwrap_or_else(|error| panic!("{error}"))
}

fn cosine(a: &[f32], b: &[f32]) -> f32 {
    let product = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
    product(a, b) / (product(a, a) * product(b, b)).sqrt()
}

#[test]
fn tokens_are_those_of_the_published_tokenizer() {
    let model = load();
    for Reference { text, tokens, .. } in read::<Vec<Reference>>(include_str!("tokens.json")) {
        assert_eq!(model.tokens(&text), tokens, "{text:?}");
    }
}

#[test]
fn vectors_are_those_of_the_published_weights() {
    let references: Vec<Reference> = read(include_str!("vectors.json"));
    let mut model = load();
    assert_eq!((model.id(), model.dimensions()), ("minilm-384", 384));
    let texts: Vec<&str> = references.iter().map(|reference| reference.text.as_str()).collect();
    let vectors = model.embed(&texts).unwrap();
    for (reference, vector) in references.iter().zip(&vectors) {
        assert_eq!(vector.len(), 384);
        let cosine = cosine(&reference.vector, vector);
        assert!(cosine >= LEAST_COSINE, "{}: {cosine}", reference.text);
        let length: f32 = vector.iter().map(|number| number * number).sum();
        assert!((length - 1.0).abs() < 1e-5, "{}: {length}", reference.text);
    }
    // What says the same in other words is nearest.
    for (text, nearest) in [(0, 1), (1, 0), (2, 3), (3, 2)] {
        let others = (0..texts.len()).filter(|other| *other != text);
        let found = others.max_by(|a, b| cosine(&vectors[text], &vectors[*a]).total_cmp(&cosine(&vectors[text], &vectors[*b])));
        assert_eq!(found, Some(nearest), "{}", texts[text]);
    }
}

/// Not nearly: nothing of a text's vector may depend on what is asked for beside it, or how many threads there are.
#[test]
fn a_vector_depends_on_its_text_alone() {
    let long = "The archive keeps every byte of a transcript. ".repeat(40);
    let texts: Vec<String> = (0..70).map(|n| long[..n * n % 900 + n].to_owned()).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let mut model = load();
    let together = model.embed(&texts).unwrap();
    for (text, vector) in texts.iter().zip(&together).step_by(9) {
        assert_eq!(model.embed(&[text]).unwrap()[0], *vector, "{text}");
    }
    let mut parallel = MiniLm::with_threads(super::model(), 3).unwrap();
    assert!(parallel.embed(&texts).unwrap() == together);
    assert!(model.embed(&[]).unwrap().is_empty());
}

/// Quantized weights are what the published ones become, to the bit; damaged ones, or those beside another model, are not used.
#[test]
fn vectors_are_the_same_without_the_quantized_weights() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for name in [VOCABULARY, WEIGHTS] {
        fs::copy(model().join(name), at(name)).unwrap();
    }
    let texts = ["The archive keeps every byte of a transcript.", "zwei Wörter", "x"];
    let vectors = || {
        let kept = MiniLm::load(folder.path()).unwrap().embed(&texts).unwrap();
        assert!(kept[1] == MiniLm::embed_once(folder.path(), texts[1]).unwrap(), "of a model that is not kept");
        kept
    };
    let expected = load().embed(&texts).unwrap();
    assert!(vectors() == expected, "of the published weights");
    let whole = fs::read(model().join(QUANTIZED)).unwrap();
    assert!(whole.len() < 12_000_000);
    for place in [whole.len() / 2, whole.len() - 1, 9] {
        let mut bytes = whole.clone();
        bytes[place] ^= 1;
        fs::write(at(QUANTIZED), bytes).unwrap();
        assert!(vectors() == expected, "byte {place}");
    }
    fs::write(at(QUANTIZED), &whole[..99]).unwrap();
    assert!(vectors() == expected, "of a torn file");
    // So these are what is computed with where they are there: the published ones are damaged.
    fs::write(at(QUANTIZED), &whole).unwrap();
    let mut published = fs::read(at(WEIGHTS)).unwrap();
    let of_last_layer = published.len() - 4 * 500_000;
    published[of_last_layer] ^= 1;
    fs::write(at(WEIGHTS), &published).unwrap();
    assert!(vectors() == expected, "of the quantized weights");
    // Another model of this shape has other positions; its words are not for this encoder.
    let length = 8 + u64::from_le_bytes(published[..8].try_into().unwrap()) as usize;
    let header: serde_json::Value = serde_json::from_slice(&published[8..length]).unwrap();
    let positions = header["embeddings.position_embeddings.weight"]["data_offsets"][0].as_u64().unwrap() as usize;
    published[length + positions + 2] ^= 1;
    fs::write(at(WEIGHTS), &published).unwrap();
    assert!(matches!(MiniLm::load(folder.path()), Err(EmbedError::Damaged { .. })), "of another model");
    assert!(matches!(MiniLm::embed_once(folder.path(), "x"), Err(EmbedError::Damaged { .. })), "of another model");
    fs::remove_file(at(QUANTIZED)).unwrap();
    assert!(matches!(MiniLm::load(folder.path()), Err(EmbedError::Damaged { .. })));
}

#[test]
fn a_search_reads_the_model_for_itself_and_a_second_one_keeps_it() {
    let data = tempfile::tempdir().unwrap();
    let folder = data.path().join("models").join(MODEL);
    fs::create_dir_all(&folder).unwrap();
    for name in [VOCABULARY, WEIGHTS, QUANTIZED] {
        fs::hard_link(model().join(name), folder.join(name))
            .or_else(|_| fs::copy(model().join(name), folder.join(name)).map(drop))
            .unwrap();
    }
    let mut searching = EmbeddingModel::installed(data.path());
    let mut expected = load();
    let mut is_right = |model: &mut EmbeddingModel, text| model.embed_text(text).unwrap() == expected.embed(&[text]).unwrap()[0];
    assert!(is_right(&mut searching, "frozen"), "of a model that is not kept");
    fs::remove_file(folder.join(VOCABULARY)).unwrap();
    assert!(is_right(&mut searching, "frozen"), "the same text again");
    assert!(searching.embed_text("thawed").unwrap_err().contains("not installed"), "it was not kept");
    fs::copy(model().join(VOCABULARY), folder.join(VOCABULARY)).unwrap();
    assert!(is_right(&mut searching, "thawed"), "it is there again");
    fs::remove_file(folder.join(VOCABULARY)).unwrap();
    assert!(is_right(&mut searching, "melted"), "it is kept");
}

#[test]
fn a_long_text_is_cut_at_256_tokens() {
    let mut model = load();
    // With the two marks, so many words of one token are just not cut.
    let whole = "word ".repeat(MAX_TOKENS - 2);
    let longer = format!("{whole}and more that nobody reads");
    assert_eq!(model.tokens(&longer).len(), MAX_TOKENS);
    assert_eq!(model.tokens(&whole), model.tokens(&longer));
    let shorter = "word ".repeat(MAX_TOKENS - 3);
    assert_eq!(model.tokens(&shorter).len(), MAX_TOKENS - 1);
    let vectors = model.embed(&[&whole, &longer, &shorter]).unwrap();
    assert_eq!(vectors[0], vectors[1]);
    assert_ne!(vectors[0], vectors[2]);
}

#[test]
fn every_text_has_a_vector() {
    let megabyte = "All work and no play makes Jack a dull boy. ".repeat(25_000);
    let one_word = "x".repeat(1 << 20);
    let marks = "e\u{301}\u{327}".repeat(100_000);
    let brackets = "[".repeat(1 << 20);
    let texts =
        ["", " \t\r\n", "\0\u{7}\u{1b}[31m\u{7f}", "😀👩‍👩‍👧🇩🇪", "\u{feff}\u{202e}\u{fffd}", &megabyte, &one_word, &marks, &brackets];
    for (text, vector) in texts.iter().zip(load().embed(&texts).unwrap()) {
        let length: f32 = vector.iter().map(|number| number * number).sum();
        assert!((length - 1.0).abs() < 1e-5, "{text:.40?}: {length}");
    }
}

/// Writes the model into a folder, spoiled in some way, and loads it.
fn spoiled(spoil: impl Fn(&mut Vec<u8>), name: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    for file in [VOCABULARY, WEIGHTS] {
        let mut bytes = fs::read(model().join(file)).unwrap();
        if file == name {
            spoil(&mut bytes);
        }
        fs::write(folder.path().join(file), bytes).unwrap();
    }
    match MiniLm::load(folder.path()) {
        Err(error @ EmbedError::Damaged { .. }) => error.to_string(),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("{name} is taken"),
    }
}

#[test]
fn a_damaged_model_is_refused() {
    let refused = |spoil: &dyn Fn(&mut Vec<u8>), name: &str, says: &str| {
        let said = spoiled(spoil, name);
        assert!(said.contains(name) && said.contains(says) && said.contains("ctxbridge model install"), "{said}");
    };
    refused(&|bytes| bytes.truncate(bytes.len() - 1), WEIGHTS, "it has 90868375 bytes, not 90868376");
    refused(&|bytes| bytes.truncate(5), WEIGHTS, "it has 5 bytes");
    refused(&|bytes| bytes[6] = 0xff, WEIGHTS, "no header");
    refused(&|bytes| bytes[9] = b'?', WEIGHTS, "damaged");
    let header = |bytes: &[u8]| 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    // Of the same length, and another shape.
    let reshape = |bytes: &mut Vec<u8>| {
        let text = String::from_utf8(bytes[8..header(bytes)].to_vec()).unwrap();
        let text = text.replace("[1536,384]", "[384,1536]");
        bytes.splice(8..header(bytes), text.into_bytes());
    };
    refused(&reshape, WEIGHTS, "is F32 [384, 1536], not F32 [1536, 384]");
    // The least bit of a weight near the end, which is one of the last layer's.
    let flip = |bytes: &mut Vec<u8>| {
        let at = bytes.len() - 4 * 500_000;
        bytes[at] ^= 1;
    };
    refused(&flip, WEIGHTS, "the checksum of its weights");
    let infinite = |bytes: &mut Vec<u8>| {
        let at = header(bytes) + (bytes.len() - header(bytes)) / 4 * 4 - 4 * 500_000;
        bytes[at..at + 4].copy_from_slice(&f32::INFINITY.to_le_bytes());
    };
    refused(&infinite, WEIGHTS, "not a number");
    refused(&|bytes| bytes.truncate(1000), VOCABULARY, "words, not 30522");
    refused(&|bytes| bytes.swap(1, 2), VOCABULARY, "word 0 is not [PAD]");
    refused(&|bytes| bytes[5] = 0xff, VOCABULARY, "not text");
}

#[test]
fn without_a_model_it_says_how_to_get_one() {
    let folder = tempfile::tempdir().unwrap();
    let error = MiniLm::load(folder.path()).err().unwrap();
    assert!(matches!(error, EmbedError::Absent(_)) && error.to_string().contains("`ctxbridge model install`"), "{error}");
}

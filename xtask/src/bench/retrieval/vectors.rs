//! The model, asked once for each text; and its vectors as they are, to see what storing them in bytes costs.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::path::Path;

use anyhow::Result;
use ctxbridge::common::digest;
use ctxbridge::vectors::embed::{EmbedError, Embedder};

use super::corpus::Corpus;
use super::dataset::{Dataset, Question};
use super::metric::DEEPEST;

/// An embedder that remembers: each configuration asks the same questions, and each run has the same turns.
pub struct Remembering {
    inner: Box<dyn Embedder>,
    known: HashMap<[u8; 32], Vec<f32>>,
    /// The file that has them from one run to the next.
    cache: Option<File>,
}

impl Remembering {
    /// Reads what is known from a file, and adds to it.
    pub fn new(inner: Box<dyn Embedder>, cache: Option<&Path>) -> Result<Self> {
        let mut known = HashMap::new();
        let cache = match cache {
            Some(path) => {
                fs::create_dir_all(path.parent().unwrap_or(path))?;
                let mut file = OpenOptions::new().create(true).read(true).append(true).open(path)?;
                let mut bytes = Vec::new();
                file.read_to_end(&mut bytes)?;
                for record in bytes.chunks_exact(32 + 4 * inner.dimensions()) {
                    let (hash, numbers) = record.split_at(32);
                    let vector = numbers.chunks_exact(4).filter_map(|four| Some(f32::from_le_bytes(four.try_into().ok()?)));
                    known.insert(hash.try_into()?, vector.collect());
                }
                Some(file)
            }
            None => None,
        };
        Ok(Self { inner, known, cache })
    }
}

impl Embedder for Remembering {
    fn id(&self) -> &'static str {
        self.inner.id()
    }

    fn dimensions(&self) -> usize {
        self.inner.dimensions()
    }

    fn embed(&mut self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let hash = |text: &str| digest::sha256(text.as_bytes());
        let mut new: Vec<&str> = texts.iter().copied().filter(|text| !self.known.contains_key(&hash(text))).collect();
        new.sort_unstable();
        new.dedup();
        for (text, vector) in new.iter().zip(self.inner.embed(&new)?) {
            if let Some(file) = &mut self.cache {
                let numbers = vector.iter().flat_map(|number| number.to_le_bytes());
                let record: Vec<u8> = hash(text).into_iter().chain(numbers).collect();
                // What cannot be written is made again.
                file.write_all(&record).ok();
            }
            self.known.insert(hash(text), vector);
        }
        Ok(texts.iter().filter_map(|text| self.known.get(&hash(text))).cloned().collect())
    }
}

/// Vectors of all passages in full, compared with a question's one by one.
pub struct Exact {
    /// Turn, project, time in milliseconds since 1970, vectors.
    turns: Vec<(String, String, i64, Vec<Vec<f32>>)>,
}

impl Exact {
    /// Those of all turns.
    pub fn new(corpus: &mut Corpus, dataset: &Dataset, embedder: &mut dyn Embedder) -> Result<Self> {
        let mut places = HashMap::new();
        for session in &dataset.sessions {
            for turn in &session.turns {
                places.insert(turn.id.as_str(), (session.project.clone(), turn.at.as_millisecond()));
            }
        }
        let mut turns = Vec::new();
        for (turn, texts) in corpus.texts()? {
            if let Some((project, at)) = places.remove(turn.as_str()) {
                let made = embedder.embed(&texts.all().collect::<Vec<_>>())?;
                turns.push((turn, project, at, texts.vectors(made)));
            }
        }
        Ok(Self { turns })
    }

    /// Turns in the order of their best passage's cosine, the best first.
    pub fn ask(&self, embedder: &mut dyn Embedder, question: &Question) -> Result<Vec<String>> {
        let Some(asked) = embedder.embed(&[&question.question])?.pop() else { return Ok(Vec::new()) };
        let mut order: Vec<(f32, &str)> = Vec::new();
        for (turn, project, at, vectors) in &self.turns {
            let is_allowed =
                *at < question.asked_at.as_millisecond() && question.project.as_ref().is_none_or(|wanted| wanted == project);
            let best = vectors.iter().map(|vector| cosine(vector, &asked)).max_by(f32::total_cmp);
            order.extend(best.filter(|_| is_allowed).map(|best| (best, turn.as_str())));
        }
        order.sort_by(|one, other| other.0.total_cmp(&one.0));
        Ok(order.into_iter().take(DEEPEST).map(|(_, turn)| turn.to_owned()).collect())
    }
}

/// Of vectors of length 1.
fn cosine(one: &[f32], other: &[f32]) -> f32 {
    one.iter().zip(other).map(|(one, other)| one * other).sum()
}

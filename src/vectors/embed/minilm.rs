/*!
`minilm-384`: all-MiniLM-L6-v2 (Wang et al. 2020; Reimers and Gurevych 2019), the mean of its rows, brought to length 1.

Weights are rounded to 8 bits. Over 128 texts, the least cosine with the vectors of the published weights was 0.998.
*/

use std::io;
use std::path::Path;

use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

use super::encoder::{Encoder, EncoderSource, HIDDEN};
use super::install::{VOCABULARY, WEIGHTS};
use super::linear::{Integers, largest_unit};
use super::published::PublishedWeights;
use super::quantized_weights::QuantizedWeights;
use super::weights::{TensorRows, Weights};
use super::wordpiece::{TokenId, WORDS, WordPiece, framed};
use super::{EmbedError, Embedder};
use ctxbridge_common::files;

/// The encoder was trained on texts of this many tokens; of a longer text only the start counts.
pub const MAX_TOKENS: usize = 256;
/// Texts whose tokens are in memory at once: 0.4 MB each.
const BATCH_TEXTS: usize = 64;

/// The encoder; its weights take 12 MB. The word embeddings, four times as much, stay in the file.
pub struct MiniLm {
    input: Input,
    /// Embeddings of each token's kind and position.
    positions: Vec<f32>,
    encoder: Encoder,
    threads: ThreadPool,
}

/// Source of the encoder's input for a text.
struct Input {
    vocabulary: WordPiece,
    weights: Weights,
    words: TensorRows,
}

impl MiniLm {
    /// Reads a model that [`install`](super::install::install) has installed, to run on one thread.
    ///
    /// # Errors
    /// If it is not there, or is damaged.
    pub fn load(folder: &Path) -> Result<Self, EmbedError> {
        Self::with_threads(folder, 1)
    }

    /// Like [`Self::load`], but runs on several threads: several texts at once, and for a single text, its parts. The vectors are
    /// the same, whatever the number.
    ///
    /// # Errors
    /// If it is not there, or is damaged, or the system gives no threads.
    pub fn with_threads(folder: &Path, threads: usize) -> Result<Self, EmbedError> {
        let threads = ThreadPoolBuilder::new().num_threads(threads.max(1)).build()?;
        Self::with_input(folder, Input::open(folder)?, threads)
    }

    fn with_input(folder: &Path, mut input: Input, threads: ThreadPool) -> Result<Self, EmbedError> {
        // How weights are laid out depends on the number of threads.
        let (encoder, positions) = threads.install(|| read_encoder(folder, &mut input.weights))?;
        Ok(Self { input, positions, encoder, threads })
    }

    /// Returns the vector of one text, of a model that is read for it alone and not kept. It is the same as that of [`Self::embed`].
    ///
    /// # Errors
    /// If the model is not there, or is damaged.
    pub fn embed_once(folder: &Path, text: &str) -> Result<Vec<f32>, EmbedError> {
        let mut input = Input::open(folder)?;
        let threads = ThreadPoolBuilder::new().num_threads(1).build()?;
        match threads.install(|| embed_quantized(folder, &mut input, text)) {
            Some(vector) => Ok(vector),
            None => Ok(Self::with_input(folder, input, threads)?.embed(&[text])?.remove(0)),
        }
    }

    /// Returns the tokens that the model sees of a text: at most [`MAX_TOKENS`] indices into its vocabulary.
    pub fn tokens(&self, text: &str) -> Vec<TokenId> {
        self.input.tokens(text)
    }

    /// Returns the tokens of the words of a text that the vocabulary knows, without those that begin and end it; for making a table of words.
    pub fn known_tokens(&self, text: &str) -> Vec<TokenId> {
        self.input.vocabulary.known(text, MAX_TOKENS)
    }

    /// Returns each word of the vocabulary with the vector that it has alone, at length 1; for making a table of them.
    ///
    /// # Errors
    /// If the model is damaged.
    pub fn word_vectors(&mut self) -> Result<Vec<(String, Vec<f32>)>, EmbedError> {
        let mut words = self.input.vocabulary.words();
        words.sort_unstable();
        let mut vectors = Vec::with_capacity(words.len());
        for (token, word) in words {
            let input = self.input.embed_tokens(&framed(token), &self.positions)?;
            let encoder = &self.encoder;
            vectors.push((word, pool(&self.threads.install(|| encoder.run(input))?)));
        }
        Ok(vectors)
    }
}

impl Input {
    fn open(folder: &Path) -> Result<Self, EmbedError> {
        let path = folder.join(VOCABULARY);
        let vocabulary = files::read_to_string(&path).map_err(|cause| match cause.kind() {
            io::ErrorKind::NotFound => EmbedError::Absent(path.clone()),
            io::ErrorKind::InvalidData => EmbedError::Damaged { path: path.clone(), what: "it is not text".to_owned() },
            _ => EmbedError::Read { path: path.clone(), cause },
        })?;
        let vocabulary = WordPiece::read(&vocabulary).map_err(|what| EmbedError::Damaged { path, what })?;
        let weights = Weights::open(&folder.join(WEIGHTS))?;
        let words = weights.rows("embeddings.word_embeddings.weight", [WORDS, HIDDEN])?;
        Ok(Self { vocabulary, weights, words })
    }

    fn tokens(&self, text: &str) -> Vec<TokenId> {
        self.vocabulary.encode(text, MAX_TOKENS)
    }

    /// Returns the input of the first layer: for each token the sum of its embeddings.
    fn embed_tokens(&mut self, tokens: &[TokenId], positions: &[f32]) -> Result<Vec<f32>, EmbedError> {
        let mut sums = Vec::with_capacity(tokens.len() * HIDDEN);
        for token in tokens {
            self.weights.row(&self.words, *token as usize, &mut sums)?;
        }
        sums.iter_mut().zip(positions).for_each(|(number, position)| *number += position);
        Ok(sums)
    }
}

impl Embedder for MiniLm {
    fn id(&self) -> &'static str {
        "minilm-384"
    }

    fn dimensions(&self) -> usize {
        HIDDEN
    }

    fn embed(&mut self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let mut vectors = Vec::with_capacity(texts.len());
        for texts in texts.chunks(BATCH_TEXTS) {
            let mut inputs = Vec::with_capacity(texts.len());
            for text in texts {
                let tokens = self.input.tokens(text);
                inputs.push(self.input.embed_tokens(&tokens, &self.positions)?);
            }
            let encoder = &self.encoder;
            let outputs: Result<Vec<_>, _> =
                self.threads.install(|| inputs.into_par_iter().map(|input| encoder.run(input)).collect());
            vectors.extend(outputs?.iter().map(|rows| pool(rows)));
        }
        // Rows of the word embeddings are not covered by the checksum.
        if vectors.iter().flatten().all(|number| number.is_finite()) {
            return Ok(vectors);
        }
        Err(self.input.weights.damaged("a vector is not of numbers"))
    }
}

/// Reads the encoder and its positions: quantized where they are there and whole, else as they were published.
fn read_encoder(folder: &Path, weights: &mut Weights) -> Result<(Encoder, Vec<f32>), EmbedError> {
    let largest_unit = largest_unit(&Integers::new());
    let mut published = PublishedWeights { weights, largest_unit };
    if let Some((encoder, positions)) = QuantizedWeights::read(folder, largest_unit)
        && published.has_positions(&positions)
    {
        return Ok((encoder, positions));
    }
    let positions = published.positions()?;
    let encoder = Encoder::read(&mut published)?;
    published.check()?;
    Ok((encoder, positions))
}

/// The vector of a text by the quantized weights; `None` if there are none, or they are damaged or not of this model.
fn embed_quantized(folder: &Path, input: &mut Input, text: &str) -> Option<Vec<f32>> {
    let largest_unit = largest_unit(&Integers::new());
    let mut source = QuantizedWeights::open(folder)?;
    let positions = source.positions().ok()?;
    let is_of_model = PublishedWeights { weights: &mut input.weights, largest_unit }.has_positions(&positions);
    let tokens = input.tokens(text);
    let embedded = input.embed_tokens(&tokens, &positions).ok().filter(|_| is_of_model)?;
    let vector = pool(&Encoder::run_once(&mut source, embedded).ok()?);
    (source.is_whole(largest_unit) && vector.iter().all(|number| number.is_finite())).then_some(vector)
}

/// The mean of all rows, at length 1.
fn pool(rows: &[f32]) -> Vec<f32> {
    let mut mean = vec![0.0; HIDDEN];
    for row in rows.chunks_exact(HIDDEN) {
        mean.iter_mut().zip(row).for_each(|(sum, number)| *sum += number);
    }
    let length = mean.iter().map(|number| number * number).sum::<f32>().sqrt();
    mean.iter_mut().for_each(|number| *number /= length);
    mean
}

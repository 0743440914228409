/*!
`cargo xtask bench retrieval`: recall of the turns that answer a question, by each mode of search and with each stage of the
ranking.

Sessions of a dataset are written as the client writes them, archived, indexed and searched by the library, as users' are; real
sessions are read from a folder. Nothing here is timed.
*/

mod bm25;
mod configurations;
mod corpus;
mod dataset;
mod locomo;
mod metric;
pub mod real;
mod report;
mod sessions;
mod vectors;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow, ensure};
use ctxbridge::archive::search::Mode;
use ctxbridge::vectors::embed::{Embedder as _, EmbeddingModel, MiniLm, install};

use self::bm25::Bm25;
use self::configurations::BASELINE;
pub use self::corpus::Corpus;
pub use self::dataset::{Dataset, Question};
use self::report::ConfigurationResult;
use self::vectors::{Exact, Remembering};
use crate::tools::{root, target};

#[derive(Debug, clap::Args)]
pub struct RetrievalArgs {
    /// Datasets; without any, the one in fixtures/retrieval
    files: Vec<PathBuf>,
    /// Ask the questions in fixtures/retrieval/real of the real transcripts in this folder, instead
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["files", "projects"])]
    corpus: Option<PathBuf>,
    /// With --corpus: a column for each kind of question, rather than English and other languages
    #[arg(long, requires = "corpus")]
    by_kind: bool,
    /// Folder of the model, if not the installed one
    #[arg(long, value_name = "DIR")]
    model: Option<PathBuf>,
    /// The static embedding, instead of the model
    #[arg(long = "static", conflicts_with = "model")]
    is_static: bool,
    /// Only configurations that have this in their name, e.g. `hybrid`
    #[arg(long, value_name = "TEXT")]
    only: Vec<String>,
    /// Only questions on these projects, by the last folder of their paths; what is searched stays the same
    #[arg(long, value_delimiter = ',')]
    projects: Vec<String>,
    /// JSON, with the ranks of each question's evidence
    #[arg(long)]
    json: bool,
    /// Make a dataset of the folder of LoCoMo's conversations, and nothing else
    #[arg(long, num_args = 2, value_names = ["DIR", "OUT"], conflicts_with_all = ["files", "only", "projects", "json", "model"])]
    convert_locomo: Vec<PathBuf>,
}

pub fn run(args: &RetrievalArgs) -> Result<bool> {
    if let [folder, out] = &args.convert_locomo[..] {
        let dataset = locomo::read(folder)?;
        fs::write(out, serde_json::to_string(&dataset)?).with_context(|| format!("cannot write {}", out.display()))?;
        let turns: usize = dataset.sessions.iter().map(|session| session.turns.len()).sum();
        println!("{}: {turns} turns, {} questions", out.display(), dataset.questions.len());
        return Ok(true);
    }
    let mut model = if args.is_static { Some(EmbeddingModel::built_in()) } else { model(args.model.as_deref())? };
    if model.is_none() {
        eprintln!("there is no model, so words alone are compared; `ctxbridge model install` brings it");
    }
    if let Some(folder) = &args.corpus {
        return on_real_sessions(folder, model.as_mut(), args);
    }
    let own = [root().join("fixtures/retrieval/coding.json")];
    let files = if args.files.is_empty() { &own[..] } else { &args.files };
    let mut reports = Vec::new();
    for path in files {
        let mut dataset = Dataset::read(path)?;
        dataset.keep_questions_on(&args.projects)?;
        let turns: usize = dataset.sessions.iter().map(|session| session.turns.len()).sum();
        eprintln!("{}: archiving {} sessions", dataset.name, dataset.sessions.len());
        let mut corpus = Corpus::new(&dataset)?;
        let rows = rows(&dataset, &mut corpus, model.as_mut(), &args.only)?;
        if args.json {
            reports.push(report::json(&dataset, &rows));
        } else {
            print!("{}", report::table(&dataset, turns, &rows));
        }
    }
    if args.json {
        println!("{}", serde_json::to_string_pretty(&reports)?);
    }
    Ok(true)
}

/// Each half of the questions on real sessions, asked of an archive with all of them.
fn on_real_sessions(folder: &Path, mut model: Option<&mut EmbeddingModel>, args: &RetrievalArgs) -> Result<bool> {
    let mut corpus = real::archive(folder)?;
    for half in real::QuestionHalf::all(&corpus, args.by_kind)? {
        let rows = rows(&half.dataset, &mut corpus, model.as_deref_mut(), &args.only)?;
        if args.json {
            println!("{}", serde_json::to_string_pretty(&report::json(&half.dataset, &rows))?);
        } else {
            print!("{}", report::table(&half.dataset, corpus.turn_count(), &rows));
        }
    }
    Ok(true)
}

/// The name of the row that compares vectors as the model made them.
const EXACT: &str = "dense, no stage, vectors in full";

fn rows(
    dataset: &Dataset,
    corpus: &mut Corpus,
    model: Option<&mut EmbeddingModel>,
    only: &[String],
) -> Result<Vec<ConfigurationResult>> {
    let is_wanted = |name: &str| only.is_empty() || only.iter().any(|text| name.contains(text.as_str()));
    let has_model = model.is_some();
    let mut configurations = configurations::all(has_model);
    configurations.retain(|configuration| is_wanted(&configuration.name));
    let mut rows = Vec::with_capacity(configurations.len() + 1);
    let sessions = corpus.sessions().clone();
    let row = |name: &str, mode, ask: &mut dyn FnMut(&Question) -> Result<Vec<String>>| {
        let mut row = ConfigurationResult { name: name.to_owned(), mode, ranks: Vec::new(), session_ranks: Vec::new() };
        for question in &dataset.questions {
            let found = ask(question)?;
            row.ranks.push(metric::ranks(&found, &question.evidence));
            row.session_ranks.push(metric::session_rank(&found, &question.evidence, &sessions));
        }
        anyhow::Ok(row)
    };
    // Real sessions are known to the archive alone.
    let is_made_up = !dataset.sessions.is_empty();
    if is_made_up {
        let bm25 = Bm25::new(dataset)?;
        rows.push(row(BASELINE, Mode::Lexical, &mut |question| bm25.ask(question))?);
    }
    let mut without = EmbeddingModel::installed(Path::new(""));
    let model = match model {
        Some(model) => model,
        // Words are not asked of it.
        None => &mut without,
    };
    if has_model {
        let embedder = model.get().map_err(|error| anyhow!("{error}"))?;
        let vectors = corpus.embed(embedder, &mut |done| eprint!("\r{done} turns have vectors"))?;
        eprintln!("\r{vectors} vectors are made");
        if is_made_up && is_wanted(EXACT) {
            let exact = Exact::new(corpus, dataset, embedder)?;
            rows.push(row(EXACT, Mode::Dense, &mut |question| exact.ask(embedder, question))?);
        }
    }
    for configuration in &configurations {
        eprintln!("{}", configuration.name);
        rows.push(row(&configuration.name, configuration.mode, &mut |question| {
            let there = question.evidence.first().and_then(|turn| corpus.folder_of(turn)).map(str::to_owned);
            corpus.ask(model, configuration, question, there.as_deref().filter(|_| configuration.is_asked_there))
        })?);
    }
    ensure!(rows.iter().any(|row| row.name != BASELINE), "no configuration has `{}` in its name", only.join("`, `"));
    Ok(rows)
}

/// The model in a folder, or the installed one, if there is one.
fn model(given: Option<&Path>) -> Result<Option<EmbeddingModel>> {
    let folder = match given {
        Some(folder) => folder.to_owned(),
        None => install::folder()?,
    };
    if given.is_none() && !folder.exists() {
        return Ok(None);
    }
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let model = MiniLm::with_threads(&folder, threads)?;
    let cache = target().join("bench").join(model.id()).with_extension("vectors");
    let embedder = Remembering::new(Box::new(model), Some(&cache))?;
    Ok(Some(EmbeddingModel::from(Box::new(embedder) as Box<_>)))
}

#[cfg(test)]
mod tests;

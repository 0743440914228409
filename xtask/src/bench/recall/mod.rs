/*!
`cargo xtask bench recall`: usefulness of the turns that are added to prompts unasked.

Questions of a labeled set are typed as prompts in their project, and the added turns ought to be their evidence. For prompts
that have nothing to recall, nothing ought to be added. Those of the project's own set are asked of the archive, and of bundles with the
work of the same sessions; those on real sessions are asked of the archive, within the time that a hook has.
*/

mod bundles;
mod fit;
mod unrelated;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use ctxbridge::hook::RECALL_TIMEOUT;

use self::bundles::Bundled;
use self::fit::{Fitted, ThresholdOutcome};
use self::unrelated::Unrelated;
use super::retrieval::real::{self, QuestionHalf};
use super::retrieval::{Corpus, Dataset, Question};
use crate::tools::root;

#[derive(Debug, clap::Args)]
pub struct BenchRecallArgs {
    /// Ask the questions in fixtures/retrieval/real of the real transcripts in this folder, instead
    #[arg(long, value_name = "FOLDER", conflicts_with = "with")]
    corpus: Option<PathBuf>,
    /// Fit the weights of the decision on the half for tuning and on the own set, and write them
    #[arg(long, requires = "corpus")]
    fit: bool,
    /// Number of threads that keep the processors busy meanwhile
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    busy: usize,
    /// Print what is added to each prompt that has nothing to recall
    #[arg(long)]
    noise: bool,
    /// Archive the sessions of this dataset as well, so that there is more to confuse with
    #[arg(long, value_name = "FILE")]
    with: Vec<PathBuf>,
}

/// Maximum number of added turns, as in the hook.
const MOST: usize = 7;
/// Time limit of a search, long enough never to matter.
const PATIENCE: Duration = Duration::from_secs(60);

/// Results of all prompts.
#[derive(Debug, Default)]
struct Tally {
    questions: usize,
    /// Questions that were given at least one of the turns that answer them.
    helped: usize,
    /// Questions that were given something.
    answered: usize,
    added: usize,
    relevant: usize,
    unrelated: usize,
    silent: usize,
}

pub fn run(args: &BenchRecallArgs) -> Result<bool> {
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..args.busy {
            scope.spawn(|| {
                while !is_done.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let done = match &args.corpus {
            Some(folder) if args.fit => fit_weights(folder),
            Some(folder) => on_real_sessions(folder, args.noise),
            None => on_own_sessions(args),
        };
        is_done.store(true, Ordering::Relaxed);
        done
    })
}

fn on_own_sessions(args: &BenchRecallArgs) -> Result<bool> {
    let dataset = Dataset::read(&root().join("fixtures/retrieval/coding.json"))?;
    let unrelated = Unrelated::read(&root().join("fixtures/retrieval/unrelated.json"))?;
    let mut all = dataset.clone();
    for path in &args.with {
        all.sessions.extend(Dataset::read(path)?.sessions);
    }
    let turns: usize = all.sessions.iter().map(|session| session.turns.len()).sum();
    let mut corpus = Corpus::new(&all)?;
    let projects = dataset.projects();
    let questions: Vec<(&Question, &str)> =
        dataset.questions.iter().map(|question| (question, projects[question.evidence[0].as_str()])).collect();
    let prompts: Vec<[&str; 3]> =
        unrelated.prompts.iter().map(|prompt| [&prompt.id, &prompt.project, &prompt.prompt].map(String::as_str)).collect();
    let archive = tally(&questions, &prompts, args.noise, &mut |prompt, folder| {
        corpus.related(prompt, folder, Instant::now() + PATIENCE, MOST)
    })?;
    let bundled = Bundled::new(&dataset)?;
    let bundles = tally(&questions, &prompts, args.noise, &mut |prompt, folder| bundled.related(prompt, folder, MOST))?;
    println!("{} questions, {} prompts that have nothing to recall, {turns} turns\n", archive.questions, archive.unrelated);
    print(&[("the archive".to_owned(), archive), ("bundles alone".to_owned(), bundles)]);
    Ok(true)
}

/// Goals for prompts in English and in other languages. More are to be left alone than the 92 % that are asked for: they are few.
const GOALS: [ThresholdOutcome; 2] = [
    ThresholdOutcome { helped: 0.45, precision: 0.78, silent: 0.95 },
    ThresholdOutcome { helped: 0.3, precision: 0.78, silent: 0.95 },
];
/// The goal for helped prompts of the own set.
const MADE_UP_HELPED: f64 = 0.6;
/// Maximum number of turns that are told.
const FITTED_MOST: usize = 1;

/// Fits on the half for tuning and on the own set; the other half is not read.
fn fit_weights(folder: &Path) -> Result<bool> {
    let mut prompts = Vec::new();
    let mut corpus = real::archive(folder)?;
    let half = QuestionHalf::all(&corpus, false)?.swap_remove(0);
    for question in &half.dataset.questions {
        let folder = corpus.folder_of(&question.evidence[0]).unwrap_or_default().to_owned();
        prompts.push(considered(&mut corpus, &question.question, &folder, &question.evidence, true)?);
    }
    for prompt in &half.prompts {
        prompts.push(considered(&mut corpus, &prompt.prompt, &prompt.folder, &[], true)?);
    }
    let dataset = Dataset::read(&root().join("fixtures/retrieval/coding.json"))?;
    let mut corpus = Corpus::new(&dataset)?;
    let projects = dataset.projects();
    for question in &dataset.questions {
        let project = projects[question.evidence[0].as_str()];
        prompts.push(considered(&mut corpus, &question.question, project, &question.evidence, false)?);
    }
    for prompt in Unrelated::read(&root().join("fixtures/retrieval/unrelated.json"))?.prompts {
        prompts.push(considered(&mut corpus, &prompt.prompt, &prompt.project, &[], false)?);
    }
    let Fitted { trees, unseen: [english, foreign, unseen], made_up } = fit::fit(&prompts, GOALS, MADE_UP_HELPED, FITTED_MOST);
    let path = root().join("src/archive/search/relevance/trees.txt");
    let remark = "# Written by `cargo xtask bench recall --corpus FOLDER --fit`; the first line has thresholds and intercept.\n";
    fs::write(&path, format!("{remark}{}", trees.to_text()))?;
    println!("{} prompts, judged by trees that did not see them:", prompts.len());
    for (name, outcome) in [
        ("real, English", english),
        ("real, other languages", foreign),
        ("made up", unseen),
        ("made up, by the trees that know them", made_up),
    ] {
        println!(
            "{name}: {:.1} % helped, {:.1} % of the lines wanted, {:.1} % silent where there is nothing",
            100.0 * outcome.helped,
            100.0 * outcome.precision,
            100.0 * outcome.silent
        );
    }
    Ok(true)
}

fn considered(
    corpus: &mut Corpus,
    prompt: &str,
    folder: &str,
    evidence: &[String],
    is_real: bool,
) -> Result<fit::TrainingPrompt> {
    let rows = corpus.considered(prompt, folder)?;
    let turns = rows.iter().map(|(turn, _)| turn.clone()).collect();
    let rows = rows.into_iter().map(|(turn, features)| (features, evidence.contains(&turn))).collect();
    Ok(fit::TrainingPrompt { rows, turns, is_answerable: !evidence.is_empty(), is_real, is_foreign: corpus.is_foreign(prompt) })
}

fn on_real_sessions(folder: &Path, tells_noise: bool) -> Result<bool> {
    let mut corpus = real::archive(folder)?;
    let mut rows = Vec::new();
    for half in QuestionHalf::all(&corpus, false)? {
        let place = |question: &Question| corpus.folder_of(&question.evidence[0]).unwrap_or_default().to_owned();
        let folders: Vec<String> = half.dataset.questions.iter().map(place).collect();
        for is_english in [true, false] {
            let is_wanted = |language: &str| (language == "en") == is_english;
            let questions = half.dataset.questions.iter().zip(&folders).zip(&half.languages);
            let questions: Vec<(&Question, &str)> = questions
                .filter(|(_, language)| is_wanted(language))
                .map(|((question, folder), _)| (question, folder.as_str()))
                .collect();
            let prompts = half.prompts.iter().filter(|prompt| is_wanted(&prompt.language));
            let prompts: Vec<[&str; 3]> =
                prompts.map(|prompt| [&prompt.id, &prompt.folder, &prompt.prompt].map(String::as_str)).collect();
            let found = tally(&questions, &prompts, tells_noise, &mut |prompt, folder| {
                // Whoever is not done in time is silent.
                Ok(corpus.related(prompt, folder, Instant::now() + RECALL_TIMEOUT, MOST).unwrap_or_default())
            })?;
            let language = if is_english { "English" } else { "other languages" };
            let name = format!("{}, {language} ({} questions, {} prompts)", half.dataset.name, found.questions, found.unrelated);
            rows.push((name, found));
        }
    }
    println!("{} turns, {} ms for each prompt\n", corpus.turn_count(), RECALL_TIMEOUT.as_millis());
    print(&rows);
    Ok(true)
}

fn print(rows: &[(String, Tally)]) {
    println!(
        "| from | lines added | of these relevant | questions that are helped | given only others | silent where there is nothing |"
    );
    println!("| --- | --- | --- | --- | --- | --- |");
    for (name, tally) in rows {
        let share = |part: usize, of: usize| 100.0 * part as f64 / of.max(1) as f64;
        println!(
            "| {name} | {} | {:.1} % | {:.1} % | {:.1} % | {:.1} % |",
            tally.added,
            share(tally.relevant, tally.added),
            share(tally.helped, tally.questions),
            share(tally.answered - tally.helped, tally.questions),
            share(tally.silent, tally.unrelated),
        );
    }
}

/// Asks questions in their folders, and prompts (id, folder, text).
fn tally(
    questions: &[(&Question, &str)],
    prompts: &[[&str; 3]],
    tells_noise: bool,
    recall: &mut dyn FnMut(&str, &str) -> Result<Vec<String>>,
) -> Result<Tally> {
    let mut tally = Tally::default();
    for (question, folder) in questions {
        let found = recall(&question.question, folder)?;
        let relevant = found.iter().filter(|turn| question.evidence.contains(turn)).count();
        tally.questions += 1;
        tally.answered += usize::from(!found.is_empty());
        tally.helped += usize::from(relevant > 0);
        tally.added += found.len();
        tally.relevant += relevant;
    }
    for [id, folder, prompt] in prompts {
        let found = recall(prompt, folder)?;
        tally.unrelated += 1;
        tally.silent += usize::from(found.is_empty());
        if tells_noise && !found.is_empty() {
            println!("{id}: {prompt} → {}", found.join(", "));
        }
    }
    Ok(tally)
}

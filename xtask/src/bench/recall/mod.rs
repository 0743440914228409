/*!
`cargo xtask bench recall`: usefulness of the turns that are added to prompts unasked.

Questions of the labeled set are typed as prompts in their project, and the added turns ought to be their evidence. For prompts
that have nothing to recall, nothing ought to be added. Each is asked of the archive, and of bundles with the work of the same
sessions. Nothing here is timed.
*/

mod bundles;
mod unrelated;

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Result;

use self::bundles::Bundled;
use self::unrelated::Unrelated;
use super::retrieval::{Corpus, Dataset};
use crate::tools::root;

#[derive(Debug, clap::Args)]
pub struct RecallArgs {
    /// Print what is added to each prompt that has nothing to recall
    #[arg(long)]
    noise: bool,
    /// Archive the sessions of this dataset as well, so that there is more to confuse with
    #[arg(long, value_name = "FILE")]
    with: Vec<PathBuf>,
}

/// Maximum number of added turns, as in the hook.
const MOST: usize = 7;
/// Time limit of a search, long enough never to matter: nothing is timed here.
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

pub fn run(args: &RecallArgs) -> Result<bool> {
    let dataset = Dataset::read(&root().join("fixtures/retrieval/coding.json"))?;
    let unrelated = Unrelated::read(&root().join("fixtures/retrieval/unrelated.json"))?;
    let mut all = dataset.clone();
    for path in &args.with {
        all.sessions.extend(Dataset::read(path)?.sessions);
    }
    let turns: usize = all.sessions.iter().map(|session| session.turns.len()).sum();
    let mut corpus = Corpus::new(&all)?;
    let archive = tally(&dataset, &unrelated, args.noise, &mut |prompt, folder| {
        corpus.related(prompt, folder, Instant::now() + PATIENCE, MOST)
    })?;
    let bundled = Bundled::new(&dataset)?;
    let bundles = tally(&dataset, &unrelated, args.noise, &mut |prompt, folder| bundled.related(prompt, folder, MOST))?;
    println!("{} questions, {} prompts that have nothing to recall, {turns} turns\n", archive.questions, archive.unrelated);
    println!(
        "| from | lines added | of these relevant | target | questions that are helped | given only others | silent where there is nothing | target |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- |");
    for (name, tally) in [("the archive", archive), ("bundles alone", bundles)] {
        let share = |part: usize, of: usize| 100.0 * part as f64 / of.max(1) as f64;
        println!(
            "| {name} | {} | {:.1} % | ≥ 70 % | {:.1} % | {:.1} % | {:.1} % | ≥ 80 % |",
            tally.added,
            share(tally.relevant, tally.added),
            share(tally.helped, tally.questions),
            share(tally.answered - tally.helped, tally.questions),
            share(tally.silent, tally.unrelated),
        );
    }
    Ok(true)
}

fn tally(
    dataset: &Dataset,
    unrelated: &Unrelated,
    tells_noise: bool,
    recall: &mut dyn FnMut(&str, &str) -> Result<Vec<String>>,
) -> Result<Tally> {
    let projects: HashMap<&str, &str> = dataset.projects();
    let mut tally = Tally::default();
    for question in &dataset.questions {
        let found = recall(&question.question, projects[question.evidence[0].as_str()])?;
        let relevant = found.iter().filter(|turn| question.evidence.contains(turn)).count();
        tally.questions += 1;
        tally.answered += usize::from(!found.is_empty());
        tally.helped += usize::from(relevant > 0);
        tally.added += found.len();
        tally.relevant += relevant;
    }
    for prompt in &unrelated.prompts {
        let found = recall(&prompt.prompt, &prompt.project)?;
        tally.unrelated += 1;
        tally.silent += usize::from(found.is_empty());
        if tells_noise && !found.is_empty() {
            println!("{}: {} → {}", prompt.id, prompt.prompt, found.join(", "));
        }
    }
    Ok(tally)
}

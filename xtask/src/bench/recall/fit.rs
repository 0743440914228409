//! Fits the trees that decide what is recalled: gradient boosting for log-loss (Friedman 2001, "Greedy Function Approximation"), with
//! complete trees, on a part of the rows each. The same input gives the same trees.

use std::collections::HashSet;

use ctxbridge::archive::search::relevance::{FEATURES, TREE_DEPTH, Tree, Trees};

/// Features of a turn, and if it is wanted.
pub type TrainingRow = ([f64; FEATURES.len()], bool);

/// A prompt: the turns that were considered, and if there are any that answer it.
#[derive(Clone, Debug, Default)]
pub struct TrainingPrompt {
    pub rows: Vec<TrainingRow>,
    /// Names of the turns.
    pub turns: Vec<String>,
    pub is_answerable: bool,
    /// `true` if it is about real sessions.
    pub is_real: bool,
    /// `true` if it is judged as one in another language than English.
    pub is_foreign: bool,
}

impl TrainingPrompt {
    /// Names of the turns that answer it.
    fn wanted(&self) -> impl Iterator<Item = &String> {
        self.rows.iter().zip(&self.turns).filter(|((_, is_wanted), _)| *is_wanted).map(|(_, turn)| turn)
    }
}

const TREES: usize = 250;
const LEARNING_RATE: f64 = 0.03;
/// Share of the rows that a tree is fitted on.
const SUBSAMPLE: f64 = 0.6;
const MIN_LEAF_ROWS: usize = 15;
/// Thresholds that are tried for a split: so many quantiles of a feature.
const QUANTILES: usize = 24;
const FOLDS: usize = 5;
/// Number of cross-validations, each with other folds.
const ROUNDS: u64 = 3;
const SPLITS: usize = (1 << TREE_DEPTH) - 1;
const LEAVES: usize = 1 << TREE_DEPTH;

/// Outcome of a threshold, in the mean of all cross-validations.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThresholdOutcome {
    /// Shares of answerable prompts that are helped, of lines that are wanted, and of the other prompts that are left alone.
    pub helped: f64,
    pub precision: f64,
    pub silent: f64,
}

/// Trees that were fitted, and their worth.
#[derive(Debug)]
pub struct Fitted {
    pub trees: Trees,
    /// Outcomes for real prompts in English and in other languages, and for those that are made up, by trees that did not see them.
    pub unseen: [ThresholdOutcome; 3],
    /// Outcome for those that are made up, by the trees, which know them.
    pub made_up: ThresholdOutcome,
}

/// Fits on all prompts. The thresholds, for English and for other languages, are those that are farthest beyond these goals for real ones: by the
/// lesser of what they have to spare in helped prompts and in wanted lines, where enough others are left alone. Each prompt is judged by trees
/// that never saw it, nor the turns that answer it. Of prompts in English that are made up, the trees, which know them, help at least
/// `made_up_helped`. Where no threshold is good enough, nothing is ever recalled.
pub fn fit(prompts: &[TrainingPrompt], goals: [ThresholdOutcome; 2], made_up_helped: f64, most: usize) -> Fitted {
    let mut judged: Vec<(usize, Vec<f64>)> = Vec::new();
    for round in 0..ROUNDS {
        let fold_of: Vec<usize> = (0..prompts.len() as u64).map(|at| random(round, at) as usize % FOLDS).collect();
        for fold in 0..FOLDS {
            let in_fold = prompts.iter().zip(&fold_of).filter(|(_, of)| **of == fold);
            let answers: HashSet<&String> = in_fold.flat_map(|(prompt, _)| prompt.wanted()).collect();
            let known = prompts.iter().zip(&fold_of).filter(|(_, of)| **of != fold);
            let known = known.flat_map(|(prompt, _)| prompt.rows.iter().zip(&prompt.turns));
            let trees = boost(&known.filter(|(_, turn)| !answers.contains(turn)).map(|(row, _)| row).collect::<Vec<_>>());
            let others = fold_of.iter().enumerate().filter(|(_, of)| **of == fold);
            judged.extend(others.map(|(at, _)| (at, log_odds(&trees, &prompts[at]))));
        }
    }
    let trees = boost(&prompts.iter().flat_map(|prompt| &prompt.rows).collect::<Vec<_>>());
    let known: Vec<_> = prompts.iter().enumerate().map(|(at, prompt)| (at, log_odds(&trees, prompt))).collect();
    let part = |judged: &[(usize, Vec<f64>)], is_real: bool, is_foreign: bool| {
        let is_of_it = |at: usize| prompts[at].is_real == is_real && prompts[at].is_foreign == is_foreign;
        judged.iter().filter(|(at, _)| is_of_it(*at)).cloned().collect::<Vec<_>>()
    };
    let made_up = part(&known, false, false);
    let helps_made_up = |threshold| made_up.is_empty() || outcome(prompts, &made_up, threshold, most).helped >= made_up_helped;
    let best = [false, true].map(|is_foreign| {
        let (judged, goal) = (part(&judged, true, is_foreign), goals[usize::from(is_foreign)]);
        let outcomes = (-60..60).map(|step| f64::from(step) / 20.0).filter(|threshold| is_foreign || helps_made_up(*threshold));
        let outcomes = outcomes.map(|threshold| (threshold, outcome(prompts, &judged, threshold, most)));
        let spare = |outcome: &ThresholdOutcome| (outcome.helped - goal.helped).min(outcome.precision - goal.precision);
        let fits = outcomes.filter(|(_, outcome)| outcome.silent >= goal.silent);
        fits.max_by(|one, other| spare(&one.1).total_cmp(&spare(&other.1)))
            .unwrap_or((f64::INFINITY, ThresholdOutcome::default()))
    });
    let thresholds = best.map(|(threshold, _)| threshold);
    // Each is measured against the threshold of its language.
    let of_made_up = |judged: &[(usize, Vec<f64>)]| {
        let mut judged: Vec<_> = judged.iter().filter(|(at, _)| !prompts[*at].is_real).cloned().collect();
        for (at, odds) in &mut judged {
            odds.iter_mut().for_each(|odds| *odds -= thresholds[usize::from(prompts[*at].is_foreign)]);
        }
        outcome(prompts, &judged, 0.0, most)
    };
    let (unseen, made_up) = (of_made_up(&judged), of_made_up(&known));
    Fitted { trees: Trees { thresholds, ..trees }, unseen: [best[0].1, best[1].1, unseen], made_up }
}

fn log_odds(trees: &Trees, prompt: &TrainingPrompt) -> Vec<f64> {
    prompt.rows.iter().map(|(features, _)| trees.log_odds(features)).collect()
}

fn outcome(prompts: &[TrainingPrompt], judged: &[(usize, Vec<f64>)], threshold: f64, most: usize) -> ThresholdOutcome {
    let (mut asked, mut helped, mut lines, mut wanted, mut others, mut silent) = (0, 0, 0, 0, 0, 0);
    for (at, odds) in judged {
        let mut told: Vec<(f64, bool)> =
            odds.iter().zip(&prompts[*at].rows).map(|(odds, (_, is_wanted))| (*odds, *is_wanted)).collect();
        told.retain(|(odds, _)| *odds >= threshold);
        told.sort_by(|one, other| other.0.total_cmp(&one.0));
        told.truncate(most);
        let right = told.iter().filter(|(_, is_wanted)| *is_wanted).count();
        if prompts[*at].is_answerable {
            asked += 1;
            helped += usize::from(right > 0);
            lines += told.len();
            wanted += right;
        } else {
            others += 1;
            silent += usize::from(told.is_empty());
        }
    }
    let share = |part: usize, of: usize| part as f64 / of.max(1) as f64;
    ThresholdOutcome { helped: share(helped, asked), precision: share(wanted, lines), silent: share(silent, others) }
}

/// A number for a place, the same in each run.
fn random(seed: u64, at: u64) -> u64 {
    let mut mixed = (seed << 32 ^ at).wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

fn boost(rows: &[&TrainingRow]) -> Trees {
    let wanted = rows.iter().filter(|(_, is_wanted)| *is_wanted).count().max(1) as f64;
    let intercept = (wanted / (rows.len() as f64 - wanted).max(1.0)).ln();
    let mut odds = vec![intercept; rows.len()];
    let thresholds: Vec<Vec<f64>> = (0..FEATURES.len()).map(|feature| quantiles(rows, feature)).collect();
    let bins = |row: &&TrainingRow| {
        std::array::from_fn(|feature| thresholds[feature].partition_point(|threshold| *threshold < row.0[feature]))
    };
    let bins: Vec<[usize; FEATURES.len()]> = rows.iter().map(bins).collect();
    let mut trees = Vec::with_capacity(TREES);
    for number in 0..TREES as u64 {
        let part: Vec<usize> = (0..rows.len())
            .filter(|at| (random(number + 1_000, *at as u64) >> 11) as f64 / (1_u64 << 53) as f64 <= SUBSAMPLE)
            .collect();
        let probability: Vec<f64> = odds.iter().map(|odds| 1.0 / (1.0 + (-odds).exp())).collect();
        let gradient: Vec<f64> =
            rows.iter().zip(&probability).map(|((_, is_wanted), probability)| f64::from(*is_wanted) - probability).collect();
        let mut tree = Tree { splits: [(0, f64::INFINITY); SPLITS], leaves: [0.0; LEAVES] };
        let known = Known { bins: &bins, thresholds: &thresholds, gradient: &gradient, probability: &probability };
        grow(&mut tree, 0, part, &known);
        for (row, odds) in rows.iter().zip(&mut odds) {
            *odds += tree.leaves[tree.leaf(&row.0)];
        }
        trees.push(tree);
    }
    Trees { thresholds: [f64::INFINITY; 2], intercept, trees }
}

/// Facts about the rows while a tree grows.
struct Known<'k> {
    /// Numbers of the thresholds that are below each feature of a row.
    bins: &'k [[usize; FEATURES.len()]],
    thresholds: &'k [Vec<f64>],
    gradient: &'k [f64],
    probability: &'k [f64],
}

/// Splits rows by what lessens the squared error of the gradient most, down to the leaves.
fn grow(tree: &mut Tree, at: usize, part: Vec<usize>, known: &Known<'_>) {
    let total: f64 = part.iter().map(|row| known.gradient[*row]).sum();
    if at >= SPLITS {
        let curvature: f64 = part.iter().map(|row| known.probability[*row] * (1.0 - known.probability[*row])).sum();
        tree.leaves[at - SPLITS] = LEARNING_RATE * (total / (curvature + 1.0)).clamp(-4.0, 4.0);
        return;
    }
    let mut best = (0.0, (0, f64::INFINITY, usize::MAX));
    for (feature, thresholds) in known.thresholds.iter().enumerate() {
        let mut sums = [(0_usize, 0.0_f64); QUANTILES + 1];
        for row in &part {
            let (count, sum) = &mut sums[known.bins[*row][feature]];
            (*count, *sum) = (*count + 1, *sum + known.gradient[*row]);
        }
        let (mut count, mut sum) = (0, 0.0);
        for (number, threshold) in thresholds.iter().enumerate() {
            (count, sum) = (count + sums[number].0, sum + sums[number].1);
            let others = part.len() - count;
            if count < MIN_LEAF_ROWS || others < MIN_LEAF_ROWS {
                continue;
            }
            let gain = sum * sum / count as f64 + (total - sum).powi(2) / others as f64 - total * total / part.len() as f64;
            if gain > best.0 {
                best = (gain, (feature, *threshold, number));
            }
        }
    }
    let (feature, threshold, number) = best.1;
    tree.splits[at] = (feature, threshold.min(1e9));
    let (left, right): (Vec<usize>, Vec<usize>) = part.into_iter().partition(|row| known.bins[*row][feature] <= number);
    grow(tree, 2 * at + 1, left, known);
    grow(tree, 2 * at + 2, right, known);
}

/// Values of a feature at equal distances in the order of rows. They are written with four decimals.
fn quantiles(rows: &[&TrainingRow], feature: usize) -> Vec<f64> {
    let mut values: Vec<f64> = rows.iter().map(|(features, _)| features[feature]).collect();
    values.sort_by(f64::total_cmp);
    let mut picked: Vec<f64> = (1..QUANTILES)
        .filter_map(|at| values.get(at * values.len() / QUANTILES))
        .map(|value| (value * 1e4).round() / 1e4)
        .collect();
    picked.dedup();
    picked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tells_is_learned_and_what_does_not_is_left() {
        let prompts: Vec<TrainingPrompt> = (0..400_u64)
            .map(|at| {
                let mut features = [0.0; FEATURES.len()];
                features[3] = (random(1, at) % 100) as f64 / 100.0;
                features[5] = (random(2, at) % 100) as f64 / 100.0;
                let is_wanted = features[3] > 0.6;
                TrainingPrompt {
                    rows: vec![(features, is_wanted)],
                    turns: vec![at.to_string()],
                    is_answerable: is_wanted,
                    is_real: at % 4 < 2,
                    is_foreign: at % 2 == 0,
                }
            })
            .collect();
        let goal = ThresholdOutcome { helped: 0.9, precision: 0.9, silent: 0.9 };
        let Fitted { trees, unseen, made_up } = fit(&prompts, [goal; 2], 0.9, 1);
        assert!(unseen[2].helped > 0.9 && made_up.helped > 0.9, "{unseen:?} {made_up:?}");
        for (outcome, threshold) in unseen.into_iter().zip(trees.thresholds) {
            assert!(outcome.helped > 0.9 && outcome.precision > 0.9 && outcome.silent > 0.9, "{outcome:?}");
            let mut features = [0.0; FEATURES.len()];
            assert!(trees.log_odds(&features) < threshold);
            features[3] = 0.9;
            assert!(trees.log_odds(&features) >= threshold);
        }
        // More than all cannot be helped, so nothing is good enough; other languages have no such goal.
        let Fitted { trees, .. } = fit(&prompts, [goal; 2], 1.1, 1);
        assert!(trees.thresholds[0].is_infinite() && trees.thresholds[1].is_finite());
    }
}

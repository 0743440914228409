//! Boosted trees, as text: two thresholds and an intercept, then a line for each tree, with its splits (a feature and a threshold each, top down)
//! and its leaves. All but features are in parts of [`ONE`]: whole numbers are read five times as fast, and each prompt reads them.

use std::sync::LazyLock;

use super::FEATURES;

/// Number of splits between the root and a leaf.
pub const TREE_DEPTH: usize = 4;
/// The number that stands for 1.
const ONE: f64 = 10_000.0;
const SPLITS: usize = (1 << TREE_DEPTH) - 1;
const LEAVES: usize = 1 << TREE_DEPTH;

/// The trees that decide what is recalled.
pub static MODEL: LazyLock<Trees> = LazyLock::new(|| Trees::parse(include_str!("trees.txt")).unwrap_or_default());

/// A sum of trees. One that is empty finds nothing relevant.
#[derive(Clone, Debug, PartialEq)]
pub struct Trees {
    /// Log-odds from which on a turn is relevant to a text in English, and to a foreign one ([`is_foreign`](crate::search::is_foreign)): that one
    /// has fewer words in common with it, whatever it is about.
    pub thresholds: [f64; 2],
    /// Log-odds before all trees.
    pub intercept: f64,
    /// The trees.
    pub trees: Vec<Tree>,
}

/// A complete tree: what is at most a threshold goes left.
#[derive(Clone, Debug, PartialEq)]
pub struct Tree {
    /// Feature and threshold of each split; the children of split i are 2i + 1 and 2i + 2.
    pub splits: [(usize, f64); SPLITS],
    /// Log-odds that each leaf adds.
    pub leaves: [f64; LEAVES],
}

impl Default for Trees {
    fn default() -> Self {
        Self { thresholds: [f64::INFINITY; 2], intercept: 0.0, trees: Vec::new() }
    }
}

impl Tree {
    /// The leaf of some features.
    pub fn leaf(&self, features: &[f64; FEATURES.len()]) -> usize {
        let mut at = 0;
        while let Some((feature, threshold)) = self.splits.get(at) {
            at = 2 * at + if features[*feature] <= *threshold { 1 } else { 2 };
        }
        at - SPLITS
    }
}

impl Trees {
    /// Log-odds from which on a turn is relevant to a text.
    pub fn threshold(&self, is_foreign: bool) -> f64 {
        self.thresholds[usize::from(is_foreign)]
    }

    /// Log-odds that a turn with these features is wanted.
    pub fn log_odds(&self, features: &[f64; FEATURES.len()]) -> f64 {
        self.trees.iter().map(|tree| tree.leaves[tree.leaf(features)]).sum::<f64>() + self.intercept
    }

    /// Reads trees; lines that begin with `#` are remarks. `None` if the text is not what [`Self::to_text`] writes.
    pub fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        let numbers = |line: &str| line.split(' ').map(str::parse).collect::<Result<Vec<i32>, _>>().ok();
        let read = |number: i32| f64::from(number) / ONE;
        let [english, foreign, intercept] = numbers(lines.next()?)?.try_into().ok()?;
        let tree = |line: &str| {
            let numbers = numbers(line)?;
            if numbers.len() != 2 * SPLITS + LEAVES {
                return None;
            }
            let mut tree = Tree { splits: [(0, 0.0); SPLITS], leaves: [0.0; LEAVES] };
            for (split, pair) in tree.splits.iter_mut().zip(numbers.chunks(2)) {
                *split = (usize::try_from(pair[0]).ok()?, read(pair[1]));
            }
            for (leaf, number) in tree.leaves.iter_mut().zip(&numbers[2 * SPLITS..]) {
                *leaf = read(*number);
            }
            tree.splits.iter().all(|(feature, _)| *feature < FEATURES.len()).then_some(tree)
        };
        let thresholds = [english, foreign].map(read);
        Some(Self { thresholds, intercept: read(intercept), trees: lines.map(tree).collect::<Option<_>>()? })
    }

    /// Writes the trees.
    pub fn to_text(&self) -> String {
        let written = |number: f64| (number * ONE).round() as i32;
        let [english, foreign] = self.thresholds.map(written);
        let mut text = format!("{english} {foreign} {}\n", written(self.intercept));
        for tree in &self.trees {
            let splits = tree.splits.iter().map(|(feature, threshold)| format!("{feature} {}", written(*threshold)));
            let leaves = tree.leaves.iter().map(|leaf| written(*leaf).to_string());
            text += &splits.chain(leaves).collect::<Vec<_>>().join(" ");
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees_are_read_as_they_are_written() {
        let mut tree = Tree { splits: [(0, 0.5); SPLITS], leaves: [0.0; LEAVES] };
        tree.leaves[LEAVES - 1] = 2.0;
        tree.leaves[0] = -1.0;
        let trees = Trees { thresholds: [0.5, -0.5], intercept: -0.25, trees: vec![tree] };
        let read = Trees::parse(&format!("# a remark\n{}", trees.to_text()));
        assert_eq!(read.as_ref(), Some(&trees));
        let mut features = [0.0; FEATURES.len()];
        assert_eq!(trees.log_odds(&features), -1.25);
        features[0] = 1.0;
        assert_eq!(trees.log_odds(&features), 1.75);
        assert_eq!(Trees::parse("1 2 3\n4 5"), None);
        assert_eq!((trees.threshold(false), trees.threshold(true)), (0.5, -0.5));
        assert_eq!(Trees::parse(""), None);
    }

    #[test]
    fn there_is_a_model() {
        assert!(!MODEL.trees.is_empty() && MODEL.thresholds.iter().all(|threshold| threshold.abs() < 10.0));
    }
}

//! The work of a dataset's sessions in bundles of their projects, as hooks record it.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use ctxbridge::bundle::{
    BundleAction, BundleIndex, Bundles, Project, RefreshScope, action_of_tool_call, record, related_episodes,
};
use jiff::SignedDuration;
use tempfile::TempDir;

use crate::bench::retrieval::Dataset;

/// Maximum time to wait for the cache.
const PATIENCE: Duration = Duration::from_secs(10);

/// Bundles of all projects, ready to be found.
pub struct Bundled {
    indexes: HashMap<String, BundleIndex>,
    /// Turns by their prompts.
    turns: HashMap<String, String>,
    _folder: TempDir,
}

impl Bundled {
    /// Writes them all.
    pub fn new(dataset: &Dataset) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("ctxbridge-recall-").tempdir()?;
        let place = |project: &str| -> PathBuf { folder.path().join(project.trim_start_matches('/')) };
        let mut all: HashMap<String, Bundles> = HashMap::new();
        for session in &dataset.sessions {
            let root = place(&session.project);
            fs::create_dir_all(root.join(".git"))?;
            let project = Project::around(&root, None).context("no project")?;
            let bundles = all.entry(session.project.clone()).or_insert_with(|| Bundles::of(&project));
            bundles.prepare()?;
            for turn in &session.turns {
                let mut at = turn.at;
                record(bundles, &session.id, BundleAction::Prompt(turn.prompt.clone()), at, &|| None)?;
                for step in &turn.steps {
                    at = at.saturating_add(SignedDuration::from_secs(1))?;
                    if let Some(op) =
                        action_of_tool_call(&step.tool, &step.input, &project, Some(Path::new(&session.project)), None)
                    {
                        record(bundles, &session.id, op, at, &|| None)?;
                    }
                }
            }
        }
        let data = folder.path().join("data");
        let mut indexes = HashMap::new();
        for (project, bundles) in &all {
            let mut index = BundleIndex::open(&data, bundles, PATIENCE)?;
            index.refresh(bundles, RefreshScope::All, None, None)?;
            indexes.insert(project.clone(), index);
        }
        let turns = dataset.sessions.iter().flat_map(|session| &session.turns);
        let turns = turns.map(|turn| (BundleAction::Prompt(turn.prompt.clone()).trimmed(), turn.id.clone()));
        let turns =
            turns.filter_map(|(op, id)| if let BundleAction::Prompt(prompt) = op { Some((prompt, id)) } else { None }).collect();
        Ok(Self { indexes, turns, _folder: folder })
    }

    /// Turns whose episodes would be added to a prompt that is typed in a project.
    pub fn related(&self, prompt: &str, project: &str, most: usize) -> Result<Vec<String>> {
        let index = self.indexes.get(project).context("no bundles")?;
        let found = related_episodes(index, prompt, &mut |_| true)?;
        Ok(found.into_iter().take(most).filter_map(|found| self.turns.get(&found.episode.summary.prompt).cloned()).collect())
    }
}

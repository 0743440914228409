//! An archive of a dataset's sessions, made and searched like those of users.

use std::collections::HashMap;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use ctxbridge::archive::embed::{Embedder, EmbeddingModel};
use ctxbridge::archive::import::import;
use ctxbridge::archive::project::ProjectScope;
use ctxbridge::archive::reader::Comparison;
use ctxbridge::archive::search::passages::PassageTexts;
use ctxbridge::archive::search::{self, Filter, HitContent, RelatedQuery, SearchIndex, SearchRequest};
use ctxbridge::archive::store::sqlite::{LockPolicy, SqliteStore};
use ctxbridge::archive::store::{SessionReader, TurnReader, TurnSelection};
use jiff::tz::TimeZone;
use tempfile::TempDir;

use super::configurations::Configuration;
use super::dataset::{Dataset, Question};
use super::metric::DEEPEST;
use super::sessions;

/// Sessions, archived and indexed.
pub struct Corpus {
    store: SqliteStore,
    index: SearchIndex,
    /// Ids of the dataset, by those of the archive.
    turns: HashMap<[u8; 16], String>,
    _folder: TempDir,
}

impl Corpus {
    /// Writes transcripts, imports and indexes them.
    pub fn new(dataset: &Dataset) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("ctxbridge-retrieval-").tempdir()?;
        let data = folder.path().join("data");
        ctxbridge::common::paths::create_private_dir(&data)?;
        for session in &dataset.sessions {
            let path = sessions::write(session, &folder.path().join("projects"))?;
            // One after the other: several at once would be numbered as they come, and ties are broken by number.
            let imported = import(&data, &[path], Comparison::End, ctxbridge::archive::ingest::NO_FOLLOW_UP, &|_| {})?;
            ensure!(imported.failed.is_empty(), "session {} was not archived: {:?}", session.id, imported.failed);
            let turns = session.turns.len();
            ensure!(imported.turns == turns as u64, "session {}: {} turns of {turns} were archived", session.id, imported.turns);
        }
        let mut store = SqliteStore::open(&data, LockPolicy::Background)?;
        let mut index = SearchIndex::open(&data)?;
        let refreshed = search::refresh(&mut store, &mut index, usize::MAX, &mut |_| {})?;
        ensure!(refreshed.is_complete, "the index is not complete");
        let turns = dataset.sessions.iter().flat_map(|session| &session.turns);
        let turns = turns.map(|turn| (sessions::turn_id(&turn.id), turn.id.clone())).collect();
        Ok(Self { store, index, turns, _folder: folder })
    }

    /// Gives all turns their vectors.
    pub fn embed(&mut self, embedder: &mut dyn Embedder, progress: &mut dyn FnMut(usize)) -> Result<usize> {
        let embedded = search::embed_missing(&mut self.store, &mut self.index, embedder, usize::MAX, progress)?;
        ensure!(embedded.is_complete, "some turns have no vector");
        Ok(embedded.vectors)
    }

    /// Turns in the order of a search, the best first; `folder` is where it is asked from.
    pub fn ask(
        &mut self,
        model: &mut EmbeddingModel,
        configuration: &Configuration,
        question: &Question,
        folder: Option<&str>,
    ) -> Result<Vec<String>> {
        let request = SearchRequest {
            mode: Some(configuration.mode),
            filter: Filter {
                project: question.project.as_deref().map(ProjectScope::at),
                until_ms: Some(question.asked_at.as_millisecond()),
                ..Filter::default()
            },
            limit: DEEPEST,
            stages: configuration.stages,
            folder: folder.map(str::to_owned),
            now: question.asked_at,
            zone: TimeZone::UTC,
            ..SearchRequest::new(&question.question)
        };
        let found = search::search(&mut self.store, &mut self.index, model, &request)
            .with_context(|| format!("question {} ({})", question.id, configuration.name))?;
        ensure!(found.mode == configuration.mode, "{} was not compared: {}", configuration.mode.word(), found.notes.join("; "));
        let mut ids = Vec::with_capacity(found.hits.len());
        for hit in found.hits {
            let HitContent::Turn(turn) = hit.content else { continue };
            ids.push(self.turns.get(&turn.turn.id).context("a turn was found that is not in the dataset")?.clone());
        }
        Ok(ids)
    }

    /// Turns that would be added unasked to a prompt that is typed in a folder.
    pub fn related(&mut self, prompt: &str, folder: &str, deadline: Instant, most: usize) -> Result<Vec<String>> {
        let project = ProjectScope::at(folder);
        let about = RelatedQuery { text: prompt, project: &project, session: "", forgotten_turns: 0, limit: most, deadline };
        let found = search::related(&mut self.store, &mut self.index, &about)?;
        let id = |turn: &[u8; 16]| self.turns.get(turn).cloned().context("a turn was found that is not in the dataset");
        found.iter().map(|related| id(&related.turn.turn.id)).collect()
    }

    /// The texts that become the vectors of each turn, by the turn's id.
    pub fn texts(&mut self) -> Result<Vec<(String, PassageTexts)>> {
        let mut all = Vec::with_capacity(self.turns.len());
        for session in self.store.sessions("", None, usize::MAX)? {
            for turn in self.store.turns(session.key, TurnSelection::All)? {
                let id = self.turns.get(&turn.turn.id).context("a turn is archived that is not in the dataset")?.clone();
                all.push((id, search::passage_texts_of(&mut self.store, &self.index, turn.entry)?));
            }
        }
        Ok(all)
    }
}

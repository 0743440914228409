//! An archive of a dataset's sessions, made and searched like those of users.

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use ctxbridge::archive::import::import;
use ctxbridge::archive::project::ProjectScope;
use ctxbridge::archive::reader::Comparison;
use ctxbridge::archive::search::passages::PassageTexts;
use ctxbridge::archive::search::relevance::FEATURES;
use ctxbridge::archive::search::{self, Filter, HitContent, RelatedQuery, SearchIndex, SearchRequest};
use ctxbridge::archive::store::sqlite::{LockPolicy, SqliteStore};
use ctxbridge::archive::store::{SessionReader, TurnReader, TurnSelection};
use ctxbridge::archive::transcript_paths::transcripts_below;
use ctxbridge::common::digest;
use ctxbridge::vectors::embed::{Embedder, EmbeddingModel};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use tempfile::TempDir;

use super::configurations::Configuration;
use super::dataset::{Dataset, Question};
use super::metric::DEEPEST;
use super::sessions;

/// Place of a hit that is no turn.
const SUMMARY: &str = "a summary";

/// Sessions, archived and indexed.
pub struct Corpus {
    store: SqliteStore,
    index: SearchIndex,
    /// Names of the turns, by their ids in the archive.
    turns: HashMap<[u8; 16], String>,
    /// Projects of the turns, by their names.
    folders: HashMap<String, String>,
    /// Sessions of the turns, by their names.
    sessions: HashMap<String, String>,
    /// Projects of real sessions.
    session_folders: HashMap<String, String>,
    end: Timestamp,
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
        let turns = dataset.sessions.iter().flat_map(|session| &session.turns);
        let turns = turns.map(|turn| (sessions::turn_id(&turn.id), turn.id.clone())).collect();
        let of_session = |session: &super::dataset::DatasetSession| {
            let id = session.id.clone();
            session.turns.iter().map(|turn| turn.id.clone()).map(move |turn| (turn, id.clone())).collect::<Vec<_>>()
        };
        let sessions = dataset.sessions.iter().flat_map(of_session).collect();
        let folders = dataset.projects().into_iter().map(|(turn, folder)| (turn.to_owned(), folder.to_owned())).collect();
        Ok(Self { turns, folders, sessions, ..Self::indexed(folder, &data)? })
    }

    /// Imports and indexes all transcripts below a folder, as they are. Turns are named by the SHA-256 of their content, in hexadecimal.
    pub fn of_transcripts(transcripts: &Path) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("ctxbridge-retrieval-").tempdir()?;
        let data = folder.path().join("data");
        ctxbridge::common::paths::create_private_dir(&data)?;
        let mut paths = transcripts_below(transcripts, &mut |path, error| eprintln!("{}: {error}", path.display()));
        ensure!(!paths.is_empty(), "there are no transcripts (.jsonl) in {}", transcripts.display());
        paths.sort();
        for path in paths {
            let imported = import(&data, &[path], Comparison::End, ctxbridge::archive::ingest::NO_FOLLOW_UP, &|_| {})?;
            ensure!(imported.failed.is_empty(), "not archived: {:?}", imported.failed);
        }
        let mut corpus = Self::indexed(folder, &data)?;
        for session in corpus.store.sessions("", None, usize::MAX)? {
            let folder = session.folder.clone().unwrap_or_default();
            for turn in corpus.store.turns(session.key, TurnSelection::All)? {
                let name = digest::hex(&turn.turn.content_sha256);
                corpus.folders.entry(name.clone()).or_insert_with(|| folder.clone());
                corpus.sessions.entry(name.clone()).or_insert_with(|| session.session.clone());
                corpus.turns.insert(turn.turn.id, name);
                corpus.end = corpus.end.max(Timestamp::from_millisecond(turn.turn.ended_ms)?);
            }
            corpus.session_folders.insert(session.session, folder);
        }
        corpus.end += SignedDuration::from_hours(24);
        Ok(corpus)
    }

    fn indexed(folder: TempDir, data: &Path) -> Result<Self> {
        let mut store = SqliteStore::open(data, LockPolicy::Background)?;
        let mut index = SearchIndex::open(data)?;
        let refreshed = search::refresh(&mut store, &mut index, usize::MAX, &mut |_, _| {})?;
        ensure!(refreshed.is_complete, "the index is not complete");
        let (turns, folders, sessions, session_folders) = Default::default();
        Ok(Self { store, index, turns, folders, sessions, session_folders, end: Timestamp::UNIX_EPOCH, _folder: folder })
    }

    /// The project of a turn.
    pub fn folder_of(&self, turn: &str) -> Option<&str> {
        self.folders.get(turn).map(String::as_str)
    }

    /// Sessions of all turns, by their names.
    pub fn sessions(&self) -> &HashMap<String, String> {
        &self.sessions
    }

    /// The project of a real session.
    pub fn folder_of_session(&self, session: &str) -> Option<&str> {
        self.session_folders.get(session).map(String::as_str)
    }

    /// A time after all real turns.
    pub fn end(&self) -> Timestamp {
        self.end
    }

    /// Number of turns.
    pub fn turn_count(&self) -> usize {
        self.turns.len()
    }

    fn name_of(&self, turn: &[u8; 16]) -> Result<String> {
        self.turns.get(turn).cloned().context("a turn was found that is not in the dataset")
    }

    /// Gives all turns their vectors.
    pub fn embed(&mut self, embedder: &mut dyn Embedder, progress: &mut dyn FnMut(usize)) -> Result<usize> {
        let mut step = |entries| {
            progress(entries);
            true
        };
        let embedded = search::embed_missing(&mut self.store, &mut self.index, embedder, usize::MAX, &mut step)?;
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
        let names = found.hits.iter().map(|hit| match &hit.content {
            HitContent::Turn(turn) => self.name_of(&turn.turn.id),
            HitContent::Summary(..) => Ok(SUMMARY.to_owned()),
        });
        names.collect()
    }

    /// Turns that would be added unasked to a prompt that is typed in a folder.
    pub fn related(&mut self, prompt: &str, folder: &str, deadline: Instant, most: usize) -> Result<Vec<String>> {
        let project = ProjectScope::at(folder);
        let about = RelatedQuery { text: prompt, project: &project, session: "", forgotten_turns: 0, limit: most, deadline };
        let found = search::related(&mut self.store, &mut self.index, &about)?;
        found.iter().map(|related| self.name_of(&related.turn.turn.id)).collect()
    }

    /// Turns that are considered for a prompt that is typed in a folder, and what decides about them.
    pub fn considered(&mut self, prompt: &str, folder: &str) -> Result<Vec<(String, [f64; FEATURES.len()])>> {
        let project = ProjectScope::at(folder);
        let deadline = Instant::now() + Duration::from_secs(60);
        let about = RelatedQuery { text: prompt, project: &project, session: "", forgotten_turns: 0, limit: 1, deadline };
        let considered = search::consider(&mut self.store, &mut self.index, &about)?;
        let mut named = Vec::with_capacity(considered.len());
        for one in considered {
            let turn = self.store.turn_by_location(&one.place)?.context("a turn has gone")?;
            named.push((self.name_of(&turn.turn.id)?, one.features));
        }
        Ok(named)
    }

    /// `true` if a prompt is judged as one in another language than English.
    pub fn is_foreign(&self, prompt: &str) -> bool {
        search::is_foreign(prompt, self.index.tokenizer())
    }

    /// The texts that become the vectors of each turn, by the turn's id.
    pub fn texts(&mut self) -> Result<Vec<(String, PassageTexts)>> {
        let mut all = Vec::with_capacity(self.turns.len());
        for session in self.store.sessions("", None, usize::MAX)? {
            for turn in self.store.turns(session.key, TurnSelection::All)? {
                all.push((self.name_of(&turn.turn.id)?, search::passage_texts_of(&mut self.store, &self.index, turn.entry)?));
            }
        }
        Ok(all)
    }
}

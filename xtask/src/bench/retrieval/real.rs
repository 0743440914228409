//! Questions on real sessions: the questions and their answers' hashes are in this repository, the sessions are not.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;

use super::corpus::Corpus;
use super::dataset::{Dataset, Question};
use crate::tools::root;

/// Files of the halves, and for which of them weights may be chosen.
pub const HALVES: [(&str, &str); 2] = [("entire-cli", "for tuning"), ("cipher-evaluator", "for truth")];

/// A file of questions and prompts. fixtures/retrieval/real/README.md describes it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct QuestionFile {
    questions: Vec<LabeledQuestion>,
    prompts: Vec<LabeledPrompt>,
}

#[derive(Debug, Deserialize)]
struct LabeledQuestion {
    id: String,
    language: String,
    kind: String,
    question: String,
    turns: Vec<LabeledTurn>,
}

#[derive(Debug, Deserialize)]
struct LabeledTurn {
    content_sha256: String,
}

#[derive(Debug, Deserialize)]
struct LabeledPrompt {
    id: String,
    language: String,
    project_session: String,
    prompt: String,
}

/// A prompt that has nothing to recall.
#[derive(Debug)]
pub struct UnrelatedPrompt {
    pub id: String,
    pub language: String,
    /// The folder that it is typed in.
    pub folder: String,
    pub prompt: String,
}

/// One of the halves.
#[derive(Debug)]
pub struct QuestionHalf {
    /// Its questions; there are no sessions in it.
    pub dataset: Dataset,
    /// The languages of the questions, such as `de`.
    pub languages: Vec<String>,
    pub prompts: Vec<UnrelatedPrompt>,
}

impl QuestionHalf {
    /// Reads all halves, for an archive of the sessions. Questions are grouped by language, or by kind.
    pub fn all(corpus: &Corpus, by_kind: bool) -> Result<Vec<Self>> {
        HALVES.into_iter().map(|(name, use_of_it)| Self::read(name, use_of_it, corpus, by_kind)).collect()
    }

    fn read(name: &str, use_of_it: &str, corpus: &Corpus, by_kind: bool) -> Result<Self> {
        let path = root().join("fixtures/retrieval/real").join(name).with_extension("json");
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let file: QuestionFile = serde_json::from_str(&text).with_context(|| format!("{} cannot be used", path.display()))?;
        let mut half = Self {
            dataset: Dataset { name: format!("{name}, {use_of_it}"), ..Dataset::default() },
            languages: Vec::new(),
            prompts: Vec::new(),
        };
        for LabeledQuestion { id, language, kind, question, turns } in file.questions {
            let evidence: Vec<String> = turns.into_iter().map(|turn| turn.content_sha256).collect();
            let missing = evidence.iter().find(|turn| corpus.folder_of(turn).is_none());
            ensure!(missing.is_none(), "question {id}: the corpus has no turn {}", missing.map_or("", String::as_str));
            let of_language = if language == "en" { "English" } else { "other languages" };
            let kind = if by_kind { kind } else { of_language.to_owned() };
            half.dataset.questions.push(Question { id, kind, question, asked_at: corpus.end(), evidence, project: None });
            half.languages.push(language);
        }
        for LabeledPrompt { id, language, project_session, prompt } in file.prompts {
            let folder = corpus.folder_of_session(&project_session);
            let folder = folder.with_context(|| format!("prompt {id}: the corpus has no session {project_session}"))?.to_owned();
            half.prompts.push(UnrelatedPrompt { id, language, folder, prompt });
        }
        Ok(half)
    }
}

/// An archive of all transcripts below a folder. Its turns are named by the SHA-256 of their content.
pub fn archive(folder: &Path) -> Result<Corpus> {
    eprintln!("archiving the transcripts in {}", folder.display());
    Corpus::of_transcripts(folder)
}

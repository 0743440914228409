//! Datasets: sessions, questions, and the turns that answer them. fixtures/retrieval/README.md has the format.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Sessions and questions.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dataset {
    /// Its name in reports.
    pub name: String,
    pub sessions: Vec<DatasetSession>,
    pub questions: Vec<Question>,
}

/// One conversation.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DatasetSession {
    pub id: String,
    /// The folder that the client worked in.
    pub project: String,
    pub turns: Vec<DatasetTurn>,
}

/// A prompt with its answer and tool calls.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DatasetTurn {
    pub id: String,
    #[serde(with = "time")]
    pub at: Timestamp,
    pub prompt: String,
    #[serde(default)]
    pub steps: Vec<DatasetStep>,
    #[serde(default)]
    pub answer: String,
}

/// A call of a tool.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DatasetStep {
    pub tool: String,
    pub input: Value,
    pub output: String,
    #[serde(default)]
    pub is_error: bool,
}

/// A question, and the turns that answer it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Question {
    pub id: String,
    pub kind: String,
    pub question: String,
    /// Time of the question: later turns cannot be found, and "yesterday" is the day before.
    #[serde(with = "time")]
    pub asked_at: Timestamp,
    /// Ids of turns; all of them are wanted.
    pub evidence: Vec<String>,
    /// Only sessions of this project are searched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
}

/// Times as they are spelled in RFC 3339.
mod time {
    use jiff::Timestamp;
    use serde::{Deserialize as _, Deserializer, Serializer, de};

    pub fn serialize<S: Serializer>(time: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(time)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

impl Dataset {
    /// Reads a file and checks that it makes sense.
    pub fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let dataset: Self = serde_json::from_str(&text)
            .with_context(|| format!("{} is no dataset; fixtures/retrieval/README.md has the format", path.display()))?;
        dataset.check().with_context(|| format!("{} cannot be used", path.display()))?;
        Ok(dataset)
    }

    /// The project of each turn, by the turn's id.
    pub fn projects(&self) -> HashMap<&str, &str> {
        self.sessions
            .iter()
            .flat_map(|session| session.turns.iter().map(|turn| (turn.id.as_str(), session.project.as_str())))
            .collect()
    }

    /// Drops questions whose evidence is in no project of such a name. The sessions stay, so that the same archive is searched.
    pub fn keep_questions_on(&mut self, projects: &[String]) -> Result<()> {
        if projects.is_empty() {
            return Ok(());
        }
        let is_wanted =
            |project: &str| projects.iter().any(|wanted| wanted == project || project.ends_with(&format!("/{wanted}")));
        let wanted: HashSet<String> =
            self.projects().iter().filter(|(_, project)| is_wanted(project)).map(|(turn, _)| (*turn).to_owned()).collect();
        self.questions.retain(|question| question.evidence.iter().any(|turn| wanted.contains(turn)));
        ensure!(!self.questions.is_empty(), "no question of {} is on {}", self.name, projects.join(", "));
        Ok(())
    }

    fn check(&self) -> Result<()> {
        let mut turns: HashMap<&str, Timestamp> = HashMap::new();
        let mut sessions = HashSet::new();
        for session in &self.sessions {
            ensure!(sessions.insert(&session.id), "session {} is there twice", session.id);
            ensure!(
                session.turns.is_sorted_by_key(|turn| turn.at),
                "the turns of session {} are not in order of time",
                session.id
            );
            for turn in &session.turns {
                ensure!(!turn.prompt.trim().is_empty(), "turn {} has no prompt", turn.id);
                ensure!(turns.insert(&turn.id, turn.at).is_none(), "turn {} is there twice", turn.id);
            }
        }
        let mut questions = HashSet::new();
        for Question { id, evidence, asked_at, .. } in &self.questions {
            ensure!(questions.insert(id), "question {id} is there twice");
            ensure!(!evidence.is_empty(), "question {id} has no evidence");
            ensure!(evidence.iter().collect::<HashSet<_>>().len() == evidence.len(), "question {id} names a turn twice");
            for turn in evidence {
                let at = turns.get(turn.as_str()).with_context(|| format!("question {id}: there is no turn {turn}"))?;
                ensure!(at < asked_at, "question {id} is asked before turn {turn}, which answers it");
            }
        }
        Ok(())
    }
}

//! The public LoCoMo dialogues (Maharana et al. 2024, "Evaluating Very Long-Term Conversational Memory of LLM Agents") as a
//! dataset. They are long and not technical, and nothing was tuned on them. They are not ours, so no byte of them is kept here.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::Value;

use super::dataset::{Dataset, DatasetSession, DatasetTurn, Question};

/// Their categories from 1 on; the fifth has no answer in the dialogue.
const KINDS: [&str; 4] = ["multi-hop", "temporal", "open-domain", "single-hop"];

#[derive(Debug, Deserialize)]
struct Line {
    speaker: String,
    text: String,
    dia_id: String,
    blip_caption: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Asked {
    question: String,
    #[serde(default)]
    evidence: Vec<String>,
    category: usize,
}

/// Reads all conversations of a folder: each is a project, each line a turn, questions are asked a day after the last line.
pub fn read(folder: &Path) -> Result<Dataset> {
    let mut dataset = Dataset { name: "locomo".to_owned(), ..Dataset::default() };
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        files.push(entry?.path());
    }
    files.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    ensure!(!files.is_empty(), "there is no .json in {}; give the folder that has one for each conversation", folder.display());
    for path in files {
        let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        let text = fs::read_to_string(&path)?;
        let read = serde_json::from_str(&text).map_err(Into::into).and_then(|value| conversation(&name, &value, &mut dataset));
        read.with_context(|| format!("{} is no conversation of LoCoMo", path.display()))?;
    }
    Ok(dataset)
}

fn conversation(name: &str, value: &Value, dataset: &mut Dataset) -> Result<()> {
    let project = format!("/locomo/{name}");
    let mut known = HashSet::new();
    let mut last = Timestamp::MIN;
    for number in 1_u32.. {
        let key = format!("session_{number}");
        let Some(lines) = value.get(&key) else { break };
        let mut at = time(value[format!("{key}_date_time")].as_str().unwrap_or_default())?;
        let mut turns = Vec::new();
        for line in Vec::<Line>::deserialize(lines)? {
            let dialogue = identifiers(&line.dia_id).pop().with_context(|| format!("{key} has a line `{}`", line.dia_id))?;
            let caption = line.blip_caption.map_or_else(String::new, |caption| format!(" [image: {caption}]"));
            let prompt = format!("{}: {}{caption}", line.speaker, line.text);
            turns.push(DatasetTurn { id: format!("{name}-{dialogue}"), at, prompt, steps: Vec::new(), answer: String::new() });
            last = last.max(at);
            at = at.checked_add(SignedDuration::from_mins(1))?;
            known.insert(dialogue);
        }
        dataset.sessions.push(DatasetSession { id: format!("{name}-{number}"), project: project.clone(), turns });
    }
    let asked_at = last.checked_add(SignedDuration::from_hours(24))?;
    for (number, asked) in Vec::<Asked>::deserialize(&value["qa"])?.into_iter().enumerate() {
        let Some(kind) = asked.category.checked_sub(1).and_then(|category| KINDS.get(category)) else { continue };
        let mut evidence = Vec::new();
        for dialogue in asked.evidence.iter().flat_map(|text| identifiers(text)) {
            let turn = format!("{name}-{dialogue}");
            if known.contains(&dialogue) && !evidence.contains(&turn) {
                evidence.push(turn);
            }
        }
        if !evidence.is_empty() {
            dataset.questions.push(Question {
                id: format!("{name}-q{}", number + 1),
                kind: (*kind).to_owned(),
                question: asked.question,
                asked_at,
                evidence,
                project: Some(project.clone()),
            });
        }
    }
    Ok(())
}

/// `1:56 pm on 8 May, 2023`; of no zone, taken as UTC.
fn time(text: &str) -> Result<Timestamp> {
    let time = DateTime::strptime("%I:%M %p on %d %B, %Y", text).with_context(|| format!("`{text}` is no time"))?;
    Ok(time.to_zoned(TimeZone::UTC)?.timestamp())
}

/// `D8:6; D09:17` names the lines D8:6 and D9:17. Misspelled names are ignored.
fn identifiers(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != ':');
    let line = |word: &str| {
        let (session, line) = word.strip_prefix('D')?.split_once(':')?;
        Some(format!("D{}:{}", session.parse::<u32>().ok()?, line.parse::<u32>().ok()?))
    };
    words.filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    #[test]
    fn a_conversation() {
        let value = json!({
            "session_1_date_time": "1:56 pm on 8 May, 2023",
            "session_1": [
                { "speaker": "Ann", "dia_id": "D1:1", "text": "Hello!" },
                { "speaker": "Bob", "dia_id": "D1:2", "text": "Look.", "blip_caption": "a dog" },
            ],
            "session_2_date_time": "12:06 am on 11 November, 2023",
            "session_2": [{ "speaker": "Ann", "dia_id": "D2:1", "text": "What a dog." }],
            "qa": [
                { "question": "What did Bob show?", "evidence": ["D1:02; D2:1", "D2:1", "D:1:2"], "category": 1 },
                { "question": "Where is the cat?", "evidence": ["D1:1"], "category": 5 },
                { "question": "Who knows?", "evidence": ["D"], "category": 4 },
            ],
        });
        let mut dataset = Dataset::default();
        conversation("26", &value, &mut dataset).unwrap();
        let [first, second] = &dataset.sessions[..] else { panic!("{dataset:?}") };
        assert_eq!((first.project.as_str(), first.turns.len()), ("/locomo/26", 2));
        assert_eq!(first.turns[1].prompt, "Bob: Look. [image: a dog]");
        assert_eq!(first.turns[1].at.to_string(), "2023-05-08T13:57:00Z");
        assert_eq!(second.turns[0].at.to_string(), "2023-11-11T00:06:00Z");
        let [question] = &dataset.questions[..] else { panic!("{dataset:?}") };
        assert_eq!(question.evidence, ["26-D1:2", "26-D2:1"]);
        assert_eq!((question.kind.as_str(), question.asked_at.to_string().as_str()), ("multi-hop", "2023-11-12T00:06:00Z"));
        assert_eq!(question.project.as_deref(), Some("/locomo/26"));
    }
}

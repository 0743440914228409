//! `ctxbridge learnings show`

use serde_json::json;

use super::{as_json, minute};
use crate::cli::archives;
use crate::cli::output::{BOLD, Output, styled};
use crate::cli::{CommandOutcome, UsageError};
use ctxbridge_archive::store::{LearningQuery, StoredLearning};
use ctxbridge_archive::{handle, quote};

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  ctxbridge learnings show learn:1a2b3c4d

Exits 1 if there is no such learning.")]
pub(super) struct LearningsShowArgs {
    /// Id of the learning, such as learn:1a2b3c4d, or a prefix of it
    id: String,
}

impl LearningsShowArgs {
    pub fn run(&self, output: &mut Output) -> anyhow::Result<CommandOutcome> {
        const MAX_SHOWN_IDS: usize = 5;
        let digits = self.id.strip_prefix("learn:").unwrap_or(&self.id);
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(UsageError(format!(
                "{} is no learning; `ctxbridge learnings list` has their ids",
                quote::line(&self.id)
            ))
            .into());
        }
        let mut store = archives::open_to_read(output)?;
        let wanted =
            LearningQuery { id: digits.to_owned(), with_superseded: true, limit: MAX_SHOWN_IDS, ..LearningQuery::default() };
        let found = store.learnings(&wanted)?;
        let learning = match &found[..] {
            [] => {
                output.note(&format!("there is no {}; `ctxbridge learnings list --all` has all of them", quote::line(&self.id)));
                return Ok(CommandOutcome::No);
            }
            [learning] => learning,
            several => {
                let ids: Vec<String> = several.iter().map(|learning| format!("learn:{}", learning.id.hex())).collect();
                return Err(UsageError(format!("several begin so: {}; give more of the id", ids.join(", "))).into());
            }
        };
        let known = store.learnings(&LearningQuery {
            folder: learning.folder.clone(),
            with_superseded: true,
            ..LearningQuery::default()
        })?;
        let took_back: Vec<&StoredLearning> = known.iter().filter(|known| known.superseded_by == Some(learning.id)).collect();
        if output.json {
            let mut value = as_json(learning);
            value["supersedes"] = json!(took_back.iter().map(|old| old.id.handle()).collect::<Vec<_>>());
            output.value(&value)?;
        } else {
            tell(learning, &took_back, output)?;
        }
        Ok(CommandOutcome::Yes)
    }
}

fn tell(learning: &StoredLearning, took_back: &[&StoredLearning], output: &mut Output) -> anyhow::Result<()> {
    output.line(format!("{}  {}", styled(BOLD, learning.id.handle()), learning.kind.name()))?;
    output.line(format!("  {}", quote::line(&learning.sentence)))?;
    let said = if learning.said == 1 {
        minute(Some(learning.last_ms))
    } else {
        format!("{} times, first {}, last {}", learning.said, minute(Some(learning.first_ms)), minute(Some(learning.last_ms)))
    };
    let mut facts = vec![
        ("said", said),
        ("session", quote::line(&learning.session)),
        ("turn", format!("{} (`ctxbridge recall {}`)", handle::turn_handle(&learning.turn), handle::turn_handle(&learning.turn))),
        ("project", learning.folder.as_deref().map(quote::line).unwrap_or_default()),
        ("agent", learning.agent.as_deref().map(quote::line).unwrap_or_default()),
        ("tools", quote::line(&learning.tools.join(", "))),
        ("before", quote::line(&learning.around.0)),
        ("after", quote::line(&learning.around.1)),
        ("confidence", format!("{:.2}", learning.confidence)),
        ("taken back", taken_back(learning)),
    ];
    facts.extend(took_back.iter().map(|old| ("takes back", format!("{} {}", old.id.handle(), quote::line(&old.sentence)))));
    for (name, value) in facts.into_iter().filter(|(_, value)| !value.is_empty()) {
        output.line(format!("  {name:<10}  {value}"))?;
    }
    Ok(())
}

fn taken_back(learning: &StoredLearning) -> String {
    match learning.superseded_by {
        Some(by) => format!("by {}", by.handle()),
        None if learning.is_rewound => "rewound".to_owned(),
        None => String::new(),
    }
}

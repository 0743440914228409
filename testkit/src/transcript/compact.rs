//! A compaction: by the client, or by the user's `/compact`.

use std::io;

use serde_json::json;

use super::session::{BASE, Writer, joined};

impl Writer<'_> {
    /// Restarts the conversation with a summary. The chain of parents starts again at the boundary, which names the line that it
    /// would have followed.
    pub(super) fn compact(&mut self) -> io::Result<()> {
        self.wait(20_000, 90_000);
        let manual = !self.made.compactions.is_multiple_of(2);
        let before = self.context;
        (self.context, self.cached) = (BASE, BASE);
        let last = self.parent.take();
        let what =
            json!({ "type": "system", "subtype": "compact_boundary", "content": "Conversation compacted", "isMeta": false });
        let metadata = json!({
            "trigger": if manual { "manual" } else { "auto" }, "preTokens": before, "durationMs": self.rng.between(9_000, 60_000),
            "postTokens": self.context, "cumulativeDroppedTokens": before.saturating_sub(self.context),
        });
        self.chained(
            joined([json!({ "logicalParentUuid": last }), what]),
            json!({ "level": "info", "compactMetadata": metadata }),
        )?;
        self.made.compactions += 1;

        let length = self.budget.length(&mut self.rng, 3_000, 1);
        let summary = self.world.words.answer(&mut self.rng, &self.topic, "src/lib.rs", length);
        let summary = format!("The conversation so far, in short:\n\n{summary}");
        self.user(&summary, json!({ "isVisibleInTranscriptOnly": true, "isCompactSummary": true }))?;
        if manual {
            self.user(
                "<local-command-caveat>What follows was run by the user.</local-command-caveat>",
                json!({ "isMeta": true }),
            )?;
            let command = "<command-name>/compact</command-name>\n<command-message>compact</command-message>\n<command-args></command-args>";
            self.user(command, json!({}))?;
            self.user("<local-command-stdout>Compacted </local-command-stdout>", json!({}))?;
            self.made.command_lines += 2;
        }
        let file = self.world.project.file(&mut self.rng, &self.world.words);
        let length = self.budget.length(&mut self.rng, 800, 2);
        let text = self.world.project.text(&file, &self.world.words, length);
        let lines = text.split('\n').count();
        let content = json!({ "type": "text", "file": {
            "filePath": file.path, "content": text, "numLines": lines, "startLine": 1, "totalLines": lines,
        }});
        self.attachment(&json!({ "type": "file", "filename": file.path, "content": content }), &text)
    }
}

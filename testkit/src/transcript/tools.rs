//! Tool calls with their results.

use serde_json::json;

use super::session::Writer;
use super::tool_call::ScriptedCall;
use crate::code::{self, File};

impl Writer<'_> {
    /// A call of one of the tools that every session uses.
    pub(super) fn tool(&mut self) -> ScriptedCall {
        let file = self.world.project.file(&mut self.rng, &self.world.words);
        match self.rng.below(100) {
            0..38 => self.read(&file),
            38..41 => missing(&file),
            41..70 => self.shell(),
            70..77 => self.compile(&file),
            77..95 => self.edit(&file),
            _ => self.create(&file),
        }
    }

    fn read(&mut self, file: &File) -> ScriptedCall {
        let text = self.code(file, 1_200, 2);
        let lines = text.split('\n').count();
        let result = json!({ "type": "text", "file": {
            "filePath": file.path, "content": text, "numLines": lines, "startLine": 1, "totalLines": lines,
        }});
        ScriptedCall::new("Read", json!({ "file_path": file.path }), code::numbered(&text), result)
    }

    fn shell(&mut self) -> ScriptedCall {
        let (words, project) = (&self.world.words, &self.world.project);
        let name = words.name(&mut self.rng);
        let (command, what) = match self.rng.below(5) {
            0 => (format!("cargo nextest run {name}"), "Run the tests"),
            1 => (format!("git commit -qam 'Mend {name}' && git log --oneline | head"), "Commit"),
            2 => (format!("grep -rn \"{name}\" src | head -40"), "Search"),
            3 => (format!("ls -la src/{name}"), "List files"),
            _ => (format!("tail -n 60 logs/{name}.log"), "Look at the log"),
        };
        let length = self.budget.length(&mut self.rng, 900, 2);
        let output = code::output(&mut self.rng, words, project, length);
        let result = json!({ "stdout": output, "stderr": "", "interrupted": false, "isImage": false, "noOutputExpected": false });
        ScriptedCall::new("Bash", json!({ "command": command, "description": what }), output, result)
    }

    fn compile(&mut self, file: &File) -> ScriptedCall {
        let said = format!("Exit code 101\n{}", code::error(&mut self.rng, &self.world.words, file));
        let input = json!({ "command": "cargo check --all-targets", "description": "Check that it compiles" });
        let result = format!("Error: {said}").into();
        ScriptedCall::new("Bash", input, said, result).failed()
    }

    fn edit(&mut self, file: &File) -> ScriptedCall {
        let original = self.code(file, 1_500, 1);
        let lines: Vec<&str> = original.lines().collect();
        let first = self.rng.below(lines.len());
        let old = lines[first..].iter().take(self.rng.between(1, 6)).copied().collect::<Vec<_>>();
        let name = self.world.words.name(&mut self.rng);
        let mut new = vec![format!("    // {}", self.world.words.title(&mut self.rng, &self.topic))];
        new.extend(old.iter().map(|line| line.replacen("let ", &format!("let {name}_"), 1)));
        let minus = old.iter().map(|line| format!("-{line}"));
        let plus = new.iter().map(|line| format!("+{line}"));
        let patch = json!([{
            "oldStart": first + 1, "oldLines": old.len(), "newStart": first + 1, "newLines": new.len(),
            "lines": minus.chain(plus).collect::<Vec<_>>(),
        }]);
        let (old, new) = (old.join("\n"), new.join("\n"));
        let said = format!("The file {} was changed as asked.", file.path);
        let input = json!({ "replace_all": false, "file_path": file.path, "old_string": old, "new_string": new });
        let result = json!({
            "filePath": file.path, "oldString": old, "newString": new, "originalFile": original, "structuredPatch": patch,
            "userModified": false, "replaceAll": false,
        });
        ScriptedCall::new("Edit", input, said, result)
    }

    fn create(&mut self, file: &File) -> ScriptedCall {
        let text = self.code(file, 1_200, 2);
        let said = format!("The new file {} was written.", file.path);
        let result = json!({
            "type": "create", "filePath": file.path, "content": text, "structuredPatch": [], "originalFile": null, "userModified": false,
        });
        ScriptedCall::new("Write", json!({ "file_path": file.path, "content": text }), said, result)
    }

    fn code(&mut self, file: &File, usual: usize, copies: usize) -> String {
        let length = self.budget.length(&mut self.rng, usual, copies);
        self.world.project.text(file, &self.world.words, length)
    }
}

fn missing(file: &File) -> ScriptedCall {
    let said = format!("There is no file {}.", file.path);
    let result = format!("Error: {said}").into();
    ScriptedCall::new("Read", json!({ "file_path": file.path }), said, result).failed()
}

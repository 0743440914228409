//! The table of patterns, and one of a user's.

use ctxbridge::archive::learn::{LearningKind, LearningPatterns, extract};
use proptest::prelude::*;

fn kinds(patterns: &LearningPatterns, text: &str) -> Vec<(LearningKind, String)> {
    extract(patterns, text).into_iter().map(|found| (found.kind, text[found.range].to_owned())).collect()
}

#[test]
fn what_is_quoted_coded_asked_or_denied_is_no_learning() {
    let standard = LearningPatterns::standard();
    assert_eq!(kinds(standard, "I went with zstd."), [(LearningKind::Decision, "I went with zstd.".to_owned())]);
    for text in [
        "> I went with zstd.",
        "```\nI went with zstd.\n```",
        "    I went with zstd.",
        "It says \"I went with zstd\".",
        "`I went with zstd`",
        "| I went with zstd |\n|---|\n| fixed by x |",
        "# I went with zstd",
        "We never went with zstd.",
        "I haven't decided to use zstd.",
        "Should we have gone with zstd? We went with zstd?",
        "If we went with zstd, it would be faster.",
        "They went with zstd.",
        "- [ ] deployed to staging",
        "<!-- I went with zstd. -->",
        "",
    ] {
        assert_eq!(kinds(standard, text), [], "{text}");
    }
}

#[test]
fn the_next_step_and_what_was_found_are_no_learnings() {
    for text in [
        "Now update the parser to use spans instead of offsets.",
        "Now let me change the loader to read lines instead of blocks.",
        "I need to call flush instead of close.",
        "I see that the loader uses threads instead of tasks.",
        "The request now needs 4 fields instead of 3.",
        "It is now showing 20 rows instead of just 8.",
        "Here's the root cause:",
        "Both are fixed.",
        "The issue was probably a lock.",
        "The job failed as expected.",
        "The hook runs after a git commit.",
        "Committed sessions are listed first.",
        "Got it, checking the log now to be sure.",
    ] {
        assert_eq!(kinds(LearningPatterns::standard(), text), [], "{text}");
    }
}

#[test]
fn what_is_settled_is_a_learning() {
    for (text, kind) in [
        ("All three callers now use spans instead of raw offsets.", LearningKind::Decision),
        ("Replaced the timer with a watcher so that idle machines sleep.", LearningKind::Decision),
        ("Second suggestion: skipped because it costs a copy of each row.", LearningKind::Decision),
        ("The old table was kept on purpose, for the reports of last year.", LearningKind::Decision),
        ("The small key was chosen because rows are short.", LearningKind::Decision),
        ("Verdict: keep the table in memory.", LearningKind::Decision),
        ("Got it, one row per session and the newest on top.", LearningKind::Decision),
        ("The bug was that the lock was taken twice.", LearningKind::Solution),
        ("Fixed the leak in the pool: handles are closed when a worker ends — also after a panic.", LearningKind::Solution),
        ("Pushed to `main`.", LearningKind::Checkpoint),
    ] {
        assert_eq!(kinds(LearningPatterns::standard(), text), [(kind, text.to_owned())], "{text}");
    }
}

#[test]
fn users_add_patterns_replace_ours_and_leave_some_out() {
    let table = r#"
        without = ["chose-over"]

        [[cue]]
        id = "rule"
        kind = "decision"
        regex = '\bhouse rule:'
        confidence = 0.6

        [[doubt]]
        id = "drafts"
        regex = '\bdraft\b'

        [[cue]]
        id = "went-with"
        kind = "outcome"
        regex = '\bwent with\b'
    "#;
    let patterns = LearningPatterns::standard().clone().with("learnings.toml", table).unwrap();
    assert_eq!(kinds(&patterns, "House rule: no panics.").len(), 1);
    assert_eq!(kinds(&patterns, "House rule: no panics (draft).").len(), 0);
    assert_eq!(kinds(&patterns, "Chose A over B.").len(), 0);
    assert_eq!(kinds(&patterns, "I went with zstd.")[0].0, LearningKind::Outcome);
    assert_ne!(patterns.hash(), LearningPatterns::standard().hash());
}

#[test]
fn what_is_wrong_with_a_table_is_said() {
    let error = |table: &str| LearningPatterns::standard().clone().with("learnings.toml", table).unwrap_err().to_string();
    assert!(error("[[cue]]\nid = 'x'").contains("missing field `regex`"));
    assert!(
        error("[[cue]]\nid = 'x'\nregex = '('\nkind = 'decision'").starts_with("learnings.toml, `x`: its regex cannot be used")
    );
    insta::assert_snapshot!(error("[[cue]]\nid = 'x'\nregex = 'a'"), @"learnings.toml, `x`: a cue is of one `kind`");
    insta::assert_snapshot!(error("[[cue]]\nid = 'x'\nregex = 'a'\nkind = 'decision'\nconfidence = 7"), @"learnings.toml, `x`: `confidence` is from 0 to 1, not 7");
    insta::assert_snapshot!(
        error("[[cue]]\nid = 'x'\nregex = 'a'\nkind = 'decision'\n[[doubt]]\nid = 'x'\nregex = 'b'"),
        @"learnings.toml, `x`: it is there twice"
    );
    assert!(error("[[cue]]\nid = 'x'\nregex = 'a'\nkind = 'wish'").contains("learnings.toml is no table of patterns"));
}

proptest! {
    /// Whatever is said: what is found is a piece of it, in order, and the same again.
    #[test]
    fn any_answer_is_read(text in "(we decided to|fixed by|root cause was|`|```\n|\"|> |\n\n|- |✅ worked|\\.|if |not |[a-zé😀 ]{0,12}){0,20}") {
        let found = extract(LearningPatterns::standard(), &text);
        let mut last = 0;
        for one in &found {
            prop_assert!(one.range.start >= last && text.is_char_boundary(one.range.start) && text.is_char_boundary(one.range.end));
            prop_assert!((0.0..=1.0).contains(&one.confidence));
            last = one.range.end;
        }
        prop_assert_eq!(extract(LearningPatterns::standard(), &text), found);
    }
}

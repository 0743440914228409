//! A project that moved keeps its memory, and `--project` means the same wherever it is given.

use std::fs;
use std::path::{Path, PathBuf};

use ctxbridge_testkit::sandbox::{FOLDER, Ran, Sandbox, Talk, run, wait_until};
use serde_json::{Value, json};

use super::lines::Lines;

const ASKED: &str = "Why does the parser hang on nested comments?";

/// A folder in the sandbox, without links.
fn folder(sandbox: &Sandbox, name: &str) -> PathBuf {
    let folder = sandbox.path(name);
    fs::create_dir_all(&folder).unwrap();
    ctxbridge::common::paths::real(folder).unwrap()
}

/// A repository with a commit.
fn repository(sandbox: &Sandbox, name: &str, remote: Option<&str>) -> PathBuf {
    let folder = folder(sandbox, name);
    sandbox.git(&folder, &["init", "--quiet"]);
    if let Some(remote) = remote {
        sandbox.git(&folder, &["remote", "add", "origin", remote]);
    }
    fs::write(folder.join("read.me"), name).unwrap();
    sandbox.git(&folder, &["add", "."]);
    sandbox.git(&folder, &["commit", "--quiet", "-m", name]);
    folder
}

/// A session that worked in a folder.
fn talk(sandbox: &Sandbox, number: u32, folder: &Path, prompt: &str) -> Talk {
    let mut lines = Lines::of("s").seed(number.into());
    let text = lines.prompt(prompt)
        + &lines
            .answer("skip_comment never advances, so it loops for ever. We went with counting the depth because it is simple.")
        + &lines.turn("Thanks.");
    let folder = serde_json::to_string(folder.to_str().unwrap()).unwrap();
    sandbox.talk(number, text.replace(&format!("\"cwd\":\"{FOLDER}\""), &format!("\"cwd\":{folder}")))
}

fn import(sandbox: &Sandbox) -> Ran {
    sandbox.cli(&["archive", "import"])
}

/// Ids of the sessions of a project, sorted.
fn sessions(sandbox: &Sandbox, project: &Path) -> Vec<String> {
    let ran = run(sandbox.command(&["archive", "sessions", "--json", "--project", project.to_str().unwrap()]), b"");
    let mut ids: Vec<String> =
        ran.json()["sessions"].as_array().unwrap().iter().map(|one| one["session"].as_str().unwrap().to_owned()).collect();
    ids.sort_unstable();
    ids
}

fn move_project(sandbox: &Sandbox, old: &Path, new: &Path, more: &[&str]) -> Ran {
    let paths = [old.to_str().unwrap(), new.to_str().unwrap()];
    run(sandbox.command(&[&["archive", "move"], &paths[..], more].concat()), b"")
}

#[test]
fn a_renamed_repository_is_known_again() {
    let sandbox = Sandbox::new();
    let old = repository(&sandbox, "old", Some("https://me:secret@host/acme/app.git"));
    let one = talk(&sandbox, 1, &old, ASKED);
    let two = talk(&sandbox, 2, &old.join("web"), "the upload fails at night");
    fs::create_dir(old.join("web")).unwrap();
    import(&sandbox);
    let remotes = sandbox.db().query_row("SELECT group_concat(remote) FROM folders", [], |row| row.get::<_, String>(0)).unwrap();
    assert_eq!(remotes, "host/acme/app", "without user and password");

    let new = old.with_file_name("new");
    fs::rename(&old, &new).unwrap();
    // The same server, by another way.
    sandbox.git(&new, &["remote", "set-url", "origin", "git@host:acme/app"]);
    let first = run(sandbox.command(&["sessions", "-v", "--project", new.to_str().unwrap()]), b"").done();
    let told = format!("this project was {} before; its 2 sessions are found here", old.display());
    assert!(first.stderr.contains(&told) && first.stdout.contains(&one.id), "{first:?}");
    assert_eq!(sessions(&sandbox, &new), [one.id.clone(), two.id.clone()]);
    assert_eq!(sessions(&sandbox, &new.join("web")), [two.id.as_str()]);
    assert_eq!(sessions(&sandbox, &old), [""; 0]);
    let again = run(sandbox.command(&["archive", "sessions", "--project", new.to_str().unwrap()]), b"").calm();
    assert!(again.stdout.contains(&one.id), "told once: {again:?}");
    sandbox.assert_archived(&one);

    // And when it gets its old name back.
    fs::rename(&new, &old).unwrap();
    import(&sandbox);
    assert_eq!(sessions(&sandbox, &old), [one.id.clone(), two.id.clone()]);
    assert_eq!(sandbox.count("SELECT count(*) FROM sessions WHERE moved_from IS NOT NULL"), 0);
}

#[test]
fn a_session_in_a_renamed_repository_recalls_what_was_said_before() {
    let sandbox = Sandbox::new();
    let old = repository(&sandbox, "old", None);
    let one = talk(&sandbox, 1, &old, ASKED);
    talk(&sandbox, 2, &folder(&sandbox, "elsewhere"), "the upload fails at night");
    import(&sandbox);
    sandbox.cli(&["archive", "search", "parser"]);
    let new = old.with_file_name("new");
    fs::rename(&old, &new).unwrap();
    let now = sandbox.talk(9, "");
    let input = |mut more: Value| {
        more["cwd"] = json!(new);
        now.input_with(more)
    };
    let start = |source: &str| {
        let mut command = sandbox.hook_command("session-start");
        command.env("CTXBRIDGE_ARCHIVE_AUTO_OPTIMIZE", "true");
        run(command, input(json!({ "source": source })).to_string().as_bytes())
    };
    assert_eq!(start("startup").notice(), None, "nobody waits for git");
    wait_until("the project is known again", || sandbox.count("SELECT count(*) FROM sessions WHERE moved_from IS NOT NULL") == 1);
    wait_until("it is to be told", || sandbox.data().join("projects").read_dir().is_ok_and(|marks| marks.count() > 0));
    let prompt = "The parser hangs again on nested comments, does skip_comment count the depth?";
    let asked = sandbox.hook("user-prompt-submit", &input(json!({ "prompt": prompt })));
    let told = asked.notice().unwrap();
    assert!(told.contains(&format!("this project was {} before; its 1 session is found here", old.display())), "{told}");
    assert!(asked.context().unwrap().contains(ASKED), "{asked:?}");
    assert_eq!(start("startup").notice(), None, "told once");
    assert_eq!(sessions(&sandbox, &new), [one.id]);
}

#[test]
fn a_clone_beside_it_has_a_memory_of_its_own() {
    let sandbox = Sandbox::new();
    let one = repository(&sandbox, "one", Some("git@host:acme/app.git"));
    let first = talk(&sandbox, 1, &one, ASKED);
    import(&sandbox);
    let copy = |from: &Path, name: &str| {
        let to = from.with_file_name(name);
        sandbox.git(from.parent().unwrap(), &["clone", "--quiet", from.to_str().unwrap(), to.to_str().unwrap()]);
        sandbox.git(&to, &["remote", "set-url", "origin", "git@host:acme/app.git"]);
        to
    };
    let two = copy(&one, "two");
    let second = talk(&sandbox, 2, &two, "the upload fails at night");
    let said = import(&sandbox).stderr;
    assert!(!said.contains("before"), "{said}");
    assert_eq!([sessions(&sandbox, &one), sessions(&sandbox, &two)], [vec![first.id.clone()], vec![second.id.clone()]]);
    // It was there before the other one was gone.
    fs::remove_dir_all(&one).unwrap();
    assert_eq!(sessions(&sandbox, &two), [second.id.as_str()]);
    // Another project with the same remote by mistake, and one of the same beginnings with another remote.
    let other = repository(&sandbox, "other", Some("git@host:acme/app.git"));
    assert_eq!(sessions(&sandbox, &other), [""; 0]);
    let fork = copy(&two, "fork");
    sandbox.git(&fork, &["remote", "set-url", "origin", "git@host:else/app.git"]);
    assert_eq!(sessions(&sandbox, &fork), [""; 0]);
    // Of two that are gone, nobody knows which one a third was.
    fs::remove_dir_all(&two).unwrap();
    sandbox.git(&fork, &["remote", "set-url", "origin", "git@host:acme/app.git"]);
    let third = copy(&fork, "third");
    assert_eq!(sessions(&sandbox, &third), [""; 0]);
    assert_eq!(sessions(&sandbox, &one), [first.id]);
}

#[test]
fn a_linked_work_tree_is_no_rename() {
    let sandbox = Sandbox::new();
    let main = repository(&sandbox, "main", None);
    let tree = main.with_file_name("feature");
    sandbox.git(&main, &["worktree", "add", "--quiet", tree.to_str().unwrap()]);
    let one = talk(&sandbox, 1, &tree, ASKED);
    import(&sandbox);
    sandbox.git(&main, &["worktree", "remove", tree.to_str().unwrap()]);
    let next = main.with_file_name("next");
    sandbox.git(&main, &["worktree", "add", "--quiet", next.to_str().unwrap()]);
    assert_eq!([sessions(&sandbox, &main), sessions(&sandbox, &next)], [[""; 0], [""; 0]]);
    assert_eq!(sessions(&sandbox, &tree), [one.id.as_str()]);
    // Git moves one under its name.
    let two = talk(&sandbox, 2, &next, "the upload fails at night");
    import(&sandbox);
    let moved = main.with_file_name("moved");
    sandbox.git(&main, &["worktree", "move", next.to_str().unwrap(), moved.to_str().unwrap()]);
    assert_eq!(sessions(&sandbox, &moved), [two.id]);
}

#[test]
fn without_git_the_user_says_what_moved() {
    let sandbox = Sandbox::new();
    let (old, new) = (folder(&sandbox, "old"), folder(&sandbox, "new"));
    let one = talk(&sandbox, 1, &old, ASKED);
    let two = talk(&sandbox, 2, &old.join("web"), "the upload fails at night");
    let three = talk(&sandbox, 3, &new, "Is max_retries read from the environment?");
    import(&sandbox);
    sandbox.cli(&["archive", "optimize"]);
    fs::remove_dir_all(&old).unwrap();
    let dry = move_project(&sandbox, &old, &new, &["--dry-run"]).done();
    assert!(dry.stdout.starts_with(&format!("would move 2 sessions from {} to {}\n", old.display(), new.display())), "{dry:?}");
    assert_eq!(sessions(&sandbox, &new), [three.id.as_str()], "nothing was changed");
    let done = move_project(&sandbox, &old, &new, &["--json"]).done().json();
    assert_eq!((&done["moved"], &done["dry_run"]), (&json!(2), &json!(false)));
    let web = done["sessions"].as_array().unwrap().iter().find(|one| one["session"] == two.id.as_str()).unwrap();
    assert_eq!((web["from"].as_str(), web["to"].as_str()), (old.join("web").to_str(), new.join("web").to_str()));
    assert_eq!(sessions(&sandbox, &new), [one.id.clone(), two.id.clone(), three.id.clone()]);
    sandbox.assert_archived(&one);
    let new_name = new.to_str().unwrap();
    let found = sandbox.json(&["archive", "search", "parser", "--mode", "lexical", "--project", new_name]);
    assert_eq!(found["results"][0]["session"], one.id.as_str());
    let learned = sandbox.json(&["learnings", "list", "--project", new_name]);
    let sentences = learned["learnings"].as_array().unwrap();
    assert!(sentences.iter().all(|one| one["folder"].as_str().unwrap().starts_with(new_name)), "{learned}");
    assert!(!sentences.is_empty());

    // The transcript goes on under the old name: it is the same session.
    import(&sandbox);
    assert_eq!(sessions(&sandbox, &old), [""; 0]);
    // Back, though the old folder is gone; what worked in the new one stays there.
    let back = move_project(&sandbox, &new, &old, &[]).done();
    assert!(back.stdout.starts_with("moved: 2 sessions"), "{back:?}");
    assert_eq!(sessions(&sandbox, &new), [three.id.as_str()]);
    assert_eq!(sessions(&sandbox, &old), [one.id, two.id]);
    sandbox.assert_sound();
}

#[test]
fn a_move_that_makes_no_sense_is_refused() {
    let sandbox = Sandbox::new();
    let (old, new) = (folder(&sandbox, "old-api"), folder(&sandbox, "new"));
    talk(&sandbox, 1, &old, ASKED);
    import(&sandbox);
    let refused = |old: &str, new: &Path, words: &[&str]| {
        let ran = move_project(&sandbox, Path::new(old), new, &[]).with_code(2);
        assert!(words.iter().all(|word| ran.stderr.contains(word)), "{ran:?}");
    };
    let name = old.to_str().unwrap();
    refused("api", &new, &["no session worked in a folder api", name]);
    refused("/nowhere/old-api", &new, &["no session worked in /nowhere/old-api", name]);
    refused(name, &new.join("none"), &["is not a folder"]);
    refused(name, &old, &["are in", "already"]);
    assert_eq!(sandbox.count("SELECT count(*) FROM sessions WHERE moved_from IS NOT NULL"), 0);
    move_project(&sandbox, Path::new("old-api"), &new, &[]).done();
    assert_eq!(sessions(&sandbox, &new).len(), 1);
}

/// Each command with `--project`, and how many it finds of what is below a folder.
const COMMANDS: &[(&[&str], &str)] = &[
    (&["archive", "sessions"], "sessions"),
    (&["archive", "search", "parser", "--mode", "lexical"], "results"),
    (&["archive", "history", "--search", "walrus"], "compactions"),
    (&["learnings", "list"], "learnings"),
    (&["learnings", "search", "depth"], "learnings"),
    (&["learnings", "patterns"], "together"),
];

#[test]
fn the_option_means_the_folder_or_below_in_every_command() {
    let sandbox = Sandbox::new();
    let apart = "/home/dev/cafe\u{301}/app";
    for (number, folder) in [(1, apart), (2, "/home/dev/cafe\u{301}/app/web"), (3, "/home/dev/cafe\u{301}/apple")] {
        let mut lines = Lines::of("s").seed(number.into());
        let change = |lines: &mut Lines, file: &str| {
            lines.call("Edit", json!({ "file_path": format!("{folder}/{file}"), "old_string": "a", "new_string": "b" }))
                + &lines.result("done")
        };
        let mut text = String::new();
        for _ in 0..3 {
            text += &(lines.prompt(&format!("{ASKED} The walrus of {number}."))
                + &change(&mut lines, &format!("a{number}.rs"))
                + &change(&mut lines, &format!("b{number}.rs"))
                + &lines.answer("We went with counting the depth because it is simple."));
        }
        text += &lines.summary(&format!("A walrus was looked for in {number}."));
        text += &lines.turn("Thanks.");
        sandbox.talk(number, text.replace(FOLDER, folder));
    }
    import(&sandbox);
    sandbox.cli(&["archive", "optimize"]);
    for (command, list) in COMMANDS {
        let found = |project: &str| {
            let ran = run(sandbox.command(&[command, &["--json", "--project", project][..]].concat()), b"");
            assert!(matches!(ran.code, Some(0 | 1)), "{command:?} {project}: {ran:?}");
            let mut of: Vec<String> = ran.json()[list]
                .as_array()
                .unwrap()
                .iter()
                .map(|one| one["session"].as_str().map_or_else(|| one["files"][0].to_string(), str::to_owned))
                .collect();
            of.sort_unstable();
            of.dedup();
            of
        };
        let all = found("/home/dev");
        assert_eq!(all.len(), 3, "{command:?}: {all:?}");
        for same in ["/home/dev/caf\u{e9}/app/", apart, "app", "caf\u{e9}/app"] {
            assert_eq!(found(same), all[..2], "{command:?} {same}");
        }
        assert_eq!(found("web"), all[1..2], "{command:?}");
        assert_eq!(found("/home/dev/caf\u{e9}/ap"), [""; 0], "{command:?}");
        let unknown = run(sandbox.command(&[command, &["--project", "ap"][..]].concat()), b"").with_code(2);
        assert!(unknown.stderr.contains("no session worked in a folder ap; there are"), "{command:?} {unknown:?}");
        let ambiguous = format!("--project={}", "");
        run(sandbox.command(&[command, &[ambiguous.as_str()][..]].concat()), b"").with_code(2);
    }
}

#[test]
fn no_command_with_the_option_is_left_out() {
    let sandbox = Sandbox::new();
    let help = |words: &[&str]| sandbox.cli(&[words, &["--help"]].concat()).stdout;
    for group in ["archive", "learnings", "bundle"] {
        let listed = help(&[group]);
        let (_, commands) = listed.split_once("Commands:\n").unwrap();
        for name in commands.lines().map_while(|line| line.strip_prefix("  ")?.split(' ').next()).filter(|name| !name.is_empty())
        {
            let has_option = name != "help" && help(&[group, name]).contains("--project <");
            let is_known = COMMANDS.iter().any(|(command, _)| command[..2] == [group, name]);
            assert_eq!(has_option, is_known, "{group} {name}");
        }
    }
}

//! A team's archive: what its members send to a real server, who sees it there, and what happens when the server does not do its part.
#![cfg(unix)]

mod finding;
mod forget;
mod healing;
use crate::transcript::lines;
mod member;
use crate::postgres::proxy;
mod revoke;
mod trouble;
mod vectors;

use ctxbridge::archive::store::{EVERYTHING, SegmentReader, SessionReader, TurnReader, TurnSelection};
use ctxbridge::team::postgres::PostgresStore;
use lines::{says, text, user};
use member::{Member, Team, id};
use serde_json::Value;

const TOKEN: &str = "ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8";

#[test]
fn members_see_what_is_shared_and_no_secret() {
    let team = Team::new();
    let (ann, bob) = (team.member("ann"), team.member("bob"));
    let shared = id(2);
    ann.archive(&id(1), &text(&[user(0, "Nobody else reads this."), says(1, "No.")]));
    ann.archive(&shared, &text(&[user(10, format!("Log in with {TOKEN}.")), says(11, "Logged in.")]));
    let sent = ann.json(&["archive", "sync", "--json"]);
    assert_eq!((sent["sessions"].clone(), sent["turns"].clone(), sent["redacted"].clone()), (2.into(), 2.into(), 1.into()));
    assert_eq!(sent["visibility"], "private");
    assert_eq!(sessions(&bob), [""; 0]);
    let said = ann.run(&["archive", "share", &shared, "team"]);
    assert_eq!(said.stdout, format!("session {shared} is seen by the whole team\n"));
    assert_eq!(sessions(&bob), [shared.as_str()]);
    let there = whole(&mut bob.store(), &shared);
    assert!(there.contains("[redacted:") && there.contains("Logged in.") && !there.contains(TOKEN), "{there}");
    // He can neither hide nor change it.
    let refused = bob.fails(&["archive", "share", &shared, "private"]);
    assert!(refused.contains("somebody else's"), "{refused}");
    assert_eq!(sessions(&bob), [shared.as_str()]);
    ann.run(&["archive", "share", &shared, "private"]);
    assert_eq!(sessions(&bob), [""; 0]);
    // What is archived on her machine has it still.
    let here = ann.run(&["archive", "restore", &shared]);
    assert!(here.stdout.contains(TOKEN));
}

#[test]
fn what_is_sent_later_is_as_visible() {
    let team = Team::new();
    let (ann, bob) = (team.member("ann"), team.member("bob"));
    let begin = [user(0, "First."), says(1, "One.")];
    ann.archive(&id(1), &text(&begin));
    ann.run(&["archive", "sync"]);
    ann.run(&["archive", "share", &id(1), "team"]);
    ann.archive(&id(1), &text(&[&begin[..], &[user(2, "Second."), says(3, "Two.")]].concat()));
    ann.run(&["archive", "sync"]);
    let mut store = bob.store();
    let session = store.session(&id(1)).unwrap().unwrap();
    assert_eq!(store.turns(session.key, TurnSelection::All).unwrap().len(), 2);
}

#[test]
fn a_mistyped_tenant_is_noticed() {
    let team = Team::new();
    let ann = team.member("ann");
    ann.archive(&id(1), &text(&[user(1, "Mine."), says(2, "Yes.")]));
    let elsewhere = ann.with("CTXBRIDGE_POSTGRES_TENANT", "acne");
    // Who looks for something begins none.
    let said = elsewhere.output(&["archive", "search", "mine"]).stderr;
    assert!(
        said.contains("is not a member of the tenant acne") && said.contains("If you meant another tenant, set postgres.tenant"),
        "{said}"
    );
    // Nor who sends in the background, where nobody would see that.
    assert_ne!(elsewhere.output(&["archive", "sync", "--background"]).code, Some(0));
    let members = "SELECT count(*) FROM ctxbridge.members WHERE tenant = 'acne'";
    assert_eq!(team.database.admin().unwrap().query_one(members, &[]).unwrap().get::<_, i64>(0), 0);
    let said = elsewhere.output(&["doctor"]).stdout;
    assert!(said.contains("is not a member of the tenant acne") && !said.contains("when it answers again"), "{said}");
    let said = elsewhere.run(&["archive", "sync"]).stderr;
    assert!(said.contains("the tenant acne is new on") && said.contains("its admin"), "{said}");
    for member in [&elsewhere, &ann] {
        let said = member.run(&["archive", "sync"]).stderr;
        assert!(!said.contains("is new on"), "{said}");
    }
}

#[test]
fn both_may_have_the_same_session() {
    // A transcript that was handed on: each has their own, and neither learns of the other's.
    let team = Team::new();
    let (ann, bob) = (team.member("ann"), team.member("bob"));
    for member in [&ann, &bob] {
        member.archive(&id(1), &text(&[user(0, "The same."), says(1, "Of both.")]));
        let sent = member.json(&["archive", "sync", "--json"]);
        assert_eq!(sent["turns"], 1, "{sent}");
        assert_eq!(sessions(member), [id(1)]);
    }
    // A third one is told that there are two, and says whose is meant.
    for member in [&ann, &bob] {
        member.run(&["archive", "share", &id(1), "team"]);
    }
    let carol = team.member("carol");
    for begin in [id(1), id(1)[..6].to_owned()] {
        let said = carol.fails(&["archive", "show", &begin]);
        assert!(said.contains(&ann.role.name) && said.contains(&bob.role.name) && said.contains("--owner"), "{said}");
        let shown = carol.run(&["archive", "restore", &begin, "--owner", &bob.role.name]);
        assert!(
            shown.stdout.contains("The same.") && shown.stderr.contains(&format!("is {}'s", bob.role.name)),
            "{}",
            shown.stderr
        );
    }
    assert!(!ann.run(&["archive", "show", &id(1)]).stderr.contains("--owner"), "her own is meant");
}

#[test]
fn the_begin_of_a_line_is_not_sent_before_its_end() {
    let team = Team::new();
    let ann = team.member("ann");
    let secret = format!("ghp_{}", "Zz9".repeat(12));
    let whole = text(&[user(0, "Look."), says(1, &format!("It is {secret}, isn't it?"))]);
    let cut = whole.find(&secret).unwrap() + 30;
    ann.archive(&id(1), &whole[..cut]);
    ann.run(&["archive", "sync"]);
    let sent = |begin: &str| begin.contains(&secret[..20]);
    assert!(self::whole(&mut ann.store(), &id(1)).contains("Look.") && !sent(&self::whole(&mut ann.store(), &id(1))));
    ann.archive(&id(1), &whole);
    ann.run(&["archive", "sync"]);
    let there = self::whole(&mut ann.store(), &id(1));
    assert!(there.contains("isn't it?") && !sent(&there), "{there}");
    // A last line that only lacks its end goes along.
    ann.archive(&id(2), whole.trim_end());
    ann.run(&["archive", "sync"]);
    assert!(self::whole(&mut ann.store(), &id(2)).contains("isn't it?"));
}

#[test]
fn the_users_own_patterns_count_and_a_bad_one_stops_it() {
    let team = Team::new();
    let ann = team.member("ann");
    ann.archive(&id(1), &text(&[user(0, "Ticket ACME-12345678 is done."), says(1, "Fine.")]));
    // Nor does a mistyped address make it go to a server that is named elsewhere.
    let mistyped = ann.with("CTXBRIDGE_POSTGRES_HOST", &team.database.address.host).fails_at("mysql://ann:x@db/team");
    assert!(mistyped.contains("nothing was sent") && !mistyped.contains("ann:x@"), "{mistyped}");
    let refused = ann.with("CTXBRIDGE_REDACT_PATTERNS", "ACME-[0-9{8}").fails(&["archive", "sync"]);
    assert!(refused.contains("nothing was sent"), "{refused}");
    assert_eq!(sessions(&ann), [""; 0]);
    ann.with("CTXBRIDGE_REDACT_PATTERNS", "ACME-[0-9]{8}").run(&["archive", "sync"]);
    assert!(!whole(&mut ann.store(), &id(1)).contains("ACME-12345678"));
}

#[test]
fn the_doctor_says_how_it_is() {
    let team = Team::new();
    let ann = team.member("ann");
    let check = |member: &Member| {
        let looked: Value = serde_json::from_str(&member.output(&["doctor", "--json"]).stdout).unwrap();
        let checks = looked["checks"].as_array().unwrap().clone();
        checks.into_iter().find(|check| check["id"] == "server").unwrap()
    };
    let good = check(&ann);
    assert!(good["status"] == "ok" && good["detail"].as_str().unwrap().contains("answers as PostgreSQL"), "{good}");
    let bad = check(&ann.with("CTXBRIDGE_POSTGRES_PASSWORD", "hunter2"));
    assert!(bad["status"] == "failed" && !bad.to_string().contains("hunter2"), "{bad}");
}

#[test]
fn who_has_left_a_project_is_told_which_session_is_not_sent() {
    let team = Team::new();
    let ann = team.member("ann").with("CTXBRIDGE_POSTGRES_VISIBILITY", "project");
    let talk = [user(0, "First."), says(1, "One.")];
    ann.archive(&id(1), &text(&talk));
    ann.run(&["archive", "sync"]);
    let project: String = team.database.admin().unwrap().query_one("SELECT project FROM ctxbridge.sessions", &[]).unwrap().get(0);
    let leave = "SELECT ctxbridge.remove_from_project('acme', $1, session_user::text)";
    team.database.client_of(&ann.role).unwrap().execute(leave, &[&project]).unwrap();
    ann.archive(&id(1), &text(&[&talk[..], &[user(2, "Second."), says(3, "Two.")]].concat()));
    let ann = ann.with("CTXBRIDGE_POSTGRES_VISIBILITY", "private");
    (2..6).for_each(|number| ann.archive(&id(number), &text(&talk)));
    let said = ann.output(&["archive", "sync"]);
    assert_eq!(said.code, Some(1), "{}", said.stderr);
    let share = format!("ctxbridge archive share {} private", id(1));
    assert!(said.stderr.contains(&project) && said.stderr.contains(&share), "{}", said.stderr);
    assert_eq!(sessions(&ann).len(), 5, "the others are sent");
    ann.run(&["archive", "share", &id(1), "private"]);
    ann.run(&["archive", "sync"]);
    let mut store = ann.store();
    let session = store.session(&id(1)).unwrap().unwrap();
    assert_eq!(store.turns(session.key, TurnSelection::All).unwrap().len(), 2);
}

#[cfg(unix)]
#[test]
fn passwords_that_others_can_read_are_told_of() {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;

    let team = Team::new();
    let ann = team.member("ann").with("CTXBRIDGE_POSTGRES_PASSWORD", "");
    let home = ann.data().parent().unwrap().to_owned();
    let write = |path: PathBuf, text: String, mode: u32| {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    };
    let pgpass = |mode| write(home.join(".pgpass"), format!("*:*:*:*:{}\n", ann.role.password.replace('\\', "\\\\")), mode);

    pgpass(0o644);
    let said = ann.fails(&["archive", "sync"]);
    assert!(said.contains("others can read that file") && said.contains("chmod 600"), "{said}");
    pgpass(0o600);
    ann.run(&["archive", "sync"]);

    let settings = |mode| {
        write(
            home.join("config/config.toml"),
            format!("[postgres]\npassword = {}\n", Value::from(ann.role.password.as_str())),
            mode,
        )
    };
    let doctor = || ann.output(&["doctor"]).stdout;
    settings(0o644);
    let said = doctor();
    assert!(said.contains("a password that others can read") && said.contains("chmod 600"), "{said}");
    settings(0o600);
    let said = doctor();
    assert!(!said.contains("others can read"), "{said}");
}

/// The sessions that a member sees on the server.
fn sessions(member: &Member) -> Vec<String> {
    member.store().sessions("", None, usize::MAX).unwrap().into_iter().map(|session| session.session).collect()
}

fn whole(store: &mut PostgresStore, session: &str) -> String {
    let session = store.session(session).unwrap().unwrap();
    let transcript = store.transcripts(session.key).unwrap().remove(0);
    let mut bytes = Vec::new();
    store.read_bytes(transcript.key, transcript.generation, EVERYTHING, &mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

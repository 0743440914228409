//! Who may read what, whatever he asks with: plain SQL on a connection of his own.

use ctxbridge::archive::search::filter::Filter;
use ctxbridge_testkit::postgres::TestRole;
use postgres::error::SqlState;
use postgres::types::ToSql;

use super::people::{MODEL, OF_PROJECT, OF_TEAM, People, SECRET, vector};
use ctxbridge::archive::store::{SearchBackend, SessionReader, TranscriptAppender, TurnReader};

/// All relations of the schema that can be read from, with their kinds.
const RELATIONS: &str = "SELECT relname::text, relispartition FROM pg_class
    WHERE relnamespace = 'ctxbridge'::regnamespace AND relkind IN ('r', 'p', 'v', 'm') ORDER BY 1";

fn all_rows(people: &People, role: &TestRole) -> String {
    let mut client = people.client(role);
    let mut all = String::new();
    for relation in client.query(RELATIONS, &[]).unwrap() {
        let name: String = relation.get(0);
        match client.query(&format!("SELECT to_jsonb(t)::text FROM ctxbridge.\"{name}\" t"), &[]) {
            Ok(rows) => {
                assert!(!relation.get::<_, bool>(1), "{name} is a partition");
                all.extend(rows.iter().map(|row| format!("{name}: {}\n", row.get::<_, String>(0))));
            }
            Err(error) => assert_eq!(error.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE), "{name}: {error:?}"),
        }
    }
    all
}

#[test]
fn no_table_tells() {
    let people = People::new();
    people.database.admin().unwrap().batch_execute("ANALYZE").unwrap();
    let of_alice = all_rows(&people, &people.alice);
    let readable = [
        "sessions",
        "transcripts",
        "segments",
        "layout",
        "entries",
        "turns",
        "compactions",
        "fixes",
        "changed_files",
        "learning_progress",
        "learnings",
        "learned",
        "kept",
        "notes",
        "changes",
    ];
    for table in readable {
        assert!(of_alice.contains(&format!("\n{table}: ")) || of_alice.starts_with(&format!("{table}: ")), "{table} is empty");
    }
    people.database.admin().unwrap().batch_execute("ANALYZE").unwrap();
    for (role, unseen) in
        [(&people.bob, &[SECRET][..]), (&people.carol, &[SECRET, OF_PROJECT]), (&people.mallory, &[SECRET, OF_PROJECT, OF_TEAM])]
    {
        let all = all_rows(&people, role);
        for word in unseen {
            assert!(!all.contains(word), "{} sees {word}", role.name);
        }
        // Not a row of what is hers alone.
        for table in ["kept", "notes", "changes", "decays"] {
            assert!(!all.contains(&format!("{table}: ")), "{}: {table}", role.name);
        }
        assert!(*role != people.mallory || all.lines().all(|line| line.starts_with("migrations: ")), "{all}");
        // What the server knows of the distribution of values would tell of them.
        let stats = people
            .client(role)
            .query("SELECT tablename FROM pg_stats WHERE schemaname = 'ctxbridge' AND tablename <> 'migrations'", &[]);
        assert_eq!(stats.unwrap().len(), 0);
    }
}

#[test]
fn no_function_tells() {
    let people = People::new();
    let mut alice = people.store(&people.alice);
    let entries: Vec<i64> =
        alice.search_text("\"xyzzyprivate1\"", &Filter::default(), 9).unwrap().iter().map(|hit| hit.0).collect();
    assert_eq!(entries.len(), 3, "two turns and a summary");
    let vector: String = format!("[{}]", vector(SECRET).iter().map(f32::to_string).collect::<Vec<_>>().join(","));
    for role in [&people.bob, &people.carol, &people.mallory] {
        let mut client = people.client(role);
        let words = "SELECT entry FROM ctxbridge.find_words('acme', 'xyzzyprivate1', 99)";
        assert!(client.query(words, &[]).unwrap().is_empty());
        let near = "SELECT entry FROM ctxbridge.find_near('acme', $1, $2, 99) WHERE entry = ANY ($3)";
        assert!(client.query(near, &[&MODEL, &vector, &entries]).unwrap().is_empty());
        let without = "SELECT * FROM ctxbridge.without_vectors('acme', 'another model', 384, 9223372036854775807, 99)";
        assert!(client.query(without, &[]).unwrap().is_empty());
    }
    // All that everybody may call is known here; and what runs with another's rights goes by no path of the caller's.
    let mut admin = people.database.admin().unwrap();
    let callable = "SELECT proname::text FROM pg_proc WHERE pronamespace = 'ctxbridge'::regnamespace
        AND has_function_privilege('public', oid, 'EXECUTE')
        AND NOT EXISTS (SELECT FROM pg_depend WHERE classid = 'pg_proc'::regclass AND objid = pg_proc.oid AND deptype = 'e') ORDER BY 1";
    let callable: Vec<String> = admin.query(callable, &[]).unwrap().iter().map(|row| row.get(0)).collect();
    assert_eq!(
        callable.join(" "),
        "add_entries add_member add_summary add_to_project add_turns ensure_vectors enter enter_project find_near find_words forget_texts \
         forget_vectors grow_entry leave_empty_project list_members may_read may_write put_texts put_vectors remove_from_project remove_member \
         rename_entries settle share_entries share_texts share_vectors show_entries show_learnings without_vectors"
    );
    let unpinned = "SELECT proname::text FROM pg_proc WHERE pronamespace = 'ctxbridge'::regnamespace AND prosecdef
        AND NOT coalesce(array_to_string(proconfig, ' '), '') LIKE '%search_path=pg_catalog, pg_temp%'";
    assert!(admin.query(unpinned, &[]).unwrap().is_empty());
}

#[test]
fn every_table_is_guarded() {
    let people = People::new();
    let mut admin = people.database.admin().unwrap();
    let unguarded = "SELECT relname::text FROM pg_class WHERE relnamespace = 'ctxbridge'::regnamespace AND relkind IN ('r', 'p')
        AND relname <> 'migrations' AND NOT (relrowsecurity AND relforcerowsecurity)
        AND EXISTS (SELECT FROM pg_attribute WHERE attrelid = pg_class.oid AND attnum > 0
            AND (has_column_privilege('public', attrelid, attnum, 'SELECT') OR has_column_privilege('public', attrelid, attnum, 'INSERT')
                OR has_column_privilege('public', attrelid, attnum, 'UPDATE') OR has_table_privilege('public', attrelid, 'DELETE')))";
    let unguarded: Vec<String> = admin.query(unguarded, &[]).unwrap().iter().map(|row| row.get(0)).collect();
    assert_eq!(unguarded, Vec::<String>::new());
    // And no right to what has none: partitions, sequences, tables of vectors and words, members.
    let closed = "SELECT relname::text FROM pg_class WHERE relnamespace = 'ctxbridge'::regnamespace AND relacl::text LIKE '%{=%'
        AND (relispartition OR relkind = 'S' OR relname ~ '^(texts|embeddings|members|project_members)')";
    assert!(admin.query(closed, &[]).unwrap().is_empty());
}

#[test]
fn who_may_read_all_data_reads_none_that_is_others() {
    let people = People::new();
    let backup = people.database.role("backup", "").unwrap();
    let mut admin = people.database.admin().unwrap();
    admin.batch_execute(&format!("GRANT pg_read_all_data TO {}", backup.name)).unwrap();
    let tables = "SELECT oid::regclass::text FROM pg_class
        WHERE relnamespace = 'ctxbridge'::regnamespace AND relkind IN ('r', 'p') AND relname <> 'migrations'";
    let tables: Vec<String> = admin.query(tables, &[]).unwrap().iter().map(|row| row.get(0)).collect();
    assert!(tables.len() > 100);
    let mut client = people.client(&backup);
    for table in tables {
        let count = |client: &mut postgres::Client| -> i64 {
            client.query_one(&format!("SELECT count(*) FROM {table}"), &[]).unwrap().get(0)
        };
        assert_eq!(count(&mut client), 0, "{table}");
        // There is something to be seen.
        if table.ends_with(".entries") || table.ends_with(".texts") || table.ends_with(".members") {
            assert!(count(&mut admin) > 0, "{table}");
        }
    }
}

#[test]
fn a_function_of_ones_own_is_not_shown_what_one_may_not_read() {
    let people = People::new();
    for (role, word) in [(&people.bob, SECRET), (&people.carol, OF_PROJECT), (&people.mallory, OF_TEAM)] {
        let mut client = people.client(role);
        // It costs nothing, so that the server would like to ask it first; what it is asked is said aloud.
        client
            .batch_execute(
                "CREATE FUNCTION pg_temp.shows(text) RETURNS boolean LANGUAGE plpgsql COST 0.0000001 AS
                 $$ BEGIN IF $1 LIKE '%xyzzy%' THEN RAISE 'saw %', $1; END IF; RETURN true; END $$",
            )
            .unwrap();
        for (table, column) in [("entries", "content"), ("sessions", "session"), ("learnings", "sentence"), ("fixes", "call")] {
            let sql = format!("SELECT * FROM ctxbridge.{table} WHERE pg_temp.shows({column})");
            let said = client.query(&sql, &[]).err().map(|error| error.as_db_error().unwrap().message().to_owned());
            assert!(!said.as_ref().is_some_and(|said| said.contains(word)), "{said:?}");
            assert_eq!(said.is_none(), *role == people.mallory, "{table}: {said:?}");
        }
    }
}

/// What comes of a statement: how many rows, or which error, without what is particular to the values.
fn outcome(people: &People, role: &TestRole, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Result<u64, String> {
    let mut client = people.client(role);
    client.execute(sql, params).map_err(|error| match error.as_db_error() {
        Some(db) => format!("{} {}", db.code().code(), db.constraint().unwrap_or_default()),
        None => panic!("{error:?}"),
    })
}

/// The number of a row of hers.
fn number(people: &People, sql: &str) -> i64 {
    people.database.admin().unwrap().query_one(sql, &[]).unwrap().get(0)
}

#[test]
fn nobody_writes_what_belongs_to_another() {
    let people = People::new();
    let before = all_rows(&people, &people.alice);
    let denied = Err("42501 ".to_owned());
    for role in [&people.bob, &people.carol, &people.mallory] {
        let mut client = people.client(role);
        for relation in client.query(RELATIONS, &[]).unwrap() {
            let name: String = relation.get(0);
            let deleted =
                outcome(&people, role, &format!("DELETE FROM ctxbridge.\"{name}\" WHERE owner <> session_user::text"), &[]);
            assert!(
                matches!(&deleted, Ok(0)) || deleted.as_ref().is_err_and(|error| error.starts_with("42")),
                "{name}: {deleted:?}"
            );
            for column in ["audience", "owner", "tenant", "id"] {
                let sql = format!("UPDATE ctxbridge.\"{name}\" SET {column} = NULL WHERE true");
                let updated = outcome(&people, role, &sql, &[]);
                assert!(
                    matches!(&updated, Ok(0)) || updated.as_ref().is_err_and(|error| error.starts_with("42")),
                    "{name}: {updated:?}"
                );
            }
            assert!(outcome(&people, role, &format!("TRUNCATE ctxbridge.\"{name}\""), &[]).is_err());
        }
        let owned = "INSERT INTO ctxbridge.sessions (tenant, owner, session) VALUES ('acme', $1, 's')";
        assert_eq!(outcome(&people, role, owned, &[&people.alice.name]), denied);
        let numbered = "INSERT INTO ctxbridge.sessions (tenant, id, session) OVERRIDING SYSTEM VALUE VALUES ('acme', 1, 's')";
        assert_eq!(outcome(&people, role, numbered, &[]), denied);
        for other in [&people.alice.name, &people.database.address.superuser] {
            assert_eq!(outcome(&people, role, &format!("SET ROLE {other}"), &[]), denied);
            assert_eq!(outcome(&people, role, &format!("SET SESSION AUTHORIZATION {other}"), &[]), denied);
        }
        for setting in ["SET row_security = off", "SET ctxbridge.owner = 'alice'", "SET search_path = ctxbridge"] {
            let mut client = people.client(role);
            client.batch_execute(setting).unwrap();
            let seen = client.query("SELECT FROM ctxbridge.sessions WHERE session = $1", &[&SECRET]);
            assert!(seen.is_err() || seen.unwrap().is_empty(), "{setting}");
        }
        // Members and vectors of others, and their words.
        for sql in [
            "SELECT ctxbridge.add_member('acme', session_user::text, true)",
            "SELECT ctxbridge.remove_member('acme', 'somebody')",
        ] {
            assert_eq!(outcome(&people, role, sql, &[]), denied, "{sql}");
        }
    }
    assert_eq!(
        outcome(&people, &people.carol, "SELECT ctxbridge.add_to_project('acme', 'rocket', session_user::text)", &[]),
        denied
    );
    assert_eq!(all_rows(&people, &people.alice), before);
}

#[test]
fn nothing_of_ones_own_gets_into_what_belongs_to_another() {
    let people = People::new();
    let session = number(&people, "SELECT id FROM ctxbridge.sessions WHERE session = 'xyzzyteam3'");
    let transcript = number(&people, "SELECT id FROM ctxbridge.transcripts WHERE path LIKE '%xyzzyteam3%'");
    let entry = number(
        &people,
        "SELECT min(entry) FROM ctxbridge.turns JOIN ctxbridge.sessions s ON s.tenant = turns.tenant AND s.id = turns.session
        WHERE s.session = 'xyzzyteam3'",
    );
    let secret = number(
        &people,
        "SELECT min(entry) FROM ctxbridge.turns JOIN ctxbridge.sessions s ON s.tenant = turns.tenant AND s.id = turns.session
        WHERE s.session = 'xyzzyprivate1'",
    );
    let before = (alice_sees(&people), rows_of_alice(&people));
    let row = "INSERT INTO ctxbridge.turns (tenant, session, audience, transcript, generation, idx, entry, uuid, start, bytes, started_ms,
        took_ms, richness, output_tokens, is_answered) VALUES ('acme', $1, '{team}', $2, 0, 99, $3, '\\x00', 0, 1, 1, 1, 0, 0, true)";
    assert_eq!(outcome(&people, &people.bob, row, &[&session, &transcript, &entry]), Err("42501 ".to_owned()));
    let turn = "SELECT ctxbridge.add_turns('acme', $1, $2, 0, '{99}', ARRAY[$3::bigint], '{\"\\\\x00\"}', '{0}', '{1}', '{1}', '{1}', '{0}',
        '{NULL}', '{0}', '{t}', '{NULL}', '{NULL}')";
    let foreign = Err("23503 ".to_owned());
    // The same for a session that is there and one that is not.
    assert_eq!(outcome(&people, &people.bob, turn, &[&session, &transcript, &entry]), foreign);
    assert_eq!(outcome(&people, &people.bob, turn, &[&(session + 1_000), &transcript, &entry]), foreign);
    // Into a session of his own he may put what he likes, and comes to nobody's content by that.
    let mut bob = people.store(&people.bob);
    let his = people.archive(&mut bob, "bobs", &[super::lines::user(1, "Mine.")]);
    outcome(&people, &people.bob, turn, &[&his, &transcript, &secret]).unwrap();
    let mut client = people.client(&people.bob);
    client
        .execute(
            "SELECT ctxbridge.put_texts('acme', $1, ARRAY[$2::bigint], ARRAY[1::bigint], ARRAY['x'], ARRAY['x'], ARRAY['fake:1'::tsvector])",
            &[&his, &secret],
        )
        .unwrap();
    client
        .execute(
            "SELECT ctxbridge.put_texts('acme', $1, ARRAY[$2::bigint], ARRAY[1::bigint], ARRAY['x'], ARRAY['x'], ARRAY['fake:1'::tsvector])",
            &[&session, &entry],
        )
        .unwrap();
    let one = format!("[{}]", vec!["0.1"; 384].join(","));
    client
        .execute(
            "SELECT ctxbridge.put_vectors('acme', $1, ARRAY[$2::bigint, $3], ARRAY[7, 7]::smallint[], ARRAY[$4, $4])",
            &[&MODEL, &secret, &entry, &one],
        )
        .unwrap();
    client.execute("SELECT ctxbridge.forget_vectors('acme', ARRAY[$1::bigint, $2])", &[&secret, &entry]).unwrap();
    client.execute("SELECT ctxbridge.forget_texts('acme', $1, ARRAY[$2::bigint, $3])", &[&session, &secret, &entry]).unwrap();
    assert!(!format!("{:?}", bob.turns(his, ctxbridge::archive::store::TurnSelection::All).unwrap()).contains(SECRET));
    assert!(bob.search_text("\"fake\"", &Filter::default(), 9).unwrap().is_empty());
    assert!(bob.texts_of(&[secret], 99).unwrap().is_empty() && bob.turn_locations(&[secret]).unwrap().is_empty());
    let mine: Vec<f32> = vec![0.1; 384];
    assert!(bob.search_vectors(MODEL, &mine, &Filter::default(), 99).unwrap().iter().all(|hit| hit.0 != secret && hit.1 < 0.99));
    assert_eq!(alice_sees(&people), before.0);
    assert_eq!(rows_of_alice(&people), before.1);
}

/// All that is hers; others may show her what is theirs.
fn rows_of_alice(people: &People) -> String {
    let all = all_rows(people, &people.alice);
    all.lines().filter(|line| line.contains(&format!("\"owner\": \"{}\"", people.alice.name))).collect::<Vec<_>>().join("\n")
}

fn alice_sees(people: &People) -> String {
    let mut alice = people.store(&people.alice);
    let mut all = String::new();
    for word in [SECRET, OF_PROJECT, OF_TEAM] {
        let key = alice.session(word).unwrap().unwrap().key;
        all += &format!("{:?}\n", alice.turns(key, ctxbridge::archive::store::TurnSelection::All).unwrap());
        all += &format!("{:?}\n", alice.search_text(&format!("\"{word}\""), &Filter::default(), 99).unwrap());
        all += &format!("{:?}\n", alice.search_vectors(MODEL, &vector(word), &Filter::default(), 99).unwrap());
    }
    all
}

#[test]
fn no_error_and_no_conflict_tells_what_is_there() {
    let people = People::new();
    let session = number(&people, "SELECT id FROM ctxbridge.sessions WHERE session = 'xyzzyprivate1'");
    let mut admin = people.database.admin().unwrap();
    let hash: Vec<u8> = admin.query_one("SELECT sha256 FROM ctxbridge.segments WHERE session = $1", &[&session]).unwrap().get(0);
    let content: Vec<u8> =
        admin.query_one("SELECT sha256 FROM ctxbridge.entries WHERE content LIKE '%xyzzyprivate1%' LIMIT 1", &[]).unwrap().get(0);
    let handle: Vec<u8> =
        admin.query_one("SELECT handle FROM ctxbridge.learnings WHERE sentence LIKE '%xyzzyprivate1%'", &[]).unwrap().get(0);
    let path: String = admin.query_one("SELECT path FROM ctxbridge.transcripts WHERE session = $1", &[&session]).unwrap().get(0);
    let absent: Vec<u8> = vec![7; 32];
    let mut bob = people.store(&people.bob);
    let his = people.archive(&mut bob, "bobs", &[super::lines::user(1, "Mine.")]);
    let same = |sql: &str, is_there: &[&(dyn ToSql + Sync)], is_not: &[&(dyn ToSql + Sync)]| {
        for conflict in ["", "ON CONFLICT DO NOTHING"] {
            let sql = format!("{sql} {conflict}");
            assert_eq!(outcome(&people, &people.bob, &sql, is_there), outcome(&people, &people.bob, &sql, is_not), "{sql}");
        }
    };
    let gone = session + 1_000;
    let segment =
        "INSERT INTO ctxbridge.segments (tenant, session, sha256, bytes, packed, data) VALUES ('acme', $1, $2, 1, 1, '')";
    same(segment, &[&session, &hash], &[&gone, &hash]);
    same(segment, &[&session, &hash], &[&session, &absent]);
    let entry = "INSERT INTO ctxbridge.entries (tenant, sha256, chars) VALUES ('acme', $1, 1)";
    same(entry, &[&content], &[&absent]);
    let entries = "SELECT count(*) FROM ctxbridge.add_entries('acme', $1, ARRAY[$2::bytea], '{1}', '{c}', '{NULL}', '{NULL}', '{k}', '{t}', ARRAY['{}'])";
    let added = |session: &i64, hash: &Vec<u8>| outcome(&people, &people.bob, entries, &[session, hash]);
    assert_eq!(added(&his, &content), added(&his, &absent));
    assert_eq!(added(&session, &content), added(&gone, &absent));
    assert_eq!(added(&session, &content), Err("23503 ".to_owned()));
    let named = "INSERT INTO ctxbridge.sessions (tenant, session) VALUES ('acme', $1)";
    same(named, &[&SECRET], &[&"of nobody"]);
    let learning = "INSERT INTO ctxbridge.learnings (tenant, handle, kind, sentence, confidence, words) VALUES ('acme', $1, 'k', 's', 1, '')";
    same(learning, &[&handle], &[&absent]);
    let file = "INSERT INTO ctxbridge.transcripts (tenant, session, path, generation, bytes, bad_lines, checked, interpreter)
        VALUES ('acme', $1, $2, 0, 0, 0, '', '')";
    same(file, &[&his, &path], &[&his, &"/of/nobody"]);
    same(file, &[&session, &path], &[&gone, &path]);
    let kept = "INSERT INTO ctxbridge.kept (tenant, uuid, is_kept, at_ms) VALUES ('acme', $1, true, 1)";
    same(kept, &[&hash], &[&absent]);
}

#[test]
fn members_are_the_admins_matter() {
    let people = People::new();
    let outcome = |role, sql: &str| outcome(&people, role, sql, &[]);
    let denied = Err("42501 ".to_owned());
    // The only admin stays, and so nobody becomes it by coming first.
    let remove = format!("SELECT ctxbridge.remove_member('acme', '{}')", people.alice.name);
    assert_eq!(outcome(&people.alice, &remove), Err("55006 ".to_owned()));
    assert_eq!(outcome(&people.alice, "SELECT ctxbridge.add_member('acme', 'nobody of that name')"), Err("42704 ".to_owned()));
    let add = format!("SELECT ctxbridge.add_member('acme', '{}', true)", people.bob.name);
    assert_eq!(outcome(&people.carol, &add), denied);
    assert_eq!(outcome(&people.alice, &add), Ok(1));
    assert_eq!(outcome(&people.bob, &remove), Ok(1));
    // What was hers is still hers to read, and no longer the others' to be shown by her.
    let mut client = people.client(&people.alice);
    assert_eq!(client.query("SELECT FROM ctxbridge.sessions WHERE session = $1", &[&SECRET]).unwrap().len(), 1);
    // Nor does she add anything, not even to what is only hers.
    for session in [SECRET, OF_TEAM] {
        let own = format!("(SELECT id FROM ctxbridge.sessions WHERE session = '{session}')");
        let row = format!("SELECT ctxbridge.add_summary('acme', {own}, '\\x07', 1, 's', 1)");
        assert_eq!(outcome(&people.alice, &row), denied);
    }
    let into = "SELECT ctxbridge.add_to_project('acme', 'rocket', 'nobody of that name')";
    assert_eq!((outcome(&people.bob, into), outcome(&people.mallory, into)), (Err("42704 ".to_owned()), denied.clone()));
    let out = format!("SELECT ctxbridge.remove_from_project('acme', 'rocket', '{}')", people.bob.name);
    assert_eq!((outcome(&people.carol, &out), outcome(&people.bob, &out)), (denied.clone(), Ok(1)));
    let entered = |role: &TestRole, sql: &str| people.client(role).query_one(sql, &[]).unwrap().get::<_, bool>(0);
    assert!(!entered(&people.mallory, "SELECT ctxbridge.enter('acme') IS NOT NULL"));
    assert!(!entered(&people.mallory, "SELECT ctxbridge.enter_project('acme', 'a new one')"));
    assert!(entered(&people.carol, "SELECT ctxbridge.enter_project('acme', 'a new one')"));
    assert!(!entered(&people.bob, "SELECT ctxbridge.enter_project('acme', 'a new one')"));
}

#[test]
fn whoever_made_the_tables_sees_no_more() {
    let database = super::database();
    let owner = database.role("owner", "").unwrap();
    database.admin().unwrap().batch_execute(&format!("GRANT CREATE ON DATABASE {} TO {}", database.name, owner.name)).unwrap();
    let mut store = ctxbridge::team::postgres::PostgresStore::connect(super::settings_of(&database, &owner)).unwrap();
    store.end_session("owners", "clear", 1).unwrap();
    let user = database.role("user", "").unwrap();
    let theirs =
        ctxbridge::team::postgres::ConnectionSettings { tenant: "theirs".to_owned(), ..super::settings_of(&database, &user) };
    let mut store = ctxbridge::team::postgres::PostgresStore::connect(theirs).unwrap();
    store.end_session(SECRET, "clear", 1).unwrap();
    let rows = database.client_of(&owner).unwrap().query("SELECT session FROM ctxbridge.sessions", &[]).unwrap();
    assert_eq!(rows.iter().map(|row| row.get::<_, String>(0)).collect::<Vec<_>>(), ["owners"]);
}

//! The tables. Migrations only ever go forward: a released entry is never changed, a new one is added.

/// Entry `n` leads from version `n` to `n + 1`.
pub(super) const MIGRATIONS: &[&str] = &["
CREATE TABLE sessions (
    id INTEGER PRIMARY KEY,
    session TEXT NOT NULL UNIQUE,
    folder TEXT,
    version TEXT,
    model TEXT,
    window INTEGER,
    context_tokens INTEGER,
    first_ms INTEGER,
    last_ms INTEGER,
    ended_ms INTEGER,
    end_reason TEXT
) STRICT;
CREATE INDEX sessions_by_time ON sessions (last_ms);

-- A file. `interpreter` is what the reading of its lines needs to go on (JSON).
CREATE TABLE transcripts (
    id INTEGER PRIMARY KEY,
    session INTEGER NOT NULL REFERENCES sessions (id),
    path TEXT NOT NULL UNIQUE,
    agent TEXT,
    generation INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    bad_lines INTEGER NOT NULL,
    checked BLOB NOT NULL,
    interpreter TEXT NOT NULL
) STRICT;
CREATE INDEX transcripts_by_session ON transcripts (session, agent);

-- Pieces of transcripts, compressed; equal ones are kept once.
CREATE TABLE segments (
    id INTEGER PRIMARY KEY,
    sha256 BLOB NOT NULL UNIQUE,
    bytes INTEGER NOT NULL,
    data BLOB NOT NULL
) STRICT;
CREATE TABLE layout (
    transcript INTEGER NOT NULL REFERENCES transcripts (id),
    generation INTEGER NOT NULL,
    start INTEGER NOT NULL,
    segment INTEGER NOT NULL REFERENCES segments (id),
    PRIMARY KEY (transcript, generation, start)
) STRICT, WITHOUT ROWID;
CREATE INDEX layout_by_segment ON layout (segment);

-- What is known under one content: a turn's, which several transcripts may have, or a summary's. What a turn says is in its bytes
-- and not kept a second time. What is usual is NULL, since it is said some ten thousand times.
CREATE TABLE entries (
    id INTEGER PRIMARY KEY,
    sha256 BLOB NOT NULL UNIQUE,
    chars INTEGER NOT NULL,
    text TEXT,
    tools TEXT,
    files TEXT,
    confidence REAL,
    access_count INTEGER NOT NULL DEFAULT 0,
    accessed_ms INTEGER
) STRICT;
CREATE INDEX entries_accessed ON entries (access_count) WHERE access_count > 0;

-- A turn is in the generations from `generation` to before `superseded`. `richness`: 1 with tools, plus 2 with files.
CREATE TABLE turns (
    id INTEGER PRIMARY KEY,
    transcript INTEGER NOT NULL REFERENCES transcripts (id),
    generation INTEGER NOT NULL,
    superseded INTEGER,
    idx INTEGER NOT NULL,
    entry INTEGER NOT NULL REFERENCES entries (id),
    uuid BLOB NOT NULL,
    start INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    started_ms INTEGER NOT NULL,
    took_ms INTEGER NOT NULL,
    richness INTEGER NOT NULL,
    context_tokens INTEGER,
    output_tokens INTEGER NOT NULL,
    is_answered INTEGER NOT NULL,
    agents TEXT,
    open_work TEXT
) STRICT;
CREATE UNIQUE INDEX turns_current ON turns (transcript, idx) WHERE superseded IS NULL;
CREATE INDEX turns_by_richness ON turns (transcript, richness, started_ms) WHERE superseded IS NULL;
CREATE INDEX turns_by_entry ON turns (entry);
-- The begin of the id is the turn's handle.
CREATE INDEX turns_by_handle ON turns (substr(uuid, 1, 4));

-- A compaction that was announced or has happened.
CREATE TABLE compactions (
    id INTEGER PRIMARY KEY,
    session INTEGER NOT NULL REFERENCES sessions (id),
    at_ms INTEGER NOT NULL,
    cause TEXT,
    turns INTEGER NOT NULL,
    context_tokens INTEGER,
    is_blocked INTEGER NOT NULL DEFAULT 0,
    summary INTEGER REFERENCES entries (id)
) STRICT;
CREATE INDEX compactions_by_session ON compactions (session, at_ms);

-- Single values: when the last optimize cycle was.
CREATE TABLE notes (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
", "
-- How much confidence was lost in all cycles together, up to each of them; `first_entry`: what was added afterwards begins here.
-- From now on `entries.confidence` is meant without these losses, so that a cycle touches no entry. NULL is that of a new entry, and
-- 0 that of a pruned one, since both take no room.
CREATE TABLE decays (first_entry INTEGER PRIMARY KEY, lost REAL NOT NULL) STRICT;
-- The highest id is given away again, and then is that of a new entry.
CREATE TRIGGER entries_deleted AFTER DELETE ON entries BEGIN
    UPDATE OR REPLACE decays SET first_entry = (SELECT coalesce(max(id), 0) + 1 FROM entries)
    WHERE first_entry > (SELECT coalesce(max(id), 0) + 1 FROM entries);
END;

-- Turns that began before this are pruned, or were restored: ranking does not have to look at them.
ALTER TABLE transcripts ADD COLUMN hot_from INTEGER;
", "
-- What is derived from entries is brought up to date by what changed since. A change is known by its salt where another archive, or an
-- older copy of this one, was put in this one's place.
CREATE TABLE changes (id INTEGER PRIMARY KEY, entry INTEGER NOT NULL, salt INTEGER NOT NULL DEFAULT (random())) STRICT;
INSERT INTO changes (entry) VALUES (0);
CREATE TRIGGER entry_added AFTER INSERT ON entries BEGIN INSERT INTO changes (entry) VALUES (new.id); END;
CREATE TRIGGER entry_changed AFTER UPDATE OF id, sha256, text ON entries BEGIN INSERT INTO changes (entry) VALUES (new.id); END;
CREATE TRIGGER entry_gone AFTER DELETE ON entries BEGIN INSERT INTO changes (entry) VALUES (old.id); END;
DELETE FROM notes WHERE key = 'revision';

CREATE INDEX turns_superseded ON turns (transcript) WHERE superseded IS NOT NULL;
", "
-- What was learned. The same sentence in the same project is one learning, wherever it is said again.
CREATE TABLE learnings (
    id INTEGER PRIMARY KEY,
    handle BLOB NOT NULL UNIQUE,
    kind TEXT NOT NULL,
    folder TEXT,
    sentence TEXT NOT NULL,
    confidence REAL NOT NULL,
    superseded_by INTEGER REFERENCES learnings (id)
) STRICT;
CREATE INDEX learnings_by_folder ON learnings (folder, kind);
CREATE VIRTUAL TABLE learning_words USING fts5(text, content = '', contentless_delete = 1, tokenize = \"ascii tokenchars '_'\");
CREATE TABLE learned (
    learning INTEGER NOT NULL REFERENCES learnings (id),
    uuid BLOB NOT NULL,
    session INTEGER NOT NULL REFERENCES sessions (id),
    at_ms INTEGER NOT NULL,
    before TEXT NOT NULL,
    after TEXT NOT NULL,
    agent TEXT,
    tools TEXT NOT NULL,
    PRIMARY KEY (learning, uuid)
) STRICT, WITHOUT ROWID;
CREATE INDEX learned_by_session ON learned (session);

-- Calls that failed and pass again, and files that turns changed.
CREATE TABLE fixes (
    session INTEGER NOT NULL REFERENCES sessions (id),
    uuid BLOB NOT NULL,
    tool TEXT NOT NULL,
    call TEXT NOT NULL,
    error TEXT NOT NULL,
    changed TEXT NOT NULL,
    failed_ms INTEGER NOT NULL,
    fixed_ms INTEGER NOT NULL,
    PRIMARY KEY (session, uuid, tool, call)
) STRICT, WITHOUT ROWID;
CREATE TABLE changed_files (
    session INTEGER NOT NULL REFERENCES sessions (id),
    uuid BLOB NOT NULL,
    files TEXT NOT NULL,
    PRIMARY KEY (session, uuid)
) STRICT, WITHOUT ROWID;

-- How far transcripts were looked through for that, with which patterns, and what is needed to go on (JSON).
CREATE TABLE learning_progress (
    transcript INTEGER PRIMARY KEY REFERENCES transcripts (id),
    generation INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    patterns TEXT NOT NULL,
    watcher TEXT NOT NULL
) STRICT;
", "
-- Where a compaction was (byte `start` of a transcript), what it did to the context, and what had been said since the one before.
ALTER TABLE compactions ADD COLUMN transcript INTEGER REFERENCES transcripts (id);
ALTER TABLE compactions ADD COLUMN start INTEGER;
ALTER TABLE compactions ADD COLUMN context_after INTEGER;
ALTER TABLE compactions ADD COLUMN took_ms INTEGER;
ALTER TABLE compactions ADD COLUMN messages INTEGER;
ALTER TABLE compactions ADD COLUMN first_message TEXT;
ALTER TABLE compactions ADD COLUMN last_message TEXT;
ALTER TABLE compactions ADD COLUMN topics TEXT;
CREATE VIRTUAL TABLE snapshot_words USING fts5(first, last, topics, content = '', contentless_delete = 1,
    tokenize = \"ascii tokenchars '_'\");

-- Turns that the user asked to keep, by their id, whichever sessions have them; `is_kept` 0: no longer, whatever the prompt says.
CREATE TABLE kept (uuid BLOB PRIMARY KEY, is_kept INTEGER NOT NULL, at_ms INTEGER NOT NULL) STRICT, WITHOUT ROWID;
", "
-- Tiers. What warm segments are compressed with, since texts of one archive are alike; `seen`: bytes of segments there were then. No
-- number is given away twice, so that whoever has read one need not look again.
CREATE TABLE dictionaries (id INTEGER PRIMARY KEY AUTOINCREMENT, data BLOB NOT NULL, seen INTEGER NOT NULL) STRICT;
-- Segments that were compressed anew, with a dictionary or without; also those where that gained nothing.
CREATE TABLE warm (
    segment INTEGER PRIMARY KEY REFERENCES segments (id) ON DELETE CASCADE,
    dictionary INTEGER REFERENCES dictionaries (id)
) STRICT;
CREATE INDEX warm_by_dictionary ON warm (dictionary) WHERE dictionary IS NOT NULL;

-- Sessions that were moved out of this file, each with all of its segments. `segments.data` is x'' where no other session needs it here.
CREATE TABLE cold_files (
    id INTEGER PRIMARY KEY,
    session INTEGER NOT NULL UNIQUE REFERENCES sessions (id),
    folder TEXT NOT NULL,
    name TEXT NOT NULL,
    bytes INTEGER NOT NULL,
    moved_ms INTEGER NOT NULL
) STRICT;
-- Where in a file the zstd frame of a segment is.
CREATE TABLE cold (
    segment INTEGER NOT NULL REFERENCES segments (id) ON DELETE CASCADE,
    file INTEGER NOT NULL REFERENCES cold_files (id) ON DELETE CASCADE,
    start INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    PRIMARY KEY (segment, file)
) STRICT, WITHOUT ROWID;
CREATE INDEX cold_by_file ON cold (file);
", "
-- Vectors that came with the archives of other tools, by the id that each entry has there. `embedding`: 32-bit floats, little endian.
CREATE TABLE imported (
    id INTEGER PRIMARY KEY,
    source TEXT NOT NULL,
    source_id TEXT NOT NULL,
    entry INTEGER NOT NULL REFERENCES entries (id) ON DELETE CASCADE,
    model TEXT NOT NULL,
    dimensions INTEGER NOT NULL,
    embedding BLOB NOT NULL,
    UNIQUE (source, source_id)
) STRICT;
CREATE INDEX imported_by_entry ON imported (entry);
", "
-- `turns.superseded` is -1 for a turn that was rewound: its generation has it, and the conversation does not.
ALTER TABLE learned ADD COLUMN is_rewound INTEGER NOT NULL DEFAULT 0;
ALTER TABLE compactions ADD COLUMN is_rewound INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN title TEXT;

-- Where a session's project was before it was moved, as the client wrote it; `folder` is where it is now.
ALTER TABLE sessions ADD COLUMN moved_from TEXT;
CREATE INDEX sessions_by_folder ON sessions (folder);

-- Facts about folders, noted while they were there: whether case counts in names, and the repository, by which a folder is known again
-- under another name. `root_commits`: JSON.
CREATE TABLE folders (
    folder TEXT PRIMARY KEY,
    ignores_case INTEGER NOT NULL,
    root_commits TEXT NOT NULL,
    remote TEXT,
    tree TEXT,
    noted_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
", "
-- A file beside a transcript is a row of `transcripts`, with its path in the session's own folder behind a slash as its `agent`; where two
-- slashes stand before it, the file is too large to be kept, and the bytes are a note of it.
-- `side_revision` counts how often a file came later than a turn that points to it, whose words were known by then.
ALTER TABLE entries ADD COLUMN side_revision INTEGER NOT NULL DEFAULT 0;
DROP TRIGGER entry_changed;
CREATE TRIGGER entry_changed AFTER UPDATE OF id, sha256, text, side_revision ON entries BEGIN
    INSERT INTO changes (entry) VALUES (new.id);
END;

-- Without its dictionary, no warm segment can be read: each has a copy, on other pages. Its columns are in another order, by which a
-- salvage tells its records from those of the dictionaries.
CREATE TABLE dictionary_copies (id INTEGER PRIMARY KEY, seen INTEGER NOT NULL, data BLOB NOT NULL) STRICT;
INSERT INTO dictionary_copies SELECT id, seen, data FROM dictionaries;
CREATE TRIGGER dictionary_added AFTER INSERT ON dictionaries BEGIN
    INSERT OR REPLACE INTO dictionary_copies VALUES (new.id, new.seen, new.data);
END;
CREATE TRIGGER dictionary_gone AFTER DELETE ON dictionaries BEGIN DELETE FROM dictionary_copies WHERE id = old.id; END;
"];

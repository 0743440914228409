-- The archive. What each table means is as in SQLite (../../sqlite/schema.rs); what is different:
-- The tenant is the first column of every key, and so is the owner among them: a key of another's row can be neither seen nor met.
-- `owner` is session_user, which no client can choose; `audience` is who else may read a row: `team`, `project:NAME`, or nobody (NULL).
-- Ids are given by the server only: nobody has the right to write one.
-- What belongs to a session is hash-partitioned by tenant and session; entries by their content. Citus distributes all by tenant.

CREATE TABLE ctxbridge.sessions (
    tenant text NOT NULL,
    id bigint GENERATED ALWAYS AS IDENTITY,
    owner text NOT NULL DEFAULT session_user,
    audience text[],
    session text NOT NULL,
    folder text,
    project text,
    visibility text NOT NULL DEFAULT 'private' CHECK (visibility IN ('private', 'project', 'team')),
    version text,
    model text,
    context_window bigint,
    context_tokens bigint,
    first_ms bigint,
    last_ms bigint,
    ended_ms bigint,
    end_reason text,
    PRIMARY KEY (tenant, id, owner),
    UNIQUE (tenant, owner, session),
    -- Nothing is shown to others than those that it says.
    CHECK (audience IS NOT DISTINCT FROM CASE visibility
        WHEN 'team' THEN ARRAY['team']
        WHEN 'project' THEN CASE WHEN project IS NOT NULL THEN ARRAY['project:' || project] END
        END)
);
CREATE INDEX sessions_by_name ON ctxbridge.sessions (tenant, session text_pattern_ops);
CREATE INDEX sessions_by_time ON ctxbridge.sessions (tenant, last_ms);

CREATE TABLE ctxbridge.transcripts (
    tenant text NOT NULL,
    id bigint GENERATED ALWAYS AS IDENTITY,
    owner text NOT NULL DEFAULT session_user,
    audience text[],
    session bigint NOT NULL,
    path text NOT NULL,
    agent text,
    generation integer NOT NULL,
    bytes bigint NOT NULL,
    bad_lines bigint NOT NULL,
    checked bytea NOT NULL,
    interpreter text NOT NULL,
    hot_from bigint,
    PRIMARY KEY (tenant, id, owner),
    UNIQUE (tenant, owner, path),
    FOREIGN KEY (tenant, session, owner) REFERENCES ctxbridge.sessions (tenant, id, owner)
);
CREATE INDEX transcripts_by_session ON ctxbridge.transcripts (tenant, session);

-- Pieces of transcripts as zstd frames; equal ones of a session are kept once. They are compressed already.
CREATE TABLE ctxbridge.segments (
    tenant text NOT NULL,
    session bigint NOT NULL,
    owner text NOT NULL DEFAULT session_user,
    audience text[],
    sha256 bytea NOT NULL,
    bytes integer NOT NULL,
    packed integer NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (tenant, session, owner, sha256),
    FOREIGN KEY (tenant, session, owner) REFERENCES ctxbridge.sessions (tenant, id, owner)
) PARTITION BY HASH (tenant, session);

CREATE TABLE ctxbridge.layout (
    tenant text NOT NULL,
    session bigint NOT NULL,
    owner text NOT NULL DEFAULT session_user,
    audience text[],
    transcript bigint NOT NULL,
    generation integer NOT NULL,
    start bigint NOT NULL,
    bytes integer NOT NULL,
    sha256 bytea NOT NULL,
    PRIMARY KEY (tenant, session, owner, transcript, generation, start),
    FOREIGN KEY (tenant, session, owner) REFERENCES ctxbridge.sessions (tenant, id, owner)
) PARTITION BY HASH (tenant, session);
CREATE INDEX layout_by_segment ON ctxbridge.layout (tenant, session, sha256);

-- Once for each content of an owner. Others have their own: to share them would let one learn, or spoil, what another has said. `summary`
-- is that of a compaction; `content` what a turn says. An entry is seen by whoever sees a session with a turn of it.
CREATE TABLE ctxbridge.entries (
    tenant text NOT NULL,
    id bigint GENERATED ALWAYS AS IDENTITY,
    owner text NOT NULL DEFAULT session_user,
    audience text[],
    sha256 bytea NOT NULL,
    chars bigint NOT NULL,
    summary text,
    content text,
    tools text,
    files text,
    key text,
    tags text[],
    metadata jsonb,
    confidence double precision,
    access_count integer NOT NULL DEFAULT 0,
    accessed_ms bigint,
    PRIMARY KEY (tenant, owner, sha256)
) PARTITION BY HASH (tenant, sha256);
CREATE INDEX entries_by_id ON ctxbridge.entries (tenant, id);
CREATE INDEX entries_accessed ON ctxbridge.entries (tenant, owner) WHERE access_count > 0;

-- Its session is looked for by the function that writes them: no foreign key has to do it for each row.
CREATE TABLE ctxbridge.turns (
    tenant text NOT NULL,
    session bigint NOT NULL,
    id bigint GENERATED ALWAYS AS IDENTITY,
    owner text NOT NULL DEFAULT session_user,
    audience text[],
    transcript bigint NOT NULL,
    generation integer NOT NULL,
    superseded integer,
    idx integer NOT NULL,
    entry bigint NOT NULL,
    uuid bytea NOT NULL,
    start bigint NOT NULL,
    bytes bigint NOT NULL,
    started_ms bigint NOT NULL,
    took_ms bigint NOT NULL,
    richness smallint NOT NULL,
    context_tokens bigint,
    output_tokens bigint NOT NULL,
    is_answered boolean NOT NULL,
    agents text,
    open_work text,
    PRIMARY KEY (tenant, session, owner, id)
) PARTITION BY HASH (tenant, session);
CREATE UNIQUE INDEX turns_current ON ctxbridge.turns (tenant, session, owner, transcript, idx) WHERE superseded IS NULL;
CREATE INDEX turns_by_richness ON ctxbridge.turns (tenant, session, transcript, richness, started_ms) WHERE superseded IS NULL;
CREATE INDEX turns_by_entry ON ctxbridge.turns (tenant, entry);
CREATE INDEX turns_by_handle ON ctxbridge.turns (tenant, uuid);

CREATE TABLE ctxbridge.compactions (
    tenant text NOT NULL,
    session bigint NOT NULL,
    id bigint GENERATED ALWAYS AS IDENTITY,
    owner text NOT NULL DEFAULT session_user,
    audience text[],
    at_ms bigint NOT NULL,
    cause text,
    turns integer NOT NULL,
    context_tokens bigint,
    is_blocked boolean NOT NULL DEFAULT false,
    summary bigint,
    transcript bigint,
    start bigint,
    context_after bigint,
    took_ms bigint,
    messages bigint,
    first_message text,
    last_message text,
    topics text,
    words tsvector,
    PRIMARY KEY (tenant, session, owner, id),
    FOREIGN KEY (tenant, session, owner) REFERENCES ctxbridge.sessions (tenant, id, owner)
) PARTITION BY HASH (tenant, session);
CREATE INDEX compactions_by_time ON ctxbridge.compactions (tenant, session, at_ms);
CREATE INDEX compactions_by_summary ON ctxbridge.compactions (tenant, summary) WHERE summary IS NOT NULL;

CREATE TABLE ctxbridge.fixes (
    tenant text NOT NULL,
    session bigint NOT NULL,
    owner text NOT NULL DEFAULT session_user,
    audience text[],
    uuid bytea NOT NULL,
    tool text NOT NULL,
    call text NOT NULL,
    -- A call may be longer than a key.
    call_sha256 bytea NOT NULL,
    error text NOT NULL,
    changed text NOT NULL,
    failed_ms bigint NOT NULL,
    fixed_ms bigint NOT NULL,
    PRIMARY KEY (tenant, session, owner, uuid, tool, call_sha256),
    FOREIGN KEY (tenant, session, owner) REFERENCES ctxbridge.sessions (tenant, id, owner)
) PARTITION BY HASH (tenant, session);

CREATE TABLE ctxbridge.changed_files (
    tenant text NOT NULL,
    session bigint NOT NULL,
    owner text NOT NULL DEFAULT session_user,
    audience text[],
    uuid bytea NOT NULL,
    files text NOT NULL,
    PRIMARY KEY (tenant, session, owner, uuid),
    FOREIGN KEY (tenant, session, owner) REFERENCES ctxbridge.sessions (tenant, id, owner)
) PARTITION BY HASH (tenant, session);

CREATE TABLE ctxbridge.learning_progress (
    tenant text NOT NULL,
    session bigint NOT NULL,
    owner text NOT NULL DEFAULT session_user,
    audience text[],
    transcript bigint NOT NULL,
    agent text,
    generation integer NOT NULL,
    bytes bigint NOT NULL,
    patterns text NOT NULL,
    watcher text NOT NULL,
    PRIMARY KEY (tenant, session, owner, transcript),
    FOREIGN KEY (tenant, session, owner) REFERENCES ctxbridge.sessions (tenant, id, owner)
) PARTITION BY HASH (tenant, session);

-- A learning is said in any number of sessions, so these two belong to none. It is seen by whoever sees one in which it was said.
CREATE TABLE ctxbridge.learnings (
    tenant text NOT NULL,
    id bigint GENERATED ALWAYS AS IDENTITY,
    owner text NOT NULL DEFAULT session_user,
    audience text[],
    handle bytea NOT NULL,
    kind text NOT NULL,
    folder text,
    sentence text NOT NULL,
    confidence double precision NOT NULL,
    superseded_by bigint,
    words tsvector NOT NULL,
    PRIMARY KEY (tenant, owner, handle)
);
CREATE INDEX learnings_by_id ON ctxbridge.learnings (tenant, id);
CREATE TABLE ctxbridge.learned (
    tenant text NOT NULL,
    learning bigint NOT NULL,
    uuid bytea NOT NULL,
    owner text NOT NULL DEFAULT session_user,
    audience text[],
    session bigint NOT NULL,
    at_ms bigint NOT NULL,
    before text NOT NULL,
    after text NOT NULL,
    agent text,
    tools text NOT NULL,
    PRIMARY KEY (tenant, owner, learning, uuid),
    FOREIGN KEY (tenant, session, owner) REFERENCES ctxbridge.sessions (tenant, id, owner)
);
CREATE INDEX learned_by_session ON ctxbridge.learned (tenant, session, at_ms);
CREATE INDEX learned_by_time ON ctxbridge.learned (tenant, owner, learning, at_ms, uuid);

-- What is only its owner's: what he keeps, what his cycles lost, his notes, and which of his entries changed.
CREATE TABLE ctxbridge.kept (
    tenant text NOT NULL,
    owner text NOT NULL DEFAULT session_user,
    uuid bytea NOT NULL,
    is_kept boolean NOT NULL,
    at_ms bigint NOT NULL,
    PRIMARY KEY (tenant, owner, uuid)
);
CREATE TABLE ctxbridge.decays (
    tenant text NOT NULL,
    owner text NOT NULL DEFAULT session_user,
    first_entry bigint NOT NULL,
    lost double precision NOT NULL,
    PRIMARY KEY (tenant, owner, first_entry)
);
CREATE TABLE ctxbridge.notes (
    tenant text NOT NULL,
    owner text NOT NULL DEFAULT session_user,
    key text NOT NULL,
    value text NOT NULL,
    PRIMARY KEY (tenant, owner, key)
);
CREATE TABLE ctxbridge.changes (
    tenant text NOT NULL,
    id bigint GENERATED ALWAYS AS IDENTITY,
    owner text NOT NULL DEFAULT session_user,
    entries bigint[] NOT NULL,
    salt bigint NOT NULL,
    PRIMARY KEY (tenant, owner, id)
);

-- The words of each entry in each session that has it: what search goes by. Below row-level security an index of words cannot be used
-- (its operator might tell of rows that are not to be seen), so nobody has a right to this table; search.sql has the functions that do. They
-- look for the session themselves, so no foreign key has to do it for each row.
CREATE TABLE ctxbridge.texts (
    tenant text NOT NULL,
    session bigint NOT NULL,
    owner text NOT NULL,
    audience text[],
    entry bigint NOT NULL,
    started_ms bigint NOT NULL,
    -- One name a line.
    tools text,
    files text,
    words tsvector NOT NULL,
    PRIMARY KEY (tenant, session, owner, entry)
) PARTITION BY HASH (tenant, session);
CREATE INDEX texts_by_entry ON ctxbridge.texts (tenant, entry);
-- What is new waits in a list until there is much of it, or ctxbridge.settle() is called: to sort words in one by one takes five times as long.
CREATE INDEX texts_by_words ON ctxbridge.texts USING gin (words) WITH (fastupdate = on, gin_pending_list_limit = 65536);

DO $$
DECLARE
    name text;
    part integer;
BEGIN
    FOR name IN
        SELECT relname FROM pg_class WHERE relnamespace = 'ctxbridge'::regnamespace AND relkind = 'p' ORDER BY relname
    LOOP
        FOR part IN 0..7 LOOP
            EXECUTE format('CREATE TABLE ctxbridge.%I PARTITION OF ctxbridge.%I FOR VALUES WITH (MODULUS 8, REMAINDER %s)',
                name || '_' || part, name, part);
            IF name = 'segments' THEN
                EXECUTE format('ALTER TABLE ctxbridge.%I ALTER COLUMN data SET STORAGE EXTERNAL', name || '_' || part);
            END IF;
        END LOOP;
    END LOOP;
END $$;
ALTER TABLE ctxbridge.segments ALTER COLUMN data SET STORAGE EXTERNAL;

-- Nothing is looked for by these, and to count what is in them takes longer than all the rest of ANALYZE.
ALTER TABLE ctxbridge.segments ALTER COLUMN data SET STATISTICS 0;
ALTER TABLE ctxbridge.entries ALTER COLUMN content SET STATISTICS 0, ALTER COLUMN summary SET STATISTICS 0,
    ALTER COLUMN metadata SET STATISTICS 0, ALTER COLUMN tags SET STATISTICS 0, ALTER COLUMN key SET STATISTICS 0,
    ALTER COLUMN tools SET STATISTICS 0, ALTER COLUMN files SET STATISTICS 0;
ALTER TABLE ctxbridge.texts ALTER COLUMN tools SET STATISTICS 0, ALTER COLUMN files SET STATISTICS 0;

-- Long texts, with the quicker compression, where the server was built with it.
DO $$
DECLARE
    part regclass;
BEGIN
    FOR part IN SELECT relid FROM pg_partition_tree('ctxbridge.entries') LOOP
        EXECUTE format('ALTER TABLE %s ALTER COLUMN content SET COMPRESSION lz4', part);
    END LOOP;
    FOR part IN SELECT relid FROM pg_partition_tree('ctxbridge.texts') LOOP
        EXECUTE format('ALTER TABLE %s ALTER COLUMN words SET COMPRESSION lz4', part);
    END LOOP;
EXCEPTION WHEN feature_not_supported OR invalid_parameter_value THEN
    NULL;
END $$;

-- Rights and policies. Nobody has a right to a partition, so that a table's policies cannot be gone around. Whoever owns the tables is
-- below the policies, too.
DO $$
DECLARE
    name text;
    readable text;
    writable text;
    insertable text;
    updatable text;
    is_bulk boolean;
    -- What is kept once, of whatever sessions, and counted for all of them. Its audience may have one among whom its owner is no longer, and what
    -- only he goes by is written all the same; who sees it, and what it says, functions change.
    counted CONSTANT jsonb := '{
        "entries": "confidence, access_count, accessed_ms",
        "learnings": "superseded_by",
        "transcripts": "generation, bytes, bad_lines, checked, interpreter, hot_from"
    }';
BEGIN
    FOREACH name IN ARRAY ARRAY['sessions', 'transcripts', 'segments', 'layout', 'entries', 'turns', 'compactions', 'fixes',
        'changed_files', 'learning_progress', 'learnings', 'learned', 'kept', 'decays', 'notes', 'changes']
    LOOP
        EXECUTE format('ALTER TABLE ctxbridge.%I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', name);
        IF EXISTS (SELECT FROM pg_attribute WHERE attrelid = format('ctxbridge.%I', name)::regclass AND attname = 'audience') THEN
            readable := 'owner = session_user::text OR (audience IS NOT NULL AND ctxbridge.may_read(tenant, audience))';
            writable := 'owner = session_user::text AND ctxbridge.may_write(tenant, audience)';
        ELSE
            readable := 'owner = session_user::text';
            writable := 'owner = session_user::text AND ctxbridge.may_write(tenant, NULL)';
        END IF;
        -- Functions that ask once for many rows add these, and nobody else.
        is_bulk := name IN ('entries', 'turns');
        EXECUTE format('CREATE POLICY reads ON ctxbridge.%I FOR SELECT USING (%s)', name, readable);
        EXECUTE format('CREATE POLICY adds ON ctxbridge.%I FOR INSERT WITH CHECK (%s)', name,
            CASE WHEN is_bulk THEN 'owner = session_user::text' ELSE writable END);
        EXECUTE format('CREATE POLICY changes ON ctxbridge.%I FOR UPDATE USING (owner = session_user::text) WITH CHECK (%s)', name,
            CASE WHEN counted ? name THEN 'owner = session_user::text AND ctxbridge.may_write(tenant, NULL)' ELSE writable END);
        EXECUTE format('CREATE POLICY removes ON ctxbridge.%I FOR DELETE USING (owner = session_user::text)', name);
        -- The owner is who writes, an id is the server's to give, and neither they nor the rest of a key is changed.
        SELECT string_agg(quote_ident(attname), ', '),
            coalesce(counted ->> name, string_agg(quote_ident(attname), ', ') FILTER (WHERE attname NOT IN ('tenant', 'session', 'sha256')))
            INTO insertable, updatable
            FROM pg_attribute
            WHERE attrelid = format('ctxbridge.%I', name)::regclass AND attnum > 0 AND NOT attisdropped AND attname NOT IN ('id', 'owner');
        EXECUTE format('GRANT SELECT, DELETE, UPDATE (%s) ON ctxbridge.%I TO PUBLIC', updatable, name);
        IF NOT is_bulk THEN
            EXECUTE format('GRANT INSERT (%s) ON ctxbridge.%I TO PUBLIC', insertable, name);
        END IF;
    END LOOP;
END $$;

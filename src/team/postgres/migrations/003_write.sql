-- What is written by the thousand. A policy asks for each row whether its writer may do that, and a foreign key whether its session is there;
-- these functions ask once for all rows, so nobody has the right to write such rows in another way.

-- The audience of a session of one's own, that nobody takes away meanwhile.
CREATE FUNCTION ctxbridge.audience_of_own(tenant text, session bigint) RETURNS text[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    me text := session_user;
    of_session text[];
BEGIN
    SELECT s.audience INTO of_session FROM ctxbridge.sessions s WHERE s.tenant = $1 AND s.id = $2 AND s.owner = me FOR KEY SHARE;
    -- The same for a session of another and for one that is not there.
    IF NOT FOUND THEN
        RAISE EXCEPTION '% has no such session in the tenant %', me, $1 USING ERRCODE = 'foreign_key_violation';
    END IF;
    IF NOT ctxbridge.may_write($1, of_session) THEN
        RAISE EXCEPTION '% may not write in the tenant % for those who read this session', me, $1 USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN of_session;
END $$;

-- Adds entries to a session of one's own, each content once; says which are new. `tags` have one name between each two \x1f.
CREATE FUNCTION ctxbridge.add_entries(
    tenant text, session bigint, sha256 bytea[], chars bigint[], content text[], tools text[], files text[], key text[], tags text[],
    metadata text[]
) RETURNS TABLE (new_id bigint, new_sha256 bytea)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    of_session text[] := ctxbridge.audience_of_own($1, $2);
BEGIN
    RETURN QUERY
        INSERT INTO ctxbridge.entries (tenant, audience, sha256, chars, content, tools, files, key, tags, metadata)
            SELECT $1, of_session, e.sha256, e.chars, e.content, e.tools, e.files, e.key, string_to_array(e.tags, E'\x1f'), e.metadata::jsonb
            FROM unnest($3, $4, $5, $6, $7, $8, $9, $10) AS e (sha256, chars, content, tools, files, key, tags, metadata)
            ON CONFLICT ON CONSTRAINT entries_pkey DO NOTHING RETURNING id, sha256;
END $$;

-- The same for the summary of a compaction; nothing where it is known.
CREATE FUNCTION ctxbridge.add_summary(
    tenant text, session bigint, sha256 bytea, chars bigint, summary text, confidence double precision
) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    of_session text[] := ctxbridge.audience_of_own($1, $2);
    new_id bigint;
BEGIN
    INSERT INTO ctxbridge.entries (tenant, audience, sha256, chars, summary, confidence) VALUES ($1, of_session, $3, $4, $5, $6)
        ON CONFLICT ON CONSTRAINT entries_pkey DO NOTHING RETURNING id INTO new_id;
    RETURN new_id;
END $$;

-- Adds turns to a transcript of a session of one's own; says which. A distributed server passes on as it is what returns rows, and turns all else
-- into COPY, which row-level security refuses.
CREATE FUNCTION ctxbridge.add_turns(
    tenant text, session bigint, transcript bigint, generation integer, idx integer[], entry bigint[], uuid bytea[], start bigint[],
    bytes bigint[], started_ms bigint[], took_ms bigint[], richness smallint[], context_tokens bigint[], output_tokens bigint[],
    is_answered boolean[], agents text[], open_work text[]
) RETURNS SETOF integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    of_session text[] := ctxbridge.audience_of_own($1, $2);
BEGIN
    RETURN QUERY INSERT INTO ctxbridge.turns (tenant, session, audience, transcript, generation, idx, entry, uuid, start, bytes, started_ms, took_ms,
            richness, context_tokens, output_tokens, is_answered, agents, open_work)
        SELECT $1, $2, of_session, $3, $4, t.idx, t.entry, t.uuid, t.start, t.bytes, t.started_ms, t.took_ms, t.richness, t.context_tokens,
            t.output_tokens, t.is_answered, t.agents, t.open_work
        FROM unnest($5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17) AS t (idx, entry, uuid, start, bytes, started_ms, took_ms,
            richness, context_tokens, output_tokens, is_answered, agents, open_work)
        RETURNING idx;
END $$;

-- Gives an entry of one's own, that had a content, another one.
CREATE FUNCTION ctxbridge.grow_entry(
    tenant text, entry bigint, old_sha256 bytea, sha256 bytea, chars bigint, content text, tools text, files text, key text, tags text,
    metadata text
) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    me text := session_user;
    of_entry text[];
BEGIN
    SELECT e.audience INTO of_entry FROM ctxbridge.entries e
        WHERE e.tenant = $1 AND e.id = $2 AND e.owner = me AND e.sha256 = $3 FOR UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF NOT ctxbridge.may_write($1, of_entry) THEN
        RAISE EXCEPTION '% may not write in the tenant % for those who read this entry', me, $1 USING ERRCODE = 'insufficient_privilege';
    END IF;
    UPDATE ctxbridge.entries e SET sha256 = $4, chars = $5, content = $6, tools = $7, files = $8, key = $9,
            tags = string_to_array($10, E'\x1f'), metadata = $11::jsonb
        WHERE e.tenant = $1 AND e.id = $2 AND e.owner = me AND e.sha256 = $3;
END $$;

-- Has entries of one's own that were described as those of a session be described as those of another one that has them.
CREATE FUNCTION ctxbridge.rename_entries(tenant text, session text, entries bigint[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    me text := session_user;
    other text;
    as_json jsonb;
    of_other bigint[];
BEGIN
    FOR other, of_other IN
        SELECT o.session, array_agg(o.entry) FROM (
            SELECT u.entry, min(s.session) AS session FROM ctxbridge.turns u
            JOIN ctxbridge.sessions s ON s.tenant = u.tenant AND s.id = u.session AND s.owner = u.owner
            WHERE u.tenant = $1 AND u.owner = me AND u.entry = ANY ($3) GROUP BY u.entry) AS o
        GROUP BY o.session
    LOOP
        as_json := to_jsonb(other);
        UPDATE ctxbridge.entries e SET key = replace(e.key, $2, other), tags = array_replace(e.tags, $2, other),
                metadata = jsonb_set(e.metadata, '{sessionId}', as_json)
            WHERE e.tenant = $1 AND e.owner = me AND e.id = ANY (of_other) AND e.tags @> ARRAY[$2];
    END LOOP;
END $$;

-- Shows entries of one's own to those who may read a session of one's own that has them, too.
CREATE FUNCTION ctxbridge.show_entries(tenant text, session bigint, entries bigint[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    me text := session_user;
    of_session text[] := ctxbridge.audience_of_own($1, $2);
BEGIN
    IF of_session IS NULL THEN
        RETURN;
    END IF;
    UPDATE ctxbridge.entries e SET audience = coalesce(e.audience, '{}') || ARRAY(
            SELECT a.name FROM unnest(of_session) AS a (name) WHERE a.name <> ALL (coalesce(e.audience, '{}')))
        WHERE e.tenant = $1 AND e.owner = me AND e.id = ANY ($3) AND NOT coalesce(e.audience, '{}') @> of_session;
    IF FOUND THEN
        PERFORM ctxbridge.share_vectors($1, $3);
    END IF;
END $$;

-- The same for what was learned.
CREATE FUNCTION ctxbridge.show_learnings(tenant text, session bigint, handles bytea[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    me text := session_user;
    of_session text[] := ctxbridge.audience_of_own($1, $2);
BEGIN
    IF of_session IS NULL THEN
        RETURN;
    END IF;
    UPDATE ctxbridge.learnings l SET audience = coalesce(l.audience, '{}') || of_session
        WHERE l.tenant = $1 AND l.owner = me AND l.handle = ANY ($3) AND NOT coalesce(l.audience, '{}') @> of_session;
END $$;

-- Shows the transcripts of a session of one's own to those who may read it, and its entries and learnings to those who may read one of the
-- sessions that have them; and to nobody else. Who may read a session was decided when that was said of it.
CREATE FUNCTION ctxbridge.share_entries(tenant text, session bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    me text := session_user;
    -- Entry by entry, by an index: of what was just written the server has no statistics, and would compare all with all.
    entries bigint[] := ARRAY(
        SELECT u.entry FROM ctxbridge.turns u WHERE u.tenant = $1 AND u.session = $2 AND u.owner = me
        UNION SELECT c.summary FROM ctxbridge.compactions c
            WHERE c.tenant = $1 AND c.session = $2 AND c.owner = me AND c.summary IS NOT NULL);
    learnings bigint[] := ARRAY(
        SELECT DISTINCT d.learning FROM ctxbridge.learned d WHERE d.tenant = $1 AND d.session = $2 AND d.owner = me);
BEGIN
    UPDATE ctxbridge.transcripts t SET audience = s.audience FROM ctxbridge.sessions s
        WHERE s.tenant = $1 AND s.id = $2 AND s.owner = me AND t.tenant = $1 AND t.session = $2 AND t.owner = me
            AND t.audience IS DISTINCT FROM s.audience;
    WITH of_all AS MATERIALIZED (
        SELECT i.entry, (SELECT array_agg(DISTINCT a.name) FROM (
                SELECT u.audience FROM ctxbridge.turns u WHERE u.tenant = $1 AND u.entry = i.entry AND u.owner = me
                UNION ALL SELECT c.audience FROM ctxbridge.compactions c WHERE c.tenant = $1 AND c.summary = i.entry AND c.owner = me
            ) AS place, unnest(place.audience) AS a (name)) AS audience
        FROM unnest(entries) AS i (entry)
    )
    UPDATE ctxbridge.entries e SET audience = of_all.audience FROM of_all
        WHERE e.tenant = $1 AND e.owner = me AND e.id = of_all.entry AND e.audience IS DISTINCT FROM of_all.audience;
    PERFORM ctxbridge.share_vectors($1, entries);
    WITH of_all AS MATERIALIZED (
        SELECT i.learning, (SELECT array_agg(DISTINCT a.name)
            FROM ctxbridge.learned d, unnest(d.audience) AS a (name)
            WHERE d.tenant = $1 AND d.owner = me AND d.learning = i.learning) AS audience
        FROM unnest(learnings) AS i (learning)
    )
    UPDATE ctxbridge.learnings l SET audience = of_all.audience FROM of_all
        WHERE l.tenant = $1 AND l.owner = me AND l.id = of_all.learning AND l.audience IS DISTINCT FROM of_all.audience;
END $$;

REVOKE ALL ON FUNCTION ctxbridge.audience_of_own(text, bigint) FROM PUBLIC;

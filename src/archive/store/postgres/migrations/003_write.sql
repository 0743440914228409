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

-- Adds turns to a transcript of a session of one's own.
CREATE FUNCTION ctxbridge.add_turns(
    tenant text, session bigint, transcript bigint, generation integer, idx integer[], entry bigint[], uuid bytea[], start bigint[],
    bytes bigint[], started_ms bigint[], took_ms bigint[], richness smallint[], context_tokens bigint[], output_tokens bigint[],
    is_answered boolean[], agents text[], open_work text[]
) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    of_session text[] := ctxbridge.audience_of_own($1, $2);
BEGIN
    INSERT INTO ctxbridge.turns (tenant, session, audience, transcript, generation, idx, entry, uuid, start, bytes, started_ms, took_ms,
            richness, context_tokens, output_tokens, is_answered, agents, open_work)
        SELECT $1, $2, of_session, $3, $4, t.idx, t.entry, t.uuid, t.start, t.bytes, t.started_ms, t.took_ms, t.richness, t.context_tokens,
            t.output_tokens, t.is_answered, t.agents, t.open_work
        FROM unnest($5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17) AS t (idx, entry, uuid, start, bytes, started_ms, took_ms,
            richness, context_tokens, output_tokens, is_answered, agents, open_work);
END $$;

REVOKE ALL ON FUNCTION ctxbridge.audience_of_own(text, bigint) FROM PUBLIC;

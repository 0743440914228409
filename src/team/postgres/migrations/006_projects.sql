-- Projects that moved, and folders that are named as they are: which ones belong to a project, the client says, since SQL knows nothing of
-- letters that are composed, of drives, or of file systems that ignore case. On a Citus server, distribute() has to be called again.

-- The folder that the client wrote, where the project of a session was moved; `folder` is where it is now.
ALTER TABLE ctxbridge.sessions ADD COLUMN moved_from text;
GRANT UPDATE (moved_from) ON ctxbridge.sessions TO PUBLIC;

-- As before; `in_folder` has the folders of sessions that are let through, as a JSON array, and `below_folder` means nothing any more.
CREATE OR REPLACE FUNCTION ctxbridge.find_words(
    tenant text, query tsquery, most integer,
    of_session text DEFAULT NULL, below_folder text DEFAULT NULL, in_folder text DEFAULT NULL,
    since_ms bigint DEFAULT NULL, until_ms bigint DEFAULT NULL, with_tool text DEFAULT NULL, with_file text DEFAULT NULL,
    terms tsquery[] DEFAULT NULL
) RETURNS TABLE (entry bigint, score real)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    me text := session_user;
    mine text[] := ctxbridge.audiences_of($1, session_user::text);
    of_rank CONSTANT integer := 400;
    weights double precision[];
    levels tsquery[];
BEGIN
    -- The rarest first.
    WITH common AS MATERIALIZED (
        SELECT c.word, max(c.share) AS share
        FROM pg_stats s, unnest(s.most_common_elems::text::text[], s.most_common_elem_freqs) AS c (word, share)
        WHERE s.schemaname = 'ctxbridge' AND s.tablename = 'texts' AND s.attname = 'words' AND s.inherited AND c.word IS NOT NULL
        GROUP BY c.word
    ), asked AS (
        -- Of words that are asked for together, the rarest says how rare that is.
        SELECT u.term, u.place, coalesce((
            SELECT min(coalesce(c.share, 0.0001)) FROM regexp_matches(u.term::text, '''((?:[^'']|'''')+)''', 'g') AS w (word)
            LEFT JOIN common c ON c.word = w.word[1]
        ), 0.0001) AS share
        FROM unnest(coalesce(terms, ARRAY[query])) WITH ORDINALITY AS u (term, place)
    )
    SELECT array_agg(a.term ORDER BY a.share, a.place), array_agg(1.0::double precision ORDER BY a.share, a.place)
    INTO terms, weights FROM asked a;
    levels := ARRAY(
        SELECT (SELECT string_agg('(' || u.term::text || ')', ' & ') FROM unnest(terms[:n]) AS u (term))::tsquery
        FROM generate_series(least(cardinality(terms), 12), 1, -1) AS n)
        -- What has none of the rarest.
        || terms[2:12];
    RETURN QUERY
        WITH candidates AS MATERIALIZED (
            SELECT c.* FROM unnest(levels) AS l (query) CROSS JOIN LATERAL (
                SELECT t.entry, t.owner, t.session, t.words FROM ctxbridge.texts t
                WHERE t.tenant = $1 AND t.words @@ l.query AND (t.owner = me OR t.audience && mine)
                    AND (since_ms IS NULL OR t.started_ms >= since_ms) AND (until_ms IS NULL OR t.started_ms < until_ms)
                    AND (with_tool IS NULL OR strpos(lower(E'\n' || t.tools || E'\n'), lower(E'\n' || with_tool || E'\n')) > 0)
                    AND (with_file IS NULL OR strpos(lower(t.files), lower(with_file)) > 0)
                    AND (of_session IS NULL AND in_folder IS NULL OR EXISTS (
                        SELECT FROM ctxbridge.sessions s WHERE s.tenant = $1 AND s.id = t.session AND s.owner = t.owner
                        AND (of_session IS NULL OR starts_with(s.session, of_session))
                        AND (in_folder IS NULL OR jsonb_exists(in_folder::jsonb, s.folder))))
                LIMIT of_rank) AS c
            LIMIT 2 * of_rank
        ), ranked AS (
            SELECT c.entry, c.owner, max(
                (SELECT sum(u.weight) FILTER (WHERE c.words @@ u.term) / nullif(sum(u.weight), 0) FROM unnest(terms, weights) AS u (term, weight))
                + ts_rank_cd('{0.1, 0.4, 0.8, 1.0}', c.words, find_words.query, 1 | 32))::real AS score
            FROM (SELECT DISTINCT ON (d.session, d.entry, d.owner) d.* FROM candidates d) AS c
            GROUP BY c.entry, c.owner
        )
        SELECT r.entry, r.score FROM ranked r
        WHERE EXISTS (SELECT FROM ctxbridge.entries e WHERE e.tenant = $1 AND e.id = r.entry AND e.owner = r.owner
            AND (e.owner = me OR e.audience && mine))
        ORDER BY r.score DESC, r.entry DESC LIMIT most;
END $$;

-- The same.
CREATE OR REPLACE FUNCTION ctxbridge.find_near(
    tenant text, model text, vector text, most integer,
    of_session text DEFAULT NULL, below_folder text DEFAULT NULL, in_folder text DEFAULT NULL,
    since_ms bigint DEFAULT NULL, until_ms bigint DEFAULT NULL, with_tool text DEFAULT NULL, with_file text DEFAULT NULL
) RETURNS TABLE (entry bigint, score real)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    me text := session_user;
    mine text[] := ctxbridge.audiences_of($1, session_user::text);
    place text := ctxbridge.vector_schema();
    dimensions integer := array_length(string_to_array($3, ','), 1);
    is_filtered boolean := num_nonnulls(of_session, in_folder, since_ms, until_ms, with_tool, with_file) > 0;
BEGIN
    -- Goes on where a filter leaves too few; for this transaction only. Each of the eight partitions is searched, so each need not look far.
    PERFORM set_config('hnsw.iterative_scan', 'relaxed_order', true), set_config('hnsw.ef_search', '32', true),
        set_config('hnsw.max_scan_tuples', '20000', true);
    RETURN QUERY EXECUTE format('
        WITH nearest AS MATERIALIZED (
            SELECT v.entry, v.owner, 1 - (v.embedding OPERATOR(%1$I.<=>) $3::%1$I.vector) AS score FROM ctxbridge.%2$I v
            WHERE v.tenant = $1 AND v.model = $2 AND (v.owner = $4 OR v.audience && $5) %3$s
            ORDER BY v.embedding OPERATOR(%1$I.<=>) $3::%1$I.vector LIMIT $6
        )
        SELECT n.entry, max(n.score)::real AS score FROM nearest n
        WHERE EXISTS (SELECT FROM ctxbridge.entries e WHERE e.tenant = $1 AND e.id = n.entry AND e.owner = n.owner
            AND (e.owner = $4 OR e.audience && $5))
        GROUP BY n.entry ORDER BY score DESC, n.entry DESC LIMIT $7',
        place, CASE dimensions WHEN 768 THEN 'embeddings_768' ELSE 'embeddings' END,
        CASE WHEN is_filtered THEN '
            AND EXISTS (SELECT FROM ctxbridge.texts t JOIN ctxbridge.sessions s ON s.tenant = $1 AND s.id = t.session AND s.owner = t.owner
                WHERE t.tenant = $1 AND t.entry = v.entry AND t.owner = v.owner AND (t.owner = $4 OR t.audience && $5)
                AND ($10 IS NULL OR t.started_ms >= $10) AND ($11 IS NULL OR t.started_ms < $11)
                AND ($12 IS NULL OR strpos(lower(E''\n'' || t.tools || E''\n''), lower(E''\n'' || $12 || E''\n'')) > 0)
                AND ($13 IS NULL OR strpos(lower(t.files), lower($13)) > 0)
                AND ($8 IS NULL OR starts_with(s.session, $8))
                AND ($9 IS NULL OR jsonb_exists($9::jsonb, s.folder)))'
        ELSE '' END)
        USING $1, $2, $3, me, mine, most * 2, most, of_session, in_folder, since_ms, until_ms, with_tool, with_file;
END $$;

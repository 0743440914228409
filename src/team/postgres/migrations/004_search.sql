-- Search. These functions read and write, as the owner of the tables, what nobody else has a right to: so each says itself whose rows
-- it means. `me` is a variable, since a distributed server would ask each of its nodes who session_user is.

-- The audiences that somebody is one of; nothing for who is no member.
CREATE FUNCTION ctxbridge.audiences_of(tenant text, member text) RETURNS text[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM ctxbridge.members m WHERE m.tenant = $1 AND m.member = $2) THEN
        RETURN NULL;
    END IF;
    RETURN ARRAY['team'] || ARRAY(
        SELECT 'project:' || p.project FROM ctxbridge.project_members p WHERE p.tenant = $1 AND p.member = $2);
END $$;

-- Keeps the words of entries in a session of one's own. `tools` and `files` have one name a line.
CREATE FUNCTION ctxbridge.put_texts(
    tenant text, session bigint, entries bigint[], started bigint[], tools text[], files text[], words tsvector[]
) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    me text := session_user;
    of_session text[];
BEGIN
    IF NOT ctxbridge.may_write($1, NULL) THEN
        RAISE EXCEPTION '% is no member of the tenant %', me, $1 USING ERRCODE = 'insufficient_privilege';
    END IF;
    SELECT s.audience INTO of_session FROM ctxbridge.sessions s WHERE s.tenant = $1 AND s.id = $2 AND s.owner = me;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    INSERT INTO ctxbridge.texts (tenant, session, owner, audience, entry, started_ms, tools, files, words)
        SELECT $1, $2, me, of_session, t.entry, t.started, t.tools, t.files, t.words
        FROM unnest($3, $4, $5, $6, $7) AS t(entry, started, tools, files, words)
        ON CONFLICT ON CONSTRAINT texts_pkey DO UPDATE SET
            started_ms = excluded.started_ms, tools = excluded.tools, files = excluded.files, words = excluded.words;
END $$;

-- Sorts words in that wait for it: searches look through those one by one. And counts them where they have grown by half since they were
-- counted last: of a table with partitions a server counts each, and never the whole on its own.
CREATE FUNCTION ctxbridge.settle() RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET maintenance_work_mem = '128MB' AS $$
BEGIN
    PERFORM gin_clean_pending_list(i.inhrelid) FROM pg_inherits i WHERE i.inhparent = 'ctxbridge.texts_by_words'::regclass;
    IF NOT pg_try_advisory_xact_lock(hashtextextended('ctxbridge statistics', 0)) THEN
        RETURN;
    END IF;
    IF (SELECT sum(pg_stat_get_live_tuples(t.relid)) FROM pg_partition_tree('ctxbridge.texts') t WHERE t.isleaf)
            > 200 + 1.5 * (SELECT greatest(c.reltuples, 0) FROM pg_class c WHERE c.oid = 'ctxbridge.texts'::regclass) THEN
        ANALYZE ctxbridge.texts;
    END IF;
END $$;

-- Forgets the words of entries that a session of one's own no longer has; of all of them, where none are named.
CREATE FUNCTION ctxbridge.forget_texts(tenant text, session bigint, entries bigint[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    me text := session_user;
BEGIN
    DELETE FROM ctxbridge.texts t WHERE t.tenant = $1 AND t.session = $2 AND t.owner = me AND ($3 IS NULL OR t.entry = ANY ($3)) AND NOT EXISTS (
        SELECT FROM ctxbridge.turns u WHERE u.tenant = $1 AND u.session = $2 AND u.owner = me AND u.entry = t.entry);
END $$;

-- Makes the words of a session of one's own known to those who may read it.
CREATE FUNCTION ctxbridge.share_texts(tenant text, session bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    me text := session_user;
    of_session text[];
BEGIN
    SELECT s.audience INTO of_session FROM ctxbridge.sessions s WHERE s.tenant = $1 AND s.id = $2 AND s.owner = me;
    IF FOUND THEN
        UPDATE ctxbridge.texts t SET audience = of_session
            WHERE t.tenant = $1 AND t.session = $2 AND t.owner = me AND t.audience IS DISTINCT FROM of_session;
    END IF;
END $$;

-- The entries that have most of what is asked for: a row for each that may be read, the best first. `terms` are the alternatives that `query`
-- is made of.
--
-- To rank a row costs a hundred times as much as to learn that it has a word, so only some are ranked: first those that have all terms, then those
-- that lack the most common one, and so on to the rarest alone, until there are enough. How common a term is, the server knows from its statistics;
-- what is not among the most common ones there is rare. The score is the share of the terms that a row has, all of which count alike (how rare a term
-- is among all rows would tell what is in those of others), and what the server's own ranking says of where they stand.
CREATE FUNCTION ctxbridge.find_words(
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
                    AND (of_session IS NULL AND below_folder IS NULL AND in_folder IS NULL OR EXISTS (
                        SELECT FROM ctxbridge.sessions s WHERE s.tenant = $1 AND s.id = t.session AND s.owner = t.owner
                        AND (of_session IS NULL OR starts_with(s.session, of_session))
                        AND (below_folder IS NULL OR starts_with(rtrim(replace(s.folder, '\', '/'), '/') || '/', below_folder))
                        AND (in_folder IS NULL
                            OR strpos('/' || lower(btrim(replace(s.folder, '\', '/'), '/')) || '/', in_folder) > 0)))
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

-- The schema of the extension `vector`; nothing where it is not.
CREATE FUNCTION ctxbridge.vector_schema() RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT n.nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'vector'
$$;

-- The tables of vectors that there are.
CREATE FUNCTION ctxbridge.vector_tables() RETURNS SETOF text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT relname FROM pg_class WHERE oid IN (to_regclass('ctxbridge.embeddings'), to_regclass('ctxbridge.embeddings_768'))
$$;

-- Vectors, where the extension `vector` is: its tables and functions are made by whoever connects first when it is there, since it may come
-- later. Says whether there are some.
CREATE FUNCTION ctxbridge.ensure_vectors() RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF to_regclass('ctxbridge.embeddings') IS NOT NULL THEN
        RETURN true;
    END IF;
    -- Where all else is spread over nodes, distribute() makes them.
    IF to_regclass('pg_dist_partition') IS NOT NULL THEN
        IF EXISTS (SELECT FROM pg_dist_partition d WHERE d.logicalrelid = 'ctxbridge.sessions'::regclass) THEN
            RETURN false;
        END IF;
    END IF;
    RETURN ctxbridge.make_vectors();
END $$;

CREATE FUNCTION ctxbridge.make_vectors() RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    place text := ctxbridge.vector_schema();
    name text;
    dimensions integer;
    part integer;
BEGIN
    IF place IS NULL THEN
        RETURN false;
    END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended('ctxbridge vectors', 0));
    -- Another one may have been first, which is not to be learned by the name.
    IF EXISTS (SELECT FROM pg_class WHERE relnamespace = 'ctxbridge'::regnamespace AND relname = 'embeddings') THEN
        RETURN true;
    END IF;
    FOR name, dimensions IN VALUES ('embeddings', 384), ('embeddings_768', 768) LOOP
        EXECUTE format('CREATE TABLE ctxbridge.%I (
            tenant text NOT NULL,
            entry bigint NOT NULL,
            owner text NOT NULL,
            audience text[],
            passage smallint NOT NULL,
            model text NOT NULL,
            embedding %I.vector(%s) NOT NULL,
            PRIMARY KEY (tenant, entry, owner, model, passage)
        ) PARTITION BY HASH (tenant, entry)', name, place, dimensions);
        EXECUTE format('CREATE INDEX ON ctxbridge.%I USING hnsw (embedding %I.vector_cosine_ops)', name, place);
        FOR part IN 0..7 LOOP
            EXECUTE format('CREATE TABLE ctxbridge.%I PARTITION OF ctxbridge.%I FOR VALUES WITH (MODULUS 8, REMAINDER %s)',
                name || '_' || part, name, part);
        END LOOP;
    END LOOP;
    PERFORM ctxbridge.close_tables();
    RETURN true;
END $$;

-- Keeps vectors (as pgvector writes them, `[1,2,…]`) of entries of one's own, instead of those that the entries had of that model.
CREATE FUNCTION ctxbridge.put_vectors(tenant text, model text, entries bigint[], passages smallint[], vectors text[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    me text := session_user;
    place text := ctxbridge.vector_schema();
    name text;
    dimensions integer := array_length(string_to_array(vectors[1], ','), 1);
BEGIN
    IF NOT ctxbridge.may_write($1, NULL) THEN
        RAISE EXCEPTION '% is no member of the tenant %', me, $1 USING ERRCODE = 'insufficient_privilege';
    END IF;
    name := CASE dimensions WHEN 384 THEN 'embeddings' WHEN 768 THEN 'embeddings_768' END;
    IF name IS NULL THEN
        RAISE EXCEPTION 'a vector has 384 or 768 dimensions, not %', dimensions USING ERRCODE = 'data_exception';
    END IF;
    -- Nobody changes meanwhile who may read the entries: `archive share` holds this lock alone.
    PERFORM pg_advisory_xact_lock_shared(hashtextextended('ctxbridge cycle ' || $1 || ' ' || me, 0));
    EXECUTE format('DELETE FROM ctxbridge.%I v WHERE v.tenant = $1 AND v.owner = $2 AND v.model = $3 AND v.entry = ANY ($4)', name)
        USING $1, me, $2, $3;
    EXECUTE format('INSERT INTO ctxbridge.%I (tenant, entry, owner, audience, passage, model, embedding)
        SELECT $1, e.id, $2, e.audience, v.passage, $3, v.vector::%I.vector
        FROM unnest($4, $5, $6) AS v(entry, passage, vector)
        JOIN ctxbridge.entries e ON e.tenant = $1 AND e.id = v.entry AND e.owner = $2
        ON CONFLICT DO NOTHING', name, place)
        USING $1, me, $2, $3, $4, $5;
END $$;

-- Forgets the vectors of entries of one's own whose content has changed.
CREATE FUNCTION ctxbridge.forget_vectors(tenant text, entries bigint[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    me text := session_user;
    name text;
BEGIN
    FOR name IN SELECT ctxbridge.vector_tables() LOOP
        EXECUTE format('DELETE FROM ctxbridge.%I v WHERE v.tenant = $1 AND v.owner = $2 AND v.entry = ANY ($3)', name) USING $1, me, $2;
    END LOOP;
END $$;

-- Makes the vectors of entries of one's own known to those who may read the entries.
CREATE FUNCTION ctxbridge.share_vectors(tenant text, entries bigint[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    me text := session_user;
    name text;
BEGIN
    FOR name IN SELECT ctxbridge.vector_tables() LOOP
        EXECUTE format('UPDATE ctxbridge.%I v SET audience = e.audience FROM ctxbridge.entries e
            WHERE v.tenant = $1 AND v.owner = $2 AND v.entry = ANY ($3) AND e.tenant = $1 AND e.owner = $2 AND e.id = v.entry
            AND v.audience IS DISTINCT FROM e.audience', name) USING $1, me, $2;
    END LOOP;
END $$;

-- Those of one's own entries below an id that have no vectors of a model, the newest first, each with its hash.
CREATE FUNCTION ctxbridge.without_vectors(tenant text, model text, dimensions integer, below bigint, most integer)
RETURNS TABLE (entry bigint, sha256 bytea)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    me text := session_user;
BEGIN
    RETURN QUERY EXECUTE format('SELECT e.id, e.sha256 FROM ctxbridge.entries e
        WHERE e.tenant = $1 AND e.owner = $2 AND e.id < $4 AND NOT EXISTS (
            SELECT FROM ctxbridge.%I v WHERE v.tenant = $1 AND v.entry = e.id AND v.owner = $2 AND v.model = $3)
        ORDER BY e.id DESC LIMIT $5', CASE dimensions WHEN 768 THEN 'embeddings_768' ELSE 'embeddings' END)
        USING $1, me, $2, $4, $5;
END $$;

-- The entries nearest to a vector (as pgvector writes it) of a model: each by its best passage, 1 for the same and 0 for the unrelated.
CREATE FUNCTION ctxbridge.find_near(
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
    is_filtered boolean := num_nonnulls(of_session, below_folder, in_folder, since_ms, until_ms, with_tool, with_file) > 0;
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
                AND ($9 IS NULL OR starts_with(rtrim(replace(s.folder, ''\'', ''/''), ''/'') || ''/'', $9))
                AND ($14 IS NULL OR strpos(''/'' || lower(btrim(replace(s.folder, ''\'', ''/''), ''/'')) || ''/'', $14) > 0))'
        ELSE '' END)
        USING $1, $2, $3, me, mine, most * 2, most, of_session, below_folder, since_ms, until_ms, with_tool, with_file, in_folder;
END $$;

-- Spreads the tables over the nodes of a Citus server, all that is of one tenant on one of them, and sends what functions do there as a whole:
-- on the node, they read and write as here, with session_user who called them. For whoever owns the tables, best before anything is in them; again
-- where pgvector came later, or shards were moved. A procedure, since what is said to the shards waits for the transaction that made them.
CREATE PROCEDURE ctxbridge.distribute()
LANGUAGE plpgsql AS $$
DECLARE
    -- They ask for members and projects alone, which every node has.
    of_members CONSTANT text[] := ARRAY['enter', 'enter_project', 'add_member', 'remove_member', 'add_to_project', 'remove_from_project',
        'leave_empty_project', 'list_members', 'may_read', 'may_write'];
    target regclass;
    callable regprocedure;
    command text;
    refused text;
BEGIN
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_extension e WHERE e.extname = 'citus') THEN
        RAISE EXCEPTION 'this server has no Citus, and nothing to distribute to' USING ERRCODE = 'feature_not_supported';
    END IF;
    PERFORM pg_catalog.set_config('client_min_messages', 'warning', true);
    -- A table and those that refer to it are changed over one connection to each node.
    PERFORM pg_catalog.set_config('citus.multi_shard_modify_mode', 'sequential', true);
    PERFORM ctxbridge.make_vectors();
    -- Policies ask these on every node.
    ALTER FUNCTION ctxbridge.may_read(text, text[]) SET citus.allow_nested_distributed_execution = on;
    ALTER FUNCTION ctxbridge.may_write(text, text[]) SET citus.allow_nested_distributed_execution = on;
    FOR target IN
        SELECT c.oid::regclass FROM pg_catalog.pg_class c WHERE c.relnamespace = 'ctxbridge'::regnamespace AND c.relkind IN ('r', 'p')
        AND NOT c.relispartition AND c.relname <> 'migrations'
        AND NOT EXISTS (SELECT FROM pg_catalog.pg_dist_partition d WHERE d.logicalrelid = c.oid)
        ORDER BY c.relname NOT LIKE '%members', c.relname <> 'sessions', c.relname
    LOOP
        IF target::text LIKE '%members' THEN
            PERFORM pg_catalog.create_reference_table(target);
            CONTINUE;
        END IF;
        -- What is in a table is copied by its owner, who has to see all of it meanwhile.
        EXECUTE pg_catalog.format('ALTER TABLE %s NO FORCE ROW LEVEL SECURITY', target);
        PERFORM pg_catalog.create_distributed_table(target, 'tenant', colocate_with =>
            CASE target WHEN 'ctxbridge.sessions'::regclass THEN 'none' ELSE 'ctxbridge.sessions' END);
    END LOOP;
    FOR target IN SELECT DISTINCT p.polrelid FROM pg_catalog.pg_policy p JOIN pg_catalog.pg_class c ON c.oid = p.polrelid
        WHERE c.relnamespace = 'ctxbridge'::regnamespace AND NOT c.relforcerowsecurity
    LOOP
        EXECUTE pg_catalog.format('ALTER TABLE %s FORCE ROW LEVEL SECURITY', target);
    END LOOP;
    FOR callable IN
        SELECT p.oid FROM pg_catalog.pg_proc p WHERE p.pronamespace = 'ctxbridge'::regnamespace AND p.prosecdef
        AND p.proargnames[1] = 'tenant' AND p.proname <> ALL (of_members)
    LOOP
        PERFORM pg_catalog.create_distributed_function(callable, '$1', 'ctxbridge.sessions', true);
    END LOOP;
    COMMIT;
    -- Rights to columns stay behind when a table is spread. Those to add rows are to all columns on the shards, where the coordinator, which has
    -- seen to that, names the owner and the id itself.
    FOR target, command IN
        SELECT c.oid::regclass, CASE a.privilege_type WHEN 'INSERT' THEN 'GRANT INSERT ON %s TO PUBLIC'
            ELSE pg_catalog.format('GRANT %s (%s) ON %%s TO PUBLIC', a.privilege_type,
                pg_catalog.string_agg(pg_catalog.quote_ident(t.attname), ', ')) END
        FROM pg_catalog.pg_class c JOIN pg_catalog.pg_attribute t ON t.attrelid = c.oid AND t.attnum > 0,
            pg_catalog.aclexplode(t.attacl) a
        WHERE c.relnamespace = 'ctxbridge'::regnamespace AND NOT c.relispartition AND c.relkind IN ('r', 'p') AND a.grantee = 0
        GROUP BY c.oid, a.privilege_type
    LOOP
        SELECT pg_catalog.min(r.result) INTO refused FROM pg_catalog.run_command_on_shards(target, command) r WHERE NOT r.success;
        IF refused IS NOT NULL THEN
            RAISE EXCEPTION 'a shard of % refuses its rights: %', target, refused;
        END IF;
    END LOOP;
END $$;

-- For whoever owns the tables, before shards are moved: they are copied in his name, so he has to see all of them until distribute() is called
-- again. All others see what they saw.
CREATE PROCEDURE ctxbridge.prepare_move()
LANGUAGE plpgsql AS $$
DECLARE
    target regclass;
BEGIN
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_extension e WHERE e.extname = 'citus') THEN
        RAISE EXCEPTION 'this server has no Citus, and no shards to move' USING ERRCODE = 'feature_not_supported';
    END IF;
    FOR target IN SELECT c.oid FROM pg_catalog.pg_class c WHERE c.relnamespace = 'ctxbridge'::regnamespace AND c.relforcerowsecurity LOOP
        EXECUTE pg_catalog.format('ALTER TABLE %s NO FORCE ROW LEVEL SECURITY', target);
    END LOOP;
END $$;
REVOKE ALL ON PROCEDURE ctxbridge.distribute(), ctxbridge.prepare_move() FROM PUBLIC;

-- What only functions read is closed to whoever else has a right to it: a role that may read all data, as those of backups and statistics do, is
-- below policies all the same. It has none, which is that nobody sees a row. Whoever owns it is not below them, and functions run as the owner.
CREATE FUNCTION ctxbridge.close_tables() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    name text;
BEGIN
    FOR name IN
        SELECT c.relname FROM pg_class c WHERE c.relnamespace = 'ctxbridge'::regnamespace AND c.relkind IN ('r', 'p')
        AND NOT c.relrowsecurity AND c.relname <> 'migrations' ORDER BY c.relname
    LOOP
        EXECUTE format('ALTER TABLE ctxbridge.%I ENABLE ROW LEVEL SECURITY', name);
    END LOOP;
END $$;

-- Only for what is asked within.
REVOKE ALL ON FUNCTION ctxbridge.audiences_of(text, text), ctxbridge.vector_schema(), ctxbridge.vector_tables(), ctxbridge.make_vectors(),
    ctxbridge.close_tables() FROM PUBLIC;

-- Where it is not allowed to, or there is none, search by meaning waits for somebody who is.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_extension WHERE extname = 'vector') THEN
        CREATE EXTENSION vector SCHEMA ctxbridge;
    END IF;
EXCEPTION WHEN OTHERS THEN
    NULL;
END $$;
SELECT ctxbridge.ensure_vectors();
SELECT ctxbridge.close_tables();

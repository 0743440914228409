-- Who may be in which tenant, and read which project. Who asks is session_user: a role of the server, which no client can choose.
-- Nobody but the functions below reads or writes these tables.

CREATE TABLE ctxbridge.members (
    tenant text NOT NULL,
    member text NOT NULL,
    is_admin boolean NOT NULL,
    PRIMARY KEY (tenant, member)
);
CREATE TABLE ctxbridge.project_members (
    tenant text NOT NULL,
    project text NOT NULL,
    member text NOT NULL,
    PRIMARY KEY (tenant, project, member)
);
REVOKE ALL ON ctxbridge.members, ctxbridge.project_members FROM PUBLIC;

-- Enters a tenant, and says as what: nothing for who is no member. Others have to be added; where there is nobody yet, who comes to begin it
-- becomes its admin, and is told that it is `new`.
CREATE FUNCTION ctxbridge.enter(tenant text, begins boolean DEFAULT true) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    me text := session_user;
BEGIN
    IF EXISTS (SELECT FROM ctxbridge.members m WHERE m.tenant = $1 AND m.member = me) THEN
        RETURN 'member';
    END IF;
    IF NOT begins THEN
        RETURN NULL;
    END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended('ctxbridge tenant ' || $1, 0));
    IF EXISTS (SELECT FROM ctxbridge.members m WHERE m.tenant = $1) THEN
        RETURN (SELECT 'member' FROM ctxbridge.members m WHERE m.tenant = $1 AND m.member = me);
    END IF;
    INSERT INTO ctxbridge.members (tenant, member, is_admin) VALUES ($1, me, true);
    RETURN 'new';
END $$;

-- Enters a project of a tenant, and says whether that may be: the first one is its first member, others have to be added.
CREATE FUNCTION ctxbridge.enter_project(tenant text, project text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    me text := session_user;
BEGIN
    IF NOT EXISTS (SELECT FROM ctxbridge.members m WHERE m.tenant = $1 AND m.member = me) THEN
        RETURN false;
    END IF;
    IF EXISTS (SELECT FROM ctxbridge.project_members p WHERE p.tenant = $1 AND p.project = $2 AND p.member = me) THEN
        RETURN true;
    END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended('ctxbridge project ' || $1 || ' ' || $2, 0));
    IF NOT EXISTS (SELECT FROM ctxbridge.project_members p WHERE p.tenant = $1 AND p.project = $2) THEN
        INSERT INTO ctxbridge.project_members (tenant, project, member) VALUES ($1, $2, me);
    END IF;
    RETURN EXISTS (SELECT FROM ctxbridge.project_members p WHERE p.tenant = $1 AND p.project = $2 AND p.member = me);
END $$;

CREATE FUNCTION ctxbridge.is_admin(tenant text, member text) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN EXISTS (SELECT FROM ctxbridge.members m WHERE m.tenant = $1 AND m.member = $2 AND m.is_admin);
END $$;

-- Adds a member to a tenant, or makes one an admin; for its admins.
CREATE FUNCTION ctxbridge.add_member(tenant text, member text, as_admin boolean DEFAULT false) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    me text := session_user;
BEGIN
    IF NOT ctxbridge.is_admin($1, me) THEN
        RAISE EXCEPTION 'only an admin of the tenant % may add members', $1 USING ERRCODE = 'insufficient_privilege';
    END IF;
    IF NOT EXISTS (SELECT FROM pg_roles r WHERE r.rolname = $2) THEN
        RAISE EXCEPTION 'there is no role %', $2 USING ERRCODE = 'undefined_object';
    END IF;
    INSERT INTO ctxbridge.members AS m (tenant, member, is_admin) VALUES ($1, $2, $3)
        ON CONFLICT ON CONSTRAINT members_pkey DO UPDATE SET is_admin = m.is_admin OR excluded.is_admin;
END $$;

-- Takes a member out of a tenant and all its projects; for its admins. The last admin stays: without one, who comes next would be it.
CREATE FUNCTION ctxbridge.remove_member(tenant text, member text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    me text := session_user;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('ctxbridge tenant ' || $1, 0));
    IF NOT ctxbridge.is_admin($1, me) THEN
        RAISE EXCEPTION 'only an admin of the tenant % may remove members', $1 USING ERRCODE = 'insufficient_privilege';
    END IF;
    IF NOT EXISTS (SELECT FROM ctxbridge.members m WHERE m.tenant = $1 AND m.is_admin AND m.member <> $2) THEN
        RAISE EXCEPTION 'the last admin of the tenant % has to stay', $1 USING ERRCODE = 'object_in_use';
    END IF;
    -- What a project has shown stays its own: where the last member leaves, an admin has to add the next one. No role has an empty name.
    INSERT INTO ctxbridge.project_members (tenant, project, member)
        SELECT p.tenant, p.project, '' FROM ctxbridge.project_members p WHERE p.tenant = $1 AND p.member = $2
        ON CONFLICT DO NOTHING;
    DELETE FROM ctxbridge.project_members p WHERE p.tenant = $1 AND p.member = $2;
    DELETE FROM ctxbridge.members m WHERE m.tenant = $1 AND m.member = $2;
END $$;

-- Adds a member of a tenant to a project; for the project's members and the tenant's admins.
CREATE FUNCTION ctxbridge.add_to_project(tenant text, project text, member text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    me text := session_user;
BEGIN
    IF NOT ctxbridge.is_admin($1, me) AND NOT ctxbridge.is_in_project($1, $2, me) THEN
        RAISE EXCEPTION 'only a member of the project % or an admin of the tenant % may add members to it', $2, $1
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    IF NOT EXISTS (SELECT FROM ctxbridge.members m WHERE m.tenant = $1 AND m.member = $3) THEN
        RAISE EXCEPTION '% is no member of the tenant %', $3, $1 USING ERRCODE = 'undefined_object';
    END IF;
    INSERT INTO ctxbridge.project_members (tenant, project, member) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING;
END $$;

-- Takes a member out of a project; for the tenant's admins, and for everybody himself.
CREATE FUNCTION ctxbridge.remove_from_project(tenant text, project text, member text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    me text := session_user;
BEGIN
    IF $3 <> me AND NOT ctxbridge.is_admin($1, me) THEN
        RAISE EXCEPTION 'only an admin of the tenant % may take others out of a project', $1 USING ERRCODE = 'insufficient_privilege';
    END IF;
    INSERT INTO ctxbridge.project_members (tenant, project, member)
        SELECT p.tenant, p.project, '' FROM ctxbridge.project_members p WHERE p.tenant = $1 AND p.project = $2 AND p.member = $3
        ON CONFLICT DO NOTHING;
    DELETE FROM ctxbridge.project_members p WHERE p.tenant = $1 AND p.project = $2 AND p.member = $3;
END $$;

-- Who is in a tenant, and in which of its projects; for its admins.
CREATE FUNCTION ctxbridge.list_members(tenant text) RETURNS TABLE (member text, is_admin boolean, projects text[])
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    me text := session_user;
BEGIN
    IF NOT ctxbridge.is_admin($1, me) THEN
        RAISE EXCEPTION 'only an admin of the tenant % may list its members', $1 USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN QUERY SELECT m.member, m.is_admin, ARRAY(
            SELECT p.project FROM ctxbridge.project_members p WHERE p.tenant = $1 AND p.member = m.member ORDER BY p.project)
        FROM ctxbridge.members m WHERE m.tenant = $1 ORDER BY m.member;
END $$;

-- Leaves a project in which nobody else is or was, and to which nothing is shown: its name is known to nobody then.
CREATE FUNCTION ctxbridge.leave_empty_project(tenant text, project text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    me text := session_user;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('ctxbridge project ' || $1 || ' ' || $2, 0));
    -- Who is the only one there ever was sees all that is shown to it.
    IF NOT EXISTS (SELECT FROM ctxbridge.project_members p WHERE p.tenant = $1 AND p.project = $2 AND p.member <> me)
        AND NOT EXISTS (SELECT FROM ctxbridge.sessions s WHERE s.tenant = $1 AND s.owner = me AND s.project = $2 AND s.visibility = 'project')
    THEN
        DELETE FROM ctxbridge.project_members p WHERE p.tenant = $1 AND p.project = $2 AND p.member = me;
    END IF;
END $$;

CREATE FUNCTION ctxbridge.is_in_project(tenant text, project text, member text) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN EXISTS (SELECT FROM ctxbridge.members m WHERE m.tenant = $1 AND m.member = $3)
        AND EXISTS (SELECT FROM ctxbridge.project_members p WHERE p.tenant = $1 AND p.project = $2 AND p.member = $3);
END $$;

-- Whether who asks is one of an audience: `team`, or `project:NAME`. A policy calls it for rows of others only. It is a function and no
-- subquery, since Citus allows none in a policy.
CREATE FUNCTION ctxbridge.may_read(tenant text, audience text[]) RETURNS boolean
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    me text := session_user;
BEGIN
    IF audience IS NULL OR NOT EXISTS (SELECT FROM ctxbridge.members m WHERE m.tenant = $1 AND m.member = me) THEN
        RETURN false;
    END IF;
    RETURN 'team' = ANY (audience) OR EXISTS (
        SELECT FROM ctxbridge.project_members p
        WHERE p.tenant = $1 AND p.member = me AND 'project:' || p.project = ANY (audience));
END $$;

-- Whether who asks may write in a tenant for an audience: only for those among whom he is.
CREATE FUNCTION ctxbridge.may_write(tenant text, audience text[]) RETURNS boolean
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    me text := session_user;
BEGIN
    IF NOT EXISTS (SELECT FROM ctxbridge.members m WHERE m.tenant = $1 AND m.member = me) THEN
        RETURN false;
    END IF;
    RETURN audience IS NULL OR NOT EXISTS (
        SELECT FROM unnest(audience) AS a(name)
        WHERE a.name IS DISTINCT FROM 'team' AND NOT EXISTS (
            SELECT FROM ctxbridge.project_members p WHERE p.tenant = $1 AND p.member = me AND 'project:' || p.project = a.name));
END $$;

-- Those that are only asked by the others; and what everybody may do.
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA ctxbridge FROM PUBLIC;
GRANT EXECUTE ON FUNCTION ctxbridge.enter(text, boolean), ctxbridge.enter_project(text, text), ctxbridge.add_member(text, text, boolean),
    ctxbridge.remove_member(text, text), ctxbridge.add_to_project(text, text, text), ctxbridge.remove_from_project(text, text, text),
    ctxbridge.leave_empty_project(text, text),
    ctxbridge.list_members(text), ctxbridge.may_read(text, text[]), ctxbridge.may_write(text, text[]) TO PUBLIC;

-- Stores objects of another system as they are, and adds what they cost and grant to the ledger, whatever the limits
-- say: a row that is above its limit gets a ceiling. All objects are stored, or none. Returns false if growth is not
-- held: nothing may grow while only a part of the objects is there.
CREATE FUNCTION {import_objects}(
    p_stands smallint[], p_required boolean[],
    o_kind smallint[], o_namespace text[], o_name text[], o_uid uuid[], o_tenant text[], o_scope_kind smallint[],
    o_scope text[], o_deleting boolean[], o_locked boolean[], o_body text[],
    k_kind smallint[], k_scope text[], k_domain text[], k_key text[], k_children bigint[],
    k_allocated numeric[], k_listed boolean[], k_mandatory boolean[], k_limits bigint[], k_hard numeric[],
    old_listed boolean[], old_limits bigint[], old_hard numeric[],
    c_domain text[], c_place text[], c_uid uuid[])
RETURNS boolean
LANGUAGE plpgsql
AS $$
#variable_conflict use_variable
DECLARE
    base bigint; is_held boolean; lost text;
BEGIN
    UPDATE rev SET v = rev.v + cardinality(o_kind) WHERE rev.v >= (SELECT max(r.v) FROM rev r)
    RETURNING rev.v - cardinality(o_kind), rev.held INTO STRICT base, is_held;
    IF NOT is_held THEN
        RETURN false;
    END IF;
    WITH made AS (
        INSERT INTO objects AS o (kind, namespace, name, uid, rv, create_rv, tenant, scope_kind, scope, deleting, locked, body)
        SELECT k.kind, k.namespace, k.name, k.uid, base + k.i, base + k.i, k.tenant, k.scope_kind, k.scope, k.deleting,
               k.locked, k.body
        FROM unnest(o_kind, o_namespace, o_name, o_uid, o_tenant, o_scope_kind, o_scope, o_deleting, o_locked, o_body)
             WITH ORDINALITY AS k(kind, namespace, name, uid, tenant, scope_kind, scope, deleting, locked, body, i)
        RETURNING o.rv, o.kind, o.namespace, o.name, o.uid, o.body)
    INSERT INTO events (rv, kind, op, namespace, name, uid, body)
    SELECT m.rv, m.kind, 'c', m.namespace, m.name, m.uid, m.body FROM made m;
    SELECT k.scope INTO lost FROM unnest(o_scope_kind, o_scope) AS k(scope_kind, scope)
    WHERE p_required[k.scope_kind]
      AND NOT EXISTS (SELECT FROM objects o WHERE o.kind = p_stands[k.scope_kind] AND o.namespace = ''
                      AND o.name = k.scope COLLATE "C")
    LIMIT 1;
    IF lost IS NOT NULL THEN
        RAISE EXCEPTION 'scope % is not there', lost USING ERRCODE = 'foreign_key_violation';
    END IF;
    PERFORM {repair_ledger}(NULL, p_stands, k_kind, k_scope, k_domain, k_key, k_children, k_allocated, k_listed, k_mandatory,
                            k_limits, k_hard, old_listed, old_limits, old_hard, c_domain, c_place, c_uid);
    SELECT c.place INTO lost FROM unnest(c_domain, c_place, c_uid) AS c(domain, place, uid)
    LEFT JOIN claims t ON t.domain = c.domain COLLATE "C" AND t.place = c.place COLLATE "C"
    WHERE t.uid IS DISTINCT FROM c.uid LIMIT 1;
    IF lost IS NOT NULL THEN
        RAISE EXCEPTION 'place % is taken', lost USING ERRCODE = 'unique_violation';
    END IF;
    RETURN true;
END
$$;

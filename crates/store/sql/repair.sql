-- Adds to rows of the ledger what an audit has found missing in a snapshot. Since the snapshot each row has changed by
-- as much as its objects have, so the difference still holds. A limit is set only if it is still the same as in the
-- snapshot.
-- p_repairs is the number of repairs in the snapshot. Returns false if there was another repair since, which may have
-- added the same. NULL for an import, which adds what its objects cost and grant.
CREATE FUNCTION {repair_ledger}(
    p_repairs bigint, p_stands smallint[], k_kind smallint[], k_scope text[], k_domain text[], k_key text[], k_children bigint[],
    k_allocated numeric[], k_listed boolean[], k_mandatory boolean[], k_limits bigint[], k_hard numeric[],
    old_listed boolean[], old_limits bigint[], old_hard numeric[],
    c_domain text[], c_place text[], c_uid uuid[])
RETURNS boolean
LANGUAGE plpgsql
AS $$
#variable_conflict use_variable
BEGIN
    PERFORM FROM rev ORDER BY v DESC LIMIT 1 FOR UPDATE;
    IF p_repairs IS NOT NULL THEN
        UPDATE rev SET repairs = rev.repairs + 1
        WHERE rev.v >= (SELECT max(r.v) FROM rev r) AND rev.repairs = p_repairs;
        IF NOT FOUND THEN
            RETURN false;
        END IF;
    END IF;
    INSERT INTO ledger AS g (scope_kind, scope, domain, key, children, allocated, listed, mandatory, limits, hard, ceiling)
    SELECT x.kind, x.scope, x.domain, x.key, x.children, x.allocated, x.listed, x.mandatory, x.limits, x.hard,
           CASE WHEN x.allocated > x.hard THEN x.allocated END
    FROM (
        SELECT k.kind, k.scope, k.domain, k.key,
               greatest(coalesce(g.children, 0) + k.children, 0) AS children,
               greatest(coalesce(g.allocated, 0) + k.allocated, 0) AS allocated,
               CASE WHEN coalesce(g.listed, false) = k.old_listed THEN k.listed ELSE g.listed END AS listed,
               CASE WHEN coalesce(g.listed, false) = k.old_listed THEN k.mandatory ELSE g.mandatory END AS mandatory,
               CASE WHEN coalesce(g.limits, 0) = k.old_limits THEN k.limits ELSE g.limits END AS limits,
               CASE WHEN g.hard IS NOT DISTINCT FROM k.old_hard THEN k.hard ELSE g.hard END AS hard
        FROM unnest(k_kind, k_scope, k_domain, k_key, k_children, k_allocated, k_listed, k_mandatory, k_limits, k_hard,
                    old_listed, old_limits, old_hard)
             AS k(kind, scope, domain, key, children, allocated, listed, mandatory, limits, hard,
                  old_listed, old_limits, old_hard)
        LEFT JOIN ledger g ON g.scope_kind = k.kind AND g.scope = k.scope COLLATE "C"
                          AND g.domain = k.domain COLLATE "C" AND g.key = k.key COLLATE "C") x
    ON CONFLICT ON CONSTRAINT ledger_pkey DO UPDATE
    SET children = excluded.children, allocated = excluded.allocated, listed = excluded.listed,
        mandatory = excluded.mandatory, limits = excluded.limits, hard = excluded.hard, ceiling = excluded.ceiling;
    PERFORM {settle_excess}(p_stands, k_kind, k_scope, k_domain, k_key);
    DELETE FROM ledger g USING unnest(k_kind, k_scope, k_domain, k_key) AS k(kind, scope, domain, key)
    WHERE g.scope_kind = k.kind AND g.scope = k.scope COLLATE "C" AND g.domain = k.domain COLLATE "C"
      AND g.key = k.key COLLATE "C" AND NOT g.listed AND g.limits = 0 AND g.children = 0 AND g.hard IS NULL AND g.allocated = 0;
    -- Claims of existing objects and of holds, where the place is free. No index finds an object by its uid: so it is
    -- looked for only if the place is free, and not for an import, which has just stored it.
    INSERT INTO claims (domain, place, uid)
    SELECT c.domain, c.place, c.uid FROM unnest(c_domain, c_place, c_uid) AS c(domain, place, uid)
    WHERE NOT EXISTS (SELECT FROM claims t WHERE t.domain = c.domain COLLATE "C" AND t.place = c.place COLLATE "C")
      AND (p_repairs IS NULL
           OR EXISTS (SELECT FROM holds h WHERE h.uid = c.uid AND h.domain = c.domain COLLATE "C"
                      AND h.place = c.place COLLATE "C")
           OR EXISTS (SELECT FROM objects o WHERE o.uid = c.uid))
    ON CONFLICT DO NOTHING;
    RETURN true;
END
$$;

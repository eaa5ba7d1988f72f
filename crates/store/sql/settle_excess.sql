-- Carries the excess of rows of the ledger to the scopes above. What a scope's children have above its limit was
-- granted by no scope above it, so it counts there, too: the excess of a row is part of what is allocated in the same
-- row of the scope that is paid, and so on upwards. The caller holds the counter's lock, and names the rows whose
-- excess may have changed.
CREATE FUNCTION {settle_excess}(p_stands smallint[], k_kind smallint[], k_scope text[], k_domain text[], k_key text[])
RETURNS void
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
AS $$
#variable_conflict use_variable
DECLARE
    levels int := 0; levels_max bigint; k_more numeric[];
BEGIN
    LOOP
        -- The old rows need no lock: whoever writes the ledger holds the counter's lock.
        WITH changed AS (
            UPDATE ledger g SET excess = greatest(g.allocated - g.hard, 0)
            FROM (SELECT DISTINCT k.* FROM unnest(k_kind, k_scope, k_domain, k_key) AS k(kind, scope, domain, key)) k
            JOIN ledger old ON old.scope_kind = k.kind AND old.scope = k.scope COLLATE "C"
                           AND old.domain = k.domain COLLATE "C" AND old.key = k.key COLLATE "C"
            WHERE g.scope_kind = old.scope_kind AND g.scope = old.scope AND g.domain = old.domain AND g.key = old.key
              AND old.key <> '' AND coalesce(greatest(old.allocated - old.hard, 0), 0) <> old.excess
            RETURNING g.scope_kind, g.scope, g.domain, g.key, coalesce(g.excess, 0) - old.excess AS more),
        paid AS (
            SELECT o.scope_kind, o.scope, c.domain, c.key, sum(c.more) AS more FROM changed c
            JOIN objects o ON o.kind = p_stands[c.scope_kind] AND o.namespace = '' AND o.name = c.scope
            WHERE o.scope IS NOT NULL GROUP BY 1, 2, 3, 4)
        SELECT array_agg(p.scope_kind), array_agg(p.scope), array_agg(p.domain), array_agg(p.key), array_agg(p.more)
        INTO k_kind, k_scope, k_domain, k_key, k_more FROM paid p;
        EXIT WHEN k_kind IS NULL;
        -- An excess climbs no more levels than there are scopes above. These may be many: a change of parent takes
        -- along what is below, so a tree may be of any height. Scopes in a circle would carry the excess for ever. The
        -- audit reports the circle, and compares none of its scopes.
        levels := levels + 1;
        IF levels_max IS NULL THEN
            WITH RECURSIVE above AS (
                SELECT k.kind, k.scope COLLATE "C" AS scope FROM unnest(k_kind, k_scope) AS k(kind, scope)
                UNION
                SELECT o.scope_kind, o.scope COLLATE "C" FROM above a CROSS JOIN LATERAL (
                    SELECT o.scope_kind, o.scope FROM objects o
                    WHERE o.kind = p_stands[a.kind] AND o.namespace = '' AND o.name = a.scope AND o.scope IS NOT NULL
                    LIMIT 1) o)
            SELECT count(*) INTO levels_max FROM above;
        END IF;
        EXIT WHEN levels > levels_max;
        -- Two statements instead of an upsert: the CHECK also tests a row that an upsert proposes and does not insert.
        INSERT INTO ledger (scope_kind, scope, domain, key)
        SELECT k.* FROM unnest(k_kind, k_scope, k_domain, k_key) AS k(kind, scope, domain, key)
        ON CONFLICT DO NOTHING;
        UPDATE ledger g SET allocated = g.allocated + k.more,
            ceiling = CASE WHEN g.allocated + k.more > g.hard THEN g.allocated + k.more END
        FROM unnest(k_kind, k_scope, k_domain, k_key, k_more) AS k(kind, scope, domain, key, more)
        WHERE g.scope_kind = k.kind AND g.scope = k.scope COLLATE "C" AND g.domain = k.domain COLLATE "C"
          AND g.key = k.key COLLATE "C";
    END LOOP;
END
$$;

-- A batch is tried as its writer says that the rows are: the writes themselves look whether it is so, and `SB002` or a
-- second row of a key ends the transaction if it is not. Then the writer sends it again, and has the rows looked at
-- first. A look at each row before its write was a fifth of a batch.
-- The function writes nothing that these three forbade, and a statement reads its table's checks anew each time.
ALTER TABLE rev DROP CONSTRAINT rev_id_check, DROP CONSTRAINT rev_v_check;
ALTER TABLE events DROP CONSTRAINT events_op_check;

CREATE FUNCTION apply_batch(
    p_writer uuid, p_seq bigint, p_scope_kind smallint, p_children_max bigint, p_notify boolean, p_trusting boolean,
    e_op "char"[], e_kind smallint[], e_namespace text[], e_name text[], e_uid uuid[], e_expected bigint[],
    e_tenant text[], e_scope text[], e_deleting boolean[], e_locked boolean[], e_before text[], e_body text[],
    q_entry int[], q_pair int[], q_own int[], q_scope int[], q_charged boolean[], q_admit boolean[],
    q_fresh boolean[], q_grows boolean[], q_keyed boolean[], q_raises boolean[], q_claim int[], q_hold text[],
    q_term int[], q_limit int[],
    s_name text[], s_row int[],
    l_scope text[], l_cluster text[], l_resource text[], l_parent int[],
    t_row int[], t_own numeric[], t_delta numeric[], t_child int[], t_carried boolean[],
    h_row int[], h_hard numeric[], h_listed boolean[],
    c_cluster text[], c_namespace text[],
    OUT base bigint, OUT outcome smallint[], OUT detail text[])
LANGUAGE plpgsql
-- Without statistics the planner would scan whole tables, and keep that plan.
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_bitmapscan = off
SET jit = off
AS $$
#variable_conflict use_variable
DECLARE
    -- 2^63 - 1 whole units: the largest quantity, and so the limit of what is unlimited
    amount_max CONSTANT numeric := 9223372036854775807000000000;
    ancestors_max CONSTANT int := 1000;
    entries int := cardinality(e_op);
    is_held boolean;
    was_deleting boolean[];
    s_exists boolean[]; s_tenant text[]; s_parent text[]; s_deleting boolean[]; s_locked boolean[]; s_sound boolean[];
    l_listed boolean[]; l_limits bigint[]; l_children bigint[]; l_hard numeric[]; l_allocated numeric[];
    l_ceiling numeric[]; l_changed boolean[];
    c_uid uuid[]; c_entry int[]; c_free boolean[];
    d_delta numeric[]; d_grow numeric[]; d_child bigint[]; d_joins bigint[]; d_keyed bigint[];
    fits boolean := false; shrinks boolean := true;
    gone text[] := '{}'; released int[] := '{}'; holding int[] := '{}';
    e int; pair int; own int; scope int; r int; c int; at int; steps int; written int := 0;
    term_first int; term_last int := 0; limit_first int; limit_last int := 0;
    keys bigint; was numeric; violations text; missing text; up text; ancestor record;
BEGIN
    -- before the lock: nobody else asks for this row
    DELETE FROM batches b WHERE b.writer = p_writer AND b.seq = (
        SELECT o.seq FROM batches o WHERE o.writer = p_writer AND o.seq < p_seq ORDER BY o.seq DESC LIMIT 1);
    -- whoever had to wait finds a larger value, which is as good
    UPDATE rev SET v = rev.v + entries WHERE rev.v >= (SELECT max(r.v) FROM rev r)
    RETURNING rev.v - entries, rev.held INTO STRICT base, is_held;

    detail := array_fill(NULL::text, ARRAY[entries]);

    IF cardinality(q_entry) > 0 THEN
        SELECT array_agg(x.found), array_agg(x.tenant), array_agg(x.parent), array_agg(x.deleting), array_agg(x.locked)
        INTO s_exists, s_tenant, s_parent, s_deleting, s_locked FROM (
            SELECT o.uid IS NOT NULL AS found, o.tenant, coalesce(o.scope, '') AS parent, o.deleting, o.locked
            FROM unnest(s_name) WITH ORDINALITY AS k(name, i)
            LEFT JOIN LATERAL (
                SELECT o.uid, o.tenant, o.scope, o.deleting, o.locked FROM objects o
                WHERE o.kind = p_scope_kind AND o.namespace = '' AND o.name = k.name COLLATE "C"
                LIMIT 1) o ON true
            ORDER BY k.i) x;
        SELECT array_agg(x.listed), array_agg(x.limits), array_agg(x.children), array_agg(x.hard),
               array_agg(x.allocated), array_agg(x.ceiling), array_agg(false)
        INTO l_listed, l_limits, l_children, l_hard, l_allocated, l_ceiling, l_changed FROM (
            SELECT coalesce(g.listed, false) AS listed, coalesce(g.limits, 0) AS limits,
                   coalesce(g.children, 0) AS children, g.hard, coalesce(g.allocated, 0) AS allocated, g.ceiling
            FROM unnest(l_scope, l_cluster, l_resource) WITH ORDINALITY AS k(scope, cluster, resource, i)
            LEFT JOIN LATERAL (
                SELECT g.* FROM ledger g
                WHERE g.scope = k.scope COLLATE "C" AND g.cluster = k.cluster COLLATE "C"
                  AND g.resource = k.resource COLLATE "C"
                LIMIT 1) g ON true
            ORDER BY k.i) x;
        SELECT array_agg(x.uid), array_agg(NULL::int), array_agg(x.uid IS NULL) INTO c_uid, c_entry, c_free FROM (
            SELECT t.uid FROM generate_series(1, cardinality(c_cluster)) AS k(i)
            LEFT JOIN LATERAL (
                SELECT t.uid FROM claims t
                WHERE t.cluster = c_cluster[k.i] COLLATE "C" AND t.namespace = c_namespace[k.i] COLLATE "C"
                LIMIT 1) t ON true
            ORDER BY k.i) x;
        s_sound := array_fill(false, ARRAY[cardinality(s_name)]);
        fits := 0 = ALL (q_own) AND 0 = ALL (q_pair) AND array_remove(q_hold, NULL) = '{}';
    END IF;

    -- each write by itself: what may grow, into which scope, and with which claim
    IF fits THEN
        SELECT bool_and(coalesce(
                   (NOT k.grows OR (k.admit AND NOT is_held AND NOT e_deleting[k.entry]))
                   AND (k.scope = 0 OR NOT (k.grows OR k.keyed)
                        OR (s_exists[k.scope] AND s_tenant[k.scope] = e_tenant[k.entry]
                            AND NOT (k.grows AND (s_deleting[k.scope] OR s_locked[k.scope]))))
                   AND (k.claim = 0 OR e_op[k.entry] = 'd' OR c_uid[k.claim] IS NULL
                        OR c_uid[k.claim] = e_uid[k.entry]), false))
               AND count(*) FILTER (WHERE k.claim > 0) = cardinality(c_cluster)
        INTO fits FROM (SELECT q_entry[g.i] AS entry, q_scope[g.i] AS scope, q_claim[g.i] AS claim, q_admit[g.i] AS admit,
                               q_grows[g.i] AS grows, q_keyed[g.i] AS keyed
                        FROM generate_series(1, cardinality(q_entry)) AS g(i)) AS k;
    END IF;
    -- no write of this sort can close a circle; but what stands above a scope has to exist
    IF fits AND true = ANY (q_fresh) AND array_remove(array_remove(s_parent, ''), NULL) <> '{}' THEN
        WITH RECURSIVE above(name) AS (
            SELECT k.name COLLATE "C" FROM unnest(s_parent) AS k(name) WHERE k.name <> ''
            UNION
            SELECT o.scope FROM above a JOIN objects o
            ON o.kind = p_scope_kind AND o.namespace = '' AND o.name = a.name COLLATE "C" WHERE o.scope <> '')
        SELECT bool_and(EXISTS (SELECT FROM objects o WHERE o.kind = p_scope_kind AND o.namespace = ''
                                AND o.name = a.name COLLATE "C"))
        INTO fits FROM above a;
    END IF;
    -- all of them together: for each row of the ledger what is added (`grow`) and what remains of it (`delta`)
    IF fits THEN
        SELECT array_agg(x.delta), array_agg(x.grow), array_agg(x.child), array_agg(x.joins), array_agg(x.keyed),
               array_agg(x.terms > 0), bool_or(x.shrinks)
        INTO d_delta, d_grow, d_child, d_joins, d_keyed, l_changed, shrinks FROM (
            SELECT sum(k.delta) AS delta, sum(greatest(k.delta, 0)) AS grow, sum(k.child) AS child,
                   count(*) FILTER (WHERE k.carried AND k.child > 0) AS joins,
                   count(*) FILTER (WHERE k.carried AND q_keyed[width_bucket(k.i - 1, q_term) + 1]) AS keyed,
                   count(k.i) AS terms, bool_or(k.delta < 0 OR k.child < 0) AS shrinks
            FROM (SELECT t_row[t.i] AS r, t_delta[t.i] AS delta, t_child[t.i] AS child, t_carried[t.i] AS carried, t.i
                  FROM generate_series(1, cardinality(t_row)) AS t(i)
                  UNION ALL
                  SELECT g.r, 0, 0, false, NULL FROM generate_series(1, cardinality(l_scope)) AS g(r)) AS k
            GROUP BY k.r ORDER BY k.r) x;
        -- a child carries every resource that its cluster limits: as many as the clusters count
        SELECT bool_and(CASE WHEN k.resource <> '' THEN
                                 k.grow = 0 OR k.allocated + k.grow <= coalesce(k.hard, amount_max)
                             WHEN k.cluster <> '' THEN k.joins = 0 OR k.listed
                             ELSE k.joins = 0 OR k.children + k.joins <= p_children_max END)
               AND coalesce(sum(k.limits) FILTER (WHERE k.resource = '' AND k.keyed > 0), 0)
                 = count(*) FILTER (WHERE k.parent > 0 AND k.hard IS NOT NULL AND k.keyed > 0
                                      AND k.keyed = d_keyed[k.parent])
        INTO fits
        FROM unnest(l_cluster, l_resource, l_parent, l_listed, l_limits, l_children, l_hard, l_allocated,
                    d_grow, d_joins, d_keyed)
            AS k(cluster, resource, parent, listed, limits, children, hard, allocated, grow, joins, keyed);
    END IF;
    -- what the rows say of each entry
    IF p_trusting AND (fits OR cardinality(q_entry) = 0) THEN
        outcome := array_fill(0::smallint, ARRAY[entries]);
    ELSE
        SELECT array_agg(x.code), array_agg(x.deleting) INTO outcome, was_deleting FROM (
            SELECT (CASE WHEN k.op = 'c' THEN CASE WHEN o.uid IS NULL THEN 0 WHEN o.deleting THEN 2 ELSE 1 END
                         WHEN o.uid IS NULL THEN 3
                         WHEN o.uid <> k.uid OR o.rv <> k.expected OR (o.deleting AND NOT k.deleting) THEN 4
                         ELSE 0 END)::smallint AS code,
                   coalesce(o.deleting, false) AS deleting
            FROM (SELECT e_op[g.i] AS op, e_uid[g.i] AS uid, e_expected[g.i] AS expected, e_deleting[g.i] AS deleting, g.i
                  FROM generate_series(1, entries) AS g(i) OFFSET 0) k
            LEFT JOIN LATERAL (
                SELECT o.uid, o.rv, o.deleting FROM objects o
                WHERE o.kind = e_kind[k.i] AND o.namespace = e_namespace[k.i] COLLATE "C" AND o.name = e_name[k.i] COLLATE "C"
                LIMIT 1) o ON true
            ORDER BY k.i) x;
        fits := fits AND 0 = ALL (outcome);
    END IF;
    IF fits THEN
        SELECT array_agg(k.allocated + k.delta), array_agg(k.children + k.child) INTO l_allocated, l_children
        FROM unnest(l_allocated, l_children, d_delta, d_child) AS k(allocated, children, delta, child);
        IF cardinality(c_cluster) > 0 THEN
            SELECT array_agg(x.entry), array_agg(x.uid) INTO c_entry, c_uid FROM (
                SELECT CASE WHEN e_op[k.entry] <> 'd' THEN k.entry WHEN c_uid[k.claim] = e_uid[k.entry] THEN 0 END AS entry,
                       CASE WHEN e_op[k.entry] <> 'd' THEN e_uid[k.entry] ELSE c_uid[k.claim] END AS uid
                FROM unnest(q_entry, q_claim) AS k(entry, claim) WHERE k.claim > 0 ORDER BY k.claim) x;
        END IF;
    ELSIF cardinality(q_entry) > 0 THEN
        l_changed := array_fill(false, ARRAY[cardinality(l_scope)]);
        shrinks := true;
    END IF;

    FOR q IN 1..CASE WHEN fits THEN 0 ELSE cardinality(q_entry) END LOOP
        term_first := term_last + 1; term_last := q_term[q];
        limit_first := limit_last + 1; limit_last := q_limit[q];
        e := q_entry[q]; pair := q_pair[q]; own := q_own[q]; scope := q_scope[q];
        violations := NULL;
        IF pair > 0 THEN
            outcome[e] := greatest(outcome[e], outcome[pair]); outcome[pair] := outcome[e];
        END IF;
        CONTINUE WHEN outcome[e] <> 0;
        IF q_grows[q] OR q_raises[q] THEN
            -- nothing but a main write may grow, and never one of an object that is being deleted
            IF NOT q_admit[q] OR was_deleting[e] OR e_deleting[e] THEN
                outcome[e] := 4;
            ELSIF is_held THEN
                outcome[e] := 6;
            END IF;
            IF outcome[e] <> 0 THEN
                IF pair > 0 THEN outcome[pair] := outcome[e]; END IF;
                CONTINUE;
            END IF;
        END IF;

        -- the scope that is to carry the charge
        IF scope > 0 AND (q_grows[q] OR q_keyed[q]) THEN
            IF NOT s_exists[scope] THEN
                violations := json_build_object('kind', 'ScopeMissing', 'scope', s_name[scope]);
            ELSIF s_tenant[scope] <> e_tenant[e] THEN
                violations := json_build_object('kind', 'ScopeForeign', 'scope', s_name[scope]);
            ELSE
                IF q_grows[q] AND s_deleting[scope] THEN
                    violations := json_build_object('kind', 'ScopeTerminating', 'scope', s_name[scope]);
                END IF;
                IF q_grows[q] AND s_locked[scope] THEN
                    violations := concat_ws(',', violations,
                        json_build_object('kind', 'ScopeLocked', 'scope', s_name[scope]));
                END IF;
                r := s_row[scope];
                IF q_fresh[q] AND l_children[r] >= p_children_max THEN
                    violations := concat_ws(',', violations, json_build_object(
                        'kind', 'TooManyChildren', 'scope', s_name[scope], 'children', p_children_max));
                END IF;
                -- A chain that held once in this batch holds until its end: a scope with children is not deleted,
                -- and whoever changes his parent looks himself. Only he can close a circle.
                IF q_fresh[q] AND (own > 0 OR NOT s_sound[scope]) THEN
                    up := s_name[scope]; steps := 0;
                    LOOP
                        steps := steps + 1;
                        IF steps > ancestors_max OR (own > 0 AND up = s_name[own]) THEN
                            violations := concat_ws(',', violations,
                                json_build_object('kind', 'Cycle', 'scope', s_name[scope]));
                            EXIT;
                        END IF;
                        at := array_position(s_name, up);
                        IF at IS NULL THEN
                            SELECT o.uid IS NOT NULL AS found, o.tenant, coalesce(o.scope, '') AS parent, o.deleting, o.locked
                            INTO ancestor FROM (SELECT) one LEFT JOIN objects o
                            ON o.kind = p_scope_kind AND o.namespace = '' AND o.name = up COLLATE "C";
                            s_name := s_name || up; at := cardinality(s_name); s_sound[at] := false;
                            s_exists[at] := ancestor.found; s_tenant[at] := ancestor.tenant;
                            s_parent[at] := ancestor.parent; s_deleting[at] := ancestor.deleting;
                            s_locked[at] := ancestor.locked;
                        END IF;
                        IF NOT s_exists[at] THEN
                            violations := concat_ws(',', violations,
                                json_build_object('kind', 'AncestorMissing', 'scope', up));
                            EXIT;
                        END IF;
                        up := s_parent[at];
                        IF up = '' THEN
                            s_sound[scope] := true;
                            EXIT;
                        END IF;
                    END LOOP;
                END IF;

                -- the amounts and keys
                keys := 0;
                FOR t IN term_first..term_last LOOP
                    r := t_row[t];
                    IF l_resource[r] <> '' THEN
                        IF t_delta[t] > 0 AND l_allocated[r] + t_delta[t] > coalesce(l_hard[r], amount_max) THEN
                            was := coalesce(l_hard[r], amount_max);
                            violations := concat_ws(',', violations, json_build_object(
                                'kind', 'DoesNotFit', 'scope', l_scope[r], 'cluster', l_cluster[r],
                                'resource', l_resource[r], 'requested', (t_own[t] + t_delta[t])::text,
                                'hard', was::text, 'allocated', l_allocated[r]::text,
                                'would_fit', greatest(was - l_allocated[r] + t_own[t], t_own[t])::text));
                        END IF;
                        IF t_carried[t] AND l_hard[r] IS NOT NULL THEN
                            keys := keys + 1;
                        END IF;
                    ELSIF l_cluster[r] <> '' THEN
                        IF t_carried[t] AND t_child[t] > 0 AND NOT l_listed[r] THEN
                            violations := concat_ws(',', violations, json_build_object(
                                'kind', 'ClusterNotListed', 'scope', l_scope[r], 'cluster', l_cluster[r]));
                        END IF;
                        IF q_keyed[q] AND t_carried[t] AND keys < l_limits[r] THEN
                            FOR missing IN
                                SELECT x.resource FROM (
                                    SELECT k.resource FROM unnest(l_scope, l_cluster, l_resource, l_hard)
                                        AS k(scope, cluster, resource, hard)
                                    WHERE k.scope = l_scope[r] AND k.cluster = l_cluster[r] AND k.hard IS NOT NULL
                                    UNION
                                    SELECT g.resource FROM ledger g
                                    WHERE g.scope = l_scope[r] AND g.cluster = l_cluster[r] AND g.hard IS NOT NULL
                                      AND (g.scope, g.cluster, g.resource) NOT IN (
                                        SELECT k.scope, k.cluster, k.resource
                                        FROM unnest(l_scope, l_cluster, l_resource) AS k(scope, cluster, resource))
                                ) x
                                WHERE x.resource NOT IN (
                                    SELECT l_resource[k.r] FROM unnest(t_row[term_first:term_last],
                                        t_carried[term_first:term_last]) AS k(r, carried)
                                    WHERE k.carried AND l_scope[k.r] = l_scope[r] AND l_cluster[k.r] = l_cluster[r])
                                ORDER BY x.resource
                            LOOP
                                violations := concat_ws(',', violations, json_build_object(
                                    'kind', 'KeyMissing', 'scope', l_scope[r], 'cluster', l_cluster[r],
                                    'resource', missing));
                            END LOOP;
                        END IF;
                        keys := 0;
                    END IF;
                END LOOP;
            END IF;
        END IF;

        -- its own limits
        FOR h IN limit_first..limit_last LOOP
            r := h_row[h];
            IF l_resource[r] = '' THEN
                IF l_listed[r] AND NOT h_listed[h] AND l_children[r] > 0 THEN
                    violations := concat_ws(',', violations, json_build_object(
                        'kind', 'ClusterInUse', 'scope', l_scope[r], 'cluster', l_cluster[r],
                        'children', l_children[r]));
                END IF;
            ELSIF h_hard[h] IS NOT NULL THEN
                -- an amount that import or repair has let in above the limit does not forbid to raise the limit
                IF h_hard[h] < l_allocated[r] AND (l_hard[r] IS NULL OR h_hard[h] < l_hard[r]) THEN
                    violations := concat_ws(',', violations, json_build_object(
                        'kind', 'BelowAllocated', 'scope', l_scope[r], 'cluster', l_cluster[r],
                        'resource', l_resource[r], 'requested', h_hard[h]::text,
                        'hard', coalesce(l_hard[r], amount_max)::text,
                        'allocated', l_allocated[r]::text, 'would_fit', l_allocated[r]::text));
                END IF;
                IF l_hard[r] IS NULL AND l_children[l_parent[r]] > l_children[r] THEN
                    violations := concat_ws(',', violations, json_build_object(
                        'kind', 'ChildrenLackKey', 'scope', l_scope[r], 'cluster', l_cluster[r],
                        'resource', l_resource[r], 'children', l_children[l_parent[r]] - l_children[r]));
                END IF;
            END IF;
        END LOOP;
        IF own > 0 AND e_op[e] = 'd' AND l_children[s_row[own]] > 0 THEN
            violations := concat_ws(',', violations, json_build_object(
                'kind', 'ScopeInUse', 'scope', s_name[own], 'children', l_children[s_row[own]]));
        END IF;
        c := q_claim[q];
        IF c > 0 AND (e_op[e] <> 'd' OR pair > 0) AND c_uid[c] <> e_uid[e] THEN
            violations := concat_ws(',', violations, json_build_object(
                'kind', 'ClaimTaken', 'cluster', c_cluster[c], 'namespace', c_namespace[c], 'holder', c_uid[c]));
        END IF;
        IF violations IS NOT NULL THEN
            outcome[e] := 5; detail[e] := '[' || violations || ']';
            IF pair > 0 THEN outcome[pair] := 5; END IF;
            CONTINUE;
        END IF;

        -- accepted: the running totals
        IF q_hold[q] IS NOT NULL THEN
            holding := holding || q;
        ELSE
            FOR t IN term_first..term_last LOOP
                r := t_row[t];
                l_allocated[r] := l_allocated[r] + t_delta[t];
                l_children[r] := l_children[r] + t_child[t];
                l_changed[r] := true;
            END LOOP;
        END IF;
        FOR h IN limit_first..limit_last LOOP
            r := h_row[h];
            IF l_resource[r] = '' THEN
                l_listed[r] := h_listed[h];
            ELSE
                at := l_parent[r];
                l_limits[at] := l_limits[at] + (h_hard[h] IS NOT NULL)::int - (l_hard[r] IS NOT NULL)::int;
                l_changed[at] := true;
                l_hard[r] := h_hard[h];
            END IF;
            l_changed[r] := true;
        END LOOP;
        IF c > 0 THEN
            IF e_op[e] <> 'd' OR pair > 0 THEN
                c_uid[c] := e_uid[e];
                c_entry[c] := CASE WHEN pair > 0 THEN pair ELSE e END;
            ELSIF q_hold[q] IS NULL AND c_uid[c] = e_uid[e] THEN
                c_uid[c] := NULL; c_entry[c] := 0;
            END IF;
        END IF;
        IF own > 0 THEN
            IF e_op[e] = 'd' THEN
                s_exists[own] := false; gone := gone || s_name[own];
            ELSE
                s_exists[own] := true; s_tenant[own] := e_tenant[e];
                s_deleting[own] := e_deleting[e]; s_locked[own] := e_locked[e];
                IF q_charged[q] THEN
                    s_parent[own] := CASE WHEN scope > 0 THEN s_name[scope] ELSE '' END;
                END IF;
            END IF;
        END IF;
    END LOOP;

    -- the objects and their history
    IF 'd' = ANY (e_op) THEN
        WITH removed AS (
            DELETE FROM objects o
            USING generate_series(1, entries) AS k(i)
            WHERE e_op[k.i] = 'd' AND outcome[k.i] = 0 AND o.kind = e_kind[k.i]
              AND o.namespace = e_namespace[k.i] COLLATE "C" AND o.name = e_name[k.i] COLLATE "C"
              AND o.uid = e_uid[k.i] AND o.rv = e_expected[k.i] AND (e_deleting[k.i] OR NOT o.deleting)
            RETURNING base + k.i AS rv, o.kind, o.namespace, o.name, o.uid, e_before[k.i] AS before, e_body[k.i] AS body)
        INSERT INTO events (rv, kind, op, namespace, name, uid, before, body)
        SELECT r.rv, r.kind, 'd', r.namespace, r.name, r.uid, r.before, r.body FROM removed r;
        GET DIAGNOSTICS steps = ROW_COUNT;
        written := written + steps;
    END IF;
    IF 'u' = ANY (e_op) THEN
        WITH changed AS (
            UPDATE objects o
            SET rv = base + k.i, tenant = e_tenant[k.i], deleting = e_deleting[k.i], locked = e_locked[k.i],
                body = e_body[k.i],
                scope = CASE WHEN e_scope[k.i] IS NULL THEN o.scope ELSE nullif(e_scope[k.i], '') END
            FROM generate_series(1, entries) AS k(i)
            WHERE e_op[k.i] = 'u' AND outcome[k.i] = 0 AND o.kind = e_kind[k.i]
              AND o.namespace = e_namespace[k.i] COLLATE "C" AND o.name = e_name[k.i] COLLATE "C"
              AND o.uid = e_uid[k.i] AND o.rv = e_expected[k.i] AND (e_deleting[k.i] OR NOT o.deleting)
            RETURNING o.rv, o.kind, o.namespace, o.name, o.uid, e_before[k.i] AS before, o.body)
        INSERT INTO events (rv, kind, op, namespace, name, uid, before, body)
        SELECT c.rv, c.kind, 'u', c.namespace, c.name, c.uid, c.before, c.body FROM changed c;
        GET DIAGNOSTICS steps = ROW_COUNT;
        written := written + steps;
    END IF;
    IF 'c' = ANY (e_op) THEN
        WITH made AS (
            INSERT INTO objects AS o (kind, namespace, name, uid, rv, create_rv, tenant, scope, deleting, locked, body)
            SELECT e_kind[k.i], e_namespace[k.i], e_name[k.i], e_uid[k.i], base + k.i, base + k.i, e_tenant[k.i],
                   nullif(e_scope[k.i], ''), e_deleting[k.i], e_locked[k.i], e_body[k.i]
            FROM generate_series(1, entries) AS k(i) WHERE e_op[k.i] = 'c' AND outcome[k.i] = 0
            RETURNING o.rv, o.kind, o.namespace, o.name, o.uid, o.body)
        INSERT INTO events (rv, kind, op, namespace, name, uid, body)
        SELECT m.rv, m.kind, 'c', m.namespace, m.name, m.uid, m.body FROM made m;
        GET DIAGNOSTICS steps = ROW_COUNT;
        written := written + steps;
    END IF;
    IF written <> cardinality(array_positions(outcome, 0::smallint)) THEN
        RAISE EXCEPTION 'rows are not as writer % says', p_writer USING ERRCODE = 'SB002';
    END IF;

    -- the ledger, the holds and the claims
    IF true = ANY (l_changed) THEN
        INSERT INTO ledger AS g (scope, cluster, resource, listed, limits, children, hard, allocated, ceiling)
        SELECT k.scope, k.cluster, k.resource, k.listed, k.limits, k.children, k.hard, k.allocated,
               CASE WHEN k.allocated > k.hard THEN least(k.ceiling, k.allocated) END
        FROM unnest(l_scope, l_cluster, l_resource, l_listed, l_limits, l_children, l_hard, l_allocated, l_ceiling, l_changed)
             AS k(scope, cluster, resource, listed, limits, children, hard, allocated, ceiling, changed)
        WHERE k.changed
        ON CONFLICT ON CONSTRAINT ledger_pkey DO UPDATE
        SET listed = excluded.listed, limits = excluded.limits, children = excluded.children, hard = excluded.hard,
            allocated = excluded.allocated, ceiling = excluded.ceiling;
        IF shrinks THEN
            DELETE FROM ledger g
            USING unnest(l_scope, l_cluster, l_resource, l_listed, l_limits, l_children, l_hard, l_allocated, l_changed)
                  AS k(scope, cluster, resource, listed, limits, children, hard, allocated, changed)
            WHERE k.changed AND NOT k.listed AND k.limits = 0 AND k.children = 0 AND k.hard IS NULL AND k.allocated = 0
              AND g.scope = k.scope COLLATE "C" AND g.cluster = k.cluster COLLATE "C" AND g.resource = k.resource COLLATE "C";
        END IF;
    END IF;
    IF gone <> '{}' THEN
        DELETE FROM ledger g WHERE g.scope = ANY (gone);
    END IF;
    FOREACH at IN ARRAY holding LOOP
        term_first := CASE WHEN at = 1 THEN 1 ELSE q_term[at - 1] + 1 END;
        c := q_claim[at];
        INSERT INTO holds (uid, scope, cluster, resource, amount, carried, namespace, state, reason)
        SELECT e_uid[q_entry[at]], l_scope[k.r], l_cluster[k.r], l_resource[k.r], k.own, k.child < 0,
               coalesce(c_namespace[c], ''), 'abandoned', q_hold[at]
        FROM unnest(t_row[term_first:q_term[at]], t_own[term_first:q_term[at]], t_child[term_first:q_term[at]])
             AS k(r, own, child);
    END LOOP;
    IF cardinality(c_cluster) > 0 THEN
        IF 0 = ANY (c_entry) THEN
            DELETE FROM claims t USING unnest(c_cluster, c_namespace, c_entry) AS k(cluster, namespace, entry)
            WHERE k.entry = 0 AND t.cluster = k.cluster COLLATE "C" AND t.namespace = k.namespace COLLATE "C";
        END IF;
        INSERT INTO claims (cluster, namespace, uid, kind, object_ns, object_name)
        SELECT c_cluster[k.i], c_namespace[k.i], c_uid[k.i], e_kind[c_entry[k.i]], e_namespace[c_entry[k.i]],
               e_name[c_entry[k.i]]
        FROM generate_series(1, cardinality(c_cluster)) AS k(i) WHERE c_entry[k.i] > 0 AND c_free[k.i];
        IF false = ANY (c_free) THEN
            UPDATE claims t
            SET uid = k.uid, kind = e_kind[k.entry], object_ns = e_namespace[k.entry], object_name = e_name[k.entry]
            FROM unnest(c_cluster, c_namespace, c_uid, c_entry, c_free) AS k(cluster, namespace, uid, entry, free)
            WHERE k.entry > 0 AND NOT k.free
              AND t.cluster = k.cluster COLLATE "C" AND t.namespace = k.namespace COLLATE "C";
        END IF;
    END IF;

    INSERT INTO batches (writer, seq, base, outcome, detail)
    SELECT p_writer, p_seq, base, outcome, detail
    WHERE NOT EXISTS (SELECT FROM batches b WHERE b.writer = p_writer AND b.seq >= p_seq);
    IF NOT FOUND THEN
        RAISE EXCEPTION 'batch % of writer % is cancelled', p_seq, p_writer USING ERRCODE = 'SB001';
    END IF;
    IF p_notify THEN
        PERFORM pg_notify('store', (base + entries)::text || ' ' || p_writer::text);
    END IF;
END
$$;

-- For a version of the program that does not know of it.
CREATE OR REPLACE FUNCTION apply_batch(
    p_writer uuid, p_seq bigint, p_scope_kind smallint, p_children_max bigint, p_notify boolean,
    e_op "char"[], e_kind smallint[], e_namespace text[], e_name text[], e_uid uuid[], e_expected bigint[],
    e_tenant text[], e_scope text[], e_deleting boolean[], e_locked boolean[], e_before text[], e_body text[],
    q_entry int[], q_pair int[], q_own int[], q_scope int[], q_charged boolean[], q_admit boolean[],
    q_fresh boolean[], q_grows boolean[], q_keyed boolean[], q_raises boolean[], q_claim int[], q_hold text[],
    q_term int[], q_limit int[],
    s_name text[], s_row int[],
    l_scope text[], l_cluster text[], l_resource text[], l_parent int[],
    t_row int[], t_own numeric[], t_delta numeric[], t_child int[], t_carried boolean[],
    h_row int[], h_hard numeric[], h_listed boolean[],
    c_cluster text[], c_namespace text[],
    OUT base bigint, OUT outcome smallint[], OUT detail text[])
LANGUAGE sql
AS $$
SELECT base, outcome, detail FROM apply_batch(
    p_writer, p_seq, p_scope_kind, p_children_max, p_notify, false, e_op, e_kind, e_namespace, e_name, e_uid,
    e_expected, e_tenant, e_scope, e_deleting, e_locked, e_before, e_body, q_entry, q_pair, q_own, q_scope,
    q_charged, q_admit, q_fresh, q_grows, q_keyed, q_raises, q_claim, q_hold, q_term, q_limit, s_name, s_row,
    l_scope, l_cluster, l_resource, l_parent, t_row, t_own, t_delta, t_child, t_carried, h_row, h_hard,
    h_listed, c_cluster, c_namespace)
$$;

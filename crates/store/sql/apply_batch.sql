-- Applies one batch of writes in one transaction and one statement: no lock is held while a client is waited for.
--
-- The prefix of an array says what its elements are. batch.rs, batch/rows.rs and batch/charge.rs build the arrays.
--   e_  entries: the change of an object's row, with its event. A write has one entry, but a move has two: 'd' deletes
--       the row at the old key, and 'm', the next entry, inserts it at the new key. The outcome of 'm' is that of both
--   s_  scopes that the writes pay or stand for; s_row is the index of the scope's own row of the ledger in l_
--   l_  rows of the ledger: for each the sums of the changes by all writes, and its new limit
--   c_  claims that are made or given up
-- p_detail has the same changes write by write, for decide_each(). It is NULL for an optimistic batch.
--
-- Indices start at 1; 0 means none. An optimistic batch relies on the rows being as its writes expect, and needs the
-- sums to fit. If not, SB002 or a unique violation ends the transaction. Then the writer sends the batch again with
-- p_detail, and each write is decided by itself.
-- p_rehearse: true rolls everything back at the end (SB003, with the outcomes in the error's detail); NULL does so only
-- if a write is refused, so that all writes are made or none; false rolls nothing back.
CREATE FUNCTION {apply_batch}(
    p_writer uuid, p_seq bigint, p_children_max bigint, p_notify boolean, p_pooled boolean, p_rehearse boolean,
    p_stands smallint[], p_required boolean[], p_together boolean, p_grows boolean, p_detail json,
    e_op "char"[], e_kind smallint[], e_namespace text[], e_name text[], e_uid uuid[], e_expected bigint[],
    e_tenant text[], e_scope_kind smallint[], e_scope text[], e_deleting boolean[], e_locked boolean[],
    e_before text[], e_body text[],
    s_kind smallint[], s_name text[], s_row int[], s_payer text[], s_grows boolean[], s_fresh boolean[],
    l_scope int[], l_domain text[], l_key text[], l_parent int[], l_delta numeric[], l_grow numeric[], l_child int[],
    l_joins int[], l_lists boolean[], l_keyed int[], l_sets boolean[], l_new_hard numeric[], l_new_listed boolean[],
    l_new_mandatory boolean[], l_more_limits int[],
    c_domain text[], c_place text[], c_uid uuid[], c_entry int[],
    OUT base bigint, OUT outcome smallint[], OUT detail text[])
LANGUAGE plpgsql
-- A generic plan that was made for small tables must not scan large ones.
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_bitmapscan = off
SET jit = off
AS $$
#variable_conflict use_variable
DECLARE
    -- The largest quantity, 2^63 - 1 units: the limit of a key that has none.
    amount_max CONSTANT numeric := {amount_max};
    entries CONSTANT int := cardinality(e_op);
    ancestors_max CONSTANT int := {ancestors_max};
    is_held boolean; is_importing boolean; fits boolean; written int := 0; steps int := 0;
    s_found boolean[]; s_tenant text[]; s_parent_kind smallint[]; s_parent text[];
    s_deleting boolean[]; s_locked boolean[]; s_gone boolean[];
    l_listed boolean[]; l_mandatory boolean[]; l_limits bigint[]; l_children bigint[]; l_hard numeric[];
    l_allocated numeric[]; l_ceiling numeric[]; l_excess numeric[]; l_changed boolean[];
    l_yields boolean[];
    c_holder uuid[]; c_was uuid[]; a_kind smallint[]; a_name text[]; holding json;
BEGIN
    IF p_pooled THEN
        -- Another client of the pooler may have set anything in this session, and a client that stalls before its
        -- COMMIT must not keep the counter locked.
        PERFORM set_config('lock_timeout', '5s', true), set_config('synchronous_commit', 'on', true),
                set_config('idle_in_transaction_session_timeout', '100ms', true);
    END IF;
    -- Before the counter is locked: no other writer uses these rows.
    DELETE FROM batches b WHERE b.writer = p_writer AND b.seq = (
        SELECT o.seq FROM batches o WHERE o.writer = p_writer AND o.seq < p_seq ORDER BY o.seq DESC LIMIT 1);

    -- THE COUNTER. Its row lock makes commit order revision order. In READ COMMITTED a transaction that had to wait for
    -- the lock checks the condition again on the newest version of the row (EvalPlanQual): a larger value passes as
    -- well.
    UPDATE rev SET v = rev.v + entries WHERE rev.v >= (SELECT max(r.v) FROM rev r)
    RETURNING rev.v - entries, rev.held, rev.held AND rev.held_reason = 'an import is under way'
    INTO STRICT base, is_held, is_importing;
    -- Each statement from here on has a snapshot of its own, so it sees what the previous holder of the lock has
    -- committed.
    detail := array_fill(NULL::text, ARRAY[entries]);

    -- THE ROWS that decide about quota. LATERAL with LIMIT 1 looks up each key by itself: a plain join could be planned
    -- as a scan of the whole table, if the table is small when the generic plan is made.
    IF cardinality(s_name) > 0 THEN
        SELECT array_agg(x.found), array_agg(x.tenant), array_agg(x.parent_kind), array_agg(x.parent),
               array_agg(x.deleting), array_agg(x.locked), array_agg(false)
        INTO s_found, s_tenant, s_parent_kind, s_parent, s_deleting, s_locked, s_gone FROM (
            SELECT o.uid IS NOT NULL OR NOT coalesce(p_required[k.kind], false) AS found, o.tenant,
                   o.scope_kind AS parent_kind, o.scope AS parent,
                   coalesce(o.deleting, false) AS deleting, coalesce(o.locked, false) AS locked
            FROM unnest(s_kind, s_name) WITH ORDINALITY AS k(kind, name, i)
            LEFT JOIN LATERAL (
                SELECT o.uid, o.tenant, o.scope_kind, o.scope, o.deleting, o.locked FROM objects o
                WHERE o.kind = p_stands[k.kind] AND o.namespace = '' AND o.name = k.name COLLATE "C"
                LIMIT 1) o ON true
            ORDER BY k.i) x;
        SELECT array_agg(x.listed), array_agg(x.mandatory), array_agg(x.limits), array_agg(x.children), array_agg(x.hard),
               array_agg(x.allocated), array_agg(x.ceiling), array_agg(x.excess)
        INTO l_listed, l_mandatory, l_limits, l_children, l_hard, l_allocated, l_ceiling, l_excess FROM (
            SELECT coalesce(g.listed, false) AS listed, coalesce(g.mandatory, false) AS mandatory,
                   coalesce(g.limits, 0) AS limits, coalesce(g.children, 0) AS children, g.hard,
                   coalesce(g.allocated, 0) AS allocated, g.ceiling, coalesce(g.excess, 0) AS excess
            FROM unnest(l_scope, l_domain, l_key) WITH ORDINALITY AS k(scope, domain, key, i)
            LEFT JOIN LATERAL (
                SELECT g.* FROM ledger g
                WHERE g.scope_kind = s_kind[k.scope] AND g.scope = s_name[k.scope] COLLATE "C"
                  AND g.domain = k.domain COLLATE "C" AND g.key = k.key COLLATE "C"
                LIMIT 1) g ON true
            ORDER BY k.i) x;
    END IF;
    IF cardinality(c_domain) > 0 THEN
        SELECT array_agg(x.uid) INTO c_was FROM (
            SELECT t.uid FROM generate_series(1, cardinality(c_domain)) AS k(i)
            LEFT JOIN LATERAL (
                SELECT t.uid FROM claims t
                WHERE t.domain = c_domain[k.i] COLLATE "C" AND t.place = c_place[k.i] COLLATE "C"
                LIMIT 1) t ON true
            ORDER BY k.i) x;
    END IF;

    -- ALL WRITES TOGETHER: whether the scopes accept them, the rows have room for the sums, and the places are free.
    fits := p_together AND NOT (is_held AND p_grows) AND NOT is_importing;
    IF fits AND cardinality(s_name) > 0 THEN
        SELECT bool_and(s_payer[k.i] IS NULL
                        OR (s_found[k.i] AND coalesce(s_tenant[k.i], s_payer[k.i]) = s_payer[k.i]
                            AND NOT (s_grows[k.i] AND (s_deleting[k.i] OR s_locked[k.i]))))
        INTO fits FROM generate_series(1, cardinality(s_name)) AS k(i);
    END IF;
    IF fits AND true = ANY (s_fresh) THEN
        -- A new object cannot close a cycle, but all scopes above the one that it pays must exist. The loop goes up by
        -- one level at a time for all scopes: a recursive query takes longer to start than this loop to end.
        a_kind := s_parent_kind; a_name := s_parent;
        WHILE fits AND array_remove(a_name, NULL) <> '{}' LOOP
            SELECT bool_and(o.uid IS NOT NULL OR NOT coalesce(p_required[k.kind], false)),
                   array_agg(o.scope_kind), array_agg(o.scope)
            INTO fits, a_kind, a_name
            FROM (SELECT DISTINCT k.* FROM unnest(a_kind, a_name) AS k(kind, name) WHERE k.name IS NOT NULL) k
            LEFT JOIN LATERAL (
                SELECT o.uid, o.scope_kind, o.scope FROM objects o
                WHERE o.kind = p_stands[k.kind] AND o.namespace = '' AND o.name = k.name COLLATE "C"
                LIMIT 1) o ON true;
            steps := steps + 1;
            -- The scope that is paid counts, too.
            fits := fits AND steps < ancestors_max;
        END LOOP;
    END IF;
    IF fits AND cardinality(l_key) > 0 THEN
        -- In a mandatory domain each object whose keys are checked must carry every limited key. So there must be as
        -- many rows of limited keys that all these objects carry as the domains have limits. A row with a ceiling or an
        -- excess does not fit here, nor does a limit that existing children might contradict: decide_each() decides
        -- about them.
        SELECT bool_and(k.ceiling IS NULL AND k.excess = 0 AND
                        CASE WHEN k.key <> '' THEN
                                 (k.grow = 0 OR k.allocated + k.grow <= coalesce(k.hard, amount_max))
                                 AND (NOT k.sets OR k.new_hard IS NULL
                                      OR (k.new_hard >= k.allocated
                                          AND (k.hard IS NOT NULL OR l_children[k.parent] = 0)))
                             WHEN k.domain <> '' THEN
                                 (k.listed OR NOT k.lists) AND (NOT k.sets OR k.children = 0
                                                                OR (k.new_listed AND k.new_mandatory = k.mandatory))
                             ELSE k.joins = 0 OR k.children + k.joins <= p_children_max END)
               AND coalesce(sum(k.limits) FILTER (WHERE k.key = '' AND k.keyed > 0 AND k.mandatory), 0)
                 = count(*) FILTER (WHERE k.key <> '' AND k.hard IS NOT NULL AND k.keyed > 0
                                      AND k.keyed = l_keyed[k.parent] AND l_mandatory[k.parent])
        INTO fits
        FROM unnest(l_domain, l_key, l_parent, l_listed, l_mandatory, l_limits, l_children, l_hard, l_allocated,
                    l_ceiling, l_excess, l_grow, l_joins, l_lists, l_keyed, l_sets, l_new_hard, l_new_listed, l_new_mandatory)
            AS k(domain, key, parent, listed, mandatory, limits, children, hard, allocated, ceiling,
                 excess, grow, joins, lists, keyed, sets, new_hard, new_listed, new_mandatory);
    END IF;
    IF fits AND cardinality(c_domain) > 0 THEN
        SELECT bool_and(e_op[c_entry[k.i]] = 'd' OR c_was[k.i] IS NULL OR c_was[k.i] = c_uid[k.i])
        INTO fits FROM generate_series(1, cardinality(c_domain)) AS k(i);
    END IF;

    -- THE OBJECTS' ROWS: whether each is as its write expects. An optimistic batch relies on that.
    IF p_detail IS NULL THEN
        IF NOT fits THEN
            RAISE EXCEPTION 'a batch of writer % does not fit whole', p_writer USING ERRCODE = 'SB002';
        END IF;
        outcome := array_fill(0::smallint, ARRAY[entries]);
    ELSE
        SELECT array_agg(x.code) INTO outcome FROM (
            SELECT (CASE WHEN k.op IN ('c', 'm') THEN CASE WHEN o.uid IS NULL THEN 0 WHEN o.deleting THEN 2 ELSE 1 END
                         WHEN o.uid IS NULL THEN 3
                         WHEN o.uid <> k.uid OR o.rv <> k.expected OR (o.deleting AND NOT k.deleting) THEN 4
                         ELSE 0 END)::smallint AS code
            FROM (SELECT e_op[g.i] AS op, e_uid[g.i] AS uid, e_expected[g.i] AS expected, e_deleting[g.i] AS deleting, g.i
                  -- OFFSET 0 keeps the planner from merging the subquery: each subscript is evaluated once.
                  FROM generate_series(1, entries) AS g(i) OFFSET 0) k
            LEFT JOIN LATERAL (
                SELECT o.uid, o.rv, o.deleting FROM objects o
                WHERE o.kind = e_kind[k.i] AND o.namespace = e_namespace[k.i] COLLATE "C" AND o.name = e_name[k.i] COLLATE "C"
                LIMIT 1) o ON true
            ORDER BY k.i) x;
        IF is_importing THEN
            -- No scope is deleted: the next batch of the import may bring objects that pay it.
            SELECT array_agg(CASE WHEN outcome[k.i] = 0 AND e_op[k.i] = 'd' AND e_kind[k.i] = ANY (p_stands) THEN 7::smallint
                                  ELSE outcome[k.i] END ORDER BY k.i)
            INTO outcome FROM generate_series(1, entries) AS k(i);
        END IF;
        IF 'm' = ANY (e_op) THEN
            -- A wrong row at the old key (3 or 4) is reported before a row that exists at the new key (1 or 2).
            SELECT array_agg(CASE WHEN e_op[k.i] = 'm' THEN greatest(outcome[k.i - 1], outcome[k.i]) ELSE outcome[k.i] END
                             ORDER BY k.i)
            INTO outcome FROM generate_series(1, entries) AS k(i);
        END IF;
        fits := fits AND 0 = ALL (outcome);
    END IF;

    -- THE NEW VALUES of the ledger's rows and of the claims.
    IF fits THEN
        IF cardinality(l_key) > 0 THEN
            SELECT array_agg(k.delta <> 0 OR k.child <> 0 OR k.sets OR k.more_limits <> 0),
                   array_agg(k.allocated + k.delta), array_agg(k.children + k.child), array_agg(k.limits + k.more_limits),
                   array_agg(CASE WHEN k.sets AND k.key <> '' THEN k.new_hard ELSE k.hard END),
                   array_agg(CASE WHEN k.sets AND k.key = '' THEN k.new_listed ELSE k.listed END),
                   array_agg(CASE WHEN k.sets AND k.key = '' THEN k.new_mandatory ELSE k.mandatory END)
            INTO l_changed, l_allocated, l_children, l_limits, l_hard, l_listed, l_mandatory
            FROM unnest(l_key, l_delta, l_child, l_sets, l_more_limits, l_allocated, l_children, l_limits, l_hard, l_listed,
                        l_mandatory, l_new_hard, l_new_listed, l_new_mandatory)
                AS k(key, delta, child, sets, more_limits, allocated, children, limits, hard, listed,
                     mandatory, new_hard, new_listed, new_mandatory);
        END IF;
        IF cardinality(c_domain) > 0 THEN
            SELECT array_agg(CASE WHEN e_op[k.entry] <> 'd' THEN k.uid WHEN k.was <> k.uid THEN k.was END)
            INTO c_holder FROM unnest(c_entry, c_uid, c_was) AS k(entry, uid, was);
        END IF;
    ELSE
        SELECT d.* INTO outcome, detail, s_gone, l_listed, l_mandatory, l_limits, l_children, l_hard, l_allocated, l_excess,
                        l_changed, l_yields, c_holder, holding
        FROM {decide_each}(
            is_held, p_children_max, p_stands, p_required, p_detail, outcome, detail, e_op, e_uid, e_tenant, e_scope_kind,
            e_scope, e_deleting, e_locked, s_kind, s_name, s_row, s_found, s_tenant, s_parent_kind, s_parent, s_deleting, s_locked,
            s_gone, l_scope, l_domain, l_key, l_parent, l_listed, l_mandatory, l_limits, l_children, l_hard, l_allocated,
            l_excess, c_domain, c_place, c_uid, c_was) AS d;
        IF 'm' = ANY (e_op) THEN
            SELECT array_agg(outcome[CASE WHEN e_op[k.i + 1] = 'm' THEN k.i + 1 ELSE k.i END] ORDER BY k.i)
            INTO outcome FROM generate_series(1, entries) AS k(i);
        END IF;
    END IF;
    IF p_rehearse OR (p_rehearse IS NULL AND 0 <> ANY (outcome)) THEN
        RAISE EXCEPTION 'rehearsed' USING ERRCODE = 'SB003',
            DETAIL = json_build_object('base', base, 'outcome', outcome, 'detail', detail)::text;
    END IF;

    -- THE OBJECTS AND THEIR EVENTS. The conditions repeat what each write expects of its row. If fewer rows change than
    -- writes were accepted, the transaction ends.
    IF 'd' = ANY (e_op) THEN
        WITH removed AS (
            DELETE FROM objects o USING generate_series(1, entries) AS k(i)
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
                body = e_body[k.i], scope_kind = e_scope_kind[k.i], scope = e_scope[k.i]
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
    IF e_op && '{c,m}' THEN
        WITH made AS (
            INSERT INTO objects AS o (kind, namespace, name, uid, rv, create_rv, tenant, scope_kind, scope, deleting, locked, body)
            SELECT e_kind[k.i], e_namespace[k.i], e_name[k.i], e_uid[k.i], base + k.i, base + k.i, e_tenant[k.i],
                   e_scope_kind[k.i], e_scope[k.i], e_deleting[k.i], e_locked[k.i], e_body[k.i]
            FROM generate_series(1, entries) AS k(i) WHERE e_op[k.i] IN ('c', 'm') AND outcome[k.i] = 0
            RETURNING o.rv, o.kind, o.namespace, o.name, o.uid, o.body)
        INSERT INTO events (rv, kind, op, namespace, name, uid, body)
        SELECT m.rv, m.kind, 'c', m.namespace, m.name, m.uid, m.body FROM made m;
        GET DIAGNOSTICS steps = ROW_COUNT;
        written := written + steps;
    END IF;
    IF written <> cardinality(array_positions(outcome, 0::smallint)) THEN
        RAISE EXCEPTION 'rows are not as writer % says', p_writer USING ERRCODE = 'SB002';
    END IF;

    -- THE LEDGER. A row that is above its limit keeps its ceiling, lowered to what is allocated. It gets a new one only
    -- where l_yields says that it may be above its limit. A row above its limit without a ceiling violates the CHECK.
    -- LEAST ignores NULL, so it must not be used for a row that has no ceiling.
    IF true = ANY (l_changed) THEN
        INSERT INTO ledger AS g (
            scope_kind, scope, domain, key, listed, mandatory, limits, children, hard, allocated, excess, ceiling)
        SELECT s_kind[k.scope], s_name[k.scope], k.domain, k.key, k.listed, k.mandatory, k.limits, k.children, k.hard,
               k.allocated, k.excess,
               CASE WHEN k.allocated > k.hard AND k.yields THEN k.allocated
                    WHEN k.allocated > k.hard AND k.ceiling IS NOT NULL THEN least(k.ceiling, k.allocated) END
        FROM unnest(l_scope, l_domain, l_key, l_listed, l_mandatory, l_limits, l_children, l_hard, l_allocated, l_excess, l_ceiling,
                    l_changed, l_yields)
             AS k(scope, domain, key, listed, mandatory, limits, children, hard, allocated, excess, ceiling, changed, yields)
        WHERE k.changed
        ON CONFLICT ON CONSTRAINT ledger_pkey DO UPDATE
        SET listed = excluded.listed, mandatory = excluded.mandatory, limits = excluded.limits,
            children = excluded.children, hard = excluded.hard, allocated = excluded.allocated, excess = excluded.excess,
            ceiling = excluded.ceiling;
        IF NOT fits THEN
            PERFORM {settle_excess}(p_stands, array_agg(s_kind[k.scope]), array_agg(s_name[k.scope]), array_agg(k.domain),
                                    array_agg(k.key))
            FROM unnest(l_scope, l_domain, l_key, l_hard, l_allocated, l_excess, l_changed)
                 AS k(scope, domain, key, hard, allocated, excess, changed)
            WHERE k.changed AND (k.excess <> 0 OR k.allocated > k.hard);
        END IF;
        -- Afterwards: an excess that is over is taken back from the scope above with the help of its own row.
        IF 0 = ANY (l_children) THEN
            DELETE FROM ledger g USING generate_series(1, cardinality(l_key)) AS k(i)
            WHERE l_changed[k.i] AND NOT l_listed[k.i] AND l_limits[k.i] = 0 AND l_children[k.i] = 0 AND l_hard[k.i] IS NULL
              AND g.scope_kind = s_kind[l_scope[k.i]] AND g.scope = s_name[l_scope[k.i]] COLLATE "C"
              AND g.domain = l_domain[k.i] COLLATE "C" AND g.key = l_key[k.i] COLLATE "C" AND g.allocated = 0;
        END IF;
    END IF;
    IF true = ANY (s_gone) THEN
        DELETE FROM ledger g USING generate_series(1, cardinality(s_name)) AS k(i)
        WHERE s_gone[k.i] AND g.scope_kind = s_kind[k.i] AND g.scope = s_name[k.i] COLLATE "C";
    END IF;
    IF holding IS NOT NULL THEN
        INSERT INTO holds (uid, scope_kind, scope, domain, key, amount, carried, place, state, reason)
        SELECT h.uid, s_kind[l_scope[h.row]], s_name[l_scope[h.row]], l_domain[h.row], l_key[h.row], h.amount, h.carried,
               h.place, h.state, h.reason
        FROM json_to_recordset(holding)
             AS h(uid uuid, "row" int, amount numeric, carried boolean, place text, state text, reason text);
    END IF;

    -- THE CLAIMS.
    IF cardinality(c_domain) > 0 THEN
        DELETE FROM claims t USING generate_series(1, cardinality(c_domain)) AS k(i)
        WHERE c_was[k.i] IS NOT NULL AND c_holder[k.i] IS NULL
          AND t.domain = c_domain[k.i] COLLATE "C" AND t.place = c_place[k.i] COLLATE "C";
        INSERT INTO claims (domain, place, uid)
        SELECT c_domain[k.i], c_place[k.i], c_holder[k.i] FROM generate_series(1, cardinality(c_domain)) AS k(i)
        WHERE c_holder[k.i] IS NOT NULL AND c_was[k.i] IS DISTINCT FROM c_holder[k.i]
        ON CONFLICT ON CONSTRAINT claims_pkey DO UPDATE SET uid = excluded.uid;
    END IF;

    -- THE PROOF that the batch was committed. If there is a row with the same or a later number, the batch was
    -- cancelled.
    INSERT INTO batches (writer, seq, base, outcome, detail)
    SELECT p_writer, p_seq, base, outcome, detail
    WHERE NOT EXISTS (SELECT FROM batches b WHERE b.writer = p_writer AND b.seq >= p_seq);
    IF NOT FOUND THEN
        RAISE EXCEPTION 'batch % of writer % is cancelled', p_seq, p_writer USING ERRCODE = 'SB001';
    END IF;
    -- A session of any database that listens and never reads fills the server's one notification queue. When it is
    -- full, each commit that notifies fails. So nothing is notified from half full on: readers also poll.
    IF p_notify THEN
        IF pg_notification_queue_usage() < 0.5 THEN
            PERFORM pg_notify('store', (base + entries)::text || ' ' || p_writer::text);
        END IF;
    END IF;
END
$$;

-- Decides each write of a batch by itself, in order, with running totals. The caller holds the counter's lock.
--
-- p_detail holds arrays. batch/charge.rs builds them. In t_, h_ and w_ the elements of one write follow each other.
--   q_  one element a write: its entry, the scope that it stands for (q_own) and the scope that it pays (q_scope)
--       q_fresh: the object is new in the scope that it pays; q_grows: an amount rises there, or a domain is new;
--       q_keyed: its keys change there, so mandatory keys are checked; q_raises: it grants more than before
--       q_hold, q_why: the hold that its charge becomes; q_term, q_limit, q_place: its last element in t_, h_, w_
--   t_  terms: the change of one row of the ledger. The keys of a domain come before the domain, the scope's row last
--   h_  the new limits of the scope that the write stands for
--       h_undercut: 0 the limit may not be below what is allocated, 1 it may where there was no limit, 2 it may always
--   w_  the claims that are made or given up, as indices of c_
CREATE FUNCTION {decide_each}(
    is_held boolean, p_children_max bigint, p_stands smallint[], p_required boolean[], p_detail json,
    INOUT outcome smallint[], INOUT detail text[],
    e_op "char"[], e_uid uuid[], e_tenant text[], e_scope_kind smallint[], e_scope text[], e_deleting boolean[],
    e_locked boolean[],
    s_kind smallint[], s_name text[], s_row int[], s_found boolean[], s_tenant text[], s_parent_kind smallint[],
    s_parent text[], s_deleting boolean[], s_locked boolean[], INOUT s_gone boolean[],
    l_scope int[], l_domain text[], l_key text[], l_parent int[],
    INOUT l_listed boolean[], INOUT l_mandatory boolean[], INOUT l_limits bigint[], INOUT l_children bigint[],
    INOUT l_hard numeric[], INOUT l_allocated numeric[], INOUT l_excess numeric[],
    c_domain text[], c_place text[], c_uid uuid[], c_was uuid[],
    OUT l_changed boolean[], OUT l_yields boolean[], OUT c_holder uuid[], OUT holding json)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
AS $$
#variable_conflict use_variable
DECLARE
    amount_max CONSTANT numeric := {amount_max};
    ancestors_max CONSTANT int := {ancestors_max};
    q_entry int[]; q_own int[]; q_scope int[]; q_fresh boolean[]; q_grows boolean[]; q_keyed boolean[]; q_raises boolean[];
    q_hold text[]; q_why text[]; q_term int[]; q_limit int[]; q_place int[];
    t_row int[]; t_own numeric[]; t_delta numeric[]; t_child int[]; t_carried boolean[]; t_lists boolean[];
    h_row int[]; h_hard numeric[]; h_listed boolean[]; h_mandatory boolean[]; h_undercut int[]; w_place int[];
    s_sound boolean[] := array_fill(false, ARRAY[cardinality(s_name)]);
    held json[] := '{}'; violations text; overdrawn boolean;
    e int; own int; scope int; r int; c int; at int; steps int; keys bigint; was numeric; taken numeric; above numeric; up_row int; uneven int[]; missing text; ancestor record;
    up_kind smallint; up text;
    term_first int; term_last int := 0; limit_first int; limit_last int := 0; place_first int; place_last int := 0;
BEGIN
    SELECT d.* INTO q_entry, q_own, q_scope, q_fresh, q_grows, q_keyed, q_raises, q_hold, q_why, q_term, q_limit, q_place,
                    t_row, t_own, t_delta, t_child, t_carried, t_lists, h_row, h_hard, h_listed, h_mandatory, h_undercut, w_place
    FROM json_to_record(p_detail) AS d(
        q_entry int[], q_own int[], q_scope int[], q_fresh boolean[], q_grows boolean[], q_keyed boolean[], q_raises boolean[],
        q_hold text[], q_why text[], q_term int[], q_limit int[], q_place int[],
        t_row int[], t_own numeric[], t_delta numeric[], t_child int[], t_carried boolean[], t_lists boolean[],
        h_row int[], h_hard numeric[], h_listed boolean[], h_mandatory boolean[], h_undercut int[],
        w_place int[]);
    l_changed := array_fill(false, ARRAY[cardinality(l_key)]);
    l_yields := l_changed;
    c_holder := c_was;

    FOR q IN 1..coalesce(cardinality(q_entry), 0) LOOP
        term_first := term_last + 1; term_last := q_term[q];
        limit_first := limit_last + 1; limit_last := q_limit[q];
        place_first := place_last + 1; place_last := q_place[q];
        e := q_entry[q]; own := q_own[q]; scope := q_scope[q];
        violations := NULL;

        -- A scope that does not exist for the writer is reported first, even before a name that is taken (1 or 2).
        IF scope > 0 AND (q_grows[q] OR q_keyed[q]) AND outcome[e] < 3 THEN
            IF NOT s_found[scope] THEN
                violations := json_build_object('kind', 'ScopeMissing', 'scope_kind', s_kind[scope], 'scope', s_name[scope]);
            ELSIF s_tenant[scope] <> e_tenant[e] THEN
                violations := json_build_object('kind', 'ScopeForeign', 'scope_kind', s_kind[scope], 'scope', s_name[scope]);
            END IF;
            IF violations IS NOT NULL THEN
                outcome[e] := 5; detail[e] := '[' || violations || ']';
            END IF;
        END IF;
        CONTINUE WHEN outcome[e] <> 0;
        IF is_held AND (q_grows[q] OR q_raises[q]) THEN
            outcome[e] := 6;
            CONTINUE;
        END IF;

        -- The scope that the object pays.
        IF scope > 0 AND (q_grows[q] OR q_keyed[q]) THEN
            IF q_grows[q] AND s_deleting[scope] THEN
                violations := concat_ws(',', violations, json_build_object(
                    'kind', 'ScopeTerminating', 'scope_kind', s_kind[scope], 'scope', s_name[scope]));
            END IF;
            IF q_grows[q] AND s_locked[scope] THEN
                violations := concat_ws(',', violations, json_build_object(
                    'kind', 'ScopeLocked', 'scope_kind', s_kind[scope], 'scope', s_name[scope]));
            END IF;
            r := s_row[scope];
            IF q_fresh[q] AND l_children[r] >= p_children_max THEN
                violations := concat_ws(',', violations, json_build_object(
                    'kind', 'TooManyChildren', 'scope_kind', s_kind[scope], 'scope', s_name[scope],
                    'children', p_children_max));
            END IF;
            -- s_sound: a write of the batch has found that all ancestors of the scope exist. That holds until the end
            -- of the batch, because a scope with children is not deleted. Only a scope that is created or changes its
            -- parent can close a cycle, so it always checks.
            IF q_fresh[q] AND (own > 0 OR NOT s_sound[scope]) THEN
                up_kind := s_kind[scope]; up := s_name[scope]; steps := 0;
                LOOP
                    steps := steps + 1;
                    IF steps > ancestors_max OR (own > 0 AND up = s_name[own] AND up_kind = s_kind[own]) THEN
                        violations := concat_ws(',', violations, json_build_object(
                            'kind', 'Cycle', 'scope_kind', s_kind[scope], 'scope', s_name[scope]));
                        EXIT;
                    END IF;
                    at := NULL;
                    FOR i IN 1..cardinality(s_name) LOOP
                        IF s_name[i] = up AND s_kind[i] = up_kind THEN at := i; EXIT; END IF;
                    END LOOP;
                    IF at IS NULL THEN
                        SELECT o.uid IS NOT NULL OR NOT coalesce(p_required[up_kind], false) AS found, o.tenant,
                               o.scope_kind, o.scope, coalesce(o.deleting, false) AS deleting,
                               coalesce(o.locked, false) AS locked
                        INTO ancestor FROM (SELECT) one LEFT JOIN objects o
                        ON o.kind = p_stands[up_kind] AND o.namespace = '' AND o.name = up COLLATE "C";
                        s_name := s_name || up; at := cardinality(s_name); s_kind[at] := up_kind;
                        s_found[at] := ancestor.found; s_tenant[at] := ancestor.tenant;
                        s_parent_kind[at] := ancestor.scope_kind; s_parent[at] := ancestor.scope;
                        s_deleting[at] := ancestor.deleting; s_locked[at] := ancestor.locked; s_sound[at] := false;
                    END IF;
                    IF NOT s_found[at] THEN
                        violations := concat_ws(',', violations, json_build_object(
                            'kind', 'AncestorMissing', 'scope_kind', up_kind, 'scope', up));
                        EXIT;
                    END IF;
                    up := s_parent[at]; up_kind := s_parent_kind[at];
                    IF up IS NULL THEN
                        s_sound[scope] := true;
                        EXIT;
                    END IF;
                END LOOP;
            END IF;
            -- A scope with an excess is not moved: the excess would count in new ancestors, which have not accepted it.
            IF q_fresh[q] AND own > 0 AND e_op[e] = 'u' AND EXISTS (
                SELECT FROM ledger g WHERE g.scope_kind = s_kind[own] AND g.scope = s_name[own] COLLATE "C" AND g.excess <> 0)
            THEN
                violations := concat_ws(',', violations, json_build_object(
                    'kind', 'ScopeOverdrawn', 'scope_kind', s_kind[own], 'scope', s_name[own]));
            END IF;

            -- The amounts and keys. The rows of the write's own scope are searched only if one of them has an excess: a
            -- write may have thousands of keys, and no other writer can go on meanwhile.
            keys := 0;
            overdrawn := own > 0 AND EXISTS (SELECT FROM generate_series(1, cardinality(l_key)) AS k(i)
                                             WHERE l_scope[k.i] = own AND l_excess[k.i] > 0);
            FOR t IN term_first..term_last LOOP
                r := t_row[t];
                CONTINUE WHEN l_scope[r] <> scope;
                IF l_key[r] <> '' THEN
                    was := coalesce(l_hard[r], amount_max);
                    -- The excess of the write's own scope counts in this row already. A raise takes it over, so only
                    -- the rest needs room. If this row is above its limit, nothing is taken over: an excess ends when
                    -- the children shrink, but a raised charge stays.
                    taken := 0;
                    IF t_delta[t] > 0 AND overdrawn THEN
                        SELECT coalesce(max(l_excess[k.i]), 0) INTO taken
                        FROM generate_series(1, cardinality(l_key)) AS k(i)
                        WHERE l_scope[k.i] = own AND l_domain[k.i] = l_domain[r] AND l_key[k.i] = l_key[r];
                        l_yields[r] := l_yields[r] OR taken > 0;
                    END IF;
                    IF t_delta[t] > 0 AND l_allocated[r] + greatest(t_delta[t] - taken, 0) > was THEN
                        violations := concat_ws(',', violations, json_build_object(
                            'kind', 'DoesNotFit', 'scope_kind', s_kind[scope], 'scope', s_name[scope], 'domain', l_domain[r],
                            'key', l_key[r], 'requested', (t_own[t] + t_delta[t])::text, 'hard', was::text,
                            'allocated', l_allocated[r]::text,
                            'would_fit', (t_own[t] + CASE WHEN l_allocated[r] > was THEN 0 ELSE taken + was - l_allocated[r] END)::text));
                    END IF;
                    IF t_carried[t] AND l_hard[r] IS NOT NULL THEN
                        keys := keys + 1;
                    END IF;
                ELSIF l_domain[r] <> '' THEN
                    IF t_lists[t] AND NOT l_listed[r] THEN
                        violations := concat_ws(',', violations, json_build_object(
                            'kind', 'DomainNotListed', 'scope_kind', s_kind[scope], 'scope', s_name[scope],
                            'domain', l_domain[r]));
                    END IF;
                    IF q_keyed[q] AND t_carried[t] AND l_mandatory[r] AND keys < l_limits[r] THEN
                        FOR missing IN
                            SELECT x.key FROM (
                                (SELECT l_key[k.i] AS key FROM generate_series(1, cardinality(l_key)) AS k(i)
                                 WHERE l_scope[k.i] = scope AND l_domain[k.i] = l_domain[r] AND l_hard[k.i] IS NOT NULL
                                 UNION
                                 (SELECT g.key FROM ledger g
                                  WHERE g.scope_kind = s_kind[scope] AND g.scope = s_name[scope] COLLATE "C"
                                    AND g.domain = l_domain[r] COLLATE "C" AND g.hard IS NOT NULL
                                  EXCEPT
                                  SELECT l_key[k.i] FROM generate_series(1, cardinality(l_key)) AS k(i)
                                  WHERE l_scope[k.i] = scope AND l_domain[k.i] = l_domain[r]))
                                EXCEPT
                                SELECT l_key[t_row[k.i]] FROM generate_series(term_first, term_last) AS k(i)
                                WHERE t_carried[k.i] AND l_scope[t_row[k.i]] = scope AND l_domain[t_row[k.i]] = l_domain[r]
                            ) x ORDER BY x.key
                        LOOP
                            violations := concat_ws(',', violations, json_build_object(
                                'kind', 'KeyMissing', 'scope_kind', s_kind[scope], 'scope', s_name[scope],
                                'domain', l_domain[r], 'key', missing));
                        END LOOP;
                    END IF;
                    keys := 0;
                END IF;
            END LOOP;
        END IF;

        -- The limits of the scope that the write stands for. A limit that is below what is allocated may be raised,
        -- even if it is still below afterwards.
        FOR h IN limit_first..limit_last LOOP
            r := h_row[h]; at := l_scope[r];
            IF l_key[r] = '' THEN
                IF l_listed[r] AND NOT h_listed[h] AND l_children[r] > 0 AND p_required[s_kind[at]] IS NOT FALSE THEN
                    violations := concat_ws(',', violations, json_build_object(
                        'kind', 'DomainInUse', 'scope_kind', s_kind[at], 'scope', s_name[at], 'domain', l_domain[r],
                        'children', l_children[r]));
                END IF;
            ELSIF h_hard[h] IS NOT NULL THEN
                IF h_hard[h] < l_allocated[r] AND (l_hard[r] IS NULL OR h_hard[h] < l_hard[r])
                   AND h_undercut[h] < 1 + (l_hard[r] IS NOT NULL)::int
                THEN
                    violations := concat_ws(',', violations, json_build_object(
                        'kind', 'BelowAllocated', 'scope_kind', s_kind[at], 'scope', s_name[at], 'domain', l_domain[r],
                        'key', l_key[r], 'requested', h_hard[h]::text, 'hard', coalesce(l_hard[r], amount_max)::text,
                        'allocated', l_allocated[r]::text, 'would_fit', least(l_allocated[r], l_hard[r])::text));
                END IF;
                IF l_hard[r] IS NULL AND h_mandatory[h] AND l_children[l_parent[r]] > l_children[r] THEN
                    violations := concat_ws(',', violations, json_build_object(
                        'kind', 'ChildrenLackKey', 'scope_kind', s_kind[at], 'scope', s_name[at], 'domain', l_domain[r],
                        'key', l_key[r], 'children', l_children[l_parent[r]] - l_children[r]));
                END IF;
            END IF;
        END LOOP;
        IF own > 0 AND e_op[e] = 'd' AND l_children[s_row[own]] > 0 THEN
            violations := concat_ws(',', violations, json_build_object(
                'kind', 'ScopeInUse', 'scope_kind', s_kind[own], 'scope', s_name[own], 'children', l_children[s_row[own]]));
        END IF;
        FOR w IN place_first..place_last LOOP
            c := w_place[w];
            IF e_op[e] <> 'd' AND c_holder[c] <> e_uid[e] THEN
                violations := concat_ws(',', violations, json_build_object(
                    'kind', 'ClaimTaken', 'domain', c_domain[c], 'place', c_place[c], 'holder', c_holder[c]));
            END IF;
        END LOOP;
        IF violations IS NOT NULL THEN
            outcome[e] := 5; detail[e] := '[' || violations || ']';
            CONTINUE;
        END IF;

        -- The write is accepted: update the running totals.
        uneven := '{}';
        FOR t IN term_first..term_last LOOP
            r := t_row[t];
            IF q_hold[q] IS NULL THEN
                l_allocated[r] := l_allocated[r] + t_delta[t];
                l_children[r] := l_children[r] + t_child[t];
                l_changed[r] := true;
                IF l_excess[r] <> 0 OR l_allocated[r] > l_hard[r] THEN uneven := uneven || r; END IF;
            ELSE
                held := held || json_build_object(
                    'uid', e_uid[e], 'row', r, 'amount', t_own[t], 'carried', t_child[t] < 0, 'state', q_hold[q],
                    'reason', q_why[q], 'place', coalesce((
                        SELECT c_place[w_place[k.w]] FROM generate_series(place_first, place_last) AS k(w)
                        WHERE c_domain[w_place[k.w]] = l_domain[r] LIMIT 1), ''));
            END IF;
        END LOOP;
        FOR h IN limit_first..limit_last LOOP
            r := h_row[h];
            IF l_key[r] = '' THEN
                l_listed[r] := h_listed[h]; l_mandatory[r] := h_mandatory[h];
            ELSE
                at := l_parent[r];
                l_limits[at] := l_limits[at] + (h_hard[h] IS NOT NULL)::int - (l_hard[r] IS NOT NULL)::int;
                l_changed[at] := true;
                l_hard[r] := h_hard[h];
                -- Whether what is allocated now may stay above the limit: it becomes the row's ceiling.
                l_yields[r] := h_undercut[h] > 0;
                IF l_excess[r] <> 0 OR l_allocated[r] > l_hard[r] THEN uneven := uneven || r; END IF;
            END IF;
            l_changed[r] := true;
        END LOOP;
        FOR w IN place_first..place_last LOOP
            c := w_place[w];
            IF e_op[e] <> 'd' THEN
                c_holder[c] := e_uid[e];
            ELSIF q_hold[q] IS NULL AND c_holder[c] = e_uid[e] THEN
                c_holder[c] := NULL;
            END IF;
        END LOOP;
        IF own > 0 THEN
            s_found[own] := e_op[e] <> 'd' OR NOT coalesce(p_required[s_kind[own]], false);
            -- A scope that exists without its object has only lost its limits: later writes may pay it.
            s_gone[own] := e_op[e] = 'd' AND coalesce(p_required[s_kind[own]], true);
            s_tenant[own] := CASE WHEN e_op[e] <> 'd' THEN e_tenant[e] END;
            s_deleting[own] := e_op[e] <> 'd' AND e_deleting[e];
            s_locked[own] := e_op[e] <> 'd' AND e_locked[e];
            -- From the entry: q_scope is 0 for a write that changes no charge.
            s_parent_kind[own] := CASE WHEN e_op[e] <> 'd' THEN e_scope_kind[e] END;
            s_parent[own] := CASE WHEN e_op[e] <> 'd' THEN e_scope[e] END;
        END IF;
        -- A new excess counts in the scope above for the writes that follow. If the batch does not have the row there,
        -- settle_excess() changes it at the end.
        FOREACH at IN ARRAY uneven LOOP
            LOOP
                above := greatest(l_allocated[at] - coalesce(l_hard[at], amount_max), 0) - l_excess[at];
                EXIT WHEN above = 0;
                SELECT k.i INTO up_row FROM generate_series(1, cardinality(l_key)) AS k(i)
                WHERE s_kind[l_scope[k.i]] = s_parent_kind[l_scope[at]] AND s_name[l_scope[k.i]] = s_parent[l_scope[at]]
                  AND l_domain[k.i] = l_domain[at] AND l_key[k.i] = l_key[at];
                EXIT WHEN up_row IS NULL;
                l_excess[at] := l_excess[at] + above; l_changed[at] := true;
                l_allocated[up_row] := l_allocated[up_row] + above; l_changed[up_row] := true;
                l_yields[up_row] := l_yields[up_row] OR above > 0;
                at := up_row;
            END LOOP;
        END LOOP;
    END LOOP;
    holding := CASE WHEN cardinality(held) > 0 THEN array_to_json(held) END;
END
$$;

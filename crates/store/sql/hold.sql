-- Makes amounts count without an object, even above the limits of their scope. They replace an earlier hold of the same
-- uid. Returns false if the scope does not exist. A unique violation means that the uid is an object's, or that its
-- hold is one of another scope or place.
CREATE FUNCTION {hold_amounts}(
    p_stands smallint[], p_required boolean[], p_uid uuid, p_kind smallint, p_scope text, p_state text, p_reason text,
    p_claim_domain text, p_claim_place text, h_domain text[], h_key text[], h_amount numeric[])
RETURNS boolean
LANGUAGE plpgsql
AS $$
#variable_conflict use_variable
BEGIN
    -- The uid comes from a member cluster and may be any. If it has a claim without a hold, it is the uid of an object,
    -- whose own charge could not become a hold later. Before the counter is locked: nobody knows the uid of a future
    -- object.
    IF EXISTS (SELECT FROM claims c WHERE c.uid = p_uid
               AND NOT EXISTS (SELECT FROM holds h WHERE h.uid = p_uid AND h.domain = c.domain AND h.place = c.place)) THEN
        RAISE EXCEPTION 'uid % is an object''s', p_uid USING ERRCODE = 'unique_violation';
    END IF;
    PERFORM FROM rev ORDER BY v DESC LIMIT 1 FOR UPDATE;
    -- The next batch of an import may bring the object itself, which would find its place taken.
    IF EXISTS (SELECT FROM (SELECT * FROM rev ORDER BY v DESC LIMIT 1) r
               WHERE r.held AND r.held_reason = 'an import is under way') THEN
        RAISE EXCEPTION 'an import is under way' USING ERRCODE = 'SB004';
    END IF;
    IF p_required[p_kind] AND NOT EXISTS (SELECT FROM objects o WHERE o.kind = p_stands[p_kind] AND o.namespace = ''
                                          AND o.name = p_scope) THEN
        RETURN false;
    END IF;
    -- A hold is only replaced in the same scope, domains and places.
    IF EXISTS (SELECT FROM holds h WHERE h.uid = p_uid
               AND NOT (h.scope_kind = p_kind AND h.scope = p_scope COLLATE "C"
                        AND (h.domain = '' OR h.domain = ANY (h_domain)
                             AND h.place = CASE WHEN h.domain = p_claim_domain THEN p_claim_place ELSE '' END))) THEN
        RAISE EXCEPTION 'hold % is of another scope or place', p_uid USING ERRCODE = 'unique_violation';
    END IF;
    PERFORM {write_off}(p_stands, p_uid);
    INSERT INTO holds (uid, scope_kind, scope, domain, key, amount, carried, place, state, reason)
    SELECT p_uid, p_kind, p_scope, k.domain, k.key, k.amount, true,
           CASE WHEN k.domain = p_claim_domain THEN p_claim_place ELSE '' END, p_state, p_reason
    FROM unnest(h_domain, h_key, h_amount) AS k(domain, key, amount);
    INSERT INTO ledger AS g (scope_kind, scope, domain, key, children, allocated)
    SELECT p_kind, p_scope, k.domain, k.key, 1, k.amount FROM unnest(h_domain, h_key, h_amount) AS k(domain, key, amount)
    ON CONFLICT ON CONSTRAINT ledger_pkey DO UPDATE
    SET children = g.children + 1, allocated = g.allocated + excluded.allocated,
        ceiling = CASE WHEN g.allocated + excluded.allocated > g.hard THEN g.allocated + excluded.allocated END;
    INSERT INTO claims (domain, place, uid) SELECT p_claim_domain, p_claim_place, p_uid
    WHERE p_claim_place <> '' AND p_claim_domain = ANY (h_domain)
    ON CONFLICT DO NOTHING;
    PERFORM {settle_excess}(p_stands, array_fill(p_kind, ARRAY[cardinality(h_key)]),
                            array_fill(p_scope, ARRAY[cardinality(h_key)]), h_domain, h_key);
    RETURN true;
END
$$;

-- Removes a hold. Returns the number of its rows.
CREATE FUNCTION {write_off}(p_stands smallint[], p_uid uuid)
RETURNS bigint
LANGUAGE plpgsql
AS $$
#variable_conflict use_variable
DECLARE
    gone bigint; k_kind smallint[]; k_scope text[]; k_domain text[]; k_key text[];
BEGIN
    PERFORM FROM rev ORDER BY v DESC LIMIT 1 FOR UPDATE;
    UPDATE ledger g SET allocated = g.allocated - h.amount, children = g.children - h.carried::int,
        ceiling = CASE WHEN g.allocated - h.amount > g.hard THEN g.allocated - h.amount END
    FROM holds h
    WHERE h.uid = p_uid AND g.scope_kind = h.scope_kind AND g.scope = h.scope AND g.domain = h.domain AND g.key = h.key;
    SELECT array_agg(h.scope_kind), array_agg(h.scope), array_agg(h.domain), array_agg(h.key)
    INTO k_kind, k_scope, k_domain, k_key FROM holds h WHERE h.uid = p_uid;
    IF k_kind IS NULL THEN
        RETURN 0;
    END IF;
    PERFORM {settle_excess}(p_stands, k_kind, k_scope, k_domain, k_key);
    DELETE FROM ledger g USING holds h
    WHERE h.uid = p_uid AND g.scope_kind = h.scope_kind AND g.scope = h.scope AND NOT g.listed AND g.limits = 0
      AND g.children = 0 AND g.hard IS NULL AND g.allocated = 0;
    DELETE FROM claims c USING holds h
    WHERE h.uid = p_uid AND c.domain = h.domain AND c.place = h.place AND c.uid = p_uid;
    DELETE FROM holds WHERE uid = p_uid;
    GET DIAGNOSTICS gone = ROW_COUNT;
    RETURN gone;
END
$$;

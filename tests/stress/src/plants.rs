//! Planted bugs prove that the test can fail. Each changes the text of a database function in a copy of the
//! database; none exists in shipped code.

use crate::findings::Finding;
use anyhow::{Context, Result, ensure};
use sqlx::postgres::PgConnection;

/// A bug.
#[derive(Debug)]
pub(crate) struct Plant {
    /// What it is called on the command line.
    pub(crate) name: &'static str,
    /// Statements before the function is changed.
    before: &'static str,
    /// The function, as its file says.
    function: &'static str,
    /// What must find it.
    pub(crate) found_by: Finding,
    /// What stands in the function …
    find: &'static str,
    /// … and what shall stand there.
    replace: &'static str,
}

/// All of them.
pub(crate) const PLANTS: [Plant; 17] = [
    Plant {
        name: "amounts-unchecked",
        before: "ALTER TABLE ledger DROP CONSTRAINT ledger_never_over_committed",
        function: "decide_each",
        found_by: Finding::OverCommit,
        find: "IF t_delta[t] > 0 AND l_allocated[r] + greatest(t_delta[t] - taken, 0) > was THEN",
        replace: "IF false THEN",
    },
    Plant {
        name: "raise-uncharged",
        before: "SELECT 1",
        function: "decide_each",
        found_by: Finding::Difference,
        find: "                l_allocated[r] := l_allocated[r] + t_delta[t];",
        replace: "                l_allocated[r] := l_allocated[r] + \
                  CASE WHEN e_op[e] = 'u' THEN least(t_delta[t], 0) ELSE t_delta[t] END;",
    },
    Plant {
        name: "move-uncharged",
        before: "SELECT 1",
        function: "decide_each",
        found_by: Finding::Difference,
        find: "                l_allocated[r] := l_allocated[r] + t_delta[t];",
        replace: "                l_allocated[r] := l_allocated[r] + \
                  CASE WHEN e_op[e] = 'm' THEN least(t_delta[t], 0) ELSE t_delta[t] END;",
    },
    Plant {
        name: "move-halved",
        before: "SELECT 1",
        function: "apply_batch",
        found_by: Finding::History,
        find: "    IF written <> cardinality(array_positions(outcome, 0::smallint)) THEN",
        replace: "    IF 'm' = ANY (e_op) AND random() < 0.2 THEN\n        \
                  DELETE FROM objects o USING generate_series(1, entries) AS k(i)\n        \
                  WHERE e_op[k.i] = 'm' AND o.kind = e_kind[k.i] AND o.rv = base + k.i;\n        \
                  DELETE FROM events x USING generate_series(1, entries) AS k(i)\n        \
                  WHERE e_op[k.i] = 'm' AND x.rv = base + k.i;\n    END IF;\n    \
                  IF written <> cardinality(array_positions(outcome, 0::smallint)) THEN",
    },
    Plant {
        name: "adopt-halved",
        before: "SELECT 1",
        function: "apply_batch",
        found_by: Finding::Torn,
        find: "    IF p_rehearse OR (p_rehearse IS NULL AND 0 <> ANY (outcome)) THEN",
        replace: "    IF p_rehearse THEN",
    },
    Plant {
        name: "sum-unchecked",
        before: "ALTER TABLE ledger DROP CONSTRAINT ledger_never_over_committed",
        function: "apply_batch",
        found_by: Finding::OverCommit,
        find: "k.grow = 0 OR k.allocated + k.grow <= coalesce(k.hard, amount_max)",
        replace: "k.grow IS NOT NULL",
    },
    Plant {
        name: "sum-uncharged",
        before: "SELECT 1",
        function: "apply_batch",
        found_by: Finding::Difference,
        find: "array_agg(k.allocated + k.delta)",
        replace: "array_agg(k.allocated + CASE WHEN random() < 0.01 THEN least(k.delta, 0) ELSE k.delta END)",
    },
    Plant {
        name: "event-outside-the-transaction",
        before: "SELECT 1",
        function: "apply_batch",
        found_by: Finding::Lost,
        find: "\n    -- THE CLAIMS.",
        replace: "\n    DELETE FROM events x WHERE x.rv > base AND random() < 0.002;\n    -- THE CLAIMS.",
    },
    Plant {
        name: "revision-before-the-lock",
        before: "CREATE SEQUENCE early START 1000000",
        function: "apply_batch",
        found_by: Finding::Watch,
        find: "    UPDATE rev SET v = rev.v + entries WHERE rev.v >= (SELECT max(r.v) FROM rev r)\n    \
               RETURNING rev.v - entries, rev.held, rev.held AND rev.held_reason = 'an import is under way'\n    \
               INTO STRICT base, is_held, is_importing;",
        replace: "    SELECT min(nextval('early')) - 1 INTO base FROM generate_series(1, entries);\n    \
                  PERFORM pg_sleep(random() * 0.01);\n    \
                  UPDATE rev SET v = greatest(rev.v, base + entries) WHERE rev.id = 1 RETURNING rev.held, false \
                  INTO STRICT is_held, is_importing;",
    },
    Plant {
        name: "version-unchecked",
        before: "SELECT 1",
        function: "apply_batch",
        found_by: Finding::Difference,
        find: " AND o.rv = e_expected[k.i]",
        replace: "",
    },
    Plant {
        name: "outcome-guessed",
        before: "SELECT 1",
        function: "apply_batch",
        found_by: Finding::Applied,
        find: "    SELECT p_writer, p_seq, base, outcome, detail\n",
        replace: "    SELECT p_writer, -p_seq, base, outcome, detail\n",
    },
    Plant {
        name: "excess-stays-below",
        before: "SELECT 1",
        function: "settle_excess",
        found_by: Finding::Difference,
        find: "SET allocated = g.allocated + k.more,",
        replace: "SET allocated = g.allocated,",
    },
    Plant {
        name: "excess-stays-below-in-a-batch",
        before: "SELECT 1",
        function: "decide_each",
        found_by: Finding::Difference,
        find: "l_allocated[up_row] := l_allocated[up_row] + above;",
        replace: "l_allocated[up_row] := l_allocated[up_row] + least(above, 0);",
    },
    Plant {
        name: "excess-taken-over-tenfold",
        before: "SELECT 1",
        function: "decide_each",
        found_by: Finding::OverCommit,
        find: "SELECT coalesce(max(l_excess[k.i]), 0) INTO taken",
        replace: "SELECT 10 * coalesce(max(l_excess[k.i]), 0) INTO taken",
    },
    Plant {
        name: "ceiling-blocks-nothing",
        before: "ALTER TABLE ledger DROP CONSTRAINT ledger_never_over_committed",
        function: "decide_each",
        found_by: Finding::OverCommit,
        find: "IF t_delta[t] > 0 AND l_allocated[r] + greatest(t_delta[t] - taken, 0) > was THEN",
        replace: "IF t_delta[t] > 0 AND l_allocated[r] + greatest(t_delta[t] - taken, 0) > was \
                  AND NOT (s_kind[scope] = 2 AND l_excess[r] > 0) THEN",
    },
    Plant {
        name: "growth-without-a-ceiling",
        before: "SELECT 1",
        function: "apply_batch",
        found_by: Finding::ForbiddenGrowth,
        find: "(k.listed OR NOT k.lists) AND",
        replace: "true AND",
    },
    Plant {
        name: "fleet-unlimited",
        before: "ALTER TABLE ledger DROP CONSTRAINT ledger_never_over_committed",
        function: "decide_each",
        found_by: Finding::OverCommit,
        find: "was := coalesce(l_hard[r], amount_max);",
        replace: "was := CASE WHEN s_kind[scope] = 1 THEN amount_max ELSE coalesce(l_hard[r], amount_max) END;",
    },
];

impl Plant {
    /// The bug of a name.
    pub(crate) fn named(name: &str) -> Result<&'static Self> {
        let names: Vec<&str> = PLANTS.iter().map(|p| p.name).collect();
        PLANTS
            .iter()
            .find(|p| p.name == name)
            .with_context(|| format!("no such plant; there are {}", names.join(", ")))
    }

    /// Plants it in a database.
    pub(crate) async fn apply(&self, connection: &mut PgConnection) -> Result<()> {
        sqlx::raw_sql(self.before).execute(&mut *connection).await?;
        let sql = "SELECT pg_get_functiondef(oid) FROM pg_proc WHERE proname LIKE $1 || '\\_%'";
        let text: String = sqlx::query_scalar(sql).bind(self.function).fetch_one(&mut *connection).await?;
        ensure!(text.contains(self.find), "the function does not hold what {} replaces", self.name);
        let changed = text.replace(self.find, self.replace);
        sqlx::raw_sql(sqlx::AssertSqlSafe(changed)).execute(connection).await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::PLANTS;

    #[test]
    fn every_plant_finds_its_place() {
        let folder = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../crates/store/sql"));
        for plant in PLANTS {
            let text = std::fs::read_to_string(folder.join(format!("{}.sql", plant.function))).unwrap();
            assert!(text.contains(plant.find), "{}", plant.name);
        }
    }
}

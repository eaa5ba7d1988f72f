//! Replays the history write by write with the audit's own arithmetic, and finds amounts above a limit and growth that
//! were not allowed. Amounts that count without an object have no events; a trigger of the test keeps their history.

use crate::books::{
    BookEntry, Cell, Census, Cost, HeldAmount, PROJECT, REGISTRY, ScopeName, TENANT, Undercut,
};
use crate::findings::{Finding, Findings};
use crate::world::{StoredBody, TestKind};
use anyhow::Result;
use sqlx::Row;
use sqlx::postgres::PgConnection;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use uuid::Uuid;

/// The history of holds. Whoever changes them holds the counter's lock: the revision is the last one before the change.
const HOLD_HISTORY: &str = "
    CREATE TABLE hold_history (
        seq bigserial PRIMARY KEY, rv bigint NOT NULL, begins boolean NOT NULL, uid uuid NOT NULL, scope_kind smallint NOT NULL,
        scope text NOT NULL, domain text NOT NULL, key text NOT NULL, amount numeric NOT NULL, carried boolean NOT NULL);
    CREATE FUNCTION note_hold() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE
        h holds := CASE WHEN TG_OP = 'INSERT' THEN NEW ELSE OLD END;
    BEGIN
        INSERT INTO hold_history (rv, begins, uid, scope_kind, scope, domain, key, amount, carried)
        VALUES ((SELECT max(r.v) FROM rev r), TG_OP = 'INSERT', h.uid, h.scope_kind, h.scope, h.domain, h.key, h.amount,
                h.carried);
        RETURN NULL;
    END $$;
    CREATE TRIGGER note_hold AFTER INSERT OR DELETE ON holds FOR EACH ROW EXECUTE FUNCTION note_hold()";

/// One event of the history.
#[derive(Debug)]
pub(crate) struct Event<'a> {
    pub(crate) revision: u64,
    pub(crate) kind: TestKind,
    pub(crate) uid: Uuid,
    pub(crate) body: &'a StoredBody,
    /// The object leaves its place.
    pub(crate) leaves: bool,
}

/// A hold that begins or ends.
#[derive(Debug)]
struct HoldEvent {
    /// The last revision before it; of an object that is given up, the last one of its batch.
    revision: u64,
    begins: bool,
    uid: Uuid,
    held: HeldAmount,
}

/// What happened at the limits.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LimitCounts {
    /// Limits put below what counts against them.
    pub(crate) undercuts: u64,
    /// Raises that took over what was above a limit.
    pub(crate) taken_over: u64,
    /// Growth by those who may not make budget.
    pub(crate) bound: u64,
    /// Rows of holds that began, and ended.
    pub(crate) holds: u64,
}

/// The state that history has come to.
#[derive(Debug, Default)]
pub(crate) struct Replay {
    pub(crate) census: Census,
    pub(crate) counts: LimitCounts,
    holds: VecDeque<HoldEvent>,
    last_hold: i64,
}

impl Replay {
    /// Has the database keep the history of holds.
    pub(crate) async fn prepare(connection: &mut PgConnection) -> Result<()> {
        sqlx::raw_sql(HOLD_HISTORY).execute(connection).await?;
        Ok(())
    }

    /// Reads on in the history of holds. It has to be read after the events.
    pub(crate) async fn read_holds(&mut self, connection: &mut PgConnection) -> sqlx::Result<()> {
        let query = "SELECT seq, rv, begins, uid, scope_kind, scope, domain, key, \
             (amount / 1000000000)::bigint AS amount, carried FROM hold_history WHERE seq > $1 ORDER BY seq";
        for row in sqlx::query(query).bind(self.last_hold).fetch_all(connection).await? {
            self.last_hold = row.try_get("seq")?;
            let held = HeldAmount {
                scope: ScopeName::new(row.try_get("scope_kind")?, row.try_get("scope")?),
                cell: Cell::new(row.try_get("domain")?, row.try_get("key")?),
                amount: i128::from(row.try_get::<i64, _>("amount")?),
                carried: row.try_get("carried")?,
            };
            let revision = row.try_get::<i64, _>("rv")?.unsigned_abs();
            let (begins, uid) = (row.try_get("begins")?, row.try_get("uid")?);
            self.holds.push_back(HoldEvent { revision, begins, uid, held });
        }
        Ok(())
    }

    /// Everything that is known of holds has happened.
    pub(crate) fn finish(&mut self) {
        self.hold_until(u64::MAX);
    }

    /// One write.
    pub(crate) fn step(&mut self, event: &Event<'_>, findings: &mut Findings) {
        self.hold_until(event.revision);
        if event.leaves {
            return self.leave(event, findings);
        }
        let after = BookEntry::of(event.kind, event.body);
        let before = self.census.entries.get(&event.uid).cloned();
        let write = JudgedWrite {
            census: &self.census,
            revision: event.revision,
            name: event.body.name(),
            bound: event.body.bound,
            before: before.as_ref(),
            after: &after,
        };
        write.judge(&mut self.counts, findings);
        self.census.put(event.uid, after);
    }

    fn hold_until(&mut self, revision: u64) {
        while let Some(event) = self.holds.pop_front_if(|event| event.revision < revision) {
            self.hold(&event);
        }
    }

    fn hold(&mut self, event: &HoldEvent) {
        self.counts.holds += 1;
        self.census.books.hold(&event.held, if event.begins { 1 } else { -1 });
    }

    /// What an object leaves behind counts from the moment it goes.
    fn leave(&mut self, event: &Event<'_>, findings: &mut Findings) {
        let entry = self.census.take(event.uid);
        if let Some(scope) = entry.and_then(|entry| entry.grants.filter(|scope| scope.kind == PROJECT)) {
            let left = self.census.books.row(&scope, &Cell::default()).children;
            if left != 0 {
                findings.add(Finding::OverCommit, || {
                    format!("{}: {scope} went, and {left} pay it", event.revision)
                });
            }
        }
        let is_its = |hold: &HoldEvent| hold.begins && hold.uid == event.uid;
        let (its, others) = std::mem::take(&mut self.holds).into_iter().partition::<VecDeque<_>, _>(is_its);
        self.holds = others;
        for hold in &its {
            self.hold(hold);
        }
    }
}

/// A write, and what there was before it.
struct JudgedWrite<'a> {
    census: &'a Census,
    revision: u64,
    name: &'a str,
    bound: bool,
    before: Option<&'a BookEntry>,
    after: &'a BookEntry,
}

impl JudgedWrite<'_> {
    fn judge(&self, counts: &mut LimitCounts, findings: &mut Findings) {
        if let Some(scope) = &self.after.pays {
            self.judge_charge(scope, counts, findings);
            self.judge_place(scope, counts, findings);
        }
        if let Some(scope) = &self.after.grants {
            self.judge_limits(scope, counts, findings);
        }
    }

    /// What the object cost its scope before.
    fn had(&self, cell: &Cell) -> Option<Cost> {
        let before = self.before.filter(|before| before.pays == self.after.pays);
        before.and_then(|before| before.costs.get(cell)).copied()
    }

    /// The scope that it is.
    fn own(&self) -> Option<&ScopeName> {
        self.after.grants.as_ref().filter(|_| self.after.is_scope)
    }

    /// By row, what it costs more than before.
    fn growth(&self) -> BTreeMap<&Cell, i128> {
        let more = |(cell, cost): (_, &Cost)| {
            let had = self.had(cell).unwrap_or_default();
            (cell, cost.amount - had.amount)
        };
        self.after.costs.iter().map(more).filter(|(_, more)| *more > 0).collect()
    }

    /// What grows must fit. What its own children have above its limit counts above already: a raise takes it over, where
    /// all of it fits.
    fn judge_charge(&self, scope: &ScopeName, counts: &mut LimitCounts, findings: &mut Findings) {
        let books = &self.census.books;
        for (cell, more) in self.growth() {
            let excess = self.own().map_or(0, |own| books.row(own, cell).excess());
            counts.taken_over += u64::from(excess > 0);
            let row = books.row(scope, cell);
            let total = row.total() + (more - excess).max(0);
            if let Some(hard) = row.hard.filter(|hard| total > *hard) {
                findings.add(Finding::OverCommit, || {
                    format!("{}: {} takes {total} of {hard} {cell} of {scope}", self.revision, self.name)
                });
            }
        }
    }

    /// Where it may grow at all.
    fn judge_place(&self, scope: &ScopeName, counts: &mut LimitCounts, findings: &mut Findings) {
        let books = &self.census.books;
        let growth = self.growth();
        let is_new = |cell: &&Cell| {
            let carried = |cost: Cost| cost.carried;
            cell.resource.is_empty() && !self.had(cell).is_some_and(carried)
        };
        let joined: BTreeSet<&Cell> = self.after.costs.keys().filter(is_new).collect();
        let mut forbid = |why: String| {
            findings.add(Finding::ForbiddenGrowth, || format!("{}: {} {why}", self.revision, self.name));
        };
        if (!growth.is_empty() || !joined.is_empty()) && books.is_closed(scope) {
            forbid(format!("grows in {scope}, which is locked or being deleted"));
        }
        if joined.contains(&Cell::default()) {
            match books.owner(scope) {
                None if scope.kind == PROJECT => forbid(format!("comes to {scope}, which is not there")),
                Some(owner) if owner != self.after.tenant => {
                    forbid(format!("comes to {scope}, which is of tenant {owner}"));
                }
                _ => {}
            }
            let own = self.own().filter(|_| self.before.is_some());
            if own.is_some_and(|own| books.rows_of(own).any(|(_, row)| row.excess() != 0)) {
                forbid(format!("goes to {scope} with more than its limits"));
            }
        }
        let raised = self.raised();
        for cell in
            self.after.costs.keys().filter(|cell| cell.resource.is_empty() && !cell.cluster.is_empty())
        {
            let joins = joined.contains(cell);
            let grows = joins
                || raised.contains(cell.cluster.as_str())
                || growth.keys().any(|grown| grown.cluster == cell.cluster);
            let bound = self.bound && scope.kind == TENANT && grows && cell.cluster != REGISTRY;
            counts.bound += u64::from(bound);
            if (bound || joins && scope.kind != TENANT) && !books.row(scope, cell).listed {
                forbid(format!("grows in {cell}, which {scope} does not have"));
            }
        }
    }

    /// Clusters in which its limits are higher than before, or gone.
    fn raised(&self) -> BTreeSet<&str> {
        let before = self.before.into_iter().flat_map(|before| &before.limits);
        let is_raised = |(cell, was): &(&Cell, &Option<i128>)| {
            let is = self.after.limits.get(cell).copied().flatten();
            was.is_some_and(|was| is.is_none_or(|is| is > was))
        };
        before.filter(is_raised).map(|(cell, _)| cell.cluster.as_str()).collect()
    }

    /// A limit stays at or above what counts against it, unless it may not.
    fn judge_limits(&self, scope: &ScopeName, counts: &mut LimitCounts, findings: &mut Findings) {
        for (cell, hard) in &self.after.limits {
            let row = self.census.books.row(scope, cell);
            let Some(hard) =
                hard.filter(|hard| row.total() > *hard && row.hard.is_none_or(|was| *hard < was))
            else {
                continue;
            };
            let may = match self.after.undercut {
                Undercut::Refused => false,
                Undercut::WhereUnlimited => row.hard.is_none(),
                Undercut::Accepted => true,
            };
            counts.undercuts += u64::from(may);
            if !may {
                findings.add(Finding::OverCommit, || {
                    let total = row.total();
                    format!(
                        "{}: {} limits {cell} of {scope} to {hard}, below {total}",
                        self.revision, self.name
                    )
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::{HardUnits, units};

    #[derive(Default)]
    struct Story {
        replay: Replay,
        revision: u64,
        findings: Findings,
    }

    impl Story {
        fn step(&mut self, kind: TestKind, name: &str, body: &StoredBody, leaves: bool) {
            self.revision += 1;
            let name = format!("{kind:?}/{name}");
            let uid = Uuid::from_u128(name.bytes().fold(0, |id, byte| id * 31 + u128::from(byte)));
            let event = Event { revision: self.revision, kind, uid, body, leaves };
            self.replay.step(&event, &mut self.findings);
        }

        fn write(&mut self, kind: TestKind, body: &StoredBody) {
            self.step(kind, body.name(), body, false);
        }

        fn cluster(&mut self, amount: u64, derived: &[&str]) {
            self.write(TestKind::Cluster, &StoredBody::cluster("c", units(amount), derived));
        }

        fn tenant(&mut self, name: &str, ceiling: Option<u64>) {
            self.write(TestKind::Tenant, &StoredBody::of_tenant(name, hard(ceiling)));
        }

        fn root(&mut self, name: &str, amount: u64) {
            self.write(TestKind::Project, &StoredBody::project(name, "t", "", hard(Some(amount))));
        }

        fn row(&self, kind: i16, name: &str) -> (i128, i128) {
            let row = self.replay.census.books.row(&ScopeName::new(kind, name), &Cell::new("c", "pods"));
            (row.total(), row.excess())
        }

        /// What was found since it was asked last.
        fn found(&mut self) -> Vec<Finding> {
            let found = std::mem::take(&mut self.findings);
            [Finding::OverCommit, Finding::ForbiddenGrowth]
                .into_iter()
                .filter(|one| found.has(*one))
                .collect()
        }
    }

    fn hard(amount: Option<u64>) -> BTreeMap<String, HardUnits> {
        amount.map(|amount| ("c".to_owned(), HardUnits { hard: units(amount) })).into_iter().collect()
    }

    #[test]
    fn a_ceiling_below_what_there_is_counts_above_in_full_and_lets_nothing_grow() {
        let mut story = Story::default();
        story.cluster(10, &[]);
        story.root("p", 8);
        story.tenant("t", Some(6));
        assert_eq!((story.row(TENANT, "t"), story.row(1, "fleet")), ((8, 2), (8, 0)));
        story.root("p", 7);
        assert_eq!((story.row(TENANT, "t"), story.row(1, "fleet")), ((7, 1), (7, 0)));
        story.tenant("t", Some(7));
        assert_eq!(story.found(), []);
        story.tenant("t", Some(6));
        assert_eq!(story.found(), [Finding::OverCommit], "there was a ceiling already");
        story.root("p", 8);
        assert_eq!(story.found(), [Finding::OverCommit]);
        story.tenant("t", None);
        story.root("p", 50);
        assert_eq!((story.found(), story.row(1, "fleet")), (Vec::new(), (0, 0)));
    }

    #[test]
    fn what_follows_from_nodes_may_fall_and_what_is_explicit_may_not() {
        let mut story = Story::default();
        story.cluster(10, &["cpu", "pods"]);
        story.tenant("t", Some(9));
        story.cluster(5, &["cpu", "pods"]);
        assert_eq!((story.found(), story.row(1, "fleet")), (Vec::new(), (9, 4)));
        story.tenant("u", Some(1));
        assert_eq!(story.found(), [Finding::OverCommit]);
        let mut story = Story::default();
        story.cluster(10, &[]);
        story.tenant("t", Some(9));
        story.cluster(5, &[]);
        assert_eq!(story.found(), [Finding::OverCommit]);
    }

    #[test]
    fn a_raise_takes_over_what_counts_above_and_no_more() {
        let mut story = Story::default();
        story.cluster(12, &[]);
        story.root("p", 12);
        story.tenant("t", Some(10));
        story.tenant("t", Some(12));
        assert_eq!((story.found(), story.row(1, "fleet")), (Vec::new(), (12, 0)));
        story.tenant("t", Some(13));
        assert_eq!(story.found(), [Finding::OverCommit]);
    }

    #[test]
    fn nothing_is_taken_over_where_the_scope_above_is_above_its_limit_too() {
        let mut story = Story::default();
        story.cluster(12, &["cpu", "pods"]);
        story.root("p", 12);
        story.tenant("t", Some(10));
        story.cluster(11, &["cpu", "pods"]);
        assert_eq!((story.found(), story.row(1, "fleet")), (Vec::new(), (12, 1)));
        story.tenant("t", Some(11));
        assert_eq!(story.found(), [Finding::OverCommit]);
    }

    #[test]
    fn who_may_not_make_budget_grows_below_a_ceiling_only() {
        let mut story = Story::default();
        story.cluster(10, &[]);
        let bound = |amount| {
            let mut root = StoredBody::project("p", "t", "", hard(Some(amount)));
            root.bound = true;
            root
        };
        story.write(TestKind::Project, &bound(1));
        assert_eq!(story.found(), [Finding::ForbiddenGrowth]);
        story.tenant("t", Some(5));
        story.write(TestKind::Project, &bound(2));
        assert_eq!(story.found(), []);
        story.tenant("t", None);
        story.write(TestKind::Project, &bound(1));
        assert_eq!(story.found(), []);
        story.write(TestKind::Project, &bound(2));
        assert_eq!(story.found(), [Finding::ForbiddenGrowth]);
    }

    #[test]
    fn what_counts_without_an_object_goes_up_and_leaves_no_room() {
        let mut story = Story::default();
        story.cluster(10, &[]);
        story.tenant("t", Some(6));
        story.root("p", 6);
        let (scope, cell) = (ScopeName::new(PROJECT, "p"), Cell::new("c", "pods"));
        let held = HeldAmount { scope, cell, amount: 8, carried: true };
        let (revision, uid) = (story.revision, Uuid::from_u128(1));
        story.replay.holds.push_back(HoldEvent { revision, begins: true, uid, held });
        story.cluster(9, &[]);
        assert_eq!(
            (story.row(PROJECT, "p"), story.row(TENANT, "t"), story.row(1, "fleet")),
            ((8, 2), (8, 2), (8, 0))
        );
        assert_eq!(story.found(), []);
        story.write(TestKind::Namespace, &StoredBody::namespace("p", "n", "c", units(1)).owned_by("t"));
        story.step(TestKind::Project, "p", &StoredBody::project("p", "t", "", hard(None)), true);
        assert_eq!(story.found(), [Finding::OverCommit]);
    }

    #[test]
    fn what_is_shut_gone_or_anothers_takes_nothing() {
        let mut story = Story::default();
        story.cluster(10, &[]);
        let mut locked = StoredBody::project("p", "t", "", hard(Some(6)));
        locked.status.locked = Some(true);
        story.write(TestKind::Project, &locked);
        story.write(TestKind::Project, &StoredBody::project("r", "t", "", hard(Some(6))));
        for (project, tenant) in [("p", "t"), ("q", "t"), ("r", "u")] {
            let namespace = StoredBody::namespace(project, "n", "c", units(1)).owned_by(tenant);
            story.write(TestKind::Namespace, &namespace);
            assert_eq!(story.found(), [Finding::ForbiddenGrowth], "{project}");
        }
        let namespace = StoredBody::namespace("r", "n", "c", units(1)).owned_by("t");
        story.write(TestKind::Namespace, &namespace);
        assert_eq!(story.found(), []);
    }
}

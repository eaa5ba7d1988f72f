//! Scopes of several kinds: clusters give their capacity to a fleet, tenants take of it, projects take of their tenant.

use crate::kit::{amounts, keys_of, refused};
use runtime::{Metrics, Tasks};
use std::sync::Arc;
use store::audit::Accounts;
use store::model::{Before, Change, Growth, NewState, ScopeRole, Write};
use store::quota::{Account, Grants, Limits, Scope, ScopeKind, Undercut, Violation};
use store::testing::{self, Database};
use store::{Access, Attributes, Config, Error, Key, Kind, KindId, Revision, Store};
use uuid::Uuid;

pub(crate) const CLUSTER: KindId = KindId(1);
pub(crate) const TENANT: KindId = KindId(2);
pub(crate) const PROJECT: KindId = KindId(3);

struct Sample(&'static str, Option<ScopeRole>);

impl Kind for Sample {
    fn group(&self) -> &'static str {
        "sample"
    }
    fn resource(&self) -> &'static str {
        self.0
    }
    fn stands_for(&self) -> Option<ScopeRole> {
        self.1
    }
    fn fields(&self) -> &'static [&'static str] {
        &[]
    }
    fn attributes(&self, _body: &[u8]) -> Attributes {
        Attributes::default()
    }
}

fn kinds() -> Vec<Arc<dyn Kind>> {
    let required = |kind| Some(ScopeRole { scope: ScopeKind(kind), required: true });
    vec![
        // A cluster gives to the fleet and does not stand for it: that is there without an object.
        Arc::new(Sample("clusters", None)),
        // So is a tenant's, and what no tenant object limits is unlimited.
        Arc::new(Sample("tenants", Some(ScopeRole { scope: ScopeKind(2), required: false }))),
        Arc::new(Sample("projects", required(3))),
    ]
}

pub(crate) fn fleet() -> Scope {
    Scope::new(ScopeKind(1), "fleet")
}

pub(crate) fn tenant_scope(name: &str) -> Scope {
    Scope::new(ScopeKind(2), name)
}

#[derive(Clone, Debug)]
pub(crate) struct Object {
    kind: KindId,
    name: &'static str,
    pub(crate) uid: Uuid,
    pub(crate) revision: Revision,
    pub(crate) account: Account,
}

impl Object {
    fn new(kind: KindId, name: &'static str, account: Account) -> Self {
        Self { kind, name, uid: Uuid::new_v4(), revision: Revision(0), account }
    }

    pub(crate) fn cluster(name: &'static str, capacity: &str) -> Self {
        Self::new(
            CLUSTER,
            name,
            Account { grants: Some(grants(fleet(), capacity, false)), ..Account::default() },
        )
    }

    pub(crate) fn tenant(name: &'static str, hard: &str) -> Self {
        let grants = Some(grants(tenant_scope(name), hard, true));
        Self::new(TENANT, name, Account { tenant: name.to_owned(), grants, ..paying(fleet(), hard) })
    }

    pub(crate) fn project(tenant: &str, name: &'static str, hard: &str) -> Self {
        let grants = Some(grants(Scope::new(ScopeKind(3), name), hard, true));
        let account = paying(tenant_scope(tenant), hard);
        Self::new(PROJECT, name, Account { tenant: tenant.to_owned(), grants, ..account })
    }

    pub(crate) fn child(tenant: &str, parent: &str, name: &'static str, hard: &str) -> Self {
        let grants = Some(grants(Scope::new(ScopeKind(3), name), hard, true));
        let account = paying(Scope::new(ScopeKind(3), parent), hard);
        Self::new(PROJECT, name, Account { tenant: tenant.to_owned(), grants, ..account })
    }

    pub(crate) fn key(&self) -> Key {
        Key::new(self.kind, "", self.name)
    }

    pub(crate) fn state(&self) -> NewState {
        NewState { body: self.name.to_owned(), account: self.account.clone() }
    }

    pub(crate) fn before(&self) -> Before {
        Before { attributes: Attributes::default(), account: self.account.clone() }
    }

    pub(crate) fn write(&self, change: Change) -> Write {
        let may_grow = !matches!(change, Change::Delete { .. });
        let growth = if may_grow { Growth::Free } else { Growth::Refused };
        Write { key: self.key(), uid: self.uid, change, growth, hold: None }
    }
}

fn grants(scope: Scope, hard: &str, mandatory: bool) -> Grants {
    let limits = |(domain, hard)| (domain, Limits::new(hard, mandatory));
    Grants { scope, domains: amounts(hard).into_iter().map(limits).collect() }
}

/// The same object, whose limits may lie below what is allocated.
pub(crate) fn yielding(mut object: Object, undercut: Undercut) -> Object {
    for limits in object.account.grants.as_mut().unwrap().domains.values_mut() {
        limits.undercut = undercut;
    }
    object
}

fn paying(scope: Scope, hard: &str) -> Account {
    let costs = amounts(hard);
    Account { pays: Some(scope), carries: keys_of(&costs), costs, ..Account::default() }
}

pub(crate) struct ScopeFixture {
    pub(crate) store: Store,
    pub(crate) access: Access,
    _database: Database,
}

impl ScopeFixture {
    pub(crate) async fn new() -> Self {
        let database = testing::database().await.unwrap();
        let store = Store::open(Config::new(&database.url), kinds(), &Tasks::new(), &Metrics::new()).unwrap();
        Self { store, access: Access::internal("test"), _database: database }
    }

    async fn create(&self, mut object: Object) -> Result<Object, Error> {
        let write = object.write(Change::Create(object.state()));
        object.revision = self.store.write(&self.access, write).await?;
        Ok(object)
    }

    async fn update(&self, object: &Object, mut to: Object) -> Result<Object, Error> {
        to.uid = object.uid;
        let (expected, before) = (object.revision, object.before());
        let write = to.write(Change::Update { expected, before, state: to.state() });
        to.revision = self.store.write(&self.access, write).await?;
        Ok(to)
    }

    async fn delete(&self, object: &Object) -> Result<(), Error> {
        let (expected, before) = (object.revision, object.before());
        let write = object.write(Change::Delete { expected, before, last: object.state() });
        self.store.write(&self.access, write).await.map(drop)
    }

    /// The ledger is what these objects say.
    pub(crate) async fn check(&self, objects: impl Into<Vec<Object>>) {
        let report = self.store.audit(&self.access, &NamedAccounts(objects.into())).await.unwrap();
        assert!(report.differences.is_empty(), "{report:?}");
    }
}

/// Finds the account of an object by its name.
struct NamedAccounts(Vec<Object>);

impl Accounts for NamedAccounts {
    fn account(&self, kind: KindId, body: &[u8]) -> Result<Option<Account>, String> {
        let known = self.0.iter().find(|object| object.kind == kind && object.name.as_bytes() == body);
        known.map(|object| Some(object.account.clone())).ok_or_else(|| "an object too many".to_owned())
    }
}

fn shortages(violations: &[Violation]) -> Vec<(Scope, String, String)> {
    let told = |violation: &Violation| match violation {
        Violation::DoesNotFit(told) | Violation::BelowAllocated(told) => {
            (told.scope.clone(), format!("{}/{}", told.domain, told.key), told.would_fit.to_string())
        }
        other => panic!("another violation: {other:?}"),
    };
    violations.iter().map(told).collect()
}

#[tokio::test]
async fn every_level_is_charged_to_the_one_above_and_no_level_gives_more_than_it_has() {
    let tree = ScopeFixture::new().await;
    let c1 = tree.create(Object::cluster("c1", "c1: cpu=10 pods=100")).await.unwrap();
    let c2 = tree.create(Object::cluster("c2", "c2: cpu=5")).await.unwrap();
    // The fleet's limits are not mandatory: a tenant names what it wants of them.
    let t = tree.create(Object::tenant("t", "c1: cpu=8; c2: cpu=5")).await.unwrap();
    let over = refused(tree.create(Object::tenant("u", "c1: cpu=3; c2: cpu=1")).await);
    let told = |key: &str, fits: &str| (fleet(), key.to_owned(), fits.to_owned());
    assert_eq!(shortages(&over), [told("c1/cpu", "2"), told("c2/cpu", "0")]);
    let u = tree.create(Object::tenant("u", "c1: cpu=2")).await.unwrap();

    let p = tree.create(Object::project("t", "p", "c1: cpu=8")).await.unwrap();
    let over = refused(tree.create(Object::project("t", "q", "c1: cpu=1")).await);
    assert_eq!(shortages(&over), [(tenant_scope("t"), "c1/cpu".to_owned(), "0".to_owned())]);
    let below = refused(tree.update(&t, Object::tenant("t", "c1: cpu=7")).await);
    assert_eq!(shortages(&below), [(tenant_scope("t"), "c1/cpu".to_owned(), "8".to_owned())]);

    let below = refused(tree.update(&c1, Object::cluster("c1", "c1: cpu=9")).await);
    assert_eq!(shortages(&below), [told("c1/cpu", "10")]);
    let in_use = |children| Violation::DomainInUse { scope: fleet(), domain: "c1".to_owned(), children };
    assert_eq!(refused(tree.delete(&c1).await), [in_use(2)]);
    tree.delete(&u).await.unwrap();
    let c1 = tree.update(&c1, Object::cluster("c1", "c1: cpu=8")).await.unwrap();
    tree.check([c1, c2, t, p]).await;
}

#[tokio::test]
async fn a_domain_that_no_cluster_gives_is_nobodys() {
    let tree = ScopeFixture::new().await;
    let unlisted = Violation::DomainNotListed { scope: fleet(), domain: "c1".to_owned() };
    assert_eq!(refused(tree.create(Object::tenant("t", "c1: cpu=1")).await), std::slice::from_ref(&unlisted));
    let c1 = tree.create(Object::cluster("c1", "c1: cpu=1")).await.unwrap();
    let t = tree.create(Object::tenant("t", "c1: cpu=1")).await.unwrap();
    tree.delete(&t).await.unwrap();
    tree.delete(&c1).await.unwrap();
    assert_eq!(refused(tree.create(Object::tenant("t", "c1: cpu=1")).await), [unlisted]);
}

#[tokio::test]
async fn what_a_tenant_without_an_object_gives_is_unlimited_until_there_is_one() {
    let tree = ScopeFixture::new().await;
    let p = tree.create(Object::project("t", "p", "c1: cpu=8; c2: cpu=3")).await.unwrap();
    let q = tree.create(Object::project("t", "q", "c1: cpu=4")).await.unwrap();
    let c1 = tree.create(Object::cluster("c1", "c1: cpu=20")).await.unwrap();
    let below = refused(tree.create(Object::tenant("t", "c1: cpu=10")).await);
    assert_eq!(shortages(&below), [(tenant_scope("t"), "c1/cpu".to_owned(), "12".to_owned())]);

    // A ceiling on what exists: what lies above it counts above, too.
    let t = tree.create(yielding(Object::tenant("t", "c1: cpu=10"), Undercut::WhereUnlimited)).await.unwrap();
    tree.check([p.clone(), q.clone(), c1.clone(), t.clone()]).await;
    let over = refused(tree.create(Object::tenant("u", "c1: cpu=9")).await);
    assert_eq!(shortages(&over), [(fleet(), "c1/cpu".to_owned(), "8".to_owned())]);
    let over = refused(tree.update(&q, Object::project("t", "q", "c1: cpu=5")).await);
    assert_eq!(shortages(&over), [(tenant_scope("t"), "c1/cpu".to_owned(), "4".to_owned())]);
    let lower = yielding(Object::tenant("t", "c1: cpu=9"), Undercut::WhereUnlimited);
    assert_eq!(shortages(&refused(tree.update(&t, lower).await)).len(), 1, "it has a ceiling already");
    let elsewhere = tree.update(&p, Object::project("t", "p", "c1: cpu=8; c2: cpu=30")).await.unwrap();
    let q = tree.update(&q, Object::project("t", "q", "c1: cpu=1")).await.unwrap();
    tree.check([elsewhere.clone(), q.clone(), c1.clone(), t.clone()]).await;
    let fits = tree.create(Object::project("t", "r", "c1: cpu=1")).await.unwrap();
    let in_use = Violation::ScopeInUse { scope: tenant_scope("t"), children: 3 };
    assert_eq!(refused(tree.delete(&t).await), [in_use]);
    for project in [&elsewhere, &q, &fits] {
        tree.delete(project).await.unwrap();
    }
    tree.delete(&t).await.unwrap();
    tree.check([c1]).await;
}

#[tokio::test]
async fn a_raise_takes_over_what_counts_above_already() {
    let tree = ScopeFixture::new().await;
    let p = tree.create(Object::project("t", "p", "c1: cpu=12")).await.unwrap();
    let c1 = tree.create(Object::cluster("c1", "c1: cpu=12")).await.unwrap();
    let t = tree.create(yielding(Object::tenant("t", "c1: cpu=10"), Undercut::WhereUnlimited)).await.unwrap();
    let over = refused(tree.update(&t, Object::tenant("t", "c1: cpu=13")).await);
    assert_eq!(shortages(&over), [(fleet(), "c1/cpu".to_owned(), "12".to_owned())]);
    let t = tree.update(&t, Object::tenant("t", "c1: cpu=12")).await.unwrap();
    tree.check([p.clone(), c1.clone(), t.clone()]).await;
    let over = refused(tree.create(Object::tenant("u", "c1: cpu=1")).await);
    assert_eq!(shortages(&over), [(fleet(), "c1/cpu".to_owned(), "0".to_owned())]);
    tree.delete(&p).await.unwrap();
    tree.check([c1, t]).await;
}

#[tokio::test]
async fn nothing_is_taken_over_where_the_scope_above_is_above_its_limit_too() {
    let tree = ScopeFixture::new().await;
    let p = tree.create(Object::project("t", "p", "c1: cpu=15")).await.unwrap();
    let c1 = tree.create(Object::cluster("c1", "c1: cpu=15")).await.unwrap();
    let t = tree.create(yielding(Object::tenant("t", "c1: cpu=10"), Undercut::WhereUnlimited)).await.unwrap();
    let derived = |amount| yielding(Object::cluster("c1", &format!("c1: cpu={amount}")), Undercut::Accepted);
    let c1 = tree.update(&c1, derived(12)).await.unwrap();
    // What exceeds the ceiling would be granted for good when the project has less, and what is granted would not fit.
    for raised in ["c1: cpu=11", "c1: cpu=15", "c1: cpu=16"] {
        let over = refused(tree.update(&t, Object::tenant("t", raised)).await);
        assert_eq!(shortages(&over), [(fleet(), "c1/cpu".to_owned(), "10".to_owned())], "{raised}");
    }
    tree.check([p.clone(), c1.clone(), t.clone()]).await;

    // From above it can be legitimised.
    let c1 = tree.update(&c1, derived(15)).await.unwrap();
    let t = tree.update(&t, Object::tenant("t", "c1: cpu=15")).await.unwrap();
    tree.check([p.clone(), c1.clone(), t.clone()]).await;

    // With less below, what is above goes.
    let p = tree.update(&p, Object::project("t", "p", "c1: cpu=1")).await.unwrap();
    let t = tree.update(&t, Object::tenant("t", "c1: cpu=10")).await.unwrap();
    let c1 = tree.update(&c1, derived(10)).await.unwrap();
    let over = refused(tree.update(&t, Object::tenant("t", "c1: cpu=11")).await);
    assert_eq!(shortages(&over), [(fleet(), "c1/cpu".to_owned(), "10".to_owned())]);
    tree.check([p, c1, t]).await;
}

#[tokio::test]
async fn a_cluster_that_shrinks_refuses_growth_and_nothing_else() {
    let tree = ScopeFixture::new().await;
    let c1 = tree.create(Object::cluster("c1", "c1: cpu=10")).await.unwrap();
    let t = tree.create(Object::tenant("t", "c1: cpu=8")).await.unwrap();
    let c1 =
        tree.update(&c1, yielding(Object::cluster("c1", "c1: cpu=6"), Undercut::Accepted)).await.unwrap();
    tree.check([c1.clone(), t.clone()]).await;
    let over = refused(tree.update(&t, Object::tenant("t", "c1: cpu=9")).await);
    assert_eq!(shortages(&over), [(fleet(), "c1/cpu".to_owned(), "8".to_owned())]);
    let p = tree.create(Object::project("t", "p", "c1: cpu=8")).await.unwrap();
    let c1 =
        tree.update(&c1, yielding(Object::cluster("c1", "c1: cpu=5"), Undercut::Accepted)).await.unwrap();
    tree.check([c1.clone(), t.clone(), p.clone()]).await;
    let c1 =
        tree.update(&c1, yielding(Object::cluster("c1", "c1: cpu=9"), Undercut::Accepted)).await.unwrap();
    let t = tree.update(&t, Object::tenant("t", "c1: cpu=9")).await.unwrap();
    tree.check([c1, t, p]).await;
}

#[tokio::test]
async fn who_may_not_make_budget_grows_where_there_is_a_ceiling_only() {
    let tree = ScopeFixture::new().await;
    let within = |write: Write, domains: &[&str]| Write {
        growth: Growth::Within(domains.iter().map(|domain| (*domain).to_owned()).collect()),
        ..write
    };
    let unlisted =
        |domain: &str| Violation::DomainNotListed { scope: tenant_scope("t"), domain: domain.to_owned() };
    let p = Object::project("t", "p", "c1: cpu=2; c2: cpu=1");
    let create = within(p.write(Change::Create(p.state())), &["c1"]);
    assert_eq!(refused(tree.store.write(&tree.access, create.clone()).await), [unlisted("c1")]);
    let c1 = tree.create(Object::cluster("c1", "c1: cpu=4")).await.unwrap();
    let t = tree.create(Object::tenant("t", "c1: cpu=4")).await.unwrap();
    let revision = tree.store.write(&tree.access, create).await.unwrap();
    let p = Object { revision, ..p };

    let raise = |from: &Object, hard: &str| {
        let to = Object { uid: from.uid, ..Object::project("t", "p", hard) };
        let change = Change::Update { expected: from.revision, before: from.before(), state: to.state() };
        (to.write(change), to)
    };
    let (write, _) = raise(&p, "c1: cpu=2; c2: cpu=3");
    let bound = within(write.clone(), &["c1", "c2"]);
    assert_eq!(
        refused(tree.store.write(&tree.access, bound).await),
        [unlisted("c2")],
        "it has it, and wants more"
    );
    let (write, to) = raise(&p, "c1: cpu=4; c2: cpu=1");
    let revision = tree.store.write(&tree.access, within(write, &["c1", "c2"])).await.unwrap();
    let p = Object { revision, ..to };
    let (write, _) = raise(&p, "c1: cpu=4; c2:");
    let bound = within(write, &["c1", "c2"]);
    assert_eq!(
        refused(tree.store.write(&tree.access, bound).await),
        [unlisted("c2")],
        "without a limit it is more"
    );
    let (write, _) = raise(&p, "c1: cpu=5; c2: cpu=1");
    let over = refused(tree.store.write(&tree.access, within(write, &["c1", "c2"])).await);
    assert_eq!(shortages(&over), [(tenant_scope("t"), "c1/cpu".to_owned(), "4".to_owned())]);
    tree.check([c1, t, p]).await;
}

#[tokio::test]
async fn what_a_write_leaves_above_a_limit_counts_for_those_behind_it_in_the_same_batch() {
    let tree = ScopeFixture::new().await;
    let p = tree.create(Object::project("t", "p", "c1: cpu=12")).await.unwrap();
    let c1 = tree.create(Object::cluster("c1", "c1: cpu=20")).await.unwrap();
    let t = yielding(Object::tenant("t", "c1: cpu=10"), Undercut::WhereUnlimited);
    let u = Object::tenant("u", "c1: cpu=10");
    let raise = yielding(Object::tenant("u", "c1: cpu=9"), Undercut::WhereUnlimited);
    // the first waits alone, the others behind it in one batch
    let first = Object::cluster("c9", "c9: cpu=1");
    let writes = [&first, &t, &u].map(|object| object.write(Change::Create(object.state())));
    let sent = writes.into_iter().map(|write| tree.store.write(&tree.access, write));
    let mut results = futures_util::future::join_all(sent).await;
    let over = refused(results.pop().unwrap());
    assert_eq!(shortages(&over), [(fleet(), "c1/cpu".to_owned(), "8".to_owned())]);
    let t = Object { revision: results.pop().unwrap().unwrap(), ..t };
    let first = Object { revision: results.pop().unwrap().unwrap(), ..first };
    tree.check([p.clone(), c1.clone(), t.clone(), first.clone()]).await;

    // Less below makes room above, in the same batch.
    let lower = Object { uid: p.uid, ..Object::project("t", "p", "c1: cpu=11") };
    let change = Change::Update { expected: p.revision, before: p.before(), state: lower.state() };
    let writes = [
        first.write(Change::Update {
            expected: first.revision,
            before: first.before(),
            state: first.state(),
        }),
        lower.write(change),
        raise.write(Change::Create(raise.state())),
    ];
    let sent = writes.into_iter().map(|write| tree.store.write(&tree.access, write));
    let results = futures_util::future::join_all(sent).await;
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    tree.check([lower, c1, t, raise, first]).await;
}

#[tokio::test]
async fn what_counts_above_for_a_scope_goes_with_it_and_its_last_child_in_one_batch() {
    let tree = ScopeFixture::new().await;
    let p = tree.create(Object::project("t", "p", "c2: cpu=12")).await.unwrap();
    // No cluster gives it: the tenant's limit costs nobody anything.
    let mut t = yielding(Object::tenant("t", "c2: cpu=10"), Undercut::WhereUnlimited);
    t.account.costs.clear();
    t.account.carries.clear();
    let t = tree.create(t).await.unwrap();
    tree.check([p.clone(), t.clone()]).await;
    // the first waits alone, the others behind it in one batch
    let first = Object::cluster("c9", "c9: cpu=1");
    let gone = |object: &Object| {
        let (expected, before) = (object.revision, object.before());
        object.write(Change::Delete { expected, before, last: object.state() })
    };
    let writes = [first.write(Change::Create(first.state())), gone(&p), gone(&t)];
    let sent = writes.into_iter().map(|write| tree.store.write(&tree.access, write));
    let results = futures_util::future::join_all(sent).await;
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    tree.check([first]).await;
}

#[tokio::test]
async fn what_counts_above_for_a_limit_goes_with_it_and_its_last_child_in_one_batch() {
    let tree = ScopeFixture::new().await;
    let p = tree.create(Object::project("t", "p", "c2: cpu=12")).await.unwrap();
    // No cluster gives it: the tenant's limit costs nobody anything.
    let tenant = |hard: &str| {
        let mut tenant = yielding(Object::tenant("t", hard), Undercut::WhereUnlimited);
        tenant.account.costs.clear();
        tenant.account.carries.clear();
        tenant
    };
    let t = tree.create(tenant("c2: cpu=10")).await.unwrap();
    tree.check([p.clone(), t.clone()]).await;
    // the first waits alone, the others behind it in one batch
    let first = Object::cluster("c9", "c9: cpu=1");
    let without = Object { uid: t.uid, ..tenant("") };
    let gone = Change::Delete { expected: p.revision, before: p.before(), last: p.state() };
    let change = Change::Update { expected: t.revision, before: t.before(), state: without.state() };
    let writes = [first.write(Change::Create(first.state())), p.write(gone), without.write(change)];
    let sent = writes.into_iter().map(|write| tree.store.write(&tree.access, write));
    let results = futures_util::future::join_all(sent).await;
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    tree.check([without, first]).await;
}

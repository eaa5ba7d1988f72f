//! A store of three sample kinds: projects are scopes, namespaces are charged to them, notes are charged to nobody.

use meta::quantity::Quantity;
use runtime::{Metrics, Tasks};
use serde::{Deserialize, Serialize};
use sqlx::PgConnection;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::audit::{Accounts, AuditReport};
use store::model::{Before, Change, Growth, NewState, ScopeRole, Write};
use store::quota::{
    Account, Amounts, Claim, Grants, HoldChange, HoldState, Keys, Limits, Scope, ScopeKind, Violation,
};
use store::testing::model::Model;
use store::testing::{self, Database};
use store::{Access, Attributes, Config, Error, Key, Kind, KindId, Revision, Sight, Store, TenantSight};
use uuid::Uuid;

pub(crate) const PROJECTS: KindId = KindId(1);
pub(crate) const NAMESPACES: KindId = KindId(2);
pub(crate) const NOTES: KindId = KindId(3);
/// What projects stand for.
pub(crate) const PROJECT: ScopeKind = ScopeKind(1);

pub(crate) struct Kit {
    pub(crate) store: Store,
    pub(crate) database: Database,
    pub(crate) tasks: Tasks,
    pub(crate) access: Access,
}

/// An object as its last writer knows it; also its stored body.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub(crate) struct Object {
    pub(crate) kind: i16,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: Uuid,
    #[serde(skip)]
    pub(crate) revision: Revision,
    pub(crate) tenant: String,
    pub(crate) deleting: bool,
    pub(crate) locked: bool,
    /// The scope that it is charged to.
    pub(crate) scope: String,
    pub(crate) amounts: Amounts,
    pub(crate) keys: Keys,
    /// A project's limits.
    pub(crate) limits: Option<Amounts>,
    pub(crate) claim: Option<(String, String)>,
}

pub(crate) struct Sample(&'static str, bool);

impl Kind for Sample {
    fn group(&self) -> &'static str {
        "sample"
    }
    fn resource(&self) -> &'static str {
        self.0
    }
    fn stands_for(&self) -> Option<ScopeRole> {
        self.1.then_some(ScopeRole { scope: PROJECT, required: true })
    }
    fn fields(&self) -> &'static [&'static str] {
        &[]
    }
    fn attributes(&self, body: &[u8]) -> Attributes {
        let object: Option<Object> = serde_json::from_slice(body).ok();
        Attributes { tenant: object.map(|object| object.tenant.into()), ..Attributes::default() }
    }
}

/// Reads accounts out of the bodies.
pub(crate) struct Bodies;

impl Accounts for Bodies {
    fn account(&self, kind: KindId, body: &[u8]) -> Result<Option<Account>, String> {
        if kind > NOTES {
            return Ok(None);
        }
        let object: Object = serde_json::from_slice(body).map_err(|error| error.to_string())?;
        Ok(Some(object.account()))
    }
}

pub(crate) fn kinds() -> Vec<Arc<dyn Kind>> {
    vec![
        Arc::new(Sample("projects", true)),
        Arc::new(Sample("namespaces", false)),
        Arc::new(Sample("notes", false)),
    ]
}

/// `"c1: cpu=4 memory=8Gi; c2:"`
pub(crate) fn amounts(text: &str) -> Amounts {
    let clusters = text.split(';').map(str::trim).filter(|part| !part.is_empty());
    clusters
        .map(|part| {
            let (cluster, list) = part.split_once(':').unwrap();
            let list = list.split_whitespace().map(|pair| {
                let (resource, amount) = pair.split_once('=').unwrap();
                (resource.to_owned(), amount.parse::<Quantity>().unwrap())
            });
            (cluster.trim().to_owned(), list.collect())
        })
        .collect()
}

/// The scope of a project.
pub(crate) fn scope(project: &str) -> Scope {
    Scope::new(PROJECT, project)
}

pub(crate) fn keys_of(amounts: &Amounts) -> Keys {
    amounts.iter().map(|(cluster, list)| (cluster.clone(), list.keys().cloned().collect())).collect()
}

impl Object {
    pub(crate) fn project(name: &str, parent: &str, limits: &str) -> Self {
        let limits = amounts(limits);
        let mut object = Self::note(name);
        object.kind = PROJECTS.0;
        parent.clone_into(&mut object.scope);
        object.amounts.clone_from(&limits);
        object.keys = keys_of(&limits);
        object.limits = Some(limits);
        object
    }

    pub(crate) fn namespace(project: &str, name: &str, hard: &str) -> Self {
        let mut object = Self::note(name);
        object.kind = NAMESPACES.0;
        project.clone_into(&mut object.namespace);
        project.clone_into(&mut object.scope);
        object.amounts = amounts(hard);
        object.keys = keys_of(&object.amounts);
        let cluster = object.amounts.keys().next().cloned().unwrap_or_default();
        object.claim = Some((cluster, name.to_owned()));
        object
    }

    pub(crate) fn note(name: &str) -> Self {
        Self {
            kind: NOTES.0,
            namespace: String::new(),
            name: name.to_owned(),
            uid: Uuid::new_v4(),
            revision: Revision(0),
            tenant: "t".to_owned(),
            deleting: false,
            locked: false,
            scope: String::new(),
            amounts: Amounts::new(),
            keys: BTreeMap::new(),
            limits: None,
            claim: None,
        }
    }

    /// A project's new limits, which are its charge as well.
    pub(crate) fn limit(&mut self, limits: &str) {
        let limits = amounts(limits);
        self.amounts.clone_from(&limits);
        self.keys = keys_of(&limits);
        self.limits = Some(limits);
    }

    /// A namespace's new hard: the charge is the high-water mark.
    pub(crate) fn hard(&mut self, hard: &str) {
        let hard = amounts(hard);
        self.keys = keys_of(&hard);
        for (cluster, list) in hard {
            let held = self.amounts.entry(cluster).or_default();
            for (resource, amount) in list {
                let most = held.get(&resource).copied().map_or(amount, |old| old.max(amount));
                held.insert(resource, most);
            }
        }
    }

    pub(crate) fn key(&self) -> Key {
        Key::new(KindId(self.kind), &self.namespace, &self.name)
    }

    pub(crate) fn account(&self) -> Account {
        let Self { tenant, deleting, locked, .. } = self.clone();
        let flags = Account { tenant, deleting, locked, ..Account::default() };
        if self.kind == NOTES.0 {
            return flags;
        }
        let limits = |hard| Limits::new(hard, true);
        let domains = |all: Amounts| all.into_iter().map(|(domain, hard)| (domain, limits(hard))).collect();
        Account {
            pays: (!self.scope.is_empty()).then(|| scope(&self.scope)),
            costs: self.amounts.clone(),
            carries: self.keys.clone(),
            grants: self.limits.clone().map(|all| Grants { scope: scope(&self.name), domains: domains(all) }),
            claims: self.claim.clone().into_iter().map(|(domain, place)| Claim { domain, place }).collect(),
            ..flags
        }
    }

    pub(crate) fn state(&self) -> NewState {
        NewState { body: serde_json::to_string(self).unwrap(), account: self.account() }
    }

    pub(crate) fn before(&self) -> Before {
        let attributes = Attributes { tenant: Some(self.tenant.as_str().into()), ..Attributes::default() };
        Before { attributes, account: self.account() }
    }

    fn write(&self, change: Change, may_grow: bool) -> Write {
        let growth = if may_grow { Growth::Free } else { Growth::Refused };
        Write { key: self.key(), uid: self.uid, change, growth, hold: None }
    }

    pub(crate) fn create(&self) -> Write {
        self.write(Change::Create(self.state()), true)
    }

    pub(crate) fn update(&self, to: &Self, may_grow: bool) -> Write {
        let change = Change::Update { expected: self.revision, before: self.before(), state: to.state() };
        self.write(change, may_grow)
    }

    /// To where `to` lies.
    pub(crate) fn relocate(&self, to: &Self) -> Write {
        let (before, NewState { body: last, .. }) = (self.before(), self.state());
        let change = Change::Move { to: to.key(), expected: self.revision, before, last, state: to.state() };
        self.write(change, true)
    }

    /// The same in another project.
    pub(crate) fn in_project(&self, project: &str) -> Self {
        Self { namespace: project.to_owned(), scope: project.to_owned(), ..self.clone() }
    }

    pub(crate) fn delete(&self) -> Write {
        let change = Change::Delete { expected: self.revision, before: self.before(), last: self.state() };
        self.write(change, false)
    }

    pub(crate) fn abandon(&self, reason: &str) -> Write {
        let held = HoldChange { state: HoldState::Abandoned, reason: reason.to_owned() };
        Write { hold: Some(held), ..self.delete() }
    }
}

impl Kit {
    pub(crate) async fn new() -> Self {
        Self::on(testing::database().await.unwrap()).await
    }

    pub(crate) async fn on(database: Database) -> Self {
        Self::with(Config::new(&database.url), database).await
    }

    pub(crate) async fn with(mut config: Config, database: Database) -> Self {
        // Tests make many mistakes, and are to see what comes after them.
        config.checked_batches = 1;
        let tasks = Tasks::new();
        let store = Store::open(config, kinds(), &tasks, &Metrics::new()).unwrap();
        let kit = Self { store, database, tasks, access: Access::internal("test") };
        kit.until("the database takes writes", || kit.store.database_ok()).await;
        kit
    }

    /// Ends its tasks, for tests that open many.
    pub(crate) async fn stop(self) {
        self.tasks.cancel();
        self.tasks.join(Duration::from_secs(30)).await.unwrap();
    }

    pub(crate) async fn until(&self, what: &str, condition: impl Fn() -> bool) {
        // Less than the half minute after which the store gives up by itself what nobody has answered.
        let deadline = Instant::now() + Duration::from_secs(20);
        while !condition() {
            assert!(Instant::now() < deadline, "waited in vain until {what}: {:?}", self.store.database());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    pub(crate) async fn write(&self, write: Write) -> Result<Revision, Error> {
        self.store.write(&self.access, write).await
    }

    pub(crate) async fn create(&self, mut object: Object) -> Result<Object, Error> {
        object.revision = self.write(object.create()).await?;
        Ok(object)
    }

    /// A main write.
    pub(crate) async fn update(
        &self,
        object: &Object,
        edit: impl FnOnce(&mut Object),
    ) -> Result<Object, Error> {
        let mut to = object.clone();
        edit(&mut to);
        to.revision = self.write(object.update(&to, true)).await?;
        Ok(to)
    }

    pub(crate) async fn relocate(&self, object: &Object, project: &str) -> Result<Object, Error> {
        let mut to = object.in_project(project);
        to.revision = self.write(object.relocate(&to)).await?;
        Ok(to)
    }

    /// A status write.
    pub(crate) async fn account(
        &self,
        object: &Object,
        edit: impl FnOnce(&mut Object),
    ) -> Result<Object, Error> {
        let mut to = object.clone();
        edit(&mut to);
        to.revision = self.write(object.update(&to, false)).await?;
        Ok(to)
    }

    pub(crate) async fn delete(&self, object: &Object) -> Result<Revision, Error> {
        self.write(object.delete()).await
    }

    pub(crate) async fn sql(&self) -> PgConnection {
        self.database.connect().await.unwrap()
    }

    /// Installs a trigger on the table of events. It does nothing until [`Self::set_trap`].
    pub(crate) async fn lay_trap(&self) {
        let statements = "CREATE TABLE trap (seconds float8 NOT NULL, code text NOT NULL); \
             INSERT INTO trap VALUES (0, ''); \
             CREATE FUNCTION trap() RETURNS trigger LANGUAGE plpgsql AS $$ \
             DECLARE t trap; BEGIN SELECT * INTO t FROM trap; \
             IF t.seconds > 0 THEN PERFORM pg_sleep(t.seconds); END IF; \
             IF t.code <> '' THEN RAISE EXCEPTION 'trapped' USING ERRCODE = t.code; END IF; \
             RETURN NULL; END $$; \
             CREATE TRIGGER trap BEFORE INSERT ON events FOR EACH STATEMENT EXECUTE FUNCTION trap()";
        sqlx::raw_sql(statements).execute(&mut self.sql().await).await.unwrap();
    }

    /// From now on every batch sleeps for so long and then fails with this code; an empty code does not fail it.
    pub(crate) async fn set_trap(&self, seconds: f64, code: &str) {
        let query = sqlx::query("UPDATE trap SET seconds = $1, code = $2").bind(seconds).bind(code);
        query.execute(&mut self.sql().await).await.unwrap();
    }

    pub(crate) async fn audit(&self) -> AuditReport {
        self.store.audit(&self.access, &Bodies).await.unwrap()
    }

    /// Checks that the audit finds no difference.
    pub(crate) async fn check(&self) {
        let report = self.audit().await;
        assert!(report.differences.is_empty(), "{report:?}");
    }

    /// The ledger as text, one row a line: `scope/cluster/resource listed limits children hard allocated`.
    pub(crate) async fn ledger(&self) -> Vec<String> {
        let query = "SELECT concat_ws(' ', scope || '/' || domain || '/' || key, listed::int, limits, children, \
             coalesce((hard / 1000000000)::float8::text, '-'), (allocated / 1000000000)::float8::text) \
             FROM ledger ORDER BY scope, domain, key";
        sqlx::query_scalar(query).fetch_all(&mut self.sql().await).await.unwrap()
    }

    /// The events as text: `rv op name`, with revisions counted from the first.
    pub(crate) async fn events(&self) -> Vec<String> {
        let query = "SELECT op::text || ' ' || CASE namespace WHEN '' THEN '' ELSE namespace || '/' END || name FROM events ORDER BY rv";
        sqlx::query_scalar(query).fetch_all(&mut self.sql().await).await.unwrap()
    }
}

/// The access of a caller who sees one tenant and nothing else.
pub(crate) async fn tenant_access(tenant: &str) -> Access {
    access_to_tenants(&[tenant]).await
}

/// The access of a caller who sees these tenants and nothing else.
pub(crate) async fn access_to_tenants(tenants: &[&str]) -> Access {
    struct Tenants;
    impl store::Authorizer for Tenants {
        type Request = [TenantSight];
        type Refusal = ();
        async fn decide(&self, sights: &[TenantSight]) -> Result<(Arc<str>, store::Visibility), ()> {
            Ok((Arc::from("somebody"), store::Visibility::tenants(sights.iter().cloned())))
        }
    }
    let whole = |tenant: &&str| TenantSight { tenant: Arc::from(*tenant), sight: Sight::Whole };
    let sights: Vec<TenantSight> = tenants.iter().map(whole).collect();
    store::authorize(&Tenants, &sights).await.unwrap()
}

/// The violations of a refusal.
pub(crate) fn refused<T: std::fmt::Debug>(result: Result<T, Error>) -> Vec<Violation> {
    match result {
        Err(Error::Refused(violations)) => violations,
        other => panic!("not refused: {other:?}"),
    }
}

/// A write that the store has made.
pub(crate) struct MadeWrite<O> {
    pub(crate) key: Key,
    /// The object after it.
    pub(crate) object: O,
    pub(crate) revision: Revision,
}

/// Checks that the store has decided these writes, in this order, as the model does. Returns those that were made.
pub(crate) fn compare_with_model<O>(
    model: &mut Model,
    writes: Vec<(Write, O)>,
    results: Vec<Result<Revision, Error>>,
) -> Vec<MadeWrite<O>> {
    let mut made = Vec::new();
    for ((write, object), result) in writes.into_iter().zip(results) {
        let revision = *result.as_ref().unwrap_or(&Revision(0));
        let expected = model.write(&write, revision);
        let is_made = expected.is_ok();
        assert_eq!(comparable(result.map(drop)), comparable(expected), "{write:#?}");
        if is_made {
            made.push(MadeWrite { key: write.key, object, revision });
        }
    }
    made
}

/// An outcome as text, without the revision and with the violations in a fixed order.
fn comparable(result: Result<(), Error>) -> String {
    match result {
        Err(Error::Refused(violations)) => {
            let texts: BTreeSet<String> = violations.iter().map(|one| format!("{one:?}")).collect();
            format!("{texts:#?}")
        }
        other => format!("{other:?}"),
    }
}

pub(crate) fn q(text: &str) -> Quantity {
    text.parse().unwrap()
}

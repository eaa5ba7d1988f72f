//! The store as its users see it.

use crate::access::Access;
use crate::batch::WriterConfig;
use crate::cache::{Cache, CacheConfig, CacheStatus, Kinds};
use crate::drift::SchemaDifference;
use crate::footprint::Footprint;
use crate::kinds::{KindName, id_at};
use crate::model::{Attributes, Change, Entry, Key, Kind, KindId, NewState, Revision, Write};
use crate::read::{At, ListQuery, Page, WatchQuery};
use crate::scopes::ScopeRoles;
use crate::tenant_limit::TenantLimiter;
use crate::watch::Watch;
use crate::writer::{DatabaseHealth, Writer, WriterConnection, dry_run_write, write_together};
use crate::{Error, drift, migrate};
use runtime::{Metrics, Tasks};
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

/// Children that a scope may have, unless configured otherwise.
pub const CHILDREN_MAX: i64 = 10_000;

/// How many batches look first after one that was wrong about a row, unless configured otherwise.
pub const CHECKED_BATCHES: u32 = 200;

/// How a store is opened.
#[derive(Clone, Debug)]
pub struct Config {
    /// `postgres://…`. Through a proxy that pools by transaction, [`CacheConfig::prepared`] must be off, and `direct` set.
    pub url: String,
    /// The same database without a proxy in between, for audits and operators; `None` if `url` is that.
    pub direct: Option<String>,
    /// A standby of that database, from which objects and events are read; `None` if the primary is read. The cache then
    /// serves nothing that the primary has not committed, and a read that must be fresh waits until the standby has what the
    /// primary had.
    pub read_from: Option<String>,
    /// Whether batches announce themselves by NOTIFY. Without it a change is seen up to a poll later.
    pub notify: bool,
    /// Children that a scope may have.
    pub children_max: i64,
    /// How much a tenant may have by what callers do who are confined to tenants.
    pub tenant_max: Footprint,
    /// A batch takes the rows to be as its writes say. After a batch that was wrong, so many batches look at the rows
    /// first: writers that race go on racing, and each mistake costs a batch and a line in PostgreSQL's log.
    pub checked_batches: u32,
    /// How the cache follows the database.
    pub cache: CacheConfig,
}

impl Config {
    /// The defaults for a database.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            direct: None,
            read_from: None,
            notify: true,
            children_max: CHILDREN_MAX,
            tenant_max: Footprint::UNLIMITED,
            checked_batches: CHECKED_BATCHES,
            cache: CacheConfig::default(),
        }
    }

    fn open_cache(&self, kinds: Kinds) -> Result<Cache, Error> {
        match &self.read_from {
            Some(standby) => {
                let cache = CacheConfig { primary: Some(self.url.clone()), ..self.cache.clone() };
                Cache::open(standby, kinds, cache)
            }
            None => Cache::open(&self.url, kinds, self.cache.clone()),
        }
    }

    fn writer_config(&self, writer: Uuid, scope_roles: &ScopeRoles) -> WriterConfig {
        WriterConfig {
            writer,
            scope_roles: scope_roles.clone(),
            children_max: self.children_max,
            checked_batches: self.checked_batches,
            notify: self.notify,
            pooled: !self.cache.prepared,
        }
    }
}

/// Objects, revisions, events and the quota ledger in one PostgreSQL database. Clones share everything.
#[derive(Clone, Debug)]
pub struct Store {
    writer: Writer,
    cache: Cache,
    database: Arc<DatabaseHealth>,
    kinds: Arc<[KindName]>,
    scope_roles: ScopeRoles,
    tenant_limiter: TenantLimiter,
    config: Arc<Config>,
}

impl Store {
    /// Opens a store of these kinds. The order of kinds gives them their numbers: a new kind goes to the end.
    ///
    /// PostgreSQL may be away; the store's tasks go on trying and its calls answer [`Error::Unavailable`] meanwhile.
    pub fn open(
        config: Config,
        kinds: Vec<Arc<dyn Kind>>,
        tasks: &Tasks,
        metrics: &Metrics,
    ) -> Result<Self, Error> {
        let names: Arc<[KindName]> = kinds.iter().map(KindName::of).collect();
        let numbered = kinds.iter().enumerate().filter_map(|(at, kind)| Some((id_at(at)?, kind)));
        let scope_roles = ScopeRoles::of_kinds(numbered);
        let known = kinds.into_iter().enumerate().filter_map(|(at, kind)| Some((id_at(at)?, kind)));
        let cache = config.open_cache(known.collect())?;
        cache.register(metrics);
        cache.start(tasks);
        let database = Arc::new(DatabaseHealth::new());
        let writer_config = config.writer_config(cache.0.handover.writer(), &scope_roles);
        let handover = Arc::clone(&cache.0.handover);
        let (names_too, state) = (Arc::clone(&names), Arc::clone(&database));
        let connection = WriterConnection::new(config.url.clone(), names_too, state, Arc::clone(&cache.0));
        let writer = Writer::start(connection, handover, writer_config, tasks, metrics);
        let tenant_limiter = TenantLimiter::new(config.tenant_max, metrics);
        Ok(Self {
            writer,
            cache,
            database,
            kinds: names,
            scope_roles,
            tenant_limiter,
            config: Arc::new(config),
        })
    }

    /// Brings the schema of a database to this version; replicas may go on serving. A schema of a later version is
    /// left as it is, with a warning: this program may be the one that is being replaced.
    pub async fn migrate(url: &str) -> Result<(), Error> {
        migrate::migrate(url).await
    }

    /// Whether the schema of the database is at this version or a later one.
    pub async fn schema_ready(&self) -> Result<bool, Error> {
        migrate::schema_ready(self.url()).await
    }

    /// Changes that somebody has made to the schema by hand; `None` for a schema of another version.
    pub async fn schema_differences(&self) -> Result<Option<Vec<SchemaDifference>>, Error> {
        drift::differences(self.url()).await
    }

    /// The number of a kind.
    pub fn kind_id(&self, group: &str, resource: &str) -> Option<KindId> {
        let index = self.kinds.iter().position(|kind| kind.group == group && kind.resource == resource)?;
        id_at(index)
    }

    /// Whether the database takes writes, as last seen by the writer; the error says why not.
    pub fn database(&self) -> Result<(), String> {
        self.database.get()
    }

    /// Whether the database takes writes.
    pub fn database_ok(&self) -> bool {
        self.database.get().is_ok()
    }

    /// The URL at which a session lasts as long as its connection.
    pub(crate) fn url(&self) -> &str {
        self.config.direct.as_ref().unwrap_or(&self.config.url)
    }

    pub(crate) fn cache(&self) -> &Cache {
        &self.cache
    }

    pub(crate) fn scope_roles(&self) -> &ScopeRoles {
        &self.scope_roles
    }

    /// Makes one write and tells the revision of its change.
    ///
    /// An object that the caller may not see does not exist for him.
    pub async fn write(&self, access: &Access, write: Write) -> Result<Revision, Error> {
        if !visible(access, &write) {
            return Err(Error::NotFound);
        }
        admitted(&write)?;
        let reservation = self.tenant_limiter.reserve(access, &self.cache.0, &write).await?;
        if let Some(reason) = self.database.silence() {
            return Err(Error::Unavailable(reason));
        }
        let revision = runtime::trace::span("store write", self.writer.write(write)).await?;
        if let Some(reservation) = reservation {
            reservation.commit(revision);
        }
        self.cache.note_acknowledged(revision);
        Ok(revision)
    }

    /// The answer that [`Self::write`] would give now. Nothing is written or charged.
    pub async fn check(&self, access: &Access, write: Write) -> Result<(), Error> {
        if !visible(access, &write) {
            return Err(Error::NotFound);
        }
        admitted(&write)?;
        drop(self.tenant_limiter.reserve(access, &self.cache.0, &write).await?);
        let writer_config =
            WriterConfig { notify: false, ..self.config.writer_config(Uuid::new_v4(), &self.scope_roles) };
        // Boxed, so that the future of a write has no room for opening a connection.
        Box::pin(dry_run_write(self.url(), &writer_config, &write)).await.map(|_revision| ())
    }

    /// Makes all of these writes, each to another key, or none of them; with `dry_run` none in any case. The answers
    /// are in the order of the writes. If one write is refused, none is made; a write that could have been made then
    /// still has a revision for an answer.
    pub async fn write_together(
        &self,
        access: &Access,
        writes: Vec<Write>,
        dry_run: bool,
    ) -> Result<Vec<Result<Revision, Error>>, Error> {
        let mut reservations = Vec::with_capacity(writes.len());
        for write in &writes {
            if !visible(access, write) {
                return Err(Error::NotFound);
            }
            admitted(write)?;
            reservations.push(self.tenant_limiter.reserve(access, &self.cache.0, write).await?);
        }
        let writer_config =
            WriterConfig { notify: !dry_run, ..self.config.writer_config(Uuid::new_v4(), &self.scope_roles) };
        let (cache, database) = (&self.cache.0, &self.database);
        let answers =
            Box::pin(write_together(self.url(), cache, database, &writer_config, &writes, dry_run)).await?;
        if dry_run || answers.iter().any(Result::is_err) {
            return Ok(answers);
        }
        for (reservation, answer) in reservations.into_iter().zip(&answers) {
            if let (Some(reservation), Ok(revision)) = (reservation, answer) {
                reservation.commit(*revision);
            }
        }
        if let Some(Ok(last)) = answers.last() {
            self.cache.note_acknowledged(*last);
        }
        Ok(answers)
    }

    /// One object.
    pub async fn get(&self, access: &Access, key: &Key, at: At) -> Result<Arc<Entry>, Error> {
        self.cache.get(access, key, at).await
    }

    /// A page of a list.
    pub async fn list(&self, access: &Access, query: &ListQuery) -> Result<Page, Error> {
        self.cache.list(access, query).await
    }

    /// Opens a watch.
    pub async fn watch(&self, access: &Access, query: &WatchQuery) -> Result<Watch, Error> {
        self.cache.watch(access, query).await
    }

    /// The newest revision, asked of the database.
    pub async fn current_revision(&self) -> Result<Revision, Error> {
        self.cache.current_revision().await
    }

    /// The cache's revision.
    pub fn revision(&self) -> Revision {
        self.cache.revision()
    }

    /// The newest revision that is known here; nobody is asked. A read at it sees the writes that this replica has
    /// answered.
    pub fn seen(&self) -> Revision {
        self.cache.seen()
    }

    /// The newest change of a kind that a list or a watch of this replica may have told of. Whoever follows the kind, and
    /// has come so far, knows of it whatever others were told; no change is missing that is older than what they were told.
    pub fn changed(&self, kind: KindId) -> Revision {
        self.cache.changed(kind)
    }

    /// Whether the cache has been filled since the start.
    pub fn synced(&self) -> bool {
        self.cache.synced()
    }

    /// How old the cache may be: for how long a commit of this replica or another one may be missing in it. `None`
    /// before it was filled. Small while all is well: each look at the database begins it anew.
    pub fn age(&self) -> Option<Duration> {
        self.cache.age()
    }

    /// Waits until [`Self::synced`].
    pub async fn until_synced(&self) {
        self.cache.until_synced().await;
    }

    /// Waits until the cache holds what the database had at a revision or later.
    pub async fn until_filled(&self, revision: Revision) {
        self.cache.until_filled(revision).await;
    }

    /// What the cache tells of itself.
    pub fn cache_status(&self) -> CacheStatus {
        self.cache.status()
    }
}

/// Only a write with `growth` may raise a charge or a grant, and never on an object that is being deleted. An object that
/// is being deleted cannot move, and a move keeps the kind. Whether the state before is the true one is for the
/// compare-and-swap to find out.
fn admitted(write: &Write) -> Result<(), Error> {
    let may_grow = write.growth.is_allowed() && !write.change.state().account.deleting;
    let ends =
        [write.change.before(), write.change.after()].into_iter().flatten().any(|state| state.deleting);
    let stays = |to: &Key| to.kind != write.key.kind || *to == write.key;
    if write.change.destination().is_some_and(|to| stays(to) || ends || write.hold.is_some()) {
        return Err(Error::NotAdmitted);
    }
    match write.change.after() {
        Some(after) if !may_grow && after.outgrows(write.change.before()) => Err(Error::NotAdmitted),
        _ => Ok(()),
    }
}

/// Whether the caller sees what the write touches: a second check of what the authorizer and the read have
/// established.
fn visible(access: &Access, write: &Write) -> bool {
    let sees = |key: &Key, attributes: &Attributes| access.sees(&key.namespace, &key.name, attributes);
    match &write.change {
        // Nobody sees a new cluster-scoped object yet: the caller must see something of the tenant that will own it.
        Change::Create(state) if write.key.namespace.is_empty() => {
            access.visibility().of_tenant(&state.account.tenant).is_some()
        }
        Change::Create(state) => sees(&write.key, &owned_by(state)),
        Change::Update { before, .. } | Change::Delete { before, .. } => sees(&write.key, &before.attributes),
        Change::Move { to, before, state, .. } => {
            sees(&write.key, &before.attributes) && sees(to, &owned_by(state))
        }
    }
}

fn owned_by(state: &NewState) -> Attributes {
    let tenant = &state.account.tenant;
    let tenant = (!tenant.is_empty()).then(|| Box::from(&**tenant));
    Attributes { tenant, ..Attributes::default() }
}

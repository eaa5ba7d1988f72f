//! The public interface of the store.

use crate::access::Access;
use crate::batch::WriterConfig;
use crate::cache::{Cache, CacheConfig, Kinds};
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

/// The default of [`Config::children_max`].
pub const CHILDREN_MAX: i64 = 10_000;

/// The default of [`Config::checked_batches`].
pub const CHECKED_BATCHES: u32 = 200;

/// How a store is opened.
#[derive(Clone, Debug)]
pub struct Config {
    /// The database, `postgres://…`. Behind a proxy that pools transactions, [`CacheConfig::prepared`] must be off, and
    /// `direct` set.
    pub url: String,
    /// The same database without a proxy in between, for audits and operators; `None` if `url` is that.
    pub direct: Option<String>,
    /// A standby of that database, from which objects and events are read; `None` to read from the primary. The cache
    /// then serves nothing that the primary has not committed. A read that must be fresh waits until the standby has
    /// what the primary had.
    pub read_from: Option<String>,
    /// Whether batches announce themselves by NOTIFY. Without it other replicas see a change up to one poll later.
    pub notify: bool,
    /// The maximum number of children of a scope. One more is refused with [`quota::Violation::TooManyChildren`].
    pub children_max: i64,
    /// The most that a tenant's objects may take by writes of callers who are confined to tenants. Beyond it, they fail
    /// with [`Error::Full`].
    pub tenant_max: Footprint,
    /// How many batches check their rows before they write, after a batch that did not check has failed. Usually a
    /// batch takes the rows to be as its writes say. But writers that conflict once often do so again, and each failure
    /// costs a batch and a line in PostgreSQL's log.
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

/// Objects, revisions, events and the quota ledger in one PostgreSQL database. Clones share one store.
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
    /// Opens a store of these kinds. Their order gives them their numbers, so a new kind must be appended.
    ///
    /// PostgreSQL may be away: the store's tasks retry, and its calls return [`Error::Unavailable`] meanwhile.
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
        let (kind_names, state) = (Arc::clone(&names), Arc::clone(&database));
        let connection = WriterConnection::new(config.url.clone(), kind_names, state, Arc::clone(&cache.0));
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

    /// Migrates the schema of a database to this version, while replicas serve. A schema of a later version stays as it
    /// is, with a warning: this program may be the one that is being replaced.
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

    /// The number of a kind; `None` if the store was not opened with it.
    pub fn kind_id(&self, group: &str, resource: &str) -> Option<KindId> {
        let index = self.kinds.iter().position(|kind| kind.group == group && kind.resource == resource)?;
        id_at(index)
    }

    /// Whether the database takes writes, as the writer last saw it. The error says why not.
    pub fn database(&self) -> Result<(), String> {
        self.database.get()
    }

    /// Whether the database takes writes.
    pub fn database_ok(&self) -> bool {
        self.database.get().is_ok()
    }

    /// The URL without a proxy: a session there lasts as long as its connection.
    pub(crate) fn url(&self) -> &str {
        self.config.direct.as_ref().unwrap_or(&self.config.url)
    }

    pub(crate) fn cache(&self) -> &Cache {
        &self.cache
    }

    pub(crate) fn scope_roles(&self) -> &ScopeRoles {
        &self.scope_roles
    }

    /// Makes one write and returns the revision of its change; for a move, that of the creation at the new key.
    ///
    /// An object that the caller may not see does not exist for him. The write was not made after an error, except
    /// after [`Error::Unknown`]: then it may have been made.
    ///
    /// [`Error::NotFound`], [`Error::AlreadyExists`] and [`Error::Conflict`] mean that the object is not as the write
    /// expects, [`Error::Refused`] that quota rules refuse the write, [`Error::Full`] that its tenant has too many
    /// objects. After [`Error::Held`], [`Error::Importing`] or [`Error::Busy`] the same write may succeed later.
    pub async fn write(&self, access: &Access, write: Write) -> Result<Revision, Error> {
        if !is_visible(access, &write) {
            return Err(Error::NotFound);
        }
        check_admitted(&write)?;
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

    /// Checks whether [`Self::write`] would succeed now, and fails as it would. Nothing is written or charged.
    pub async fn check(&self, access: &Access, write: Write) -> Result<(), Error> {
        if !is_visible(access, &write) {
            return Err(Error::NotFound);
        }
        check_admitted(&write)?;
        drop(self.tenant_limiter.reserve(access, &self.cache.0, &write).await?);
        let writer_config =
            WriterConfig { notify: false, ..self.config.writer_config(Uuid::new_v4(), &self.scope_roles) };
        // Boxed, so that the future of a write has no room for opening a connection.
        Box::pin(dry_run_write(self.url(), &writer_config, &write)).await.map(|_revision| ())
    }

    /// Makes all of these writes, or none of them if one is refused; with `dry_run` none in any case. Each write must
    /// have another key. The answers are in the order of the writes. If some writes are refused, the others still have
    /// a revision for an answer, although they are not made.
    ///
    /// An error of the call itself means that no write was made, except after [`Error::Unknown`]: then all of them may
    /// have been made.
    pub async fn write_together(
        &self,
        access: &Access,
        writes: Vec<Write>,
        dry_run: bool,
    ) -> Result<Vec<Result<Revision, Error>>, Error> {
        let mut reservations = Vec::with_capacity(writes.len());
        for write in &writes {
            if !is_visible(access, write) {
                return Err(Error::NotFound);
            }
            check_admitted(write)?;
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

    /// One object. [`Error::NotFound`] if there is none that the caller sees.
    pub async fn get(&self, access: &Access, key: &Key, at: At) -> Result<Arc<Entry>, Error> {
        self.cache.get(access, key, at).await
    }

    /// A page of a list. [`Error::ContinueExpired`] and [`Error::BadContinue`] are about its continue token.
    pub async fn list(&self, access: &Access, query: &ListQuery) -> Result<Page, Error> {
        self.cache.list(access, query).await
    }

    /// Opens a watch. [`Error::Busy`] if [`CacheConfig::watches`] are open.
    pub async fn watch(&self, access: &Access, query: &WatchQuery) -> Result<Watch, Error> {
        self.cache.watch(access, query).await
    }

    /// The newest revision of the database. The cache has it when this returns.
    pub async fn current_revision(&self) -> Result<Revision, Error> {
        self.cache.current_revision().await
    }

    /// The cache's revision.
    pub fn revision(&self) -> Revision {
        self.cache.revision()
    }

    /// The newest revision that this replica knows of, without asking the database. A read at it sees the writes that
    /// this replica has acknowledged.
    pub fn seen(&self) -> Revision {
        self.cache.seen()
    }

    /// The newest change of a kind that a list or a watch of this replica may have shown. A follower of the kind that
    /// has reached this revision knows every change of the kind that this replica has shown to anybody.
    pub fn changed(&self, kind: KindId) -> Revision {
        self.cache.changed(kind)
    }

    /// Whether the cache has been filled since the start.
    pub fn synced(&self) -> bool {
        self.cache.synced()
    }

    /// How old the cache may be: a commit of any replica may be missing in it for this long. `None` before the cache
    /// was filled. Usually short, as each poll of the database starts it anew.
    pub fn age(&self) -> Option<Duration> {
        self.cache.age()
    }

    /// Waits until [`Self::synced`] is true.
    pub async fn until_synced(&self) {
        self.cache.until_synced().await;
    }

    /// Waits until the cache has the state of this revision or of a later one.
    pub async fn until_filled(&self, revision: Revision) {
        self.cache.until_filled(revision).await;
    }
}

/// Fails with [`Error::NotAdmitted`] if a write breaks these rules. Only a write with `growth` may raise a charge or a
/// grant, and only of an object that is not being deleted. An object that is being deleted cannot move, and a move
/// keeps the kind. The compare-and-swap finds out later whether the state before is true.
fn check_admitted(write: &Write) -> Result<(), Error> {
    let may_grow = write.growth.is_allowed() && !write.change.state().account.deleting;
    let is_deleting =
        [write.change.before(), write.change.after()].into_iter().flatten().any(|state| state.deleting);
    let is_no_move = |to: &Key| to.kind != write.key.kind || *to == write.key;
    if write.change.destination().is_some_and(|to| is_no_move(to) || is_deleting || write.hold.is_some()) {
        return Err(Error::NotAdmitted);
    }
    match write.change.after() {
        Some(after) if !may_grow && after.outgrows(write.change.before()) => Err(Error::NotAdmitted),
        _ => Ok(()),
    }
}

/// Whether the caller sees the object of the write. The authorizer and the read have checked this before.
fn is_visible(access: &Access, write: &Write) -> bool {
    let sees = |key: &Key, attributes: &Attributes| access.sees(&key.namespace, &key.name, attributes);
    match &write.change {
        // A new cluster-scoped object is not visible yet: the caller must see something of the tenant that will own it.
        Change::Create(state) if write.key.namespace.is_empty() => {
            access.visibility().of_tenant(&state.account.tenant).is_some()
        }
        Change::Create(state) => sees(&write.key, &attributes_of_owner(state)),
        Change::Update { before, .. } | Change::Delete { before, .. } => sees(&write.key, &before.attributes),
        Change::Move { to, before, state, .. } => {
            sees(&write.key, &before.attributes) && sees(to, &attributes_of_owner(state))
        }
    }
}

fn attributes_of_owner(state: &NewState) -> Attributes {
    let tenant = &state.account.tenant;
    let tenant = (!tenant.is_empty()).then(|| Box::from(&**tenant));
    Attributes { tenant, ..Attributes::default() }
}

//! A registry, whatever its sort.

use super::tenant_limiter::TenantLimiter;
use crate::error::{CallFailure, Error};
use business_types::registry::{ManifestName, RegistryBackend, RegistryRecord};
use futures_util::future::BoxFuture;
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::time::Duration;

/// With this code a look is refused that would find more than is looked through.
pub const TOO_MUCH: u16 = 413;

/// A measurement or a removal that takes longer ends, before its pass does.
pub(super) const WORK_DEADLINE: Duration = Duration::from_secs(100);

/// The registry, and how it is used.
#[derive(Debug)]
pub struct Registry {
    /// None: there is no registry.
    pub backend: Option<Box<dyn Backend>>,
    /// What images of it begin with, where we say who may pull them.
    pub pull_host: Option<String>,
    /// How long content is kept after its object's deletion.
    pub grace: Duration,
    /// Time between two measurements of an object that nothing is heard of.
    pub scan_period: Duration,
    /// Whose objects are worked on.
    pub limiter: TenantLimiter,
}

/// What a look at what is there before an object finds, as long as that may take.
pub(super) async fn with_deadline<T>(look: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    match tokio::time::timeout(WORK_DEADLINE, look).await {
        Ok(found) => found,
        Err(_elapsed) => Err(Error::Registry(CallFailure::deadline(WORK_DEADLINE))),
    }
}

/// What there is to know of an object when its registry is called.
#[derive(Clone, Debug)]
pub struct RegistryPlace {
    pub content: Content,
    /// The object's.
    pub uid: String,
    pub tenant: String,
    pub name: String,
    pub project: String,
    pub display_name: String,
    /// Manifests that no list of the registry may show.
    pub untagged: BTreeSet<ManifestName>,
}

impl RegistryPlace {
    /// `TENANT/NAME`
    pub fn prefix(&self) -> String {
        business_types::registry::prefix(&self.tenant, &self.name)
    }
}

/// What lies below a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    Images,
    Charts,
}

/// Whether the registry has the place for an object now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProvideResult {
    /// It has.
    Provided(RegistryRecord),
    /// It cannot.
    Refused(String),
}

/// What became of what is on record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordedState {
    Present {
        /// Somebody has locked it in the registry itself.
        locked: bool,
    },
    /// It is not there any more.
    Lost,
}

/// What is kept below a prefix.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    pub bytes: u64,
    /// What of it has no tag, neither itself nor an index that names it; behind that, as far as there is room, what has one: it may
    /// lose it while nobody looks.
    pub untagged: Vec<ManifestName>,
}

/// How far a removal has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RemovalProgress {
    /// Nothing was found.
    Done,
    /// Something was, and was removed; another look is needed.
    InProgress(String),
}

/// A registry, as the controllers of its kinds see it.
pub trait Backend: Debug + Send + Sync {
    fn backend_type(&self) -> RegistryBackend;

    /// Sees to it that the place is the object's. With `consent` it takes over what is there and is nobody else's.
    fn provide<'a>(
        &'a self,
        place: &'a RegistryPlace,
        consent: bool,
    ) -> BoxFuture<'a, Result<ProvideResult, Error>>;

    /// What is the object's although nothing is on record: what was made for it, and with `consent` what else is there and
    /// is nobody else's. Makes nothing.
    fn recover<'a>(
        &'a self,
        place: &'a RegistryPlace,
        consent: bool,
    ) -> BoxFuture<'a, Result<Option<RegistryRecord>, Error>>;

    /// Whether what is on record stands.
    fn inspect<'a>(
        &'a self,
        place: &'a RegistryPlace,
        record: &'a RegistryRecord,
    ) -> BoxFuture<'a, Result<RecordedState, Error>>;

    /// `None` where the registry does not tell. Refused with [`TOO_MUCH`] where there is more than can be measured.
    fn measure<'a>(&'a self, place: &'a RegistryPlace) -> BoxFuture<'a, Result<Option<Measured>, Error>>;

    /// Removes what is on record, and nothing else. Where it is cut it goes on the next time. `is_closed`: nothing can be pushed any
    /// more; what was not found before that does not count then.
    fn remove<'a>(
        &'a self,
        place: &'a RegistryPlace,
        record: &'a RegistryRecord,
        is_closed: bool,
    ) -> BoxFuture<'a, Result<RemovalProgress, Error>>;

    /// Whether nothing that was sent can come any more that is not seen yet. Else the time to wait.
    fn writes_have_ended(&self) -> Result<(), Duration>;

    /// How long after an object's deletion something may still be pushed by what was allowed before.
    fn late_push_window(&self) -> Duration;
}

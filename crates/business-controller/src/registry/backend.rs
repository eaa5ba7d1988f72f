//! The trait of registry backends.

use super::tenant_limiter::TenantLimiter;
use crate::error::{CallFailure, Error};
use business_types::registry::{ManifestName, RegistryBackend, RegistryRecord};
use futures_util::future::BoxFuture;
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::time::Duration;

/// The status code of an observation that is refused because there is too much content.
pub const TOO_MUCH: u16 = 413;

/// The deadline of a measurement or removal. It is shorter than that of a pass.
pub(super) const WORK_DEADLINE: Duration = Duration::from_secs(100);

/// The registry and its settings.
#[derive(Debug)]
pub struct Registry {
    /// `None` if there is no registry.
    pub backend: Option<Box<dyn Backend>>,
    /// The host in the names of images, if business-api decides who may pull them.
    pub pull_host: Option<String>,
    /// How long content is kept after the deletion of its object.
    pub grace: Duration,
    /// The period between two measurements of an object without reported changes.
    pub scan_period: Duration,
    /// Limits the passes of each tenant.
    pub limiter: TenantLimiter,
}

/// Runs a look at existing content with a deadline.
pub(super) async fn with_deadline<T>(look: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    match tokio::time::timeout(WORK_DEADLINE, look).await {
        Ok(found) => found,
        Err(_elapsed) => Err(Error::Registry(CallFailure::deadline(WORK_DEADLINE))),
    }
}

/// What a backend is told of an object.
#[derive(Clone, Debug)]
pub struct RegistryPlace {
    pub content: Content,
    /// The uid of the object.
    pub uid: String,
    pub tenant: String,
    pub name: String,
    pub project: String,
    pub display_name: String,
    /// Manifests that may be in no list of the registry.
    pub untagged: BTreeSet<ManifestName>,
}

impl RegistryPlace {
    /// The prefix `TENANT/NAME`.
    pub fn prefix(&self) -> String {
        business_types::registry::prefix(&self.tenant, &self.name)
    }
}

/// The content below a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    Images,
    Charts,
}

/// The outcome of providing a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProvideResult {
    /// The object has the place.
    Provided(RegistryRecord),
    /// The object cannot have the place.
    Refused(String),
}

/// The state of what is on record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordedState {
    Present {
        /// Whether it was locked in the registry itself.
        locked: bool,
    },
    /// It does not exist any more.
    Lost,
}

/// The measured content below a prefix.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    pub bytes: u64,
    /// Manifests without a tag, neither their own nor that of an index which names them. If there is room, manifests
    /// with tags follow: they may lose them unnoticed.
    pub untagged: Vec<ManifestName>,
}

/// The progress of a removal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RemovalProgress {
    /// Nothing was found.
    Done,
    /// Something was found and removed. Another pass is needed.
    InProgress(String),
}

/// A registry, as the controllers of its kinds use it.
pub trait Backend: Debug + Send + Sync {
    fn backend_type(&self) -> RegistryBackend;

    /// Provides the place for the object. With `consent`, takes over existing content that belongs to nobody else.
    fn provide<'a>(
        &'a self,
        place: &'a RegistryPlace,
        consent: bool,
    ) -> BoxFuture<'a, Result<ProvideResult, Error>>;

    /// Finds what belongs to an object without a record: what was made for it, and with `consent` other existing
    /// content that belongs to nobody else. Creates nothing.
    fn recover<'a>(
        &'a self,
        place: &'a RegistryPlace,
        consent: bool,
    ) -> BoxFuture<'a, Result<Option<RegistryRecord>, Error>>;

    /// The state of what is on record.
    fn inspect<'a>(
        &'a self,
        place: &'a RegistryPlace,
        record: &'a RegistryRecord,
    ) -> BoxFuture<'a, Result<RecordedState, Error>>;

    /// Measures the content. `None` if the registry does not tell sizes. Refused with [`TOO_MUCH`] if there is too
    /// much; [`Error::MeasurementBusy`] if it has to wait for other content.
    fn measure<'a>(&'a self, place: &'a RegistryPlace) -> BoxFuture<'a, Result<Option<Measured>, Error>>;

    /// Removes exactly what is on record. An interrupted removal goes on the next time. `is_closed` says that nothing
    /// can be pushed any more; only from then on does it count that nothing was found.
    fn remove<'a>(
        &'a self,
        place: &'a RegistryPlace,
        record: &'a RegistryRecord,
        is_closed: bool,
    ) -> BoxFuture<'a, Result<RemovalProgress, Error>>;

    /// Whether every write that was sent has ended; otherwise the time to wait.
    fn writes_have_ended(&self) -> Result<(), Duration>;

    /// How long after the deletion of an object tokens that were issued before may still push.
    fn late_push_window(&self) -> Duration;
}

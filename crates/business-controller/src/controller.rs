//! The trait that the controller of a kind implements.

use crate::context::Context;
use crate::error::Error;
use crate::kinds::ViewChange;
use crate::objects::RegisteredKind;
use crate::outcome::PassOutcome;
use crate::queue::Lane;
use std::time::Duration;

/// The controller of a kind.
pub trait Controller: RegisteredKind {
    /// An object was added, changed or removed: enqueues every object that depends on it.
    fn changed(cx: &Context, change: &ViewChange<Self>);

    /// Reconciles one object.
    fn reconcile(cx: &Context, key: &Self::Key) -> impl Future<Output = Result<PassOutcome, Error>> + Send;

    /// Enqueues every object, as a periodic resync does.
    fn resync(cx: &Context);

    /// A member cluster has become reachable or unreachable, or its share has changed hands.
    fn cluster_changed(_cx: &Context, _cluster: &str) {}

    /// Something in a namespace of a member cluster has changed.
    fn member_namespace_changed(_cx: &Context, _place: &MemberNamespaceChange<'_>) {}
}

/// A namespace of a member cluster in which something has changed.
#[derive(Clone, Copy, Debug)]
pub struct MemberNamespaceChange<'a> {
    pub cluster: &'a str,
    pub namespace: &'a str,
    pub lane: Lane,
    pub delay: Duration,
}

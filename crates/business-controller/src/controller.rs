//! What a controller of one kind does: whom a change wakes, and a pass over an object.

use crate::context::Context;
use crate::error::Error;
use crate::kinds::ViewChange;
use crate::objects::RegisteredKind;
use crate::outcome::PassOutcome;
use crate::queue::Lane;
use std::time::Duration;

/// The controller of a kind.
pub trait Controller: RegisteredKind {
    /// An object is another one than before: wakes whoever has to look again.
    fn changed(cx: &Context, change: &ViewChange<Self>);

    /// One pass over an object.
    fn reconcile(cx: &Context, key: &Self::Key) -> impl Future<Output = Result<PassOutcome, Error>> + Send;

    /// Looks at every object once more, without a cause.
    fn resync(cx: &Context);

    /// A member cluster answers again, or no more.
    fn cluster_changed(_cx: &Context, _cluster: &str) {}

    /// Something at a place in a member cluster is another one than before.
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

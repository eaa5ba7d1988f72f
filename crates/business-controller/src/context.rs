//! What every pass over an object is given.

use crate::business::Business;
use crate::events::Recorder;
use crate::leader::Fence;
use crate::members::Members;
use crate::objects::{ObjectKey, Objects};
use crate::outcome::ControllerMetrics;
use crate::queue::Queue;
use crate::registry::backend::Registry;
use crate::seal::Seals;
use runtime::Clock;
use std::sync::Arc;
use tokio::sync::Notify;

/// Objects of one group, a member cluster or the projects, that may be at work at a time.
pub const GROUP_RUNNING_MAX: usize = 16;

/// What every pass over an object is given.
#[derive(Debug)]
pub struct Context {
    /// Calls to our API.
    pub business: Business,
    pub objects: Objects,
    pub members: Members,
    /// Objects to look at.
    pub queue: Queue<ObjectKey>,
    /// What the holder of the lease may do.
    pub fence: Arc<Fence>,
    pub events: Recorder,
    pub metrics: ControllerMetrics,
    /// The registry of image namespaces and chart groups.
    pub registry: Registry,
    /// The keys that what we write into member clusters is sealed with.
    pub seals: Seals,
    pub clock: Clock,
    /// Names in member clusters that are never ours.
    pub forbidden: Vec<String>,
    /// An audit is wanted soon: our objects had to be listed anew, so what is known of them may have been another
    /// history's; or a pass waits for one.
    pub audit_wanted: Notify,
}

impl Context {
    /// Now, RFC 3339 in whole seconds.
    pub fn now(&self) -> String {
        meta::time::rfc3339(self.clock.unix_seconds())
    }
}

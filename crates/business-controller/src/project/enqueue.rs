//! Adds projects to the work queue.

use super::kind::BusinessProject;
use crate::context::Context;
use crate::kinds::{ObjectKey as _, RootKey};
use crate::objects::RegisteredKind as _;
use crate::queue::Lane;

/// The group of projects in the queue: no member cluster has an empty name.
const GROUP: &str = "";

/// Enqueues a project. A change that only affects its figures waits until they may be written.
pub fn enqueue_project(cx: &Context, name: &str, lane: Lane) {
    if name.is_empty() {
        return;
    }
    let key = RootKey::new(None, name);
    let wait = if lane == Lane::Later { cx.objects.projects.memory.wait(&key) } else { None };
    cx.wake(&BusinessProject::object_ref(key), GROUP, lane, wait.unwrap_or_default());
}

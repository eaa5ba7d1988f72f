//! Projects that are to be looked at again.

use super::kind::BusinessProject;
use crate::context::Context;
use crate::kinds::{ObjectKey as _, RootKey};
use crate::objects::Tabled as _;
use crate::queue::Lane;

/// The group of projects in the queue: no member cluster has an empty name.
const GROUP: &str = "";

/// Looks at a project again. What only changes its figures waits until they may be written.
pub fn enqueue_project(cx: &Context, name: &str, lane: Lane) {
    if name.is_empty() {
        return;
    }
    let key = RootKey::new(None, name);
    let wait = if lane == Lane::Later { cx.objects.projects.memory.wait(&key) } else { None };
    cx.wake(&BusinessProject::queued(key), GROUP, lane, wait.unwrap_or_default());
}

//! Namespaces that are to be looked at again.

use super::kind::{BusinessNamespace, NamespaceView};
use crate::context::Context;
use crate::objects::Tabled as _;
use crate::queue::Lane;
use std::time::Duration;

/// Looks at a namespace again. Its group in the queue is its member cluster.
pub fn wake_namespace(cx: &Context, object: &NamespaceView, lane: Lane, delay: Duration) {
    let key = BusinessNamespace::queued(object.key.clone());
    cx.queue.add_after(&key, &object.spec.cluster_name, lane, delay);
}

/// Looks at the namespaces of a project again.
pub fn wake_namespaces_of(cx: &Context, project: &str) {
    for object in cx.objects.namespaces.of_project(project) {
        wake_namespace(cx, &object, Lane::Urgent, Duration::ZERO);
    }
}

//! Namespaces that are to be looked at again.

use super::kind::{BusinessNamespace, NamespaceView};
use crate::context::Context;
use crate::kinds::ObjectKey as _;
use crate::objects::Tabled as _;
use crate::queue::Lane;
use std::time::Duration;

/// Looks at a namespace again. Its group in the queue is its member cluster.
pub fn wake_namespace(cx: &Context, object: &NamespaceView, lane: Lane, delay: Duration) {
    let key = BusinessNamespace::queued(object.key.clone());
    cx.queue.add_after(&key, &object.spec.cluster_name, lane, delay);
}

/// Who has a role in a project is another one: looks at its namespaces again, and at those of all projects below.
pub fn wake_access_below(cx: &Context, project: &str) {
    for name in cx.objects.projects.subtree(project) {
        for object in cx.objects.namespaces.of_project(&name) {
            wake_namespace(cx, &object, Lane::Access, Duration::ZERO);
        }
    }
}

/// The same for a cluster that knows people by other names than before.
pub fn wake_access_in_cluster(cx: &Context, cluster: &str) {
    for object in cx.objects.namespaces.in_cluster(cluster) {
        wake_namespace(cx, &object, Lane::Access, Duration::ZERO);
    }
}

/// The same for all projects of a tenant.
pub fn wake_access_of_tenant(cx: &Context, tenant: &str) {
    for project in cx.objects.projects.of_tenant(tenant) {
        for object in cx.objects.namespaces.of_project(project.key.name()) {
            wake_namespace(cx, &object, Lane::Access, Duration::ZERO);
        }
    }
}

//! Adds namespaces to the work queue.

use super::kind::{BusinessNamespace, NamespaceView};
use crate::context::Context;
use crate::kinds::{ObjectKey as _, RootKey};
use crate::namespace_template::enqueue::enqueue_template;
use crate::namespace_template::resolve::{self, ResolvedTemplate};
use crate::objects::RegisteredKind as _;
use crate::queue::{FlowKey, Lane};
use business_types::condition::{self, TEMPLATE_APPLIED};
use std::sync::Arc;
use std::time::Duration;

/// Enqueues a namespace. Its group in the queue is its member cluster. Within the group, tenants are served in turn, or
/// projects where there is no tenant.
pub fn enqueue_namespace(cx: &Context, object: &NamespaceView, lane: Lane, delay: Duration) {
    let key = BusinessNamespace::object_ref(object.key.clone());
    let tenant = object.spec.tenant_id.as_str();
    let owner = if tenant.is_empty() { &*object.key.project } else { tenant };
    cx.enqueue(&key, FlowKey { group: &object.spec.cluster_name, owner }, lane, delay);
}

/// Enqueues the namespaces of a project and of all projects below it: somebody has got or lost a role.
pub fn enqueue_access_in_subtree(cx: &Context, project: &str) {
    for name in cx.objects.projects.subtree(project) {
        enqueue_access(cx, &cx.objects.namespaces.of_project(&name));
    }
}

/// Enqueues the namespaces of a cluster that knows people by other names than before.
pub fn enqueue_access_in_cluster(cx: &Context, cluster: &str) {
    enqueue_access(cx, &cx.objects.namespaces.in_cluster(cluster));
}

/// Enqueues the namespaces of all projects of a tenant: its administrators have changed.
pub fn enqueue_access_of_tenant(cx: &Context, tenant: &str) {
    for project in cx.objects.projects.of_tenant(tenant) {
        enqueue_access(cx, &cx.objects.namespaces.of_project(project.key.name()));
    }
}

fn enqueue_access(cx: &Context, objects: &[Arc<NamespaceView>]) {
    for object in objects {
        enqueue_namespace(cx, object, Lane::Access, Duration::ZERO);
    }
}

/// Enqueues the templates that count this namespace, if what they count has changed.
pub fn enqueue_templates_of(cx: &Context, old: Option<&NamespaceView>, new: Option<&NamespaceView>) {
    let counted = |view: &NamespaceView| {
        let told = condition::find(&view.status.conditions, TEMPLATE_APPLIED).map(|told| told.status.clone());
        (view.key.clone(), view.is_deleting(), view.status.phase, view.status.template.clone(), told)
    };
    if old.map(counted) == new.map(counted) {
        return;
    }
    for view in [old, new].into_iter().flatten() {
        let project = cx.objects.projects.get(&RootKey::new(None, &view.key.project));
        let resolved = project.map(|project| resolve::of_project(cx, &project));
        if let Some(ResolvedTemplate::Template(current)) = resolved {
            enqueue_template(cx, &current.view.key, Lane::Later);
        }
        if let Some(state) = &view.status.template {
            enqueue_template(cx, &RootKey::new(None, &state.name), Lane::Later);
        }
    }
}

//! Adds projects to the work queue.

use super::kind::BusinessProject;
use crate::context::Context;
use crate::kinds::{ObjectKey as _, RootKey};
use crate::objects::RegisteredKind as _;
use crate::queue::{FlowKey, Lane};

/// The group of projects in the queue: no member cluster has an empty name.
const GROUP: &str = "";

/// Enqueues a project. A change that only affects its figures waits until they may be written. Tenants are served in
/// turn, or projects where there is no tenant.
pub fn enqueue_project(cx: &Context, name: &str, lane: Lane) {
    if name.is_empty() {
        return;
    }
    let key = RootKey::new(None, name);
    let wait = if lane == Lane::Later { cx.objects.projects.memory.wait(&key) } else { None };
    let known = cx.objects.projects.get(&key);
    let tenant = known.as_ref().map_or("", |project| project.spec.tenant_id.as_str());
    let place = FlowKey { group: GROUP, owner: if tenant.is_empty() { name } else { tenant } };
    cx.enqueue(&BusinessProject::object_ref(key), place, lane, wait.unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::world::World;
    use serde_json::json;

    #[tokio::test]
    async fn a_tenant_with_many_projects_keeps_no_other_waiting() {
        let world = World::new();
        let changes = |name: &str, tenant: &str| {
            let metadata = json!({ "name": name, "uid": name });
            world.knows_project(
                &json!({ "metadata": metadata, "spec": { "tenantID": tenant }, "status": {} }),
            );
            enqueue_project(&world.cx, name, Lane::Urgent);
        };
        for number in 0..20 {
            changes(&format!("many-{number}"), "many");
        }
        changes("one", "other");
        assert_eq!(world.woken().get(1).map(String::as_str), Some("one"));
    }
}

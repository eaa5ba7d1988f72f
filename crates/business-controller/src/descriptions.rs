//! Keeps the descriptions of clusters in the spec of namespaces up to date. The API server writes them with each write
//! of a status, from what it knows of the cluster. If an object has an outdated description, its status is written
//! unchanged: a few a second, so that a new version of a cluster with many namespaces causes no flood.

use crate::context::Context;
use crate::error::CallFailure;
use crate::kinds::ObjectKey as _;
use crate::member_cluster::kind::MemberClusterView;
use crate::namespace::kind::NamespaceView;
use business_types::{ClusterSummary, NamespaceSpec};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

/// Time between two checks.
const PERIOD: Duration = Duration::from_secs(15);
/// The longest time, if objects stay outdated after they were written: the API server does not know the new description
/// yet.
const PERIOD_MAX: Duration = Duration::from_mins(10);
/// Time between two writes.
const BETWEEN_WRITES: Duration = Duration::from_millis(50);

/// Checks periodically.
#[derive(Debug)]
pub struct Descriptions {
    pub cx: Arc<Context>,
}

/// The result of a check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct RenewalCount {
    /// Objects that were brought up to date.
    renewed: usize,
    /// Objects that are still outdated.
    left: usize,
}

impl Descriptions {
    /// Checks for ever.
    #[expect(clippy::infinite_loop, reason = "the task is cancelled at the end of the program")]
    pub async fn run(self) {
        let mut period = PERIOD;
        loop {
            tokio::time::sleep(period).await;
            match self.renew_outdated().await {
                Ok(count) => {
                    if count.renewed > 0 {
                        tracing::info!(
                            objects = count.renewed,
                            left = count.left,
                            "descriptions of clusters renewed"
                        );
                    }
                    let in_vain = count.left > 0 && count.renewed == 0;
                    period = if in_vain { PERIOD_MAX.min(period.saturating_mul(2)) } else { PERIOD };
                }
                Err(failure) => tracing::warn!(error = %failure, "cannot renew the descriptions of clusters"),
            }
        }
    }

    async fn renew_outdated(&self) -> Result<RenewalCount, CallFailure> {
        let mut count = RenewalCount::default();
        for (name, cluster) in self.clusters() {
            for view in outdated(self.cx.objects.namespaces.in_cluster(&name), &cluster) {
                let Some(guard) = self.cx.shares.enter(self.cx.share_of(&name)) else { break };
                if guard.permit().is_err() {
                    break;
                }
                match self.cx.business.patch_status(&view, json!({})).await {
                    Ok(written) if is_described(&written.spec, &cluster) => count.renewed += 1,
                    // Somebody else was faster, or the API server does not know the new description yet: it is tried
                    // again in the next check.
                    Ok(_) | Err(CallFailure::NotFound | CallFailure::Conflict(_)) => count.left += 1,
                    // The object itself is the cause: those of other clusters do not wait for it.
                    Err(CallFailure::Refused { message, .. }) => {
                        tracing::warn!(object.name = %view.key, error = message, "a description is refused");
                        count.left += 1;
                    }
                    Err(failure) => return Err(failure),
                }
                drop(guard);
                tokio::time::sleep(BETWEEN_WRITES).await;
            }
        }
        Ok(count)
    }

    fn clusters(&self) -> Vec<(String, ClusterSummary)> {
        let all = self.cx.objects.member_clusters.all();
        let known = |object: &MemberClusterView| {
            ClusterSummary::of(object.spec.clone(), object.status.clone(), false)
        };
        all.iter().map(|object| (object.key.name().to_owned(), known(object))).collect()
    }
}

/// The outdated objects that are not being deleted.
fn outdated(
    views: Vec<Arc<NamespaceView>>,
    cluster: &ClusterSummary,
) -> impl Iterator<Item = Arc<NamespaceView>> {
    views.into_iter().filter(|view| !view.is_deleting() && !is_described(&view.spec, cluster))
}

fn is_described(spec: &NamespaceSpec, cluster: &ClusterSummary) -> bool {
    spec.cluster_type == cluster.cluster_type
        && spec.cluster_version == cluster.version
        && spec.cluster_display_name == cluster.display_name
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::pending;
    use crate::fixtures::world::{OBJECT, World};

    fn known(world: &World, version: &str) -> Descriptions {
        let spec = json!({ "displayName": "One", "type": "Imported", "tenants": ["*"] });
        world.knows_cluster(
            &json!({ "metadata": { "uid": "m" }, "spec": spec, "status": { "version": version } }),
        );
        Descriptions { cx: Arc::clone(&world.cx) }
    }

    fn writes(world: &World) -> usize {
        world.calls().iter().filter(|call| call.starts_with("PATCH")).count()
    }

    #[tokio::test(start_paused = true)]
    async fn an_object_that_says_something_else_is_renewed_once() {
        let world = World::new();
        world.holds(&pending(&[("pods", "1")]));
        let before = world.stored(OBJECT);
        for version in ["v1", "v2"] {
            let descriptions = known(&world, version);
            assert_eq!(descriptions.renew_outdated().await.unwrap(), RenewalCount { renewed: 1, left: 0 });
            let spec = &world.stored(OBJECT)["spec"];
            assert_eq!(
                (&spec["clusterVersion"], &spec["clusterDisplayName"]),
                (&json!(version), &json!("One"))
            );
            assert_eq!(writes(&world), 1);
            world.catches_up();
            assert_eq!(descriptions.renew_outdated().await.unwrap(), RenewalCount::default());
            assert_eq!(writes(&world), 0);
        }
        assert_eq!(world.stored(OBJECT)["status"], before["status"], "nothing else is written");
    }

    #[tokio::test(start_paused = true)]
    async fn what_somebody_else_has_written_waits_for_the_next_look() {
        let world = World::new();
        world.holds(&pending(&[("pods", "1")]));
        world.server.edit(OBJECT, &json!({ "metadata": { "labels": { "a": "b" } } }));
        let descriptions = known(&world, "v1");
        assert_eq!(descriptions.renew_outdated().await.unwrap(), RenewalCount { renewed: 0, left: 1 });
        world.catches_up();
        assert_eq!(descriptions.renew_outdated().await.unwrap(), RenewalCount { renewed: 1, left: 0 });
        assert_eq!(world.stored(OBJECT)["metadata"]["labels"]["a"], "b");
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_is_refused_holds_up_no_other() {
        let world = World::new();
        world.holds(&pending(&[("pods", "1")]));
        world.server.refuse(OBJECT);
        assert_eq!(known(&world, "v1").renew_outdated().await, Ok(RenewalCount { renewed: 0, left: 1 }));
    }

    #[test]
    fn what_is_going_is_let_go() {
        let cluster = ClusterSummary { version: "v1".to_owned(), ..ClusterSummary::default() };
        let view = pending(&[("pods", "1")]);
        let going = NamespaceView { deleting_since: Some(1), ..view.clone() };
        let renewed: Vec<_> = outdated(vec![Arc::new(view.clone()), Arc::new(going)], &cluster).collect();
        assert_eq!(renewed, [Arc::new(view)]);
    }
}

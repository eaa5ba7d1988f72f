//! Namespaces whose objects are lost. Nobody maintains who may use them, so all roles would stay for ever.

use super::bounds::{CLUSTER_MAX, NO_ANSWER, PARALLEL};
use super::scan::ScannedNamespace;
use crate::context::Context;
use crate::member::Member;
use crate::member::observed::NamespaceBindings;
use crate::namespace::{access, template};
use futures_util::{StreamExt as _, stream};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::time::timeout;

/// A namespace that we have granted, as its seal proves, and whose object does not exist.
#[derive(Clone, Debug)]
pub struct LostNamespace {
    member: Arc<Member>,
    namespace: String,
}

impl LostNamespace {
    pub fn of(scanned: &ScannedNamespace) -> Self {
        Self { member: Arc::clone(&scanned.member), namespace: scanned.name.clone() }
    }

    pub fn cluster(&self) -> &str {
        &self.member.name
    }
}

/// Withdraws the roles in all of them. What fails or takes too long is left to a later audit.
pub async fn withdraw_roles(cx: &Context, lost: Vec<LostNamespace>) {
    let mut clusters: BTreeMap<String, Vec<LostNamespace>> = BTreeMap::new();
    for one in lost {
        clusters.entry(one.cluster().to_owned()).or_default().push(one);
    }
    for lost in clusters.values_mut() {
        rotate_after_last(lost);
    }
    let of_each: Vec<_> =
        clusters.iter().map(|(cluster, lost)| withdraw_roles_in_cluster(cx, cluster, lost)).collect();
    stream::iter(of_each).buffer_unordered(PARALLEL).collect::<()>().await;
}

/// Sorts the namespaces of a cluster by name, beginning after the last one: so those that hang do not prevent the
/// others for ever.
fn rotate_after_last(lost: &mut [LostNamespace]) {
    let last = lost.first().map(|one| one.member.last_cleared_lost()).unwrap_or_default();
    lost.sort_by_cached_key(|one| (one.namespace <= last, one.namespace.clone()));
}

async fn withdraw_roles_in_cluster(cx: &Context, cluster: &str, lost: &[LostNamespace]) {
    let withdrawals: Vec<_> = lost.iter().map(|one| withdraw(cx, one)).collect();
    let all = stream::iter(withdrawals).buffer_unordered(PARALLEL).collect::<()>();
    if timeout(CLUSTER_MAX, all).await.is_err() {
        tracing::warn!(cluster, error = NO_ANSWER, "some may still use namespaces whose objects are lost");
    }
}

async fn withdraw(cx: &Context, LostNamespace { member, namespace }: &LostNamespace) {
    member.set_last_cleared_lost(namespace);
    // An object that has the place by now maintains the roles itself.
    let is_taken = cx.objects.namespaces.at_place(&member.name, namespace).is_some();
    if is_taken || cx.fence_of(&member.name).permit().is_err() {
        return;
    }
    let people = match member.observed.bindings_at(namespace) {
        NamespaceBindings::Listed(seen) if seen.is_empty() => Ok(()),
        NamespaceBindings::Listed(_) | NamespaceBindings::NotListed(_) => {
            access::withdraw(member, namespace, None).await
        }
    };
    if let Err(error) = people.and(template::withdraw_bindings(member, namespace).await) {
        tracing::warn!(
            cluster = member.name,
            namespace,
            error = error.text(),
            "some may still use a namespace whose object is lost"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::world::World;

    #[tokio::test]
    async fn each_comes_first_after_the_last_that_was_begun_with() {
        let world = World::new();
        let lost = |names: &[&str]| -> Vec<LostNamespace> {
            let of = |name: &&str| LostNamespace {
                member: Arc::clone(&world.member),
                namespace: (*name).to_owned(),
            };
            names.iter().map(of).collect()
        };
        let turns = || {
            let mut all = lost(&["c", "a", "d", "b"]);
            rotate_after_last(&mut all);
            all.into_iter().map(|one| one.namespace).collect::<Vec<_>>()
        };
        assert_eq!(turns(), ["a", "b", "c", "d"]);
        // It had no time for more.
        withdraw_roles(&world.cx, lost(&["b", "a"])).await;
        assert_eq!(turns(), ["c", "d", "a", "b"]);
        withdraw_roles(&world.cx, lost(&["d"])).await;
        assert_eq!(turns(), ["a", "b", "c", "d"]);
    }
}

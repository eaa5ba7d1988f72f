//! Namespaces of a member cluster that carry our mark, and which of them belong to no object.

use super::DEADLINE;
use crate::error::Failure;
use crate::member::{ClusterNamespace, ClusterQuota, Member};
use business_types::{Orphan, names};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, ListParams, PartialObjectMeta};
use meta::quantity::ResourceList;
use std::collections::HashSet;
use std::sync::Arc;

/// Objects a page of a list.
const PAGE: u32 = 500;

/// Something in a member cluster that ought to belong to an object.
#[derive(Clone, Debug)]
pub(super) struct Sighting {
    member: Arc<Member>,
    seen: Seen,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    name: String,
    /// Its own uid.
    uid: String,
    /// The uid of the object that it is marked with.
    mark: Option<String>,
    /// Whether something is held for its place.
    held: bool,
}

/// An orphan, and the project that it is labelled with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) project: Option<String>,
    pub(super) orphan: Orphan,
}

/// Everything of a cluster that carries our mark or is at one of these places.
pub(super) async fn look(member: &Arc<Member>, held: &HashSet<&str>) -> Result<Vec<Sighting>, String> {
    let api: Api<Namespace> = Api::all(member.api.client());
    let mut params = ListParams::default().limit(PAGE);
    let mut sightings = Vec::new();
    loop {
        let page = match tokio::time::timeout(DEADLINE, api.list_metadata(&params)).await {
            Ok(result) => result.map_err(|error| crate::error::chain(&error))?,
            Err(_elapsed) => return Err("no answer in time".to_owned()),
        };
        let seen = page.items.iter().filter_map(|object| concerns_us(object, held));
        sightings.extend(seen.map(|seen| Sighting { member: Arc::clone(member), seen }));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(sightings),
        }
    }
}

fn concerns_us(object: &PartialObjectMeta<Namespace>, held: &HashSet<&str>) -> Option<Seen> {
    let metadata = &object.metadata;
    let name = metadata.name.clone()?;
    let mark = metadata.annotations.as_ref().and_then(|all| all.get(names::UID_ANNOTATION)).cloned();
    let held = held.contains(name.as_str());
    (mark.is_some() || held).then(|| Seen { name, uid: metadata.uid.clone().unwrap_or_default(), mark, held })
}

impl Sighting {
    pub(super) fn cluster(&self) -> &str {
        &self.member.name
    }

    /// Whether one of these objects is the one that it is marked with.
    pub(super) fn belongs_to(&self, alive: &HashSet<String>) -> bool {
        self.seen.mark.as_ref().is_some_and(|mark| alive.contains(mark))
    }

    /// What it is now; `None` when it has gone, or was released or adopted meanwhile.
    pub(super) async fn verify(&self) -> Result<Option<Found>, Failure> {
        let Seen { name, uid, mark, held } = &self.seen;
        let same = |now: &ClusterNamespace| now.uid == *uid && (*held || now.marks.uid == *mark);
        let Some(namespace) = self.member.api.namespace(name).await?.filter(same) else { return Ok(None) };
        let hard = self.member.api.quota(name).await?.as_ref().map(may_take).unwrap_or_default();
        let orphan = Orphan {
            cluster_name: self.member.name.clone(),
            namespace: name.clone(),
            uid: uid.clone(),
            hard,
        };
        Ok(Some(Found { project: namespace.marks.project, orphan }))
    }
}

/// The most that a quota lets in, or has let in.
fn may_take(quota: &ClusterQuota) -> ResourceList {
    let mut most = quota.spec_hard.clone();
    let used = quota.status_used.iter().filter(|(resource, _)| quota.status_hard.contains_key(*resource));
    for (resource, amount) in quota.status_hard.iter().chain(used) {
        let held = most.entry(resource.clone()).or_insert(*amount);
        *held = (*held).max(*amount);
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::amounts;
    use serde_json::json;

    #[test]
    fn what_is_marked_or_held_concerns_us() {
        let page: Vec<PartialObjectMeta<Namespace>> = serde_json::from_value(json!([
            { "metadata": { "name": "alive", "uid": "1", "annotations": { "business.tkestack.io/uid": "u1" } } },
            { "metadata": { "name": "going", "uid": "2", "deletionTimestamp": "2026-01-01T00:00:00Z",
                            "annotations": { "business.tkestack.io/uid": "u2" } } },
            { "metadata": { "name": "held", "uid": "3" } },
            { "metadata": { "name": "foreign", "uid": "4" } },
        ]))
        .unwrap();
        let held = HashSet::from(["held", "elsewhere"]);
        let seen: Vec<Seen> = page.iter().filter_map(|object| concerns_us(object, &held)).collect();
        let names: Vec<&str> = seen.iter().map(|seen| seen.name.as_str()).collect();
        assert_eq!(names, ["alive", "going", "held"], "what is going is still there");
    }

    #[test]
    fn an_orphan_may_take_the_most_that_its_quota_says() {
        let quota = ClusterQuota {
            spec_hard: amounts(&[("pods", "2"), ("cpu", "1")]),
            status_hard: amounts(&[("pods", "5")]),
            status_used: amounts(&[("pods", "7")]),
            ..ClusterQuota::default()
        };
        assert_eq!(may_take(&quota), amounts(&[("pods", "7"), ("cpu", "1")]));
    }
}

//! Checks the clusters at the end: each namespace object has a quota with its amounts, and nothing else of ours exists.

use anyhow::{Context, Result};
use http::Method;
use instance::Instance;
use instance::fleet::Fleet;
use kit::Endpoint;
use meta::quantity::ResourceList;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

const OBJECTS: &str = "/apis/business.tkestack.io/v1/namespaces";
const QUOTAS: &str = "/api/v1/resourcequotas?labelSelector=tkestack.io/namespaceName";
const NAMESPACES: &str = "/api/v1/namespaces?labelSelector=tkestack.io/namespaceName";
const UID: &str = "/metadata/annotations/business.tkestack.io~1uid";

/// A cluster and a namespace in it.
type ClusterNamespace = (String, String);

/// A namespace object, or what stands in its cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Amount {
    /// Of the namespace object.
    uid: String,
    hard: ResourceList,
}

/// All of one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sums {
    wanted: BTreeMap<ClusterNamespace, Amount>,
    /// What admission counts with.
    found: BTreeMap<ClusterNamespace, Amount>,
    /// Namespaces in clusters that bear our label.
    standing: BTreeSet<ClusterNamespace>,
    /// Objects that are not Available, or are to go.
    unsettled: BTreeSet<ClusterNamespace>,
}

impl Sums {
    /// Asks our API and every cluster.
    pub(crate) async fn look(instance: &Instance, fleet: &Fleet, api: &Endpoint) -> Result<Self> {
        let mut sums = Self::default();
        for object in &items(&ask(api, OBJECTS).await?)? {
            let place = (text(object, "/spec/clusterName"), text(object, "/spec/namespace"));
            if text(object, "/status/phase") != "Available"
                || object.pointer("/metadata/deletionTimestamp").is_some()
            {
                sums.unsettled.insert(place.clone());
            }
            let amount = Amount { uid: text(object, "/metadata/uid"), hard: amounts(object, "/spec/hard")? };
            sums.wanted.insert(place, amount);
        }
        for cluster in instance.clusters.iter().chain(&fleet.clusters) {
            let [quotas, namespaces] = if fleet.clusters.contains(cluster) {
                [fleet.get(cluster, QUOTAS)?, fleet.get(cluster, NAMESPACES)?]
            } else {
                let file = instance.layout.path("members").join(format!("{cluster}.kubeconfig"));
                let cluster = Endpoint::from_kubeconfig(&file)?;
                [ask(&cluster, QUOTAS).await?, ask(&cluster, NAMESPACES).await?]
            };
            for quota in &items(&quotas)? {
                let amount = Amount { uid: text(quota, UID), hard: amounts(quota, "/status/hard")? };
                sums.found.insert((cluster.clone(), text(quota, "/metadata/namespace")), amount);
            }
            for namespace in &items(&namespaces)? {
                sums.standing.insert((cluster.clone(), text(namespace, "/metadata/name")));
            }
        }
        Ok(sums)
    }

    /// How many namespaces there should be.
    pub(crate) fn count(&self) -> usize {
        self.wanted.len()
    }

    /// What is not as it should be.
    pub(crate) fn differences(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        for (place, wanted) in &self.wanted {
            match self.found.get(place) {
                None => wrong.push(format!("{place:?} has no quota of ours")),
                Some(found) if found != wanted => {
                    wrong.push(format!("{place:?} should have {wanted:?} and has {found:?}"));
                }
                Some(_) => {}
            }
        }
        let left = self.standing.iter().chain(self.found.keys()).collect::<BTreeSet<_>>();
        wrong.extend(
            left.into_iter()
                .filter(|place| !self.wanted.contains_key(*place))
                .map(|place| format!("{place:?} is left of something that was deleted")),
        );
        wrong.extend(self.unsettled.iter().map(|place| format!("{place:?} is not Available")));
        wrong
    }
}

pub(super) async fn ask(endpoint: &Endpoint, path: &str) -> Result<Value> {
    endpoint.connect().await?.json(Method::GET, path, &Value::Null).await
}

pub(super) fn items(list: &Value) -> Result<Vec<Value>> {
    Ok(list.get("items").and_then(Value::as_array).context("no list")?.clone())
}

pub(super) fn text(object: &Value, pointer: &str) -> String {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn amounts(object: &Value, pointer: &str) -> Result<ResourceList> {
    let hard = object.pointer(pointer).cloned().unwrap_or_else(|| Value::Object(serde_json::Map::new()));
    serde_json::from_value(hard).with_context(|| format!("read the amounts of {object}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_left_or_of_another_size_is_found() {
        let place = |name: &str| ("c".to_owned(), name.to_owned());
        let amount = |pods: &str| Amount {
            uid: "u".to_owned(),
            hard: [("pods".to_owned(), pods.parse().unwrap())].into(),
        };
        let good = Sums {
            wanted: [(place("a"), amount("5"))].into(),
            found: [(place("a"), amount("5"))].into(),
            standing: [place("a")].into(),
            unsettled: BTreeSet::new(),
        };
        assert_eq!(good.differences(), Vec::<String>::new());
        let mut bad = good.clone();
        bad.wanted.insert(place("b"), amount("1"));
        bad.found.insert(place("a"), amount("6"));
        bad.standing.insert(place("gone"));
        bad.unsettled.insert(place("b"));
        let differences = bad.differences();
        assert_eq!(differences.len(), 4, "{differences:?}");
        let mut other = good;
        other.found.insert(place("a"), Amount { uid: "another".to_owned(), ..amount("5") });
        assert_eq!(other.differences().len(), 1);
    }
}

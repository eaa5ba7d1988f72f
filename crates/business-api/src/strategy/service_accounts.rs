//! Warnings about service accounts in lists of people: whoever creates the namespace of one gets its roles.

use crate::clusters::Clusters;
use crate::kind_ids::NAMESPACE;
use apiserver::View;
use meta::object::Object;
use meta::status::Status;
use serde_json::Value;
use std::collections::{BTreeMap, HashSet};

/// The fields that list service accounts, in all kinds.
const LISTS: [&[&str]; 3] =
    [&["spec", "access"], &["spec", "administrators"], &["spec", "defaults", "access"]];
/// The most warnings for one write.
const WARNINGS_MAX: usize = 5;

/// Warnings about newly listed service accounts whose namespace the tenant has not claimed. They do not show whether
/// another tenant has the namespace or nobody has.
pub(super) async fn warnings(
    view: View<'_>,
    clusters: &Clusters,
    tenant: &str,
    old: Option<&Object>,
    object: &Object,
) -> Result<Vec<String>, Status> {
    let (before, host) = (old.map(listed_namespaces).unwrap_or_default(), clusters.host());
    let new = listed_namespaces(object).into_iter().filter(|(at, _)| !before.contains_key(at));
    let named: Vec<(&str, &str, String)> = new
        .filter_map(|((cluster, namespace), place)| {
            // If the host cluster is no member cluster, nobody can create namespaces in it through this API.
            let within = if cluster.is_empty() { host.as_deref()? } else { cluster };
            Some((within, namespace, place))
        })
        .collect();
    if named.is_empty() || tenant.is_empty() {
        return Ok(Vec::new());
    }
    let claimed = view.unfiltered().list(NAMESPACE, None).await?;
    let own: HashSet<(&str, &str)> = claimed
        .iter()
        .filter(|entry| entry.attributes.tenant.as_deref() == Some(tenant))
        .filter_map(|entry| match &*entry.attributes.fields {
            [_tenant, cluster, namespace, ..] => Some((&**cluster, &**namespace)),
            _ => None,
        })
        .collect();
    let foreign = named.iter().filter(|(cluster, namespace, _)| !own.contains(&(*cluster, *namespace)));
    let texts = foreign.map(|(cluster, namespace, place)| {
        format!(
            "{place}: namespace {namespace:?} of cluster {cluster:?} is none of this tenant's: who has it, or makes it, has \
             its service accounts and their roles"
        )
    });
    Ok(texts.take(WARNINGS_MAX).collect())
}

/// Cluster and namespace of the service accounts that an object lists, each with the field path of the first one.
fn listed_namespaces(object: &Object) -> BTreeMap<(&str, &str), String> {
    let mut places = BTreeMap::new();
    for list in LISTS {
        let entries = object.get(list).and_then(Value::as_array).into_iter().flatten();
        for (index, entry) in entries.enumerate() {
            let text = |field: &str| entry.get(field).and_then(Value::as_str).unwrap_or_default();
            if text("kind") == "ServiceAccount" {
                let at = (text("cluster"), text("namespace"));
                places.entry(at).or_insert_with(|| format!("{}[{index}]", list.join(".")));
            }
        }
    }
    places
}

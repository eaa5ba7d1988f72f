//! Service accounts in lists of people. Whoever makes the namespace that one lives in has its roles.

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
/// Warnings of one write.
const TOLD_MAX: usize = 5;

/// Warnings about service accounts that are listed for the first time, and whose namespace the tenant has not claimed. They
/// are the same if another tenant has it and if nobody has.
pub(super) async fn warnings(
    view: View<'_>,
    clusters: &Clusters,
    tenant: &str,
    old: Option<&Object>,
    object: &Object,
) -> Result<Vec<String>, Status> {
    let (before, host) = (old.map(places).unwrap_or_default(), clusters.host());
    let new = places(object).into_iter().filter(|(at, _)| !before.contains_key(at));
    let named: Vec<(&str, &str, String)> = new
        .filter_map(|((cluster, namespace), place)| {
            // Nobody here makes namespaces in a host cluster that is no member.
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
    let told = foreign.map(|(cluster, namespace, place)| {
        format!(
            "{place}: namespace {namespace:?} of cluster {cluster:?} is none of this tenant's: who has it, or makes it, has \
             its service accounts and their roles"
        )
    });
    Ok(told.take(TOLD_MAX).collect())
}

/// Cluster and namespace of the service accounts that an object lists, with the place of the first one.
fn places(object: &Object) -> BTreeMap<(&str, &str), String> {
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

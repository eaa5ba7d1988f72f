//! Creates an object for each line of a mapping file: all of them in one write, or none.

use super::mapping::{self, MappingEntry, MappingError};
use super::{DEADLINE, for_each_object, member_client, source};
use crate::config::{self, Adopt};
use crate::error::{CallFailure, Error};
use business_types::names;
use http::Request;
use k8s_openapi::api::core::v1::Namespace;
use kube::Client;
use kube::core::Status;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use tokio::time::timeout;

/// The result of adopting a file.
#[derive(Debug)]
pub enum Adopted {
    /// This many namespaces are adopted, or would be in a dry run.
    All(usize),
    /// None is, because of these errors.
    None(Vec<MappingError>),
}

/// Runs `adopt`.
pub async fn run(settings: &Adopt) -> Result<Adopted, Error> {
    let path = settings.file.display().to_string();
    let text = std::fs::read_to_string(&settings.file).map_err(|source| Error::Read { path, source })?;
    let entries = match mapping::parse(&text, &settings.members.forbidden()) {
        Ok(entries) => entries,
        Err(wrong) => return Ok(Adopted::None(wrong)),
    };
    if entries.is_empty() {
        return Ok(Adopted::All(0));
    }
    let client = config::client(settings.members.kubeconfig.as_deref()).await?;
    let source = source(&settings.members, &client).await?;
    let mut there = BTreeMap::new();
    for cluster in entries.iter().map(|entry| &entry.cluster).collect::<BTreeSet<_>>() {
        let (mut found, member) = (BTreeMap::new(), member_client(&*source, cluster).await?);
        for_each_object(&member, |namespace: Namespace| {
            let labels = namespace.metadata.labels.unwrap_or_default();
            let is_off_limits = labels.contains_key(names::OFF_LIMITS_LABEL);
            found.insert(namespace.metadata.name.unwrap_or_default(), is_off_limits);
        })
        .await?;
        there.insert(cluster.clone(), found);
    }
    let wrong = not_adoptable(&entries, &there);
    if !wrong.is_empty() {
        return Ok(Adopted::None(wrong));
    }
    create(&client, &entries, settings.dry_run).await
}

/// The namespaces of a cluster, and whether each is off limits.
type FoundNamespaces = BTreeMap<String, bool>;

/// Errors for namespaces that do not exist, which would be created, and for those that nobody may adopt.
fn not_adoptable(entries: &[MappingEntry], there: &BTreeMap<String, FoundNamespaces>) -> Vec<MappingError> {
    let why = |entry: &MappingEntry| {
        let MappingEntry { cluster, namespace, .. } = entry;
        match there.get(cluster).and_then(|found| found.get(namespace)) {
            None => Some(format!("cluster {cluster} has no namespace {namespace:?}")),
            Some(true) => Some(format!(
                "namespace {namespace:?} of cluster {cluster} is off limits: it is labelled {}",
                names::OFF_LIMITS_LABEL
            )),
            Some(false) => None,
        }
    };
    let wrong = entries.iter().filter_map(|entry| {
        Some(MappingError { line: entry.line, field: "namespace".to_owned(), why: why(entry)? })
    });
    wrong.collect()
}

async fn create(client: &Client, entries: &[MappingEntry], dry_run: bool) -> Result<Adopted, Error> {
    let list = json!({
        "apiVersion": names::API_VERSION, "kind": format!("{}List", names::NAMESPACE_KIND), "metadata": {},
        "items": entries.iter().map(MappingEntry::object).collect::<Vec<Value>>(),
    });
    let query = if dry_run { "?dryRun=All" } else { "" };
    let path = format!("/apis/{}/{}{query}", names::API_VERSION, names::NAMESPACES);
    let request = Request::post(path)
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(list.to_string().into_bytes())
        .map_err(|error| Error::Config(error.to_string()))?;
    match timeout(DEADLINE, client.request::<Value>(request)).await {
        Ok(Ok(_created)) => Ok(Adopted::All(entries.len())),
        Ok(Err(kube::Error::Api(status))) if is_about_items(&status) => {
            Ok(Adopted::None(wrong(entries, &status)))
        }
        Ok(Err(error)) => Err(Error::Api(error.into())),
        Err(_elapsed) => Err(Error::Api(CallFailure::deadline(DEADLINE))),
    }
}

fn causes(status: &Status) -> impl Iterator<Item = &kube::core::response::StatusCause> {
    status.details.iter().flat_map(|details| &details.causes)
}

fn is_about_items(status: &Status) -> bool {
    causes(status).any(|cause| item_field(&cause.field).is_some())
}

/// Parses `items[3].spec.hard[pods]` to the item and the field in it.
fn item_field(field: &str) -> Option<MappingField<'_>> {
    let (number, rest) = field.strip_prefix("items[")?.split_once(']')?;
    Some(MappingField { item: number.parse().ok()?, field: rest.strip_prefix('.').unwrap_or_default() })
}

struct MappingField<'a> {
    item: usize,
    field: &'a str,
}

/// The errors of the server, at the lines of their items.
fn wrong(entries: &[MappingEntry], status: &Status) -> Vec<MappingError> {
    let mut wrong: Vec<MappingError> = causes(status)
        .filter_map(|cause| {
            let MappingField { item, field } = item_field(&cause.field)?;
            let line = entries.get(item)?.line;
            Some(MappingError {
                line,
                field: mapping::field_of(field).to_owned(),
                why: cause.message.clone(),
            })
        })
        .collect();
    wrong.sort();
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(line: usize, namespace: &str) -> MappingEntry {
        MappingEntry { line, cluster: "c1".into(), namespace: namespace.into(), ..MappingEntry::default() }
    }

    #[test]
    fn what_the_server_says_of_an_item_stands_at_its_line() {
        let status: Status =
            serde_json::from_value(json!({"status": "Failure", "message": "", "reason": "", "code": 403,
            "details": {"causes": [
                {"reason": "a", "message": "too much", "field": "items[1].spec.hard[pods]"},
                {"reason": "b", "message": "not there", "field": "items[0].metadata.namespace"},
                {"reason": "c", "message": "exists", "field": "items[0]"},
            ]}}))
            .unwrap();
        assert!(is_about_items(&status));
        let told: Vec<String> =
            wrong(&[entry(3, "a"), entry(7, "b")], &status).iter().map(ToString::to_string).collect();
        assert_eq!(told, ["3: exists", "3: project: not there", "7: hard[pods]: too much"]);
    }

    #[test]
    fn what_is_not_in_its_cluster_or_off_limits_there_is_not_adopted() {
        let found = FoundNamespaces::from([("a".to_owned(), false), ("c".to_owned(), true)]);
        let there = BTreeMap::from([("c1".to_owned(), found)]);
        let told = not_adoptable(&[entry(1, "a"), entry(2, "b"), entry(3, "c")], &there);
        assert_eq!(told.iter().map(|wrong| wrong.line).collect::<Vec<_>>(), [2, 3]);
    }
}

//! The discovery documents. The same resources give the same bytes, on every replica and after every restart.

use crate::openapi::{self, ApiInfo, verb_names};
use crate::resource::Resource;
use crate::subresource::{Subresource, SubresourceKind};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use meta::gvk::GroupVersionKind;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256, Sha512};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A document with its `ETag`.
#[derive(Clone, Debug)]
pub(super) struct Document {
    pub(super) json: Bytes,
    pub(super) hash: String,
    /// The hash in quotes.
    pub(super) etag: String,
}

impl Document {
    fn new(json: impl Into<Bytes>) -> Self {
        let json = json.into();
        let hash = hex::encode_upper(Sha512::digest(&json));
        let etag = format!("\"{hash}\"");
        Self { json, hash, etag }
    }
}

/// The discovery and OpenAPI documents, computed once.
#[derive(Clone, Debug)]
pub struct Documents {
    pub(super) groups: Bytes,
    pub(super) aggregated_v2: Document,
    pub(super) aggregated_v2beta1: Document,
    /// `/apis/G` and `/apis/G/V`.
    legacy: BTreeMap<String, Bytes>,
    pub(super) openapi_v2: Document,
    /// The v2 document as protobuf.
    pub(super) openapi_v2_protobuf: Document,
    pub(super) openapi_v3: Document,
    /// By path.
    openapi_v3_documents: BTreeMap<String, Document>,
}

impl Documents {
    /// Computes all documents of these kinds.
    pub fn new(resources: &[Arc<Resource>], info: &ApiInfo) -> Self {
        let groups = openapi::group_versions(resources);
        let built = openapi::build(resources, info);
        let openapi_v3_documents: BTreeMap<String, Document> = built
            .v3
            .into_iter()
            .map(|((group, version), json)| {
                (format!("/openapi/v3/apis/{group}/{version}"), Document::new(json))
            })
            .collect();
        let legacy = legacy(resources, &groups);
        let group_list = json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": group_names(&groups).into_iter()
            .map(|group| api_group(group, &groups)).collect::<Vec<_>>()});
        Self {
            groups: group_list.to_string().into(),
            aggregated_v2: Document::new(aggregated(resources, &groups, "apidiscovery.k8s.io/v2")),
            aggregated_v2beta1: Document::new(aggregated(resources, &groups, "apidiscovery.k8s.io/v2beta1")),
            openapi_v2_protobuf: Document::new(meta::openapi::v2_protobuf(&built.v2).unwrap_or_default()),
            openapi_v2: Document::new(built.v2),
            openapi_v3: Document::new(openapi_root(&openapi_v3_documents)),
            openapi_v3_documents,
            legacy,
        }
    }

    /// The paths of all documents.
    pub(super) fn paths(&self) -> impl Iterator<Item = &str> {
        let fixed = ["/apis", "/openapi/v2", "/openapi/v3"];
        let named = self.legacy.keys().chain(self.openapi_v3_documents.keys()).map(String::as_str);
        fixed.into_iter().chain(named)
    }

    pub(super) fn legacy(&self, path: &str) -> Option<&Bytes> {
        self.legacy.get(path)
    }

    pub(super) fn openapi_v3_of(&self, path: &str) -> Option<&Document> {
        self.openapi_v3_documents.get(path)
    }
}

type GroupVersions = [(String, String)];

fn group_names(groups: &GroupVersions) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for (group, _) in groups {
        if !names.contains(&group.as_str()) {
            names.push(group);
        }
    }
    names
}

fn api_group(name: &str, groups: &GroupVersions) -> Value {
    let versions: Vec<Value> = groups
        .iter()
        .filter(|(group, _)| group == name)
        .map(|(group, version)| json!({"groupVersion": format!("{group}/{version}"), "version": version}))
        .collect();
    let preferred = versions.first().cloned();
    json!({"name": name, "versions": versions, "preferredVersion": preferred})
}

fn legacy(resources: &[Arc<Resource>], groups: &GroupVersions) -> BTreeMap<String, Bytes> {
    let mut documents = BTreeMap::new();
    for name in group_names(groups) {
        let mut group = api_group(name, groups);
        if let Value::Object(map) = &mut group {
            map.insert("kind".to_owned(), Value::from("APIGroup"));
            map.insert("apiVersion".to_owned(), Value::from("v1"));
        }
        documents.insert(format!("/apis/{name}"), group.to_string().into());
    }
    for (group, version) in groups {
        let list: Vec<Value> =
            resources_of(resources, group, version).flat_map(|r| legacy_entries(r)).collect();
        let document = json!({"kind": "APIResourceList", "apiVersion": "v1",
            "groupVersion": format!("{group}/{version}"), "resources": list});
        documents.insert(format!("/apis/{group}/{version}"), document.to_string().into());
    }
    documents
}

fn resources_of<'a>(
    resources: &'a [Arc<Resource>],
    group: &'a str,
    version: &'a str,
) -> impl Iterator<Item = &'a Arc<Resource>> {
    resources.iter().filter(move |resource| resource.gvk.group == group && resource.gvk.version == version)
}

/// The entries of a resource and of its subresources, sorted by name as in Go.
fn legacy_entries(resource: &Resource) -> Vec<Value> {
    let gvk = &resource.gvk;
    let mut entry = Map::from_iter([
        ("name".to_owned(), json!(resource.plural)),
        ("singularName".to_owned(), json!(resource.singular)),
        ("namespaced".to_owned(), json!(resource.namespaced)),
        ("kind".to_owned(), json!(gvk.kind)),
        ("verbs".to_owned(), json!(verb_names(resource.verbs))),
    ]);
    if resource.stored().is_some() {
        let identity = format!("{}/{}/{}", gvk.group, gvk.version, gvk.kind);
        let digest = Sha256::digest(identity.as_bytes());
        let hash = STANDARD.encode(digest.get(..8).unwrap_or_default());
        entry.insert("storageVersionHash".to_owned(), json!(hash));
    }
    names_and_categories(resource, &mut entry);
    let mut entries = vec![Value::Object(entry)];
    entries.extend(sorted_subresources(resource).into_iter().map(|sub| {
        let mut entry = Map::from_iter([
            ("name".to_owned(), json!(format!("{}/{}", resource.plural, sub.name))),
            ("singularName".to_owned(), json!("")),
            ("namespaced".to_owned(), json!(resource.namespaced)),
            ("kind".to_owned(), json!(response_kind(resource, sub).kind)),
            ("verbs".to_owned(), json!(verb_names(sub.verbs))),
        ]);
        // As in Go, only if they differ from those of the list.
        let kind = response_kind(resource, sub);
        if (&kind.group, &kind.version) != (&gvk.group, &gvk.version) {
            entry.insert("group".to_owned(), json!(kind.group));
            entry.insert("version".to_owned(), json!(kind.version));
        }
        Value::Object(entry)
    }));
    entries
}

/// The kind that a subresource answers with.
fn response_kind<'a>(resource: &'a Resource, subresource: &'a Subresource) -> &'a GroupVersionKind {
    match &subresource.kind {
        SubresourceKind::Writes(_) => &resource.gvk,
        SubresourceKind::Handler(handler) => &handler.answer().kind,
    }
}

fn names_and_categories(resource: &Resource, entry: &mut Map<String, Value>) {
    if !resource.short_names.is_empty() {
        entry.insert("shortNames".to_owned(), json!(resource.short_names));
    }
    if !resource.categories.is_empty() {
        entry.insert("categories".to_owned(), json!(resource.categories));
    }
}

fn sorted_subresources(resource: &Resource) -> Vec<&Subresource> {
    let mut subresources: Vec<&Subresource> = resource.subresources().iter().collect();
    subresources.sort_by_key(|subresource| subresource.name);
    subresources
}

fn aggregated(resources: &[Arc<Resource>], groups: &GroupVersions, api_version: &str) -> String {
    let items: Vec<Value> = group_names(groups)
        .into_iter()
        .map(|name| {
            let versions: Vec<Value> = groups
                .iter()
                .filter(|(group, _)| group == name)
                .map(|(group, version)| {
                    let list: Vec<Value> =
                        resources_of(resources, group, version).map(|r| aggregated_entry(r)).collect();
                    json!({"version": version, "freshness": "Current", "resources": list})
                })
                .collect();
            json!({"metadata": {"name": name, "creationTimestamp": null}, "versions": versions})
        })
        .collect();
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": api_version, "metadata": {}, "items": items})
        .to_string()
}

fn aggregated_entry(resource: &Resource) -> Value {
    let gvk = &resource.gvk;
    let shown =
        |kind: &GroupVersionKind| json!({"group": kind.group, "version": kind.version, "kind": kind.kind});
    let mut entry = Map::from_iter([
        ("resource".to_owned(), json!(resource.plural)),
        ("responseKind".to_owned(), shown(gvk)),
        ("scope".to_owned(), json!(if resource.namespaced { "Namespaced" } else { "Cluster" })),
        ("singularResource".to_owned(), json!(resource.singular)),
        ("verbs".to_owned(), json!(verb_names(resource.verbs))),
    ]);
    names_and_categories(resource, &mut entry);
    let subresources: Vec<Value> = sorted_subresources(resource)
        .into_iter()
        .map(|sub| {
            let kind = shown(response_kind(resource, sub));
            json!({"subresource": sub.name, "responseKind": kind, "verbs": verb_names(sub.verbs)})
        })
        .collect();
    if !subresources.is_empty() {
        entry.insert("subresources".to_owned(), Value::from(subresources));
    }
    Value::Object(entry)
}

fn openapi_root(documents: &BTreeMap<String, Document>) -> String {
    let paths: Map<String, Value> = documents
        .iter()
        .map(|(path, document)| {
            let name = path.trim_start_matches("/openapi/v3/").to_owned();
            (name, json!({"serverRelativeURL": format!("{path}?hash={}", document.hash)}))
        })
        .collect();
    json!({"paths": paths}).to_string()
}

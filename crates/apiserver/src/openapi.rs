//! OpenAPI documents: computed once, served with an ETag, never redirected.

use crate::resource::Resource;
use meta::openapi::{OpenApiInfo, OpenApiResource};
use std::sync::Arc;

/// What the documents say about the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// `info.title`
    pub title: String,
    /// `info.version`, also `gitVersion` of `/version`.
    pub version: String,
}

/// What a PATCH's body may be.
pub(crate) const PATCH_TYPES: &[&str] = &[
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
];

/// Verbs of every resource; `watch` on top of what has a method of its own.
pub(crate) const VERBS: &[&str] =
    &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
/// Verbs of every subresource.
pub(crate) const SUBRESOURCE_VERBS: &[&str] = &["get", "patch", "update"];

/// The v2 document, and the v3 document of each `(group, version)`.
pub(crate) struct Built {
    pub(crate) v2: String,
    pub(crate) v3: Vec<((String, String), String)>,
}

pub(crate) fn build(resources: &[Arc<Resource>], about: &About) -> Built {
    let info = OpenApiInfo { title: &about.title, version: &about.version, patch_types: PATCH_TYPES };
    let subresources: Vec<Vec<(&str, &[&str])>> = resources
        .iter()
        .map(|resource| resource.subresources.iter().map(|sub| (sub.name, SUBRESOURCE_VERBS)).collect())
        .collect();
    let shown: Vec<OpenApiResource<'_>> = resources
        .iter()
        .zip(&subresources)
        .map(|(resource, subresources)| OpenApiResource {
            kind: resource.gvk.clone(),
            plural: resource.plural,
            singular: resource.singular,
            namespaced: resource.namespaced,
            schema: &resource.schema,
            verbs: VERBS,
            subresources,
        })
        .collect();
    let v3 = groups(resources)
        .into_iter()
        .map(|(group, version)| {
            let document = meta::openapi::v3(&info, &group, &version, &shown);
            ((group, version), document)
        })
        .collect();
    Built { v2: meta::openapi::v2(&info, &shown), v3 }
}

/// Every `(group, version)` once, in the order of the resources.
pub(crate) fn groups(resources: &[Arc<Resource>]) -> Vec<(String, String)> {
    let mut groups: Vec<(String, String)> = Vec::new();
    for resource in resources {
        let group = (resource.gvk.group.clone(), resource.gvk.version.clone());
        if !groups.contains(&group) {
            groups.push(group);
        }
    }
    groups
}

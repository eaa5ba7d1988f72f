//! OpenAPI documents, which are computed once.

use crate::request::Verb;
use crate::resource::Resource;
use crate::subresource::{BodySchema, SubresourceKind};
use meta::openapi::{OpenApiBodies, OpenApiInfo, OpenApiResource, OpenApiSubresource, OpenApiType};
use std::sync::Arc;

/// `info` of the OpenAPI documents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiInfo {
    /// `info.title`
    pub title: String,
    /// `info.version`
    pub version: String,
}

/// The media types of a PATCH's body.
pub(crate) const PATCH_TYPES: &[&str] = &[
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
];

/// The names of verbs.
pub(crate) fn verb_names(verbs: &[Verb]) -> Vec<&'static str> {
    verbs.iter().map(|verb| verb.as_str()).collect()
}

/// The v2 document, and the v3 document of each `(group, version)`.
pub(crate) struct OpenApiDocuments {
    pub(crate) v2: String,
    pub(crate) v3: Vec<((String, String), String)>,
}

pub(crate) fn build(resources: &[Arc<Resource>], info: &ApiInfo) -> OpenApiDocuments {
    let info = OpenApiInfo { title: &info.title, version: &info.version, patch_types: PATCH_TYPES };
    let verbs: Vec<VerbNames> = resources.iter().map(|resource| VerbNames::of(resource)).collect();
    let subresources: Vec<Vec<OpenApiSubresource<'_>>> =
        resources.iter().zip(&verbs).map(|(resource, verbs)| subresources_of(resource, verbs)).collect();
    let shown: Vec<OpenApiResource<'_>> = resources
        .iter()
        .zip(verbs.iter().zip(&subresources))
        .map(|(resource, (verbs, subresources))| OpenApiResource {
            kind: resource.gvk.clone(),
            plural: resource.plural,
            singular: resource.singular,
            namespaced: resource.namespaced,
            singleton: resource.is_singleton(),
            schema: &resource.schema,
            verbs: &verbs.of_resource,
            subresources,
        })
        .collect();
    let v3 = group_versions(resources)
        .into_iter()
        .map(|(group, version)| {
            let document = meta::openapi::v3(&info, &group, &version, &shown);
            ((group, version), document)
        })
        .collect();
    OpenApiDocuments { v2: meta::openapi::v2(&info, &shown), v3 }
}

/// The names of the verbs of a resource and of each of its subresources.
struct VerbNames {
    of_resource: Vec<&'static str>,
    of_subresources: Vec<Vec<&'static str>>,
}

impl VerbNames {
    fn of(resource: &Resource) -> Self {
        let of_subresources = resource.subresources().iter().map(|sub| verb_names(sub.verbs)).collect();
        Self { of_resource: verb_names(resource.verbs), of_subresources }
    }
}

fn subresources_of<'a>(resource: &'a Resource, verbs: &'a VerbNames) -> Vec<OpenApiSubresource<'a>> {
    let subresources = resource.subresources().iter().zip(&verbs.of_subresources);
    subresources
        .map(|(subresource, verbs)| {
            let own = match &subresource.kind {
                SubresourceKind::Writes(_) => None,
                SubresourceKind::Handler(handler) => {
                    let body_type = |body_type: &'a BodySchema| OpenApiType {
                        kind: &body_type.kind,
                        schema: &body_type.schema,
                    };
                    Some(OpenApiBodies {
                        body: handler.body().map(body_type),
                        answer: body_type(handler.answer()),
                        parameters: handler.parameters(),
                    })
                }
            };
            OpenApiSubresource { name: subresource.name, verbs, own }
        })
        .collect()
}

/// Every `(group, version)` once, in the order of the resources.
pub(crate) fn group_versions(resources: &[Arc<Resource>]) -> Vec<(String, String)> {
    let mut groups: Vec<(String, String)> = Vec::new();
    for resource in resources {
        let group = (resource.gvk.group.clone(), resource.gvk.version.clone());
        if !groups.contains(&group) {
            groups.push(group);
        }
    }
    groups
}

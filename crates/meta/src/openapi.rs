//! OpenAPI v2 and v3 documents from schemas. They are deterministic.

mod meta_types;
mod operations;
mod parameters;
mod protobuf;
mod schemas;

use crate::gvk::GroupVersionKind;
use crate::schema::Schema;
use operations::Paths;
pub use protobuf::v2_protobuf;
use schemas::{Definitions, OpenApiVersion};
use serde_json::{Value, json};

/// A resource to document.
#[derive(Clone, Debug)]
pub struct OpenApiResource<'a> {
    /// Its kind.
    pub kind: GroupVersionKind,
    /// Plural name in the path.
    pub plural: &'a str,
    /// Singular name.
    pub singular: &'a str,
    /// Whether it is namespaced.
    pub namespaced: bool,
    /// Whether the collection's path serves a single object instead of a list.
    pub singleton: bool,
    /// Its schema: a [`crate::schema::Type::Struct`] with a `definition` name.
    pub schema: &'a Schema,
    /// Verbs of the main resource: `create`, `delete`, `deletecollection`, `get`, `list`, `patch`, `update`, `watch`.
    pub verbs: &'a [&'a str],
    /// Its subresources.
    pub subresources: &'a [OpenApiSubresource<'a>],
}

/// A subresource to document.
#[derive(Clone, Copy, Debug)]
pub struct OpenApiSubresource<'a> {
    /// Its name in the path.
    pub name: &'a str,
    /// Its verbs: `get`, `create`, `update`, `patch`.
    pub verbs: &'a [&'a str],
    /// The types of its bodies; `None` if it reads and writes the object itself.
    pub own: Option<OpenApiBodies<'a>>,
}

/// The types of the request and response bodies of a subresource that are not the object itself.
#[derive(Clone, Copy, Debug)]
pub struct OpenApiBodies<'a> {
    /// The type of the request body; `None` if there is none.
    pub body: Option<OpenApiType<'a>>,
    /// The type of the response body.
    pub answer: OpenApiType<'a>,
    /// Its own query parameters, in addition to those of every request.
    pub parameters: &'a [OpenApiParameter],
}

/// A query parameter of type string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenApiParameter {
    /// Its name.
    pub name: &'static str,
    /// What it means, and in which unit.
    pub description: &'static str,
}

/// The type of a body.
#[derive(Clone, Copy, Debug)]
pub struct OpenApiType<'a> {
    /// Its group, version and kind.
    pub kind: &'a GroupVersionKind,
    /// Its schema: a [`crate::schema::Type::Struct`] with a `definition` name.
    pub schema: &'a Schema,
}

impl<'a> OpenApiResource<'a> {
    fn type_of_object(&'a self) -> OpenApiType<'a> {
        OpenApiType { kind: &self.kind, schema: self.schema }
    }
}

/// What the documents tell about the server.
#[derive(Clone, Copy, Debug)]
pub struct OpenApiInfo<'a> {
    /// `info.title`
    pub title: &'a str,
    /// `info.version`
    pub version: &'a str,
    /// Content types of PATCH bodies that the server accepts. Strategic merge patch is left out for a kind with a map
    /// of structs: clients cannot compute such patches for it.
    pub patch_types: &'a [&'a str],
}

/// The OpenAPI v2 document of all resources, as JSON.
pub fn v2(info: &OpenApiInfo<'_>, resources: &[OpenApiResource<'_>]) -> String {
    let (paths, definitions) = build(OpenApiVersion::V2, info, resources.iter());
    json!({
        "swagger": "2.0",
        "info": {"title": info.title, "version": info.version},
        "paths": paths,
        "definitions": definitions,
    })
    .to_string()
}

/// The OpenAPI v3 document of one group and version, as JSON; other resources are skipped.
pub fn v3(info: &OpenApiInfo<'_>, group: &str, version: &str, resources: &[OpenApiResource<'_>]) -> String {
    let served =
        resources.iter().filter(|resource| resource.kind.group == group && resource.kind.version == version);
    let (paths, schemas) = build(OpenApiVersion::V3, info, served);
    json!({
        "openapi": "3.0.0",
        "info": {"title": info.title, "version": info.version},
        "paths": paths,
        "components": {"schemas": schemas},
    })
    .to_string()
}

fn build<'a>(
    version: OpenApiVersion,
    info: &OpenApiInfo<'_>,
    resources: impl Iterator<Item = &'a OpenApiResource<'a>>,
) -> (Value, Value) {
    let mut definitions = Definitions::new(version);
    let mut paths = Paths::new(version, info.patch_types);
    for resource in resources {
        definitions.add_resource(resource);
        paths.add_resource(resource);
    }
    (paths.into_value(), definitions.into_value())
}

#[cfg(test)]
mod tests;

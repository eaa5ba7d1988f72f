//! OpenAPI v2 and v3 documents from schemas. Equal input gives equal bytes.

mod operations;
mod parameters;
mod protobuf;
mod schemas;
mod shared;

use crate::gvk::GroupVersionKind;
use crate::schema::Schema;
use operations::Paths;
pub use protobuf::v2_protobuf;
use schemas::{Definitions, Dialect};
use serde_json::{Value, json};

/// A resource as the documents show it.
#[derive(Clone, Debug)]
pub struct OpenApiResource<'a> {
    /// Its kind.
    pub kind: GroupVersionKind,
    /// Plural name in the path.
    pub plural: &'a str,
    /// Singular name.
    pub singular: &'a str,
    /// Whether it lives in namespaces.
    pub namespaced: bool,
    /// Whether the collection's path is that of one object, and not of a list.
    pub singleton: bool,
    /// Its shape; a [`crate::schema::Type::Struct`] with a `definition` name.
    pub schema: &'a Schema,
    /// Verbs of the main resource: `create`, `delete`, `deletecollection`, `get`, `list`, `patch`, `update`, `watch`.
    pub verbs: &'a [&'a str],
    /// Its subresources.
    pub subresources: &'a [OpenApiSubresource<'a>],
}

/// A subresource as the documents show it.
#[derive(Clone, Copy, Debug)]
pub struct OpenApiSubresource<'a> {
    /// Its name in the path.
    pub name: &'a str,
    /// Its verbs: `get`, `create`, `update`, `patch`.
    pub verbs: &'a [&'a str],
    /// Its own bodies; `None` where it reads and writes the object.
    pub own: Option<OpenApiBodies<'a>>,
}

/// The bodies of a subresource whose bodies are not the object.
#[derive(Clone, Copy, Debug)]
pub struct OpenApiBodies<'a> {
    /// What is sent; `None` for nothing.
    pub body: Option<OpenApiShape<'a>>,
    /// What is answered.
    pub answer: OpenApiShape<'a>,
    /// Its own query parameters, beside those that every request may have.
    pub parameters: &'a [OpenApiParameter],
}

/// A parameter in a query, as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenApiParameter {
    /// Its name.
    pub name: &'static str,
    /// What it means, and in which unit.
    pub description: &'static str,
}

/// A kind of bodies.
#[derive(Clone, Copy, Debug)]
pub struct OpenApiShape<'a> {
    /// Its full name.
    pub kind: &'a GroupVersionKind,
    /// Its shape; a [`crate::schema::Type::Struct`] with a `definition` name.
    pub schema: &'a Schema,
}

impl<'a> OpenApiResource<'a> {
    fn shape(&'a self) -> OpenApiShape<'a> {
        OpenApiShape { kind: &self.kind, schema: self.schema }
    }
}

/// What the documents say about the server.
#[derive(Clone, Copy, Debug)]
pub struct OpenApiInfo<'a> {
    /// `info.title`
    pub title: &'a str,
    /// `info.version`
    pub version: &'a str,
    /// Content types of PATCH bodies: exactly those that the server accepts. Strategic merge is left out for a kind
    /// with a map of structures: clients cannot compute such patches for it.
    pub patch_types: &'a [&'a str],
}

/// The OpenAPI v2 document of all resources, as JSON.
pub fn v2(info: &OpenApiInfo<'_>, resources: &[OpenApiResource<'_>]) -> String {
    let (paths, definitions) = build(Dialect::V2, info, resources.iter());
    json!({
        "swagger": "2.0",
        "info": {"title": info.title, "version": info.version},
        "paths": paths,
        "definitions": definitions,
    })
    .to_string()
}

/// The OpenAPI v3 document of one group and version, as JSON; resources of others are passed over.
pub fn v3(info: &OpenApiInfo<'_>, group: &str, version: &str, resources: &[OpenApiResource<'_>]) -> String {
    let ours =
        resources.iter().filter(|resource| resource.kind.group == group && resource.kind.version == version);
    let (paths, schemas) = build(Dialect::V3, info, ours);
    json!({
        "openapi": "3.0.0",
        "info": {"title": info.title, "version": info.version},
        "paths": paths,
        "components": {"schemas": schemas},
    })
    .to_string()
}

fn build<'a>(
    dialect: Dialect,
    info: &OpenApiInfo<'_>,
    resources: impl Iterator<Item = &'a OpenApiResource<'a>>,
) -> (Value, Value) {
    let mut definitions = Definitions::new(dialect);
    let mut paths = Paths::new(dialect, info.patch_types);
    for resource in resources {
        definitions.add_resource(resource);
        paths.add_resource(resource);
    }
    (paths.into_value(), definitions.into_value())
}

#[cfg(test)]
mod tests;

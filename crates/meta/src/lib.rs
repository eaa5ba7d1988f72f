//! Kubernetes' own rules, pure: no I/O, no clock, no knowledge of any kind of ours.
//!
//! Modules stand in the order in which a request meets them.

/// Group, version, kind and resource names.
pub mod gvk;
/// RFC 3339 times as Kubernetes writes them.
pub mod time;
/// Names, labels, annotations: what characters and lengths are allowed.
pub mod name;
/// Exact resource quantities.
pub mod quantity;
/// Field paths and field errors.
pub mod field;
/// `metav1.Status`: every failure a client sees.
pub mod status;
/// The meta types as protobuf.
pub mod protobuf;
/// An API object as a JSON tree with typed access to its metadata.
pub mod object;
/// Structural schemas: the one description of a kind that decoding, OpenAPI, patches and apply share.
pub mod schema;
/// JSON and YAML bodies to objects: strictness, pruning, defaults.
pub mod decode;
/// Generic validation of `metadata`.
pub mod validation;
/// Label and field selectors.
pub mod selector;
/// JSON patch, merge patch, strategic merge patch.
pub mod patch;
/// Field ownership and server-side apply.
pub mod managed;
/// OpenAPI v2 and v3 documents from schemas.
pub mod openapi;
/// YAML as kubectl reads it.
pub mod yaml;

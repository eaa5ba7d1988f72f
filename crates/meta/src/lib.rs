//! The general rules of the Kubernetes API, as in `k8s.io/apimachinery`. Pure: no I/O, no clock, no knowledge of our
//! kinds.
//!
//! Modules are listed in the order in which a request meets them.

/// Group, version, kind and resource names.
pub mod gvk;
/// RFC 3339 times as Kubernetes writes them.
pub mod time;
/// Names, labels, annotations: allowed characters and lengths.
pub mod name;
/// Exact resource quantities.
pub mod quantity;
/// Field paths and field errors.
pub mod field;
/// `metav1.Status`: every failure a client sees.
pub mod status;
/// The types of `meta.k8s.io` as protobuf.
pub mod protobuf;
/// An API object as a JSON tree with typed access to its metadata.
pub mod object;
/// Structural schemas: the description of a kind that decoding, OpenAPI, patches and server-side apply share.
pub mod schema;
/// Decoding of JSON and YAML bodies: strict field validation, pruning, defaults.
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
/// YAML that is read alike by YAML 1.1 and 1.2 readers.
pub mod yaml;

//! An aggregated Kubernetes API server as a library.
//!
//! A program describes its kinds as [`Resource`]s, opens a store for the stored ones, and serves them.
//! The modules are in the order in which a request passes them:
//!
//! ```text
//! server ─▶ request ─▶ authn ─▶ flow ─▶ authz ─▶ dispatch ─▶ verbs ─▶ strategy ─▶ store ─▶ response
//!  TLS      what       who      limits  Access     │         the order of a Go API server
//!                                                  └─ routes: documents, health, pages
//! ```

// The unit tests include the sample kind, which refers to this crate by its name.
#[cfg(test)]
extern crate self as apiserver;

/// Settings, limits and the running server.
pub mod server;
/// TLS: serving certificates, client CAs, reloads.
pub mod tls;
/// Limits of open connections.
mod connection_limit;
/// The caller.
pub mod caller;
/// The parsed request: one parser for router, authorizer, metrics and audit.
pub mod request;
/// Authentication: who the caller is.
pub mod authn;
/// Limits of the requests and streams in flight.
pub mod flow;
/// The minimum rate at which a client must send and receive.
mod transfer_rate;
/// Authorization: whether the caller may do what he asks for.
pub mod authz;
/// Limits how often the same thing is logged.
mod log_throttle;
/// Shares equal values in memory.
mod interner;
/// Ends a stream when its caller loses his right to it.
pub mod stream_authorization;
/// The context of an authorized request.
pub mod context;
/// Routes for clients of another protocol.
pub mod dialect;
/// Routes at paths that belong to no resource.
pub mod routes;
/// What all requests for resources share.
pub mod api;
/// Finds the resource of a request.
mod endpoint;
/// Finds the handler of a request.
pub mod dispatch;
/// The endpoint that a write came through.
pub mod object_endpoint;
/// Read access to the store.
pub mod view;
/// The rules that differ between kinds.
pub mod strategy;
/// Subresources: parts of objects that have their own URL, and actions on objects.
pub mod subresource;
/// Kinds whose objects are computed when they are read.
pub mod computed;
/// A kind: the description that discovery, OpenAPI and the verbs share.
pub mod resource;
/// The verbs.
pub mod verbs;
/// Content negotiation, tables, metadata alone, errors.
pub mod response;
/// Discovery documents, legacy and aggregated.
pub mod discovery;
/// OpenAPI documents.
pub mod openapi;
/// The audit log: who asked for what, and the outcome.
pub mod audit;
/// Metrics under the names of `k8s.io/apiserver`.
pub mod metrics;
/// Why a server cannot start.
pub mod error;
/// The store's errors as statuses of the API.
mod store_status;
/// A cache whose entries expire.
mod cache;
/// Reviews by the core kube-apiserver.
mod delegate;
/// The parsers, for fuzzing.
#[cfg(feature = "fuzzing")]
pub mod fuzzing;

pub use api::Api;
pub use caller::Caller;
pub use context::RequestContext;
pub use error::Error;
pub use object_endpoint::ObjectEndpoint;
pub use request::{RequestInfo, Verb};
pub use resource::{Resource, StoredKind};
pub use strategy::Strategy;
pub use subresource::Subresource;
pub use view::View;

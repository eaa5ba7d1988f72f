//! An aggregated Kubernetes API server as a library.
//!
//! A program describes its kinds as [`Resource`]s, opens a store for those that are kept, and serves.
//! Modules stand in the order in which a request meets them:
//!
//! ```text
//! server ─▶ request ─▶ authn ─▶ flow ─▶ authz ─▶ dispatch ─▶ verbs ─▶ strategy ─▶ store ─▶ response
//!  TLS      what       who      room    Access     │         the order of a Go API server
//!                                                  └─ routes: documents, health, pages
//! ```

// The sample kind is compiled into the unit tests, too, and names the crate from outside.
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
/// How callers are identified.
pub mod authn;
/// Whether there is room for one more request.
pub mod flow;
/// How slowly a client may send or receive.
mod transfer_rate;
/// Whether the caller may do it.
pub mod authz;
/// Limits how often the same thing is logged.
mod log_throttle;
/// Equal values in one place.
mod interner;
/// How long the caller may, if the answer is a stream.
pub mod stream_authorization;
/// An authorized request.
pub mod context;
/// Routes for clients of another protocol.
pub mod dialect;
/// Routes beside the resources.
pub mod routes;
/// What all requests at resources share.
pub mod api;
/// Finds the resource of a request.
mod endpoint;
/// Finds the handler of a request.
pub mod dispatch;
/// The endpoint that a write came through.
pub mod object_endpoint;
/// The store, to read from.
pub mod view;
/// What differs by kind.
pub mod strategy;
/// Parts of objects with a URL of their own, and actions on objects.
pub mod subresource;
/// Kinds that are made when somebody reads them.
pub mod computed;
/// A kind: the description that discovery, OpenAPI and the verbs share.
pub mod resource;
/// One verb a module, in the order of a Go API server.
pub mod verbs;
/// Content negotiation, Table, PartialObjectMetadata, errors.
pub mod response;
/// Discovery documents, legacy and aggregated.
pub mod discovery;
/// OpenAPI documents.
pub mod openapi;
/// The audit log: who has asked for what, with which outcome.
pub mod audit;
/// Metrics under the names of `k8s.io/apiserver`.
pub mod metrics;
/// Why a server cannot start.
pub mod error;
/// The store's errors as statuses of the API.
mod store_status;
/// Answers remembered for a while.
mod cache;
/// Questions to the core kube-apiserver.
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

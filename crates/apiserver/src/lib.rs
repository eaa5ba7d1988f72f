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
/// Connections of which nobody is known yet.
mod places;
/// Who asks.
pub mod caller;
/// What is asked: one parser for router, authorizer, metrics and audit.
pub mod request;
/// How callers are told apart.
pub mod authn;
/// Whether there is room for one more request.
pub mod flow;
/// How slow a client may be that holds a place.
mod pace;
/// Whether he may.
pub mod authz;
/// Equal values in one place.
mod interner;
/// How long he may, where the answer is a stream.
pub mod tenure;
/// An authorized request.
pub mod context;
/// Routes for clients of another protocol.
pub mod dialect;
/// What is served beside the resources.
pub mod routes;
/// What all requests at resources share.
pub mod api;
/// Which resource is meant.
mod endpoint;
/// Which handler answers.
pub mod dispatch;
/// The endpoint that a write came through.
pub mod part;
/// The store, to read from.
pub mod view;
/// What differs by kind.
pub mod strategy;
/// Parts of objects with a URL of their own, and what is done to objects.
pub mod subresource;
/// Kinds that are made when somebody reads them.
pub mod computed;
/// What a kind is: the description that discovery, OpenAPI and the verbs share.
pub mod resource;
/// One verb a module, in the order of a Go API server.
pub mod verbs;
/// Content negotiation, Table, PartialObjectMetadata, errors.
pub mod response;
/// Discovery documents, legacy and aggregated.
pub mod discovery;
/// OpenAPI documents.
pub mod openapi;
/// What was asked, by whom, with which outcome.
pub mod audit;
/// The field's metrics.
pub mod metrics;
/// Why a server cannot start.
pub mod error;
/// What the store could not do, in the words of the API.
mod store_status;
/// Answers remembered for a while.
mod cache;
/// Questions to the core kube-apiserver.
mod delegate;
/// The parsers, for those who try to break them.
#[cfg(feature = "fuzzing")]
pub mod fuzzing;

pub use api::Api;
pub use caller::Caller;
pub use context::RequestContext;
pub use error::Error;
pub use part::Part;
pub use request::{RequestInfo, Verb};
pub use resource::{Resource, StoredKind};
pub use strategy::Strategy;
pub use subresource::Subresource;
pub use view::View;

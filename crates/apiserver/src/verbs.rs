//! The verbs, one in each module. Their steps come in the order of a Go API server.

pub(crate) mod body;
pub(crate) mod options;

mod apply;
mod change;
mod commit;
mod computed;
mod create;
mod create_list;
mod delete;
mod delete_collection;
mod get;
mod handler;
mod list;
mod moves;
mod nul;
mod owned_fields;
mod owner_references;
mod parent;
mod patch;
mod retry;
mod update;
mod watch;

use crate::api::Api;
use crate::audit;
use crate::authz::AuthorizationAttributes;
use crate::context::RequestContext;
use crate::endpoint::{Endpoint, EndpointKind};
use crate::flow::InFlightPermit;
use crate::object_endpoint::ObjectEndpoint;
use crate::request::{Query, ResourceRequest, Verb};
use crate::resource::{Resource, StoredKind};
use crate::response::{self, Form, IncludeObject, Renderer, ResponseKind, Style};
use crate::strategy::ExtraRight;
use crate::view::View;
use axum::body::Body;
use bytes::BytesMut;
use http::{HeaderMap, Request, Response, StatusCode};
use meta::status::Status;
use std::sync::Arc;
use std::time::Duration;
use store::model::Growth;
use store::read::At;
use store::{Entry, Key, Revision, Visibility};
use tokio::time::Instant;

/// How long a write may take, including its retries after conflicts.
const WRITE_DEADLINE: Duration = Duration::from_secs(34);

/// A request for a resource, while its verb runs.
#[derive(Debug)]
pub(crate) struct Call<'r> {
    pub(crate) api: &'r Arc<Api>,
    pub(crate) cx: &'r mut RequestContext,
    pub(crate) request: Arc<ResourceRequest>,
    pub(crate) resource: Arc<Resource>,
    /// The endpoint, as strategies see it.
    pub(crate) endpoint: ObjectEndpoint,
    pub(crate) query: Query,
    pub(crate) headers: HeaderMap,
    pub(crate) style: Style,
    pub(crate) warnings: Vec<String>,
    /// The permit for its body, if the body is heavy.
    pub(crate) heavy_permit: Option<InFlightPermit>,
}

/// Runs the verb of a request at its endpoint.
pub(crate) async fn run(
    api: &Arc<Api>,
    cx: &mut RequestContext,
    resource_request: Arc<ResourceRequest>,
    endpoint: Endpoint,
    request: Request<Body>,
) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let Endpoint { resource, kind } = endpoint;
    let mut call = Call {
        api,
        cx,
        request: resource_request,
        resource,
        endpoint: kind.endpoint(),
        query: Query::parse(parts.uri.query()),
        headers: parts.headers,
        style: Style::default(),
        warnings: Vec::new(),
        heavy_permit: None,
    };
    let answer = match call.deadline() {
        None => call.answer(&kind, body).await,
        Some(deadline) => {
            tokio::time::timeout_at(deadline, call.answer(&kind, body)).await.unwrap_or_else(|_elapsed| {
                Err(Status::timeout("request did not complete within the allotted timeout", 0))
            })
        }
    };
    let mut response = answer.unwrap_or_else(|status| {
        let style = Style::of_failure(&call.headers, &call.query);
        response::error_response(&status, &style)
    });
    response::add_warnings(&mut response, &call.warnings);
    response
}

impl Call<'_> {
    fn deadline(&self) -> Option<Instant> {
        match self.request.verb {
            Verb::Watch => None,
            Verb::Get | Verb::List | Verb::DeleteCollection => Some(self.cx.deadline),
            Verb::Create | Verb::Update | Verb::Patch | Verb::Delete | Verb::Other(_) => {
                Some(self.cx.deadline.min(Instant::now() + WRITE_DEADLINE))
            }
        }
    }

    async fn answer(&mut self, kind: &EndpointKind, body: Body) -> Result<Response<Body>, Status> {
        match kind {
            EndpointKind::Objects { stored, .. } => self.objects(stored, body).await,
            // Boxed: these requests are rare, and the futures of all others stay smaller.
            EndpointKind::Handler { stored, handler, .. } => {
                Box::pin(handler::run_handler(self, stored, &**handler, body)).await
            }
            EndpointKind::Computed(computed) => Box::pin(computed::read(self, &**computed)).await,
            EndpointKind::Singleton(singleton) => {
                Box::pin(computed::read_singleton(self, &**singleton)).await
            }
        }
    }

    async fn objects(&mut self, stored: &StoredKind, body: Body) -> Result<Response<Body>, Status> {
        // A patch of an unknown type is refused before anything else is checked.
        let patch =
            if self.request.verb == Verb::Patch { Some(patch::PatchType::of(&self.headers)?) } else { None };
        self.negotiate()?;
        match (self.request.verb, patch) {
            (Verb::Patch, Some(kind)) => patch::patch(self, stored, kind, body).await,
            // Boxed: this request is rare, and the futures of all others stay smaller.
            (Verb::Create, _) if self.resource.namespaced && self.request.namespace.is_empty() => {
                Box::pin(create_list::create_list(self, stored, body)).await
            }
            (Verb::Create, _) => create::create(self, stored, body).await,
            (Verb::Get, _) => get::get(self, stored).await,
            (Verb::List, _) => list::list(self, stored).await,
            (Verb::Watch, _) => watch::watch(self, stored).await,
            (Verb::Update, _) => update::update(self, stored, body).await,
            (Verb::Delete, _) => delete::delete(self, stored, body).await,
            (Verb::DeleteCollection, _) => delete_collection::delete_collection(self, stored, body).await,
            (Verb::Patch | Verb::Other(_), _) => Err(Status::method_not_allowed()),
        }
    }

    /// Negotiates the form of the answer.
    pub(crate) fn negotiate(&mut self) -> Result<(), Status> {
        let response_kind =
            if self.request.verb == Verb::Watch { ResponseKind::Events } else { ResponseKind::Objects };
        self.style = Style::of(&self.headers, &self.query, response_kind)?;
        self.check_form()
    }

    /// Refuses a list as `PartialObjectMetadata`, and an object as `PartialObjectMetadataList`.
    fn check_form(&self) -> Result<(), Status> {
        let is_list =
            matches!(self.request.verb, Verb::List | Verb::DeleteCollection) && !self.resource.is_singleton();
        let (version, kind) = (&self.resource.gvk.version, &self.resource.gvk.kind);
        let message = match self.style.accepted.form {
            Form::Partial(_) if is_list => {
                format!(
                    "you requested PartialObjectMetadata, but the requested object is a list (*{version}.{kind}List)"
                )
            }
            Form::PartialList(_) if !is_list => format!(
                "you requested PartialObjectMetadataList, but the requested object is not a list (*{version}.{kind})"
            ),
            _ => return Ok(()),
        };
        Err(Status::failure(406, "NotAcceptable", message))
    }

    pub(crate) fn key(&self, stored: &StoredKind) -> Key {
        Key::new(stored.id, &self.request.namespace, &self.request.name)
    }

    /// The store as this caller sees it.
    pub(crate) fn view(&self, at: At) -> View<'_> {
        View::new(&self.api.store, &self.cx.access, &self.api.internal, at)
    }

    /// Now, RFC 3339 in whole seconds.
    pub(crate) fn now(&self) -> String {
        meta::time::rfc3339(self.api.clock.unix_seconds())
    }

    /// Whether this caller sees nothing at all. His lists are then empty, and the store is not read.
    pub(crate) fn sees_nothing(&self) -> bool {
        matches!(self.cx.access.visibility(), Visibility::Nothing)
    }

    /// How far a write may let its object grow. Checks the right that this needs beyond the one of the request's verb.
    pub(crate) async fn growth(&self, right: Option<ExtraRight>, name: &str) -> Result<Growth, Status> {
        let Some(ExtraRight { verb, why, within }) = right else { return Ok(Growth::Free) };
        match (self.require_verb(Verb::from(verb)).await, within) {
            (Ok(()), _) => Ok(Growth::Free),
            (Err(status), Some(within)) if status.code == 403 => Ok(Growth::Within(within)),
            (Err(status), None) if status.code == 403 => {
                Err(Status::forbidden(&self.resource.group_resource(), name, &why))
            }
            (Err(status), _) => Err(status),
        }
    }

    /// An error if the caller does not have the right to this verb on the object of the request.
    pub(crate) async fn require_verb(&self, verb: Verb) -> Result<(), Status> {
        let right = ResourceRequest { subresource: String::new(), ..self.request.with_verb(verb) };
        self.require_right(right).await
    }

    /// An error if the caller does not have this right. It may be on another resource.
    pub(crate) async fn require_right(&self, right: ResourceRequest) -> Result<(), Status> {
        let Some(authorization) = &self.cx.authorization else {
            let why = format!("nobody can be asked for the verb {:?}", right.verb.as_str());
            return Err(Status::forbidden(&self.resource.group_resource(), &self.request.name, &why));
        };
        let attributes = AuthorizationAttributes { caller: Arc::clone(&self.cx.caller), info: right.into() };
        authorization.authorize(&attributes).await.map(|_access| ())
    }

    /// Records what a write did, for the audit log. `old` is the revision before, if there was one.
    pub(crate) fn record_change(
        &mut self,
        old: Option<Revision>,
        entry: &Entry,
        dry_run: bool,
        note: String,
    ) {
        self.cx.outcome = Some(audit::AuditedChange {
            name: entry.key.name.to_string(),
            uid: entry.uid.to_string(),
            old: old.map(|revision| revision.to_string()).unwrap_or_default(),
            new: entry.revision.to_string(),
            dry_run,
            note,
        });
    }

    /// Records how many objects of a collection were written, for the audit log.
    pub(crate) fn record_collection_change(&mut self, objects: usize, dry_run: bool) {
        self.cx.outcome = Some(audit::AuditedChange {
            dry_run,
            note: format!("{objects} objects"),
            ..audit::AuditedChange::default()
        });
    }

    /// The renderer of the objects in this request's answer.
    pub(crate) fn renderer(&self) -> Result<Renderer, Status> {
        let (media, form) = (self.style.accepted.media, self.style.accepted.form);
        let include = match form {
            Form::Table(_) => IncludeObject::parse(self.query.text("includeObject"))?,
            _ => IncludeObject::Metadata,
        };
        let now = self.api.clock.unix_seconds();
        Ok(Renderer { resource: Arc::clone(&self.resource), media, form, include, now })
    }

    /// Answers with one object.
    pub(crate) fn respond(&self, code: StatusCode, entry: &Entry) -> Result<Response<Body>, Status> {
        let mut bytes = BytesMut::with_capacity(entry.body.len().saturating_add(64));
        self.renderer()?.object(entry, &mut bytes);
        Ok(response::rendered_response(code, bytes, &self.style))
    }
}

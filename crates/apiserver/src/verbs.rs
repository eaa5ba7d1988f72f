//! One verb a module, in the order of a Go API server.

pub(crate) mod body;
pub(crate) mod options;
pub(crate) mod query;

mod apply;
mod change;
mod commit;
mod create;
mod delete;
mod delete_collection;
mod errors;
mod get;
mod list;
mod patch;
mod update;
mod watch;

pub(crate) use patch::PATCH_TYPES;

use crate::audit;
use crate::authz::{Attributes, Authorization};
use crate::dispatch::{Api, RequestContext, Route, Verb};
use crate::request::RequestInfo;
use crate::resource::{Part, Resource};
use crate::response::{self, Form, Include, Offer, Renderer, Style};
use crate::strategy::ExtraRight;
use axum::body::Body;
use bytes::BytesMut;
use http::{HeaderMap, Request, Response, StatusCode};
use meta::status::Status;
use query::Query;
use std::sync::Arc;
use std::time::Duration;
use store::{Entry, Key, Revision, Visibility};
use tokio::time::Instant;

/// How long a write may take, its tries after conflicts included.
const WRITE_DEADLINE: Duration = Duration::from_secs(34);

/// One request at one resource, on its way through a verb.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) api: Arc<Api>,
    pub(crate) cx: RequestContext,
    pub(crate) route: Route,
    pub(crate) query: Query,
    pub(crate) headers: HeaderMap,
    pub(crate) style: Style,
    pub(crate) warnings: Vec<String>,
    /// Asked where a write needs more than its verb's right.
    authorization: Option<Arc<Authorization>>,
    /// What a write did, for the audit log.
    audit: Option<audit::Change>,
}

/// Runs the verb of a routed request.
pub(crate) async fn run(
    api: &Arc<Api>,
    cx: RequestContext,
    route: Route,
    request: Request<Body>,
) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let errors = Style::of_error(&parts.headers, &parts.uri);
    let mut call = Call {
        api: Arc::clone(api),
        cx,
        route,
        query: Query::parse(parts.uri.query()),
        headers: parts.headers,
        style: errors,
        warnings: Vec::new(),
        authorization: parts.extensions.get::<Arc<Authorization>>().cloned(),
        audit: None,
    };
    let answer = match call.deadline() {
        None => call.answer(body).await,
        Some(deadline) => {
            tokio::time::timeout_at(deadline, call.answer(body)).await.unwrap_or_else(|_elapsed| {
                Err(Status::timeout("request did not complete within the allotted timeout", 0))
            })
        }
    };
    let mut response = answer.unwrap_or_else(|status| response::failure(&status, &errors));
    response::add_warnings(&mut response, &call.warnings);
    if let Some(change) = call.audit {
        response.extensions_mut().insert(change);
    }
    response
}

impl Call {
    fn deadline(&self) -> Option<Instant> {
        match self.route.verb {
            Verb::Watch => None,
            Verb::Get | Verb::List | Verb::DeleteCollection => Some(self.cx.deadline),
            Verb::Create | Verb::Update | Verb::Patch | Verb::Delete => {
                Some(self.cx.deadline.min(Instant::now() + WRITE_DEADLINE))
            }
        }
    }

    async fn answer(&mut self, body: Body) -> Result<Response<Body>, Status> {
        // A patch of an unknown type is refused before anything else is looked at.
        let patch =
            if self.route.verb == Verb::Patch { Some(patch::PatchType::of(&self.headers)?) } else { None };
        let watch = self.route.verb == Verb::Watch;
        let offer = if watch { Offer::Events } else { Offer::Objects };
        self.style = Style::of(&self.headers, &self.query, offer)?;
        self.check_form()?;
        match (self.route.verb, patch) {
            (Verb::Patch, Some(kind)) => patch::patch(self, kind, body).await,
            (Verb::Create, _) => create::create(self, body).await,
            (Verb::Get, _) => get::get(self).await,
            (Verb::List, _) => list::list(self).await,
            (Verb::Watch, _) => watch::watch(self).await,
            (Verb::Update, _) => update::update(self, body).await,
            (Verb::Delete, _) => delete::delete(self, body).await,
            (Verb::DeleteCollection, _) => delete_collection::delete_collection(self, body).await,
            (Verb::Patch, None) => Err(Status::method_not_allowed()),
        }
    }

    /// A list cannot be shown as one object's metadata, nor an object as a list.
    fn check_form(&self) -> Result<(), Status> {
        let resource = &self.route.resource;
        let is_list = matches!(self.route.verb, Verb::List | Verb::DeleteCollection);
        let (version, kind) = (&resource.gvk.version, &resource.gvk.kind);
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

    pub(crate) fn resource(&self) -> &Arc<Resource> {
        &self.route.resource
    }

    /// The part of the object that this endpoint writes.
    pub(crate) fn part(&self) -> Part {
        self.route.subresource.map_or(Part::Main, |subresource| subresource.writes)
    }

    /// The subresource's name; empty for the main resource.
    pub(crate) fn subresource(&self) -> &'static str {
        self.route.subresource.map_or("", |subresource| subresource.name)
    }

    pub(crate) fn key(&self) -> Key {
        Key::new(self.route.resource.id, &self.route.namespace, &self.route.name)
    }

    /// Now, RFC 3339 in whole seconds.
    pub(crate) fn now(&self) -> String {
        meta::time::rfc3339(self.api.clock.unix_seconds())
    }

    /// Whether this caller sees nothing at all: lists are empty without anybody being asked.
    pub(crate) fn sees_nothing(&self) -> bool {
        matches!(self.cx.access.visibility(), Visibility::Nothing)
    }

    /// Asks for the right to create: an apply may turn out to be one.
    pub(crate) async fn may_create(&self) -> Result<(), Status> {
        self.authorize("create").await
    }

    /// Asks for a right beyond that of the request's own verb.
    pub(crate) async fn demand(&self, right: &ExtraRight, name: &str) -> Result<(), Status> {
        self.authorize(right.verb).await.map_err(|status| match status.code {
            403 => Status::forbidden(&self.resource().group_resource(), name, &right.why),
            _ => status,
        })
    }

    async fn authorize(&self, verb: &str) -> Result<(), Status> {
        let Some(authorization) = &self.authorization else {
            let why = format!("nobody can be asked for the verb {verb:?}");
            return Err(Status::forbidden(&self.resource().group_resource(), &self.route.name, &why));
        };
        let info =
            RequestInfo { verb: verb.to_owned(), subresource: String::new(), ..(*self.cx.info).clone() };
        let attributes = Attributes { caller: Arc::clone(&self.cx.caller), info: Arc::new(info) };
        authorization.authorize(&attributes).await.map(|_access| ())
    }

    /// Remembers what a write did. `old` is the revision before, where there was one.
    pub(crate) fn audit(&mut self, old: Option<Revision>, entry: &Entry, dry_run: bool, note: String) {
        self.audit = Some(audit::Change {
            name: entry.key.name.to_string(),
            uid: entry.uid.to_string(),
            old: old.map(|revision| revision.to_string()).unwrap_or_default(),
            new: entry.revision.to_string(),
            dry_run,
            note,
        });
    }

    /// Remembers how many objects a collection's deletion has touched.
    pub(crate) fn audit_collection(&mut self, objects: usize, dry_run: bool) {
        self.audit =
            Some(audit::Change { dry_run, note: format!("{objects} objects"), ..audit::Change::default() });
    }

    /// What writes the objects of this request's answer. Only what is read is decorated.
    pub(crate) fn renderer(&self) -> Result<Renderer, Status> {
        let (media, form) = (self.style.accepted.media, self.style.accepted.form);
        let include = match form {
            Form::Table(_) => Include::parse(self.query.text("includeObject"))?,
            _ => Include::Metadata,
        };
        let is_read = matches!(self.route.verb, Verb::Get | Verb::List);
        let decorate = is_read && self.route.resource.strategy.decorates();
        let now = self.api.clock.unix_seconds();
        Ok(Renderer { resource: Arc::clone(&self.route.resource), media, form, include, now, decorate })
    }

    /// Answers with one object.
    pub(crate) fn respond(&self, code: StatusCode, entry: &Entry) -> Result<Response<Body>, Status> {
        let mut bytes = BytesMut::with_capacity(entry.body.len().saturating_add(64));
        self.renderer()?.object(entry, &mut bytes);
        Ok(response::rendered(code, bytes, &self.style))
    }
}

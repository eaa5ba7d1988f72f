use crate::object_endpoint::ObjectEndpoint;
use crate::request::{Query, Verb};
use crate::strategy::WriteContext;
use crate::view::View;
use futures_util::future::BoxFuture;
use meta::gvk::GroupVersionKind;
use meta::object::Object;
use meta::openapi::OpenApiParameter;
use meta::schema::Schema;
use meta::status::Status;
use std::sync::Arc;

/// A path of map keys in an object.
pub type FieldPath = &'static [&'static str];

/// A part of an object with a URL of its own, or an action on it.
#[derive(Clone, Debug)]
pub struct Subresource {
    /// Its name in URLs.
    pub name: &'static str,
    /// Its verbs, sorted as discovery shows them. A subresource that writes paths has get, patch and update; a
    /// handler can have create, get and update.
    pub verbs: &'static [Verb],
    /// How it serves requests.
    pub kind: SubresourceKind,
}

/// How a subresource serves requests.
#[derive(Clone)]
pub enum SubresourceKind {
    /// The object itself is read and written, but a write changes only these paths, and no other write changes them.
    Writes(Writes),
    /// A handler answers, with bodies of its own.
    Handler(Arc<dyn SubresourceHandler>),
}

/// The paths that one subresource owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Writes {
    /// The paths.
    pub paths: &'static [FieldPath],
    /// Whether a new object keeps the values that its creator has set there.
    pub kept_at_create: bool,
    /// Whether it may grow what the object costs or grants, as main writes may.
    pub may_grow: bool,
}

impl Subresource {
    /// `status`: the observed state of the object. A new object has only what its strategy gives it.
    pub const STATUS: Self = Self::writing("status", &[&["status"]], false);
    /// `finalize`: who waits for the object's end, in `spec.finalizers`.
    pub const FINALIZE: Self = Self::writing("finalize", &[&["spec", "finalizers"]], true);

    /// One that owns paths of the object.
    pub const fn writing(name: &'static str, paths: &'static [FieldPath], kept_at_create: bool) -> Self {
        let verbs = &[Verb::Get, Verb::Patch, Verb::Update];
        let writes = Writes { paths, kept_at_create, may_grow: false };
        Self { name, verbs, kind: SubresourceKind::Writes(writes) }
    }

    /// One that owns paths of the object, and may grow by them what it costs or grants. Its paths may lie below those
    /// of another subresource, which then does not write them.
    pub const fn growing(name: &'static str, paths: &'static [FieldPath]) -> Self {
        let verbs = &[Verb::Get, Verb::Patch, Verb::Update];
        let writes = Writes { paths, kept_at_create: false, may_grow: true };
        Self { name, verbs, kind: SubresourceKind::Writes(writes) }
    }

    /// One with a handler.
    pub fn handled(name: &'static str, verbs: &'static [Verb], handler: impl SubresourceHandler) -> Self {
        Self { name, verbs, kind: SubresourceKind::Handler(Arc::new(handler)) }
    }

    /// The endpoint of writes through it, as strategies see it.
    pub const fn endpoint(&self) -> ObjectEndpoint {
        ObjectEndpoint::Subresource(self.name)
    }

    /// Whether writes to its paths may grow what the object costs or grants.
    pub(crate) fn may_grow(&self) -> bool {
        matches!(&self.kind, SubresourceKind::Writes(writes) if writes.may_grow)
    }

    /// The paths that it owns.
    pub fn paths(&self) -> &'static [FieldPath] {
        match &self.kind {
            SubresourceKind::Writes(writes) => writes.paths,
            SubresourceKind::Handler(_) => &[],
        }
    }
}

impl std::fmt::Debug for SubresourceKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Writes(writes) => f.debug_tuple("Writes").field(&writes.paths).finish(),
            Self::Handler(_) => f.write_str("Handler"),
        }
    }
}

/// A kind of bodies, as decoding, OpenAPI and `kubectl explain` know it.
#[derive(Clone, Debug, PartialEq)]
pub struct BodySchema {
    /// Its full name.
    pub kind: GroupVersionKind,
    /// `apiVersion`, `kind`, `metadata` and its own fields.
    pub schema: Schema,
}

/// Acts on one object, in one transaction. It gets the object as it is, and returns the new object and the answer. It
/// is asked again if another write was faster. The write is like any other: the strategy prepares, admits and
/// validates it, field owners are tracked, and the ledger decides.
pub trait SubresourceHandler: Send + Sync + 'static {
    /// The shape of its body; `None` if it reads none. A GET never has one.
    fn body(&self) -> Option<&BodySchema>;

    /// The shape of its answer.
    fn answer(&self) -> &BodySchema;

    /// Returns the answer, and what becomes of the object. It only reads: nothing is stored but what it returns.
    fn handle<'a>(
        &'a self,
        cx: &'a mut WriteContext<'_>,
        view: View<'a>,
        action: Action<'a>,
    ) -> BoxFuture<'a, Result<HandlerOutput, Status>>;

    /// Its own query parameters, beside those of every request, for OpenAPI.
    fn parameters(&self) -> &'static [OpenApiParameter] {
        &[]
    }

    /// Whether even a GET acts: then it counts among the writes, and goes into the audit log.
    fn acts_on_get(&self) -> bool {
        false
    }

    /// Another form of the answer, if the request asks for one.
    fn text(&self, _query: &Query, _answer: &Object) -> Option<TextAnswer> {
        None
    }

    /// Whether it may grow what the object costs or grants, as main writes may.
    fn may_grow(&self) -> bool {
        false
    }

    /// Whether it moves the object: the object that it returns lies in another namespace. Its caller then also needs
    /// the right to create there. The object keeps its uid, gets a new generation, and is itself the answer, as it
    /// was stored. No other handler changes the namespace of an object.
    fn moves(&self) -> bool {
        false
    }

    /// The note of the audit log about an action that was done.
    fn note(&self, _action: Action<'_>) -> String {
        String::new()
    }
}

/// An answer that is not an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextAnswer {
    /// Such as `application/yaml`.
    pub content_type: &'static str,
    /// All of it.
    pub body: String,
}

/// The request that a handler gets.
#[derive(Clone, Copy, Debug)]
pub struct Action<'a> {
    /// Create, get or update.
    pub verb: Verb,
    /// The object, as it is.
    pub object: &'a Object,
    /// The body, decoded by its shape.
    pub body: Option<&'a Object>,
    /// The query of the request.
    pub query: &'a Query,
}

/// The result of a handler.
#[derive(Clone, Debug)]
pub struct HandlerOutput {
    /// The new state of the object; `None` leaves it alone. Ignored for a get.
    pub object: Option<Object>,
    /// The answer; `apiVersion` and `kind` are filled in. Ignored if the object moves.
    pub answer: Object,
}

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

/// A part of an object that has its own URL, or an action on the object.
#[derive(Clone, Debug)]
pub struct Subresource {
    /// Its name in URLs.
    pub name: &'static str,
    /// Its verbs, sorted as discovery shows them. A subresource that writes paths has get, patch and update. One with a
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
    /// A handler answers. It has its own kinds of bodies.
    Handler(Arc<dyn SubresourceHandler>),
}

/// The paths that one subresource owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Writes {
    /// The paths.
    pub paths: &'static [FieldPath],
    /// Whether a new object keeps the values that its creator sets there.
    pub kept_at_create: bool,
    /// Whether a write may raise what the object costs or grants, as a write of the object itself may.
    pub may_grow: bool,
}

impl Subresource {
    /// `status`: the observed state of the object. A new object has only what its strategy gives it.
    pub const STATUS: Self = Self::writing("status", &[&["status"]], false);
    /// `finalize`: the finalizers in `spec.finalizers`.
    pub const FINALIZE: Self = Self::writing("finalize", &[&["spec", "finalizers"]], true);

    /// A subresource that owns paths of the object.
    pub const fn writing(name: &'static str, paths: &'static [FieldPath], kept_at_create: bool) -> Self {
        let verbs = &[Verb::Get, Verb::Patch, Verb::Update];
        let writes = Writes { paths, kept_at_create, may_grow: false };
        Self { name, verbs, kind: SubresourceKind::Writes(writes) }
    }

    /// A subresource that owns paths of the object, through which it may raise what the object costs or grants. Its
    /// paths may lie below those of another subresource, which then does not write them.
    pub const fn growing(name: &'static str, paths: &'static [FieldPath]) -> Self {
        let verbs = &[Verb::Get, Verb::Patch, Verb::Update];
        let writes = Writes { paths, kept_at_create: false, may_grow: true };
        Self { name, verbs, kind: SubresourceKind::Writes(writes) }
    }

    /// A subresource with a handler.
    pub fn handled(name: &'static str, verbs: &'static [Verb], handler: impl SubresourceHandler) -> Self {
        Self { name, verbs, kind: SubresourceKind::Handler(Arc::new(handler)) }
    }

    /// The endpoint of writes through it, as strategies see it.
    pub const fn endpoint(&self) -> ObjectEndpoint {
        ObjectEndpoint::Subresource(self.name)
    }

    /// Whether a write to its paths may raise what the object costs or grants.
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

/// The kind and schema of a body, for decoding, OpenAPI and `kubectl explain`.
#[derive(Clone, Debug, PartialEq)]
pub struct BodySchema {
    /// Its full name.
    pub kind: GroupVersionKind,
    /// `apiVersion`, `kind`, `metadata` and its own fields.
    pub schema: Schema,
}

/// Acts on one object, in one transaction. It gets the live object, and returns the new object and the answer. It is
/// called again after a conflict with another write. The write is like any other: the strategy prepares, admits and
/// validates it, `managedFields` are set, and the quota ledger checks it.
pub trait SubresourceHandler: Send + Sync + 'static {
    /// The kind and schema of its body; `None` if it reads none. A GET has no body.
    fn body(&self) -> Option<&BodySchema>;

    /// The kind and schema of its answer.
    fn answer(&self) -> &BodySchema;

    /// Computes the answer and the new state of the object. It only reads; the server stores what it returns.
    fn handle<'a>(
        &'a self,
        cx: &'a mut WriteContext<'_>,
        view: View<'a>,
        action: Action<'a>,
    ) -> BoxFuture<'a, Result<HandlerOutput, Status>>;

    /// Its query parameters in addition to those of every request, for OpenAPI.
    fn parameters(&self) -> &'static [OpenApiParameter] {
        &[]
    }

    /// Whether even a GET has effects. It then counts as a write, and is written to the audit log.
    fn acts_on_get(&self) -> bool {
        false
    }

    /// The answer as a text, if the request asks for one.
    fn text(&self, _query: &Query, _answer: &Object) -> Option<TextAnswer> {
        None
    }

    /// Whether it may raise what the object costs or grants, as a write of the object itself may.
    fn may_grow(&self) -> bool {
        false
    }

    /// Whether it moves the object: the returned object is in another namespace. Its caller then also needs the right
    /// to create objects there. The object keeps its uid and gets a new generation, and the answer is the stored
    /// object. No other handler may change the namespace of an object.
    fn moves(&self) -> bool {
        false
    }

    /// The note about the action in the audit log.
    fn note(&self, _action: Action<'_>) -> String {
        String::new()
    }
}

/// An answer that is not an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextAnswer {
    /// Such as `application/yaml`.
    pub content_type: &'static str,
    /// The whole text.
    pub body: String,
}

/// The request that a handler gets.
#[derive(Clone, Copy, Debug)]
pub struct Action<'a> {
    /// Create, get or update.
    pub verb: Verb,
    /// The live object.
    pub object: &'a Object,
    /// The decoded body.
    pub body: Option<&'a Object>,
    /// The query of the request.
    pub query: &'a Query,
}

/// The result of a handler.
#[derive(Clone, Debug)]
pub struct HandlerOutput {
    /// The new state of the object; `None` leaves it unchanged. Ignored for a get.
    pub object: Option<Object>,
    /// The answer; the server sets its `apiVersion` and `kind`. Ignored if the object moves.
    pub answer: Object,
}

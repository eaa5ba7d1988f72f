use crate::part::Part;
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

/// A part of an object with a URL of its own, or something that is done to it.
#[derive(Clone, Debug)]
pub struct Subresource {
    /// Its name in URLs.
    pub name: &'static str,
    /// What may be done, sorted as discovery shows it. Where paths are written that is get, patch and update; a handler
    /// can have create, get and update.
    pub verbs: &'static [Verb],
    /// What becomes of a request.
    pub kind: SubresourceKind,
}

/// What becomes of a request at a subresource.
#[derive(Clone)]
pub enum SubresourceKind {
    /// The object itself is read and written, but a write changes only these paths; and no other write changes them.
    Writes(Writes),
    /// A handler answers, with bodies of its own.
    Handler(Arc<dyn SubresourceHandler>),
}

/// The paths that one subresource owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Writes {
    /// The paths.
    pub paths: &'static [FieldPath],
    /// Whether a new object keeps what its maker has put there.
    pub kept_at_create: bool,
    /// Whether it may grow what the object costs or grants, as main writes may.
    pub may_grow: bool,
}

impl Subresource {
    /// `status`: what is seen of the object. A new object has none but what its strategy gives it.
    pub const STATUS: Self = Self::writing("status", &[&["status"]], false);
    /// `finalize`: who waits for the object's end, in `spec.finalizers`.
    pub const FINALIZE: Self = Self::writing("finalize", &[&["spec", "finalizers"]], true);

    /// One that owns paths of the object.
    pub const fn writing(name: &'static str, paths: &'static [FieldPath], kept_at_create: bool) -> Self {
        let verbs = &[Verb::Get, Verb::Patch, Verb::Update];
        let writes = Writes { paths, kept_at_create, may_grow: false };
        Self { name, verbs, kind: SubresourceKind::Writes(writes) }
    }

    /// One that owns paths of the object, and may grow by them what it costs or grants. Paths may lie below those of
    /// another one, which then does not write them.
    pub const fn growing(name: &'static str, paths: &'static [FieldPath]) -> Self {
        let verbs = &[Verb::Get, Verb::Patch, Verb::Update];
        let writes = Writes { paths, kept_at_create: false, may_grow: true };
        Self { name, verbs, kind: SubresourceKind::Writes(writes) }
    }

    /// One that does something of its own.
    pub fn handled(name: &'static str, verbs: &'static [Verb], handler: impl SubresourceHandler) -> Self {
        Self { name, verbs, kind: SubresourceKind::Handler(Arc::new(handler)) }
    }

    /// Writes through it, as strategies see them.
    pub const fn part(&self) -> Part {
        Part::Sub(self.name)
    }

    /// Whether writes through it may grow what the object costs or grants, by what they write.
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

/// A kind of bodies: what decoding, OpenAPI and `kubectl explain` know of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    /// Its full name.
    pub kind: GroupVersionKind,
    /// `apiVersion`, `kind`, `metadata` and its own fields.
    pub schema: Schema,
}

/// Does something to one object, in one transaction: it is given the object as it is, says what shall become of it and
/// what is answered, and is asked again when somebody was faster. The write is one as any other: the strategy prepares,
/// admits and validates it, field owners are kept, the ledger decides.
pub trait SubresourceHandler: Send + Sync + 'static {
    /// What it takes; `None` where it reads no body. GET never has one.
    fn body(&self) -> Option<&Shape>;

    /// What it answers with.
    fn answer(&self) -> &Shape;

    /// Answers, and says what becomes of the object. It only reads; nothing is stored but what it gives back.
    fn handle<'a>(
        &'a self,
        cx: &'a mut WriteContext<'_>,
        view: View<'a>,
        action: Action<'a>,
    ) -> BoxFuture<'a, Result<Handled, Status>>;

    /// What it reads in the query beside what every request may have there: for OpenAPI.
    fn parameters(&self) -> &'static [OpenApiParameter] {
        &[]
    }

    /// Whether even GET does something: then it counts among the writes and goes into the audit log.
    fn acts_on_get(&self) -> bool {
        false
    }

    /// Another form of an answer, where the request asks for one.
    fn text(&self, _query: &Query, _answer: &Object) -> Option<Text> {
        None
    }

    /// Whether it may grow what the object costs or grants, as main writes may.
    fn may_grow(&self) -> bool {
        false
    }

    /// Whether it moves the object: what it gives back lies in another namespace. Its caller then needs the right to create
    /// there, too; the object keeps its uid, gets a new generation, and is the answer as it was stored. No other
    /// handler changes where an object lies.
    fn moves(&self) -> bool {
        false
    }

    /// What the audit log says of an action that was done.
    fn note(&self, _action: Action<'_>) -> String {
        String::new()
    }
}

/// An answer that is no object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    /// Such as `application/yaml`.
    pub content_type: &'static str,
    /// All of it.
    pub body: String,
}

/// What a handler is to do.
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

/// What a handler has done.
#[derive(Clone, Debug)]
pub struct Handled {
    /// The object as it shall be; `None` leaves it alone. Not looked at where the verb is get.
    pub object: Option<Object>,
    /// The answer; `apiVersion` and `kind` are put in. Not looked at where the object moves.
    pub answer: Object,
}

use crate::caller::Caller;
use crate::view::View;
use futures_util::future::BoxFuture;
use meta::object::Object;
use meta::status::Status;
use serde_json::Value;
use store::Visibility;

/// What a computed kind gets to know about a read.
#[derive(Clone, Copy, Debug)]
pub struct ReadContext<'a> {
    /// Who reads.
    pub caller: &'a Caller,
    /// What he sees of the store.
    pub visibility: &'a Visibility,
    /// The store as he sees it, with the freshness that he asks for.
    pub view: View<'a>,
    /// The namespace that he reads; `None` for all, and for cluster scope.
    pub namespace: Option<&'a str>,
    /// The time of the request, RFC 3339 in whole seconds.
    pub now: &'a str,
}

/// A kind whose objects are computed when they are read, from what the caller sees and from what the program knows. It
/// is read-only and cannot be watched. Its objects have `metadata.name`, and `metadata.namespace` if the kind is
/// namespaced. The server sets `apiVersion` and `kind`.
pub trait Computed: Send + Sync + 'static {
    /// The objects that this caller sees. Selectors are applied to what comes back.
    fn list<'a>(&'a self, cx: ReadContext<'a>) -> BoxFuture<'a, Result<Vec<Object>, Status>>;

    /// The object with this name. By default it is searched in the list.
    fn get<'a>(
        &'a self,
        cx: ReadContext<'a>,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<Object>, Status>> {
        Box::pin(async move { Ok(self.list(cx).await?.into_iter().find(|object| object.name() == name)) })
    }

    /// Selectable fields in addition to `metadata.name` and `metadata.namespace`, as paths.
    fn fields(&self) -> &'static [&'static str] {
        &[]
    }

    /// The cells of [`crate::Resource::columns`]: one JSON value each, of the column's type.
    fn cells(&self, object: &Object, now_unix_seconds: i64) -> Vec<Value>;
}

/// A computed kind that has one object for each caller, without a name: a GET of the collection answers with this
/// object instead of a list. Its only verb is list. Selectors have no effect.
pub trait Singleton: Send + Sync + 'static {
    /// The object that this caller sees. Unless he asks for a revision, the view shows the state in memory, which
    /// includes the writes that this replica has answered.
    fn get<'a>(&'a self, cx: ReadContext<'a>) -> BoxFuture<'a, Result<Object, Status>>;

    /// The cells of [`crate::Resource::columns`]: one JSON value each, of the column's type.
    fn cells(&self, object: &Object, now_unix_seconds: i64) -> Vec<Value>;
}

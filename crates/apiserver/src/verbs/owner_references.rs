//! Owner references: the deletion of an owner deletes its dependents, and a dependent with `blockOwnerDeletion` delays
//! the owner's deletion. Neither may cross tenants. The garbage collector identifies owners by their uid alone.

use crate::request::{ResourceRequest, Verb};
use crate::resource::{Resource, StoredKind};
use crate::verbs::Call;
use meta::field::{FieldError, FieldErrors, Path};
use meta::gvk::GroupVersionKind;
use meta::object::Object;
use meta::status::Status;
use serde_json::{Map, Value};
use std::collections::HashSet;
use std::sync::Arc;
use store::read::At;
use store::{Entry, Key, Visibility};

const BLOCKED: &str =
    "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on";

type Reference = Map<String, Value>;

/// Refuses new references to owners of other tenants. A caller who does not see everything may only refer to objects of
/// this server that he sees. As in a Go server, a caller who sees everything may refer to objects of other servers and
/// to objects that do not exist yet.
pub(crate) async fn check(call: &Call<'_>, live: Option<&Object>, new: &Object) -> Result<(), Status> {
    let known: HashSet<&Reference> = live.into_iter().flat_map(references).collect();
    if references(new).all(|reference| known.contains(&reference)) {
        return Ok(());
    }
    // Boxed: it is rare, and the futures of all other writes stay smaller.
    Box::pin(check_new_references(call, &known, new)).await
}

fn references(object: &Object) -> impl Iterator<Item = &Reference> {
    let list = object.get(&["metadata", "ownerReferences"]).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_object)
}

/// The indexes of an object's references to owners that may be in its namespace. This includes kinds that are not
/// served here, since their scope is unknown.
pub(crate) fn namespaced(call: &Call<'_>, object: &Object) -> impl Iterator<Item = usize> {
    let is_elsewhere = |reference: &Reference| {
        Owner::of(call, reference, object).is_some_and(|owner| !owner.resource.namespaced)
    };
    references(object).enumerate().filter(move |(_, reference)| !is_elsewhere(reference)).map(|(at, _)| at)
}

/// Whether a stored object has an owner with this uid.
pub(crate) fn is_owned_by(entry: &Entry, uid: &str) -> bool {
    // This cheap check avoids parsing most bodies.
    let names_it = std::str::from_utf8(&entry.body).is_ok_and(|body| body.contains(uid));
    names_it
        && Object::from_stored(&entry.body, entry.revision.0)
            .is_ok_and(|object| references(&object).any(|reference| text(reference, "uid") == uid))
}

fn text<'r>(reference: &'r Reference, key: &str) -> &'r str {
    reference.get(key).and_then(Value::as_str).unwrap_or_default()
}

async fn check_new_references(
    call: &Call<'_>,
    known: &HashSet<&Reference>,
    new: &Object,
) -> Result<(), Status> {
    let mut errors = FieldErrors::new();
    let path = Path::new("metadata").child("ownerReferences");
    for (at, reference) in references(new).enumerate().filter(|(_, reference)| !known.contains(reference)) {
        let Some(owner) = Owner::of(call, reference, new) else {
            if !sees_all(call) {
                errors.push(FieldError::forbidden(
                    &path.index(at),
                    "the owner is of no kind that is served here",
                ));
            }
            continue;
        };
        if let Some(error) = owner.error(call, new, &path.index(at)).await? {
            errors.push(error);
        } else if reference.get("blockOwnerDeletion") == Some(&Value::Bool(true)) {
            owner.check_may_block(call, new).await?;
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(Status::invalid(&call.resource.gvk, new.name(), &errors)) }
}

fn sees_all(call: &Call<'_>) -> bool {
    matches!(call.cx.access.visibility(), Visibility::Everything)
}

/// An owner of a kind that is served here.
struct Owner<'a> {
    resource: &'a Resource,
    stored: &'a StoredKind,
    /// Empty for cluster scope.
    namespace: &'a str,
    name: &'a str,
    uid: &'a str,
}

impl<'a> Owner<'a> {
    fn of(call: &'a Call<'_>, reference: &'a Reference, new: &'a Object) -> Option<Self> {
        let (group, _version) = GroupVersionKind::parse_api_version(text(reference, "apiVersion"));
        let kind = text(reference, "kind");
        let is_kind = |resource: &&Arc<Resource>| resource.gvk.group == group && resource.gvk.kind == kind;
        let resource = call.api.resources.iter().find(is_kind)?;
        let namespace = if resource.namespaced { new.namespace() } else { "" };
        let (name, uid) = (text(reference, "name"), text(reference, "uid"));
        Some(Self { resource, stored: resource.stored()?, namespace, name, uid })
    }

    /// The error if the object must not refer to this owner.
    async fn error(&self, call: &Call<'_>, new: &Object, path: &Path) -> Result<Option<FieldError>, Status> {
        if self.resource.namespaced && self.namespace.is_empty() {
            let detail = "an object of no namespace is owned by none that lies in one";
            return Ok(Some(FieldError::forbidden(path, detail)));
        }
        let key = Key::new(self.stored.id, self.namespace, self.name);
        let found = call.view(At::Any).get(&key).await?.filter(|entry| entry.uid.to_string() == self.uid);
        let Some(entry) = found else {
            let absent = || FieldError::not_found(&path.child("uid"), &Value::from(self.uid));
            return Ok((!sees_all(call)).then(absent));
        };
        let stored = call.resource.stored();
        let tenant =
            stored.map(|stored| stored.strategy.account(new)).transpose()?.map(|account| account.tenant);
        let same = entry.attributes.tenant.as_deref().unwrap_or_default() == tenant.unwrap_or_default();
        Ok((!same).then(|| FieldError::forbidden(path, "the owner is another tenant's")))
    }

    /// An error unless the caller may delay the owner's deletion with `blockOwnerDeletion`.
    async fn check_may_block(&self, call: &Call<'_>, new: &Object) -> Result<(), Status> {
        let right = ResourceRequest {
            verb: Verb::Update,
            group: self.resource.gvk.group.clone(),
            version: self.resource.gvk.version.clone(),
            namespace: self.namespace.to_owned(),
            resource: self.resource.plural.to_owned(),
            name: self.name.to_owned(),
            subresource: "finalizers".to_owned(),
            ..ResourceRequest::default()
        };
        call.require_right(right).await.map_err(|status| match status.code {
            403 => Status::forbidden(&call.resource.group_resource(), new.name(), BLOCKED),
            _ => status,
        })
    }
}

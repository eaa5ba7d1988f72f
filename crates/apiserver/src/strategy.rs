use crate::caller::Caller;
use crate::object_endpoint::ObjectEndpoint;
use crate::view::View;
use futures_util::future::BoxFuture;
use meta::field::FieldErrors;
use meta::object::Object;
use meta::status::Status;
use meta::validation::NameRule;
use quota::{Account, HoldChange, Violation};
use serde_json::Value;
use store::{Key, Visibility};

/// What a strategy gets to know about a write.
#[derive(Debug)]
pub struct WriteContext<'a> {
    /// Who writes.
    pub caller: &'a Caller,
    /// What he sees.
    pub visibility: &'a Visibility,
    /// The endpoint that he writes through.
    pub endpoint: ObjectEndpoint,
    /// Whether nothing will be stored.
    pub dry_run: bool,
    /// Whether the request has a `metadata.resourceVersion` as its precondition.
    pub versioned: bool,
    /// The time of the request, RFC 3339 in whole seconds.
    pub now: &'a str,
    /// Texts for the `Warning` header of an accepted write. A refused write does not show them, since they may be about
    /// objects that its caller may not see.
    pub warnings: Vec<String>,
}

impl<'a> WriteContext<'a> {
    /// Whether he sees all tenants: he acts as an operator, and is not confined to a tenant.
    pub fn sees_everything(&self) -> bool {
        *self.visibility == Visibility::Everything
    }

    /// The tenant that he is confined to, if it is exactly one.
    pub fn tenant(&self) -> Option<&'a str> {
        match self.visibility {
            Visibility::Tenants(sights) if sights.len() == 1 => sights.first().map(|sight| &*sight.tenant),
            Visibility::Tenants(_) | Visibility::Everything | Visibility::Nothing => None,
        }
    }
}

/// A right that a write needs in addition to that of its own verb, such as `grant` on projects. The server has it
/// authorized like a request with this verb on the same object, and answers 403 with `why` if it is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtraRight {
    /// The verb.
    pub verb: &'static str,
    /// What needs the right: the end of the 403's message.
    pub why: String,
    /// The domains in which the write may raise what the object costs without the right, if the quota scope that pays
    /// lists them. `None`: without the right the write is refused.
    pub within: Option<Vec<String>>,
}

/// The rules that differ by kind. All methods but [`Strategy::admit`] are pure, except that they may read directories
/// that a strategy holds in memory, and that [`Strategy::reserve`] and [`Strategy::refusal`] keep reservations there.
///
/// The order of calls is decode → defaults → enums → prepare → admit → validate → extra right → account → reserve →
/// store. The server applies the generic rules: metadata, enums, fields that a write does not own, generation,
/// finalizers and managed fields.
pub trait Strategy: Send + Sync + 'static {
    /// The parent of this object, whether it exists or not. A caller who does not see the parent gets a 404 for it,
    /// before anything else is checked.
    fn parent(&self, _object: &Object) -> Option<Key> {
        None
    }

    /// The error for a parent that does not exist for the caller; `None` for a plain 404. It must not depend on whether
    /// the parent exists, nor on anything else that the caller may not see.
    fn parent_missing(&self, _object: &Object, _parent: &Key) -> Option<Status> {
        None
    }

    /// Sets the forced and derived fields of a new object, before validation. Its status is empty already.
    fn prepare_create(&self, cx: &mut WriteContext<'_>, object: &mut Object) -> Result<(), Status>;

    /// Sets the forced and derived fields of a changed object. The fields that the endpoint does not own are those of
    /// `old` already.
    fn prepare_update(
        &self,
        cx: &mut WriteContext<'_>,
        old: &Object,
        object: &mut Object,
    ) -> Result<(), Status>;

    /// Rules and derived fields that depend on other objects, between prepare and validation. `old` is `None` for a
    /// create. It only reads, and what it has read may have changed when the object is stored: invariants belong into
    /// the ledger. `None` if there is nothing to read.
    fn admit<'a>(
        &'a self,
        _cx: &'a mut WriteContext<'_>,
        _view: View<'a>,
        _old: Option<&'a Object>,
        _object: &'a mut Object,
    ) -> Option<BoxFuture<'a, Result<(), Status>>> {
        None
    }

    /// Rules for a new object in addition to the schema's.
    fn validate_create(&self, cx: &mut WriteContext<'_>, object: &Object) -> FieldErrors;

    /// Rules for a changed object.
    fn validate_update(&self, cx: &mut WriteContext<'_>, old: &Object, object: &Object) -> FieldErrors;

    /// The right that a valid write needs in addition to that of its verb. It is checked after validation and before
    /// quota, also for a dry run. `old` is `None` for a create.
    fn extra_right(
        &self,
        _cx: &WriteContext<'_>,
        _old: Option<&Object>,
        _new: &Object,
    ) -> Option<ExtraRight> {
        None
    }

    /// Changes an object whose deletion begins but has to wait, or refuses to begin it. Its
    /// `metadata.deletionTimestamp` is set already.
    fn prepare_delete(&self, _cx: &mut WriteContext<'_>, _object: &mut Object) -> Result<(), Status> {
        Ok(())
    }

    /// Refuses the deletion of an object that its caller sees and has the right to delete.
    fn check_delete(&self, _cx: &WriteContext<'_>, _object: &Object) -> Result<(), Status> {
        Ok(())
    }

    /// What the object's removal still waits for in addition to `metadata.finalizers`. The text is the message of the
    /// 409 that answers another DELETE.
    fn waits_for(&self, _object: &Object) -> Option<String> {
        None
    }

    /// Refuses a valid change, because of the difference between both states, with another status than 422.
    fn check_update(&self, _cx: &WriteContext<'_>, _old: &Object, _new: &Object) -> Result<(), Status> {
        Ok(())
    }

    /// What the object costs and grants in the quota ledger.
    fn account(&self, object: &Object) -> Result<Account, Status>;

    /// Reserves in memory what a write takes and the ledger does not count, or refuses the write. It is called last:
    /// only the store can still refuse the write. `old` is `None` for a create.
    fn reserve(&self, _cx: &WriteContext<'_>, _old: Option<&Object>, _new: &Object) -> Result<(), Status> {
        Ok(())
    }

    /// How the remaining charge of an object is held when it is removed; `None` refunds it.
    fn hold(&self, _cx: &WriteContext<'_>, _old: &Object) -> Option<HoldChange> {
        None
    }

    /// Warnings for the caller of an accepted write that raises what its object costs or grants.
    fn growth_warnings(&self, _before: Option<&Account>, _after: &Account) -> Vec<String> {
        Vec::new()
    }

    /// The answer to a write that the quota rules refused.
    fn refusal(&self, cx: &WriteContext<'_>, object: &Object, violations: &[Violation]) -> Status;

    /// Whether a list of such objects may be posted to the collection of all namespaces, which creates all or none.
    /// Only a caller who sees everything may do it.
    fn allows_list_create(&self) -> bool {
        false
    }

    /// The cells of [`crate::Resource::columns`]: one JSON value each, of the column's type.
    fn cells(&self, object: &Object, now_unix_seconds: i64) -> Vec<Value>;

    /// The rule for names of this kind.
    fn name_rule(&self) -> NameRule {
        NameRule::Subdomain
    }

    /// Whether a PUT without `metadata.resourceVersion` overwrites the object at any revision.
    fn allows_unconditional_update(&self) -> bool {
        false
    }
}

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

/// What a strategy may know about the write.
#[derive(Debug)]
pub struct WriteContext<'a> {
    /// Who writes.
    pub caller: &'a Caller,
    /// What he sees.
    pub visibility: &'a Visibility,
    /// The endpoint that he writes through.
    pub endpoint: ObjectEndpoint,
    /// Nothing will be stored.
    pub dry_run: bool,
    /// The request itself named the `metadata.resourceVersion` that it was made from.
    pub versioned: bool,
    /// The time of the request, RFC 3339 in whole seconds.
    pub now: &'a str,
    /// Texts for the `Warning` header of an accepted write. A refused write does not show them: they may be about
    /// things that its caller does not see.
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

/// A right that a write needs beyond that of its own verb, such as `grant` on projects. The server asks the
/// authorizer for it, as for a request with this verb on the same object, and answers 403 with `why` when refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtraRight {
    /// The verb.
    pub verb: &'static str,
    /// What needs the right; it ends the 403's message.
    pub why: String,
    /// The domains in which the write may grow without the right, if the scope that it pays lists them. `None`:
    /// without the right it is refused.
    pub within: Option<Vec<String>>,
}

/// The rules that differ by kind. All methods but [`Strategy::admit`] are pure, except that they may read directories
/// that a strategy holds in memory.
///
/// The order of calls is decode → defaults → texts of fixed sets → prepare → admit → validate → extra right → account →
/// store. Generic rules (metadata, texts of fixed sets, immutability of the parts a write does not own, generation,
/// finalizers, managed fields) are the server's.
pub trait Strategy: Send + Sync + 'static {
    /// The object below which this one lies, or wants to lie. A caller who does not see it gets a 404 for it, before
    /// anything else is looked at.
    fn parent(&self, _object: &Object) -> Option<Key> {
        None
    }

    /// The answer about a parent that does not exist for the caller, if it shall say more than a 404. It must be the
    /// same whatever the parent is, and whatever else is true of the object.
    fn parent_missing(&self, _object: &Object, _parent: &Key) -> Option<Status> {
        None
    }

    /// Finishes a new object before validation: forced and derived fields. Status is empty already.
    fn prepare_create(&self, cx: &mut WriteContext<'_>, object: &mut Object) -> Result<(), Status>;

    /// Finishes a changed object. The fields that the endpoint does not own were already taken from `old`.
    fn prepare_update(
        &self,
        cx: &mut WriteContext<'_>,
        old: &Object,
        object: &mut Object,
    ) -> Result<(), Status>;

    /// Rules and derived fields that need a look at other objects, between prepare and validation; `old` absent is a
    /// create. It only reads, and what it has read may have changed when the object is stored: rules that must hold
    /// belong into the ledger. `None` if there is nothing to look up.
    fn admit<'a>(
        &'a self,
        _cx: &'a mut WriteContext<'_>,
        _view: View<'a>,
        _old: Option<&'a Object>,
        _object: &'a mut Object,
    ) -> Option<BoxFuture<'a, Result<(), Status>>> {
        None
    }

    /// Rules for a new object beyond the schema's.
    fn validate_create(&self, cx: &mut WriteContext<'_>, object: &Object) -> FieldErrors;

    /// Rules for a changed object.
    fn validate_update(&self, cx: &mut WriteContext<'_>, old: &Object, object: &Object) -> FieldErrors;

    /// The right that a valid write needs beyond that of its verb; asked after validation, before quota, dry-run
    /// included. `old` absent is a create.
    fn extra_right(
        &self,
        _cx: &WriteContext<'_>,
        _old: Option<&Object>,
        _new: &Object,
    ) -> Option<ExtraRight> {
        None
    }

    /// Marks an object whose deletion begins: `metadata.deletionTimestamp` is set already.
    fn prepare_delete(&self, _cx: &mut WriteContext<'_>, _object: &mut Object) {}

    /// An error refuses the deletion of an object that its caller sees, for another reason than his rights with the
    /// kind.
    fn check_delete(&self, _cx: &WriteContext<'_>, _object: &Object) -> Result<(), Status> {
        Ok(())
    }

    /// What the object, beside `metadata.finalizers`, still waits for before it can go. The text is the answer to
    /// another DELETE (409).
    fn waits_for(&self, _object: &Object) -> Option<String> {
        None
    }

    /// Refuses a change for what only the change itself shows, after validation, with an answer other than 422.
    fn check_update(&self, _cx: &WriteContext<'_>, _old: &Object, _new: &Object) -> Result<(), Status> {
        Ok(())
    }

    /// What the object means to the quota ledger.
    fn account(&self, object: &Object) -> Result<Account, Status>;

    /// What becomes of the charge that is left when an object goes.
    fn hold(&self, _cx: &WriteContext<'_>, _old: &Object) -> Option<HoldChange> {
        None
    }

    /// Warnings for a caller who has raised what an object costs or grants. Only asked for an accepted write.
    fn growth_warnings(&self, _before: Option<&Account>, _after: &Account) -> Vec<String> {
        Vec::new()
    }

    /// The answer to a write that the quota rules refused.
    fn refusal(&self, cx: &WriteContext<'_>, object: &Object, violations: &[Violation]) -> Status;

    /// Whether a list of such objects may be posted at the collection of all namespaces: all are created, or none.
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

use crate::caller::Caller;
use crate::resource::Part;
use meta::field::FieldErrors;
use meta::object::Object;
use meta::status::Status;
use meta::validation::NameRule;
use quota::{Account, Held, Violation};
use serde_json::Value;

/// What a strategy may know of the write at hand.
#[derive(Debug)]
pub struct WriteContext<'a> {
    /// Who writes.
    pub caller: &'a Caller,
    /// His tenant, when the write is confined to one: new objects belong to it.
    pub tenant: Option<&'a str>,
    /// On a create by somebody who is confined to no tenant, of an object that names none: its scope's tenant.
    pub scope_tenant: Option<&'a str>,
    /// Nothing will be stored.
    pub dry_run: bool,
    /// The request itself named the `metadata.resourceVersion` that it was made from.
    pub versioned: bool,
    /// The time of the request, RFC 3339 in whole seconds.
    pub now: &'a str,
    /// Texts for the `Warning` header.
    pub warnings: Vec<String>,
}

/// A right that a write needs beyond that of its own verb, such as `grant` on projects. The server asks the
/// authorizer for it, as for a request with this verb on the same object, and answers 403 with `why` when refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtraRight {
    /// The verb.
    pub verb: &'static str,
    /// What needs it; ends the 403's message.
    pub why: String,
}

/// What differs by kind. All methods are pure but for the directories a strategy holds in memory.
///
/// The order of calls is that of `k8s.io/apiserver`: decode → prepare → validate → quota → store. Generic
/// rules (metadata, immutability of the parts a write does not own, generation, finalizers, managed
/// fields) are the server's.
pub trait Strategy: Send + Sync + 'static {
    /// Finishes a new object before validation: forced and derived fields. Status is empty already.
    fn prepare_create(&self, cx: &mut WriteContext<'_>, object: &mut Object) -> Result<(), Status>;

    /// Rules for a new object beyond the schema's.
    fn validate_create(&self, cx: &mut WriteContext<'_>, object: &Object) -> FieldErrors;

    /// Finishes a changed object. What `part` does not own was already taken from `old`.
    fn prepare_update(
        &self,
        cx: &mut WriteContext<'_>,
        part: Part,
        old: &Object,
        object: &mut Object,
    ) -> Result<(), Status>;

    /// Rules for a changed object.
    fn validate_update(
        &self,
        cx: &mut WriteContext<'_>,
        part: Part,
        old: &Object,
        object: &Object,
    ) -> FieldErrors;

    /// The right that a valid write needs beyond that of its verb; asked after validation, before quota, dry-run
    /// included. `old` absent is a create.
    fn extra_right(
        &self,
        _cx: &WriteContext<'_>,
        _part: Part,
        _old: Option<&Object>,
        _new: &Object,
    ) -> Option<ExtraRight> {
        None
    }

    /// Marks an object whose deletion begins: `metadata.deletionTimestamp` is set already.
    fn prepare_delete(&self, cx: &mut WriteContext<'_>, object: &mut Object);

    /// Whether the object, beside `metadata.finalizers`, still waits for somebody before it can go.
    /// The text is the answer to another DELETE (409).
    fn waits_for(&self, object: &Object) -> Option<String>;

    /// What only the change itself can be refused for, after validation: an answer other than 422.
    fn check_update(&self, _part: Part, _old: &Object, _new: &Object) -> Result<(), Status> {
        Ok(())
    }

    /// What the object means to the quota ledger.
    fn account(&self, object: &Object) -> Result<Account, Status>;

    /// What becomes of the charge that is left when an object goes.
    fn hold(&self, _cx: &WriteContext<'_>, _old: &Object) -> Option<Held> {
        None
    }

    /// What to tell who has grown what an object costs or grants. Only asked once the write is accepted.
    fn growth_warnings(&self, _before: Option<&Account>, _after: &Account) -> Vec<String> {
        Vec::new()
    }

    /// The answer to a write that the quota rules refused.
    fn refusal(&self, cx: &WriteContext<'_>, object: &Object, violations: &[Violation]) -> Status;

    /// The cells of [`crate::Resource::columns`]: one JSON value each, of the column's type.
    fn cells(&self, object: &Object, now_unix_seconds: i64) -> Vec<Value>;

    /// The rule for names of this kind.
    fn name_rule(&self) -> NameRule {
        NameRule::Subdomain
    }

    /// Whether a PUT without `metadata.resourceVersion` overwrites whatever is there.
    fn allows_unconditional_update(&self) -> bool {
        false
    }

    /// Whether [`Strategy::decorate`] has to be asked at all; `false` lets reads go out without being parsed.
    fn decorates(&self) -> bool {
        false
    }

    /// Last touch on an object that is got or listed, such as fields filled from a directory: its stored text with
    /// them in place. Lists ask it for every object, so it looks for the place instead of parsing; only asked where
    /// [`Strategy::decorates`]. `None` where the stored text can go out as it is.
    fn decorate(&self, _stored: &str) -> Option<String> {
        None
    }
}

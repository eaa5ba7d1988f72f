use super::{
    abandon_reason, add_finalizer, begin_deletion, check_annotations, decode_field_error,
    deletion_pending_message, format_usage, inherit_tenant, internal_decode_error, or_decode_field_error,
    project_key, read_both, ready_status, removes_finalizer, set_tenant, text_or_dash,
};
use crate::allocations::Allocations;
use crate::finalizers::{self, TenantFinalizers};
use crate::refusal::{self, RefusedKind, RefusedObject};
use apiserver::resource::Column;
use apiserver::strategy::{Strategy, WriteContext};
use apiserver::subresource::FieldPath;
use apiserver::{ObjectEndpoint, View};
use business_types::refusal::BELOW_USED;
use business_types::registry::{
    self, ChargedRegistryObject, RegistryKind, RegistrySpec, RegistryStatus, STORAGE,
};
use business_types::{account, names};
use futures_util::future::BoxFuture;
use meta::field::{FieldError, FieldErrors, Path};
use meta::object::Object;
use meta::status::{Status, StatusCause};
use meta::validation::NameRule;
use serde_json::{Value, json};
use std::marker::PhantomData;
use store::Key;
use store::quota::{Account, Scope, Violation};

const NAME: &[&str] = &["spec", "name"];
/// Annotations that the registry's notifications set. A client that writes back an older state must not undo them.
pub const SERVER_FIELDS: &[FieldPath] = &[
    &["metadata", "annotations", names::REGISTRY_CHANGED_ANNOTATION],
    &["metadata", "annotations", names::REGISTRY_PUSHED_ANNOTATION],
];
/// The record of what the registry has for the object.
const RECORD: &[&str] = &["status", "registry"];

/// Columns of `kubectl get`.
pub const COLUMNS: &[Column] = &[
    Column::string("Repositories", "What the names of its repositories begin with.", 0),
    Column::string("Phase", "Where in its life it is.", 0),
    Column::string("Ready", "Whether everything is as spec asks for.", 0),
    Column::string("Used/Hard", "What is kept in the registry, of what may be.", 0),
    Column::string("Display Name", "Name for people.", 1),
    Column::string("Reason", "Why it is in its phase.", 1),
    Column::string("Message", "Details of the phase.", 1),
];

/// Image namespaces and chart groups: each owns a prefix of the registry, and the storage that it may use there is
/// charged to its project.
#[derive(Clone, Debug)]
pub struct RegistryStrategy<K> {
    allocations: Allocations,
    finalizers: TenantFinalizers,
    kind: PhantomData<K>,
}

impl<K: RegistryKind> RegistryStrategy<K> {
    /// `allocations` know how full projects are.
    pub fn new(allocations: Allocations, finalizers: TenantFinalizers) -> Self {
        Self { allocations, finalizers, kind: PhantomData }
    }

    /// The fields that refusals name.
    const REFUSED: &'static RefusedKind = &RefusedKind {
        gvk: K::gvk,
        resource: K::group_resource,
        scope: "metadata.namespace",
        domain: "metadata.namespace",
        place: "spec.name",
        amount: |_registry, key| match key {
            STORAGE => Path::new("spec").child("hard").key(key),
            _counted => Path::new("metadata").child("namespace"),
        },
    };

    fn subject<'a>(object: &'a Object, holds: Option<&'a Scope>) -> RefusedObject<'a> {
        RefusedObject { name: object.name(), kind: Self::REFUSED, holds }
    }

    /// Keeps the record of what the registry has for the object until the object is being deleted.
    fn prepare_status(old: &Object, object: &mut Object) {
        if old.is_deleting() {
            object.set(&["status", "phase"], json!("Terminating"));
        } else if object.get(RECORD).is_none() {
            object.copy_from(old, RECORD);
        }
    }

    /// Our finalizer is removed when the registry has nothing of the object, or when an operator has abandoned the
    /// content.
    fn prepare_finalize(cx: &WriteContext<'_>, old: &Object, object: &Object) -> Result<(), Status> {
        if !removes_finalizer(old, object, K::FINALIZER) {
            return Ok(());
        }
        let conflict = |why: String| Err(Status::conflict(&K::group_resource(), old.name(), &why));
        if !old.is_deleting() {
            return conflict(format!(
                "the finalizer {:?} stays until the {} is deleted",
                K::FINALIZER,
                K::DISPLAY_NAME
            ));
        }
        if old.get(RECORD).is_none() {
            return Ok(());
        }
        match abandon_reason(old) {
            Some(reason) if cx.sees_everything() => {
                let (user, project, name) = (&cx.caller.name, old.namespace(), old.name());
                tracing::warn!(
                    audit = true,
                    user,
                    project,
                    name,
                    reason,
                    "content of the registry is abandoned"
                );
                Ok(())
            }
            _ => conflict(format!(
                "the {} still has content in the registry: status.registry goes when it is seen gone",
                K::DISPLAY_NAME
            )),
        }
    }

    /// Refuses to lower an amount below what the registry was last seen to keep.
    fn check_not_below_used(old: &Object, new: &Object) -> Result<(), Status> {
        let (before, after) = (spec_of(old)?.storage(), spec_of(new)?.storage());
        let used = RegistryStatus::of(old).map_err(internal_decode_error)?.storage();
        let Some(hard) = after.filter(|hard| before.is_none_or(|before| *hard < before) && *hard < used)
        else {
            return Ok(());
        };
        let text = format!(
            "{STORAGE}={hard} is less than what is kept in the registry: {used}; the smallest that fits is {used}"
        );
        let cause = StatusCause {
            reason: BELOW_USED.to_owned(),
            message: format!("domain=registry resource={STORAGE} requested={hard} used={used} fits={used}"),
            field: Path::new("spec").child("hard").key(STORAGE).to_string(),
        };
        Err(Status::forbidden(&K::group_resource(), new.name(), &text).with_causes(vec![cause]))
    }
}

fn spec_of(object: &Object) -> Result<RegistrySpec, Status> {
    RegistrySpec::of(object).map_err(internal_decode_error)
}

impl<K: RegistryKind> Strategy for RegistryStrategy<K> {
    fn parent(&self, object: &Object) -> Option<Key> {
        project_key(object.namespace())
    }

    fn parent_missing(&self, object: &Object, parent: &Key) -> Option<Status> {
        let scope = Scope::new(account::PROJECT, &*parent.name);
        let missing = Violation::ScopeMissing { scope: scope.clone() };
        Some(refusal::status(Self::subject(object, Some(&scope)), &[missing], &self.allocations))
    }

    fn prepare_create(&self, cx: &mut WriteContext<'_>, object: &mut Object) -> Result<(), Status> {
        check_annotations(cx, None, object, &K::group_resource())?;
        set_tenant(cx, None, object);
        add_finalizer(object, K::FINALIZER);
        let name = object.text(NAME).to_owned();
        if !name.is_empty() {
            object.set(&["metadata", "name"], json!(name));
            object.remove(&["metadata", "generateName"]);
        } else if object.name().is_empty() && object.text(&["metadata", "generateName"]).is_empty() {
            object.set(&["metadata", "generateName"], json!(K::NAME_PREFIX));
        }
        object.set(&["status", "phase"], json!("Pending"));
        object.set(super::OBSERVED_GENERATION, json!(0));
        Ok(())
    }

    fn admit<'a>(
        &'a self,
        _cx: &'a mut WriteContext<'_>,
        view: View<'a>,
        _old: Option<&'a Object>,
        object: &'a mut Object,
    ) -> Option<BoxFuture<'a, Result<(), Status>>> {
        inherit_tenant(view, self.parent(object), object)
    }

    fn validate_create(&self, cx: &mut WriteContext<'_>, object: &Object) -> FieldErrors {
        let spec = match RegistrySpec::of(object) {
            Ok(spec) => spec,
            Err(error) => return decode_field_error(object, "spec", &error),
        };
        let mut errors = registry::object(&spec);
        if !cx.sees_everything() {
            errors.extend(self.finalizers.check_new(object, K::FINALIZER));
        }
        errors
    }

    fn prepare_update(
        &self,
        cx: &mut WriteContext<'_>,
        old: &Object,
        object: &mut Object,
    ) -> Result<(), Status> {
        match cx.endpoint {
            ObjectEndpoint::STATUS => {
                Self::prepare_status(old, object);
                Ok(())
            }
            ObjectEndpoint::FINALIZE => Self::prepare_finalize(cx, old, object),
            ObjectEndpoint::Main | ObjectEndpoint::Subresource(_) => {
                check_annotations(cx, Some(old), object, &K::group_resource())?;
                set_tenant(cx, Some(old), object);
                if object.text(NAME).is_empty() {
                    object.copy_from(old, NAME);
                }
                Ok(())
            }
        }
    }

    fn validate_update(&self, cx: &mut WriteContext<'_>, old: &Object, object: &Object) -> FieldErrors {
        match cx.endpoint {
            ObjectEndpoint::FINALIZE if !cx.sees_everything() => {
                finalizers::check_removal(old, object, K::FINALIZER)
            }
            ObjectEndpoint::FINALIZE => FieldErrors::new(),
            ObjectEndpoint::STATUS => {
                let errors = registry::object_status(object);
                match RegistryStatus::of(object) {
                    Ok(_checked) => errors,
                    Err(error) => or_decode_field_error(errors, object, "status", &error),
                }
            }
            ObjectEndpoint::Main | ObjectEndpoint::Subresource(_) => {
                let (before, spec) = match read_both(old, object, "spec", RegistrySpec::of) {
                    Ok(specs) => specs,
                    Err(errors) => return errors,
                };
                if old.is_deleting() && spec != before {
                    let why = format!("the {} is being deleted: its spec cannot change", K::DISPLAY_NAME);
                    return vec![FieldError::forbidden(&Path::new("spec"), &why)];
                }
                registry::object_update(object.name(), &before, &spec)
            }
        }
    }

    fn prepare_delete(&self, cx: &mut WriteContext<'_>, object: &mut Object) -> Result<(), Status> {
        begin_deletion(cx, object);
        Ok(())
    }

    fn waits_for(&self, object: &Object) -> Option<String> {
        deletion_pending_message(object, K::DISPLAY_NAME)
    }

    fn check_update(&self, cx: &WriteContext<'_>, old: &Object, new: &Object) -> Result<(), Status> {
        if cx.endpoint == ObjectEndpoint::Main { Self::check_not_below_used(old, new) } else { Ok(()) }
    }

    fn account(&self, object: &Object) -> Result<Account, Status> {
        account::of::<ChargedRegistryObject<K>>(object).map_err(internal_decode_error)
    }

    fn growth_warnings(&self, before: Option<&Account>, after: &Account) -> Vec<String> {
        self.allocations.warnings(before, after)
    }

    fn refusal(&self, cx: &WriteContext<'_>, object: &Object, violations: &[Violation]) -> Status {
        let project = Scope::new(account::PROJECT, object.namespace());
        let holds = (!cx.sees_everything()).then_some(&project);
        refusal::status(Self::subject(object, holds), violations, &self.allocations)
    }

    fn cells(&self, object: &Object, _now_unix_seconds: i64) -> Vec<Value> {
        let (Ok(spec), Ok(status)) = (RegistrySpec::of(object), RegistryStatus::of(object)) else {
            return vec![json!("-"); COLUMNS.len()];
        };
        let measured = status.used.get(STORAGE).map(|used| format!("{STORAGE}: {used}")).unwrap_or_default();
        vec![
            json!(registry::prefix(&spec.tenant_id, object.name())),
            text_or_dash(status.phase.as_str()),
            text_or_dash(ready_status(&status.conditions)),
            if spec.hard.is_empty() {
                text_or_dash(&measured)
            } else {
                json!(format_usage(&status.used, &spec.hard))
            },
            text_or_dash(&spec.display_name),
            text_or_dash(&status.reason),
            text_or_dash(&status.message),
        ]
    }

    fn name_rule(&self) -> NameRule {
        NameRule::Label
    }
}

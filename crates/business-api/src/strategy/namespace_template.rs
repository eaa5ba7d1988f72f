use super::{
    add_finalizer, check_operator, decode_field_error, deletion_pending_message, internal_decode_error,
    keeps_spec_while_deleting, ready_status, removes_finalizer,
};
use crate::kind_ids;
use crate::refusal;
use apiserver::resource::Column;
use apiserver::strategy::{Strategy, WriteContext};
use apiserver::{ObjectEndpoint, View};
use business_types::account::{self, UnchargedObject};
use business_types::names;
use business_types::namespace_template::{
    NamespaceTemplateSpec, NamespaceTemplateStatus, group_resource, gvk, namespace_template,
    namespace_template_changed, namespace_template_status,
};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use meta::field::{FieldError, FieldErrors, Path};
use meta::gvk::GroupVersionKind;
use meta::object::Object;
use meta::status::Status;
use meta::validation::NameRule;
use serde_json::{Value, json};
use store::Key;
use store::quota::{Account, Violation};

/// Columns of `kubectl get`.
pub const COLUMNS: &[Column] = &[
    Column::typed("Default", "boolean", "Whether it is that of namespaces for which nobody names one.", 0),
    Column::typed("Namespaces", "integer", "Namespaces whose template it is.", 0),
    Column::typed("Updated", "integer", "Those in which its newest state is in place.", 0),
    Column::typed("Failed", "integer", "Those that have not taken its newest state.", 0),
    Column::string("Ready", "Whether its newest state is in place everywhere.", 0),
    Column::string("Display Name", "Name for people.", 1),
    Column::typed("Batch", "integer", "Namespaces in a wave.", 1),
    Column::typed("Paused", "boolean", "Whether no wave is to begin.", 1),
];

const DEFAULT: &[&str] = &["spec", "default"];
const TEMPLATE: &[&str] = &["spec", "template"];

/// Templates: operators write them, everybody reads them, and at most one is the default.
#[derive(Clone, Copy, Debug)]
pub struct NamespaceTemplateStrategy;

/// The template that a write newly names.
pub fn newly_named_template(old: Option<&Object>, object: &Object) -> Option<String> {
    let name = object.text(TEMPLATE);
    let is_new = !name.is_empty() && old.is_none_or(|old| old.text(TEMPLATE) != name);
    is_new.then(|| name.to_owned())
}

/// Checks that a newly named template exists and is not being deleted.
pub async fn check_template(
    view: View<'_>,
    gvk: &GroupVersionKind,
    object: &Object,
    named: Option<String>,
) -> Result<(), Status> {
    let Some(name) = named else { return Ok(()) };
    let at = Path::new("spec").child("template");
    let key = Key::new(kind_ids::NAMESPACE_TEMPLATE, "", &name);
    let error = match view.latest().object(&key).await? {
        None => FieldError::not_found(&at, &json!(name)),
        Some(template) if template.is_deleting() => {
            FieldError::invalid(&at, &json!(name), "the template is being deleted")
        }
        Some(_) => return Ok(()),
    };
    Err(Status::invalid(gvk, object.name(), &vec![error]))
}

fn is_default(object: &Object) -> bool {
    object.get(DEFAULT).and_then(Value::as_bool).unwrap_or_default()
}

/// Refuses a second default. A template that is being deleted does not count.
async fn check_default(view: View<'_>, object: &Object) -> Result<(), Status> {
    for entry in view.latest().list(kind_ids::NAMESPACE_TEMPLATE, None).await? {
        let other = Object::from_stored(&entry.body, entry.revision.0).map_err(internal_decode_error)?;
        if is_default(&other) && !other.is_deleting() && other.name() != object.name() {
            let why = format!("{} is the default", other.name());
            let error = FieldError::invalid(&Path::new("spec").child("default"), &json!(true), &why);
            return Err(Status::invalid(&gvk(), object.name(), &vec![error]));
        }
    }
    Ok(())
}

/// The warning about the effects of a change. The number of namespaces is the one counted last.
fn change_warning(old: &Object, object: &Object) -> Option<String> {
    let (before, after) = (NamespaceTemplateSpec::of(old).ok()?, NamespaceTemplateSpec::of(object).ok()?);
    let NamespaceTemplateStatus { namespaces, clusters, .. } = NamespaceTemplateStatus::of(old).ok()?;
    let mut warnings = Vec::new();
    if before.content() != after.content() && namespaces > 0 {
        let how = match after.rollout {
            rollout if rollout.paused => "when the rollout is no longer paused".to_owned(),
            rollout => format!("in waves of {}", rollout.batch),
        };
        warnings.push(format!("this changes {namespaces} namespaces in {clusters} member clusters, {how}"));
    }
    match (before.default, after.default) {
        (false, true) => warnings.push(
            "this becomes the template of every namespace for which no project and no tenant names one"
                .to_owned(),
        ),
        (true, false) => warnings.push(format!(
            "namespaces for which no project and no tenant names a template have none any more: what this one put into them \
             goes (it has {namespaces} now)"
        )),
        _ => {}
    }
    (!warnings.is_empty()).then(|| warnings.join("; "))
}

impl Strategy for NamespaceTemplateStrategy {
    fn prepare_create(&self, cx: &mut WriteContext<'_>, object: &mut Object) -> Result<(), Status> {
        object.remove(&["status"]);
        object.set(super::OBSERVED_GENERATION, json!(0));
        add_finalizer(object, names::NAMESPACE_TEMPLATE_FINALIZER);
        check_operator(cx, object, &group_resource())
    }

    /// Two concurrent writes may both make a default: then the first by name counts.
    fn admit<'a>(
        &'a self,
        cx: &'a mut WriteContext<'_>,
        view: View<'a>,
        old: Option<&'a Object>,
        object: &'a mut Object,
    ) -> Option<BoxFuture<'a, Result<(), Status>>> {
        let becomes_default = is_default(object) && !old.is_some_and(is_default);
        (cx.endpoint == ObjectEndpoint::Main && becomes_default).then(|| check_default(view, object).boxed())
    }

    fn validate_create(&self, _cx: &mut WriteContext<'_>, object: &Object) -> FieldErrors {
        let unread = |error| decode_field_error(object, "spec", &error);
        NamespaceTemplateSpec::of(object).map_or_else(unread, |spec| namespace_template(&spec))
    }

    fn prepare_update(
        &self,
        cx: &mut WriteContext<'_>,
        old: &Object,
        object: &mut Object,
    ) -> Result<(), Status> {
        check_operator(cx, object, &group_resource())?;
        match cx.endpoint {
            ObjectEndpoint::FINALIZE
                if removes_finalizer(old, object, names::NAMESPACE_TEMPLATE_FINALIZER)
                    && !old.is_deleting() =>
            {
                let why = "the finalizer \"namespacetemplate\" stays until the template is deleted";
                Err(Status::conflict(&group_resource(), old.name(), why))
            }
            ObjectEndpoint::Main => {
                cx.warnings.extend(change_warning(old, object));
                Ok(())
            }
            ObjectEndpoint::FINALIZE | ObjectEndpoint::STATUS | ObjectEndpoint::Subresource(_) => Ok(()),
        }
    }

    fn validate_update(&self, cx: &mut WriteContext<'_>, old: &Object, object: &Object) -> FieldErrors {
        match cx.endpoint {
            ObjectEndpoint::STATUS => NamespaceTemplateStatus::of(object).map_or_else(
                |error| decode_field_error(object, "status", &error),
                |status| namespace_template_status(&status),
            ),
            ObjectEndpoint::FINALIZE => FieldErrors::new(),
            ObjectEndpoint::Main | ObjectEndpoint::Subresource(_) => {
                match NamespaceTemplateSpec::of(object) {
                    Ok(spec) => NamespaceTemplateSpec::of(old).map_or_else(
                        |_unread| namespace_template(&spec),
                        |before| namespace_template_changed(&before, &spec),
                    ),
                    Err(_stored) if keeps_spec_while_deleting(old, object) => FieldErrors::new(),
                    Err(error) => decode_field_error(object, "spec", &error),
                }
            }
        }
    }

    fn waits_for(&self, object: &Object) -> Option<String> {
        deletion_pending_message(object, "namespacetemplate")
    }

    fn account(&self, object: &Object) -> Result<Account, Status> {
        account::of::<UnchargedObject>(object).map_err(internal_decode_error)
    }

    fn refusal(&self, _cx: &WriteContext<'_>, object: &Object, violations: &[Violation]) -> Status {
        refusal::of_uncharged(object, violations)
    }

    /// Its name is used as the value of a label.
    fn name_rule(&self) -> NameRule {
        NameRule::Label
    }

    fn cells(&self, object: &Object, _now_unix_seconds: i64) -> Vec<Value> {
        let (Ok(spec), Ok(status)) = (NamespaceTemplateSpec::of(object), NamespaceTemplateStatus::of(object))
        else {
            return vec![Value::Null; COLUMNS.len()];
        };
        vec![
            json!(spec.default),
            json!(status.namespaces),
            json!(status.updated),
            json!(status.failed),
            super::text_or_dash(ready_status(&status.conditions)),
            super::text_or_dash(&spec.display_name),
            json!(spec.rollout.batch),
            json!(spec.rollout.paused),
        ]
    }
}

use super::{administered_tenants, internal_decode_error, is_tenant_administrator, text_or_dash};
use crate::refusal;
use apiserver::resource::Column;
use apiserver::strategy::{Strategy, WriteContext};
use business_types::account;
use business_types::config_map::{ChargedConfigMap, config_map, group_resource, tenant_of};
use business_types::names::TENANT_LABEL;
use meta::field::FieldErrors;
use meta::object::Object;
use meta::status::Status;
use meta::validation::NameRule;
use serde_json::{Map, Value, json};
use store::quota::{Account, Violation};

/// Columns of `kubectl get`.
pub const COLUMNS: &[Column] = &[
    Column::string("Tenant", "The tenant that owns it; none owns the platform's.", 0),
    Column::typed("Data", "integer", "How many keys it has.", 0),
];

/// Config maps: a label names their tenant.
#[derive(Clone, Copy, Debug)]
pub struct ConfigMapStrategy;

/// Checks that a caller who is no operator administers the tenant of the label. If he administers only one, it is set.
fn set_tenant_label(cx: &WriteContext<'_>, object: &mut Object) -> Result<(), Status> {
    if cx.sees_everything() {
        return Ok(());
    }
    let mut ruled = administered_tenants(cx);
    match (ruled.next(), ruled.next()) {
        (Some(tenant), None) => object.set(&["metadata", "labels", TENANT_LABEL], json!(tenant)),
        _ => check_administrator(cx, object)?,
    }
    Ok(())
}

fn check_administrator(cx: &WriteContext<'_>, object: &Object) -> Result<(), Status> {
    let tenant = tenant_of(object);
    if cx.sees_everything() || !tenant.is_empty() && is_tenant_administrator(cx, tenant) {
        return Ok(());
    }
    let why = format!("it is written by administrators of the tenant that its label {TENANT_LABEL:?} names");
    Err(Status::forbidden(&group_resource(), object.name(), &why))
}

impl Strategy for ConfigMapStrategy {
    fn prepare_create(&self, cx: &mut WriteContext<'_>, object: &mut Object) -> Result<(), Status> {
        set_tenant_label(cx, object)
    }

    fn validate_create(&self, _cx: &mut WriteContext<'_>, object: &Object) -> FieldErrors {
        config_map(object)
    }

    fn prepare_update(
        &self,
        cx: &mut WriteContext<'_>,
        old: &Object,
        object: &mut Object,
    ) -> Result<(), Status> {
        check_administrator(cx, old)?;
        set_tenant_label(cx, object)
    }

    fn check_delete(&self, cx: &WriteContext<'_>, object: &Object) -> Result<(), Status> {
        check_administrator(cx, object)
    }

    fn validate_update(&self, _cx: &mut WriteContext<'_>, _old: &Object, object: &Object) -> FieldErrors {
        config_map(object)
    }

    fn account(&self, object: &Object) -> Result<Account, Status> {
        account::of::<ChargedConfigMap>(object).map_err(internal_decode_error)
    }

    fn refusal(&self, _cx: &WriteContext<'_>, object: &Object, violations: &[Violation]) -> Status {
        refusal::of_uncharged(object, violations)
    }

    fn name_rule(&self) -> NameRule {
        NameRule::Label
    }

    fn cells(&self, object: &Object, _now_unix_seconds: i64) -> Vec<Value> {
        let keys = |field| object.get(&[field]).and_then(Value::as_object).map_or(0, Map::len);
        vec![text_or_dash(tenant_of(object)), json!(keys("data") + keys("binaryData"))]
    }
}

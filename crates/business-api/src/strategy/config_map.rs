use super::dash;
use apiserver::resource::Column;
use apiserver::strategy::{Strategy, WriteContext};
use business_types::config_map::{config_map, tenant_of};
use business_types::names::TENANT_LABEL;
use meta::field::FieldErrors;
use meta::object::Object;
use meta::status::Status;
use meta::validation::NameRule;
use serde_json::{Map, Value, json};
use store::quota::{Account, Violation};

/// Columns of `kubectl get`.
pub const COLUMNS: &[Column] = &[
    Column {
        name: "Tenant",
        ty: "string",
        description: "The tenant that owns it; none owns the platform's.",
        priority: 0,
    },
    Column { name: "Data", ty: "integer", description: "How many keys it has.", priority: 0 },
];

/// Config maps: a label says whose they are.
#[derive(Clone, Copy, Debug)]
pub struct ConfigMapStrategy;

/// What a caller with a tenant writes is that tenant's. Operators say themselves whose it is.
fn set_label(cx: &WriteContext<'_>, object: &mut Object) {
    if let Some(tenant) = cx.tenant {
        object.set(&["metadata", "labels", TENANT_LABEL], json!(tenant));
    }
}

impl Strategy for ConfigMapStrategy {
    fn prepare_create(&self, cx: &mut WriteContext<'_>, object: &mut Object) -> Result<(), Status> {
        set_label(cx, object);
        Ok(())
    }

    fn validate_create(&self, _cx: &mut WriteContext<'_>, object: &Object) -> FieldErrors {
        config_map(object)
    }

    fn prepare_update(
        &self,
        cx: &mut WriteContext<'_>,
        _old: &Object,
        object: &mut Object,
    ) -> Result<(), Status> {
        set_label(cx, object);
        Ok(())
    }

    fn validate_update(&self, _cx: &mut WriteContext<'_>, _old: &Object, object: &Object) -> FieldErrors {
        config_map(object)
    }

    fn account(&self, object: &Object) -> Result<Account, Status> {
        Ok(Account { tenant: tenant_of(object).to_owned(), ..Account::default() })
    }

    fn refusal(&self, _cx: &WriteContext<'_>, object: &Object, violations: &[Violation]) -> Status {
        tracing::error!(name = object.name(), ?violations, "what costs nothing was refused by quota");
        Status::internal("the write was refused by quota")
    }

    fn name_rule(&self) -> NameRule {
        NameRule::Label
    }

    fn cells(&self, object: &Object, _now_unix_seconds: i64) -> Vec<Value> {
        let keys = |field| object.get(&[field]).and_then(Value::as_object).map_or(0, Map::len);
        vec![dash(tenant_of(object)), json!(keys("data") + keys("binaryData"))]
    }
}

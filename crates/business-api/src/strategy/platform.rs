use super::{
    TENANT, decode_field_error, internal_decode_error, is_tenant_administrator, people_limit, read_both,
    set_tenant, text_or_dash,
};
use crate::roles::Roles;
use apiserver::resource::Column;
use apiserver::strategy::{Strategy, WriteContext};
use business_types::platform::{
    ChargedPlatform, PlatformSpec, group_resource, gvk, platform, platform_update,
};
use business_types::{account, names};
use meta::field::{FieldError, FieldErrors, Path};
use meta::object::Object;
use meta::status::Status;
use meta::validation::NameRule;
use serde_json::{Value, json};
use store::quota::{Account, Violation};

const ADMINISTRATORS: &[&str] = &["spec", "administrators"];

/// Columns of `kubectl get`.
pub const COLUMNS: &[Column] = &[
    Column::string("Tenant", "The tenant.", 0),
    Column::string("Administrators", "Users who rule the tenant.", 0),
];

/// Platforms: operators create them, one per tenant; the tenant's administrators change the list of administrators.
#[derive(Clone, Debug)]
pub struct PlatformStrategy {
    roles: Roles,
}

impl PlatformStrategy {
    /// `roles` know how many people tenants list.
    pub fn new(roles: Roles) -> Self {
        Self { roles }
    }

    fn check_people(&self, old: Option<&Object>, object: &Object) -> Result<(), Status> {
        people_limit::check(&self.roles, &group_resource(), object.text(TENANT), old, object).map(drop)
    }
}

impl Strategy for PlatformStrategy {
    fn prepare_create(&self, cx: &mut WriteContext<'_>, object: &mut Object) -> Result<(), Status> {
        if !cx.sees_everything() {
            let why = "platforms are made by operators only";
            return Err(Status::forbidden(&group_resource(), object.name(), why));
        }
        if object.name().is_empty() && object.text(&["metadata", "generateName"]).is_empty() {
            object.set(&["metadata", "generateName"], json!(names::PLATFORM_NAME_PREFIX));
        }
        self.check_people(None, object)
    }

    fn validate_create(&self, _cx: &mut WriteContext<'_>, object: &Object) -> FieldErrors {
        let unread = |error| decode_field_error(object, "spec", &error);
        PlatformSpec::of(object).map_or_else(unread, |spec| platform(&spec))
    }

    fn prepare_update(
        &self,
        cx: &mut WriteContext<'_>,
        old: &Object,
        object: &mut Object,
    ) -> Result<(), Status> {
        set_tenant(cx, Some(old), object);
        if !is_tenant_administrator(cx, old.text(TENANT)) {
            let why = "platforms are changed by administrators of their tenant only";
            return Err(Status::forbidden(&group_resource(), old.name(), why));
        }
        self.check_people(Some(old), object)
    }

    fn validate_update(&self, _cx: &mut WriteContext<'_>, old: &Object, object: &Object) -> FieldErrors {
        let (before, spec) = match read_both(old, object, "spec", PlatformSpec::of) {
            Ok(specs) => specs,
            Err(errors) => return errors,
        };
        platform_update(&before, &spec)
    }

    fn account(&self, object: &Object) -> Result<Account, Status> {
        account::of::<ChargedPlatform>(object).map_err(internal_decode_error)
    }

    /// A platform costs nothing, so the ledger can only refuse its claim: the tenant has another one.
    fn refusal(&self, _cx: &WriteContext<'_>, object: &Object, _violations: &[Violation]) -> Status {
        let tenant = json!(object.text(&["spec", "tenantID"]));
        let errors = vec![FieldError::duplicate(&Path::new("spec").child("tenantID"), &tenant)];
        Status::invalid(&gvk(), object.name(), &errors)
    }

    fn name_rule(&self) -> NameRule {
        NameRule::Label
    }

    fn cells(&self, object: &Object, _now_unix_seconds: i64) -> Vec<Value> {
        let administrators: Vec<&str> = object.strings(ADMINISTRATORS).collect();
        vec![text_or_dash(object.text(&["spec", "tenantID"])), text_or_dash(&administrators.join(","))]
    }
}

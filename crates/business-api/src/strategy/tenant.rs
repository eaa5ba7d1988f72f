use super::{by_operators, dash, ready, shares, unreadable};
use crate::levels::Levels;
use crate::refusal::{self, RefusedKind, RefusedObject};
use apiserver::Part;
use apiserver::resource::Column;
use apiserver::strategy::{Strategy, WriteContext};
use business_types::tenant::{self, ChargedTenant, TenantSpec, TenantStatus, group_resource, gvk};
use business_types::{SubjectKind, account};
use meta::field::{FieldErrors, Path};
use meta::object::Object;
use meta::quantity::ResourceList;
use meta::status::Status;
use meta::validation::NameRule;
use serde_json::{Value, json};
use store::quota::{Account, Violation};

/// Columns of `kubectl get`.
pub const COLUMNS: &[Column] = &[
    column("Ready", "string", "Whether the controller has looked at it, and nothing is wrong.", 0),
    column("Projects", "integer", "Its projects, at whatever depth.", 0),
    column("Namespaces", "integer", "Their namespaces.", 0),
    column("Granted/Ceiling", "string", "What its root projects are granted, of what they may be.", 0),
    column("Display Name", "string", "Name for people.", 1),
    column("Administrators", "string", "Who rules the tenant.", 1),
];

const fn column(name: &'static str, ty: &'static str, description: &'static str, priority: i32) -> Column {
    Column { name, ty, description, priority }
}

static REFUSED: RefusedKind = RefusedKind {
    gvk,
    resource: group_resource,
    scope: "metadata.name",
    domain: "spec.clusters",
    place: "metadata.name",
    amount: |cluster, key| Path::new("spec").child("clusters").key(cluster).child("hard").key(key),
};

/// Tenants: made by operators, with ceilings that cost the member clusters.
#[derive(Clone, Debug)]
pub struct TenantStrategy {
    levels: Levels,
}

impl TenantStrategy {
    /// `levels` tell how full clusters are.
    pub fn new(levels: Levels) -> Self {
        Self { levels }
    }
}

impl Strategy for TenantStrategy {
    fn prepare_create(&self, cx: &mut WriteContext<'_>, object: &mut Object) -> Result<(), Status> {
        object.remove(&["status"]);
        by_operators(cx, object, &group_resource())
    }

    fn validate_create(&self, _cx: &mut WriteContext<'_>, object: &Object) -> FieldErrors {
        TenantSpec::of(object).map(|spec| tenant::tenant(&spec)).unwrap_or_default()
    }

    fn prepare_update(
        &self,
        cx: &mut WriteContext<'_>,
        _old: &Object,
        object: &mut Object,
    ) -> Result<(), Status> {
        by_operators(cx, object, &group_resource())
    }

    fn validate_update(&self, cx: &mut WriteContext<'_>, _old: &Object, object: &Object) -> FieldErrors {
        match cx.part {
            Part::STATUS => {
                TenantStatus::of(object).map(|status| tenant::tenant_status(&status)).unwrap_or_default()
            }
            _ => TenantSpec::of(object).map(|spec| tenant::tenant(&spec)).unwrap_or_default(),
        }
    }

    fn prepare_delete(&self, _cx: &mut WriteContext<'_>, _object: &mut Object) {}

    fn waits_for(&self, _object: &Object) -> Option<String> {
        None
    }

    fn account(&self, object: &Object) -> Result<Account, Status> {
        account::of::<ChargedTenant>(object).map_err(|error| unreadable(&error))
    }

    fn growth_warnings(&self, before: Option<&Account>, after: &Account) -> Vec<String> {
        self.levels.warnings(before, after)
    }

    fn refusal(&self, _cx: &WriteContext<'_>, object: &Object, violations: &[Violation]) -> Status {
        refusal::status(RefusedObject { name: object.name(), kind: &REFUSED }, violations, &self.levels)
    }

    fn name_rule(&self) -> NameRule {
        NameRule::Subdomain
    }

    fn cells(&self, object: &Object, _now_unix_seconds: i64) -> Vec<Value> {
        let (Ok(spec), Ok(status)) = (TenantSpec::of(object), TenantStatus::of(object)) else {
            return vec![Value::Null; COLUMNS.len()];
        };
        let people: Vec<String> = spec
            .administrators
            .iter()
            .map(|subject| match subject.kind {
                SubjectKind::User => subject.name.clone(),
                SubjectKind::Group => format!("group {}", subject.name),
                SubjectKind::ServiceAccount => format!("{}/{}", subject.namespace, subject.name),
            })
            .collect();
        vec![
            dash(ready(&status.conditions)),
            json!(status.projects),
            json!(status.namespaces),
            json!(granted(&spec, &status)),
            dash(&spec.display_name),
            dash(&people.join(",")),
        ]
    }
}

/// `c1: requests.cpu: 3/10`
fn granted(spec: &TenantSpec, status: &TenantStatus) -> String {
    let none = ResourceList::new();
    let of = |(cluster, ceiling): (&String, &business_types::HardQuantity)| {
        let used = status.clusters.get(cluster).map_or(&none, |used| &used.used);
        format!("{cluster}: {}", shares(used, &ceiling.hard))
    };
    let shown: Vec<String> = spec.clusters.iter().map(of).collect();
    if shown.is_empty() { "-".to_owned() } else { shown.join("; ") }
}

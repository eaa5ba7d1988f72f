use super::{by_operators, dash, shares, unreadable};
use crate::levels::Levels;
use crate::refusal::{self, RefusedKind, RefusedObject};
use apiserver::resource::Column;
use apiserver::strategy::{Strategy, WriteContext};
use business_types::account;
use business_types::member_cluster::{self, ChargedMemberCluster, MemberClusterSpec, group_resource, gvk};
use meta::field::{FieldErrors, Path};
use meta::object::Object;
use meta::status::Status;
use meta::validation::NameRule;
use serde_json::{Value, json};
use store::quota::{Account, Violation};

/// Columns of `kubectl get`.
pub const COLUMNS: &[Column] = &[
    Column::string("Granted/Hard", "What tenants are granted of it, of what they may be.", 0),
    Column::string("Display Name", "Name for people.", 0),
];

static REFUSED: RefusedKind = RefusedKind {
    gvk,
    resource: group_resource,
    scope: "metadata.name",
    domain: "metadata.name",
    place: "metadata.name",
    amount: |_cluster, key| Path::new("spec").child("hard").key(key),
};

/// Member clusters: what operators let tenants have of them.
#[derive(Clone, Debug)]
pub struct MemberClusterStrategy {
    levels: Levels,
}

impl MemberClusterStrategy {
    /// `levels` tell how full clusters are.
    pub fn new(levels: Levels) -> Self {
        Self { levels }
    }
}

fn spec_errors(object: &Object) -> FieldErrors {
    let checked = |spec| member_cluster::member_cluster(object.name(), &spec);
    MemberClusterSpec::of(object).map(checked).unwrap_or_default()
}

impl Strategy for MemberClusterStrategy {
    fn prepare_create(&self, cx: &mut WriteContext<'_>, object: &mut Object) -> Result<(), Status> {
        by_operators(cx, object, &group_resource())
    }

    fn validate_create(&self, _cx: &mut WriteContext<'_>, object: &Object) -> FieldErrors {
        spec_errors(object)
    }

    fn prepare_update(
        &self,
        cx: &mut WriteContext<'_>,
        _old: &Object,
        object: &mut Object,
    ) -> Result<(), Status> {
        by_operators(cx, object, &group_resource())
    }

    fn validate_update(&self, _cx: &mut WriteContext<'_>, _old: &Object, object: &Object) -> FieldErrors {
        spec_errors(object)
    }

    fn account(&self, object: &Object) -> Result<Account, Status> {
        account::of::<ChargedMemberCluster>(object).map_err(|error| unreadable(&error))
    }

    fn refusal(&self, _cx: &WriteContext<'_>, object: &Object, violations: &[Violation]) -> Status {
        refusal::status(RefusedObject { name: object.name(), kind: &REFUSED }, violations, &self.levels)
    }

    fn name_rule(&self) -> NameRule {
        NameRule::Subdomain
    }

    fn cells(&self, object: &Object, _now_unix_seconds: i64) -> Vec<Value> {
        let Ok(spec) = MemberClusterSpec::of(object) else { return vec![Value::Null; COLUMNS.len()] };
        let granted = self.levels.allocated(&account::fleet(), object.name());
        vec![json!(shares(&granted, &spec.hard)), dash(&spec.display_name)]
    }
}

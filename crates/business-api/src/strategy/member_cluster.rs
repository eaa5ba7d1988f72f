use super::{
    add_finalizer, check_no_growth_while_deleting, check_operator, decode_field_error, format_usage,
    internal_decode_error, read_both, ready_status, removes_finalizer, text_or_dash,
};
use crate::allocations::Allocations;
use crate::finalizers::FINALIZERS;
use crate::kind_ids::MEMBER_CLUSTER;
use crate::refusal::{self, RefusedKind, RefusedObject};
use apiserver::resource::Column;
use apiserver::strategy::{Strategy, WriteContext};
use apiserver::{ObjectEndpoint, View};
use business_types::condition::{self, TERMINATING};
use business_types::member_cluster::{
    self, ChargedMemberCluster, MemberClusterSpec, MemberClusterStatus, group_resource, gvk,
};
use business_types::{account, names};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use meta::field::{FieldErrors, Path};
use meta::object::Object;
use meta::status::Status;
use meta::validation::NameRule;
use serde_json::{Value, json};
use store::quota::{Account, Violation};

/// The uid of the cluster that the object stands for. It is written once.
const UID: &[&str] = &["status", "uid"];

/// The subresource that writes the capacity derived from the cluster's nodes.
pub const CAPACITY: &str = "capacity";

/// Columns of `kubectl get`.
pub const COLUMNS: &[Column] = &[
    Column::string("Ready", "Whether it is registered and answers.", 0),
    Column::string("Version", "Its Kubernetes version.", 0),
    Column::string("Granted/Hard", "What tenants are granted of it, of what they may be.", 0),
    Column::string("Consumed", "What namespaces use in it, of what may be granted.", 0),
    Column::typed("Namespaces", "integer", "The namespaces that live in it.", 0),
    Column::typed("Cordoned", "boolean", "Whether nothing new comes to it.", 0),
    Column::string("Display Name", "Name for people.", 1),
    Column::string("Tenants", "Who may use it.", 1),
    Column::string("Lease", "The Lease whose holder works on it.", 1),
];

static REFUSED: RefusedKind = RefusedKind {
    gvk,
    resource: group_resource,
    scope: "metadata.name",
    domain: "metadata.name",
    place: "metadata.name",
    amount: |_cluster, key| Path::new("spec").child("hard").key(key),
};

/// Member clusters: operators set what tenants may be granted of them.
#[derive(Clone, Debug)]
pub struct MemberClusterStrategy {
    allocations: Allocations,
}

impl MemberClusterStrategy {
    /// `allocations` know how full clusters are.
    pub fn new(allocations: Allocations) -> Self {
        Self { allocations }
    }
}

fn spec_errors(object: &Object) -> FieldErrors {
    let checked = |spec| member_cluster::member_cluster(object.name(), &spec);
    MemberClusterSpec::of(object).map_or_else(|error| decode_field_error(object, "spec", &error), checked)
}

/// Our finalizer stays until the object is being deleted. Then the controller removes it when the cluster is unused.
fn prepare_finalize(old: &Object, object: &Object) -> Result<(), Status> {
    if removes_finalizer(old, object, names::MEMBER_CLUSTER_FINALIZER) && !old.is_deleting() {
        let why = "the finalizer \"membercluster\" stays until the member cluster is deleted";
        return Err(Status::conflict(&group_resource(), old.name(), why));
    }
    Ok(())
}

/// Refuses a second `MemberCluster` for one cluster, so that its capacity is granted once. Concurrent writes are no
/// danger: the leading controller registers clusters one after the other, and refuses a second name itself.
async fn check_name(view: View<'_>, object: &Object) -> Result<(), Status> {
    let uid = object.text(UID);
    for other in view.unfiltered().latest().list(MEMBER_CLUSTER, None).await? {
        if *other.key.name == *object.name() {
            continue;
        }
        let stored: Value = serde_json::from_slice(&other.body).map_err(internal_decode_error)?;
        if stored.pointer("/status/uid").is_some_and(|known| known == uid) {
            let why = format!("{:?} stands for the cluster with uid {uid} already", &*other.key.name);
            return Err(Status::conflict(&group_resource(), object.name(), &why));
        }
    }
    Ok(())
}

impl Strategy for MemberClusterStrategy {
    fn prepare_create(&self, cx: &mut WriteContext<'_>, object: &mut Object) -> Result<(), Status> {
        object.remove(&["status"]);
        object.set(super::OBSERVED_GENERATION, json!(0));
        check_operator(cx, object, &group_resource())?;
        add_finalizer(object, names::MEMBER_CLUSTER_FINALIZER);
        Ok(())
    }

    fn validate_create(&self, _cx: &mut WriteContext<'_>, object: &Object) -> FieldErrors {
        spec_errors(object)
    }

    fn prepare_update(
        &self,
        cx: &mut WriteContext<'_>,
        old: &Object,
        object: &mut Object,
    ) -> Result<(), Status> {
        check_operator(cx, object, &group_resource())?;
        match cx.endpoint {
            ObjectEndpoint::STATUS if object.text(UID).is_empty() => object.copy_from(old, UID),
            ObjectEndpoint::FINALIZE => return prepare_finalize(old, object),
            ObjectEndpoint::Subresource(CAPACITY) if old.is_deleting() => {
                let why = "it is being deleted: nothing more is granted of it";
                return Err(Status::conflict(&group_resource(), object.name(), why));
            }
            _ => {}
        }
        Ok(())
    }

    fn validate_update(&self, cx: &mut WriteContext<'_>, old: &Object, object: &Object) -> FieldErrors {
        match cx.endpoint {
            ObjectEndpoint::STATUS => match read_both(old, object, "status", MemberClusterStatus::of) {
                Ok((old, status)) => member_cluster::member_cluster_status(&old, &status),
                Err(errors) => errors,
            },
            ObjectEndpoint::FINALIZE => FieldErrors::new(),
            ObjectEndpoint::Subresource(CAPACITY) => MemberClusterStatus::of(object).map_or_else(
                |error| decode_field_error(object, "status", &error),
                |status| member_cluster::capacity(&status.capacity),
            ),
            ObjectEndpoint::Main | ObjectEndpoint::Subresource(_) => spec_errors(object),
        }
    }

    fn admit<'a>(
        &'a self,
        cx: &'a mut WriteContext<'_>,
        view: View<'a>,
        old: Option<&'a Object>,
        object: &'a mut Object,
    ) -> Option<BoxFuture<'a, Result<(), Status>>> {
        let is_new = old.is_some_and(|old| old.text(UID) != object.text(UID)) && !object.text(UID).is_empty();
        (cx.endpoint == ObjectEndpoint::STATUS && is_new).then(|| check_name(view, object).boxed())
    }

    fn check_update(&self, _cx: &WriteContext<'_>, old: &Object, new: &Object) -> Result<(), Status> {
        check_no_growth_while_deleting(old, &self.account(old)?, &self.account(new)?, &group_resource())
    }

    fn waits_for(&self, object: &Object) -> Option<String> {
        object.strings(FINALIZERS).next()?;
        let status = MemberClusterStatus::of(object).unwrap_or_default();
        let message =
            condition::find(&status.conditions, TERMINATING).map(|condition| condition.message.clone());
        Some(format!(
            "The member cluster goes when nothing of it is granted and nothing lives in it.  {}",
            message.unwrap_or_default()
        ))
    }

    fn account(&self, object: &Object) -> Result<Account, Status> {
        account::of::<ChargedMemberCluster>(object).map_err(internal_decode_error)
    }

    fn refusal(&self, _cx: &WriteContext<'_>, object: &Object, violations: &[Violation]) -> Status {
        refusal::status(
            RefusedObject { name: object.name(), kind: &REFUSED, holds: None },
            violations,
            &self.allocations,
        )
    }

    fn name_rule(&self) -> NameRule {
        NameRule::Subdomain
    }

    fn cells(&self, object: &Object, _now_unix_seconds: i64) -> Vec<Value> {
        let (Ok(spec), Ok(status)) = (MemberClusterSpec::of(object), MemberClusterStatus::of(object)) else {
            return vec![Value::Null; COLUMNS.len()];
        };
        let hard = spec.grantable(&status.capacity);
        let granted = self.allocations.allocated(&account::fleet(), object.name());
        vec![
            text_or_dash(ready_status(&status.conditions)),
            text_or_dash(&status.version),
            json!(format_usage(&granted, &hard)),
            json!(format_usage(&status.consumed, &hard)),
            json!(status.namespaces),
            json!(spec.cordoned),
            text_or_dash(&spec.display_name),
            text_or_dash(&spec.tenants.join(",")),
            text_or_dash(&status.lease),
        ]
    }
}

//! What image namespaces and chart groups have in common: each owns one prefix of the registry's repositories.

use crate::condition::{self, Condition, WITHIN_QUOTA, reason};
use crate::names::{GROUP, REGISTRY_CHANGED_ANNOTATION, REGISTRY_PUSHED_ANNOTATION, VERSION};
use meta::gvk::{GroupResource, GroupVersionKind};
use meta::object::Object;
use meta::quantity::{Quantity, ResourceList};
use meta::schema::Schema;
use serde::{Deserialize, Serialize};
use std::fmt;

mod account;
mod manifest;
mod schema;
mod validation;

pub use account::{ChargedRegistryObject, costs, prefix};
pub use manifest::{AND_MORE, ManifestName, UNTAGGED_MAX, is_digest};
pub use schema::{spec_schema, status_schema};
pub use validation::{is_repository_component, limits, object, object_status, object_update};

/// The registry's domain in the quota ledger. No member cluster has this name.
pub const REGISTRY_DOMAIN: &str = "registry";
/// Bytes that a registry keeps, as a key of quota.
pub const STORAGE: &str = "requests.storage";
/// Keys of quota that the registry knows: what a project may limit there.
pub const REGISTRY_KEYS: [&str; 3] = [crate::names::CHART_GROUPS, crate::names::IMAGE_NAMESPACES, STORAGE];
/// The most seconds that a token for the registry lives. For that long, what was allowed can still be done.
pub const TOKEN_SECONDS_MAX: u64 = 60;

/// One of the kinds that own a prefix of the registry.
pub trait RegistryKind: Clone + Copy + fmt::Debug + Default + PartialEq + Eq + Send + Sync + 'static {
    /// Its name.
    const KIND: &'static str;
    /// Its plural, which is also the key of quota that its objects count in.
    const PLURAL: &'static str;
    /// Its singular.
    const SINGULAR: &'static str;
    /// Its short names for kubectl.
    const SHORT_NAMES: &'static [&'static str];
    /// Its token in `spec.finalizers`.
    const FINALIZER: &'static str;
    /// What a name is generated from when none is given.
    const NAME_PREFIX: &'static str;
    /// What people call an object of it.
    const WORDS: &'static str;

    /// Its shape.
    fn schema() -> Schema;

    /// Its full name.
    fn gvk() -> GroupVersionKind {
        GroupVersionKind::new(GROUP, VERSION, Self::KIND)
    }

    /// Its group and plural.
    fn group_resource() -> GroupResource {
        GroupResource::new(GROUP, Self::PLURAL)
    }
}

/// What an image namespace or chart group is meant to be. Its project is `metadata.namespace`; its repositories lie
/// below `TENANT/NAME`, where NAME is `metadata.name`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RegistrySpec {
    /// Who still has to clean up before it can go.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub finalizers: Vec<String>,
    /// Its name in the registry: empty, or `metadata.name`.
    pub name: String,
    /// The tenant that owns it.
    #[serde(rename = "tenantID")]
    pub tenant_id: String,
    /// Name for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub display_name: String,
    /// What it may keep.
    #[serde(skip_serializing_if = "ResourceList::is_empty")]
    pub hard: ResourceList,
}

/// The state of an image namespace or chart group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RegistryStatus {
    /// Its phase.
    pub phase: RegistryPhase,
    /// An operator has locked it: nothing is pushed or deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub locked: Option<bool>,
    /// When `phase` last changed, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<String>,
    /// Why it is in its phase, as one word.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Details for a person.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The record of what in the registry is this object's. Without it, nothing in the registry is touched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub registry: Option<RegistryRecord>,
    /// What is kept, as last measured; absent until then.
    #[serde(skip_serializing_if = "ResourceList::is_empty")]
    pub used: ResourceList,
    /// Manifests that count, as last measured: first those without a tag, which no list of the registry shows, then
    /// others that may lose their tags. At most [`UNTAGGED_MAX`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub untagged: Vec<String>,
    /// The mark of a change ([`crate::names::REGISTRY_CHANGED_ANNOTATION`]) that the last measurement followed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured_change: Option<String>,
    /// `metadata.generation` that the status was computed from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Aspects of its state.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// What is recorded about the registry. Only this record says that what lies below the prefix is the object's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RegistryRecord {
    /// The sort of registry that it is in.
    pub backend: RegistryBackend,
    /// How it came to be there.
    pub provenance: RegistryProvenance,
    /// The uid of its object in TKE's registry; empty where a registry has no objects.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
}

/// A sort of registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RegistryBackend {
    /// TKE's registry, by its API.
    #[serde(rename = "TKE")]
    Tke,
    /// A registry of the OCI distribution specification.
    #[serde(rename = "OCI")]
    Oci,
}

impl RegistryBackend {
    /// All of them, as they are written.
    pub const NAMES: [&'static str; 2] = ["TKE", "OCI"];
}

/// How a prefix came to be the object's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RegistryProvenance {
    /// Made for the object, or empty when it was first looked at.
    Made,
    /// There before the object, and taken over with consent.
    Adopted,
}

impl RegistryProvenance {
    /// All of them, as they are written.
    pub const NAMES: [&'static str; 2] = ["Made", "Adopted"];
}

/// Where in its life an image namespace or chart group is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RegistryPhase {
    /// Not yet in the registry.
    #[default]
    Pending,
    /// In the registry, and usable.
    Available,
    /// Locked by an operator, or in the registry: it can be read.
    Locked,
    /// The registry does not have it for this object; it is retried.
    Failed,
    /// Being deleted in the registry.
    Terminating,
}

impl RegistryPhase {
    /// All phases, as they are written.
    pub const NAMES: [&'static str; 5] = ["Pending", "Available", "Locked", "Failed", "Terminating"];

    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Available => "Available",
            Self::Locked => "Locked",
            Self::Failed => "Failed",
            Self::Terminating => "Terminating",
        }
    }
}

/// What may be done below a prefix, by callers who have the right to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Offer {
    /// Nothing: it is not known whose the content is.
    Nothing,
    /// Pull.
    Read,
    /// Pull and delete, but no push: what it may keep is used up.
    Shrink,
    /// Pull, push and delete.
    Write,
}

impl RegistrySpec {
    /// The spec of an object; an absent one is empty.
    pub fn of(object: &Object) -> Result<Self, serde_json::Error> {
        Ok(object.decode(&["spec"])?.unwrap_or_default())
    }

    /// Bytes that may be kept; `None` without a limit.
    pub fn storage(&self) -> Option<Quantity> {
        self.hard.get(STORAGE).copied()
    }
}

impl RegistryStatus {
    /// The status of an object; an absent one is empty.
    pub fn of(object: &Object) -> Result<Self, serde_json::Error> {
        Ok(object.decode(&["status"])?.unwrap_or_default())
    }

    /// Whether an operator has locked it.
    pub fn is_locked(&self) -> bool {
        self.locked.unwrap_or_default()
    }

    /// Bytes that are kept, as last measured.
    pub fn storage(&self) -> Quantity {
        self.used.get(STORAGE).copied().unwrap_or(Quantity::ZERO)
    }

    /// Whether as much is kept as may be, or more.
    pub fn is_used_up(&self, spec: &RegistrySpec) -> bool {
        spec.storage().is_some_and(|hard| self.storage() >= hard)
    }

    /// Why the content cannot be measured, if it cannot.
    pub fn beyond_measure(&self) -> Option<&str> {
        let within = condition::find(&self.conditions, WITHIN_QUOTA)?;
        (within.reason == reason::CANNOT_BE_MEASURED).then_some(within.message.as_str())
    }

    /// Whether no measurement has followed what was pushed last.
    pub fn awaits_measurement(&self, object: &Object) -> bool {
        object.annotation(REGISTRY_CHANGED_ANNOTATION) != self.measured_change.as_deref()
    }

    /// What may be done below the prefix of the object whose status this is. Where more was pushed than is remembered,
    /// nothing can be pushed until it is measured.
    pub fn offer_of(&self, object: &Object, spec: &RegistrySpec) -> Offer {
        let pushed = object.annotation(REGISTRY_PUSHED_ANNOTATION).unwrap_or_default();
        let is_more = pushed.split_whitespace().any(|word| word == AND_MORE);
        let offer = self.offer(spec);
        if is_more && spec.storage().is_some() && self.awaits_measurement(object) {
            return offer.min(Offer::Shrink);
        }
        offer
    }

    /// What may be done below the prefix, by the status alone. An object that is being deleted is Terminating.
    pub fn offer(&self, spec: &RegistrySpec) -> Offer {
        if self.registry.is_none() {
            return Offer::Nothing;
        }
        match self.phase {
            RegistryPhase::Pending | RegistryPhase::Failed => Offer::Nothing,
            RegistryPhase::Terminating | RegistryPhase::Locked => Offer::Read,
            RegistryPhase::Available if self.is_locked() => Offer::Read,
            RegistryPhase::Available if self.is_used_up(spec) => Offer::Shrink,
            // Otherwise whoever keeps too much to be measured could keep as much as he likes.
            RegistryPhase::Available if spec.storage().is_some() && self.beyond_measure().is_some() => {
                Offer::Shrink
            }
            RegistryPhase::Available => Offer::Write,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn offer(status: &serde_json::Value) -> Offer {
        let object = json!({"spec": {"hard": {STORAGE: "1Gi"}}, "status": status});
        let object = Object::new(object).unwrap();
        RegistryStatus::of(&object).unwrap().offer(&RegistrySpec::of(&object).unwrap())
    }

    #[test]
    fn what_is_offered_follows_from_record_phase_lock_and_use() {
        let record = json!({"backend": "OCI", "provenance": "Made"});
        let of = |phase: &str, locked: bool, used: &str| {
            offer(&json!({"phase": phase, "locked": locked, "registry": record, "used": {STORAGE: used}}))
        };
        assert_eq!(offer(&json!({"phase": "Available"})), Offer::Nothing, "nothing is on record");
        assert_eq!(of("Pending", false, "0"), Offer::Nothing);
        assert_eq!(of("Available", false, "1073741823"), Offer::Write);
        assert_eq!(of("Available", false, "1Gi"), Offer::Shrink, "not a byte more");
        assert_eq!(of("Available", true, "0"), Offer::Read, "before the controller has seen it");
        assert_eq!(of("Locked", false, "2Gi"), Offer::Read);
        assert_eq!(of("Terminating", false, "0"), Offer::Read);
        assert_eq!(of("Failed", false, "0"), Offer::Nothing);
        let too_much = Condition::new(WITHIN_QUOTA, "Unknown", reason::CANNOT_BE_MEASURED, "too much");
        let beyond = json!({"phase": "Available", "registry": record, "conditions": [too_much]});
        assert_eq!(offer(&beyond), Offer::Shrink, "nobody knows what is kept");
    }

    #[test]
    fn nothing_is_pushed_beyond_what_is_remembered_until_it_is_measured() {
        let record = json!({"backend": "OCI", "provenance": "Made"});
        let of = |hard: &str, pushed: &str, measured: &str| {
            let annotations = json!({REGISTRY_CHANGED_ANNOTATION: "2", REGISTRY_PUSHED_ANNOTATION: pushed});
            let object = json!({
                "metadata": {"annotations": annotations}, "spec": {"hard": {hard: "1Gi"}},
                "status": {"phase": "Available", "registry": record, "measuredChange": measured},
            });
            let object = Object::new(object).unwrap();
            RegistryStatus::of(&object).unwrap().offer_of(&object, &RegistrySpec::of(&object).unwrap())
        };
        assert_eq!(of(STORAGE, "t/n@sha256:12 more", "1"), Offer::Shrink);
        assert_eq!(of(STORAGE, "t/n@sha256:12 more", "2"), Offer::Write, "it was measured");
        assert_eq!(of(STORAGE, "t/n@sha256:12", "1"), Offer::Write);
        assert_eq!(of(STORAGE, "t/n@sha256:12 1 t/n@sha256:34", "1"), Offer::Write, "a mark is no more");
        assert_eq!(of("other", "more", "1"), Offer::Write, "it may keep what it likes");
    }
}

//! What image namespaces and chart groups have in common: each owns a prefix of repositories in the registry.

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
/// The key of quota for bytes in the registry.
pub const STORAGE: &str = "requests.storage";
/// The keys of quota that a project may limit in the registry.
pub const REGISTRY_KEYS: [&str; 3] = [crate::names::CHART_GROUPS, crate::names::IMAGE_NAMESPACES, STORAGE];
/// The maximum lifetime of a token for the registry in seconds. For that time a revoked right still has effect.
pub const TOKEN_SECONDS_MAX: u64 = 60;

/// A kind that owns a prefix of the registry.
pub trait RegistryKind: Clone + Copy + fmt::Debug + Default + PartialEq + Eq + Send + Sync + 'static {
    /// The name of the kind.
    const KIND: &'static str;
    /// Its plural name, which is also the key of quota that counts its objects.
    const PLURAL: &'static str;
    /// Its singular name.
    const SINGULAR: &'static str;
    /// Its short names for kubectl.
    const SHORT_NAMES: &'static [&'static str];
    /// Its token in `spec.finalizers`.
    const FINALIZER: &'static str;
    /// The prefix of a generated name.
    const NAME_PREFIX: &'static str;
    /// The name of the kind for people, in the singular.
    const DISPLAY_NAME: &'static str;

    /// Its schema.
    fn schema() -> Schema;

    /// Its group, version and kind.
    fn gvk() -> GroupVersionKind {
        GroupVersionKind::new(GROUP, VERSION, Self::KIND)
    }

    /// Its group and plural name.
    fn group_resource() -> GroupResource {
        GroupResource::new(GROUP, Self::PLURAL)
    }
}

/// The spec of an image namespace or chart group. `metadata.namespace` is its project. Its repositories are below
/// `TENANT/NAME`, where NAME is `metadata.name`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RegistrySpec {
    /// Tokens of controllers that still have to clean up before it can be removed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub finalizers: Vec<String>,
    /// Its name in the registry: empty, or `metadata.name`.
    pub name: String,
    /// The tenant that owns it.
    #[serde(rename = "tenantID")]
    pub tenant_id: String,
    /// Its display name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub display_name: String,
    /// Its hard quota: bytes, as [`STORAGE`]. Without it, bytes are unlimited.
    #[serde(skip_serializing_if = "ResourceList::is_empty")]
    pub hard: ResourceList,
}

/// The status of an image namespace or chart group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RegistryStatus {
    /// Its phase.
    pub phase: RegistryPhase,
    /// Whether an operator has locked it: nothing can be pushed or deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub locked: Option<bool>,
    /// When `phase` last changed, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<String>,
    /// The reason of its phase, as one word.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Details for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The record of what belongs to the object in the registry. Without it, the controller changes nothing in the
    /// registry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub registry: Option<RegistryRecord>,
    /// The usage as last measured: bytes, as [`STORAGE`]. Empty until then.
    #[serde(skip_serializing_if = "ResourceList::is_empty")]
    pub used: ResourceList,
    /// Manifests of the last measurement: first those without a tag, which the registry does not list, then others,
    /// which may lose their tags. At most [`UNTAGGED_MAX`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub untagged: Vec<String>,
    /// The value of [`crate::names::REGISTRY_CHANGED_ANNOTATION`] that the last measurement was made for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured_change: Option<String>,
    /// `metadata.generation` that the status was computed from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Its conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// The record of the object in the registry. Only this record decides that the content below the prefix belongs to the
/// object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RegistryRecord {
    /// The type of the registry.
    pub backend: RegistryBackend,
    /// Its origin.
    pub provenance: RegistryProvenance,
    /// The uid of its object in TKE's registry; empty for a registry without objects.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
}

/// The type of a registry.
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
    /// The names of all variants.
    pub const NAMES: [&'static str; 2] = ["TKE", "OCI"];
}

/// The origin of the content below a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RegistryProvenance {
    /// It was created for the object, or was empty when the controller first saw it.
    Made,
    /// It existed before the object and was adopted with consent.
    Adopted,
}

impl RegistryProvenance {
    /// The names of all variants.
    pub const NAMES: [&'static str; 2] = ["Made", "Adopted"];
}

/// The phase of an image namespace or chart group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RegistryPhase {
    /// It does not exist in the registry yet.
    #[default]
    Pending,
    /// It exists in the registry and can be used.
    Available,
    /// It is locked by an operator or in the registry itself. It can be read.
    Locked,
    /// The prefix does not belong to this object in the registry; the controller retries.
    Failed,
    /// It is being deleted in the registry.
    Terminating,
}

impl RegistryPhase {
    /// The names of all phases.
    pub const NAMES: [&'static str; 5] = ["Pending", "Available", "Locked", "Failed", "Terminating"];

    /// Its name.
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

/// What callers with sufficient rights may do below a prefix. Ordered from the least access to the most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RegistryAccess {
    /// Nothing: it is unclear whose the content is.
    Nothing,
    /// Pull.
    Read,
    /// Pull and delete, but not push: the quota is used up.
    Shrink,
    /// Pull, push and delete.
    Write,
}

impl RegistrySpec {
    /// Decodes the spec of an object. An absent spec is empty.
    pub fn of(object: &Object) -> Result<Self, serde_json::Error> {
        Ok(object.decode(&["spec"])?.unwrap_or_default())
    }

    /// The limit of bytes; `None` if it is unlimited.
    pub fn storage(&self) -> Option<Quantity> {
        self.hard.get(STORAGE).copied()
    }
}

impl RegistryStatus {
    /// Decodes the status of an object. An absent status is empty.
    pub fn of(object: &Object) -> Result<Self, serde_json::Error> {
        Ok(object.decode(&["status"])?.unwrap_or_default())
    }

    /// Whether an operator has locked it.
    pub fn is_locked(&self) -> bool {
        self.locked.unwrap_or_default()
    }

    /// The number of bytes as last measured.
    pub fn storage(&self) -> Quantity {
        self.used.get(STORAGE).copied().unwrap_or(Quantity::ZERO)
    }

    /// Whether the quota is used up.
    pub fn is_used_up(&self, spec: &RegistrySpec) -> bool {
        spec.storage().is_some_and(|hard| self.storage() >= hard)
    }

    /// Why the content cannot be measured; `None` if it can.
    pub fn unmeasurable_reason(&self) -> Option<&str> {
        let within = condition::find(&self.conditions, WITHIN_QUOTA)?;
        (within.reason == reason::CANNOT_BE_MEASURED).then_some(within.message.as_str())
    }

    /// Whether the last reported change was not measured yet.
    pub fn awaits_measurement(&self, object: &Object) -> bool {
        object.annotation(REGISTRY_CHANGED_ANNOTATION) != self.measured_change.as_deref()
    }

    /// What may be done below the prefix of `object`, whose status this is. If more manifests were pushed than the
    /// annotation lists, nothing more can be pushed until the content was measured.
    pub fn access_to(&self, object: &Object, spec: &RegistrySpec) -> RegistryAccess {
        let pushed = object.annotation(REGISTRY_PUSHED_ANNOTATION).unwrap_or_default();
        let has_more = pushed.split_whitespace().any(|word| word == AND_MORE);
        let access = self.access_by_status(spec);
        if has_more && spec.storage().is_some() && self.awaits_measurement(object) {
            return access.min(RegistryAccess::Shrink);
        }
        access
    }

    /// What may be done below the prefix by the status alone. An object that is being deleted has the phase
    /// Terminating.
    fn access_by_status(&self, spec: &RegistrySpec) -> RegistryAccess {
        if self.registry.is_none() {
            return RegistryAccess::Nothing;
        }
        match self.phase {
            RegistryPhase::Pending | RegistryPhase::Failed => RegistryAccess::Nothing,
            RegistryPhase::Terminating | RegistryPhase::Locked => RegistryAccess::Read,
            RegistryPhase::Available if self.is_locked() => RegistryAccess::Read,
            RegistryPhase::Available if self.is_used_up(spec) => RegistryAccess::Shrink,
            // Otherwise content that is too large to be measured could grow without limit.
            RegistryPhase::Available if spec.storage().is_some() && self.unmeasurable_reason().is_some() => {
                RegistryAccess::Shrink
            }
            RegistryPhase::Available => RegistryAccess::Write,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn access(status: &serde_json::Value) -> RegistryAccess {
        let object = json!({"spec": {"hard": {STORAGE: "1Gi"}}, "status": status});
        let object = Object::new(object).unwrap();
        RegistryStatus::of(&object).unwrap().access_by_status(&RegistrySpec::of(&object).unwrap())
    }

    #[test]
    fn what_is_offered_follows_from_record_phase_lock_and_use() {
        let record = json!({"backend": "OCI", "provenance": "Made"});
        let of = |phase: &str, locked: bool, used: &str| {
            access(&json!({"phase": phase, "locked": locked, "registry": record, "used": {STORAGE: used}}))
        };
        assert_eq!(access(&json!({"phase": "Available"})), RegistryAccess::Nothing, "nothing is on record");
        assert_eq!(of("Pending", false, "0"), RegistryAccess::Nothing);
        assert_eq!(of("Available", false, "1073741823"), RegistryAccess::Write);
        assert_eq!(of("Available", false, "1Gi"), RegistryAccess::Shrink, "not a byte more");
        assert_eq!(of("Available", true, "0"), RegistryAccess::Read, "before the controller has seen it");
        assert_eq!(of("Locked", false, "2Gi"), RegistryAccess::Read);
        assert_eq!(of("Terminating", false, "0"), RegistryAccess::Read);
        assert_eq!(of("Failed", false, "0"), RegistryAccess::Nothing);
        let too_much = Condition::new(WITHIN_QUOTA, "Unknown", reason::CANNOT_BE_MEASURED, "too much");
        let beyond = json!({"phase": "Available", "registry": record, "conditions": [too_much]});
        assert_eq!(access(&beyond), RegistryAccess::Shrink, "nobody knows what is kept");
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
            RegistryStatus::of(&object).unwrap().access_to(&object, &RegistrySpec::of(&object).unwrap())
        };
        assert_eq!(of(STORAGE, "t/n@sha256:12 more", "1"), RegistryAccess::Shrink);
        assert_eq!(of(STORAGE, "t/n@sha256:12 more", "2"), RegistryAccess::Write, "it was measured");
        assert_eq!(of(STORAGE, "t/n@sha256:12", "1"), RegistryAccess::Write);
        assert_eq!(
            of(STORAGE, "t/n@sha256:12 1 t/n@sha256:34", "1"),
            RegistryAccess::Write,
            "a mark is no more"
        );
        assert_eq!(of("other", "more", "1"), RegistryAccess::Write, "it may keep what it likes");
    }
}

//! The kinds that can be imported, and candidates: objects that may be imported. Pure.

use super::finding::ImportFinding;
use super::record::ObjectRef;
use crate::kinds::StoredRow;
use business_types::names::{CONFIG_MAPS, NAMESPACES, PROJECTS};
use business_types::registry::REGISTRY_DOMAIN;
use business_types::{NamespaceSpec, ProjectSpec, config_map};
use meta::gvk::GroupVersionKind;
use meta::object::Object;
use meta::schema::Schema;
use std::collections::BTreeMap;
use store::quota::{Account, Claim};
use uuid::Uuid;

/// The field with the name of the parent.
pub const PARENT: &[&str] = &["spec", "parentProjectName"];
/// The field with the tenant.
pub const TENANT: &[&str] = &["spec", "tenantID"];

/// How objects of one kind are imported.
#[derive(Clone, Copy, Debug)]
pub struct ImportRow {
    /// Its plural, here and in TKE.
    pub plural: &'static str,
    /// Whether its objects lie in projects.
    pub namespaced: bool,
    /// Its group, version and kind.
    pub gvk: fn() -> GroupVersionKind,
    /// Its schema.
    pub schema: fn() -> Schema,
    /// Its finalizer in `spec.finalizers`; empty for a kind without one.
    pub finalizer: &'static str,
    /// Fields of the status that TKE computes. They are not taken over.
    pub computed: &'static [&'static str],
    /// Converts one object of TKE into one of ours, without regard to others. If it returns errors, the object is left
    /// out.
    pub convert: fn(&mut Candidate, &ConvertSettings, &mut Vec<ImportFinding>) -> Vec<String>,
}

/// A kind that can be imported and is served.
#[derive(Clone, Copy, Debug)]
pub struct ImportKind {
    /// How its objects are imported.
    pub row: &'static ImportRow,
    /// How it is stored.
    pub stored: &'static StoredRow,
    /// Its position in the order of the import.
    pub order: usize,
}

/// Settings of the conversion.
#[derive(Clone, Debug, Default)]
pub struct ConvertSettings {
    /// Names in a member cluster that no namespace may claim.
    pub forbidden: Vec<String>,
}

/// An object that may be imported.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Its name.
    pub object_ref: ObjectRef,
    /// Its kind.
    pub kind: ImportKind,
    /// Its uid.
    pub uid: Uuid,
    /// The converted object.
    pub object: Object,
    /// The fields of its status that TKE has computed. They are not taken over.
    pub computed: Object,
    /// Whether it is in the database already.
    pub is_present: bool,
}

impl Candidate {
    /// Its project's or parent's name; empty for a root.
    pub fn scope(&self) -> &str {
        if self.is(PROJECTS) { self.object.text(PARENT) } else { &self.object_ref.project }
    }

    /// Whether it is of this kind.
    pub fn is(&self, plural: &str) -> bool {
        self.kind.row.plural == plural
    }

    /// The tenant that owns it; empty for an object of nobody or of the platform.
    pub fn tenant(&self) -> &str {
        if self.is(CONFIG_MAPS) { config_map::tenant_of(&self.object) } else { self.object.text(TENANT) }
    }

    /// Its account in the ledger.
    pub fn account(&self, body: &str) -> Result<Account, serde_json::Error> {
        (self.kind.stored.account.reader())(body.as_bytes())
    }

    /// Its claims; none if it cannot be decoded.
    pub fn claims(&self) -> Vec<Claim> {
        let account = (self.kind.stored.account.reader())(self.object.to_stored().as_bytes()).ok();
        account.map(|account| account.claims).unwrap_or_default()
    }

    /// The resources that its spec limits, by member cluster.
    pub fn keys(&self) -> BTreeMap<String, Vec<String>> {
        if self.is(PROJECTS) {
            let spec = ProjectSpec::of(&self.object).unwrap_or_default();
            let of = |hard: &meta::quantity::ResourceList| hard.keys().cloned().collect();
            let clusters = spec.clusters.iter().filter(|(cluster, _)| *cluster != REGISTRY_DOMAIN);
            clusters.map(|(cluster, quota)| (cluster.clone(), of(&quota.hard))).collect()
        } else if self.is(NAMESPACES) {
            let spec = NamespaceSpec::of(&self.object).unwrap_or_default();
            BTreeMap::from([(spec.cluster_name, spec.hard.into_keys().collect())])
        } else {
            BTreeMap::new()
        }
    }
}

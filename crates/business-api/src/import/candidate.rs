//! What is imported: kinds, and objects that may come. Pure.

use super::finding::ImportFinding;
use super::record::Named;
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

/// The name of the parent.
pub const PARENT: &[&str] = &["spec", "parentProjectName"];
/// The tenant.
pub const TENANT: &[&str] = &["spec", "tenantID"];

/// How objects of one kind are imported.
#[derive(Clone, Copy, Debug)]
pub struct ImportRow {
    /// Its plural, here and in TKE.
    pub plural: &'static str,
    /// Whether its objects lie in projects.
    pub namespaced: bool,
    /// Its full name.
    pub gvk: fn() -> GroupVersionKind,
    /// Its shape.
    pub schema: fn() -> Schema,
    /// The token in its `spec.finalizers`; empty for a kind without one.
    pub finalizer: &'static str,
    /// Parts of the status that TKE computes, and that are not taken over.
    pub computed: &'static [&'static str],
    /// Changes one object into what it can be here, without regard to others. It returns what is still wrong; then the
    /// object is left out.
    pub mend: fn(&mut Candidate, &MendRules, &mut Vec<ImportFinding>) -> Vec<String>,
}

/// A kind that can be imported and is served.
#[derive(Clone, Copy, Debug)]
pub struct Importable {
    /// How.
    pub row: &'static ImportRow,
    /// Its place in the store.
    pub stored: &'static StoredRow,
    /// Its place in the order of the import.
    pub order: usize,
}

/// What the rules of one object depend on.
#[derive(Clone, Debug, Default)]
pub struct MendRules {
    /// Names in a member cluster that none may claim.
    pub forbidden: Vec<String>,
}

/// An object that may come.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Its name.
    pub named: Named,
    /// Its kind.
    pub kind: Importable,
    /// Its identity.
    pub uid: Uuid,
    /// What it is to be.
    pub object: Object,
    /// What TKE had computed of it: the parts of its status that are not taken over.
    pub computed: Object,
    /// It is in the database already.
    pub is_present: bool,
}

impl Candidate {
    /// Its project's or parent's name; empty for a root.
    pub fn scope(&self) -> &str {
        if self.is(PROJECTS) { self.object.text(PARENT) } else { &self.named.project }
    }

    /// Whether it is of this kind.
    pub fn is(&self, plural: &str) -> bool {
        self.kind.row.plural == plural
    }

    /// The tenant that owns it; empty for an object of nobody or of the platform.
    pub fn tenant(&self) -> &str {
        if self.is(CONFIG_MAPS) { config_map::tenant_of(&self.object) } else { self.object.text(TENANT) }
    }

    /// What it means to the ledger.
    pub fn account(&self, body: &str) -> Result<Account, serde_json::Error> {
        (self.kind.stored.account.reader())(body.as_bytes())
    }

    /// The places that it claims, if it can be read.
    pub fn claims(&self) -> Vec<Claim> {
        let account = (self.kind.stored.account.reader())(self.object.to_stored().as_bytes()).ok();
        account.map(|account| account.claims).unwrap_or_default()
    }

    /// The resources that it names, by member cluster.
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

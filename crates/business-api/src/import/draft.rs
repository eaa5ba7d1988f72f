//! Objects on their way into the plan. Pure.

use super::finding::{Finding, Rule};
use super::record::Named;
use super::rows::Importable;
use business_types::names::{CONFIG_MAPS, NAMESPACES, PROJECTS};
use business_types::registry::REGISTRY_DOMAIN;
use business_types::{NamespaceSpec, ProjectSpec, config_map};
use meta::object::Object;
use std::collections::BTreeMap;
use store::quota::Account;
use uuid::Uuid;

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

/// All objects that may come, and what was found.
#[derive(Debug, Default)]
pub struct Draft {
    /// The objects.
    pub candidates: Vec<Candidate>,
    /// What was found of these and of others.
    pub findings: Vec<Finding>,
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

    /// The tenant that owns it; empty for what nobody or the platform owns.
    pub fn tenant(&self) -> &str {
        if self.is(CONFIG_MAPS) { config_map::tenant_of(&self.object) } else { self.object.text(TENANT) }
    }

    /// What it means to the ledger.
    pub fn account(&self, body: &str) -> Result<Account, serde_json::Error> {
        match self.kind.stored.account {
            Some(read) => read(body.as_bytes()),
            None => Ok(Account { tenant: self.tenant().to_owned(), ..Account::default() }),
        }
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

/// The name of the parent.
pub const PARENT: &[&str] = &["spec", "parentProjectName"];
/// The tenant.
pub const TENANT: &[&str] = &["spec", "tenantID"];

impl Draft {
    /// Says something of an object.
    pub fn find(&mut self, rule: Rule, named: &Named, why: impl Into<String>) {
        self.findings.push(Finding::new(rule, named, why));
    }

    /// Leaves objects out of which something is wrong.
    pub fn leave_out(&mut self, rule: Rule, mut wrong: impl FnMut(&Candidate) -> Option<String>) {
        let findings = &mut self.findings;
        self.candidates.retain(|candidate| match wrong(candidate) {
            Some(why) => {
                findings.push(Finding::new(rule, &candidate.named, why));
                false
            }
            None => true,
        });
    }

    /// Places of the projects among the candidates, by name.
    pub fn projects(&self) -> BTreeMap<String, usize> {
        let projects = self.candidates.iter().enumerate().filter(|(_, candidate)| candidate.is(PROJECTS));
        projects.map(|(at, candidate)| (candidate.named.name.clone(), at)).collect()
    }

    /// How many projects stand above each project. Circles must be cut before.
    pub fn depths(&self) -> BTreeMap<String, usize> {
        let projects = self.projects();
        let above = |name: &str| {
            let at = projects.get(name)?;
            self.candidates.get(*at).map(Candidate::scope).filter(|parent| !parent.is_empty())
        };
        let depth = |name: &String| {
            std::iter::successors(above(name), |parent| above(parent)).take(projects.len()).count()
        };
        projects.keys().map(|name| (name.clone(), depth(name))).collect()
    }
}

//! What the projects say before the member clusters are looked at.

use crate::business::Business;
use crate::error::Failure;
use crate::kinds::ObjectKey as _;
use crate::project::kind::{BusinessProject, ProjectView};
use business_types::{Orphan, ProjectStatus};
use std::collections::BTreeMap;

/// All projects at one revision, as far as the audit needs them.
#[derive(Debug, Default)]
pub struct Survey {
    /// The revision.
    pub revision: u64,
    projects: BTreeMap<String, Said>,
}

#[derive(Debug)]
struct Said {
    orphans: Vec<Orphan>,
    /// Places that something is held for: cluster and namespace.
    places: Vec<(String, String)>,
}

impl Said {
    fn of(status: ProjectStatus) -> Self {
        let places = status.ledger.held.into_iter().map(|held| (held.cluster_name, held.namespace));
        Self { orphans: status.orphans, places: places.collect() }
    }
}

impl Survey {
    pub async fn make(business: &Business) -> Result<Self, Failure> {
        let mut projects = BTreeMap::new();
        let take = |project: ProjectView| {
            projects.insert(project.key.name().to_owned(), Said::of(project.status));
        };
        let revision = business.each::<BusinessProject>(take).await?;
        Ok(Self { revision, projects })
    }

    /// The name of a project, if there is one of that name.
    pub fn name_of(&self, project: &str) -> Option<&str> {
        self.projects.get_key_value(project).map(|(name, _)| name.as_str())
    }

    /// Namespaces of a member cluster that something is held for.
    pub fn held_in<'a>(&'a self, cluster: &'a str) -> impl Iterator<Item = &'a str> {
        let places = self.projects.values().flat_map(|said| &said.places);
        places.filter(move |(name, _)| name == cluster).map(|(_, namespace)| namespace.as_str())
    }

    /// The project that something at a place is held against.
    pub fn holder(&self, cluster: &str, namespace: &str) -> Option<&str> {
        let at = |said: &Said| said.places.iter().any(|(c, n)| c == cluster && n == namespace);
        self.projects.iter().find(|(_, said)| at(said)).map(|(name, _)| name.as_str())
    }

    /// Projects whose status names orphans.
    pub fn telling(&self) -> impl Iterator<Item = (&str, &[Orphan])> {
        let telling = self.projects.iter().filter(|(_, said)| !said.orphans.is_empty());
        telling.map(|(name, said)| (name.as_str(), said.orphans.as_slice()))
    }

    /// The orphans that a project's status names.
    pub fn told(&self, project: &str) -> &[Orphan] {
        self.projects.get(project).map(|said| said.orphans.as_slice()).unwrap_or_default()
    }
}

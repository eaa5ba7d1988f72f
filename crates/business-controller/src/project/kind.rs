//! The kind of projects: its index and cache look-ups.

use crate::cache::{Cache, Views};
use crate::kinds::{Kind, RootKey, View, ViewChange, ViewIndex};
use crate::throttle::StatusThrottle;
use business_types::{ProjectSpec, ProjectStatus, names};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BusinessProject;

pub type ProjectView = View<BusinessProject>;

impl Kind for BusinessProject {
    const KIND: &'static str = names::PROJECT_KIND;
    const PLURAL: &'static str = names::PROJECTS;
    type Spec = ProjectSpec;
    type Status = ProjectStatus;
    type Key = RootKey;
    type Index = ProjectTree;
    type Memory = StatusThrottle;
    const KEEPS_METADATA: bool = true;
}

/// Child projects by parent, and all projects by tenant.
#[derive(Debug, Default)]
pub struct ProjectTree {
    children: KeyIndex,
    tenants: KeyIndex,
}

/// Keys of projects by an indexed value.
#[derive(Debug, Default)]
struct KeyIndex(BTreeMap<String, BTreeSet<RootKey>>);

impl ViewIndex<BusinessProject> for ProjectTree {
    fn follow(&mut self, change: &ViewChange<BusinessProject>) {
        self.children.follow(change, |view| &view.spec.parent_project_name);
        self.tenants.follow(change, |view| &view.spec.tenant_id);
    }
}

impl KeyIndex {
    fn follow(&mut self, change: &ViewChange<BusinessProject>, group: impl Fn(&ProjectView) -> &String) {
        let (old, new) = (change.old.as_deref().map(&group), change.new.as_deref().map(&group));
        if old == new {
            return;
        }
        let Some(view) = change.new.as_ref().or(change.old.as_ref()) else { return };
        if let Some(old) = old
            && let Some(members) = self.0.get_mut(old)
        {
            members.remove(&view.key);
            if members.is_empty() {
                self.0.remove(old);
            }
        }
        if let Some(new) = new.filter(|name| !name.is_empty()) {
            self.0.entry(new.clone()).or_default().insert(view.key.clone());
        }
    }

    fn of(&self, name: &str, views: &Views<BusinessProject>) -> Vec<Arc<ProjectView>> {
        let keys = self.0.get(name).into_iter().flatten();
        keys.filter_map(|key| views.get(key).cloned()).collect()
    }
}

impl Cache<BusinessProject> {
    /// The direct child projects of a project, sorted by name.
    pub fn children_of(&self, project: &str) -> Vec<Arc<ProjectView>> {
        self.with_index(|views, tree| tree.children.of(project, views))
    }

    /// All projects of a tenant, sorted by name.
    pub fn of_tenant(&self, tenant: &str) -> Vec<Arc<ProjectView>> {
        self.with_index(|views, tree| tree.tenants.of(tenant, views))
    }
}

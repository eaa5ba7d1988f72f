//! What a project is to the controller.

use super::figures::Figures;
use crate::cache::Cache;
use crate::kinds::{Kind, RootKey, View, ViewChange, ViewIndex};
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
    type Index = ChildProjects;
    type Memory = Figures;
}

/// Child projects by their parent.
#[derive(Debug, Default)]
pub struct ChildProjects(BTreeMap<String, BTreeSet<RootKey>>);

impl ViewIndex<BusinessProject> for ChildProjects {
    fn follow(&mut self, change: &ViewChange<BusinessProject>) {
        let parent = |view: &Arc<ProjectView>| view.spec.parent_project_name.clone();
        let (old, new) = (change.old.as_ref().map(parent), change.new.as_ref().map(parent));
        if old == new {
            return;
        }
        let Some(view) = change.new.as_ref().or(change.old.as_ref()) else { return };
        if let Some(old) = old
            && let Some(children) = self.0.get_mut(&old)
        {
            children.remove(&view.key);
            if children.is_empty() {
                self.0.remove(&old);
            }
        }
        if let Some(new) = new.filter(|parent| !parent.is_empty()) {
            self.0.entry(new).or_default().insert(view.key.clone());
        }
    }
}

impl Cache<BusinessProject> {
    /// The direct child projects of a project, sorted by name.
    pub fn children_of(&self, project: &str) -> Vec<Arc<ProjectView>> {
        self.look(|views, children| {
            let keys = children.0.get(project).into_iter().flatten();
            keys.filter_map(|key| views.get(key).cloned()).collect()
        })
    }
}

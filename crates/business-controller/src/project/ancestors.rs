//! The projects above a project, and those below it.

use super::kind::{BusinessProject, ProjectView};
use crate::cache::Cache;
use crate::kinds::{ObjectKey as _, RootKey};
use business_types::project::LEVELS_MAX;
use std::collections::HashSet;
use std::sync::Arc;

/// A project and its ancestors, the nearest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AncestorChain {
    pub projects: Vec<Arc<ProjectView>>,
    pub end: ChainEnd,
}

/// Where an ancestor chain ends.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum ChainEnd {
    /// At a project without a parent.
    #[default]
    Root,
    /// At this parent, which does not exist or belongs to another tenant.
    Missing(String),
    /// At this parent, which is in the chain already.
    Cycle(String),
    /// At the maximal number of levels.
    TooDeep,
}

/// How far the cache knows the chain.
pub(super) enum ChainStep {
    Complete(ChainEnd),
    /// This parent is not in the cache.
    NotCached(String),
}

impl AncestorChain {
    pub(super) fn tenant(&self) -> &str {
        self.projects.first().map(|project| project.spec.tenant_id.as_str()).unwrap_or_default()
    }

    /// Adds the parents that are cached.
    pub(super) fn extend(&mut self, cached: impl Fn(&RootKey) -> Option<Arc<ProjectView>>) -> ChainStep {
        loop {
            let parent = self.projects.last().map(|last| last.spec.parent_project_name.as_str());
            let parent = parent.unwrap_or_default();
            if parent.is_empty() {
                return ChainStep::Complete(ChainEnd::Root);
            }
            if self.projects.iter().any(|passed| passed.key.name() == parent) {
                return ChainStep::Complete(ChainEnd::Cycle(parent.to_owned()));
            }
            if self.projects.len() >= LEVELS_MAX {
                return ChainStep::Complete(ChainEnd::TooDeep);
            }
            match cached(&RootKey::new(None, parent)) {
                Some(found) if found.spec.tenant_id == self.tenant() => self.projects.push(found),
                Some(_) => return ChainStep::Complete(ChainEnd::Missing(parent.to_owned())),
                None => return ChainStep::NotCached(parent.to_owned()),
            }
        }
    }
}

impl Cache<BusinessProject> {
    /// The names of a project and of all projects below it, each once.
    pub fn subtree(&self, project: &str) -> Vec<String> {
        let mut names = vec![project.to_owned()];
        let mut known = HashSet::from([project.to_owned()]);
        let mut next = 0;
        while let Some(name) = names.get(next).cloned() {
            next += 1;
            for child in self.children_of(&name) {
                if known.insert(child.key.name().to_owned()) {
                    names.push(child.key.name().to_owned());
                }
            }
        }
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::ChangeSource;
    use business_types::ProjectSpec;

    fn project(name: &str, parent: &str, tenant: &str) -> ProjectView {
        ProjectView {
            key: RootKey::new(None, name),
            uid: name.into(),
            resource_version: "1".into(),
            spec: ProjectSpec {
                parent_project_name: parent.into(),
                tenant_id: tenant.into(),
                ..ProjectSpec::default()
            },
            ..ProjectView::default()
        }
    }

    fn up(views: &[ProjectView]) -> (Vec<String>, String) {
        let mut chain = AncestorChain { projects: vec![Arc::new(views[0].clone())], end: ChainEnd::Root };
        let known = |key: &RootKey| views.iter().find(|view| view.key == *key).cloned().map(Arc::new);
        let end = match chain.extend(known) {
            ChainStep::Complete(end) => format!("{end:?}"),
            ChainStep::NotCached(parent) => format!("NotCached {parent}"),
        };
        (chain.projects.iter().map(|project| project.key.name().to_owned()).collect(), end)
    }

    #[test]
    fn the_way_up_ends_whatever_the_parents_say() {
        let line = [project("a", "b", "t"), project("b", "c", "t"), project("c", "", "t")];
        assert_eq!(up(&line), (vec!["a".into(), "b".into(), "c".into()], "Root".into()));
        let circle = [project("a", "b", "t"), project("b", "c", "t"), project("c", "b", "t")];
        assert_eq!(up(&circle).1, "Cycle(\"b\")");
        assert_eq!(up(&[project("a", "a", "t")]).1, "Cycle(\"a\")");
        assert_eq!(up(&line[..2]).1, "NotCached c");
        let foreign = [project("a", "b", "t"), project("b", "", "u")];
        assert_eq!(up(&foreign), (vec!["a".into()], "Missing(\"b\")".into()));
        let names: Vec<String> = (0..=LEVELS_MAX).map(|level| format!("p{level}")).collect();
        let deep: Vec<ProjectView> = names.windows(2).map(|pair| project(&pair[0], &pair[1], "t")).collect();
        assert_eq!((up(&deep).0.len(), up(&deep).1), (LEVELS_MAX, "TooDeep".into()));
    }

    #[test]
    fn a_subtree_is_walked_once_although_its_projects_form_a_circle() {
        let cache = Cache::<BusinessProject>::default();
        for (name, parent) in [("a", "c"), ("b", "a"), ("c", "b"), ("d", "a"), ("other", "")] {
            cache.upsert(project(name, parent, "t"), ChangeSource::WatchEvent);
        }
        assert_eq!(cache.subtree("a"), ["a", "b", "d", "c"]);
        assert_eq!(cache.subtree("d"), ["d"]);
        assert_eq!(cache.subtree("nobody"), ["nobody"]);
    }
}

//! Resolves the template of a namespace: its project's, else that of the nearest ancestor, else its tenant's, else the
//! default.

use super::kind::CurrentTemplate;
use crate::context::Context;
use crate::kinds::{ObjectKey as _, RootKey};
use crate::project::kind::ProjectView;
use business_types::project::LEVELS_MAX;
use std::sync::Arc;

/// The template of a project's namespaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResolvedTemplate {
    /// Nobody names one, and there is no default.
    None,
    Template(CurrentTemplate),
    /// A template of this name does not exist.
    NotFound(String),
}

impl ResolvedTemplate {
    pub fn is_template(&self, template: &RootKey) -> bool {
        matches!(self, Self::Template(current) if current.view.key == *template)
    }
}

/// The template of the namespaces of this project.
pub fn of_project(cx: &Context, project: &ProjectView) -> ResolvedTemplate {
    let templates = &cx.objects.namespace_templates;
    let named = |name: &str| match templates.current(&RootKey::new(None, name)) {
        Some(current) => ResolvedTemplate::Template(current),
        None => ResolvedTemplate::NotFound(name.to_owned()),
    };
    if let Some(name) = nearest_name(project, |key| cx.objects.projects.get(key)) {
        return named(&name);
    }
    let tenant = cx.objects.tenants.get(&RootKey::new(None, &project.spec.tenant_id));
    if let Some(tenant) = tenant.filter(|tenant| !tenant.spec.template.is_empty()) {
        return named(&tenant.spec.template);
    }
    match templates.default_key().and_then(|key| templates.current(&key)) {
        Some(current) => ResolvedTemplate::Template(current),
        None => ResolvedTemplate::None,
    }
}

/// The name of the template that the nearest project names, of this one and those above it in its tenant.
fn nearest_name(
    project: &ProjectView,
    cached: impl Fn(&RootKey) -> Option<Arc<ProjectView>>,
) -> Option<String> {
    let mut above: Option<Arc<ProjectView>> = None;
    // The project and all levels that there can be above it. A cycle ends there, too.
    for _ in 0..=LEVELS_MAX {
        let here = above.as_deref().unwrap_or(project);
        if !here.spec.template.is_empty() {
            return Some(here.spec.template.clone());
        }
        let parent = cached(&RootKey::new(None, &here.spec.parent_project_name))?;
        if parent.spec.tenant_id != project.spec.tenant_id {
            return None;
        }
        above = Some(parent);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use business_types::ProjectSpec;

    fn project(name: &str, parent: &str, tenant: &str, template: &str) -> ProjectView {
        ProjectView {
            key: RootKey::new(None, name),
            spec: ProjectSpec {
                parent_project_name: parent.into(),
                tenant_id: tenant.into(),
                template: template.into(),
                ..ProjectSpec::default()
            },
            ..ProjectView::default()
        }
    }

    fn nearest(views: &[ProjectView]) -> Option<String> {
        nearest_name(&views[0], |key| views.iter().find(|view| view.key == *key).cloned().map(Arc::new))
    }

    #[test]
    fn the_template_of_the_farthest_project_above_counts_but_none_of_another_tenant() {
        let name = |level: usize| format!("p{level}");
        let mut deep: Vec<ProjectView> =
            (0..LEVELS_MAX).map(|level| project(&name(level), &name(level + 1), "t", "")).collect();
        deep.push(project(&name(LEVELS_MAX), "", "t", "far"));
        assert_eq!(nearest(&deep).as_deref(), Some("far"));
        let near = [project("a", "b", "t", ""), project("b", "c", "t", "near"), project("c", "", "t", "far")];
        assert_eq!(nearest(&near).as_deref(), Some("near"));
        let foreign = [project("a", "b", "t", ""), project("b", "", "u", "theirs")];
        assert_eq!(nearest(&foreign), None);
        let circle = [project("a", "b", "t", ""), project("b", "a", "t", "")];
        assert_eq!(nearest(&circle), None);
    }
}

//! Resolves the template of a namespace: its project's, else that of the nearest ancestor, else its tenant's, else the
//! default.

use super::kind::CurrentTemplate;
use crate::context::Context;
use crate::kinds::{ObjectKey as _, RootKey};
use crate::project::kind::ProjectView;
use std::sync::Arc;

/// The maximal number of projects that are followed, so that a cycle ends.
const DEPTH_MAX: usize = 64;

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
    let mut above: Option<Arc<ProjectView>> = None;
    for _ in 0..DEPTH_MAX {
        let here = above.as_deref().unwrap_or(project);
        if !here.spec.template.is_empty() {
            return named(&here.spec.template);
        }
        let Some(parent) = cx.objects.projects.get(&RootKey::new(None, &here.spec.parent_project_name))
        else {
            break;
        };
        above = Some(parent);
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

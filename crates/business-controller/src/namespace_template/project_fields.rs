//! The fields that templates take from the project of a namespace.

use crate::kinds::ObjectKey as _;
use crate::project::kind::ProjectView;
use business_types::{NamespaceTemplateSpec, ProjectField};

/// The value of a field of the project.
pub fn value<'a>(field: &ProjectField, project: &'a ProjectView) -> Option<&'a str> {
    match field {
        ProjectField::Name => Some(project.key.name()),
        ProjectField::DisplayName => Some(&project.spec.display_name),
        ProjectField::TenantId => Some(&project.spec.tenant_id),
        ProjectField::Label(key) => project.labels.get(key).map(String::as_str),
        ProjectField::Annotation(key) => project.annotations.get(key).map(String::as_str),
    }
}

/// Whether any field that this template takes has changed.
pub fn differs(template: &NamespaceTemplateSpec, old: &ProjectView, new: &ProjectView) -> bool {
    let paths = template.labels_from_project.values().chain(template.annotations_from_project.values());
    let mut fields = paths.filter_map(|path| ProjectField::parse(path));
    fields.any(|field| value(&field, old) != value(&field, new))
}

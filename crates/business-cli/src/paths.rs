//! Where things are in the API.

use crate::api::segment;
use business_types::names::{self, API_VERSION};

fn root() -> String {
    format!("/apis/{API_VERSION}")
}

/// A collection at cluster scope, or all objects of a namespaced kind.
pub(crate) fn all(plural: &str) -> String {
    format!("{}/{plural}", root())
}

/// An object at cluster scope.
pub(crate) fn named(plural: &str, name: &str) -> String {
    format!("{}/{plural}/{}", root(), segment(name))
}

/// The namespaces of a project.
pub(crate) fn namespaces_of(project: &str) -> String {
    format!("{}/namespaces/{}/namespaces", root(), segment(project))
}

/// A namespace of a project.
pub(crate) fn namespace(project: &str, name: &str) -> String {
    within(project, names::NAMESPACES, name)
}

/// An object in a project.
pub(crate) fn within(project: &str, plural: &str, name: &str) -> String {
    format!("{}/namespaces/{}/{plural}/{}", root(), segment(project), segment(name))
}

/// What everything in a project begins with.
pub(crate) fn in_project(project: &str) -> String {
    format!("{}/namespaces/{}/", root(), segment(project))
}

/// The same as a rehearsal.
pub(crate) fn rehearsed(path: &str) -> String {
    format!("{path}?dryRun=All")
}

/// The same, as a rehearsal where it is not meant seriously.
pub(crate) fn rehearsed_if(path: String, dry_run: bool) -> String {
    if dry_run { rehearsed(&path) } else { path }
}

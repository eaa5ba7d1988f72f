//! Where things are in the API.

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

/// A name as a part of a path.
pub(crate) fn segment(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let each = name
        .bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") });
    each.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_leave_its_place_in_a_path() {
        assert_eq!(segment("c1-web"), "c1-web");
        assert_eq!(segment("../x?y=1#z"), "..%2Fx%3Fy%3D1%23z");
        assert_eq!(segment("é"), "%C3%A9");
    }
}

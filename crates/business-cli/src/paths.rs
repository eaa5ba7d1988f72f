//! Paths of the API, and the address of its server.

use business_types::names::{self, API_VERSION};
use kube::Config;

/// The address of a server.
pub(crate) fn server_of(config: &Config) -> String {
    config.cluster_url.to_string().trim_end_matches('/').to_owned()
}

fn root() -> String {
    format!("/apis/{API_VERSION}")
}

/// A collection at cluster scope, or all objects of a namespaced kind.
pub(crate) fn collection(plural: &str) -> String {
    format!("{}/{plural}", root())
}

/// An object at cluster scope.
pub(crate) fn object(plural: &str, name: &str) -> String {
    format!("{}/{plural}/{}", root(), escape_segment(name))
}

/// The namespaces of a project.
pub(crate) fn namespaces_of(project: &str) -> String {
    format!("{}/namespaces/{}/namespaces", root(), escape_segment(project))
}

/// A namespace of a project.
pub(crate) fn namespace(project: &str, name: &str) -> String {
    project_object(project, names::NAMESPACES, name)
}

/// An object in a project.
pub(crate) fn project_object(project: &str, plural: &str, name: &str) -> String {
    format!("{}/namespaces/{}/{plural}/{}", root(), escape_segment(project), escape_segment(name))
}

/// The prefix of the paths of all objects in a project.
pub(crate) fn project_prefix(project: &str) -> String {
    format!("{}/namespaces/{}/", root(), escape_segment(project))
}

/// The path with the query of a dry run.
pub(crate) fn dry_run(path: &str) -> String {
    format!("{path}?dryRun=All")
}

/// The path, with the query of a dry run if it is one.
pub(crate) fn with_dry_run(path: String, dry_run: bool) -> String {
    if dry_run { self::dry_run(&path) } else { path }
}

/// Percent-encodes a name as one segment of a path.
pub(crate) fn escape_segment(name: &str) -> String {
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
        assert_eq!(escape_segment("c1-web"), "c1-web");
        assert_eq!(escape_segment("../x?y=1#z"), "..%2Fx%3Fy%3D1%23z");
        assert_eq!(escape_segment("é"), "%C3%A9");
    }
}

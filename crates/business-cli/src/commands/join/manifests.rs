use super::text;
use crate::api::Api;
use crate::failure::Failure;
use crate::paths::escape_segment;
use crate::screen::note;
use serde::Deserialize as _;
use serde_json::Value;

const MEMBER: [&str; 6] = [
    include_str!("../../../../../deploy/member/member.yaml"),
    include_str!("../../../../../deploy/member/roles.yaml"),
    include_str!("../../../../../deploy/member/signer.yaml"),
    include_str!("../../../../../deploy/member/policies.yaml"),
    include_str!("../../../../../deploy/member/templates.yaml"),
    include_str!("../../../../../deploy/member/pull-secrets.yaml"),
];
const CAPACITY: &str = include_str!("../../../../../deploy/member-capacity/rights.yaml");
/// Policy and binding that deploy/member-shared leaves out.
const NOT_SHARED: &str = "business-confine-people";
/// The path of that binding, which an earlier join without --shared has applied.
const NOT_SHARED_BINDING: &str =
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/business-confine-people";
/// Name prefix of the roles for people.
const USER_ROLE_PREFIX: &str = "business:";
const AGGREGATED: &str = "aggregationRule";

/// Which manifests are applied.
#[derive(Clone, Copy, Debug)]
pub(super) struct ManifestSelection {
    pub(super) shared: bool,
    pub(super) capacity: bool,
}

/// The API resource of a kind.
pub(super) struct ApiResource {
    kind: &'static str,
    /// The API group; empty for the core.
    pub(super) group: &'static str,
    pub(super) plural: &'static str,
    namespaced: bool,
}

const API_RESOURCES: [ApiResource; 7] = [
    ApiResource { kind: "Namespace", group: "", plural: "namespaces", namespaced: false },
    ApiResource { kind: "ServiceAccount", group: "", plural: "serviceaccounts", namespaced: true },
    ApiResource { kind: "ClusterRole", group: RBAC, plural: "clusterroles", namespaced: false },
    ApiResource { kind: "ClusterRoleBinding", group: RBAC, plural: "clusterrolebindings", namespaced: false },
    ApiResource { kind: "Deployment", group: "apps", plural: "deployments", namespaced: true },
    ApiResource {
        kind: "ValidatingAdmissionPolicy",
        group: ADMISSION,
        plural: "validatingadmissionpolicies",
        namespaced: false,
    },
    ApiResource {
        kind: "ValidatingAdmissionPolicyBinding",
        group: ADMISSION,
        plural: "validatingadmissionpolicybindings",
        namespaced: false,
    },
];
pub(super) const RBAC: &str = "rbac.authorization.k8s.io";
pub(super) const ADMISSION: &str = "admissionregistration.k8s.io";

/// The objects for a member cluster, in the order of applying.
pub(super) fn select(selection: ManifestSelection) -> Result<Vec<Value>, Failure> {
    let mut objects = Vec::new();
    for manifest in MEMBER.into_iter().chain(selection.capacity.then_some(CAPACITY)) {
        objects.extend(parse(manifest)?);
    }
    objects.retain(|object| !(selection.shared && text(object, "/metadata/name") == NOT_SHARED));
    Ok(objects)
}

/// Leaves out the roles for people that the cluster has changed, and prints them: its administrators decide what people
/// may do in it.
pub(super) async fn leave_changed_roles(member: &Api, objects: &mut Vec<Value>) -> Result<(), Failure> {
    let mut changed = Vec::new();
    for ours in objects.iter().filter(|object| is_user_role(object)) {
        let found: Option<Value> = member.find(&path(ours)?).await?;
        if found.is_some_and(|found| found.get(AGGREGATED) != ours.get(AGGREGATED)) {
            changed.push(text(ours, "/metadata/name").to_owned());
        }
    }
    if changed.is_empty() {
        return Ok(());
    }
    objects.retain(|object| {
        !is_user_role(object) || changed.iter().all(|name| name != text(object, "/metadata/name"))
    });
    note(format_args!(
        "somebody has made roles of people others there than deploy/member says, and they stay so: {}",
        changed.join(", ")
    ));
    Ok(())
}

/// Whether it is a role for people: an aggregated `ClusterRole`, whose rules a controller of the cluster fills in.
fn is_user_role(object: &Value) -> bool {
    text(object, "/kind") == "ClusterRole"
        && text(object, "/metadata/name").starts_with(USER_ROLE_PREFIX)
        && object.get(AGGREGATED).is_some()
}

/// Applies the objects. For a shared cluster it deletes the binding that an earlier join without --shared has applied.
pub(super) async fn apply(member: &Api, objects: &[Value], shared: bool) -> Result<(), Failure> {
    for object in objects {
        member.apply(&path(object)?, object).await?;
    }
    if !shared {
        return Ok(());
    }
    match member.delete(NOT_SHARED_BINDING).await {
        Err(failure) if !failure.is_not_found() => Err(failure),
        _ => Ok(()),
    }
}

/// The objects of a manifest.
pub(super) fn parse(manifest: &str) -> Result<Vec<Value>, Failure> {
    let documents = serde_yaml_ng::Deserializer::from_str(manifest).map(Value::deserialize);
    let objects = documents.filter(|object| !matches!(object, Ok(Value::Null)));
    objects.collect::<Result<_, _>>().map_err(|error| Failure::Other(error.to_string()))
}

/// The API resource of an object.
pub(super) fn api_resource(object: &Value) -> Result<&'static ApiResource, Failure> {
    let kind = text(object, "/kind");
    let found = API_RESOURCES.iter().find(|resource| resource.kind == kind);
    found.ok_or_else(|| Failure::Other(format!("nothing is known of the kind {kind}")))
}

/// The path of an object.
pub(super) fn path(object: &Value) -> Result<String, Failure> {
    let resource = api_resource(object)?;
    let root = if resource.group.is_empty() { "/api" } else { "/apis" };
    let version = text(object, "/apiVersion");
    let namespace = escape_segment(text(object, "/metadata/namespace"));
    let namespace = if resource.namespaced { format!("/namespaces/{namespace}") } else { String::new() };
    Ok(format!(
        "{root}/{version}{namespace}/{}/{}",
        resource.plural,
        escape_segment(text(object, "/metadata/name"))
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_manifest_has_its_place() {
        for shared in [false, true] {
            let objects = select(ManifestSelection { shared, capacity: true }).unwrap();
            let paths: Vec<String> = objects.iter().map(|object| path(object).unwrap()).collect();
            assert!(paths.contains(&"/api/v1/namespaces/tke-business".to_owned()), "{paths:?}");
            assert!(
                paths.contains(&"/api/v1/namespaces/tke-business/serviceaccounts/business-member".to_owned())
            );
            let confined = paths.iter().filter(|path| path.ends_with("/business-confine-people")).count();
            assert_eq!(confined, if shared { 0 } else { 2 });
            let distinct: std::collections::BTreeSet<&String> = paths.iter().collect();
            assert_eq!(distinct.len(), paths.len());
        }
    }

    #[test]
    fn the_roles_that_people_may_change_are_those_that_people_have() {
        let objects = select(ManifestSelection { shared: false, capacity: true }).unwrap();
        let roles = objects.iter().filter(|object| is_user_role(object));
        let names: Vec<&str> = roles.map(|role| text(role, "/metadata/name")).collect();
        assert_eq!(names, ["business:admin", "business:edit", "business:view", "business:offered:view"]);
    }

    #[test]
    fn what_a_shared_cluster_is_not_to_have_is_in_the_folder() {
        let objects = select(ManifestSelection { shared: false, capacity: false }).unwrap();
        assert!(objects.iter().any(|object| path(object).unwrap() == NOT_SHARED_BINDING));
    }

    /// What `kubectl apply -k deploy/member` applies, `join` applies.
    #[test]
    fn no_manifest_of_the_folder_is_left_out() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/member/kustomization.yaml");
        let kustomization: Value =
            serde_yaml_ng::from_str(&std::fs::read_to_string(folder).unwrap()).unwrap();
        assert_eq!(kustomization["resources"].as_array().unwrap().len(), MEMBER.len());
    }
}

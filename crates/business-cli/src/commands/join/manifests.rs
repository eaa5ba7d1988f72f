use super::text;
use crate::api::Api;
use crate::failure::Failure;
use crate::paths::segment;
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
/// Where that binding is, in a cluster that was joined otherwise before.
const NOT_SHARED_BINDING: &str =
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/business-confine-people";
/// With what the names of roles of people begin.
const OF_PEOPLE: &str = "business:";
const AGGREGATED: &str = "aggregationRule";

/// Which of the manifests.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice {
    pub(super) shared: bool,
    pub(super) capacity: bool,
}

/// Where objects of a kind are.
pub(super) struct KindPlace {
    kind: &'static str,
    /// The API group; empty for the core.
    pub(super) group: &'static str,
    pub(super) plural: &'static str,
    namespaced: bool,
}

const PLACES: [KindPlace; 7] = [
    KindPlace { kind: "Namespace", group: "", plural: "namespaces", namespaced: false },
    KindPlace { kind: "ServiceAccount", group: "", plural: "serviceaccounts", namespaced: true },
    KindPlace { kind: "ClusterRole", group: RBAC, plural: "clusterroles", namespaced: false },
    KindPlace { kind: "ClusterRoleBinding", group: RBAC, plural: "clusterrolebindings", namespaced: false },
    KindPlace { kind: "Deployment", group: "apps", plural: "deployments", namespaced: true },
    KindPlace {
        kind: "ValidatingAdmissionPolicy",
        group: ADMISSION,
        plural: "validatingadmissionpolicies",
        namespaced: false,
    },
    KindPlace {
        kind: "ValidatingAdmissionPolicyBinding",
        group: ADMISSION,
        plural: "validatingadmissionpolicybindings",
        namespaced: false,
    },
];
pub(super) const RBAC: &str = "rbac.authorization.k8s.io";
pub(super) const ADMISSION: &str = "admissionregistration.k8s.io";

/// The objects that a member cluster gets, in their order.
pub(super) fn chosen(choice: Choice) -> Result<Vec<Value>, Failure> {
    let mut objects = Vec::new();
    for manifest in MEMBER.into_iter().chain(choice.capacity.then_some(CAPACITY)) {
        objects.extend(parsed(manifest)?);
    }
    objects.retain(|object| !(choice.shared && text(object, "/metadata/name") == NOT_SHARED));
    Ok(objects)
}

/// Leaves out the people's roles that the cluster has changed: its administrators decide what people may do in it. The
/// roles are reported.
pub(super) async fn leave_changed_roles(member: &Api, objects: &mut Vec<Value>) -> Result<(), Failure> {
    let mut changed = Vec::new();
    for ours in objects.iter().filter(|object| is_role_of_people(object)) {
        let found: Option<Value> = member.find(&path(ours)?).await?;
        if found.is_some_and(|found| found.get(AGGREGATED) != ours.get(AGGREGATED)) {
            changed.push(text(ours, "/metadata/name").to_owned());
        }
    }
    if changed.is_empty() {
        return Ok(());
    }
    objects.retain(|object| {
        !is_role_of_people(object) || changed.iter().all(|name| name != text(object, "/metadata/name"))
    });
    note(format_args!(
        "somebody has made roles of people others there than deploy/member says, and they stay so: {}",
        changed.join(", ")
    ));
    Ok(())
}

/// A controller of the cluster writes the rules of such a role. The selectors that it is made from are ours or somebody
/// else's.
fn is_role_of_people(object: &Value) -> bool {
    text(object, "/kind") == "ClusterRole"
        && text(object, "/metadata/name").starts_with(OF_PEOPLE)
        && object.get(AGGREGATED).is_some()
}

/// Applies the objects. In a cluster that was joined in another way before, it removes what would forbid what is
/// wanted.
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
pub(super) fn parsed(manifest: &str) -> Result<Vec<Value>, Failure> {
    let documents = serde_yaml_ng::Deserializer::from_str(manifest).map(Value::deserialize);
    let objects = documents.filter(|object| !matches!(object, Ok(Value::Null)));
    objects.collect::<Result<_, _>>().map_err(|error| Failure::Stopped(error.to_string()))
}

/// Where objects of this one's kind are.
pub(super) fn place(object: &Value) -> Result<&'static KindPlace, Failure> {
    let kind = text(object, "/kind");
    let found = PLACES.iter().find(|place| place.kind == kind);
    found.ok_or_else(|| Failure::Stopped(format!("nothing is known of the kind {kind}")))
}

/// The path of an object.
pub(super) fn path(object: &Value) -> Result<String, Failure> {
    let place = place(object)?;
    let root = if place.group.is_empty() { "/api" } else { "/apis" };
    let version = text(object, "/apiVersion");
    let namespace = segment(text(object, "/metadata/namespace"));
    let namespace = if place.namespaced { format!("/namespaces/{namespace}") } else { String::new() };
    Ok(format!("{root}/{version}{namespace}/{}/{}", place.plural, segment(text(object, "/metadata/name"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_manifest_has_its_place() {
        for shared in [false, true] {
            let objects = chosen(Choice { shared, capacity: true }).unwrap();
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
        let objects = chosen(Choice { shared: false, capacity: true }).unwrap();
        let roles = objects.iter().filter(|object| is_role_of_people(object));
        let names: Vec<&str> = roles.map(|role| text(role, "/metadata/name")).collect();
        assert_eq!(names, ["business:admin", "business:edit", "business:view", "business:offered:view"]);
    }

    #[test]
    fn what_a_shared_cluster_is_not_to_have_is_in_the_folder() {
        let objects = chosen(Choice { shared: false, capacity: false }).unwrap();
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

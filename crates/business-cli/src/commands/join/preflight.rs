use super::settings::{JoinSettings, Route};
use super::{Join, MEMBERS_ROLE, manifests, member, tunnel};
use crate::api::Api;
use crate::failure::{Failure, Obstacle};
use crate::objects::{self, MemberCluster};
use crate::paths::escape_segment;
use business_types::names;
use business_types::registry::REGISTRY_DOMAIN;
use meta::validation::NameRule;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The first version with stable `ValidatingAdmissionPolicies`.
const MINOR_MIN: u32 = 30;

/// Limit of a label's value.
const LABEL_BYTES_MAX: usize = 63;

/// Advice if rights in the member cluster are missing.
const RULE_MEMBER: &str =
    "take a kubeconfig of somebody who rules that cluster: its ClusterRole cluster-admin has all of it";
/// Advice if the members' namespace does not exist.
const NAME_NAMESPACE: &str = "--members-namespace is the chart's members.namespace; where the platform is not installed here, \
                              look whether --context and --host-kubeconfig are those that you mean";

/// A right that the caller needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RequiredRight {
    verb: &'static str,
    group: &'static str,
    resource: &'static str,
    subresource: &'static str,
    /// The only object that it is for; empty for all.
    name: &'static str,
}

impl RequiredRight {
    const fn core(verb: &'static str, resource: &'static str, subresource: &'static str) -> Self {
        Self { verb, group: "", resource, subresource, name: "" }
    }
}

impl std::fmt::Display for RequiredRight {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.verb, self.resource)?;
        let parts = [("/", self.subresource), (" of ", self.name)];
        parts
            .iter()
            .filter(|(_, part)| !part.is_empty())
            .try_for_each(|(before, part)| write!(f, "{before}{part}"))
    }
}

/// Why a name is invalid for a cluster. It becomes an object's name and a label of a Secret.
pub(super) fn invalid_name(name: &str) -> Option<Obstacle> {
    let problem = if name == REGISTRY_DOMAIN {
        Some("budgets of the registry are called so".to_owned())
    } else if name.len() > LABEL_BYTES_MAX {
        Some(format!("it has {} letters, and a label has at most {LABEL_BYTES_MAX}", name.len()))
    } else {
        NameRule::Subdomain.check(name).into_iter().next()
    };
    let next = "choose another name: small letters, digits, '-' and '.'";
    problem.map(|why| Obstacle::new(format!("no cluster can be called {name:?}: {why}"), next))
}

/// Checks everything before a join and fails with all obstacles. Returns the cluster's uid.
pub(super) async fn check(
    host: &Api,
    member: &Api,
    join: &Join,
    settings: &JoinSettings,
    objects: &[Value],
) -> Result<String, Failure> {
    if member.config.accept_invalid_certs {
        let what = "the member's kubeconfig does not look at the server's certificate: the controller would not know whom it \
                    talks to";
        let next = "put certificate-authority-data in place of insecure-skip-tls-verify";
        return Err(Obstacle::new(what, next).into());
    }
    let mut obstacles = Vec::new();
    let version: Value = member.get("/version").await?;
    obstacles.extend(unsupported_version(&version));
    let uid = member::cluster_uid(member).await?;
    let known: Vec<MemberCluster> = objects::list_or_empty(host, names::MEMBER_CLUSTERS).await?;
    obstacles.extend(identity_conflict(&known, &join.cluster, &uid));
    for right in required_rights(objects, settings)? {
        if !is_allowed(member, right, None).await? {
            let what = format!("in {} you may not {right}", join.cluster);
            obstacles.push(Obstacle::new(what, RULE_MEMBER));
        }
    }
    obstacles.extend(missing_namespace(host, &join.members_namespace).await?);
    for right in required_host_rights(matches!(settings.route, Route::Tunnel(_))) {
        if !is_allowed(host, right, Some(&join.members_namespace)).await? {
            let what = format!("in the host cluster you may not {right} in {}", join.members_namespace);
            obstacles.push(Obstacle::new(what, MEMBERS_ROLE));
        }
    }
    if obstacles.is_empty() { Ok(uid) } else { Err(Failure::Blocked(obstacles)) }
}

fn unsupported_version(version: &Value) -> Option<Obstacle> {
    let number = |path: &str| -> Option<u32> {
        let text = super::text(version, path);
        text.trim_end_matches(|c: char| !c.is_ascii_digit()).parse().ok()
    };
    let (major, minor) = (number("/major")?, number("/minor")?);
    (major == 1 && minor < MINOR_MIN).then(|| {
        let what = format!(
            "its version is {}: 1.{MINOR_MIN} is the first that can guard what is ours",
            super::text(version, "/gitVersion")
        );
        Obstacle::new(what, format!("upgrade the cluster to 1.{MINOR_MIN} or newer, then join it"))
    })
}

/// The obstacle that the name is another cluster's, or that the cluster has another name already.
fn identity_conflict(known: &[MemberCluster], name: &str, uid: &str) -> Option<Obstacle> {
    let here = known.iter().find(|cluster| cluster.name() == name && !cluster.status.uid.is_empty());
    if here.is_some_and(|cluster| cluster.status.uid != uid) {
        let what = format!("the name {name} stands for another cluster already");
        return Some(Obstacle::new(
            what,
            "choose another name, or look whether --kubeconfig is that cluster's",
        ));
    }
    let other = known.iter().find(|cluster| cluster.name() != name && cluster.status.uid == uid)?;
    let what = format!("this cluster is registered already, as {}", other.name());
    let next = format!(
        "join it by that name, or let it leave first: `kubectl business leave {}`; else look whether --kubeconfig is the \
         right one",
        other.name()
    );
    Some(Obstacle::new(what, next))
}

/// The obstacle that the members' namespace does not exist. A caller who may not read it is not stopped.
async fn missing_namespace(host: &Api, namespace: &str) -> Result<Option<Obstacle>, Failure> {
    let path = format!("/api/v1/namespaces/{}", escape_segment(namespace));
    match host.find::<Value>(&path).await {
        Ok(None) => {
            let what = format!("the host cluster has no namespace {namespace}");
            Ok(Some(Obstacle::new(what, NAME_NAMESPACE)))
        }
        Ok(Some(_)) => Ok(None),
        Err(failure) if failure.is_forbidden() => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// The rights to apply each object, to see what is there, and to make tokens.
pub(super) fn required_rights(
    objects: &[Value],
    settings: &JoinSettings,
) -> Result<BTreeSet<RequiredRight>, Failure> {
    let mut rights = BTreeSet::new();
    for object in objects {
        let resource_type = manifests::api_resource(object)?;
        for verb in ["create", "patch"] {
            rights.insert(RequiredRight {
                group: resource_type.group,
                ..RequiredRight::core(verb, resource_type.plural, "")
            });
        }
    }
    rights.extend([
        RequiredRight { group: manifests::RBAC, ..RequiredRight::core("get", "clusterroles", "") },
        RequiredRight::core("create", "secrets", ""),
        RequiredRight::core("create", "serviceaccounts", "token"),
    ]);
    if matches!(settings.route, Route::Tunnel(_)) {
        // The agents' Secret is applied.
        rights.insert(RequiredRight::core("patch", "secrets", ""));
    }
    if settings.shared {
        let delete = RequiredRight::core("delete", "validatingadmissionpolicybindings", "");
        rights.insert(RequiredRight { group: manifests::ADMISSION, ..delete });
    }
    if settings.people {
        let get = RequiredRight::core("get", "certificatesigningrequests", "");
        rights.insert(RequiredRight { group: "certificates.k8s.io", ..get });
    }
    Ok(rights)
}

/// The rights to store the credentials, and to make a token for the tunnel's agents.
fn required_host_rights(tunnel: bool) -> Vec<RequiredRight> {
    // Applying an object that is not there creates it.
    let mut rights = Vec::from(["create", "patch"].map(|verb| RequiredRight::core(verb, "secrets", "")));
    if tunnel {
        let token = RequiredRight::core("create", "serviceaccounts", "token");
        rights.push(RequiredRight { name: tunnel::NAME, ..token });
    }
    rights
}

async fn is_allowed(api: &Api, right: RequiredRight, namespace: Option<&str>) -> Result<bool, Failure> {
    let RequiredRight { verb, group, resource, subresource, name } = right;
    let attributes = json!({
        "verb": verb, "group": group, "resource": resource, "subresource": subresource,
        "name": name, "namespace": namespace.unwrap_or_default(),
    });
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    });
    let answer = api.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", &review).await?;
    Ok(answer.pointer("/status/allowed") == Some(&json!(true)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_right_is_told_with_what_it_is_of() {
        let texts = |tunnel| required_host_rights(tunnel).iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(texts(false), ["create secrets", "patch secrets"]);
        let token = "create serviceaccounts/token of business-tunnel";
        assert_eq!(texts(true), ["create secrets", "patch secrets", token]);
    }

    #[test]
    fn a_name_that_no_cluster_can_have_is_refused_at_once() {
        for name in ["", "registry", "East", "a_b", "a/b", "-a", &"a".repeat(64)] {
            assert!(invalid_name(name).is_some(), "{name}");
        }
        for name in ["east", "1.east-2", &"a".repeat(63)] {
            assert_eq!(invalid_name(name).map(|why| why.what), None);
        }
    }

    #[test]
    fn old_versions_and_second_names_are_refused() {
        let version = |minor: &str| json!({"major": "1", "minor": minor, "gitVersion": "v"});
        assert!(unsupported_version(&version("29+")).is_some());
        assert!(
            unsupported_version(&version("30")).is_none() && unsupported_version(&version("36")).is_none()
        );
        let mut east = MemberCluster::default();
        (east.metadata.name, east.status.uid) = ("east".into(), "1".into());
        let known = [east];
        assert!(
            identity_conflict(&known, "east", "1").is_none()
                && identity_conflict(&known, "west", "2").is_none()
        );
        assert!(identity_conflict(&known, "east", "2").unwrap().what.contains("another cluster"));
        assert!(identity_conflict(&known, "west", "1").unwrap().what.contains("as east"));
    }
}

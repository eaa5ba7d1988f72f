use super::{Join, manifests, member};
use crate::api::Api;
use crate::failure::Failure;
use crate::objects::{self, MemberCluster};
use business_types::names;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The first version whose admission policies are stable.
const MINOR_MIN: u32 = 30;

/// Something that has to be allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct NeededRight {
    verb: &'static str,
    group: &'static str,
    resource: &'static str,
    subresource: &'static str,
}

/// Fails with everything that stands in the way. The cluster's uid.
pub(super) async fn check(
    host: &Api,
    member: &Api,
    join: &Join,
    objects: &[Value],
) -> Result<String, Failure> {
    if member.config.accept_invalid_certs {
        return Err(Failure::Stopped(
            "the member's kubeconfig does not look at the server's certificate: the controller would not know whom it talks \
             to; put certificate-authority-data in place of insecure-skip-tls-verify"
                .to_owned(),
        ));
    }
    let mut wrong = Vec::new();
    let version: Value = member.get("/version").await?;
    wrong.extend(too_old(&version));
    let uid = member::uid(member).await?;
    let known: Vec<MemberCluster> = objects::seen(host, names::MEMBER_CLUSTERS).await?;
    wrong.extend(taken(&known, &join.cluster, &uid));
    for right in needed(objects, join.people)? {
        if !allowed(member, right, None).await? {
            let NeededRight { verb, resource, subresource, .. } = right;
            let slash = if subresource.is_empty() { "" } else { "/" };
            wrong.push(format!("in {} you may not {verb} {resource}{slash}{subresource}", join.cluster));
        }
    }
    let keep = NeededRight { verb: "patch", group: "", resource: "secrets", subresource: "" };
    if !allowed(host, keep, Some(&join.members_namespace)).await? {
        wrong.push(format!("in the host cluster you may not patch secrets in {}", join.members_namespace));
    }
    if wrong.is_empty() { Ok(uid) } else { Err(Failure::Stopped(wrong.join("\n  "))) }
}

fn too_old(version: &Value) -> Option<String> {
    let number = |path: &str| -> Option<u32> {
        let text = super::text(version, path);
        text.trim_end_matches(|c: char| !c.is_ascii_digit()).parse().ok()
    };
    let (major, minor) = (number("/major")?, number("/minor")?);
    (major == 1 && minor < MINOR_MIN).then(|| {
        format!(
            "its version is {}: 1.{MINOR_MIN} is the first that can guard what is ours",
            super::text(version, "/gitVersion")
        )
    })
}

/// One name is one cluster, and one cluster has one name.
fn taken(known: &[MemberCluster], name: &str, uid: &str) -> Option<String> {
    let here = known.iter().find(|cluster| cluster.name() == name && !cluster.status.uid.is_empty());
    if here.is_some_and(|cluster| cluster.status.uid != uid) {
        return Some(format!("the name {name} stands for another cluster already"));
    }
    let other = known.iter().find(|cluster| cluster.name() != name && cluster.status.uid == uid)?;
    Some(format!("this cluster is registered already, as {}", other.name()))
}

/// To apply each of the objects, and to make tokens.
fn needed(objects: &[Value], people: bool) -> Result<BTreeSet<NeededRight>, Failure> {
    let mut rights = BTreeSet::new();
    for object in objects {
        let place = manifests::place(object)?;
        for verb in ["create", "patch"] {
            rights.insert(NeededRight { verb, group: place.group, resource: place.plural, subresource: "" });
        }
    }
    let core = |verb, resource, subresource| NeededRight { verb, group: "", resource, subresource };
    rights.extend([core("create", "secrets", ""), core("create", "serviceaccounts", "token")]);
    if people {
        let group = "certificates.k8s.io";
        rights.insert(NeededRight {
            verb: "get",
            group,
            resource: "certificatesigningrequests",
            subresource: "",
        });
    }
    Ok(rights)
}

async fn allowed(api: &Api, right: NeededRight, namespace: Option<&str>) -> Result<bool, Failure> {
    let NeededRight { verb, group, resource, subresource } = right;
    let attributes = json!({
        "verb": verb, "group": group, "resource": resource, "subresource": subresource,
        "namespace": namespace.unwrap_or_default(),
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
    fn old_versions_and_second_names_are_refused() {
        let version = |minor: &str| json!({"major": "1", "minor": minor, "gitVersion": "v"});
        assert!(too_old(&version("29+")).is_some());
        assert!(too_old(&version("30")).is_none() && too_old(&version("36")).is_none());
        let mut east = MemberCluster::default();
        (east.metadata.name, east.status.uid) = ("east".into(), "1".into());
        let known = [east];
        assert!(taken(&known, "east", "1").is_none() && taken(&known, "west", "2").is_none());
        assert!(taken(&known, "east", "2").unwrap().contains("another cluster"));
        assert!(taken(&known, "west", "1").unwrap().contains("as east"));
    }
}

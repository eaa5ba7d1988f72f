//! What to do next about a failure.

use super::shortage::{Shortage, value};
use super::{NOT_FOUND, causes};
use crate::failure::{Failure, is_unauthenticated};
use crate::oidc::UNKNOWN_AUTHORITY;
use business_types::names;
use business_types::refusal::{CLUSTER_CLOSED, Reason};
use http::StatusCode;
use meta::status::{Status, StatusCause};

const LOG_IN: &str = "log in again: `kubectl business login`";
const AUTHORITY: &str = "the kubeconfig has to name the authorities of this server: `kubectl config set-cluster CLUSTER \
                         --certificate-authority FILE`, or --certificate-authority of `kubectl business login`";
/// In the message for operators if a project is of another tenant.
const OTHER_TENANTS: &str = "in this tenant: it is another one's";
/// In the message if a project has no budget on a cluster.
const NOT_LISTED: &str = "it does not list it";

/// What to do about a failure.
pub(super) fn next_steps(failure: &Failure) -> Vec<String> {
    match failure {
        Failure::Refused(status) => next_steps_of(status),
        other => next_of(other).map(str::to_owned).into_iter().collect(),
    }
}

/// What to do about a refusal, without duplicates.
pub(crate) fn next_steps_of(status: &Status) -> Vec<String> {
    let mut steps: Vec<String> = Vec::new();
    for step in causes(status).filter_map(|cause| next_step(status, cause)) {
        if !steps.contains(&step) {
            steps.push(step);
        }
    }
    if steps.is_empty() {
        steps.extend(next_of_status(status));
    }
    steps
}

fn next_of(failure: &Failure) -> Option<&'static str> {
    Some(match failure {
        Failure::Kubeconfig(_) => "name one with --kubeconfig or $KUBECONFIG, or `kubectl business login`",
        Failure::Unreachable { why, .. } if why.contains(UNKNOWN_AUTHORITY) => AUTHORITY,
        Failure::Unreachable { .. } => "look whether --context and --kubeconfig are those that you mean",
        Failure::NoAnswer { .. } => "it may be busy: try again, or give it longer with --request-timeout",
        Failure::TimedOut { .. } => "it goes on without you; give it longer with --timeout",
        Failure::Unreadable(..) => {
            "this program and the server may be of releases too far apart: compare --version"
        }
        _ => return None,
    })
}

pub(super) fn next_of_status(status: &Status) -> Option<String> {
    let message = &status.message;
    let next = match status.code {
        _ if is_unauthenticated(status) => LOG_IN,
        403 => return Some(next_of_rights(message)),
        404 => return Some(next_of_missing(status)),
        409 => return Some(next_of_conflict(status)),
        410 => "the list has changed too fast: try again",
        413 => "send less at once",
        503 if is_bare(status) => return Some(next_of_unserved()),
        429 | 503 | 504 => "the server is busy or starting: try again in a moment",
        400 | 422 => "change what it names; --help has examples",
        500.. => "an operator finds it in the server's log: tell him the time",
        _ => return None,
    };
    Some(next.to_owned())
}

/// Whether it was an HTTP error without a Status: kube-apiserver, or a proxy before it, does not reach the server.
fn is_bare(status: &Status) -> bool {
    StatusCode::SERVICE_UNAVAILABLE.canonical_reason() == Some(status.reason.as_str())
}

fn next_of_unserved() -> String {
    let (version, group) = (names::VERSION, names::GROUP);
    format!(
        "the server is busy or starting: try again in a moment; if it stays so, `kubectl get apiservice {version}.{group}` \
         says whether kube-apiserver reaches it"
    )
}

/// The texts of refusals for acts that only operators may do.
const OPERATORS: [&str; 5] =
    ["for operators", "not for tenants", "\"memberclusters\"", "\"projects/lock\"", "\"projects/unlock\""];

/// The platform's explanations of a 403.
const WHY: [&str; 3] = ["this needs the role", "for operators", "not for tenants"];

/// Advice for a 403: who may do it.
pub(super) fn next_of_rights(message: &str) -> String {
    if let Some(project) = quoted_after(message, "in project ") {
        return format!("ask somebody who may: `kubectl business access list {project}` shows who rules it");
    }
    if message.contains("without a parent") || message.contains("this needs the role admin") {
        return "carve it out of a project where you have the role admin (--parent), or ask an administrator of the tenant"
            .to_owned();
    }
    let next = if OPERATORS.iter().any(|word| message.contains(word)) {
        "ask an operator: whoever has the role business-operator"
    } else {
        "ask an operator, or somebody who rules the project: `kubectl business access list PROJECT`"
    };
    // kube-apiserver gives no explanation. A member cluster refuses the platform's own resources with the same message.
    let is_bare = message.contains("cannot ") && !WHY.iter().any(|word| message.contains(word));
    if is_bare { format!("{next}; or --context is another cluster's") } else { next.to_owned() }
}

/// Advice for a 404: the command that lists what exists.
fn next_of_missing(status: &Status) -> String {
    let shows = match status.details.as_ref().map_or("", |details| &details.kind) {
        "" | names::PROJECTS => "kubectl business tree",
        names::NAMESPACES => "kubectl get bns -n PROJECT",
        plural => {
            return format!(
                "what you do not see does not exist for you: `kubectl get {plural}` shows what does"
            );
        }
    };
    format!("what you do not see does not exist for you: `{shows}` shows what does")
}

/// Advice for a 409.
fn next_of_conflict(status: &Status) -> String {
    match &status.details {
        // A list was created.
        Some(details) if status.reason == "AlreadyExists" && details.name.is_empty() => {
            "leave out what is there already: `kubectl get bns -A` shows it".to_owned()
        }
        Some(details) if status.reason == "AlreadyExists" => {
            let (kind, name) = (details.kind.trim_end_matches('s'), &details.name);
            let place = if details.kind == names::NAMESPACES { " -n PROJECT" } else { "" };
            format!(
                "choose another name; if it is yours, `kubectl business describe {kind} {name}{place}` shows it"
            )
        }
        _ => "somebody else was faster, or it is in the way: look at it, and try again".to_owned(),
    }
}

/// `shop` of `in project "shop"`.
fn quoted_after<'a>(text: &'a str, before: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(before)?;
    rest.strip_prefix('"')?.split_once('"').map(|(name, _)| name)
}

/// Advice for one cause.
pub(super) fn next_step(status: &Status, cause: &StatusCause) -> Option<String> {
    if let Some(shortage) = Shortage::of(cause) {
        return Some(next_of_shortage(&shortage));
    }
    let is_leaving = value(&cause.message, "state") == Some("deleting");
    if let (CLUSTER_CLOSED, true) = (cause.reason.as_str(), is_leaving) {
        let cluster = value(&cause.message, "cluster")?;
        return Some(format!(
            "cluster {cluster} is leaving: choose another one; what is there can still shrink and go"
        ));
    }
    if let Some(reason) = Reason::of(&cause.reason) {
        return Some(reason.next_for(&cause.message));
    }
    Some(match cause.reason.as_str() {
        // Only operators see this message, since the cluster exists.
        NOT_FOUND if cause.message.contains("spec.tenants") => {
            let cluster = quoted_after(&cause.message, "Not found: ")?;
            format!(
                "choose another cluster, or let the tenant use it: `kubectl edit membercluster {cluster}`"
            )
        }
        NOT_FOUND if status.message.contains(OTHER_TENANTS) => {
            "choose one of the same tenant: `kubectl business tree` shows whose each is".to_owned()
        }
        "FieldValueInvalid" if cause.message.contains(NOT_LISTED) => {
            let project = quoted_after(&cause.message, "project ")?;
            format!(
                "choose another cluster, or give project {project} budget there: `kubectl business describe project {project}` \
                 shows where it has any"
            )
        }
        NOT_FOUND if cause.field.starts_with("spec.cluster") => {
            format!("`kubectl get {}` shows the clusters that you may use", names::CLUSTER_OFFERS)
        }
        NOT_FOUND => next_of_missing(status),
        "FieldValueInvalid" if cause.message.contains("must set") => {
            let (_, key) = cause.field.rsplit_once('[')?;
            format!("say how much of it, too: {}=0 is an amount", key.trim_end_matches(']'))
        }
        field if field.starts_with("FieldValue") => next_of_field(status, &cause.field)?,
        _ => return None,
    })
}

/// The `kubectl explain` command of a field; `None` for an unknown kind.
fn next_of_field(status: &Status, field: &str) -> Option<String> {
    let name = match status.details.as_ref()?.kind.as_str() {
        // `namespaces` would mean those of Kubernetes itself.
        names::NAMESPACE_KIND | names::NAMESPACES => "bns",
        names::PROJECT_KIND | names::PROJECTS => names::PROJECTS,
        names::TENANT_KIND | names::TENANTS => names::TENANTS,
        names::MEMBER_CLUSTER_KIND | names::MEMBER_CLUSTERS => names::MEMBER_CLUSTERS,
        _ => return None,
    };
    // `spec.clusters[east].hard[pods]` is described as `spec.clusters.hard`.
    let mut path = String::new();
    let mut depth = 0;
    for c in field.chars() {
        match c {
            '[' => depth += 1,
            ']' => depth -= 1,
            c if depth == 0 => path.push(c),
            _ => {}
        }
    }
    Some(format!("change {field}; `kubectl explain {name}.{path}` says what it takes"))
}

fn next_of_shortage(shortage: &Shortage) -> String {
    let Shortage { level, domain, resource, fits, hard, is_below, .. } = shortage;
    if *is_below {
        return format!("ask for {resource}={fits} or more on {domain}, or lower what is below it first");
    }
    let needed = shortage.hard_needed();
    let held = shortage.held.map_or_else(String::new, |held| {
        format!("; {held} of it is held without an object: `kubectl business audit`")
    });
    format!(
        "ask for {resource}={fits} at most, or have hard of {} raised from {hard} to {needed} on {domain}{held}; \
         `kubectl business explain` shows which levels that takes",
        level.text()
    )
}

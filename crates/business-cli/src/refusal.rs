//! Error messages for people: the server's message, the levels as a table, and what to do next.

use crate::amount;
use crate::failure::{Failure, Obstacle, is_unauthenticated};
use crate::level::{Level, LevelRow, LevelTable};
use crate::oidc::UNKNOWN_AUTHORITY;
use crate::screen::{Cell, Screen, Tone, right, sanitize};
use business_types::names;
use business_types::refusal::{BELOW_ALLOCATED, CLUSTER_CLOSED, QUOTA_EXCEEDED, Reason};
use http::StatusCode;
use meta::quantity::Quantity;
use meta::status::{Status, StatusCause};
use std::fmt::Write as _;

const LOG_IN: &str = "log in again: `kubectl business login`";
const AUTHORITY: &str = "the kubeconfig has to name the authorities of this server: `kubectl config set-cluster CLUSTER \
                         --certificate-authority FILE`, or --certificate-authority of `kubectl business login`";
/// The cause's reason if a name is not found.
const NOT_FOUND: &str = "FieldValueNotFound";

/// Separates the messages about the items of a refused list.
const BETWEEN_ITEMS: &str = "; items[";
/// In the message for operators if a project is of another tenant.
const OTHER_TENANTS: &str = "in this tenant: it is another one's";
/// In the message if a project has no budget on a cluster.
const NOT_LISTED: &str = "it does not list it";

/// An amount that a level lacks, parsed from a cause of a refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shortage {
    pub(crate) level: Level,
    /// The cluster, or the registry.
    pub(crate) domain: String,
    pub(crate) resource: String,
    pub(crate) requested: Quantity,
    pub(crate) hard: Quantity,
    pub(crate) allocated: Quantity,
    pub(crate) remaining: Quantity,
    /// The amount that would have been accepted.
    pub(crate) fits: Quantity,
    /// The part of `allocated` that is held without an object.
    pub(crate) held: Option<Quantity>,
    /// Whether a limit is below the allocated amount; otherwise the requested amount is too large.
    pub(crate) is_below: bool,
}

impl Shortage {
    /// Parses a cause; `None` if it is not about an amount.
    pub(crate) fn of(cause: &StatusCause) -> Option<Self> {
        let is_below = cause.reason == BELOW_ALLOCATED;
        if !is_below && cause.reason != QUOTA_EXCEEDED {
            return None;
        }
        let amount = |key: &str| value(&cause.message, key)?.parse().ok();
        let domain = value(&cause.message, "cluster").or_else(|| value(&cause.message, "domain"))?;
        Some(Self {
            level: level(&cause.message, domain)?,
            domain: domain.to_owned(),
            resource: value(&cause.message, "resource")?.to_owned(),
            requested: amount("requested")?,
            hard: amount("hard")?,
            allocated: amount("allocated")?,
            remaining: amount("remaining")?,
            fits: amount("fits")?,
            held: amount("held"),
            is_below,
        })
    }

    /// The smallest hard limit of the level with which the amount would fit.
    pub(crate) fn hard_needed(&self) -> Quantity {
        // If more than `hard` is allocated, the excess is missing, too.
        amount::saturating_add(
            self.hard.max(self.allocated),
            amount::saturating_sub(self.requested, self.fits),
        )
    }
}

fn level(message: &str, domain: &str) -> Option<Level> {
    if let Some(name) = value(message, "project") {
        return Some(Level::Project(name.to_owned()));
    }
    if let Some(name) = value(message, "tenant") {
        return Some(Level::Tenant(name.to_owned()));
    }
    (value(message, "scope") == Some("cluster")).then(|| Level::Cluster(domain.to_owned()))
}

/// `web` of `project=web cluster=c1`.
fn value<'a>(message: &'a str, key: &str) -> Option<&'a str> {
    message.split(' ').find_map(|pair| pair.strip_prefix(key)?.strip_prefix('='))
}

/// All amounts that are missing.
pub(crate) fn shortages(status: &Status) -> Vec<Shortage> {
    causes(status).filter_map(Shortage::of).collect()
}

fn causes(status: &Status) -> impl Iterator<Item = &StatusCause> {
    status.details.iter().flat_map(|details| &details.causes)
}

/// A table of the levels that refuse.
pub(crate) fn picture(shortages: &[Shortage], screen: Screen) -> String {
    let mut table = LevelTable::new(right("FITS"));
    for one in shortages {
        let row = LevelRow {
            level: &one.level,
            domain: &one.domain,
            resource: &one.resource,
            hard: Some(one.hard),
            // Here `allocated` includes what is held.
            allocated: one.allocated,
            held: Quantity::ZERO,
            left: Some(one.remaining),
            requested: Some(one.requested),
            current: Quantity::ZERO,
            refuses: true,
        };
        table.row(&row, screen, Cell::toned(Tone::Good, one.fits.to_string()));
    }
    table.render(screen)
}

/// The whole message about a failure, for standard error.
pub(crate) fn render(failure: &Failure, screen: Screen) -> String {
    if let Failure::Blocked(obstacles) = failure {
        return render_obstacles(obstacles, screen);
    }
    // One line for each refused item of a list.
    let message = sanitize(&failure.to_string()).replace(BETWEEN_ITEMS, "\n  items[");
    let mut text = format!("{} {message}\n", screen.paint(Tone::Full, "error:"));
    let (failure, advice) = match failure {
        Failure::Advised { failure, next } => (&**failure, Some(*next)),
        other => (other, None),
    };
    if let Failure::Refused(status) = failure {
        text.push_str(&render_causes(status, screen));
    }
    let next = advice.map_or_else(|| next_steps(failure), |next| vec![next.to_owned()]);
    text.extend(next.iter().map(|next| format!("  next: {}\n", sanitize(next))));
    text
}

/// Each obstacle with its advice. Neighbours with the same advice share it.
fn render_obstacles(obstacles: &[Obstacle], screen: Screen) -> String {
    let mut text = String::new();
    let mut rest = obstacles.iter().peekable();
    while let Some(Obstacle { what, next }) = rest.next() {
        let _infallible = writeln!(text, "{} {}", screen.paint(Tone::Full, "error:"), sanitize(what));
        if rest.peek().is_none_or(|after| after.next != *next) {
            let _infallible = writeln!(text, "  next: {}", sanitize(next));
        }
    }
    text
}

/// The levels that refuse, and the causes that the message does not include.
fn render_causes(status: &Status, screen: Screen) -> String {
    let mut text = picture(&shortages(status), screen);
    if !text.is_empty() {
        text = format!("\n{text}\n");
    }
    for cause in causes(status) {
        let reason = Reason::of(&cause.reason);
        // The message has only the causes of its own code.
        let other = reason.filter(|reason| reason.code != status.code && !cause.field.starts_with("items["));
        if let Some(other) = other.filter(|_| Shortage::of(cause).is_none()) {
            let line = format!("{}: {} ({})", cause.field, other.when, cause.message);
            text.extend(["  ", &sanitize(&line), "\n"]);
        }
        // Causes for programs repeat what the message says.
        let is_program = reason.is_some() || cause.reason == NOT_FOUND;
        if !is_program && !status.message.contains(&cause.message) {
            let line = [sanitize(&cause.field), sanitize(&cause.message)].join(": ");
            text.extend(["  ", &line, "\n"]);
        }
    }
    text
}

fn next_steps(failure: &Failure) -> Vec<String> {
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

fn next_of_status(status: &Status) -> Option<String> {
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
fn next_of_rights(message: &str) -> String {
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
fn next_step(status: &Status, cause: &StatusCause) -> Option<String> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use business_types::refusal::REASONS;
    use meta::gvk::GroupResource;

    fn cause(reason: &str, message: &str) -> StatusCause {
        StatusCause { reason: reason.into(), message: message.into(), field: "spec.hard[pods]".into() }
    }

    fn exceeded(allocated: &str) -> StatusCause {
        let message = format!(
            "project=web cluster=c1 resource=pods requested=90 hard=100 allocated={allocated} remaining=59 fits=59"
        );
        cause(QUOTA_EXCEEDED, &message)
    }

    #[test]
    fn the_levels_of_a_refusal_are_read() {
        let shortage = Shortage::of(&exceeded("41")).unwrap();
        assert_eq!(shortage.level, Level::Project("web".to_owned()));
        assert_eq!((shortage.domain.as_str(), shortage.resource.as_str()), ("c1", "pods"));
        assert_eq!(shortage.hard_needed().to_string(), "131");
        assert_eq!(Shortage::of(&exceeded("120")).unwrap().hard_needed().to_string(), "151");
        let cluster =
            "scope=cluster cluster=c1 resource=pods requested=9 hard=8 allocated=0 remaining=8 fits=8";
        let shortage = Shortage::of(&cause(QUOTA_EXCEEDED, cluster)).unwrap();
        assert_eq!(shortage.level, Level::Cluster("c1".to_owned()));
        let registry = "tenant=acme domain=registry resource=imagenamespaces requested=2 hard=1 allocated=0 remaining=1 fits=1";
        assert_eq!(Shortage::of(&cause(QUOTA_EXCEEDED, registry)).unwrap().domain, "registry");
        assert_eq!(Shortage::of(&cause(QUOTA_EXCEEDED, "nonsense")), None);
    }

    #[test]
    fn a_refusal_shows_the_level_and_what_to_do() {
        let status = Status::forbidden(&GroupResource::new("g", "namespaces"), "c1-a", "exceeded quota");
        let failure = Failure::Refused(Box::new(status.with_causes(vec![exceeded("41")])));
        let text = render(&failure, Screen::plain(false));
        for part in [
            "error: namespaces.g \"c1-a\" is forbidden: exceeded quota",
            "project web  c1     pods      ======..........   100         41    59     90    59",
            "next: ask for pods=59 at most, or have hard of project web raised from 100 to 131 on c1",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }

    #[test]
    fn every_reason_of_the_server_has_a_next_step() {
        let status = Status::forbidden(&GroupResource::new("g", "namespaces"), "n", "no");
        for Reason { name, .. } in REASONS {
            let message = "project=p tenant=t cluster=c resource=pods requested=1 used=2 fits=2";
            assert!(next_step(&status, &cause(name, message)).is_some(), "{name}");
        }
    }

    #[test]
    fn what_is_there_already_is_shown_where_it_is() {
        let mut status = Status::failure(409, "AlreadyExists", "no");
        let mut next = |kind: &str, name: &str| {
            let (kind, name) = (kind.to_owned(), name.to_owned());
            status.details = Some(meta::status::StatusDetails { kind, name, ..Default::default() });
            next_of_status(&status).unwrap()
        };
        assert!(next("namespaces", "c1-a").contains("describe namespace c1-a -n PROJECT`"));
        assert!(next("projects", "web").contains("describe project web`"));
        let of_list = next("", "");
        assert!(of_list.contains("leave out what is there already"), "{of_list}");
    }

    #[test]
    fn a_cluster_and_a_project_that_cannot_be_used_are_told_with_what_to_do() {
        let status = Status::failure(422, "Invalid", "no");
        let next = |reason: &str, message: &str| next_step(&status, &cause(reason, message)).unwrap();
        let unlisted = "Invalid value: \"c1\": project \"web\" forbids its children to use cluster \"c1\": it does not list it";
        assert!(next("FieldValueInvalid", unlisted).contains("give project web budget there"));
        let closed = "Not found: \"c1\" for tenant \"t\": spec.tenants of the membercluster does not list it";
        assert!(next(NOT_FOUND, closed).contains("kubectl edit membercluster c1"));
        let other = Status::failure(
            404,
            "NotFound",
            "projects.g \"p\" not found in this tenant: it is another one's",
        );
        let told = next_step(&other, &cause(NOT_FOUND, "Not found: \"p\"")).unwrap();
        assert!(told.starts_with("choose one of the same tenant"), "{told}");
    }

    #[test]
    fn a_cause_that_the_message_does_not_tell_is_told_with_what_to_do() {
        let status = Status::failure(422, "Invalid", "spec.hard: must set quota");
        let taken = cause(business_types::refusal::CLAIM_TAKEN, "cluster=c1 namespace=web");
        let text = render(&Failure::Refused(Box::new(status.with_causes(vec![taken]))), Screen::plain(false));
        assert!(text.contains("another object has this namespace of the cluster"), "{text}");
        let status = Status::failure(403, "Forbidden", "project \"web\" has been locked by an operator");
        let locked = cause(business_types::refusal::PROJECT_LOCKED, "project=web");
        let text =
            render(&Failure::Refused(Box::new(status.with_causes(vec![locked]))), Screen::plain(false));
        assert!(!text.contains("project=web"), "the message says the same: {text}");
    }

    #[test]
    fn refused_objects_of_a_list_have_a_line_each() {
        let status =
            Status::failure(422, "Invalid", "none of 2 objects is created; items[0]: no; items[1]: no");
        let text = render(&Failure::Refused(Box::new(status)), Screen::plain(false));
        assert!(
            text.starts_with("error: none of 2 objects is created\n  items[0]: no\n  items[1]: no\n"),
            "{text}"
        );
    }

    #[test]
    fn a_field_is_explained_where_kubectl_knows_it() {
        let mut status = Status::failure(422, "Invalid", "no");
        status.details = Some(meta::status::StatusDetails { kind: "Namespace".into(), ..Default::default() });
        let cause = cause("FieldValueRequired", "Required value");
        let next = next_step(&status, &cause).unwrap();
        assert_eq!(next, "change spec.hard[pods]; `kubectl explain bns.spec.hard` says what it takes");
    }

    #[test]
    fn every_code_of_a_refusal_has_a_next_step() {
        for code in [400, 401, 403, 404, 409, 410, 413, 422, 429, 500, 503, 504] {
            assert!(next_of_status(&Status::failure(code, "R", "m")).is_some(), "{code}");
        }
        for (message, says) in [
            ("this needs the role edit in project \"shop\"", "access list shop`"),
            ("this needs the role admin", "--parent"),
            ("this is for operators", "business-operator"),
            ("cannot patch resource \"memberclusters\" in API group", "business-operator"),
            ("cannot create resource \"projects/lock\" in API group", "business-operator"),
            ("no", "operator"),
        ] {
            assert!(next_of_rights(message).contains(says), "{message}");
        }
    }

    #[test]
    fn another_clusters_refusal_may_be_one_of_the_context() {
        let refused = |resource: &str, why: &str| {
            let place = "in API group \"business.tkestack.io\" at the cluster scope";
            next_of_rights(&format!("User \"alice\" cannot list resource \"{resource}\" {place}{why}"))
        };
        for resource in ["projects", "memberclusters"] {
            let next = refused(resource, "");
            assert!(next.ends_with("or --context is another cluster's"), "{next}");
        }
        for (resource, why) in [
            ("projects", ": this needs the role admin in project \"shop\""),
            ("memberclusters", ": this is for operators"),
            ("projects/lock", ": the subresource lock is not for tenants"),
        ] {
            let next = refused(resource, why);
            assert!(!next.contains("--context"), "{next}");
        }
    }

    #[test]
    fn a_namespace_that_is_not_there_is_looked_for_where_names_are_those_that_commands_take() {
        let mut status = Status::failure(404, "NotFound", "no");
        status.details =
            Some(meta::status::StatusDetails { kind: "namespaces".into(), ..Default::default() });
        let next = next_of_status(&status).unwrap();
        assert!(next.contains("`kubectl get bns -n PROJECT` shows what does"), "{next}");
    }

    #[test]
    fn a_server_that_kube_apiserver_does_not_reach_is_looked_for_there() {
        let next = |status: &Status| next_of_status(status).unwrap();
        let bare = Status::failure(503, "Service Unavailable", "service unavailable");
        assert!(next(&bare).contains("`kubectl get apiservice v1.business.tkestack.io`"), "{}", next(&bare));
        let ours = Status::unavailable("no database takes writes", 1);
        assert!(!next(&ours).contains("apiservice"), "{}", next(&ours));
    }

    #[test]
    fn everything_that_stands_in_the_way_is_told_with_what_to_do() {
        let right = |what: &str| Obstacle::new(what, "ask for it");
        let obstacles = vec![Obstacle::new("it is old", "renew it"), right("no secrets"), right("no tokens")];
        let text = render(&Failure::Blocked(obstacles), Screen::plain(false));
        let lines = [
            "error: it is old",
            "  next: renew it",
            "error: no secrets",
            "error: no tokens",
            "  next: ask for it\n",
        ];
        assert_eq!(text, lines.join("\n"));
    }

    #[test]
    fn what_a_command_knows_better_is_said_in_place_of_the_usual() {
        let refused = Failure::Refused(Box::new(Status::failure(422, "Invalid", "no endpoint")));
        let text = render(&refused.with_advice_on(422, "ask an operator"), Screen::plain(false));
        assert_eq!(text, "error: no endpoint\n  next: ask an operator\n");
        let nobody = Status::failure(403, "Forbidden", "User \"system:anonymous\" cannot list it");
        let text =
            render(&Failure::Refused(Box::new(nobody)).with_advice_on(403, "ask"), Screen::plain(false));
        assert!(text.ends_with("  next: log in again: `kubectl business login`\n"), "{text}");
    }
}

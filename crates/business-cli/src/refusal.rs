//! Error messages for people: the server's message, the levels as a table, and what to do next.

/// Amounts that are missing.
pub(crate) mod shortage;
/// What to do next.
pub(crate) mod advice;

use crate::failure::{Failure, Obstacle};
use crate::screen::{Screen, Tone, sanitize};
use advice::next_steps;
use business_types::refusal::Reason;
use meta::status::{Status, StatusCause};
use shortage::{Shortage, picture};
use std::fmt::Write as _;

/// The cause's reason if a name is not found.
const NOT_FOUND: &str = "FieldValueNotFound";

/// Separates the messages about the items of a refused list.
const BETWEEN_ITEMS: &str = "; items[";

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
    let mut text = picture(&Shortage::all_of(status), screen);
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

fn causes(status: &Status) -> impl Iterator<Item = &StatusCause> {
    status.details.iter().flat_map(|details| &details.causes)
}

#[cfg(test)]
mod tests {
    use super::advice::{next_of_rights, next_of_status, next_step};
    use super::*;
    use crate::level::Level;
    use business_types::refusal::{QUOTA_EXCEEDED, REASONS};
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

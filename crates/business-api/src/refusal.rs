//! The answer to a write that the quota rules refused: one Status that says which project, cluster and resource,
//! what was asked for, and what would have fitted. See `docs/api.md` for its machine-readable half.

use crate::levels::{Levels, Unowned};
use crate::rights::GRANT;
use business_types::account::{FLEET, PROJECT, TENANT, scope_word};
use business_types::names::GROUP;
use business_types::refusal::{
    BELOW_ALLOCATED, CLAIM_TAKEN, NAMESPACE_TERMINATING, NO_CEILING, PROJECT_IN_USE, PROJECT_LOCKED,
    PROJECT_OVERDRAWN, QUOTA_EXCEEDED, TENANT_IN_USE, TOO_MANY_CHILDREN,
};
use business_types::registry::REGISTRY_DOMAIN;
use meta::field::{FieldError, FieldErrors, Path};
use meta::gvk::{GroupResource, GroupVersionKind};
use meta::quantity::Quantity;
use meta::status::{Status, StatusCause};
use serde_json::json;
use store::quota::{Claim, Scope, Shortage, Violation};

const NOT_FOUND: &str = "FieldValueNotFound";
/// Places that a message names.
const PLACES_MAX: usize = 5;

/// The object whose write was refused.
#[derive(Clone, Copy, Debug)]
pub struct RefusedObject<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its kind.
    pub kind: &'static RefusedKind,
    /// The writer is told of the holds of this scope only; with `None` he sees everything, and is told of all. That a place is
    /// held for another project must not be told.
    pub holds: Option<&'a Scope>,
}

/// A kind whose writes can be refused, and the places of the fields that a refusal names.
#[derive(Debug)]
pub struct RefusedKind {
    /// Its full name.
    pub gvk: fn() -> GroupVersionKind,
    /// Its group and plural.
    pub resource: fn() -> GroupResource,
    /// The field that names the scope that the object pays.
    pub scope: &'static str,
    /// The field that is told when the scope does not list a domain.
    pub domain: &'static str,
    /// The field that names the place that the object claims.
    pub place: &'static str,
    /// The field that holds the amount of a key in a domain.
    pub amount: fn(domain: &str, key: &str) -> Path,
}

/// The answer that a violation asks for; the first in this order wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    /// 404: a project that does not exist for the caller.
    Missing,
    /// 403 with the cause that client-go knows.
    Terminating,
    /// 403 until an operator unlocks.
    Locked,
    /// 422: no amount would help.
    Malformed,
    /// 409.
    Conflict,
    /// 403: a smaller amount would do.
    Amount,
}

/// One Status for all violations of one write. `levels` tell the part of the amounts that no object stands for.
pub fn status(subject: RefusedObject<'_>, violations: &[Violation], levels: &Levels) -> Status {
    let Some(class) = violations.iter().map(class).min() else {
        return Status::internal("the write was refused without a reason");
    };
    let causes: Vec<StatusCause> = violations.iter().map(|v| cause(subject, v, levels)).collect();
    let of_class: Vec<&Violation> = violations.iter().filter(|v| self::class(v) == class).collect();
    let (resource, name) = ((subject.kind.resource)(), subject.name);
    let base = match class {
        Class::Missing => missing(subject, &of_class),
        Class::Terminating | Class::Locked | Class::Amount => {
            Status::forbidden(&resource, name, &texts(subject, &of_class, levels))
        }
        Class::Malformed => {
            let errors: FieldErrors = of_class.iter().map(|v| field_error(subject, v)).collect();
            Status::invalid(&(subject.kind.gvk)(), name, &errors)
        }
        Class::Conflict => Status::conflict(&resource, name, &texts(subject, &of_class, levels)),
    };
    base.with_causes(causes)
}

impl RefusedObject<'_> {
    fn scope_field(self) -> Path {
        Path::new(self.kind.scope)
    }

    fn amount_field(self, shortage: &Shortage) -> Path {
        (self.kind.amount)(&shortage.domain, &shortage.key)
    }
}

fn class(violation: &Violation) -> Class {
    match violation {
        Violation::ScopeMissing { .. }
        | Violation::ScopeForeign { .. }
        | Violation::AncestorMissing { .. } => Class::Missing,
        Violation::ScopeTerminating { .. } => Class::Terminating,
        Violation::ScopeLocked { .. } => Class::Locked,
        // Another caller may.
        Violation::DomainNotListed { scope, .. } if scope.kind == TENANT => Class::Amount,
        Violation::KeyMissing { .. }
        | Violation::ChildrenLackKey { .. }
        | Violation::DomainNotListed { .. }
        | Violation::DomainInUse { .. }
        | Violation::Cycle { .. } => Class::Malformed,
        Violation::ClaimTaken { .. } | Violation::ScopeInUse { .. } => Class::Conflict,
        Violation::DoesNotFit(_)
        | Violation::BelowAllocated(_)
        | Violation::ScopeOverdrawn { .. }
        | Violation::TooManyChildren { .. } => Class::Amount,
    }
}

/// Another tenant's project gets the answer of a missing one, word for word, unless the writer sees everything.
fn missing(subject: RefusedObject<'_>, violations: &[&Violation]) -> Status {
    let scope = violations.iter().find_map(|v| match v {
        Violation::ScopeMissing { scope }
        | Violation::ScopeForeign { scope }
        | Violation::AncestorMissing { scope } => Some(scope),
        _ => None,
    });
    let (kind, name) = scope.map_or((PROJECT, ""), |scope| (scope.kind, scope.name.as_str()));
    let mut status = Status::not_found(&GroupResource::new(GROUP, format!("{}s", scope_word(kind))), name);
    if subject.holds.is_none() && violations.iter().any(|v| matches!(v, Violation::ScopeForeign { .. })) {
        status.message.push_str(" in this tenant: it is another one's");
    }
    status
}

fn texts(subject: RefusedObject<'_>, violations: &[&Violation], levels: &Levels) -> String {
    let told = violations.iter().map(|v| match v {
        Violation::DoesNotFit(shortage) | Violation::BelowAllocated(shortage) => {
            text(v) + &unowned(shortage, levels).as_ref().map(held).unwrap_or_default()
        }
        Violation::ClaimTaken { claim, holder } if levels.holds(*holder, subject.holds) => {
            format!("{} is held: it is there, or was, and no object stands for it", claimed(claim))
        }
        other => text(other),
    });
    told.collect::<Vec<_>>().join("; ")
}

fn unowned(shortage: &Shortage, levels: &Levels) -> Option<Unowned> {
    let Unowned { amount, places } = levels.unowned(&shortage.scope, &shortage.domain, &shortage.key)?;
    let amount = Quantity::from_nanos(amount.nanos(), shortage.allocated.format());
    Some(Unowned { amount, places })
}

fn held(unowned: &Unowned) -> String {
    let Unowned { amount, places } = unowned;
    let more = places.len().saturating_sub(PLACES_MAX);
    let mut named: Vec<&str> = places.iter().take(PLACES_MAX).map(String::as_str).collect();
    let rest = format!("{more} more");
    if more > 0 {
        named.push(&rest);
    }
    format!(
        " (of what is allocated, {amount} is held for namespaces of the cluster that no object stands for: {})",
        named.join(", ")
    )
}

/// A level of the tree, as a person reads it: `project "web"`.
fn level(scope: &Scope) -> String {
    format!("{} {:?}", scope_word(scope.kind), scope.name)
}

/// A level and where its limit holds: `project "web" on cluster "c1"`, or only `cluster "c1"`, as nobody knows of the
/// fleet.
fn level_in(scope: &Scope, domain: &str) -> String {
    if scope.kind == FLEET { named(domain) } else { format!("{} {}", level(scope), place(domain)) }
}

/// `cluster "c1"`, or the registry, which is no cluster.
fn named(domain: &str) -> String {
    if domain == REGISTRY_DOMAIN { "the registry".to_owned() } else { format!("cluster {domain:?}") }
}

/// Where an amount counts.
fn place(domain: &str) -> String {
    format!("{} {}", if domain == REGISTRY_DOMAIN { "in" } else { "on" }, named(domain))
}

/// A key, and where it counts: `"pods" on cluster "c1"`, or `"requests.storage" of the registry`.
fn key_in(key: &str, domain: &str) -> String {
    if domain == REGISTRY_DOMAIN {
        format!("{key:?} of the registry")
    } else {
        format!("{key:?} {}", place(domain))
    }
}

/// A place that one object has for itself.
fn claimed(claim: &Claim) -> String {
    let Claim { domain, place } = claim;
    let what = if domain == REGISTRY_DOMAIN { "name" } else { "namespace" };
    format!("{what} {place:?} of {}", named(domain))
}

/// The same for a program: `cluster=c1`, or `domain=registry`.
fn domain_pair(domain: &str) -> String {
    format!("{}={domain}", if domain == REGISTRY_DOMAIN { "domain" } else { "cluster" })
}

/// A scope takes nothing in a domain.
fn unlisted(scope: &Scope, domain: &str) -> String {
    let level = level(scope);
    match scope.kind {
        TENANT => format!(
            "{level} has no ceiling {}: to take budget from nobody needs the verb {GRANT:?} on projects",
            place(domain)
        ),
        FLEET => format!("{} is not registered: it has no membercluster", named(domain)),
        _ => format!("{level} forbids its children to use {}: it does not list it", named(domain)),
    }
}

/// A limit lies below what is given away.
fn below(shortage: &Shortage) -> String {
    let Shortage { scope, domain, key, requested, allocated, would_fit, .. } = shortage;
    let (level, place) = match scope.kind {
        FLEET => (named(domain), String::new()),
        _ => (level(scope), format!(" {}", place(domain))),
    };
    format!(
        "{level} has already given away {key}={allocated}{place}: hard cannot be {requested}; the smallest that fits is \
         {would_fit}"
    )
}

/// The text for people.
fn text(violation: &Violation) -> String {
    match violation {
        Violation::DoesNotFit(shortage) => {
            let Shortage { scope, domain, key, requested, hard, allocated, would_fit } = shortage;
            let (level, remaining) = (level_in(scope, domain), remaining(shortage));
            format!(
                "exceeded quota of {level}: requested {key}={requested}, hard {hard}, allocated {allocated}, remaining \
                 {remaining}; the largest that fits is {would_fit}"
            )
        }
        Violation::BelowAllocated(shortage) => below(shortage),
        Violation::TooManyChildren { scope, children_max } => {
            let (level, word) = (level(scope), scope_word(scope.kind));
            format!("{level} has {children_max} children, which is as many as a {word} may have")
        }
        Violation::ScopeTerminating { scope } => {
            format!("unable to create new content in namespace {} because it is being terminated", scope.name)
        }
        Violation::ScopeLocked { scope } => format!("{} has been locked by an operator", level(scope)),
        Violation::ClaimTaken { claim, .. } => {
            format!("{} is already taken by another object", claimed(claim))
        }
        Violation::ScopeOverdrawn { scope } => {
            format!(
                "the children of {} have more than it is granted: it can be moved when they have less",
                level(scope)
            )
        }
        Violation::ScopeInUse { scope, children } => {
            format!("{} still has {children} children; they are deleted first", level(scope))
        }
        Violation::KeyMissing { scope, domain, key } if scope.kind == FLEET => {
            format!("must set a ceiling of {key:?}, for {} limits it", named(domain))
        }
        Violation::KeyMissing { scope, domain, key } => {
            let (key, level) = (key_in(key, domain), level(scope));
            format!("must set quota {key}, for the parent {level} has set this kind of quota")
        }
        Violation::ChildrenLackKey { domain, key, children, .. } => {
            let key = key_in(key, domain);
            format!("please first set quota {key} for all children: {children} of them lack it")
        }
        Violation::DomainNotListed { scope, domain } => unlisted(scope, domain),
        Violation::DomainInUse { domain, children, .. } => {
            format!("can NOT remove {}: {children} children use it", named(domain))
        }
        Violation::Cycle { scope } => format!(
            "ancestor projects formed a circle at {:?}, or there are more than 100 levels above",
            scope.name
        ),
        Violation::ScopeMissing { scope } | Violation::ScopeForeign { scope } => {
            format!("{} not found", level(scope))
        }
        Violation::AncestorMissing { scope } => format!("ancestor {} not found", level(scope)),
    }
}

fn remaining(shortage: &Shortage) -> Quantity {
    let left = shortage.hard.checked_sub(shortage.allocated).unwrap_or(Quantity::ZERO);
    if left.is_negative() { Quantity::ZERO } else { left }
}

/// A 422's field error, at the paths that clients of the original know.
fn field_error(subject: RefusedObject<'_>, violation: &Violation) -> FieldError {
    let spec = Path::new("spec");
    let detail = text(violation);
    match violation {
        Violation::KeyMissing { key, .. } => {
            FieldError::invalid(&spec.child("hard").key(key), &json!(null), &detail)
        }
        Violation::ChildrenLackKey { domain, key, .. } => {
            FieldError::invalid(&spec.child("hard").child(domain), &json!(key), &detail)
        }
        Violation::DomainNotListed { domain, .. } => {
            FieldError::invalid(&Path::new(subject.kind.domain), &json!(domain), &detail)
        }
        Violation::DomainInUse { domain, .. } => {
            FieldError::invalid(&spec.child("clusters"), &json!(domain), &detail)
        }
        Violation::Cycle { scope } => {
            FieldError::invalid(&subject.scope_field(), &json!(scope.name), &detail)
        }
        other => FieldError::forbidden(&subject.scope_field(), &text(other)),
    }
}

/// The cause for programs: a reason, the field, and `key=value` pairs for amounts.
fn cause(subject: RefusedObject<'_>, violation: &Violation, levels: &Levels) -> StatusCause {
    let (reason, field, message) = match violation {
        Violation::DoesNotFit(s) => (QUOTA_EXCEEDED, subject.amount_field(s), facts(s, levels)),
        Violation::BelowAllocated(s) => (BELOW_ALLOCATED, subject.amount_field(s), facts(s, levels)),
        Violation::TooManyChildren { scope, children_max } => {
            (TOO_MANY_CHILDREN, subject.scope_field(), format!("{} max={children_max}", pair(scope)))
        }
        Violation::ScopeTerminating { scope } => {
            let message = format!("namespace {} is being terminated", scope.name);
            (NAMESPACE_TERMINATING, subject.scope_field(), message)
        }
        Violation::ScopeLocked { scope } => (PROJECT_LOCKED, subject.scope_field(), pair(scope)),
        Violation::ClaimTaken { claim, .. } => {
            let what = if claim.domain == REGISTRY_DOMAIN { "name" } else { "namespace" };
            let message = format!("{} {what}={}", domain_pair(&claim.domain), claim.place);
            (CLAIM_TAKEN, Path::new(subject.kind.place), message)
        }
        Violation::ScopeOverdrawn { scope } => (PROJECT_OVERDRAWN, subject.scope_field(), pair(scope)),
        Violation::ScopeInUse { scope, children } => (
            if scope.kind == TENANT { TENANT_IN_USE } else { PROJECT_IN_USE },
            Path::new("spec").child("finalizers"),
            format!("{} children={children}", pair(scope)),
        ),
        Violation::ScopeMissing { scope }
        | Violation::ScopeForeign { scope }
        | Violation::AncestorMissing { scope } => {
            (NOT_FOUND, subject.scope_field(), format!("Not found: {:?}", scope.name))
        }
        Violation::DomainNotListed { scope, domain } if scope.kind == TENANT => {
            let message = format!("{} {}", pair(scope), domain_pair(domain));
            (NO_CEILING, Path::new("spec").child("clusters").key(domain), message)
        }
        malformed => {
            let error = field_error(subject, malformed);
            return StatusCause {
                reason: error.cause.reason().to_owned(),
                message: error.message,
                field: error.field,
            };
        }
    };
    StatusCause { reason: reason.to_owned(), message, field: field.to_string() }
}

/// `project=web`
fn pair(scope: &Scope) -> String {
    format!("{}={}", scope_word(scope.kind), scope.name)
}

fn facts(shortage: &Shortage, levels: &Levels) -> String {
    let Shortage { scope, domain, key, requested, hard, allocated, would_fit } = shortage;
    let scope = if scope.kind == FLEET { "scope=cluster".to_owned() } else { pair(scope) };
    let remaining = remaining(shortage);
    let held = unowned(shortage, levels).map(|unowned| format!(" held={}", unowned.amount));
    format!(
        "{scope} {} resource={key} requested={requested} hard={hard} allocated={allocated} remaining={remaining} \
         fits={would_fit}{}",
        domain_pair(domain),
        held.unwrap_or_default()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strategy::{namespace::REFUSED as NAMESPACE, project::REFUSED as PROJECT};
    use store::quota::Claim;

    fn status(subject: RefusedObject<'_>, violations: &[Violation]) -> Status {
        super::status(subject, violations, &Levels::default())
    }

    fn scope(name: &str) -> Scope {
        Scope::new(business_types::account::PROJECT, name)
    }

    fn shortage(requested: &str, would_fit: &str) -> Shortage {
        let [requested, hard, allocated, would_fit] =
            [requested, "100", "41", would_fit].map(|text| text.parse().unwrap());
        Shortage {
            scope: scope("ca"),
            domain: "c1".into(),
            key: "pods".into(),
            requested,
            hard,
            allocated,
            would_fit,
        }
    }

    fn namespace(name: &str) -> RefusedObject<'_> {
        RefusedObject { name, kind: &NAMESPACE, holds: None }
    }

    fn project(name: &str) -> RefusedObject<'_> {
        RefusedObject { name, kind: &PROJECT, holds: None }
    }

    fn causes(status: &Status) -> Vec<(&str, &str)> {
        let causes = &status.details.as_ref().unwrap().causes;
        causes.iter().map(|c| (c.reason.as_str(), c.field.as_str())).collect()
    }

    #[test]
    fn an_amount_that_does_not_fit_says_what_would() {
        let refused = status(namespace("c1-web"), &[Violation::DoesNotFit(shortage("90", "59"))]);
        assert_eq!((refused.code, refused.reason.as_str()), (403, "Forbidden"));
        assert_eq!(
            refused.message,
            "namespaces.business.tkestack.io \"c1-web\" is forbidden: exceeded quota of project \"ca\" on cluster \
             \"c1\": requested pods=90, hard 100, allocated 41, remaining 59; the largest that fits is 59"
        );
        let details = refused.details.unwrap();
        assert_eq!((details.name.as_str(), details.kind.as_str()), ("c1-web", "namespaces"));
        assert_eq!(details.causes[0].reason, QUOTA_EXCEEDED);
        assert_eq!(details.causes[0].field, "spec.hard[pods]");
        assert_eq!(
            details.causes[0].message,
            "project=ca cluster=c1 resource=pods requested=90 hard=100 allocated=41 remaining=59 fits=59"
        );
    }

    #[test]
    fn what_is_held_without_an_object_is_named() {
        let places = (1..=6).map(|n| format!("lost-{n} (orphaned)")).collect();
        let unowned = Unowned { amount: "40".parse().unwrap(), places };
        assert_eq!(
            held(&unowned),
            " (of what is allocated, 40 is held for namespaces of the cluster that no object stands for: lost-1 \
             (orphaned), lost-2 (orphaned), lost-3 (orphaned), lost-4 (orphaned), lost-5 (orphaned), 1 more)"
        );
    }

    #[test]
    fn a_limit_below_what_is_given_away_says_the_smallest() {
        let refused = status(project("ca"), &[Violation::BelowAllocated(shortage("30", "41"))]);
        assert_eq!(refused.code, 403);
        assert!(
            refused.message.ends_with("hard cannot be 30; the smallest that fits is 41"),
            "{}",
            refused.message
        );
        assert_eq!(causes(&refused), [(BELOW_ALLOCATED, "spec.clusters[c1].hard[pods]")]);
    }

    #[test]
    fn what_no_amount_can_mend_comes_first_and_all_is_told() {
        let missing = Violation::KeyMissing { scope: scope("ca"), domain: "c1".into(), key: "cpu".into() };
        let refused = status(project("kid"), &[Violation::DoesNotFit(shortage("90", "59")), missing]);
        assert_eq!((refused.code, refused.reason.as_str()), (422, "Invalid"));
        assert_eq!(
            causes(&refused),
            [(QUOTA_EXCEEDED, "spec.clusters[c1].hard[pods]"), ("FieldValueInvalid", "spec.hard[cpu]")]
        );
    }

    #[test]
    fn a_key_that_is_missing_on_several_clusters_says_which() {
        let missing = |domain: &str| Violation::KeyMissing {
            scope: scope("ca"),
            domain: domain.into(),
            key: "pods".into(),
        };
        let refused = status(project("kid"), &[missing("c1"), missing("c2"), missing(REGISTRY_DOMAIN)]);
        let texts = [
            "must set quota \"pods\" on cluster \"c1\", for the parent project \"ca\"",
            "must set quota \"pods\" on cluster \"c2\", for",
            "must set quota \"pods\" of the registry, for",
        ];
        for text in texts {
            assert!(refused.message.contains(text), "{}", refused.message);
        }
        // The field is the one that clients of the original know.
        assert_eq!(causes(&refused), [("FieldValueInvalid", "spec.hard[pods]"); 3]);
        let lacking = Violation::ChildrenLackKey {
            scope: scope("ca"),
            domain: "c2".into(),
            key: "pods".into(),
            children: 2,
        };
        let refused = status(project("ca"), &[lacking]);
        let text = "please first set quota \"pods\" on cluster \"c2\" for all children: 2 of them lack it";
        assert!(refused.message.contains(text), "{}", refused.message);
    }

    #[test]
    fn a_foreign_project_is_told_as_a_missing_one() {
        let scope = scope("theirs");
        let of_foreign = [Violation::ScopeForeign { scope: scope.clone() }];
        let to_operators = status(namespace("a"), &of_foreign);
        assert!(to_operators.message.ends_with("not found in this tenant: it is another one's"));
        let confined = RefusedObject { holds: Some(&scope), ..namespace("a") };
        let foreign = status(confined, &of_foreign);
        assert_eq!(foreign, status(confined, &[Violation::ScopeMissing { scope: scope.clone() }]));
        assert_eq!((foreign.code, foreign.reason.as_str()), (404, "NotFound"));
        assert_eq!(foreign.message, "projects.business.tkestack.io \"theirs\" not found");
        assert_eq!(causes(&foreign), [("FieldValueNotFound", "metadata.namespace")]);
    }

    #[test]
    fn a_terminating_project_is_told_as_client_go_expects_it() {
        let refused = status(namespace("a"), &[Violation::ScopeTerminating { scope: scope("p") }]);
        assert_eq!(refused.code, 403);
        assert_eq!(
            refused.message,
            "namespaces.business.tkestack.io \"a\" is forbidden: unable to create new content in namespace p because \
             it is being terminated"
        );
        let cause = &refused.details.unwrap().causes[0];
        assert_eq!(
            (cause.reason.as_str(), cause.message.as_str(), cause.field.as_str()),
            ("NamespaceTerminating", "namespace p is being terminated", "metadata.namespace")
        );
    }

    #[test]
    fn a_taken_claim_is_a_conflict_that_does_not_name_its_holder() {
        let holder = "6ba7b810-9dad-11d1-80b4-00c04fd430c8".parse().unwrap();
        let claim = Claim { domain: "c1".into(), place: "web".into() };
        let refused = status(namespace("a"), &[Violation::ClaimTaken { claim, holder }]);
        assert_eq!((refused.code, refused.reason.as_str()), (409, "Conflict"));
        assert!(!serde_json::to_string(&refused).unwrap().contains("6ba7b810"));
    }
}

//! The answer to a write that the quota rules refuse: one Status that names the project, the cluster and the resource,
//! what was requested, and what would fit. `docs/api.md` describes its machine-readable part.

use crate::allocations::{Allocations, HeldAllocation};
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
use meta::object::Object;
use meta::quantity::Quantity;
use meta::status::{Status, StatusCause};
use serde_json::json;
use store::quota::{Claim, Scope, Shortage, Violation};

const NOT_FOUND: &str = "FieldValueNotFound";
/// How many held namespaces a message names.
const HELD_NAMESPACES_MAX: usize = 5;

/// The object whose write was refused.
#[derive(Clone, Copy, Debug)]
pub struct RefusedObject<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its kind.
    pub kind: &'static RefusedKind,
    /// The scope whose holds the writer may learn of: that another project holds a namespace is not told. `None` for a
    /// writer who sees everything.
    pub holds: Option<&'a Scope>,
}

/// A kind whose writes can be refused, with the paths of the fields that a refusal names.
#[derive(Debug)]
pub struct RefusedKind {
    /// Its group, version and kind.
    pub gvk: fn() -> GroupVersionKind,
    /// Its group and plural.
    pub resource: fn() -> GroupResource,
    /// The field that names the scope that the object pays.
    pub scope: &'static str,
    /// The field to name when the scope does not list a domain.
    pub domain: &'static str,
    /// The field that names the claimed place.
    pub place: &'static str,
    /// The field with the amount of a key in a domain.
    pub amount: fn(domain: &str, key: &str) -> Path,
}

/// The kind of answer to a violation. Of several violations, the first in this order decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum RefusalClass {
    /// 404: a project that does not exist for the caller.
    Missing,
    /// 403 with the cause `NamespaceTerminating`, which client-go knows.
    Terminating,
    /// 403 until an operator unlocks the project.
    Locked,
    /// 422: no other amount would help.
    Malformed,
    /// 409.
    Conflict,
    /// 403: a smaller amount would do.
    Amount,
}

/// The answer when the quota rules refuse an object that costs nothing and claims nothing: the ledger has a defect.
pub fn of_uncharged(object: &Object, violations: &[Violation]) -> Status {
    tracing::error!(name = object.name(), ?violations, "what costs nothing was refused by quota");
    Status::internal("the write was refused by quota")
}

/// One Status for all violations of a write. `allocations` know which amounts are held without an object.
pub fn status(subject: RefusedObject<'_>, violations: &[Violation], allocations: &Allocations) -> Status {
    let Some(class) = violations.iter().map(class_of).min() else {
        return Status::internal("the write was refused without a reason");
    };
    let causes: Vec<StatusCause> = violations.iter().map(|v| cause(subject, v, allocations)).collect();
    let of_class: Vec<&Violation> = violations.iter().filter(|v| class_of(v) == class).collect();
    let (resource, name) = ((subject.kind.resource)(), subject.name);
    let base = match class {
        RefusalClass::Missing => not_found(subject, &of_class),
        RefusalClass::Terminating | RefusalClass::Locked | RefusalClass::Amount => {
            Status::forbidden(&resource, name, &violation_texts(subject, &of_class, allocations))
        }
        RefusalClass::Malformed => {
            let errors: FieldErrors = of_class.iter().map(|v| field_error(subject, v, allocations)).collect();
            Status::invalid(&(subject.kind.gvk)(), name, &errors)
        }
        RefusalClass::Conflict => {
            Status::conflict(&resource, name, &violation_texts(subject, &of_class, allocations))
        }
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

fn class_of(violation: &Violation) -> RefusalClass {
    match violation {
        Violation::ScopeMissing { .. }
        | Violation::ScopeForeign { .. }
        | Violation::AncestorMissing { .. } => RefusalClass::Missing,
        Violation::ScopeTerminating { .. } => RefusalClass::Terminating,
        Violation::ScopeLocked { .. } => RefusalClass::Locked,
        // A caller with the verb `grant` may.
        Violation::DomainNotListed { scope, .. } if scope.kind == TENANT => RefusalClass::Amount,
        Violation::KeyMissing { .. }
        | Violation::ChildrenLackKey { .. }
        | Violation::DomainNotListed { .. }
        | Violation::DomainInUse { .. }
        | Violation::Cycle { .. } => RefusalClass::Malformed,
        Violation::ClaimTaken { .. } | Violation::ScopeInUse { .. } => RefusalClass::Conflict,
        Violation::DoesNotFit(_)
        | Violation::BelowAllocated(_)
        | Violation::ScopeOverdrawn { .. }
        | Violation::TooManyChildren { .. } => RefusalClass::Amount,
    }
}

/// 404. Another tenant's project gets the answer of one that does not exist, unless the writer sees everything.
fn not_found(subject: RefusedObject<'_>, violations: &[&Violation]) -> Status {
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

fn violation_texts(
    subject: RefusedObject<'_>,
    violations: &[&Violation],
    allocations: &Allocations,
) -> String {
    let texts = violations.iter().map(|v| match v {
        Violation::DoesNotFit(shortage) | Violation::BelowAllocated(shortage) => {
            violation_text(v)
                + &held_allocation(shortage, allocations).as_ref().map(held_note).unwrap_or_default()
        }
        Violation::ClaimTaken { claim, holder } if allocations.is_hold(*holder, subject.holds) => {
            format!("{} is held: it is there, or was, and no object stands for it", claim_phrase(claim))
        }
        other => violation_text(other),
    });
    texts.collect::<Vec<_>>().join("; ")
}

/// What is held of a limit, in the unit of the shortage.
fn held_allocation(shortage: &Shortage, allocations: &Allocations) -> Option<HeldAllocation> {
    let HeldAllocation { amount, namespaces } =
        allocations.held(&shortage.scope, &shortage.domain, &shortage.key)?;
    let amount = Quantity::from_nanos(amount.nanos(), shortage.allocated.format());
    Some(HeldAllocation { amount, namespaces })
}

fn held_note(held: &HeldAllocation) -> String {
    let HeldAllocation { amount, namespaces } = held;
    format!(
        " (of what is allocated, {amount} is held for namespaces of the cluster beyond what objects are charged: {})",
        first_names(namespaces)
    )
}

/// The children that a violation counts and that no object stands for.
fn held_children_note(
    subject: RefusedObject<'_>,
    violation: &Violation,
    allocations: &Allocations,
) -> String {
    let (scope, domain, lacking) = match violation {
        Violation::ChildrenLackKey { scope, domain, key, .. } => (scope, domain, Some(key.as_str())),
        Violation::DomainInUse { scope, domain, .. } => (scope, domain, None),
        _ => return String::new(),
    };
    if subject.holds.is_some_and(|own| own != scope) {
        return String::new();
    }
    let namespaces = allocations.held_children(scope, domain, lacking);
    if namespaces.is_empty() {
        return String::new();
    }
    format!(
        " (counting what is held for namespaces of the cluster beyond what objects are charged: {})",
        first_names(&namespaces)
    )
}

/// The first of these names, and how many more there are.
fn first_names(names: &[String]) -> String {
    let more = names.len().saturating_sub(HELD_NAMESPACES_MAX);
    let mut named: Vec<&str> = names.iter().take(HELD_NAMESPACES_MAX).map(String::as_str).collect();
    let rest = format!("{more} more");
    if more > 0 {
        named.push(&rest);
    }
    named.join(", ")
}

/// A scope in a message: `project "web"`.
fn scope_phrase(scope: &Scope) -> String {
    format!("{} {:?}", scope_word(scope.kind), scope.name)
}

/// A scope and a domain: `project "web" on cluster "c1"`; of the fleet, which users do not know, only `cluster "c1"`.
fn scope_in_domain_phrase(scope: &Scope, domain: &str) -> String {
    if scope.kind == FLEET {
        domain_phrase(domain)
    } else {
        format!("{} {}", scope_phrase(scope), in_domain_phrase(domain))
    }
}

/// A domain: `cluster "c1"`, or `the registry`.
fn domain_phrase(domain: &str) -> String {
    if domain == REGISTRY_DOMAIN { "the registry".to_owned() } else { format!("cluster {domain:?}") }
}

/// Where an amount counts: `on cluster "c1"`, or `in the registry`.
fn in_domain_phrase(domain: &str) -> String {
    format!("{} {}", if domain == REGISTRY_DOMAIN { "in" } else { "on" }, domain_phrase(domain))
}

/// A key and its domain: `"pods" on cluster "c1"`, or `"requests.storage" of the registry`.
fn key_phrase(key: &str, domain: &str) -> String {
    if domain == REGISTRY_DOMAIN {
        format!("{key:?} of the registry")
    } else {
        format!("{key:?} {}", in_domain_phrase(domain))
    }
}

/// A claimed place: `namespace "web" of cluster "c1"`, or `name "backend" of the registry`.
fn claim_phrase(claim: &Claim) -> String {
    let Claim { domain, place } = claim;
    let what = if domain == REGISTRY_DOMAIN { "name" } else { "namespace" };
    format!("{what} {place:?} of {}", domain_phrase(domain))
}

/// A domain in the message of a cause: `cluster=c1`, or `domain=registry`.
fn domain_pair(domain: &str) -> String {
    format!("{}={domain}", if domain == REGISTRY_DOMAIN { "domain" } else { "cluster" })
}

/// The text of [`Violation::DomainNotListed`].
fn not_listed_text(scope: &Scope, domain: &str) -> String {
    let scope_text = scope_phrase(scope);
    match scope.kind {
        TENANT => format!(
            "{scope_text} has no ceiling {}: to take budget from nobody needs the verb {GRANT:?} on projects",
            in_domain_phrase(domain)
        ),
        FLEET => format!("{} is not registered: it has no membercluster", domain_phrase(domain)),
        _ => {
            format!("{scope_text} forbids its children to use {}: it does not list it", domain_phrase(domain))
        }
    }
}

/// The text of [`Violation::BelowAllocated`].
fn below_allocated_text(shortage: &Shortage) -> String {
    let Shortage { scope, domain, key, requested, allocated, would_fit, .. } = shortage;
    let (scope, place) = match scope.kind {
        FLEET => (domain_phrase(domain), String::new()),
        _ => (scope_phrase(scope), format!(" {}", in_domain_phrase(domain))),
    };
    format!(
        "{scope} has already given away {key}={allocated}{place}: hard cannot be {requested}; the smallest that fits is \
         {would_fit}"
    )
}

/// The text of a violation, for people.
fn violation_text(violation: &Violation) -> String {
    match violation {
        Violation::DoesNotFit(shortage) => {
            let Shortage { scope, domain, key, requested, hard, allocated, would_fit } = shortage;
            let (scope, remaining) = (scope_in_domain_phrase(scope, domain), remaining(shortage));
            format!(
                "exceeded quota of {scope}: requested {key}={requested}, hard {hard}, allocated {allocated}, remaining \
                 {remaining}; the largest that fits is {would_fit}"
            )
        }
        Violation::BelowAllocated(shortage) => below_allocated_text(shortage),
        Violation::TooManyChildren { scope, children_max } => {
            let (name, word) = (scope_phrase(scope), scope_word(scope.kind));
            format!("{name} has {children_max} children, which is as many as a {word} may have")
        }
        Violation::ScopeTerminating { scope } => {
            format!("unable to create new content in namespace {} because it is being terminated", scope.name)
        }
        Violation::ScopeLocked { scope } => format!("{} has been locked by an operator", scope_phrase(scope)),
        Violation::ClaimTaken { claim, .. } => {
            format!("{} is already taken by another object", claim_phrase(claim))
        }
        Violation::ScopeOverdrawn { scope } => {
            format!(
                "the children of {} have more than it is granted: it can be moved when they have less",
                scope_phrase(scope)
            )
        }
        Violation::ScopeInUse { scope, children } => {
            format!("{} still has {children} children; they are deleted first", scope_phrase(scope))
        }
        Violation::KeyMissing { scope, domain, key } if scope.kind == FLEET => {
            format!("must set a ceiling of {key:?}, for {} limits it", domain_phrase(domain))
        }
        Violation::KeyMissing { scope, domain, key } => {
            let (key, parent) = (key_phrase(key, domain), scope_phrase(scope));
            format!("must set quota {key}, for the parent {parent} has set this kind of quota")
        }
        Violation::ChildrenLackKey { domain, key, children, .. } => {
            let key = key_phrase(key, domain);
            format!("please first set quota {key} for all children: {children} of them lack it")
        }
        Violation::DomainNotListed { scope, domain } => not_listed_text(scope, domain),
        Violation::DomainInUse { domain, children, .. } => {
            format!("can NOT remove {}: {children} children use it", domain_phrase(domain))
        }
        Violation::Cycle { scope } => format!(
            "ancestor projects formed a circle at {:?}, or there are more than 100 levels above",
            scope.name
        ),
        Violation::ScopeMissing { scope } | Violation::ScopeForeign { scope } => {
            format!("{} not found", scope_phrase(scope))
        }
        Violation::AncestorMissing { scope } => format!("ancestor {} not found", scope_phrase(scope)),
    }
}

fn remaining(shortage: &Shortage) -> Quantity {
    let left = shortage.hard.checked_sub(shortage.allocated).unwrap_or(Quantity::ZERO);
    if left.is_negative() { Quantity::ZERO } else { left }
}

/// The field error of a 422, with the paths that clients of `TKEStack` know.
fn field_error(subject: RefusedObject<'_>, violation: &Violation, allocations: &Allocations) -> FieldError {
    let spec = Path::new("spec");
    let detail = violation_text(violation) + &held_children_note(subject, violation, allocations);
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
        other => FieldError::forbidden(&subject.scope_field(), &violation_text(other)),
    }
}

/// The cause for programs: a reason, the field, and `key=value` pairs for amounts.
fn cause(subject: RefusedObject<'_>, violation: &Violation, allocations: &Allocations) -> StatusCause {
    let (reason, field, message) = match violation {
        Violation::DoesNotFit(s) => (QUOTA_EXCEEDED, subject.amount_field(s), shortage_pairs(s, allocations)),
        Violation::BelowAllocated(s) => {
            (BELOW_ALLOCATED, subject.amount_field(s), shortage_pairs(s, allocations))
        }
        Violation::TooManyChildren { scope, children_max } => {
            (TOO_MANY_CHILDREN, subject.scope_field(), format!("{} max={children_max}", scope_pair(scope)))
        }
        Violation::ScopeTerminating { scope } => {
            let message = format!("namespace {} is being terminated", scope.name);
            (NAMESPACE_TERMINATING, subject.scope_field(), message)
        }
        Violation::ScopeLocked { scope } => (PROJECT_LOCKED, subject.scope_field(), scope_pair(scope)),
        Violation::ClaimTaken { claim, .. } => {
            let what = if claim.domain == REGISTRY_DOMAIN { "name" } else { "namespace" };
            let message = format!("{} {what}={}", domain_pair(&claim.domain), claim.place);
            (CLAIM_TAKEN, Path::new(subject.kind.place), message)
        }
        Violation::ScopeOverdrawn { scope } => (PROJECT_OVERDRAWN, subject.scope_field(), scope_pair(scope)),
        Violation::ScopeInUse { scope, children } => (
            if scope.kind == TENANT { TENANT_IN_USE } else { PROJECT_IN_USE },
            Path::new("spec").child("finalizers"),
            format!("{} children={children}", scope_pair(scope)),
        ),
        Violation::ScopeMissing { scope }
        | Violation::ScopeForeign { scope }
        | Violation::AncestorMissing { scope } => {
            (NOT_FOUND, subject.scope_field(), format!("Not found: {:?}", scope.name))
        }
        Violation::DomainNotListed { scope, domain } if scope.kind == TENANT => {
            let message = format!("{} {}", scope_pair(scope), domain_pair(domain));
            (NO_CEILING, Path::new("spec").child("clusters").key(domain), message)
        }
        malformed => {
            let error = field_error(subject, malformed, allocations);
            return StatusCause {
                reason: error.cause.reason().to_owned(),
                message: error.message,
                field: error.field,
            };
        }
    };
    StatusCause { reason: reason.to_owned(), message, field: field.to_string() }
}

/// A scope in the message of a cause: `project=web`.
fn scope_pair(scope: &Scope) -> String {
    format!("{}={}", scope_word(scope.kind), scope.name)
}

fn shortage_pairs(shortage: &Shortage, allocations: &Allocations) -> String {
    let Shortage { scope, domain, key, requested, hard, allocated, would_fit } = shortage;
    let scope = if scope.kind == FLEET { "scope=cluster".to_owned() } else { scope_pair(scope) };
    let remaining = remaining(shortage);
    let held = held_allocation(shortage, allocations).map(|held| format!(" held={}", held.amount));
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
        super::status(subject, violations, &Allocations::default())
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
        let namespaces = (1..=6).map(|n| format!("lost-{n} (orphaned)")).collect();
        let held = HeldAllocation { amount: "40".parse().unwrap(), namespaces };
        assert_eq!(
            held_note(&held),
            " (of what is allocated, 40 is held for namespaces of the cluster beyond what objects are charged: lost-1 \
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

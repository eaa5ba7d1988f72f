//! Who people are in member clusters: the names that bindings, certificates and admission policies agree on.
//!
//! They begin with our word. Neither a tenant nor an operator can choose a name that equals another's, since a tenant
//! in them has no colon. An operator, who has no tenant, is `business::NAME`.
//!
//! | who | name |
//! |---|---|
//! | a user whose credential names the tenant | `business:TENANT:NAME` |
//! | one whose own name could be read as another of these | `business:TENANT:member:NAME` |
//! | a user whose credential names no tenant | `business:TENANT:user:NAME` |
//! | a group | `business:TENANT:group:NAME` |
//! | those who rule a tenant | `business:TENANT:administrators` |
//!
//! Two users of the same name, one with a tenant in his credential and one without, are two people.

use serde::{Deserialize, Serialize};

/// What every name of ours begins with.
const PREFIX: &str = "business:";
/// The group of a tenant's administrators ends with this.
const ADMINISTRATORS: &str = "administrators";
/// Stands before the name of a group.
const GROUP: &str = "group:";
/// Stands before the name of a user whose credential names no tenant.
const USER: &str = "user:";
/// Stands before the name of a user whose credential names the tenant, where it could be read as something else.
const MEMBER: &str = "member:";
/// The names that only Kubernetes gives begin with this.
const KUBERNETES: &str = "system:";
/// Bytes of a name. The cluster's policies read certificates of this size.
pub const NAME_BYTES_MAX: usize = 200;

/// A user whose credential names the tenant, as member clusters know him; `None` when he cannot be named there.
pub fn user(tenant: &str, name: &str) -> Option<String> {
    match name {
        "" => None,
        _ if is_plain_user(name) && ![USER, MEMBER].iter().any(|mark| name.starts_with(mark)) => {
            named(tenant, name)
        }
        _ => named(tenant, &format!("{MEMBER}{name}")),
    }
}

/// A user whose credential names no tenant, as the clusters of this tenant know him; `None` when he cannot be named there.
pub fn host_user(tenant: &str, name: &str) -> Option<String> {
    if name.is_empty() {
        return None;
    }
    named(tenant, &format!("{USER}{name}"))
}

/// A group of a tenant's users, as member clusters know it; `None` when it cannot be named there.
pub fn group(tenant: &str, name: &str) -> Option<String> {
    if name.is_empty() {
        return None;
    }
    named(tenant, &format!("{GROUP}{name}"))
}

/// The group of a tenant's administrators, as member clusters know it; `None` when it cannot be named there.
pub fn administrators(tenant: &str) -> Option<String> {
    named(tenant, ADMINISTRATORS)
}

/// The name of somebody in a cluster that knows people by the host cluster's names; `None` for a name of Kubernetes' or
/// of ours, which means somebody else.
pub fn shared(name: &str) -> Option<String> {
    let is_theirs = !name.is_empty() && !name.starts_with(KUBERNETES) && !name.starts_with(PREFIX);
    (is_theirs && is_writable(name)).then(|| name.to_owned())
}

/// Whether a name has the form of those that we give users.
pub fn is_user(name: &str) -> bool {
    of_ours(name).is_some_and(is_plain_user)
}

/// Whether a name has the form of those that we give groups.
pub fn is_group(name: &str) -> bool {
    of_ours(name).is_some_and(|rest| {
        rest == ADMINISTRATORS || rest.strip_prefix(GROUP).is_some_and(|group| !group.is_empty())
    })
}

fn is_plain_user(name: &str) -> bool {
    name != ADMINISTRATORS && !name.starts_with(GROUP)
}

/// The part of one of our names after the tenant.
fn of_ours(name: &str) -> Option<&str> {
    let (_tenant, rest) = name.strip_prefix(PREFIX)?.split_once(':')?;
    (!rest.is_empty() && is_writable(name)).then_some(rest)
}

fn named(tenant: &str, name: &str) -> Option<String> {
    let text = format!("{PREFIX}{tenant}:{name}");
    (!tenant.contains(':') && is_writable(&text)).then_some(text)
}

fn is_writable(name: &str) -> bool {
    name.len() <= NAME_BYTES_MAX && !name.chars().any(char::is_control)
}

/// What somebody may do in a project, and in its namespaces in member clusters. The lesser come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AccessRole {
    /// To look.
    View,
    /// Namespaces, and what is in them.
    Edit,
    /// Access, projects below, and all of the above.
    Admin,
}

impl AccessRole {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::View, Self::Edit, Self::Admin];

    /// All of them, as they are written in `spec.access`.
    pub const WORDS: [&'static str; 3] = ["admin", "edit", "view"];

    /// The name of its `ClusterRole` in member clusters, and of the `RoleBinding` to it in each namespace of ours.
    pub const fn name(self) -> &'static str {
        match self {
            Self::View => "business:view",
            Self::Edit => "business:edit",
            Self::Admin => "business:admin",
        }
    }

    /// The role of a `RoleBinding` of ours.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_two_tenants_never_meet() {
        assert_eq!(user("acme", "b:c").as_deref(), Some("business:acme:b:c"));
        assert_eq!(user("acme:b", "c"), None, "it would be the other tenant's user");
        assert_eq!(administrators("acme").as_deref(), Some("business:acme:administrators"));
        assert_eq!(administrators("acme:x"), None);
        assert_eq!(user("", "root").as_deref(), Some("business::root"), "an operator");
    }

    /// Users choose their names at their provider, and groups at theirs.
    #[test]
    fn no_user_has_the_name_of_a_group_or_of_another_user() {
        let odd = [
            "a",
            "user:a",
            "user:user:a",
            "member:a",
            "group:a",
            "user:group:a",
            "group:",
            "user:",
            "x:group:a",
        ];
        let odd = odd.into_iter().chain(["administrators", "user:administrators", "group:administrators"]);
        let mut names: Vec<String> = vec![administrators("t").unwrap()];
        for name in odd.clone() {
            let (users, group) =
                ([user, host_user].map(|of| of("t", name).unwrap()), group("t", name).unwrap());
            for user in &users {
                assert!(is_user(user) && !is_group(user), "{user}");
            }
            assert!(is_group(&group) && !is_user(&group), "{group}");
            names.extend(users);
            names.push(group);
        }
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count, "{names:?}");
        assert_eq!(user("t", "administrators").unwrap(), "business:t:member:administrators");
    }

    #[test]
    fn a_name_of_ours_is_known_by_its_form() {
        for ours in ["business:acme:alice", "business::root", "business:a:b:c", "business:a:user:group:c"] {
            assert!(is_user(ours) && !is_group(ours), "{ours}");
        }
        for ours in ["business:acme:administrators", "business:acme:group:devs", "business:a:group:b:c"] {
            assert!(is_group(ours) && !is_user(ours), "{ours}");
        }
        for other in [
            "",
            "business:",
            "business:acme",
            "business:acme:",
            "business:acme:group:",
            "business:break-glass",
            "system:masters",
            "xbusiness:a:b",
        ] {
            assert!(!is_user(other) && !is_group(other), "{other}");
        }
    }

    #[test]
    fn a_shared_name_is_neither_kubernetes_nor_ours() {
        assert_eq!(shared("oidc:alice").as_deref(), Some("oidc:alice"));
        for name in ["", "system:masters", "business:break-glass", "business:acme:administrators", "a\nb"] {
            assert_eq!(shared(name), None, "{name:?}");
        }
        assert_eq!(shared(&"x".repeat(NAME_BYTES_MAX + 1)), None);
    }

    #[test]
    fn what_a_certificate_or_a_policy_could_misread_is_no_name() {
        for name in ["", "a\nb", "a\0", "\u{85}"] {
            assert_eq!(user("t", name), None, "{name:?}");
        }
        assert!(user("t", &"x".repeat(NAME_BYTES_MAX - "business:t:".len())).is_some());
        assert_eq!(user("t", &"x".repeat(NAME_BYTES_MAX)), None);
        assert!(user("t", "j\u{fc}rgen@example.org").is_some());
    }
}

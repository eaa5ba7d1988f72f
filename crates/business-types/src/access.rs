//! The names of users and groups in member clusters, which bindings, certificates and admission policies use.
//!
//! They begin with our prefix. The tenant in them has no colon, so nobody can choose a name that equals somebody
//! else's. An operator, who has no tenant, is `business::NAME`.
//!
//! | who | name |
//! |---|---|
//! | a user whose credential names the tenant | `business:TENANT:NAME` |
//! | such a user, if his name looks like one of the next forms | `business:TENANT:member:NAME` |
//! | a user whose credential names no tenant | `business:TENANT:user:NAME` |
//! | a group | `business:TENANT:group:NAME` |
//! | the administrators of a tenant | `business:TENANT:administrators` |
//!
//! Two users of the same name, one with a tenant in his credential and one without, are different users.

use serde::{Deserialize, Serialize};

/// The prefix of all these names.
const PREFIX: &str = "business:";
/// The last part of the group of a tenant's administrators.
const ADMINISTRATORS: &str = "administrators";
/// The prefix of the name of a group.
const GROUP: &str = "group:";
/// The prefix of the name of a user whose credential names no tenant.
const USER: &str = "user:";
/// The prefix of the name of a user whose credential names the tenant, if the name could be mistaken for another form.
const MEMBER: &str = "member:";
/// The prefix of names that only Kubernetes itself uses.
const KUBERNETES: &str = "system:";
/// The maximum number of bytes of a name. The cluster's admission policies can read certificates of this size.
pub const NAME_BYTES_MAX: usize = 200;

/// The name in member clusters of a user whose credential names the tenant; `None` if there is no valid one.
pub fn user(tenant: &str, name: &str) -> Option<String> {
    match name {
        "" => None,
        _ if is_plain_user(name) && ![USER, MEMBER].iter().any(|mark| name.starts_with(mark)) => {
            tenant_name(tenant, name)
        }
        _ => tenant_name(tenant, &format!("{MEMBER}{name}")),
    }
}

/// The name in clusters of this tenant of a user whose credential names no tenant; `None` if there is no valid one.
pub fn host_user(tenant: &str, name: &str) -> Option<String> {
    if name.is_empty() {
        return None;
    }
    tenant_name(tenant, &format!("{USER}{name}"))
}

/// The name in member clusters of a group of a tenant; `None` if there is no valid one.
pub fn group(tenant: &str, name: &str) -> Option<String> {
    if name.is_empty() {
        return None;
    }
    tenant_name(tenant, &format!("{GROUP}{name}"))
}

/// The name in member clusters of the group of a tenant's administrators; `None` if there is no valid one.
pub fn administrators(tenant: &str) -> Option<String> {
    tenant_name(tenant, ADMINISTRATORS)
}

/// The name of a user or group in a cluster that uses the host cluster's names ([`crate::ClusterIdentity::Shared`]).
/// `None` for a name with the prefix of Kubernetes or of ours, which would mean somebody else.
pub fn shared_name(name: &str) -> Option<String> {
    let is_unreserved = !name.is_empty() && !name.starts_with(KUBERNETES) && !name.starts_with(PREFIX);
    (is_unreserved && is_valid_name(name)).then(|| name.to_owned())
}

/// Whether a name has the form of our names for users.
pub fn is_user(name: &str) -> bool {
    after_tenant(name).is_some_and(is_plain_user)
}

/// Whether a name has the form of our names for groups.
pub fn is_group(name: &str) -> bool {
    after_tenant(name).is_some_and(|rest| {
        rest == ADMINISTRATORS || rest.strip_prefix(GROUP).is_some_and(|group| !group.is_empty())
    })
}

fn is_plain_user(name: &str) -> bool {
    name != ADMINISTRATORS && !name.starts_with(GROUP)
}

/// The part of one of our names after the tenant.
fn after_tenant(name: &str) -> Option<&str> {
    let (_tenant, rest) = name.strip_prefix(PREFIX)?.split_once(':')?;
    (!rest.is_empty() && is_valid_name(name)).then_some(rest)
}

fn tenant_name(tenant: &str, name: &str) -> Option<String> {
    let text = format!("{PREFIX}{tenant}:{name}");
    (!tenant.contains(':') && is_valid_name(&text)).then_some(text)
}

fn is_valid_name(name: &str) -> bool {
    name.len() <= NAME_BYTES_MAX && !name.chars().any(char::is_control)
}

/// What a subject may do in a project and in its namespaces in member clusters. Ordered from the weakest role to the
/// strongest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AccessRole {
    /// Read.
    View,
    /// Also manage namespaces and their content.
    Edit,
    /// Also manage access and child projects.
    Admin,
}

impl AccessRole {
    /// All roles.
    pub const ALL: [Self; 3] = [Self::View, Self::Edit, Self::Admin];

    /// The names of all roles in `spec.access`.
    pub const WORDS: [&'static str; 3] = ["admin", "edit", "view"];

    /// The name of its `ClusterRole` in member clusters, and of the `RoleBinding` to it in each of our namespaces.
    pub const fn name(self) -> &'static str {
        match self {
            Self::View => "business:view",
            Self::Edit => "business:edit",
            Self::Admin => "business:admin",
        }
    }

    /// The role with this name of a `ClusterRole`.
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
        assert_eq!(shared_name("oidc:alice").as_deref(), Some("oidc:alice"));
        for name in ["", "system:masters", "business:break-glass", "business:acme:administrators", "a\nb"] {
            assert_eq!(shared_name(name), None, "{name:?}");
        }
        assert_eq!(shared_name(&"x".repeat(NAME_BYTES_MAX + 1)), None);
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

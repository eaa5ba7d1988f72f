//! Who people are in member clusters: the names that bindings, certificates and admission policies agree on.
//!
//! They begin with a word of ours, and neither a tenant nor an operator can make them equal another's: a tenant in them
//! has no colon. Whoever has no tenant, an operator, is `business::NAME`.

use serde::{Deserialize, Serialize};

/// What every name of ours begins with.
const PREFIX: &str = "business:";
/// The group of a tenant's administrators ends with this.
const ADMINISTRATORS: &str = "administrators";
/// Bytes of a name. The cluster's policies read certificates of this size.
pub const NAME_BYTES_MAX: usize = 200;

/// A user of a tenant, as member clusters know him; `None` when he cannot be named there.
pub fn user(tenant: &str, name: &str) -> Option<String> {
    if name.is_empty() {
        return None;
    }
    named(tenant, name)
}

/// The group of a tenant's administrators, as member clusters know it; `None` when it cannot be named there.
pub fn administrators(tenant: &str) -> Option<String> {
    named(tenant, ADMINISTRATORS)
}

/// Whether a name can be one of ours, whoever it belongs to.
pub fn is_ours(name: &str) -> bool {
    let rest = name.strip_prefix(PREFIX).and_then(|rest| rest.split_once(':'));
    rest.is_some_and(|(tenant, user)| {
        named(tenant, user).is_some_and(|ours| ours == name && !user.is_empty())
    })
}

fn named(tenant: &str, name: &str) -> Option<String> {
    let text = format!("{PREFIX}{tenant}:{name}");
    let is_plain = !tenant.contains(':') && !text.chars().any(char::is_control);
    (is_plain && text.len() <= NAME_BYTES_MAX).then_some(text)
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
    pub fn name(self) -> &'static str {
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

    #[test]
    fn a_name_of_ours_is_known_by_its_form() {
        for ours in ["business:acme:alice", "business::root", "business:a:b:c"] {
            assert!(is_ours(ours), "{ours}");
        }
        for other in [
            "",
            "business:",
            "business:acme",
            "business:acme:",
            "business:break-glass",
            "system:masters",
            "xbusiness:a:b",
        ] {
            assert!(!is_ours(other), "{other}");
        }
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

/// The prefix of users and groups that are the cluster's own.
pub(crate) const SYSTEM_PREFIX: &str = "system:";

/// The names that an issuer may give to users, or to groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AllowedNames {
    /// Names with this prefix.
    WithPrefix(String),
    /// All names without the prefix of another issuer.
    AllExcept {
        /// The prefixes of the other issuers.
        prefixes: Vec<String>,
    },
}

impl AllowedNames {
    /// Why the issuer may not give a name; `None` if it may.
    pub(crate) fn rejection(&self, name: &str) -> Option<String> {
        if name.starts_with(SYSTEM_PREFIX) {
            return Some(format!(
                "{name:?} is reserved: no issuer may give names that begin with {SYSTEM_PREFIX:?}"
            ));
        }
        match self {
            Self::WithPrefix(prefix) if !name.starts_with(prefix.as_str()) => {
                Some(format!("{name:?} does not begin with {prefix:?}"))
            }
            Self::AllExcept { prefixes } => {
                let other = prefixes.iter().find(|prefix| name.starts_with(prefix.as_str()))?;
                Some(format!("{name:?} is another issuer's to give: it begins with {other:?}"))
            }
            Self::WithPrefix(_) => None,
        }
    }
}

/// The names that an issuer may give.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IssuerNames {
    pub(crate) users: AllowedNames,
    pub(crate) groups: AllowedNames,
}

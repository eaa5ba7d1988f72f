/// The beginning of the names of the cluster's own parts.
pub(crate) const SYSTEM: &str = "system:";

/// The names that an issuer may give.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Territory {
    /// Those that begin with this.
    Own(String),
    /// All but those that other issuers own.
    Rest {
        /// The beginnings of the other issuers' names.
        but: Vec<String>,
    },
}

impl Territory {
    /// Why the issuer may not give a name.
    pub(crate) fn refuse(&self, name: &str) -> Option<String> {
        if name.starts_with(SYSTEM) {
            return Some(format!(
                "{name:?} is reserved: no issuer may give names that begin with {SYSTEM:?}"
            ));
        }
        match self {
            Self::Own(prefix) if !name.starts_with(prefix.as_str()) => {
                Some(format!("{name:?} does not begin with {prefix:?}"))
            }
            Self::Rest { but } => {
                let other = but.iter().find(|prefix| name.starts_with(prefix.as_str()))?;
                Some(format!("{name:?} is another issuer's to give: it begins with {other:?}"))
            }
            Self::Own(_) => None,
        }
    }
}

/// The names that an issuer may give to users, and to groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Territories {
    pub(crate) users: Territory,
    pub(crate) groups: Territory,
}

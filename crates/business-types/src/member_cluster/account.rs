use super::MemberClusterSpec;
use crate::account::{Charged, ChargedMeta, fleet};
use quota::{Account, Grants, Limits, Undercut};
use serde::Deserialize;

/// What of a member cluster its account is made of: it grants the fleet what it has, in the domain of its name.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ChargedMemberCluster {
    metadata: ChargedMeta,
    spec: Option<MemberClusterSpec>,
}

impl Charged for ChargedMemberCluster {
    fn account(self) -> Account {
        let hard = self.spec.unwrap_or_default().hard;
        // What tenants have of it may have been granted before anybody said how much there is.
        let limits = Limits { undercut: Undercut::WhereUnlimited, ..Limits::new(hard, true) };
        let domains = [(self.metadata.name.clone(), limits)].into();
        Account {
            deleting: self.metadata.is_deleting(),
            grants: Some(Grants { scope: fleet(), domains }),
            ..Account::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account;
    use serde_json::json;

    #[test]
    fn a_cluster_gives_the_fleet_what_it_has() {
        let object = json!({"metadata": {"name": "c1"}, "spec": {"hard": {"pods": "5"}}});
        let account = account::of_stored::<ChargedMemberCluster>(object.to_string().as_bytes()).unwrap();
        assert!(account.pays.is_none() && account.tenant.is_empty());
        let grants = account.grants.unwrap();
        assert_eq!(grants.scope, fleet());
        assert_eq!(grants.domains["c1"].hard["pods"], "5".parse().unwrap());
        let bare = account::of_stored::<ChargedMemberCluster>(br#"{"metadata": {"name": "c1"}}"#).unwrap();
        assert!(bare.grants.unwrap().domains["c1"].hard.is_empty(), "unlimited, and there");
    }
}

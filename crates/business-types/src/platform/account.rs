use super::PlatformSpec;
use crate::account::{Charged, ChargedMeta};
use crate::names::PLATFORM_DEFAULT;
use quota::{Account, Claim};
use serde::Deserialize;

/// The domain of the claims of platforms. It cannot be the name of a cluster, which has no slash.
const DOMAIN: &str = "tenant/platform";

/// The part of a platform from which its account is computed. A platform is not charged. It claims its tenant, so that
/// a tenant has only one platform. [`PLATFORM_DEFAULT`] claims nothing, so it can exist in addition.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ChargedPlatform {
    metadata: ChargedMeta,
    spec: Option<PlatformSpec>,
}

impl Charged for ChargedPlatform {
    fn account(self) -> Account {
        let tenant = self.spec.unwrap_or_default().tenant_id;
        let is_exclusive = !tenant.is_empty() && self.metadata.name != PLATFORM_DEFAULT;
        let claim = || Claim { domain: DOMAIN.to_owned(), place: tenant.clone() };
        let claims = is_exclusive.then(claim).into_iter().collect();
        Account { tenant, deleting: self.metadata.is_deleting(), claims, ..Account::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account;
    use serde_json::{Value, json};

    fn account_of(name: &str, spec: &Value) -> Account {
        let object = json!({"metadata": {"name": name}, "spec": spec});
        account::of_stored::<ChargedPlatform>(object.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn a_platform_has_its_tenant_for_itself() {
        let spec = json!({"tenantID": "acme", "administrators": ["root"]});
        let account = account_of("plf", &spec);
        let claim = Claim { domain: DOMAIN.to_owned(), place: "acme".to_owned() };
        assert_eq!((account.tenant.as_str(), account.claims), ("acme", vec![claim]));
        assert!(account_of(PLATFORM_DEFAULT, &spec).claims.is_empty());
        assert!(account_of("plf", &json!({"tenantID": ""})).claims.is_empty(), "nobody's");
        assert_eq!(account_of("plf", &json!(null)), Account::default());
    }
}

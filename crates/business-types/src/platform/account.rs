use super::PlatformSpec;
use crate::account::{Charged, ChargedMeta};
use crate::names::PLATFORM_DEFAULT;
use quota::{Account, Claim};
use serde::Deserialize;

/// The domain of the places that platforms claim. No cluster's name has a slash.
const DOMAIN: &str = "tenant/platform";

/// The part of a platform that its account is computed from. It costs nothing. It claims its tenant, so that a tenant
/// has one platform; only the one of the name [`PLATFORM_DEFAULT`] claims none, and may be there beside it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ChargedPlatform {
    metadata: ChargedMeta,
    spec: Option<PlatformSpec>,
}

impl Charged for ChargedPlatform {
    fn account(self) -> Account {
        let tenant = self.spec.unwrap_or_default().tenant_id;
        let is_alone = !tenant.is_empty() && self.metadata.name != PLATFORM_DEFAULT;
        let claim = || Claim { domain: DOMAIN.to_owned(), place: tenant.clone() };
        let claims = is_alone.then(claim).into_iter().collect();
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

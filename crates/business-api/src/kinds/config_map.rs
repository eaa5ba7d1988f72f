use super::attributes::Selectable;
use super::{KindRow, QuotaAccount, StoredRow, StrategyDependencies};
use crate::kind_ids;
use crate::rights::{READ, READ_WRITE, Right, Role};
use crate::strategy::{ConfigMapStrategy, config_map};
use apiserver::resource::{ALL_VERBS, ResourceSource};
use apiserver::{Resource, StoredKind};
use business_types::account;
use business_types::config_map::{ChargedConfigMap, gvk, schema};
use business_types::names::{CONFIG_MAPS, GROUP, TENANT_LABEL};
use serde::de::IgnoredAny;
use std::sync::Arc;
use store::{Attributes, Kind};

/// Config maps.
pub const ROW: KindRow = KindRow { plural: CONFIG_MAPS, stored: Some(STORED), rights: RIGHTS, resource };

const STORED: StoredRow = StoredRow {
    id: kind_ids::CONFIG_MAP,
    kind: || Arc::new(ConfigMapKind),
    account: QuotaAccount::Free(account::of_stored::<ChargedConfigMap>),
    role_source: None,
};

const RIGHTS: &[Right] = &[Right::object(Role::Administrator, READ_WRITE), Right::object(Role::View, READ)];

fn resource(_dependencies: &StrategyDependencies) -> Resource {
    Resource {
        gvk: gvk(),
        plural: CONFIG_MAPS,
        singular: "configmap",
        short_names: &["bcm"],
        categories: &[],
        namespaced: false,
        verbs: ALL_VERBS,
        schema: Arc::new(schema()),
        columns: config_map::COLUMNS,
        source: ResourceSource::Stored(Arc::new(StoredKind {
            id: STORED.id,
            kind: (STORED.kind)(),
            subresources: Vec::new(),
            server_fields: &[],
            strategy: Arc::new(ConfigMapStrategy),
        })),
    }
}

/// Config maps, as the store sees them.
#[derive(Clone, Copy, Debug)]
pub struct ConfigMapKind;

impl Kind for ConfigMapKind {
    fn group(&self) -> &str {
        GROUP
    }

    fn resource(&self) -> &str {
        CONFIG_MAPS
    }

    fn fields(&self) -> &'static [&'static str] {
        &[]
    }

    /// All callers of a tenant see its config maps.
    fn attributes(&self, body: &[u8]) -> Attributes {
        let selectable = Selectable::<Option<IgnoredAny>>::read(body);
        let tenant = selectable.label(TENANT_LABEL).into();
        Attributes { tenant_wide: true, ..selectable.attributes(tenant, []) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_says_whose_it_is() {
        let of = |labels: &str| {
            let body = format!("{{\"data\":{{\"spec\":\"1\"}},\"metadata\":{{\"labels\":{labels}}}}}");
            ConfigMapKind.attributes(body.as_bytes()).tenant
        };
        assert_eq!(of(r#"{"business.tkestack.io/tenant":"acme"}"#).as_deref(), Some("acme"));
        assert_eq!(of(r#"{"business.tkestack.io/tenant":""}"#), None);
        assert_eq!(of("{}"), None);
    }
}

use super::attributes::Selectable;
use super::{KindRow, QuotaAccount, SUBRESOURCES, StoredRow, StrategyDependencies};
use crate::kind_ids;
use crate::rights::{READ, Right, Role};
use crate::strategy::{NamespaceTemplateStrategy, namespace_template};
use apiserver::resource::{ALL_VERBS, ResourceSource};
use apiserver::{Resource, StoredKind};
use business_types::account::{self, FreeOfAll};
use business_types::names::{GROUP, NAMESPACE_TEMPLATES};
use business_types::namespace_template::{gvk, schema};
use std::sync::Arc;
use store::{Attributes, Kind};

/// Templates of namespaces: operators write them, and everybody reads them.
pub const ROW: KindRow =
    KindRow { plural: NAMESPACE_TEMPLATES, stored: Some(STORED), rights: RIGHTS, resource };

const STORED: StoredRow = StoredRow {
    id: kind_ids::NAMESPACE_TEMPLATE,
    kind: || Arc::new(NamespaceTemplateKind),
    account: QuotaAccount::Free(account::of_stored::<FreeOfAll>),
    role_source: None,
};

const RIGHTS: &[Right] = &[Right::object(Role::View, READ)];

fn resource(_dependencies: &StrategyDependencies) -> Resource {
    Resource {
        gvk: gvk(),
        plural: NAMESPACE_TEMPLATES,
        singular: "namespacetemplate",
        short_names: &["nst"],
        categories: &[],
        namespaced: false,
        verbs: ALL_VERBS,
        schema: Arc::new(schema()),
        columns: namespace_template::COLUMNS,
        source: ResourceSource::Stored(Arc::new(StoredKind {
            id: STORED.id,
            kind: (STORED.kind)(),
            subresources: SUBRESOURCES.to_vec(),
            server_fields: &[],
            strategy: Arc::new(NamespaceTemplateStrategy),
        })),
    }
}

/// Templates, as the store sees them.
#[derive(Clone, Copy, Debug)]
pub struct NamespaceTemplateKind;

impl Kind for NamespaceTemplateKind {
    fn group(&self) -> &str {
        GROUP
    }

    fn resource(&self) -> &str {
        NAMESPACE_TEMPLATES
    }

    fn fields(&self) -> &'static [&'static str] {
        &[]
    }

    fn attributes(&self, body: &[u8]) -> Attributes {
        let selectable = Selectable::<serde::de::IgnoredAny>::read(body);
        Attributes { public: true, ..selectable.attributes(Box::default(), []) }
    }
}

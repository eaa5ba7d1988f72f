use super::attributes::Selected;
use super::{Directories, KindRow, SUBRESOURCES, StoredRow};
use crate::numbers;
use crate::roles::{CHANGE, GRANT, HOLD_BACK, READ, RULE, Right, Role};
use crate::strategy::operator_act::Act;
use crate::strategy::{ProjectStrategy, project};
use apiserver::resource::{ALL_VERBS, ResourceSource};
use apiserver::{Resource, StoredKind};
use business_types::account;
use business_types::names::{GROUP, PROJECTS};
use business_types::project::{ChargedProject, gvk, schema};
use serde::Deserialize;
use std::sync::Arc;
use store::{Attributes, Kind, ScopeRole};

/// Projects.
pub const ROW: KindRow = KindRow { plural: PROJECTS, stored: Some(STORED), rights: RIGHTS, resource };

const STORED: StoredRow = StoredRow {
    id: numbers::PROJECT,
    kind: || Arc::new(ProjectKind),
    account: Some(account::of_stored::<ChargedProject>),
    gives: Some(Role::Member),
};

const RIGHTS: &[Right] = &[
    Right::object(Role::Administrator, RULE),
    Right::object(Role::Administrator, &[GRANT]),
    Right::subresource(Role::Administrator, "finalize", CHANGE),
    Right::subresource(Role::Administrator, "finalizers", HOLD_BACK),
    Right::object(Role::Member, READ),
];

fn resource(directories: &Directories) -> Resource {
    let Directories { clusters, levels, roles, finalizers, .. } = directories.clone();
    Resource {
        gvk: gvk(),
        plural: PROJECTS,
        singular: "project",
        short_names: &["prj"],
        categories: &[],
        namespaced: false,
        verbs: ALL_VERBS,
        schema: Arc::new(schema()),
        columns: project::COLUMNS,
        source: ResourceSource::Stored(Arc::new(StoredKind {
            id: STORED.id,
            kind: (STORED.kind)(),
            subresources: SUBRESOURCES
                .into_iter()
                .chain([Act::Lock, Act::Unlock].map(Act::subresource))
                .collect(),
            server_fields: &[],
            strategy: Arc::new(ProjectStrategy::new(clusters, levels, roles, finalizers)),
        })),
    }
}

/// Projects, as the store sees them.
#[derive(Clone, Copy, Debug)]
pub struct ProjectKind;

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct SelectedProjectSpec {
    #[serde(rename = "tenantID")]
    tenant_id: Box<str>,
    members: Box<[Box<str>]>,
    parent_project_name: Box<str>,
}

impl Kind for ProjectKind {
    fn group(&self) -> &str {
        GROUP
    }

    fn resource(&self) -> &str {
        PROJECTS
    }

    fn stands_for(&self) -> Option<ScopeRole> {
        Some(ScopeRole { scope: account::PROJECT, required: true })
    }

    fn fields(&self) -> &'static [&'static str] {
        &["spec.tenantID", "spec.parentProjectName", "status.phase"]
    }

    fn attributes(&self, body: &[u8]) -> Attributes {
        let mut selected = Selected::<SelectedProjectSpec>::read(body);
        let SelectedProjectSpec { tenant_id, members, parent_project_name } =
            std::mem::take(&mut selected.spec);
        let fields = [tenant_id.clone(), parent_project_name, std::mem::take(&mut selected.status.phase)];
        Attributes { members, ..selected.attributes(tenant_id, fields) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_read_out_of_a_body() {
        let body = br#"{"metadata":{"name":"p","labels":{"b":"2","a":"\u00fc"}},"spec":{"tenantID":"t",
            "members":["al\"ice"],"parentProjectName":"q","clusters":{"c":{}}},"status":{"phase":"Active"}}"#;
        let read = ProjectKind.attributes(body);
        assert_eq!(read.tenant.as_deref(), Some("t"));
        assert_eq!(read.members, ["al\"ice".into()].into());
        assert_eq!(read.labels, [("a".into(), "\u{fc}".into()), ("b".into(), "2".into())].into());
        assert_eq!(read.fields, ["t".into(), "q".into(), "Active".into()].into());
    }

    #[test]
    fn a_body_that_cannot_be_read_selects_nothing() {
        assert_eq!(ProjectKind.attributes(b"[]").tenant, None);
        assert_eq!(ProjectKind.attributes(b"{\"spec\":7}").fields.len(), 3);
    }
}

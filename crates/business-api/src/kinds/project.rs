use super::attributes::Selectable;
use super::{KindRow, QuotaAccount, RoleSource, SUBRESOURCES, StoredRow, StrategyDependencies};
use crate::kind_ids;
use crate::rights::{GET_UPDATE, GRANT, READ, Right, Role, UPDATE_FINALIZERS};
use crate::role_bindings::ObjectBindings;
use crate::strategy::operator_act::Act;
use crate::strategy::{ProjectStrategy, project};
use crate::subjects;
use apiserver::resource::{ALL_VERBS, ResourceSource};
use apiserver::{Resource, StoredKind};
use business_types::names::{GROUP, PROJECTS};
use business_types::project::{ChargedProject, gvk, schema};
use business_types::{AccessEntry, account};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::collections::BTreeMap;
use std::sync::Arc;
use store::{Attributes, Kind, ScopeRole};

/// Projects.
pub const ROW: KindRow = KindRow { plural: PROJECTS, stored: Some(STORED), rights: RIGHTS, resource };

const STORED: StoredRow = StoredRow {
    id: kind_ids::PROJECT,
    kind: || Arc::new(ProjectKind),
    account: QuotaAccount::Charged(account::of_stored::<ChargedProject>),
    role_source: Some(RoleSource::Projects(roles_given_by)),
};

const RIGHTS: &[Right] = &[
    Right::object(Role::View, READ),
    // To create or delete a project, or to change its budget, a caller needs this role in its parent.
    Right::object(Role::Admin, &["create", "delete", "patch", "update"]),
    Right::subresource(Role::Admin, "finalize", GET_UPDATE),
    Right::subresource(Role::Admin, "finalizers", UPDATE_FINALIZERS),
    Right::object(Role::Administrator, &["deletecollection", GRANT]),
];

fn resource(dependencies: &StrategyDependencies) -> Resource {
    let StrategyDependencies { clusters, allocations, roles, finalizers, .. } = dependencies.clone();
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
            strategy: Arc::new(ProjectStrategy::new(clusters, allocations, roles, finalizers)),
        })),
    }
}

/// Projects, as the store sees them.
#[derive(Clone, Copy, Debug)]
pub struct ProjectKind;

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct SelectableProjectSpec {
    #[serde(rename = "tenantID")]
    tenant_id: Box<str>,
    parent_project_name: Box<str>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ProjectRolesBody {
    spec: ProjectRolesSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ProjectRolesSpec {
    #[serde(rename = "tenantID")]
    tenant_id: Box<str>,
    parent_project_name: Box<str>,
    members: Vec<String>,
    access: Vec<AccessEntry>,
    #[expect(clippy::zero_sized_map_values, reason = "what is said of each is passed over")]
    clusters: BTreeMap<Box<str>, IgnoredAny>,
}

/// The roles that a project grants in this API. Service accounts of member clusters get none here.
fn roles_given_by(_name: &str, body: &[u8]) -> ObjectBindings {
    let ProjectRolesBody { spec } = serde_json::from_slice(body).unwrap_or_else(|error| {
        tracing::error!(%error, "a stored project does not say who belongs to it");
        ProjectRolesBody::default()
    });
    let mut bindings = ObjectBindings {
        tenant: spec.tenant_id,
        parent: spec.parent_project_name,
        ..ObjectBindings::default()
    };
    for member in &spec.members {
        bindings.bind(subjects::tenant_user(member), Role::Edit);
    }
    for entry in spec.access.iter().filter(|entry| entry.cluster.is_empty()) {
        bindings.bind(subjects::key(&entry.subject), entry.role.into());
    }
    for entry in &spec.access {
        bindings.add_account_namespace(&entry.cluster, &entry.subject);
        if spec.clusters.contains_key(entry.cluster.as_str()) {
            bindings.account_clusters.insert(entry.cluster.as_str().into());
        }
    }
    // The controller keeps all of these entries in memory, so all are counted.
    bindings.listed = spec.members.len().saturating_add(spec.access.len());
    bindings
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
        let mut selectable = Selectable::<SelectableProjectSpec>::read(body);
        let SelectableProjectSpec { tenant_id, parent_project_name } = std::mem::take(&mut selectable.spec);
        let fields = [tenant_id.clone(), parent_project_name, std::mem::take(&mut selectable.status.phase)];
        selectable.attributes(tenant_id, fields)
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
        assert_eq!(read.labels, [("a".into(), "\u{fc}".into()), ("b".into(), "2".into())].into());
        assert_eq!(read.fields, ["t".into(), "q".into(), "Active".into()].into());
    }

    #[test]
    fn a_project_gives_each_the_highest_of_his_roles() {
        let body = br#"{"spec":{"tenantID":"t","parentProjectName":"q","members":["ann"],"access":[
            {"kind":"User","name":"ann","role":"view"},{"kind":"Group","name":"devs","role":"admin"},
            {"kind":"ServiceAccount","name":"a","namespace":"n","role":"edit"},
            {"kind":"ServiceAccount","name":"b","namespace":"n","cluster":"c1","role":"edit"},
            {"kind":"ServiceAccount","name":"b","namespace":"n","cluster":"c2","role":"edit"}],
            "clusters":{"c2":{"hard":{}},"c3":{}}}}"#;
        let given = roles_given_by("p", body);
        assert_eq!((&*given.tenant, &*given.parent, given.listed), ("t", "q", 6));
        let roles: Vec<(&str, Role)> = given.subjects.iter().map(|(name, role)| (&**name, *role)).collect();
        let account_namespaces: Vec<(&str, &str)> =
            given.account_namespaces.iter().map(|(cluster, name)| (&**cluster, &**name)).collect();
        assert_eq!(account_namespaces, [("", "n"), ("c1", "n"), ("c2", "n")]);
        assert_eq!(given.account_clusters, ["c2".into()].into());
        let expected = [
            ("\u{1}devs", Role::Admin),
            ("\u{2}ann", Role::Edit),
            ("ann", Role::View),
            ("system:serviceaccount:n:a", Role::Edit),
        ];
        assert_eq!(roles, expected);
        assert_eq!(roles_given_by("p", b"[]"), ObjectBindings::default());
    }

    #[test]
    fn a_body_that_cannot_be_read_selects_nothing() {
        assert_eq!(ProjectKind.attributes(b"[]").tenant, None);
        assert_eq!(ProjectKind.attributes(b"{\"spec\":7}").fields.len(), 3);
    }
}

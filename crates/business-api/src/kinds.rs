//! What the store has to know of our kinds.

use business_types::account;
use business_types::names::{GROUP, NAMESPACES, PROJECTS};
use serde::Deserialize;
use std::borrow::Cow;
use std::collections::BTreeMap;
use store::{Attributes, Kind, KindId, Standing};

/// Number of projects in the store.
pub const PROJECT: KindId = KindId(1);
/// Number of namespaces in the store.
pub const NAMESPACE: KindId = KindId(2);

/// Projects, as the store sees them.
#[derive(Clone, Copy, Debug)]
pub struct ProjectKind;

/// Namespaces, as the store sees them.
#[derive(Clone, Copy, Debug)]
pub struct NamespaceKind;

/// The part of a stored body that selectors look at.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Selected<'a> {
    #[serde(borrow)]
    metadata: SelectedMeta<'a>,
    #[serde(borrow)]
    spec: SelectedSpec<'a>,
    #[serde(borrow)]
    status: SelectedStatus<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct SelectedMeta<'a> {
    #[serde(borrow)]
    labels: BTreeMap<Text<'a>, Text<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct SelectedSpec<'a> {
    #[serde(borrow, rename = "tenantID")]
    tenant_id: Cow<'a, str>,
    #[serde(borrow)]
    members: Vec<Text<'a>>,
    #[serde(borrow)]
    parent_project_name: Cow<'a, str>,
    #[serde(borrow)]
    cluster_name: Cow<'a, str>,
    #[serde(borrow)]
    namespace: Cow<'a, str>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct SelectedStatus<'a> {
    #[serde(borrow)]
    phase: Cow<'a, str>,
}

/// A string borrowed where it has no escapes; inside containers `serde` needs to be told.
#[derive(Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(transparent)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl Selected<'_> {
    fn read(body: &[u8]) -> Selected<'_> {
        serde_json::from_slice(body).unwrap_or_else(|error| {
            tracing::error!(%error, "a stored body does not read as its kind");
            Selected::default()
        })
    }

    fn attributes(self, fields: Box<[Box<str>]>) -> Attributes {
        let boxed = |text: Text<'_>| Box::<str>::from(text.0);
        Attributes {
            tenant: (!self.spec.tenant_id.is_empty()).then(|| self.spec.tenant_id.into()),
            members: self.spec.members.into_iter().map(boxed).collect(),
            labels: self.metadata.labels.into_iter().map(|(key, value)| (boxed(key), boxed(value))).collect(),
            fields,
        }
    }
}

fn texts<const N: usize>(values: [&str; N]) -> Box<[Box<str>]> {
    values.into_iter().map(Box::from).collect()
}

impl Kind for ProjectKind {
    fn group(&self) -> &str {
        GROUP
    }

    fn resource(&self) -> &str {
        PROJECTS
    }

    fn stands_for(&self) -> Option<Standing> {
        Some(Standing { scope: account::PROJECT, required: true })
    }

    fn fields(&self) -> &'static [&'static str] {
        &["spec.tenantID", "spec.parentProjectName", "status.phase"]
    }

    fn attributes(&self, body: &[u8]) -> Attributes {
        let selected = Selected::read(body);
        let Selected { spec, status, .. } = &selected;
        let fields = texts([&spec.tenant_id, &spec.parent_project_name, &status.phase]);
        selected.attributes(fields)
    }
}

impl Kind for NamespaceKind {
    fn group(&self) -> &str {
        GROUP
    }

    fn resource(&self) -> &str {
        NAMESPACES
    }

    fn fields(&self) -> &'static [&'static str] {
        &["spec.tenantID", "spec.clusterName", "spec.namespace", "status.phase"]
    }

    fn attributes(&self, body: &[u8]) -> Attributes {
        let selected = Selected::read(body);
        let Selected { spec, status, .. } = &selected;
        let fields = texts([&spec.tenant_id, &spec.cluster_name, &spec.namespace, &status.phase]);
        selected.attributes(fields)
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
        let body =
            br#"{"metadata":{},"spec":{"clusterName":"c","namespace":"n"},"status":{"phase":"Pending"}}"#;
        let read = NamespaceKind.attributes(body);
        assert_eq!(read.tenant, None);
        assert_eq!(read.fields, ["".into(), "c".into(), "n".into(), "Pending".into()].into());
    }

    #[test]
    fn a_body_that_cannot_be_read_selects_nothing() {
        assert_eq!(ProjectKind.attributes(b"[]").tenant, None);
        assert_eq!(ProjectKind.attributes(b"{\"spec\":7}").fields.len(), 3);
    }
}

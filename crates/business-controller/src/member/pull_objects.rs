//! Pull secrets in a member cluster, without their content, and the service accounts whose pods may use them.

use super::shared_store::SharedStore;
use super::watch_store::Versioned;
use super::weight;
use crate::field_managers::{BEFORE_FIRST_APPLY, FIELD_MANAGER, TEMPLATE_MANAGER};
use business_types::names::{
    PULL_PASSWORD_ANNOTATION, PULL_REGISTRY_ANNOTATION, PULL_SECRET, TEMPLATE_LABEL, UID_ANNOTATION,
};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta};
use std::collections::BTreeMap;

/// The Secret with our name in a namespace of a member cluster. Its watch requests metadata only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PullSecret {
    /// `metadata.uid`
    pub uid: String,
    /// `metadata.resourceVersion`
    pub resource_version: String,
    /// Label: the template.
    pub template: String,
    /// Annotation: uid of the business namespace.
    pub object: String,
    /// Annotation: the hash of the password.
    pub password: String,
    /// Annotation: the registry.
    pub registry: String,
    /// Its content is ours: nobody else has written it since.
    pub held: bool,
    /// It is being deleted.
    pub deleting: bool,
}

/// A `ServiceAccount` in a namespace of a member cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PullAccount {
    pub name: String,
    /// `metadata.resourceVersion`
    pub resource_version: String,
    /// Its `imagePullSecrets` contain our Secret. The others are not kept: there may be many.
    pub has_ours: bool,
    /// Who wrote `imagePullSecrets` last.
    pub written_by: LastWriter,
    /// It is being deleted.
    pub deleting: bool,
}

/// Who wrote a field last, as far as that is recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LastWriter {
    /// Not recorded: Kubernetes records no managers for an object that was created without fields, such as the account
    /// `default`, until somebody applies it.
    #[default]
    Unrecorded,
    Us,
    SomebodyElse,
}

impl Versioned for PullSecret {
    fn resource_version(&self) -> &str {
        &self.resource_version
    }

    fn weight(&self) -> usize {
        let Self { uid, resource_version, template, object, password, registry, .. } = self;
        let texts = [uid, resource_version, template, object, password, registry];
        weight::of(self).saturating_add(weight::texts(texts))
    }
}

impl Versioned for PullAccount {
    fn resource_version(&self) -> &str {
        &self.resource_version
    }

    fn weight(&self) -> usize {
        weight::of(self).saturating_add(weight::texts([&self.name, &self.resource_version]))
    }
}

impl PullSecret {
    /// `None` for a Secret that is not named like ours.
    pub fn of(metadata: ObjectMeta) -> Option<Self> {
        metadata.name.as_deref().filter(|name| *name == PULL_SECRET)?;
        let text = |map: &Option<BTreeMap<String, String>>, key: &str| {
            map.as_ref().and_then(|all| all.get(key)).cloned().unwrap_or_default()
        };
        Some(Self {
            template: text(&metadata.labels, TEMPLATE_LABEL),
            object: text(&metadata.annotations, UID_ANNOTATION),
            password: text(&metadata.annotations, PULL_PASSWORD_ANNOTATION),
            registry: text(&metadata.annotations, PULL_REGISTRY_ANNOTATION),
            held: owns_field(
                &metadata.managed_fields.unwrap_or_default(),
                FieldOwner::Apply(TEMPLATE_MANAGER),
                "/f:data/f:.dockerconfigjson",
            ),
            deleting: metadata.deletion_timestamp.is_some(),
            uid: metadata.uid.unwrap_or_default(),
            resource_version: metadata.resource_version.unwrap_or_default(),
        })
    }
}

/// A field manager and its operation.
#[derive(Clone, Copy, Debug)]
enum FieldOwner {
    Apply(&'static str),
    Update(&'static str),
}

/// Whether a manager still owns a field. Whoever changes a field takes it from its former owners.
fn owns_field(managers: &[ManagedFieldsEntry], owner: FieldOwner, field: &str) -> bool {
    let (manager, operation) = match owner {
        FieldOwner::Apply(manager) => (manager, "Apply"),
        FieldOwner::Update(manager) => (manager, "Update"),
    };
    field_managers(managers, field).any(|entry| {
        entry.manager.as_deref() == Some(manager) && entry.operation.as_deref() == Some(operation)
    })
}

fn field_managers<'a>(
    managers: &'a [ManagedFieldsEntry],
    field: &'a str,
) -> impl Iterator<Item = &'a ManagedFieldsEntry> {
    managers
        .iter()
        .filter(move |entry| entry.fields_v1.as_ref().is_some_and(|all| all.0.pointer(field).is_some()))
}

impl LastWriter {
    fn of(managers: &[ManagedFieldsEntry], field: &str) -> Self {
        let mut names = field_managers(managers, field).filter_map(|entry| entry.manager.as_deref());
        if owns_field(managers, FieldOwner::Update(FIELD_MANAGER), field) {
            Self::Us
        } else if names.any(|name| name != BEFORE_FIRST_APPLY) {
            Self::SomebodyElse
        } else {
            Self::Unrecorded
        }
    }
}

impl From<ServiceAccount> for PullAccount {
    fn from(account: ServiceAccount) -> Self {
        let ServiceAccount { metadata, image_pull_secrets, .. } = account;
        let managers = metadata.managed_fields.unwrap_or_default();
        Self {
            written_by: LastWriter::of(&managers, "/f:imagePullSecrets"),
            has_ours: image_pull_secrets.unwrap_or_default().iter().any(|one| one.name == PULL_SECRET),
            deleting: metadata.deletion_timestamp.is_some(),
            name: metadata.name.unwrap_or_default(),
            resource_version: metadata.resource_version.unwrap_or_default(),
        }
    }
}

/// Pull secrets and service accounts of a member cluster.
#[derive(Debug, Default)]
pub struct PullObjects {
    pub secrets: SharedStore<PullSecret>,
    pub accounts: SharedStore<PullAccount>,
}

impl PullObjects {
    /// Whether both were listed, or are forbidden.
    pub(super) fn are_listed(&self) -> bool {
        self.secrets.is_listed() && self.accounts.is_listed()
    }

    /// The estimated bytes they take.
    pub(super) fn weight(&self) -> usize {
        weight::sum([self.secrets.weight(), self.accounts.weight()])
    }

    /// Removes everything.
    pub fn reset(&self) {
        self.secrets.reset();
        self.accounts.reset();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ListFailure;
    use crate::member::shared_store::NotListed;
    use crate::member::watch_store::UpdateSource;
    use serde_json::{Value, json};

    fn secret(name: &str, fields: &Value) -> Option<PullSecret> {
        PullSecret::of(
            serde_json::from_value(json!({
                "name": name,
                "annotations": {PULL_PASSWORD_ANNOTATION: "ab", UID_ANNOTATION: "u"},
                "managedFields": [{
                    "manager": TEMPLATE_MANAGER, "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": fields,
                }],
            }))
            .unwrap(),
        )
    }

    #[test]
    fn what_somebody_has_written_into_a_secret_is_not_held() {
        let put = secret(PULL_SECRET, &json!({"f:data": {"f:.dockerconfigjson": {}}, "f:type": {}})).unwrap();
        assert!(put.held);
        assert_eq!((put.password.as_str(), put.object.as_str()), ("ab", "u"));
        assert!(!secret(PULL_SECRET, &json!({"f:data": {".": {}}})).unwrap().held);
        assert_eq!(secret("mine", &json!({})), None);
    }

    #[test]
    fn a_list_of_pull_secrets_is_whose_it_was_written_by_last() {
        let account = |metadata: Value| {
            let account: ServiceAccount = serde_json::from_value(json!({
                "metadata": metadata, "imagePullSecrets": [{"name": "mine"}, {"name": PULL_SECRET}],
            }))
            .unwrap();
            PullAccount::from(account)
        };
        let by = |manager: &str| {
            account(json!({"name": "default", "managedFields": [{
                "manager": manager, "operation": "Update", "fieldsType": "FieldsV1",
                "fieldsV1": {"f:imagePullSecrets": {}},
            }]}))
        };
        assert!(by(FIELD_MANAGER).has_ours);
        assert_eq!(by(FIELD_MANAGER).written_by, LastWriter::Us);
        assert_eq!(by("kubectl").written_by, LastWriter::SomebodyElse);
        // Which stands for everybody who wrote an account before its writers were recorded.
        assert_eq!(by("before-first-apply").written_by, LastWriter::Unrecorded);
        let bare = account(json!({"name": "default"}));
        assert_eq!((bare.has_ours, bare.written_by), (true, LastWriter::Unrecorded));
        let many: Vec<Value> =
            (0..1000).map(|number| json!({ "name": format!("secret-{number}") })).collect();
        let account: ServiceAccount =
            serde_json::from_value(json!({ "metadata": {"name": "default"}, "imagePullSecrets": many }))
                .unwrap();
        let account = PullAccount::from(account);
        assert!(!account.has_ours && account.weight() < 500, "{}", account.weight());
    }

    #[test]
    fn a_kind_is_known_when_it_was_listed() {
        let seen = SharedStore::<PullAccount>::default();
        assert_eq!(seen.in_namespace("web"), Err(NotListed(None)));
        let failure = |is_forbidden| ListFailure { text: "why".to_owned(), is_forbidden };
        assert!(seen.list_failed(&failure(false)) && !seen.list_failed(&failure(false)));
        assert_eq!(seen.in_namespace("web"), Err(NotListed(Some(failure(false)))));
        assert!(!seen.in_namespace("web").unwrap_err().is_forbidden(), "it may be there all the same");
        assert!(seen.list_failed(&failure(true)) && seen.in_namespace("web").unwrap_err().is_forbidden());
        seen.begin_list();
        assert!(seen.end_list().is_first && !seen.end_list().is_first);
        let account = PullAccount { resource_version: "5".into(), ..PullAccount::default() };
        assert!(seen.upsert("web", "default", account.clone(), UpdateSource::Watch));
        assert_eq!(seen.in_namespace("web").unwrap().len(), 1);
        assert_eq!(seen.in_namespace("we").unwrap().len(), 0);
        seen.remove("web", "default", &account);
        assert_eq!(seen.in_namespace("web").unwrap().len(), 0);
    }
}

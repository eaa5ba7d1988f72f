//! Objects that templates have created in a member cluster, trimmed to the fields that the controller uses.

use super::binding::RBAC;
use super::shared_store::SharedStore;
use super::watch_store::{UpdateSource, Versioned};
use super::weight;
use crate::field_managers::TEMPLATE_MANAGER;
use business_types::names::{
    TEMPLATE_BINDING_PREFIX, TEMPLATE_DIGEST_ANNOTATION, TEMPLATE_LABEL, TEMPLATE_OBJECT, UID_ANNOTATION,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::api::{ApiResource, DynamicObject};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A kind that templates can contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TemplateObjectKind {
    LimitRange,
    NetworkPolicy,
    RoleBinding,
}

impl TemplateObjectKind {
    /// All of them, in the order in which they are written.
    pub const ALL: [Self; 3] = [Self::LimitRange, Self::NetworkPolicy, Self::RoleBinding];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::LimitRange => "LimitRange",
            Self::NetworkPolicy => "NetworkPolicy",
            Self::RoleBinding => "RoleBinding",
        }
    }

    pub fn plural(self) -> &'static str {
        match self {
            Self::LimitRange => "limitranges",
            Self::NetworkPolicy => "networkpolicies",
            Self::RoleBinding => "rolebindings",
        }
    }

    fn group(self) -> &'static str {
        match self {
            Self::LimitRange => "",
            Self::NetworkPolicy => "networking.k8s.io",
            Self::RoleBinding => RBAC,
        }
    }

    pub fn resource(self) -> ApiResource {
        ApiResource {
            group: self.group().to_owned(),
            version: "v1".to_owned(),
            api_version: self.api_version(),
            kind: self.as_str().to_owned(),
            plural: self.plural().to_owned(),
        }
    }

    pub fn api_version(self) -> String {
        match self.group() {
            "" => "v1".to_owned(),
            group => format!("{group}/v1"),
        }
    }

    /// The path of an object.
    pub fn path(self, namespace: &str, name: &str) -> String {
        let root = match self.group() {
            "" => "/api/v1".to_owned(),
            group => format!("/apis/{group}/v1"),
        };
        format!("{root}/namespaces/{namespace}/{}/{name}", self.plural())
    }

    /// The name in the cluster of an object that has this name in the template.
    pub fn name(self, name: &str) -> String {
        match self {
            Self::LimitRange => TEMPLATE_OBJECT.to_owned(),
            Self::NetworkPolicy => format!("{TEMPLATE_OBJECT}-{name}"),
            Self::RoleBinding => format!("{TEMPLATE_BINDING_PREFIX}{name}"),
        }
    }

    /// Whether this is the name of a template's object: the cluster's policies let nobody else use it.
    fn is_named_so(self, name: &str) -> bool {
        match self {
            Self::LimitRange => name == TEMPLATE_OBJECT,
            Self::NetworkPolicy => {
                name.strip_prefix(TEMPLATE_OBJECT).is_some_and(|rest| rest.starts_with('-'))
            }
            Self::RoleBinding => name.starts_with(TEMPLATE_BINDING_PREFIX),
        }
    }
}

/// An object in a namespace of a member cluster that is named like a template's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateObject {
    pub kind: TemplateObjectKind,
    pub name: String,
    /// `metadata.uid`
    pub uid: String,
    /// `metadata.resourceVersion`
    pub resource_version: String,
    /// Label: the template.
    pub template: String,
    /// Annotation: the digest of what was applied.
    pub digest: String,
    /// Annotation: uid of the business namespace.
    pub object: String,
    /// Top-level fields, and fields of its spec, that are still as we have applied them: nobody else has written them
    /// since.
    pub held: BTreeSet<String>,
    /// The role of a role binding, which is immutable.
    pub role: Option<String>,
    /// It is being deleted.
    pub deleting: bool,
}

impl Versioned for TemplateObject {
    fn resource_version(&self) -> &str {
        &self.resource_version
    }

    fn weight(&self) -> usize {
        let Self { name, uid, resource_version, template, digest, object, .. } = self;
        let texts = [name, uid, resource_version, template, digest, object];
        weight::of(self).saturating_add(weight::texts(texts.into_iter().chain(&self.role).chain(&self.held)))
    }
}

impl TemplateObject {
    /// `None` for an object that is not named like a template's.
    pub fn of(kind: TemplateObjectKind, object: DynamicObject) -> Option<Self> {
        let DynamicObject { metadata, data, .. } = object;
        let name = metadata.name.filter(|name| kind.is_named_so(name))?;
        let text = |map: &Option<BTreeMap<String, String>>, key: &str| {
            map.as_ref().and_then(|all| all.get(key)).cloned().unwrap_or_default()
        };
        let role = data.pointer("/roleRef/name").and_then(Value::as_str);
        Some(Self {
            kind,
            name,
            template: text(&metadata.labels, TEMPLATE_LABEL),
            digest: text(&metadata.annotations, TEMPLATE_DIGEST_ANNOTATION),
            object: text(&metadata.annotations, UID_ANNOTATION),
            held: held(&metadata.managed_fields.unwrap_or_default()),
            role: role.map(str::to_owned),
            deleting: metadata.deletion_timestamp.is_some(),
            uid: metadata.uid.unwrap_or_default(),
            resource_version: metadata.resource_version.unwrap_or_default(),
        })
    }
}

/// The fields that we still own. Whoever changes a field takes it from whoever has applied it.
fn held(managers: &[ManagedFieldsEntry]) -> BTreeSet<String> {
    let ours = managers.iter().find(|entry| {
        entry.manager.as_deref() == Some(TEMPLATE_MANAGER) && entry.operation.as_deref() == Some("Apply")
    });
    let fields = |value: Option<&Value>| -> Vec<String> {
        let keys = value.and_then(Value::as_object).into_iter().flatten().map(|(key, _)| key);
        keys.filter_map(|key| key.strip_prefix("f:")).map(str::to_owned).collect()
    };
    let top = ours.and_then(|entry| entry.fields_v1.as_ref()).map(|fields| &fields.0);
    let spec = fields(top.and_then(|top| top.get("f:spec")));
    fields(top).into_iter().chain(spec).filter(|field| field != "metadata" && field != "spec").collect()
}

/// The objects of templates in a member cluster.
#[derive(Debug, Default)]
pub struct TemplateObjects {
    limits: SharedStore<TemplateObject>,
    policies: SharedStore<TemplateObject>,
    bindings: SharedStore<TemplateObject>,
}

/// The objects of templates in one namespace.
#[derive(Clone, Debug)]
pub enum NamespaceTemplateObjects {
    /// They were not listed yet. If the list has failed, why.
    NotListed(Option<String>),
    Listed(Vec<Arc<TemplateObject>>),
}

impl TemplateObjects {
    /// Removes everything.
    pub fn reset(&self) {
        for kind in TemplateObjectKind::ALL {
            self.of(kind).reset();
        }
    }

    /// Whether all kinds were listed, or are forbidden.
    pub(super) fn are_listed(&self) -> bool {
        TemplateObjectKind::ALL.iter().all(|kind| self.of(*kind).is_listed())
    }

    /// The estimated bytes they take.
    pub(super) fn weight(&self) -> usize {
        weight::sum(TemplateObjectKind::ALL.map(|kind| self.of(kind).weight()))
    }

    /// The store of a kind.
    pub fn of(&self, kind: TemplateObjectKind) -> &SharedStore<TemplateObject> {
        match kind {
            TemplateObjectKind::LimitRange => &self.limits,
            TemplateObjectKind::NetworkPolicy => &self.policies,
            TemplateObjectKind::RoleBinding => &self.bindings,
        }
    }

    /// The objects of a namespace.
    pub fn at(&self, namespace: &str) -> NamespaceTemplateObjects {
        let mut found = Vec::new();
        for kind in TemplateObjectKind::ALL {
            match self.of(kind).in_namespace(namespace) {
                Ok(seen) => found.extend(seen),
                Err(unlisted) => {
                    return NamespaceTemplateObjects::NotListed(unlisted.describe(kind.plural()));
                }
            }
        }
        NamespaceTemplateObjects::Listed(found)
    }

    /// Stores an object. Returns whether it is new or changed.
    pub fn upsert(&self, namespace: &str, object: TemplateObject, source: UpdateSource) -> bool {
        let name = object.name.clone();
        self.of(object.kind).upsert(namespace, &name, object, source)
    }

    /// Removes an object that is gone, or has lost its label.
    pub fn remove(&self, namespace: &str, object: &TemplateObject) {
        self.of(object.kind).remove(namespace, &object.name, object);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn limits(managed: &Value) -> Option<TemplateObject> {
        let object = json!({
            "apiVersion": "v1", "kind": "LimitRange",
            "metadata": {
                "name": "business-template", "labels": {TEMPLATE_LABEL: "standard"}, "managedFields": managed,
            },
        });
        TemplateObject::of(TemplateObjectKind::LimitRange, serde_json::from_value(object).unwrap())
    }

    #[test]
    fn what_somebody_has_written_is_not_held() {
        let ours = |fields: Value| {
            json!([{
                "manager": TEMPLATE_MANAGER, "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": fields,
            }])
        };
        let put = ours(json!({"f:metadata": {"f:labels": {}}, "f:spec": {"f:limits": {}}}));
        assert_eq!(limits(&put).unwrap().held, BTreeSet::from(["limits".to_owned()]));
        assert!(limits(&ours(json!({"f:metadata": {}}))).unwrap().held.is_empty());
        let theirs = json!([{"manager": "kubectl-edit", "operation": "Update", "fieldsV1": {"f:spec": {"f:limits": {}}}}]);
        assert!(limits(&theirs).unwrap().held.is_empty());
        let binding = ours(json!({"f:roleRef": {}, "f:subjects": {}}));
        assert_eq!(limits(&binding).unwrap().held.len(), 2);
    }

    #[test]
    fn names_of_templates_are_nobody_elses() {
        let kinds = TemplateObjectKind::ALL.map(|kind| (kind, kind.name("a")));
        assert_eq!(
            kinds.clone().map(|(_, name)| name),
            ["business-template", "business-template-a", "business:template:a"]
        );
        assert!(kinds.iter().all(|(kind, name)| kind.is_named_so(name)));
        assert!(!TemplateObjectKind::NetworkPolicy.is_named_so("business-template"));
        assert!(!TemplateObjectKind::RoleBinding.is_named_so("business:edit"));
    }
}

use meta::gvk::{GroupResource, GroupVersionKind};
use meta::schema::{Schema, Type};
use std::sync::LazyLock;

/// A kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    Namespace,
    ResourceQuota,
    LimitRange,
    Secret,
    ServiceAccount,
    Node,
    Pod,
    RoleBinding,
    NetworkPolicy,
}

/// What is below `spec` and its like is owned as one value: no two managers share an object here.
static SCHEMA: LazyLock<Schema> = LazyLock::new(|| {
    let any = || Schema::new("", Type::Any).optional();
    let parts = ["spec", "status", "data", "type", "roleRef", "subjects", "imagePullSecrets", "secrets"];
    Schema::kind("io.simulated.Object", "An object.", parts.map(|name| (name, any())))
});

impl Kind {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Namespace,
        Self::ResourceQuota,
        Self::LimitRange,
        Self::Secret,
        Self::ServiceAccount,
        Self::Node,
        Self::Pod,
        Self::RoleBinding,
        Self::NetworkPolicy,
    ];

    /// As in `kind`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Namespace => "Namespace",
            Self::ResourceQuota => "ResourceQuota",
            Self::LimitRange => "LimitRange",
            Self::Secret => "Secret",
            Self::ServiceAccount => "ServiceAccount",
            Self::Node => "Node",
            Self::Pod => "Pod",
            Self::RoleBinding => "RoleBinding",
            Self::NetworkPolicy => "NetworkPolicy",
        }
    }

    /// As in paths.
    pub fn plural(self) -> &'static str {
        match self {
            Self::Namespace => "namespaces",
            Self::ResourceQuota => "resourcequotas",
            Self::LimitRange => "limitranges",
            Self::Secret => "secrets",
            Self::ServiceAccount => "serviceaccounts",
            Self::Node => "nodes",
            Self::Pod => "pods",
            Self::RoleBinding => "rolebindings",
            Self::NetworkPolicy => "networkpolicies",
        }
    }

    pub fn group(self) -> &'static str {
        match self {
            Self::RoleBinding => "rbac.authorization.k8s.io",
            Self::NetworkPolicy => "networking.k8s.io",
            _ => "",
        }
    }

    pub fn is_namespaced(self) -> bool {
        !matches!(self, Self::Namespace | Self::Node)
    }

    /// The kind of a path's group and plural.
    pub fn find(group: &str, plural: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.group() == group && kind.plural() == plural)
    }

    pub fn gvk(self) -> GroupVersionKind {
        GroupVersionKind::new(self.group(), "v1", self.name())
    }

    pub fn resource(self) -> GroupResource {
        GroupResource::new(self.group(), self.plural())
    }

    /// The shape that field ownership knows.
    pub fn schema(self) -> &'static Schema {
        &SCHEMA
    }
}

/// What a request asks for, parsed once from method and URL (`k8s.io/apiserver/pkg/endpoints/request`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestInfo {
    /// Whether it is below `/apis/GROUP/VERSION/`.
    pub is_resource: bool,
    /// Decoded path.
    pub path: String,
    /// Kubernetes verb; the lower-case HTTP method for a non-resource request.
    pub verb: String,
    /// API group.
    pub group: String,
    /// API version.
    pub version: String,
    /// Namespace; empty for cluster scope and all namespaces.
    pub namespace: String,
    /// Plural resource.
    pub resource: String,
    /// Subresource; empty for none.
    pub subresource: String,
    /// Object name; empty for a collection.
    pub name: String,
    /// Raw field selector, for the authorizer.
    pub field_selector: String,
    /// Raw label selector, for the authorizer.
    pub label_selector: String,
}

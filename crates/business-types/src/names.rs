/// API group.
pub const GROUP: &str = "business.tkestack.io";
/// The one version.
pub const VERSION: &str = "v1";
/// Group and version, as in `apiVersion`.
pub const API_VERSION: &str = "business.tkestack.io/v1";

/// Plural of the kind Project.
pub const PROJECTS: &str = "projects";
/// Plural of the kind Namespace.
pub const NAMESPACES: &str = "namespaces";
/// Plural of the kind Platform.
pub const PLATFORMS: &str = "platforms";
/// Plural of the kind Portal, of which each caller sees one object.
pub const PORTAL: &str = "portal";
/// Plural of the kind `ClusterOffer`.
pub const CLUSTER_OFFERS: &str = "clusteroffers";
/// Plural of the kind ConfigMap.
pub const CONFIG_MAPS: &str = "configmaps";
/// Plural of the kind `NsEmigration`.
pub const NS_EMIGRATIONS: &str = "nsemigrations";
/// Plural of the kind `ImageNamespace`.
pub const IMAGE_NAMESPACES: &str = "imagenamespaces";
/// Plural of the kind `ChartGroup`.
pub const CHART_GROUPS: &str = "chartgroups";
/// Plural of the kind `RegistryCredential`.
pub const REGISTRY_CREDENTIALS: &str = "registrycredentials";
/// Plural of the kind Tenant.
pub const TENANTS: &str = "tenants";
/// Plural of the kind `MemberCluster`.
pub const MEMBER_CLUSTERS: &str = "memberclusters";
/// Plural of the kind `NamespaceTemplate`.
pub const NAMESPACE_TEMPLATES: &str = "namespacetemplates";
/// The kind Project.
pub const PROJECT_KIND: &str = "Project";
/// The kind Namespace.
pub const NAMESPACE_KIND: &str = "Namespace";
/// The kind `NsEmigration`.
pub const NS_EMIGRATION_KIND: &str = "NsEmigration";
/// The kind `NamespaceTransfer`, the body of `namespaces/NAME/transfer`.
pub const NAMESPACE_TRANSFER_KIND: &str = "NamespaceTransfer";
/// The subresource of namespaces that moves a namespace to another project.
pub const TRANSFER: &str = "transfer";
/// The kind `PullCredentialRequest`, the body of `namespaces/NAME/pullcredential`.
pub const PULL_CREDENTIAL_REQUEST_KIND: &str = "PullCredentialRequest";
/// The subresource of namespaces that issues passwords to pull from the registry.
pub const PULL_CREDENTIAL: &str = "pullcredential";

/// The kind Platform.
pub const PLATFORM_KIND: &str = "Platform";
/// The kind Portal.
pub const PORTAL_KIND: &str = "Portal";
/// The kind `ClusterOffer`.
pub const CLUSTER_OFFER_KIND: &str = "ClusterOffer";
/// The kind ConfigMap.
pub const CONFIG_MAP_KIND: &str = "ConfigMap";
/// The kind `ImageNamespace`.
pub const IMAGE_NAMESPACE_KIND: &str = "ImageNamespace";
/// The kind `ChartGroup`.
pub const CHART_GROUP_KIND: &str = "ChartGroup";

/// The kind `RegistryCredential`.
pub const REGISTRY_CREDENTIAL_KIND: &str = "RegistryCredential";
/// The kind `OperatorAct`, the body of subresources for operators.
pub const OPERATOR_ACT_KIND: &str = "OperatorAct";
/// The kind Tenant.
pub const TENANT_KIND: &str = "Tenant";
/// The kind `MemberCluster`.
pub const MEMBER_CLUSTER_KIND: &str = "MemberCluster";
/// The kind `NamespaceTemplate`.
pub const NAMESPACE_TEMPLATE_KIND: &str = "NamespaceTemplate";
/// The kind `RegistryToken`, the response when a password for the registry is issued.
pub const REGISTRY_TOKEN_KIND: &str = "RegistryToken";

/// The token in a project's `spec.finalizers`.
pub const PROJECT_FINALIZER: &str = "project";
/// The token in a namespace's `spec.finalizers`.
pub const NAMESPACE_FINALIZER: &str = "namespace";
/// The token in an image namespace's `spec.finalizers`.
pub const IMAGE_NAMESPACE_FINALIZER: &str = "imagenamespace";
/// The token in a chart group's `spec.finalizers`.
pub const CHART_GROUP_FINALIZER: &str = "chartgroup";
/// The token in a member cluster's `spec.finalizers`.
pub const MEMBER_CLUSTER_FINALIZER: &str = "membercluster";
/// The token in a template's `spec.finalizers`.
pub const NAMESPACE_TEMPLATE_FINALIZER: &str = "namespacetemplate";
/// The prefix of a generated project name.
pub const PROJECT_NAME_PREFIX: &str = "prj-";

/// The prefix of a generated platform name.
pub const PLATFORM_NAME_PREFIX: &str = "platform-";
/// The platform that the server creates at start. Its tenant may have another one, too.
pub const PLATFORM_DEFAULT: &str = "platform-default";

/// Label of a `ConfigMap`: the tenant that owns it. A `ConfigMap` without it is the platform's own.
pub const TENANT_LABEL: &str = "business.tkestack.io/tenant";

/// Label of a cluster's namespace: name of the project.
pub const PROJECT_LABEL: &str = "tkestack.io/projectName";
/// Label of a cluster's namespace: name of the business namespace.
pub const NAMESPACE_LABEL: &str = "tkestack.io/namespaceName";

/// Annotation of a cluster's namespace and `ResourceQuota`: uid of the business namespace that they belong to.
pub const UID_ANNOTATION: &str = "business.tkestack.io/uid";
/// Annotation of a cluster's namespace and `ResourceQuota`: a seal (HMAC) of what we have written there, with a key
/// that only the controller has. It proves what an object was granted if our own record was lost.
pub const SEAL_ANNOTATION: &str = "business.tkestack.io/seal";
/// Label of an object that a template has created in a namespace of a member cluster: the template.
pub const TEMPLATE_LABEL: &str = "business.tkestack.io/template";
/// Annotation of such an object: the digest of its content.
pub const TEMPLATE_DIGEST_ANNOTATION: &str = "business.tkestack.io/template-digest";
/// Annotation of a cluster's namespace: the labels and annotations that its template has set, as `label:KEY` and
/// `annotation:KEY` with commas between. Admission policies read it, too.
pub const TEMPLATE_KEYS_ANNOTATION: &str = "business.tkestack.io/template-keys";
/// Name of the `LimitRange` that a template creates in a namespace, and prefix of the names of its `NetworkPolicies`.
pub const TEMPLATE_OBJECT: &str = "business-template";
/// The prefix of the names of templates' `RoleBindings`.
pub const TEMPLATE_BINDING_PREFIX: &str = "business:template:";
/// Name of the pull secret that a template creates in a namespace. The RBAC roles and the admission policies of member
/// clusters refer to it, too.
pub const PULL_SECRET: &str = "business-registry";
/// Annotation of a pull secret: the SHA-256 of its password, as in `status.pullCredential` of the namespace.
pub const PULL_PASSWORD_ANNOTATION: &str = "business.tkestack.io/pull-password";
/// Annotation of a pull secret: the host of the registry, as in names of images.
pub const PULL_REGISTRY_ANNOTATION: &str = "business.tkestack.io/pull-registry";
/// The prefix of the names of `ClusterRoles` that templates may bind.
pub const OFFERED_ROLE_PREFIX: &str = "business:offered:";
/// Annotation: consent to adopt a namespace that exists in the cluster. On the cluster's namespace its value is
/// `<project>/<name>` of the business namespace; on the business namespace it is `true`, and only a caller without
/// tenant may set it.
pub const ADOPT_ANNOTATION: &str = "business.tkestack.io/adopt";
/// Annotation of a cluster's namespace that was adopted: it is not deleted with its object. It is for people and for
/// the cluster's admission policies; the controller itself uses its own record.
pub const ADOPTED_ANNOTATION: &str = "business.tkestack.io/adopted";
/// Annotation of a business namespace, set by an operator: it may be finalized although the cluster has not confirmed
/// that its charge is gone. The value is the reason.
pub const ABANDON_ANNOTATION: &str = "business.tkestack.io/abandon";

/// Annotation of a business namespace, set by an operator: consent to delete the namespace in the cluster that has
/// replaced ours. The value is that namespace's uid. The cluster's admission policies require the same annotation on
/// that namespace, which anybody but the controller may set.
pub const DELETE_REPLACED_ANNOTATION: &str = "business.tkestack.io/delete-replaced";

/// Annotation of a business namespace: the reason of its transfer to its project.
pub const TRANSFER_REASON_ANNOTATION: &str = "business.tkestack.io/transfer-reason";

/// Annotation of an image namespace or chart group: when the registry last reported a change below its prefix. A new
/// value makes the controller measure the content.
pub const REGISTRY_CHANGED_ANNOTATION: &str = "business.tkestack.io/registry-changed";

/// Annotation of an image namespace or chart group: the manifests that were pushed since its content was last measured,
/// as `REPOSITORY@DIGEST` separated by spaces, and `more` if there were more. They are needed because the registry does
/// not list manifests without a tag, and a later push may have taken the tag of a manifest. Values of
/// [`REGISTRY_CHANGED_ANNOTATION`] may stand between the manifests: the manifests before such a value were reported by
/// then, and are removed after a measurement for that value or a later one.
pub const REGISTRY_PUSHED_ANNOTATION: &str = "business.tkestack.io/registry-pushed";

/// The namespace of our events in the host cluster, which need not have a namespace with the project's name.
pub const EVENTS_NAMESPACE: &str = "default";

/// Annotation of a project: why an operator has locked it.
pub const LOCK_REASON_ANNOTATION: &str = "business.tkestack.io/lock-reason";

/// Annotation of a tenant: the clusters, separated by commas, or `*`, on which it may get a ceiling although other
/// tenants use them without one. What those tenants use is not counted against the cluster.
pub const ACCEPT_UNBOUNDED_ANNOTATION: &str = "business.tkestack.io/accept-unbounded";

/// Annotation of a `MemberCluster`: `true` if it is the host cluster itself, `false` if not. Service accounts of
/// namespaces there are then the host cluster's.
pub const HOST_CLUSTER_ANNOTATION: &str = "business.tkestack.io/host-cluster";

/// Annotation of a member cluster: the last data from the controller's directory, as JSON. A field that somebody has
/// changed since then is not overwritten.
pub const DIRECTORY_ANNOTATION: &str = "business.tkestack.io/directory";

/// Annotations with effects on grants or charges. A caller with a tenant may neither set nor change them.
pub const OPERATOR_ANNOTATIONS: [&str; 4] =
    [ADOPT_ANNOTATION, ABANDON_ANNOTATION, DELETE_REPLACED_ANNOTATION, LOCK_REASON_ANNOTATION];

/// Annotations that the server writes. It ignores the values that callers send.
pub const SERVER_ANNOTATIONS: [&str; 2] = [REGISTRY_CHANGED_ANNOTATION, REGISTRY_PUSHED_ANNOTATION];

/// Label of a namespace of a member cluster that nobody may adopt, whatever its value.
pub const OFF_LIMITS_LABEL: &str = "business.tkestack.io/off-limits";

/// Default namespace in the host cluster for the Secrets of member clusters. Whoever can read Secrets there can act as
/// the controller in all member clusters.
pub const MEMBERS_NAMESPACE: &str = "tke-business-members";

/// Label of a Secret there: the cluster whose credentials it holds.
pub const CLUSTER_LABEL: &str = "business.tkestack.io/cluster";
/// Annotation of such a Secret: the cluster's name for people.
pub const CLUSTER_DISPLAY_NAME_ANNOTATION: &str = "business.tkestack.io/display-name";
/// Annotation of such a Secret: the cluster's type.
pub const CLUSTER_TYPE_ANNOTATION: &str = "business.tkestack.io/cluster-type";
/// Annotation of such a Secret: the tenants that may use the cluster, separated by commas; without it, all tenants may.
pub const CLUSTER_TENANTS_ANNOTATION: &str = "business.tkestack.io/tenants";
/// Annotation of such a Secret: the URL of the cluster for users.
pub const CLUSTER_ENDPOINT_ANNOTATION: &str = "business.tkestack.io/endpoint";
/// Annotation of such a Secret: when the token of the tunnel's agents expires.
pub const CLUSTER_AGENTS_END_ANNOTATION: &str = "business.tkestack.io/agents-end";
/// Key of such a Secret: the controller's kubeconfig.
pub const CLUSTER_KUBECONFIG_KEY: &str = "kubeconfig";
/// Key of such a Secret: the kubeconfig of the account that may request certificates.
pub const CLUSTER_SIGNER_KEY: &str = "signer-kubeconfig";
/// Key of such a Secret: the CA certificates of the endpoint, PEM. Without it, public CAs are trusted.
pub const CLUSTER_ENDPOINT_CA_KEY: &str = "endpoint-ca.crt";

/// Namespace of the controller's service account in a member cluster, independent of the platform's namespace in the
/// host cluster.
pub const ACCOUNT_NAMESPACE: &str = "tke-business";

/// Default list of namespaces of a member cluster that no business namespace may claim. A trailing `*` matches any
/// suffix.
pub const FORBIDDEN_NAMESPACES: [&str; 4] = ["default", "kube-*", ACCOUNT_NAMESPACE, MEMBERS_NAMESPACE];

/// Namespaces of a member cluster whose service accounts get none of our roles, because they run the cluster.
pub const SYSTEM_NAMESPACES: [&str; 2] = ["kube-*", ACCOUNT_NAMESPACE];

/// The namespaces that may not be claimed: the configured ones, those of our own programs, and always that of the
/// controller's service account.
pub fn forbidden(configured: &[String], own: &[&str]) -> Vec<String> {
    let mut forbidden = configured.to_vec();
    for name in own.iter().copied().chain([ACCOUNT_NAMESPACE]) {
        if !forbidden.iter().any(|known| known == name) {
            forbidden.push(name.to_owned());
        }
    }
    forbidden
}

/// Whether a namespace of a member cluster may not be claimed. The check ignores case.
pub fn is_forbidden<S: AsRef<str>>(namespace: &str, forbidden: &[S]) -> bool {
    let namespace = namespace.to_lowercase();
    forbidden.iter().any(|pattern| {
        let pattern = pattern.as_ref();
        pattern.strip_suffix('*').map_or(namespace == pattern, |prefix| namespace.starts_with(prefix))
    })
}

/// The default name of a business namespace: `<cluster>-<namespace>`; `None` if one of them is empty.
pub fn derived_name(cluster: &str, namespace: &str) -> Option<String> {
    (!cluster.is_empty() && !namespace.is_empty()).then(|| format!("{cluster}-{namespace}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clusters_own_namespaces_are_forbidden() {
        for name in ["default", "kube-system", "KUBE-public", "kube-", "tke-business", "tke-business-members"]
        {
            assert!(is_forbidden(name, &FORBIDDEN_NAMESPACES), "{name}");
        }
        let configured = forbidden(&["x-*".to_owned()], &["elsewhere"]);
        assert_eq!(configured, ["x-*", "elsewhere", "tke-business"]);
        let by_default = forbidden(&FORBIDDEN_NAMESPACES.map(str::to_owned), &["tke-business"]);
        assert_eq!(by_default, FORBIDDEN_NAMESPACES);
        for name in ["web", "kube", "defaults", "tke-business-2"] {
            assert!(!is_forbidden(name, &FORBIDDEN_NAMESPACES), "{name}");
        }
    }

    #[test]
    fn a_name_is_derived_from_both_parts_only() {
        assert_eq!(derived_name("c1", "web").as_deref(), Some("c1-web"));
        assert_eq!(derived_name("", "web"), None);
        assert_eq!(derived_name("c1", ""), None);
    }
}

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
/// Plural of the kind Portal, of which a caller has one.
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
/// The subresource of namespaces that moves one to another project.
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
/// The kind `OperatorAct`, the body of what operators do by subresources.
pub const OPERATOR_ACT_KIND: &str = "OperatorAct";
/// The kind Tenant.
pub const TENANT_KIND: &str = "Tenant";
/// The kind `MemberCluster`.
pub const MEMBER_CLUSTER_KIND: &str = "MemberCluster";
/// The kind `NamespaceTemplate`.
pub const NAMESPACE_TEMPLATE_KIND: &str = "NamespaceTemplate";
/// What is answered when a password for the registry is issued.
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
/// What a project's name is generated from when none is given.
pub const PROJECT_NAME_PREFIX: &str = "prj-";

/// What a platform's name is generated from when none is given.
pub const PLATFORM_NAME_PREFIX: &str = "platform-";
/// The platform that is made at start, and may stand beside another one of its tenant.
pub const PLATFORM_DEFAULT: &str = "platform-default";

/// Label of a `ConfigMap`: the tenant that owns it. Without it a `ConfigMap` is the platform's own.
pub const TENANT_LABEL: &str = "business.tkestack.io/tenant";

/// Label of a cluster's namespace: name of the project.
pub const PROJECT_LABEL: &str = "tkestack.io/projectName";
/// Label of a cluster's namespace: name of the business namespace.
pub const NAMESPACE_LABEL: &str = "tkestack.io/namespaceName";

/// Annotation of a cluster's namespace and `ResourceQuota`: uid of the business namespace that they belong to.
pub const UID_ANNOTATION: &str = "business.tkestack.io/uid";
/// Annotation of a cluster's namespace and `ResourceQuota`: what we have written there, sealed with a key that only the
/// controller has. It proves, when our own record was lost, what an object was granted.
pub const SEAL_ANNOTATION: &str = "business.tkestack.io/seal";
/// Label of what a template has put into a namespace of a member cluster: the template.
pub const TEMPLATE_LABEL: &str = "business.tkestack.io/template";
/// Annotation of the same: what was put there, as a digest.
pub const TEMPLATE_DIGEST_ANNOTATION: &str = "business.tkestack.io/template-digest";
/// Annotation of a cluster's namespace: the labels and annotations that its template has set, as `label:KEY` and
/// `annotation:KEY` with commas between. Admission policies read it, too.
pub const TEMPLATE_KEYS_ANNOTATION: &str = "business.tkestack.io/template-keys";
/// Name of the `LimitRange` that a template puts into a namespace; what the names of its `NetworkPolicies` begin with.
pub const TEMPLATE_OBJECT: &str = "business-template";
/// What the names of the `RoleBindings` of templates begin with.
pub const TEMPLATE_BINDING_PREFIX: &str = "business:template:";
/// Name of the pull secret that a template puts into a namespace. The rights and the admission policies of member clusters
/// name it, too.
pub const PULL_SECRET: &str = "business-registry";
/// Annotation of a pull secret: the SHA-256 of the password in it, as `status.pullCredential` of the namespace has it.
pub const PULL_PASSWORD_ANNOTATION: &str = "business.tkestack.io/pull-password";
/// Annotation of a pull secret: the registry that it is for, as images name it.
pub const PULL_REGISTRY_ANNOTATION: &str = "business.tkestack.io/pull-registry";
/// The names of the `ClusterRoles` that templates may give begin with this.
pub const OFFERED_ROLE_PREFIX: &str = "business:offered:";
/// Consent to take over a namespace that exists in the cluster. On the cluster's namespace its value is
/// `<project>/<name>` of the business namespace; on the business namespace it is `true`, and only a caller without
/// tenant may set it.
pub const ADOPT_ANNOTATION: &str = "business.tkestack.io/adopt";
/// Annotation of a cluster's namespace that we did not make: it is not deleted with its object. It says so to people
/// and to the cluster's admission policies; what we decide by is our own record.
pub const ADOPTED_ANNOTATION: &str = "business.tkestack.io/adopted";
/// Annotation of a business namespace, set by an operator: it may be finalized although its charge is not
/// confirmed gone. The value is the reason.
pub const ABANDON_ANNOTATION: &str = "business.tkestack.io/abandon";

/// Annotation of a business namespace, set by an operator: consent to the deletion of a namespace that somebody made in
/// the cluster in the place of ours. The value is that namespace's uid. The same annotation of that namespace, which anybody but the
/// controller may set, lets the cluster's policies agree.
pub const DELETE_REPLACED_ANNOTATION: &str = "business.tkestack.io/delete-replaced";

/// Annotation of a business namespace: why it was moved to its project, as its mover has said.
pub const TRANSFER_REASON_ANNOTATION: &str = "business.tkestack.io/transfer-reason";

/// Annotation of an image namespace or chart group: when something below its prefix was last heard to change. A changed
/// value makes the controller measure its content.
pub const REGISTRY_CHANGED_ANNOTATION: &str = "business.tkestack.io/registry-changed";

/// Annotation of an image namespace or chart group: manifests that were pushed since its content was last measured, as
/// `REPOSITORY@DIGEST` with spaces between, and `more` where there were more. A value of [`REGISTRY_CHANGED_ANNOTATION`]
/// may stand among them: what stands before it was told by then, and goes when a measurement has followed that value or a
/// later one. No list of the registry shows a manifest without a tag, and another push may have taken its tag.
pub const REGISTRY_PUSHED_ANNOTATION: &str = "business.tkestack.io/registry-pushed";

/// The namespace of all our events in the host cluster: it need not have one that is named like the project.
pub const EVENTS_NAMESPACE: &str = "default";

/// Annotation of a project: why an operator has locked it.
pub const LOCK_REASON_ANNOTATION: &str = "business.tkestack.io/lock-reason";

/// Annotation of a tenant: clusters, with commas between, or `*`, on which it may be given a ceiling although others use them
/// without one. What those take is not counted against the cluster.
pub const ACCEPT_UNBOUNDED_ANNOTATION: &str = "business.tkestack.io/accept-unbounded";

/// Annotation of a `MemberCluster`: `true` if it is the host cluster itself. Service accounts of namespaces there are then
/// the host cluster's.
pub const HOST_CLUSTER_ANNOTATION: &str = "business.tkestack.io/host-cluster";

/// Annotation of a member cluster: what the controller's directory last said of it, as JSON. A field that somebody has
/// changed since then stays as it is.
pub const DIRECTORY_ANNOTATION: &str = "business.tkestack.io/directory";

/// Annotations that grant something, or cost something, which a caller with a tenant may neither set nor change.
pub const OPERATOR_ANNOTATIONS: [&str; 4] =
    [ADOPT_ANNOTATION, ABANDON_ANNOTATION, DELETE_REPLACED_ANNOTATION, LOCK_REASON_ANNOTATION];

/// Annotations that the server writes: it ignores what a caller sends there.
pub const SERVER_ANNOTATIONS: [&str; 2] = [REGISTRY_CHANGED_ANNOTATION, REGISTRY_PUSHED_ANNOTATION];

/// Namespace of the host cluster with the Secrets of member clusters, unless configured otherwise: whoever can read
/// Secrets there can act as the controller in all member clusters.
pub const MEMBERS_NAMESPACE: &str = "tke-business-members";

/// Label of a Secret there: the cluster whose credentials it holds.
pub const CLUSTER_LABEL: &str = "business.tkestack.io/cluster";
/// Annotation of such a Secret: the cluster's name for people.
pub const CLUSTER_DISPLAY_NAME_ANNOTATION: &str = "business.tkestack.io/display-name";
/// Annotation of such a Secret: the cluster's type.
pub const CLUSTER_TYPE_ANNOTATION: &str = "business.tkestack.io/cluster-type";
/// Annotation of such a Secret: the tenants that may use the cluster, with commas between; without it all may.
pub const CLUSTER_TENANTS_ANNOTATION: &str = "business.tkestack.io/tenants";
/// Annotation of such a Secret: the URL at which people reach the cluster.
pub const CLUSTER_ENDPOINT_ANNOTATION: &str = "business.tkestack.io/endpoint";
/// Annotation of such a Secret: when the token of the agents ends through which the cluster is reached.
pub const CLUSTER_AGENTS_END_ANNOTATION: &str = "business.tkestack.io/agents-end";
/// Key of such a Secret: the controller's kubeconfig.
pub const CLUSTER_KUBECONFIG_KEY: &str = "kubeconfig";
/// Key of such a Secret: the kubeconfig of the account that may have certificates signed.
pub const CLUSTER_SIGNER_KEY: &str = "signer-kubeconfig";
/// Key of such a Secret: the authorities that vouch for the endpoint, PEM. Without it those of the system do.
pub const CLUSTER_ENDPOINT_CA_KEY: &str = "endpoint-ca.crt";

/// Namespace of a member cluster with the controller's account there, whatever the platform's own namespace in the host
/// cluster is called.
pub const ACCOUNT_NAMESPACE: &str = "tke-business";

/// Namespaces of a member cluster that no business namespace may claim, unless configured otherwise. A trailing `*`
/// stands for any ending.
pub const FORBIDDEN_NAMESPACES: [&str; 4] = ["default", "kube-*", ACCOUNT_NAMESPACE, MEMBERS_NAMESPACE];

/// Namespaces of a member cluster whose service accounts get no role of ours: the cluster is ruled from there.
pub const SYSTEM_NAMESPACES: [&str; 2] = ["kube-*", ACCOUNT_NAMESPACE];

/// Namespaces that may not be claimed: those that are configured, those of our own programs, and always that of the
/// controller's account.
pub fn forbidden(configured: &[String], own: &[&str]) -> Vec<String> {
    let mut forbidden = configured.to_vec();
    for name in own.iter().copied().chain([ACCOUNT_NAMESPACE]) {
        if !forbidden.iter().any(|known| known == name) {
            forbidden.push(name.to_owned());
        }
    }
    forbidden
}

/// Whether a namespace of a member cluster may not be claimed. Case does not count.
pub fn is_forbidden<S: AsRef<str>>(namespace: &str, forbidden: &[S]) -> bool {
    let namespace = namespace.to_lowercase();
    forbidden.iter().any(|pattern| {
        let pattern = pattern.as_ref();
        pattern.strip_suffix('*').map_or(namespace == pattern, |prefix| namespace.starts_with(prefix))
    })
}

/// The name of a business namespace that was given none: `<cluster>-<namespace>`.
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

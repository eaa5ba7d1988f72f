//! The kinds of `business.tkestack.io/v1` and their pure rules.
//!
//! A tenant owns *projects*, which form a tree; a project holds hard quota by member cluster; a *namespace*
//! carves part of it out for one namespace of one cluster. *Image namespaces* and *chart groups* are a project's places in the
//! registry.

/// Names that both programs share: group, finalizers, labels, annotations.
pub mod names;
/// What has to be known of a member cluster when an object that names it is written.
pub mod cluster;
/// Who people are in member clusters.
pub mod access;
/// How a certificate for a member cluster is asked for.
pub mod issue;
/// What the programs tell each other of their audits.
pub mod audit;
/// `metav1.Condition`: one aspect of an object's state.
pub mod condition;
/// Which resources quota knows, and which amounts they take.
pub mod resources;
/// What objects mean to the quota ledger.
pub mod account;
/// The kind Project.
pub mod project;
/// The kind Namespace.
pub mod namespace;
/// The kind Platform.
pub mod platform;
/// The kind ConfigMap.
pub mod config_map;
/// The kind `NsEmigration`.
pub mod nsemigration;
/// What the kinds of the registry have in common.
pub mod registry;
/// The kind `ImageNamespace`.
pub mod image_namespace;
/// The kind `ChartGroup`.
pub mod chart_group;
/// The kind `RegistryCredential`.
pub mod registry_credential;
/// Somebody: a user, a group, a service account.
pub mod subject;
/// The kind Tenant.
pub mod tenant;
/// The kind `MemberCluster`.
pub mod member_cluster;
/// The kind `NamespaceTemplate`.
pub mod namespace_template;
/// What operators do by subresources.
pub mod operator_act;
/// The charge of a namespace: a high-water mark.
pub mod charge;
/// What is wrong with an object, beyond its shape.
pub mod validation;
/// Why a write is refused, for programs.
pub mod refusal;

pub use audit::{ClusterComparison, Comparison, HeldAmount, LedgerStatus, Orphan, OrphanState, Stranger};
pub use chart_group::{ChargedChartGroup, ChartGroup};
pub use cluster::{ClosedCluster, Cluster};
pub use condition::Condition;
pub use image_namespace::{ChargedImageNamespace, ImageNamespace};
pub use member_cluster::{
    ChargedMemberCluster, ClusterCredentials, ClusterEndpoint, ClusterIdentity, CredentialInUse,
    DerivedAmount, DerivedCapacity, MemberClusterSpec, MemberClusterStatus,
};
pub use namespace::{
    AppliedTemplate, ChargedNamespace, ClusterNamespaceRecord, NamespacePhase, NamespaceSpec,
    NamespaceStatus, NamespaceTransfer, Provenance, PullCredential, PullCredentialRequest, PullPassword,
};
pub use namespace_template::{
    LimitRangeItem, LimitRangeTemplate, NamespaceTemplateSpec, NamespaceTemplateStatus,
    NetworkPolicyTemplate, ProjectField, PullSecretTemplate, RoleBindingTemplate, Rollout, TemplateWave,
};
pub use nsemigration::{EmigrationPhase, NsEmigrationSpec, NsEmigrationStatus};
pub use operator_act::OperatorAct;
pub use platform::{ChargedPlatform, PlatformSpec};
pub use project::{
    AccessEntry, AccessHolder, ChargedProject, EffectiveAccess, HardQuantity, ProjectPhase, ProjectSpec,
    ProjectStatus, UsedQuantity,
};
pub use registry::{RegistryKind, RegistryPhase, RegistryRecord, RegistrySpec, RegistryStatus};
pub use registry_credential::{
    CredentialHolder, RegistryCredentialSpec, RegistryCredentialStatus, Robot, RobotAccess,
};
pub use subject::{Subject, SubjectKind};
pub use tenant::{ChargedTenant, TenantSpec, TenantStatus};

//! The kinds of `business.tkestack.io/v1` and their pure rules.
//!
//! A tenant owns *projects*, which form a tree. A project has hard quota per member cluster. A *namespace* takes part
//! of it for one namespace of one cluster. *Image namespaces* and *chart groups* are a project's prefixes in the
//! registry.

/// Names that both programs share: group, finalizers, labels, annotations.
pub mod names;
/// The fields of a member cluster that matter to the objects that refer to it.
pub mod cluster;
/// The names of users and groups in member clusters.
pub mod access;
/// Requests for certificates of member clusters.
pub mod issue;
/// Results of the programs' audits.
pub mod audit;
/// `metav1.Condition`: one aspect of an object's state.
pub mod condition;
/// Validation of texts by rules for names.
mod text;
/// The resources of quota and their valid amounts.
pub mod resources;
/// The accounts of objects for the quota ledger.
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
/// What the registry's kinds have in common.
pub mod registry;
/// The kind `ImageNamespace`.
pub mod image_namespace;
/// The kind `ChartGroup`.
pub mod chart_group;
/// The kind `RegistryCredential`.
pub mod registry_credential;
/// Subjects: users, groups and service accounts.
pub mod subject;
/// The kind Tenant.
pub mod tenant;
/// The kind `MemberCluster`.
pub mod member_cluster;
/// The kind `NamespaceTemplate`.
pub mod namespace_template;
/// The body of subresources for operators, such as `lock`.
pub mod operator_act;
/// The high-water mark that a namespace is charged.
pub mod charge;
/// Validation of objects beyond their schema.
pub mod validation;
/// The reasons of refused writes, for programs.
pub mod refusal;

pub use audit::{ClusterComparison, Comparison, HeldAmount, LedgerStatus, Orphan, OrphanState, Stranger};
pub use chart_group::{ChargedChartGroup, ChartGroup};
pub use cluster::{ClosedCluster, ClusterSummary};
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

//! The table of controllers: variant, field, kind. Caches, watches, keys of the queue and the dispatch are generated
//! from it.
//!
//! Adding a controller is a row here and its own files: `NAME/kind.rs` with its [`crate::kinds::Kind`], and `NAME.rs`
//! with its [`crate::controller::Controller`].

/// Calls a macro with the table.
macro_rules! every_controller {
    ($then:ident) => {
        $then! {
            Project, projects, crate::project::kind::BusinessProject;
            Namespace, namespaces, crate::namespace::kind::BusinessNamespace;
            NsEmigration, nsemigrations, crate::nsemigration::kind::NsEmigration;
            ImageNamespace, image_namespaces, crate::registry::kind::BusinessImageNamespace;
            ChartGroup, chart_groups, crate::registry::kind::BusinessChartGroup;
            Tenant, tenants, crate::tenant::kind::BusinessTenant;
            MemberCluster, member_clusters, crate::member_cluster::kind::BusinessMemberCluster;
            NamespaceTemplate, namespace_templates, crate::namespace_template::kind::NamespaceTemplate;
        }
    };
}
pub(crate) use every_controller;

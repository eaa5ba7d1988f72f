use crate::api::Api;
use crate::connection::{ConnectionFlags, config_of_file};
use crate::failure::{Failure, Obstacle};
use crate::objects::MemberCluster;
use crate::paths;
use business_types::names;
use clap::Args;
use serde::Deserialize;
use serde_json::Value;
use std::path::PathBuf;

/// The two clusters of a command that looks into a member cluster: there, `--kubeconfig` is the member's.
#[derive(Clone, Debug, Args)]
pub(crate) struct ClusterFlags {
    /// The kubeconfig of the host cluster; else $KUBECONFIG or ~/.kube/config (--kubeconfig is the member cluster's)
    #[arg(long, value_name = "FILE")]
    host_kubeconfig: Option<PathBuf>,
    /// The context of the member cluster in its kubeconfig (--context is the host's)
    #[arg(long, value_name = "NAME")]
    member_context: Option<String>,
}

/// Clients of the host cluster and of a member cluster.
pub(crate) struct Clusters {
    pub(crate) host: Api,
    pub(crate) member: Api,
}

/// An object, for reading its uid.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct UidOnly {
    metadata: crate::objects::ObjectMeta,
}

impl ClusterFlags {
    pub(crate) async fn open(&self, connection: &ConnectionFlags) -> Result<Clusters, Failure> {
        let file = connection.kubeconfig.as_deref();
        let file = file.ok_or_else(|| Failure::Usage("name the member cluster's --kubeconfig".to_owned()))?;
        let config = config_of_file(file, self.member_context.as_deref()).await?;
        let member = Api::new(config, String::new(), connection.request_timeout).await?.for_member();
        Ok(Clusters { host: connection.open_with(self.host_kubeconfig.as_deref()).await?, member })
    }
}

/// The identity of a cluster: the uid of its namespace `kube-system`.
pub(crate) async fn cluster_uid(member: &Api) -> Result<String, Failure> {
    Ok(member.get::<UidOnly>("/api/v1/namespaces/kube-system").await?.metadata.uid)
}

/// The `MemberCluster` of this name. Fails unless the member's kubeconfig leads to that very cluster.
pub(crate) async fn verified_record(
    host: &Api,
    member: &Api,
    cluster: &str,
) -> Result<MemberCluster, Failure> {
    let record: MemberCluster = host.get(&paths::object(names::MEMBER_CLUSTERS, cluster)).await?;
    if record.status.uid.is_empty() {
        let what =
            format!("the controller has not looked at cluster {cluster} yet: nobody knows which one it is");
        let next = format!("`kubectl business describe cluster {cluster}` says what it waits for");
        return Err(Obstacle::new(what, next).into());
    }
    if record.status.uid != cluster_uid(member).await? {
        let what = format!("the kubeconfig leads to another cluster than {cluster} stands for");
        let next = "name that cluster's by --kubeconfig, and its context in it by --member-context";
        return Err(Obstacle::new(what, next).into());
    }
    Ok(record)
}

/// Whether nobody may adopt this namespace: its cluster refuses that to the controller.
pub(crate) fn is_off_limits(namespace: &Value) -> bool {
    let labels = namespace.pointer("/metadata/labels");
    labels.and_then(|labels| labels.get(names::OFF_LIMITS_LABEL)).is_some()
}

/// A string at a JSON pointer; empty if there is none.
pub(crate) fn text<'a>(object: &'a Value, path: &str) -> &'a str {
    object.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

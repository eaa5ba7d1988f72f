use crate::api::Api;
use crate::connection::{ConnectionFlags, of_file};
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
pub(crate) struct BothClusters {
    /// The kubeconfig of the host cluster; else $KUBECONFIG or ~/.kube/config (--kubeconfig is the member cluster's)
    #[arg(long, value_name = "FILE")]
    host_kubeconfig: Option<PathBuf>,
    /// The context of the member cluster in its kubeconfig (--context is the host's)
    #[arg(long, value_name = "NAME")]
    member_context: Option<String>,
}

/// The host cluster and a member.
pub(crate) struct Both {
    pub(crate) host: Api,
    pub(crate) member: Api,
}

/// An object of which only the uid is read.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Identified {
    metadata: crate::objects::ServedMeta,
}

impl BothClusters {
    pub(crate) async fn open(&self, connection: &ConnectionFlags) -> Result<Both, Failure> {
        let file = connection.kubeconfig.as_deref();
        let file = file.ok_or_else(|| Failure::Usage("name the member cluster's --kubeconfig".to_owned()))?;
        let config = of_file(file, self.member_context.as_deref()).await?;
        let member = Api::new(config, String::new(), connection.request_timeout)?.of_member();
        Ok(Both { host: connection.open_with(self.host_kubeconfig.as_deref()).await?, member })
    }
}

/// Which cluster it is: the uid of its `kube-system`.
pub(crate) async fn uid(member: &Api) -> Result<String, Failure> {
    Ok(member.get::<Identified>("/api/v1/namespaces/kube-system").await?.metadata.uid)
}

/// The record of a cluster, if the member's kubeconfig leads to that cluster: the content of another one must not be
/// taken for its own.
pub(crate) async fn record(host: &Api, member: &Api, cluster: &str) -> Result<MemberCluster, Failure> {
    let record: MemberCluster = host.get(&paths::named(names::MEMBER_CLUSTERS, cluster)).await?;
    if record.status.uid.is_empty() {
        let what =
            format!("the controller has not looked at cluster {cluster} yet: nobody knows which one it is");
        let next = format!("`kubectl business describe cluster {cluster}` says what it waits for");
        return Err(Obstacle::new(what, next).into());
    }
    if record.status.uid != uid(member).await? {
        let what = format!("the kubeconfig leads to another cluster than {cluster} stands for");
        let next = "name that cluster's by --kubeconfig, and its context in it by --member-context";
        return Err(Obstacle::new(what, next).into());
    }
    Ok(record)
}

/// A text of an object.
pub(crate) fn text<'a>(object: &'a Value, path: &str) -> &'a str {
    object.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

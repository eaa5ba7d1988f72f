//! Adoption of namespaces that exist in member clusters: `discover` writes those that nobody manages to a file, and
//! `adopt` takes all namespaces of the file, or none. What runs in them goes on; the controller takes them over with
//! the consent of the operator who adopts them.

/// The mapping file: one line for each namespace.
pub mod mapping;
/// Finds namespaces, for the mapping file.
pub mod discover;
/// Creates the objects of a mapping file.
pub mod adopt;
/// The output of both commands.
pub mod report;

use crate::config::MembersConfig;
use crate::dial::Dialer;
use crate::directory::{DirectorySource, open_source};
use crate::error::Error;
use crate::member::pages::PagedList;
use k8s_openapi::Metadata;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::Api;
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use std::time::Duration;

/// Objects in one page of a list.
const PAGE: u32 = 500;
/// A call that takes longer has failed.
const DEADLINE: Duration = Duration::from_secs(30);

/// The source of member clusters.
async fn source(members: &MembersConfig, client: &Client) -> Result<Box<dyn DirectorySource>, Error> {
    let (kubeconfig, platform) =
        (members.members_kubeconfig.as_deref(), members.platform_kubeconfig.as_deref());
    open_source(kubeconfig, platform, &members.members_namespace, client).await
}

/// A client of one of the member clusters.
async fn member_client(source: &dyn DirectorySource, cluster: &str) -> Result<Client, Error> {
    let listing = source.load().await?;
    if let Some(why) = listing.unusable.get(cluster) {
        return Err(Error::Config(format!("cluster {cluster} has no usable kubeconfig: {why}")));
    }
    let listed = listing.clusters.into_iter().find(|listed| listed.name == cluster);
    let listed = listed.ok_or_else(|| Error::Config(format!("cluster {cluster} is not in the directory")))?;
    Dialer::default().client(listed.config)
}

/// Calls `take` with every object of a kind in a cluster.
async fn for_each_object<K>(client: &Client, mut take: impl FnMut(K)) -> Result<(), Error>
where
    K: Resource<DynamicType = ()> + Metadata<Ty = ObjectMeta> + Clone + Debug + DeserializeOwned,
{
    let api: Api<K> = Api::all(client.clone());
    let mut pages = PagedList::of(PAGE);
    loop {
        let params = pages.params();
        let read = pages.read(DEADLINE, api.list(&params)).await;
        let Some(page) = read.map_err(Error::Member)? else { continue };
        let objects = page.items.len();
        page.items.into_iter().for_each(&mut take);
        if !pages.advance(objects, page.metadata.continue_) {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::bulky;
    use crate::fixtures::server::Server;
    use k8s_openapi::api::core::v1::ResourceQuota;

    #[tokio::test(start_paused = true)]
    async fn what_is_large_together_is_listed_all_the_same() {
        let server = Server::default();
        for number in 0..100 {
            server.put(&format!("/api/v1/namespaces/theirs/resourcequotas/x{number}"), &bulky());
        }
        let mut count = 0;
        for_each_object(&server.client(), |_: ResourceQuota| count += 1).await.unwrap();
        assert_eq!(count, 100);
    }
}

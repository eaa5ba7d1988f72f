//! The server that is asked, beside clusters as the old one had them.

use super::Group;
use crate::certificates::SigningCluster;
use crate::support::{World, member_cluster, until};
use business_api::certificates::CertificateIssuer;
use business_api::config::{Cli, Command};
use business_api::import;
use business_types::issue::{IssueRequest, IssuedCertificate};
use clap::Parser;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use meta::status::Status;
use serde_json::{Value, json};
use std::sync::Arc;
use store::testing;

const RECORDED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/recorded");
const FLAGS: [&str; 3] =
    ["--tenant-grant", "--initial-administrator-tenant=default", "--initial-administrator-user=admin"];
const CLUSTERS: [(&str, &str); 12] = [
    ("cls-a", "acme"),
    ("cls-b", "acme"),
    ("cls-down", "acme"),
    ("cls-down-east", "acme"),
    ("cls-eckey", "acme"),
    ("cls-imp", "acme"),
    ("cls-lost", "acme"),
    ("cls-noaddr", "acme"),
    ("cls-nocred", "acme"),
    ("cls-g", "globex"),
    ("cls-g1", "globex"),
    ("other", "default"),
];

impl Group {
    pub(super) async fn world(&self) -> World {
        let world = match self.database {
            Some(dump) => imported(dump).await,
            None => World::with_issuer(&FLAGS, Arc::new(Controller(SigningCluster::new()))).await,
        };
        until("the cache is filled", async || world.operator().get("/readyz/cache-sync").await.code == 200)
            .await;
        for (cluster, version) in clusters() {
            world.register(cluster, json!({"version": version})).await;
        }
        if self.database.is_some() {
            compared(&world).await;
        }
        let default = "/platforms/platform-default";
        until("it has begun", async || world.operator().get(default).await.code == 200).await;
        world
    }
}

/// As bodies of member clusters, with the version of each.
fn clusters() -> Vec<(Value, &'static str)> {
    let recorded = CLUSTERS.iter().map(|(name, tenant)| {
        let mut cluster = member_cluster(name, &[tenant]);
        cluster["spec"]["type"] = json!(if *name == "cls-imp" { "Imported" } else { "Baremetal" });
        cluster["spec"]["displayName"] = json!(format!("Cluster {name}"));
        (cluster, "1.21.4")
    });
    let mut main = member_cluster("cluster", &["default"]);
    main["spec"]["displayName"] = json!("cluster");
    main["spec"]["type"] = json!("Imported");
    recorded.chain([(main, "1.36.3")]).collect()
}

/// With all that an installation of the old system has.
async fn imported(dump: &str) -> World {
    let database = testing::database().await.unwrap();
    let line = format!(
        "business-api import --database-url {} --dump {RECORDED}/{dump} --apply -o json",
        database.url
    );
    let Command::Import(settings) = Cli::parse_from(line.split(' ')).command else { panic!("not import") };
    import::run(&settings).await.unwrap();
    World::started(database, &FLAGS).await
}

/// Growth is held after an import until every cluster was looked at.
async fn compared(world: &World) {
    let operator = world.operator();
    let list = operator.get("/projects").await.expect(200);
    let revision: u64 = list["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
    for (cluster, _) in clusters() {
        let name = cluster["metadata"]["name"].as_str().unwrap();
        let told = json!({"status": {"comparison": {"revision": revision}}});
        operator.patch(&format!("/memberclusters/{name}/status"), told).await.expect(200);
    }
    until("growth goes on", async || operator.get("/readyz").await.code == 200).await;
}

/// Issues certificates, and says what the controller says of clusters that cannot.
struct Controller(Arc<SigningCluster>);

impl CertificateIssuer for Controller {
    fn issue(&self, request: IssueRequest) -> BoxFuture<'_, Result<IssuedCertificate, Status>> {
        let cluster = request.cluster.clone();
        let refused = move |why: &str| {
            let why = format!("cluster {cluster} {why}");
            async move { Err(Status::failure(422, "Invalid", why)) }.boxed()
        };
        match request.cluster.as_str() {
            "cls-down" => refused("cannot be reached: connection refused"),
            "cls-nocred" => refused("issues no certificates: there is no kubeconfig of a signer for it"),
            "cls-lost" => refused("is not in the directory"),
            _ => self.0.issue(request),
        }
    }
}

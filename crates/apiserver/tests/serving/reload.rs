use crate::support::client::Client;
use crate::support::pki::Ca;
use crate::support::{World, trust_file, until, write_serving};
use http::Method;

const ROOT: [(&str, &str); 2] = [("x-remote-user", "root"), ("x-remote-group", "system:masters")];

#[tokio::test]
async fn a_front_proxy_ca_is_exchanged_on_living_connections() {
    let world = World::start().await;
    let old = world.aggregator();
    let mut connection = world.client(Some(&old)).await;
    assert_eq!(connection.send(Method::GET, "/apis", &ROOT).await.code, 200);
    let next = Ca::new("front proxy 2");
    world.kube.trust(&world.client_ca, &next, &["aggregator"]);
    until("the old proxy is not believed any more", async || {
        connection.send(Method::GET, "/apis", &ROOT).await.code == 401
    })
    .await;
    assert_eq!(world.get(Some(&next.client("aggregator", &[])), &ROOT).await.user(), "root");
}

#[tokio::test]
async fn the_serving_certificate_is_exchanged() {
    let world = World::start().await;
    assert!(Client::connect(world.address, &world.serving_ca, None, "h2").await.is_ok());
    let next = Ca::new("serving 2");
    write_serving(&world.dir, &next);
    until("the new certificate is served", async || {
        Client::connect(world.address, &next, None, "h2").await.is_ok()
    })
    .await;
}

#[tokio::test]
async fn a_client_ca_file_adds_to_the_config_map() {
    let own = Ca::new("own");
    let path = std::env::temp_dir().join(format!("client-ca-{}.pem", uuid::Uuid::new_v4()));
    std::fs::write(&path, own.pem()).unwrap();
    let world = World::start_with(|settings| settings.authentication.trust = trust_file(path.clone())).await;
    let by_file = own.client("ops", &["system:masters"]);
    assert_eq!(world.get(Some(&by_file), &[]).await.user(), "ops");
    assert_eq!(world.get(Some(&world.master()), &[]).await.user(), "root");
    std::fs::write(&path, Ca::new("another").pem()).unwrap();
    until("the file's old CA is forgotten", async || world.get(Some(&by_file), &[]).await.code == 401).await;
    std::fs::remove_file(&path).unwrap();
}

//! The routes at paths that belong to no resource.

use crate::support::TenantPolicy;
use crate::support::client::Client;
use crate::support::served::{Served, with_issuer};
use crate::support::tokens::Signer;
use http::Method;
use serde_json::json;
use std::sync::Arc;

#[tokio::test]
async fn a_route_has_its_own_methods_and_policy_and_its_callers_sight_of_the_store() {
    let signer = Signer::new("key-1");
    let (_file, change) = with_issuer(&signer);
    let served = Served::start_by(Arc::new(TenantPolicy), None, change).await;
    served.create("of-nobody").await;
    let mut master = Client::connect(served.address, &served.ca, Some(&served.master), "h2").await.unwrap();
    let all = master.send(Method::GET, "/inventory", &[]).await;
    assert_eq!((all.code, all.text.as_str()), (200, "1 widgets\nn/of-nobody\n"));
    let mut client = Client::connect(served.address, &served.ca, None, "h2").await.unwrap();
    let token = format!("Bearer {}", signer.token(|_| {}));
    let of_tenant = client.send(Method::GET, "/inventory/", &[("authorization", &token)]).await;
    assert_eq!((of_tenant.code, of_tenant.text.as_str()), (200, "0 widgets\n"));
    let nobody = client.send(Method::GET, "/inventory", &[]).await;
    assert_eq!(nobody.message(), "forbidden: User \"system:anonymous\" cannot get path \"/inventory\"");
    assert_eq!(master.send(Method::POST, "/inventory", &[]).await.code, 405);
    assert_eq!(master.send(Method::GET, "/inventory/deeper", &[]).await.code, 404);
    let index = master.send(Method::GET, "/", &[]).await.json();
    let want = json!([
        "/apis",
        "/apis/sample.example.io",
        "/apis/sample.example.io/v1",
        "/healthz",
        "/inventory",
        "/livez",
        "/metrics",
        "/openapi/v2",
        "/openapi/v3",
        "/openapi/v3/apis/sample.example.io/v1",
        "/readyz",
        "/version",
        "/whoami",
    ]);
    assert_eq!(index["paths"], want);
    assert_eq!(master.send(Method::GET, "/nowhere", &[]).await.json()["paths"], want, "with code 404");
}

/// If kubectl does not find an object, it also reads its namespace, and shows that error if it is a 404 too.
#[tokio::test]
async fn a_core_namespace_is_not_served_and_not_said_to_be_missing() {
    let served = Served::start_by(Arc::new(TenantPolicy), None, |_| {}).await;
    let mut master = Client::connect(served.address, &served.ca, Some(&served.master), "h2").await.unwrap();
    let asked = master.send(Method::GET, "/api/v1/namespaces/shop", &[]).await;
    assert_eq!((asked.code, &asked.json()["reason"]), (403, &json!("Forbidden")));
    assert_eq!(asked.message(), "namespaces \"shop\" is forbidden: core namespaces are not served here");
    for path in
        ["/api/v1/namespaces", "/api/v1/namespaces/", "/api/v1/namespaces/shop/pods", "/api/v1", "/api"]
    {
        assert_eq!(master.send(Method::GET, path, &[]).await.code, 404, "{path}");
    }
}

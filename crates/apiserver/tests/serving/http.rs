use crate::support::client::Client;
use crate::support::{WIDGETS, World};
use http::Method;

#[tokio::test]
async fn a_panic_is_one_requests_500_and_is_counted() {
    let world = World::start().await;
    let mut client = world.client(Some(&world.master())).await;
    let answer = client.send(Method::GET, &format!("{WIDGETS}/panic"), &[]).await;
    assert_eq!(answer.code, 500);
    assert!(
        answer.message().ends_with("This request caused apiserver to panic. Look in the logs for details.")
    );
    assert_eq!(client.send(Method::GET, WIDGETS, &[]).await.code, 200, "the connection lives on");
    assert!(world.metrics().await.contains("apiserver_panics_total 1"));
}

#[tokio::test]
async fn both_http_versions_are_served_and_every_answer_has_an_audit_id() {
    let world = World::start().await;
    for protocol in ["http/1.1", "h2"] {
        let mut client =
            Client::connect(world.address, &world.serving_ca, Some(&world.master()), protocol).await.unwrap();
        let answer = client.send(Method::GET, WIDGETS, &[("audit-id", "mine")]).await;
        assert_eq!((answer.code, answer.headers["audit-id"].as_bytes()), (200, b"mine".as_slice()));
        assert_eq!(answer.headers["cache-control"], "no-cache, private");
        let answer = client.send(Method::GET, "/apis/example.io/v1/namespaces/x", &[]).await;
        assert_eq!((answer.code, answer.headers["audit-id"].len()), (404, 36));
        let long = "x".repeat(300);
        let answer = client.send(Method::GET, WIDGETS, &[("audit-id", &long)]).await;
        assert_eq!(answer.headers["audit-id"].len(), 36);
    }
}

#[tokio::test]
async fn heads_and_urls_beyond_their_limits_are_refused() {
    let world = World::start().await;
    let big = "x".repeat(300 * 1024);
    for protocol in ["http/1.1", "h2"] {
        let mut client =
            Client::connect(world.address, &world.serving_ca, Some(&world.master()), protocol).await.unwrap();
        match client.try_send(Method::GET, WIDGETS, &[("x-big", &big)]).await {
            Ok(answer) => assert_eq!(answer.code, 431, "{protocol}"),
            Err(error) => assert!(!error.is_user(), "{protocol}: {error}"),
        }
        let mut client =
            Client::connect(world.address, &world.serving_ca, Some(&world.master()), protocol).await.unwrap();
        let url = format!("{WIDGETS}?labelSelector={}", "x".repeat(33 * 1024));
        assert_eq!(client.send(Method::GET, &url, &[]).await.code, 414, "{protocol}");
    }
    assert_eq!(world.get(Some(&world.master()), &[]).await.code, 200);
}

#[tokio::test]
async fn the_order_of_refusals_is_kubernetes() {
    let world = World::start().await;
    let mut client = world.client(None).await;
    let bad = [("authorization", "Bearer x")];
    assert_eq!(client.send(Method::GET, "/apis/example.io/v1/namespaces/x", &bad).await.code, 401);
    assert_eq!(client.send(Method::GET, WIDGETS, &[]).await.code, 403);
    let unauthorized = client.send(Method::GET, WIDGETS, &bad).await.json();
    let want = serde_json::json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "Unauthorized", "reason": "Unauthorized", "code": 401,
    });
    assert_eq!(unauthorized, want);
}

#[tokio::test]
async fn probes_are_open_to_all_and_the_rest_is_not() {
    let world = World::start().await;
    let mut client = world.client(None).await;
    for (path, code) in [
        ("/healthz", 200),
        ("/livez", 200),
        ("/readyz?verbose", 200),
        ("/readyz?exclude=nothing", 200),
        ("/readyz/ping", 403),
        ("/version", 403),
        ("/metrics", 403),
        ("/apis", 403),
    ] {
        assert_eq!(client.send(Method::GET, path, &[]).await.code, code, "{path}");
    }
    assert_eq!(client.send(Method::GET, "/readyz?verbose", &[]).await.text, "ok");
    let mut master = world.client(Some(&world.master())).await;
    let verbose = master.send(Method::GET, "/readyz?verbose", &[]).await;
    assert!(verbose.text.contains("[+]extension-apiserver-authentication ok\n"), "{}", verbose.text);
    assert!(verbose.text.ends_with("readyz check passed\n"));
    assert_eq!(master.send(Method::GET, "/readyz/shutdown", &[]).await.text, "ok");
    let version = master.send(Method::GET, "/version", &[]).await.json();
    let text = |field: &str| version[field].as_str().unwrap().to_owned();
    let ours = format!("v{}.{}.0+tke-business-{}", text("major"), text("minor"), env!("CARGO_PKG_VERSION"));
    assert_eq!(text("gitVersion"), ours);
}

use crate::support::issuer::{Issuer, TENANT, file, mappings, world_of_cluster};
use crate::support::{WIDGETS, World};
use http::Method;
use serde_json::json;
use std::sync::atomic::Ordering;

#[tokio::test]
async fn a_right_is_asked_for_once_and_its_absence_explained_as_kubernetes_does() {
    let world = World::start().await;
    let nobody = world.client_ca.client("nobody", &[]);
    let mut client = world.client(Some(&nobody)).await;
    for _ in 0..3 {
        let answer = client.send(Method::GET, &format!("{WIDGETS}/w/status"), &[]).await;
        assert_eq!(answer.code, 403);
        assert_eq!(answer.headers["x-content-type-options"], "nosniff");
        let want = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "Forbidden", "code": 403,
            "message": "widgets.example.io \"w\" is forbidden: User \"nobody\" cannot get resource \"widgets/status\" \
                        in API group \"example.io\" in the namespace \"box\": no role binds him",
            "details": {"name": "w", "group": "example.io", "kind": "widgets"},
        });
        assert_eq!(answer.json(), want);
    }
    assert_eq!(world.kube.access_reviews.lock().unwrap().len(), 1);
    let answer = client.send(Method::GET, "/apis/example.io/v1/racks", &[]).await;
    assert_eq!(
        answer.message(),
        "racks.example.io is forbidden: User \"nobody\" cannot list resource \"racks\" in API group \"example.io\" \
         at the cluster scope: no role binds him"
    );
    let answer = client.send(Method::GET, "/metrics", &[]).await;
    assert_eq!(
        answer.message(),
        "forbidden: User \"nobody\" cannot get path \"/metrics\": no role binds him"
    );
}

#[tokio::test]
async fn a_review_carries_the_whole_request_and_selectors() {
    let world = World::start().await;
    world.kube.allow(|spec| spec["resourceAttributes"]["verb"] != "operate");
    let headers = [("x-remote-user", "jane"), ("x-remote-extra-scopes", "a"), ("x-remote-group", "dev")];
    let mut client = world.client(Some(&world.aggregator())).await;
    let path = format!("{WIDGETS}?labelSelector=a+in+(x,y),!b&fieldSelector=metadata.name%3Dw");
    let answer = client.send(Method::GET, &path, &headers).await;
    assert_eq!(answer.json()["sees"], "Nothing", "allowed, but neither a tenant nor an operator");
    let reviews = world.kube.access_reviews.lock().unwrap().clone();
    let attributes = json!({
        "namespace": "box", "verb": "list", "group": "example.io", "version": "v1", "resource": "widgets", "name": "w",
        "fieldSelector": {"requirements": [{"key": "metadata.name", "operator": "In", "values": ["w"]}]},
        "labelSelector": {"requirements": [
            {"key": "a", "operator": "In", "values": ["x", "y"]}, {"key": "b", "operator": "DoesNotExist"},
        ]},
    });
    assert_eq!(reviews[0]["resourceAttributes"], attributes);
    assert_eq!(reviews[0]["user"], "jane");
    assert_eq!(reviews[0]["groups"], json!(["dev", "system:authenticated"]));
    assert_eq!(reviews[0]["extra"], json!({"scopes": ["a"]}));
    assert_eq!(reviews[1]["resourceAttributes"]["verb"], "operate");
    assert_eq!(reviews[1]["resourceAttributes"]["namespace"], json!(null));
}

#[tokio::test]
async fn an_operator_sees_everything() {
    let world = World::start().await;
    world.kube.allow(|spec| spec["user"] == "jane");
    let headers = [("x-remote-user", "jane"), ("x-remote-extra-tenantid", "acme")];
    let answer = world.get(Some(&world.aggregator()), &headers).await;
    assert_eq!(answer.json()["sees"], "Everything");
}

/// A tenant's administrator who may look at all tenants.
#[tokio::test]
async fn what_an_operator_may_do_is_not_what_he_may_do_in_a_tenant() {
    let world = World::start().await;
    world.kube.allow(|spec| spec["user"] == "jane" && spec["resourceAttributes"]["verb"] == "operate");
    let user = |name| {
        [("x-remote-user", name), ("x-remote-group", "tenant-admins"), ("x-remote-extra-tenantid", "acme")]
    };
    assert_eq!(world.get(Some(&world.aggregator()), &user("joe")).await.code, 200);
    let answer = world.get(Some(&world.aggregator()), &user("jane")).await;
    assert_eq!(answer.code, 403, "he would do it in all tenants: {}", answer.text);
}

#[tokio::test]
async fn without_kube_apiserver_masters_probes_and_tenants_go_on_and_others_wait() {
    let world = World::start().await;
    world.kube.down.store(true, Ordering::SeqCst);
    assert_eq!(world.get(Some(&world.master()), &[]).await.code, 200);
    let token = format!("Bearer {}", world.signer.token(|_| {}));
    assert_eq!(world.get(None, &[("authorization", &token)]).await.code, 200);
    let known = [("x-remote-user", "jane")];
    let discovery =
        world.client(Some(&world.aggregator())).await.send(Method::GET, "/apis/example.io/v1", &known).await;
    assert_eq!(discovery.code, 200);
    assert_eq!(world.client(None).await.send(Method::GET, "/readyz", &[]).await.code, 200);
    let answer = world.get(Some(&world.aggregator()), &known).await;
    assert_eq!((answer.code, answer.json()["reason"].as_str()), (503, Some("ServiceUnavailable")));
}

/// Two issuers. Kube-apiserver accepts the first one too.
async fn world_of_two() -> (World, std::path::PathBuf, [Issuer; 2]) {
    let issuers = [Issuer::start("one").await, Issuer::start("two").await];
    let first = json!({
        "username": {"claim": "sub", "prefix": "one:"},
        "groups": {"claim": "groups", "prefix": ""},
        "extra": [{"key": TENANT, "valueExpression": "claims.tenantid"}],
    });
    let entries = [issuers[0].entry(&first), issuers[1].entry(&mappings("two:"))];
    let urls = issuers.each_ref().map(|issuer| issuer.url.as_str());
    let (world, path) = world_of_cluster(&file(&entries, None), &urls, &urls[..1]).await;
    (world, path, issuers)
}

#[tokio::test]
async fn people_of_an_issuer_that_the_cluster_believes_are_what_it_makes_of_them() {
    let (world, path, [one, two]) = world_of_two().await;
    world.kube.allow(|_spec| true);
    let sees = async |issuer: &Issuer| {
        let bearer = format!("Bearer {}", issuer.token(|_| {}));
        world.get(None, &[("authorization", &bearer)]).await.json()["sees"].clone()
    };
    assert_eq!(sees(&one).await, "Everything");
    assert_ne!(sees(&two).await, "Everything", "the same name may be somebody else's there");
    let reviews = world.kube.access_reviews.lock().unwrap().clone();
    assert!(!reviews.is_empty() && reviews.iter().all(|review| review["user"] == "one:alice"), "{reviews:?}");
    std::fs::remove_file(path).unwrap();
}

#[tokio::test]
async fn without_kube_apiserver_whoever_was_no_operator_goes_on_and_who_is_not_known_waits() {
    let (world, path, [one, two]) = world_of_two().await;
    let code = async |issuer: &Issuer, user: &str, later: i64| {
        let token = issuer.token(|claims| {
            claims["sub"] = json!(user);
            claims["exp"] = json!(claims["exp"].as_i64().unwrap() + later);
        });
        world.get(None, &[("authorization", &format!("Bearer {token}"))]).await.code
    };
    assert_eq!((code(&one, "alice", 0).await, code(&two, "alice", 0).await), (200, 403));
    world.kube.down.store(true, Ordering::SeqCst);
    assert_eq!((code(&one, "alice", 1).await, code(&two, "alice", 1).await), (200, 403));
    assert_eq!((code(&one, "bob", 0).await, code(&two, "bob", 0).await), (503, 403));
    std::fs::remove_file(path).unwrap();
}

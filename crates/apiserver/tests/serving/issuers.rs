use crate::support::issuer::{Issuer, TENANT, ask, file, mappings, name, world, write};
use crate::support::until;
use http::Method;
use serde_json::json;

#[tokio::test]
async fn several_issuers_have_names_and_keys_of_their_own() {
    let (mut one, two) = (Issuer::start("one").await, Issuer::start("two").await);
    let mut first = mappings("one:");
    first["groups"] = json!({"claim": "groups", "prefix": ""});
    first["extra"] = json!([{"key": TENANT, "valueExpression": "claims.tenantid"}]);
    let text = file(&[one.entry(&first), two.entry(&mappings("two:"))], None);
    let (world, path) = world(&text, &[&one.url]).await;
    let bearer = format!("Bearer {}", one.token(|_| {}));
    let alice = world.get(None, &[("authorization", &bearer)]).await.json();
    assert_eq!((&alice["user"], &alice["tenant"]), (&json!("one:alice"), &json!("acme")));
    assert_eq!(alice["groups"], json!(["tenant-admins", "system:authenticated"]));
    let other = ask(&world, &two.token(|_| {})).await.unwrap();
    assert_eq!(other["username"], "two:alice");
    assert_eq!(other["groups"], json!(["two:tenant-admins", "two:system:masters", "system:authenticated"]));
    let forged = two.token(|claims| claims["iss"] = json!(one.url));
    assert_eq!(ask(&world, &forged).await, Err(401), "one issuer's keys are not another's");
    assert_eq!(ask(&world, &one.token(|claims| claims["groups"] = json!([1]))).await, Err(401));
    let old = one.token(|_| {});
    one.rotate("next");
    let next = one.token(|_| {});
    until("the new key is fetched", async || ask(&world, &next).await.is_ok()).await;
    assert_eq!(ask(&world, &old).await, Err(401));
    std::fs::remove_file(path).unwrap();
}

#[tokio::test]
async fn the_file_is_read_again_and_a_bad_one_changes_nothing() {
    let (one, two) = (Issuer::start("one").await, Issuer::start("two").await);
    let (world, path) = world(&file(&[one.entry(&mappings("one:"))], None), &[]).await;
    let (of_one, of_two) = (one.token(|_| {}), two.token(|_| {}));
    assert_eq!(name(&world, &of_one).await, "one:alice");
    assert_eq!(ask(&world, &of_two).await, Err(401));

    write(&path, &file(&[one.entry(&mappings("x:")), two.entry(&mappings("x:"))], None));
    let failures = "automatic_reloads_total{status=\"failure\"} 1";
    until("the bad file is told", async || world.metrics().await.contains(failures)).await;
    assert_eq!(name(&world, &of_one).await, "one:alice");

    write(&path, &file(&[one.entry(&mappings("x:")), two.entry(&mappings("y:"))], None));
    until("the second issuer is known", async || ask(&world, &of_two).await.is_ok()).await;
    assert_eq!(name(&world, &of_one).await, "x:alice");

    write(&path, &file(&[two.entry(&mappings("y:"))], None));
    until("the first issuer is gone", async || ask(&world, &of_one).await == Err(401)).await;
    assert!(world.metrics().await.contains("automatic_reloads_total{status=\"success\"} 2"));
    std::fs::remove_file(path).unwrap();
}

#[tokio::test]
async fn callers_without_credentials_are_let_in_where_the_file_says() {
    let open = json!({"enabled": true, "conditions": [{"path": "/livez"}]});
    let (world, path) = world(&file(&[], Some(&open)), &[]).await;
    let code = async |of: &str| world.client(None).await.send(Method::GET, of, &[]).await.code;
    assert_eq!((code("/livez").await, code("/readyz").await), (200, 401));
    write(&path, &file(&[], Some(&json!({"enabled": false}))));
    until("nobody is let in", async || code("/livez").await == 401).await;
    write(&path, &file(&[], None));
    until("the settings hold again", async || code("/readyz").await == 200).await;
    std::fs::remove_file(path).unwrap();
}

#[tokio::test]
async fn a_caller_is_told_who_he_is() {
    let one = Issuer::start("one").await;
    let (world, path) = world(&file(&[one.entry(&mappings("one:"))], None), &[]).await;
    let bearer = format!("Bearer {}", one.token(|claims| claims["jti"] = json!("7")));
    let answer = world.client(None).await.send(Method::GET, "/whoami", &[("authorization", &bearer)]).await;
    let review = answer.json();
    assert_eq!(review["kind"], "SelfSubjectReview");
    let want = json!({
        "username": "one:alice", "groups": ["one:tenant-admins", "one:system:masters", "system:authenticated"],
        "extra": {"authentication.kubernetes.io/credential-id": ["JTI=7"]},
    });
    assert_eq!(review["status"]["userInfo"], want);
    assert_eq!(world.client(None).await.send(Method::GET, "/whoami", &[]).await.code, 403);
    std::fs::remove_file(path).unwrap();
}

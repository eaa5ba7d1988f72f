use crate::support::TenantPolicy;
use crate::support::served::{LIST, Served, with_issuer};
use crate::support::tokens::Signer;
use http::Method;
use serde_json::{Value, json};
use std::sync::Arc;

#[tokio::test]
async fn the_revision_of_an_object_that_is_gone_does_not_hinder_the_new_one() {
    let served = Served::start().await;
    let apply = async |revision: &str| {
        let config = json!({"apiVersion": "sample.example.io/v1", "kind": "Widget",
            "metadata": {"name": "late", "resourceVersion": revision}, "spec": {"colour": "red"}});
        let url = format!("{LIST}/late?fieldManager=me");
        served.ask(Method::PATCH, &url, "application/apply-patch+yaml", &config).await
    };
    assert_eq!(apply("x").await.0, 400);
    let (code, made) = apply("1").await;
    assert_eq!(code, 201, "{made}");
    assert_ne!(made["metadata"]["resourceVersion"], "1");
    assert_eq!(apply("1").await.0, 409, "now it is a condition");
    assert_eq!(apply("0").await.0, 422, "as in an update");
}

#[tokio::test]
async fn an_apply_below_what_is_not_seen_tells_nothing_of_it() {
    let signer = Signer::new("key-1");
    let (_file, change) = with_issuer(&signer);
    let served = Served::start_by(Arc::new(TenantPolicy), None, change).await;
    let workshops = "/apis/sample.example.io/v1/workshops";
    let workshop = |name: &str| json!({"apiVersion": "sample.example.io/v1", "kind": "Workshop", "metadata": {"name": name}});
    let of = |tenant: &str| signer.token(|claims| claims["tenantid"] = json!(tenant));
    let (ours, theirs) = (of("acme"), of("umbrella"));
    let apply = async |token: &str, path: &str, body: &Value| {
        let path = format!("{path}?fieldManager=m");
        served.ask_by(Some(token), Method::PATCH, &path, "application/apply-patch+yaml", body).await
    };
    let made = apply(&theirs, &format!("{workshops}/theirs"), &workshop("theirs")).await;
    assert_eq!(made.0, 201, "{}", made.1);
    let widget = |name: &str, workshop: &str| {
        json!({"apiVersion": "sample.example.io/v1", "kind": "Widget",
            "metadata": {"name": name}, "spec": {"workshop": workshop}})
    };
    let taken = apply(&theirs, &format!("{LIST}/taken"), &widget("taken", "theirs")).await;
    assert_eq!(taken.0, 201, "{}", taken.1);
    for name in ["new", "taken"] {
        let told = async |workshop: &str| {
            let (code, body) = apply(&ours, &format!("{LIST}/{name}"), &widget(name, workshop)).await;
            (code, body.to_string().replace(workshop, "none"))
        };
        assert_eq!(told("theirs").await, told("none").await, "{name}");
        let (code, body) = told("none").await;
        assert!(code == 404 && body.contains("workshops.sample.example.io \\\"none\\\" not found"), "{body}");
    }
    let (code, body) = apply(&ours, &format!("{workshops}/theirs"), &workshop("theirs")).await;
    assert_eq!(
        (code, &body["message"]),
        (409, &json!("workshops.sample.example.io \"theirs\" already exists"))
    );
}

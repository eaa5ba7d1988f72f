use crate::support::served::{LIST, Served};
use http::Method;
use serde_json::json;

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
    assert_eq!(apply("0").await.0, 409, "now it is a condition");
}

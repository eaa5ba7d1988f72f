//! A kind with one object for each caller.

use crate::kit::Kit;
use http::Method;
use serde_json::json;
use store::Visibility;

const SUMMARY: &str = "/apis/sample.example.io/v1/summary";

#[tokio::test]
async fn the_collection_is_the_callers_one_object() {
    let kit = Kit::start().await;
    for name in ["a", "b"] {
        kit.widget(name, "red").await;
    }
    let counted = |count: usize| json!({"apiVersion": "sample.example.io/v1", "kind": "Summary", "metadata": {}, "count": count});
    assert_eq!(kit.get(SUMMARY).await.json(), counted(2));
    let tenant = kit.seen_by(Visibility::tenant("t"));
    assert_eq!(tenant.get(SUMMARY).await.json(), counted(0));
    let same = format!("{SUMMARY}?labelSelector=a%3Db&limit=1&resourceVersion=1");
    assert_eq!(kit.get(&same).await.json(), counted(2));
    let unknown = kit.get(&format!("{SUMMARY}?fieldSelector=spec.x%3D1")).await;
    assert_eq!((unknown.code, unknown.message().as_str()), (400, "field label not supported: spec.x"));
}

#[tokio::test]
async fn it_comes_in_the_forms_of_an_object() {
    let kit = Kit::start().await;
    kit.widget("a", "red").await;
    let table = kit.get_as(SUMMARY, "application/json;as=Table;v=v1;g=meta.k8s.io").await.json();
    assert_eq!(table["rows"][0]["cells"][1], 1, "{table:#}");
    let partial = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
    assert_eq!(kit.get_as(SUMMARY, partial).await.json()["kind"], "PartialObjectMetadata");
    let list = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
    assert_eq!(kit.get_as(SUMMARY, list).await.code, 406);
    assert!(kit.get_as(SUMMARY, "application/yaml").await.text.contains("count: 1\n"));
}

#[tokio::test]
async fn it_has_no_name_and_can_only_be_read() {
    let kit = Kit::start().await;
    for (method, url, code, message) in [
        (Method::GET, format!("{SUMMARY}/x"), 404, "the server could not find the requested resource"),
        (Method::PUT, format!("{SUMMARY}/x"), 404, "the server could not find the requested resource"),
        (
            Method::POST,
            SUMMARY.to_owned(),
            405,
            "the server does not allow this method on the requested resource",
        ),
        (
            Method::DELETE,
            SUMMARY.to_owned(),
            405,
            "the server does not allow this method on the requested resource",
        ),
        (
            Method::GET,
            format!("{SUMMARY}?watch=1"),
            405,
            "watch is not supported on resources of kind \"summary.sample.example.io\"",
        ),
    ] {
        let answer = kit.ask(method.clone(), &url, &[], Vec::new()).await;
        assert_eq!((answer.code, answer.message().as_str()), (code, message), "{method} {url}");
    }
}

#[tokio::test]
async fn the_documents_say_so() {
    let kit = Kit::start().await;
    let served = kit.get("/apis/sample.example.io/v1").await.json();
    let entry =
        served["resources"].as_array().unwrap().iter().find(|entry| entry["name"] == "summary").unwrap();
    assert_eq!((&entry["verbs"], &entry["storageVersionHash"]), (&json!(["list"]), &json!(null)));
    let document = kit.get("/openapi/v3/apis/sample.example.io/v1").await.json();
    let read = &document["paths"][SUMMARY]["get"];
    let answer = &read["responses"]["200"]["content"]["application/json"]["schema"]["$ref"];
    assert_eq!(answer, "#/components/schemas/io.example.sample.v1.Summary", "{read:#}");
    assert!(document["components"]["schemas"]["io.example.sample.v1.SummaryList"].is_null());
    assert!(document["paths"][format!("{SUMMARY}/{{name}}")].is_null());
}

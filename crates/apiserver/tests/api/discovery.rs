use crate::kit::Kit;
use http::Method;
use serde_json::{Value, json};

const AGGREGATOR: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
                          application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";

#[tokio::test]
async fn legacy_discovery_lists_resources_and_subresources() {
    let kit = Kit::start().await;
    let groups = kit.get("/apis/").await.json();
    assert_eq!(
        (&groups["kind"], &groups["groups"][0]["name"]),
        (&json!("APIGroupList"), &json!("sample.example.io"))
    );
    let group = kit.get("/apis/sample.example.io").await.json();
    assert_eq!(group["preferredVersion"], json!({"groupVersion": "sample.example.io/v1", "version": "v1"}));
    let list = kit.get("/apis/sample.example.io/v1/").await.json();
    let names: Vec<&str> =
        list["resources"].as_array().unwrap().iter().map(|r| r["name"].as_str().unwrap()).collect();
    let want =
        ["colours", "widgets", "widgets/finalize", "widgets/paint", "widgets/status", "workshops", "summary"];
    assert_eq!(names, want);
    let widgets = &list["resources"][1];
    assert_eq!(
        widgets["verbs"],
        json!(["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"])
    );
    assert_eq!((&widgets["singularName"], &widgets["shortNames"]), (&json!("widget"), &json!(["wd"])));
    assert_eq!(widgets["storageVersionHash"].as_str().unwrap().len(), 12);
    assert_eq!(list["resources"][2]["verbs"], json!(["get", "patch", "update"]));
    let paint = &list["resources"][3];
    assert_eq!((&paint["kind"], &paint["verbs"]), (&json!("Paint"), &json!(["create", "get"])));
    let colours = &list["resources"][0];
    assert_eq!((&colours["verbs"], &colours["storageVersionHash"]), (&json!(["get", "list"]), &Value::Null));
    assert_eq!(kit.ask(Method::POST, "/apis", &[], Vec::new()).await.code, 405);
}

#[tokio::test]
async fn aggregated_discovery_has_an_etag_and_its_own_type() {
    let kit = Kit::start().await;
    let answer = kit.get_as("/apis", AGGREGATOR).await;
    assert_eq!(
        answer.header("content-type"),
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    );
    assert_eq!((answer.header("vary"), answer.header("cache-control")), ("Accept", "public"));
    let resource = answer.json()["items"][0]["versions"][0]["resources"][1].clone();
    assert_eq!((&resource["resource"], &resource["scope"]), (&json!("widgets"), &json!("Namespaced")));
    let kinds: Vec<&Value> =
        resource["subresources"].as_array().unwrap().iter().map(|sub| &sub["responseKind"]["kind"]).collect();
    assert_eq!(kinds, ["Widget", "Paint", "Widget"]);
    let etag = answer.header("etag").to_owned();
    assert_eq!(etag.len(), 130);
    let again =
        kit.ask(Method::GET, "/apis", &[("accept", AGGREGATOR), ("if-none-match", &etag)], Vec::new()).await;
    assert_eq!((again.code, again.text.as_str(), again.header("etag")), (304, "", etag.as_str()));
    let unknown = "application/json;g=apidiscovery.k8s.io;v=v99;as=APIGroupDiscoveryList";
    assert_eq!(kit.get_as("/apis", unknown).await.code, 406);
    let legacy = kit.get_as("/apis", &format!("{unknown},application/json")).await;
    assert_eq!(legacy.json()["kind"], "APIGroupList");
}

#[tokio::test]
async fn openapi_is_served_by_hash_and_never_redirected() {
    let kit = Kit::start().await;
    let root = kit.get("/openapi/v3").await.json();
    let url = root["paths"]["apis/sample.example.io/v1"]["serverRelativeURL"].as_str().unwrap().to_owned();
    let (path, _) = url.split_once("?hash=").unwrap();
    let current = kit.get(&url).await;
    assert_eq!((current.code, current.header("cache-control")), (200, "public, immutable"));
    assert!(serde_json::from_str::<Value>(&current.text).is_ok());
    let stale = kit.get(&format!("{path}?hash=OLD")).await;
    assert_eq!((stale.code, stale.header("cache-control")), (200, "no-cache, private"));
    let etag = current.header("etag").to_owned();
    assert_eq!(kit.ask(Method::GET, path, &[("if-none-match", &etag)], Vec::new()).await.code, 304);
    let v2 = kit.get("/openapi/v2").await;
    assert_eq!((v2.code, v2.header("etag").is_empty()), (200, false));
    let protobuf = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
    let told = kit.get_as("/openapi/v2", protobuf).await;
    let named = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
    assert_eq!((told.code, told.header("content-type")), (200, named));
    assert!(told.header("etag") != v2.header("etag"), "another document");
    assert_eq!(kit.get_as("/openapi/v3", protobuf).await.code, 406);
}

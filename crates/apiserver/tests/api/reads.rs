use crate::kit::{Kit, LIST};
use bytes::Bytes;
use futures_util::StreamExt;
use http::Method;
use serde_json::{Value, json};

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
const PARTIAL: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

fn names(list: &Value) -> Vec<&str> {
    list["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_list_is_paged_on_one_snapshot() {
    let kit = Kit::start().await;
    let empty = kit.get(LIST).await.json();
    assert_eq!(
        (&empty["kind"], &empty["apiVersion"]),
        (&json!("WidgetList"), &json!("sample.example.io/v1"))
    );
    assert_eq!(empty["items"], json!([]));
    for name in ["a", "b", "c"] {
        kit.widget(name, "red").await;
    }
    let first = kit.get(&format!("{LIST}?limit=2")).await.json();
    assert_eq!(names(&first), ["a", "b"]);
    assert_eq!(first["metadata"]["remainingItemCount"], 1);
    kit.widget("d", "red").await;
    let token = first["metadata"]["continue"].as_str().unwrap();
    let second = kit.get(&format!("{LIST}?limit=2&continue={token}")).await.json();
    assert_eq!(names(&second), ["c"]);
    assert_eq!(second["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"]);
    let rv = first["metadata"]["resourceVersion"].as_str().unwrap();
    let exact = kit.get(&format!("{LIST}?resourceVersion={rv}&resourceVersionMatch=Exact")).await.json();
    assert_eq!(names(&exact), ["a", "b", "c"]);
    let bad = kit.get(&format!("{LIST}?continue=x")).await;
    assert_eq!(bad.code, 400, "{}", bad.text);
    let bad = kit.get(&format!("{LIST}?resourceVersion=x")).await;
    assert_eq!(bad.code, 400);
    assert!(
        bad.message().ends_with("\"x\": strconv.ParseUint: parsing \"x\": invalid syntax"),
        "{}",
        bad.message()
    );
    let everywhere = kit.get("/apis/sample.example.io/v1/widgets").await.json();
    assert_eq!(names(&everywhere), ["a", "b", "c", "d"]);
}

#[tokio::test]
async fn selectors_choose_and_unknown_fields_are_refused() {
    let kit = Kit::start().await;
    kit.widget("a", "red").await;
    kit.post(LIST, &json!({"metadata": {"name": "b", "labels": {"k": "v"}}, "spec": {"colour": "blue"}}))
        .await;
    for (query, want) in [
        ("labelSelector=k%3Dv", vec!["b"]),
        ("labelSelector=!k", vec!["a"]),
        ("fieldSelector=spec.colour%3Dblue", vec!["b"]),
        ("fieldSelector=spec.colour!%3Dblue,metadata.name!%3Dz", vec!["a"]),
        ("fieldSelector=metadata.name%3Da", vec!["a"]),
    ] {
        assert_eq!(names(&kit.get(&format!("{LIST}?{query}")).await.json()), want, "{query}");
    }
    let unknown = kit.get(&format!("{LIST}?fieldSelector=spec.size%3D1")).await;
    assert_eq!((unknown.code, unknown.message().as_str()), (400, "field label not supported: spec.size"));
    assert_eq!(kit.get(&format!("{LIST}?labelSelector=a%20b")).await.code, 400);
}

#[tokio::test]
async fn kubectl_gets_tables() {
    let kit = Kit::start().await;
    kit.post(LIST, &json!({"metadata": {"name": "a"}, "spec": {"size": 4}})).await;
    let table = kit.get_as(LIST, TABLE).await;
    assert_eq!(table.header("content-type"), "application/json");
    let table = table.json();
    assert_eq!((&table["kind"], &table["apiVersion"]), (&json!("Table"), &json!("meta.k8s.io/v1")));
    let columns: Vec<&str> =
        table["columnDefinitions"].as_array().unwrap().iter().map(|c| c["name"].as_str().unwrap()).collect();
    assert_eq!(columns, ["Name", "Colour", "Size", "Age"]);
    assert_eq!(table["columnDefinitions"][0]["format"], "name");
    let row = &table["rows"][0];
    assert_eq!(row["cells"].as_array().unwrap()[..3], [json!("a"), json!("red"), json!(4)]);
    assert_eq!(
        (&row["object"]["kind"], &row["object"]["metadata"]["name"]),
        (&json!("PartialObjectMetadata"), &json!("a"))
    );
    let one = kit.get_as(&format!("{LIST}/a?includeObject=Object"), TABLE).await.json();
    assert_eq!((&one["rows"][0]["object"]["kind"], &one["kind"]), (&json!("Widget"), &json!("Table")));
    assert_eq!(one["metadata"]["resourceVersion"], one["rows"][0]["object"]["metadata"]["resourceVersion"]);
    let none = kit.get_as(&format!("{LIST}?includeObject=None"), TABLE).await.json();
    assert_eq!(none["rows"][0]["object"], Value::Null);
    let wrong = kit.get_as(&format!("{LIST}?includeObject=All"), TABLE).await;
    assert_eq!((wrong.code, wrong.json()["kind"].as_str()), (400, Some("Status")));
    let missing = kit.get_as(&format!("{LIST}/b"), TABLE).await;
    assert_eq!((missing.code, missing.json()["kind"].as_str()), (404, Some("Status")));
}

#[tokio::test]
async fn controllers_get_metadata_alone() {
    let kit = Kit::start().await;
    let made = kit.widget("a", "red").await;
    let one = kit.get_as(&format!("{LIST}/a"), PARTIAL).await.json();
    let want = json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": made["metadata"]});
    assert_eq!(one, want);
    let list = kit.get_as(LIST, &PARTIAL.replace("Metadata;", "MetadataList;")).await.json();
    assert_eq!((&list["kind"], &list["items"][0]), (&json!("PartialObjectMetadataList"), &want));
    let wrong = kit.get_as(LIST, "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1").await;
    assert_eq!(wrong.code, 406);
    assert!(wrong.message().ends_with("but the requested object is a list (*v1.WidgetList)"));
}

async fn pieces(kit: &Kit, url: &str, headers: &[(&str, &str)]) -> Vec<Bytes> {
    let answer = kit.open(Method::GET, url, headers, Vec::new()).await;
    answer.into_body().into_data_stream().map(Result::unwrap).collect().await
}

#[tokio::test]
async fn a_large_list_comes_in_pieces_and_compressed_when_asked() {
    let kit = Kit::start().await;
    let notes = "x".repeat(20_000);
    for i in 0..12 {
        let body = json!({"metadata": {"name": format!("w{i:02}"), "annotations": {"notes": notes}}});
        assert_eq!(kit.post(LIST, &body).await.code, 201);
    }
    let plain = kit.get(LIST).await;
    assert!(plain.text.len() > 12 * 20_000);
    assert_eq!(plain.json()["items"].as_array().unwrap().len(), 12);
    // A large list is not indented for people either.
    let browser = [("user-agent", "Mozilla/5.0 (X11; Linux x86_64)")];
    for (url, headers) in [(LIST.to_owned(), &browser[..]), (format!("{LIST}?pretty=true"), &[][..])] {
        let pieces = pieces(&kit, &url, headers).await;
        assert!(pieces.len() > 1, "{url} comes whole");
        assert_eq!(pieces.concat(), plain.bytes, "{url}");
    }
    let few = pieces(&kit, &format!("{LIST}?limit=2"), &browser).await;
    assert!(matches!(&*few, [whole] if whole.starts_with(b"{\n  \"")), "short ones are indented");
    let yaml = pieces(&kit, LIST, &[("accept", "application/yaml")]).await;
    assert!(yaml.len() > 1);
    assert_eq!(serde_yaml_ng::from_slice::<Value>(&yaml.concat()).unwrap(), plain.json());
    let zipped = kit.open(Method::GET, LIST, &[("accept-encoding", "gzip")], Vec::new()).await;
    assert_eq!(zipped.headers()["content-encoding"], "gzip");
    assert_eq!(zipped.headers()["vary"], "Accept-Encoding");
    let bytes = http_body_util::BodyExt::collect(zipped.into_body()).await.unwrap().to_bytes();
    let mut text = String::new();
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(&*bytes), &mut text).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), plain.json());
}

#[tokio::test]
async fn a_get_waits_for_no_revision_of_the_future() {
    let kit = Kit::start().await;
    let made = kit.widget("a", "red").await;
    let url = format!("{LIST}/a");
    let rv = made["metadata"]["resourceVersion"].as_str().unwrap();
    assert_eq!(kit.get(&format!("{url}?resourceVersion={rv}")).await.json(), made);
    assert_eq!(kit.get(&format!("{url}?resourceVersion=0")).await.code, 200);
    let far = kit.get(&format!("{url}?resourceVersion=999999999")).await;
    assert_eq!((far.code, far.json()["reason"].as_str()), (504, Some("Timeout")));
    assert_eq!(far.json()["details"]["causes"][0]["reason"], "ResourceVersionTooLarge");
    assert_eq!(kit.get(&format!("{url}?resourceVersion=x")).await.code, 400);
    assert_eq!(kit.get(&format!("{url}?export=1")).await.code, 400);
    assert_eq!(
        kit.get(&format!("{url}?watch=true")).await.json()["kind"],
        "Widget",
        "a named get ignores watch"
    );
}

#[tokio::test]
async fn paths_that_no_route_serves_are_not_found_or_not_allowed() {
    let kit = Kit::start().await;
    kit.widget("a", "red").await;
    let base = "/apis/sample.example.io/v1";
    for (method, url, code) in [
        (Method::POST, format!("{base}/widgets"), 405),
        (Method::DELETE, format!("{base}/widgets"), 405),
        (Method::PUT, LIST.to_owned(), 405),
        (Method::POST, format!("{LIST}/a"), 405),
        (Method::GET, format!("{base}/widgets/a"), 404),
        (Method::GET, format!("{base}/gadgets"), 404),
        (Method::GET, format!("{LIST}/a/status/more"), 404),
        (Method::GET, "/apis/other.io/v1/widgets".to_owned(), 404),
        (Method::GET, "/nothing".to_owned(), 404),
        (Method::GET, "/api/v1".to_owned(), 404),
    ] {
        let answer = kit.ask(method.clone(), &url, &[], Vec::new()).await;
        assert_eq!(answer.code, code, "{method} {url}: {}", answer.text);
    }
    let missing = kit.get(&format!("{base}/gadgets")).await;
    assert_eq!(missing.message(), "the server could not find the requested resource");
    let refused = kit.put(LIST, &json!({})).await;
    assert_eq!(refused.message(), "the server does not allow this method on the requested resource");
}

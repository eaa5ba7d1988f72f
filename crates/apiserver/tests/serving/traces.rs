use crate::support::collector::Collector;
use crate::support::served::{LIST, Served};
use crate::support::{WIDGETS, World, until};
use runtime::Tasks;
use serde_json::Value;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

fn attribute(span: &Value, key: &str) -> String {
    let found = span["attributes"].as_array().into_iter().flatten().find(|pair| pair["key"] == key);
    let value = found.map(|pair| &pair["value"]);
    value
        .and_then(|value| value["stringValue"].as_str().or(value["intValue"].as_str()))
        .unwrap_or_default()
        .to_owned()
}

fn named<'a>(spans: &'a [Value], name: &str) -> &'a Value {
    spans.iter().find(|span| span["name"] == name).unwrap_or(&Value::Null)
}

#[tokio::test]
async fn a_trace_of_kube_apiserver_goes_on_through_this_server_and_back() {
    let tasks = Tasks::new();
    let (collector, tracer) = Collector::start(0.0, &tasks).await;
    let world = World::start_with(|settings| settings.tracer = tracer).await;
    world.kube.allow(|spec| spec["resourceAttributes"]["verb"] != "operate");
    let jane =
        [("x-remote-user", "jane"), ("traceparent", PARENT), ("tracestate", "a=1"), ("audit-id", "traced")];
    assert_eq!(world.get(Some(&world.aggregator()), &jane).await.code, 200);
    until("the trace is there", async || collector.trace(TRACE).len() == 3).await;
    let spans = collector.trace(TRACE);
    let root = named(&spans, "GET /apis/example.io/v1/namespaces/{:namespace}/widgets");
    assert_eq!((root["parentSpanId"].as_str(), root["kind"].as_u64()), (Some("b7ad6b7169203331"), Some(2)));
    assert_eq!(root["traceState"], "a=1");
    assert_eq!(
        (attribute(root, "audit-id"), attribute(root, "http.response.status_code")),
        ("traced".into(), "200".into())
    );
    assert_eq!((attribute(root, "url.path"), attribute(root, "k8s.verb")), (WIDGETS.into(), "list".into()));
    let authorization = named(&spans, "authorization");
    for span in [named(&spans, "authentication"), authorization] {
        assert_eq!(span["parentSpanId"], root["spanId"]);
    }
    let told = world.kube.traceparents.lock().unwrap().clone();
    let below = format!("00-{TRACE}-{}-01", authorization["spanId"].as_str().unwrap_or_default());
    assert_eq!(told, vec![below; 2], "both reviews belong to it");
}

#[tokio::test]
async fn strangers_choose_no_traces_and_failures_are_marked() {
    let tasks = Tasks::new();
    let (collector, tracer) = Collector::start(0.0, &tasks).await;
    let world = World::start_with(|settings| settings.tracer = tracer).await;
    let token = format!("Bearer {}", world.signer.token(|_| {}));
    assert_eq!(world.get(None, &[("authorization", &token), ("traceparent", PARENT)]).await.code, 200);
    assert_eq!(world.get(None, &[("traceparent", PARENT)]).await.code, 403);
    let mut client = world.client(Some(&world.master())).await;
    let path = format!("{WIDGETS}/panic");
    assert_eq!(client.send(http::Method::GET, &path, &[("traceparent", PARENT)]).await.code, 500);
    until("the master's trace is there", async || !collector.all().is_empty()).await;
    let spans = collector.all();
    assert_eq!(spans.iter().filter(|span| span["kind"] == 2).count(), 1, "{spans:?}");
    let root = named(&spans, "GET /apis/example.io/v1/namespaces/{:namespace}/widgets/{:name}");
    assert_eq!(
        (&root["status"]["code"], attribute(root, "http.response.status_code")),
        (&2.into(), "500".into())
    );
}

#[tokio::test]
async fn a_write_shows_how_long_the_store_took() {
    let tasks = Tasks::new();
    let (collector, tracer) = Collector::start(1.0, &tasks).await;
    let served = Served::start_with(|settings| settings.tracer = tracer).await;
    served.create("a").await;
    until("the trace is there", async || collector.all().len() == 4).await;
    let spans = collector.all();
    let root = named(&spans, "POST /apis/sample.example.io/v1/namespaces/{:namespace}/widgets");
    assert_eq!(attribute(root, "url.path"), LIST);
    let (write, number) = (named(&spans, "store write"), |span: &Value, key: &str| {
        span[key].as_str().and_then(|text| text.parse::<u128>().ok()).unwrap_or_default()
    });
    assert_eq!(write["parentSpanId"], root["spanId"]);
    assert!(number(write, "startTimeUnixNano") >= number(root, "startTimeUnixNano"));
    assert!(number(write, "endTimeUnixNano") > number(write, "startTimeUnixNano"));
}

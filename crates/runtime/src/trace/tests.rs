use super::*;
use axum::Router;
use axum::extract::State;
use axum::routing::post;
use std::sync::atomic::{AtomicU16, Ordering};
use tokio::net::TcpListener;

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// A collector on this machine.
#[derive(Clone, Default)]
struct Collector {
    spans: Arc<Mutex<Vec<serde_json::Value>>>,
    answer: Arc<AtomicU16>,
}

impl Collector {
    async fn start() -> (Self, String) {
        let this = Self::default();
        this.answer.store(200, Ordering::SeqCst);
        let take = async |State(this): State<Self>, body: String| {
            let body: serde_json::Value = serde_json::from_str(&body).unwrap();
            let spans = body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().cloned().unwrap();
            let code = this.answer.load(Ordering::SeqCst);
            if code == 200 {
                this.spans.lock().unwrap().extend(spans);
            }
            http::StatusCode::from_u16(code).unwrap()
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().route("/v1/traces", post(take)).with_state(this.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        (this, url)
    }
}

fn settings(endpoint: &str, ratio: f64) -> TraceSettings {
    TraceSettings { endpoint: endpoint.to_owned(), ratio, service: "test", version: "v1" }
}

fn parent() -> Option<RemoteParent> {
    RemoteParent::parse(PARENT, "vendor=1")
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
    while !holds() {
        assert!(tokio::time::Instant::now() < deadline, "{what} did not come true");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_trace_goes_on_from_its_parent_and_arrives_whole() {
    let (collector, url) = Collector::start().await;
    let tasks = Tasks::new();
    let tracer = Tracer::start(&settings(&format!("{url}/"), 1.0), &tasks, &Metrics::new()).unwrap();
    let mut root = tracer.begin(parent).unwrap();
    let below = root.scope().run(async { span("outer", span("inner", async { traceparent() })).await }).await;
    root.name("GET /x".to_owned());
    root.set("http.response.status_code", 503_u16);
    root.failed();
    assert_eq!(root.trace_id(), "0af7651916cd43dd8448eb211c80319c");
    drop(root);
    assert_eq!(span("outside", async { traceparent() }).await, None);
    tasks.cancel();
    tasks.join(Duration::from_secs(30)).await.unwrap();

    let spans = collector.spans.lock().unwrap().clone();
    let of = |name: &str| spans.iter().find(|span| span["name"] == name).unwrap();
    let (server, outer, inner) = (of("GET /x"), of("outer"), of("inner"));
    assert_eq!(spans.len(), 3);
    assert!(spans.iter().all(|span| span["traceId"] == "0af7651916cd43dd8448eb211c80319c"));
    assert_eq!(
        (&server["parentSpanId"], &server["kind"], &server["traceState"]),
        (&"b7ad6b7169203331".into(), &2.into(), &"vendor=1".into())
    );
    assert_eq!((&outer["parentSpanId"], &inner["parentSpanId"]), (&server["spanId"], &outer["spanId"]));
    assert_eq!(server["attributes"][0]["value"]["intValue"], "503");
    assert_eq!((&server["status"]["code"], &outer["status"]), (&2.into(), &serde_json::json!({})));
    let inner_id = inner["spanId"].as_str().unwrap();
    assert_eq!(below.unwrap(), format!("00-0af7651916cd43dd8448eb211c80319c-{inner_id}-01"));
    let time = |span: &serde_json::Value, key: &str| span[key].as_str().unwrap().parse::<u128>().unwrap();
    assert!(time(server, "endTimeUnixNano") >= time(server, "startTimeUnixNano"));
}

#[tokio::test]
async fn what_is_traced_is_decided_by_the_ratio_and_by_whom_it_trusts() {
    let (collector, url) = Collector::start().await;
    let tasks = Tasks::new();
    let start = |ratio| Tracer::start(&settings(&url, ratio), &tasks, &Metrics::new()).unwrap();
    assert!(Tracer::default().begin(parent).is_none());
    assert!(start(0.0).begin(|| None).is_none());
    let unsampled = PARENT.replace("-01", "-00");
    assert!(
        start(1.0).begin(|| RemoteParent::parse(&unsampled, "")).is_none(),
        "who asked first has decided"
    );

    drop(start(0.0).begin(parent).unwrap());
    let mut trusted = start(0.0).begin(parent).unwrap();
    trusted.name("trusted".to_owned());
    trusted.trust();
    drop(trusted);
    until("the trusted one is there", || !collector.spans.lock().unwrap().is_empty()).await;
    tasks.cancel();
    tasks.join(Duration::from_secs(30)).await.unwrap();
    let names: Vec<_> = collector.spans.lock().unwrap().iter().map(|span| span["name"].clone()).collect();
    assert_eq!(names, ["trusted"], "a stranger's wish alone is forgotten");

    let half = start(0.5);
    let kept = (0..2000).filter(|_| half.begin(|| None).is_some()).count();
    assert!((800..1200).contains(&kept), "{kept} of 2000");
    let chosen = "00-00000000000000000000000000000001-b7ad6b7169203331-01";
    let asks = || half.begin(|| RemoteParent::parse(chosen, "")).unwrap();
    let kept = (0..2000).filter(|_| asks().sender.is_kept).count();
    assert!((800..1200).contains(&kept), "{kept} of 2000, whatever id is chosen");
}

#[tokio::test]
async fn a_collector_that_is_gone_or_refuses_costs_traces_and_nothing_else() {
    let (collector, url) = Collector::start().await;
    collector.answer.store(503, Ordering::SeqCst);
    let (tasks, metrics) = (Tasks::new(), Metrics::new());
    let tracer = Tracer::start(&settings(&url, 1.0), &tasks, &metrics).unwrap();
    drop(tracer.begin(|| None));
    until("the refusal is counted", || metrics.encode().contains("trace_spans_dropped_total 1")).await;
    collector.answer.store(200, Ordering::SeqCst);
    drop(tracer.begin(|| None));
    until("the next one arrives", || metrics.encode().contains("trace_spans_sent_total 1")).await;
    tasks.cancel();
    tasks.join(Duration::from_secs(30)).await.unwrap();

    // A collector that accepts connections but never responds, with more traces than the queue can hold.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let (tasks, metrics) = (Tasks::new(), Metrics::new());
    let tracer = Tracer::start(&settings(&url, 1.0), &tasks, &metrics).unwrap();
    let before = Instant::now();
    for _ in 0..5_000 {
        drop(tracer.begin(|| None));
    }
    assert!(before.elapsed() < Duration::from_secs(10), "nobody waits: {:?}", before.elapsed());
    let text = metrics.encode();
    let dropped = text.lines().find_map(|line| line.strip_prefix("trace_spans_dropped_total ")).unwrap();
    assert!(dropped.parse::<u64>().unwrap() >= 3_000, "{dropped}");
    drop(tasks);
}

#[tokio::test]
async fn a_trace_is_bounded_and_a_bad_url_is_told() {
    let tasks = Tasks::new();
    let tracer = Tracer::start(&settings("http://127.0.0.1:1", 1.0), &tasks, &Metrics::new()).unwrap();
    let root = tracer.begin(|| None).unwrap();
    root.scope()
        .run(async {
            for _ in 0..1_000 {
                span("one of many", std::future::ready(())).await;
            }
        })
        .await;
    assert_eq!(root.span.trace.spans.lock().unwrap().len(), SPANS_MAX);
    for bad in ["", "collector:4317", "grpc://collector", "http://"] {
        assert!(Tracer::start(&settings(bad, 1.0), &tasks, &Metrics::new()).is_err(), "{bad}");
    }
}

use axum::Router;
use axum::extract::State;
use axum::routing::post;
use runtime::trace::{TraceSettings, Tracer};
use runtime::{Metrics, Tasks};
use serde_json::Value;
use std::sync::{Arc, Mutex};

/// A collector of traces on this machine.
#[derive(Clone, Default)]
pub(crate) struct Collector(Arc<Mutex<Vec<Value>>>);

impl Collector {
    /// Starts the collector, and a tracer that sends to it.
    pub(crate) async fn start(ratio: f64, tasks: &Tasks) -> (Self, Tracer) {
        let this = Self::default();
        let take = async |State(this): State<Self>, body: String| {
            let body: Value = serde_json::from_str(&body).unwrap();
            let group = &body["resourceSpans"][0];
            assert_eq!(group["resource"]["attributes"][0]["value"]["stringValue"], "widgets");
            this.0.lock().unwrap().extend(group["scopeSpans"][0]["spans"].as_array().cloned().unwrap());
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().route("/v1/traces", post(take)).with_state(this.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        let settings = TraceSettings { endpoint, ratio, service: "widgets", version: "v1" };
        (this, Tracer::start(&settings, tasks, &Metrics::new()).unwrap())
    }

    /// The spans of a trace that have arrived.
    pub(crate) fn trace(&self, id: &str) -> Vec<Value> {
        let spans = self.0.lock().unwrap();
        spans.iter().filter(|span| span["traceId"] == id).cloned().collect()
    }

    pub(crate) fn all(&self) -> Vec<Value> {
        self.0.lock().unwrap().clone()
    }
}

//! An API of the sample kinds on its own database. It is called without a network.

use crate::{colours, names, summary, widget, workshop};
use apiserver::dispatch::dispatch;
use apiserver::openapi::ApiInfo;
use apiserver::routes::Routes;
use apiserver::{Api, Caller, RequestContext, RequestInfo};
use axum::body::{Body, BodyDataStream};
use bytes::{Buf, Bytes, BytesMut};
use futures_util::StreamExt;
use http::{HeaderMap, Method, Request};
use http_body_util::BodyExt;
use runtime::{Clock, Metrics, Tasks};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use store::{Access, Authorizer, Kind, Store, Visibility, authorize};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub(crate) const WAIT: Duration = Duration::from_secs(30);
pub(crate) const LIST: &str = "/apis/sample.example.io/v1/namespaces/n/widgets";

/// Grants access with a given visibility.
struct Sees(Visibility);

impl Authorizer for Sees {
    type Request = ();
    type Refusal = ();

    async fn decide(&self, (): &()) -> Result<(Arc<str>, Visibility), ()> {
        Ok((Arc::from("test"), self.0.clone()))
    }
}

pub(crate) struct Kit {
    pub(crate) api: Arc<Api>,
    pub(crate) draining: CancellationToken,
    pub(crate) visibility: Visibility,
    tasks: Tasks,
}

pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) bytes: Bytes,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("no JSON: {}", self.text))
    }

    /// Decodes a protobuf body as JSON.
    pub(crate) fn protobuf(&self) -> Value {
        assert_eq!(self.header("content-type"), "application/vnd.kubernetes.protobuf", "{}", self.text);
        meta::protobuf::decode(&self.bytes, "").unwrap()
    }

    pub(crate) fn message(&self) -> String {
        self.json()["message"].as_str().unwrap_or_default().to_owned()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

impl Kit {
    pub(crate) async fn start() -> Self {
        Self::start_with(|_config| {}).await
    }

    /// Starts it with a clock that the test controls.
    pub(crate) async fn start_at(clock: Clock) -> Self {
        Self::start_of(|_config| {}, clock).await
    }

    /// Starts it on a store with changed settings.
    pub(crate) async fn start_with(change: impl FnOnce(&mut store::Config)) -> Self {
        Self::start_of(change, Clock::system()).await
    }

    async fn start_of(change: impl FnOnce(&mut store::Config), clock: Clock) -> Self {
        let database = store::testing::database().await.unwrap();
        let mut config = store::Config::new(database.url);
        change(&mut config);
        let (tasks, metrics) = (Tasks::new(), Metrics::new());
        let kinds: Vec<Arc<dyn Kind>> = vec![Arc::new(widget::Widgets), Arc::new(workshop::Workshops)];
        let store = Store::open(config, kinds, &tasks, &metrics).unwrap();
        let number = |plural| store.kind_id(names::GROUP, plural).unwrap();
        let (widgets, workshops) = (number("widgets"), number("workshops"));
        tokio::time::timeout(WAIT, store.until_synced()).await.unwrap();
        let resources = vec![
            Arc::new(colours::resource(widgets)),
            Arc::new(widget::resource(widgets, workshops)),
            Arc::new(workshop::resource(workshops)),
            Arc::new(summary::resource(widgets)),
        ];
        let draining = CancellationToken::new();
        let info = ApiInfo { title: "Widgets".to_owned(), version: "v1".to_owned() };
        let api = Arc::new(Api::new(resources, store, clock, draining.clone(), &info).unwrap());
        Self { api, draining, visibility: Visibility::Everything, tasks }
    }

    /// The same API with another visibility.
    pub(crate) fn seen_by(&self, visibility: Visibility) -> Self {
        Self {
            api: Arc::clone(&self.api),
            draining: self.draining.clone(),
            visibility,
            tasks: self.tasks.clone(),
        }
    }

    pub(crate) async fn open(
        &self,
        method: Method,
        url: &str,
        headers: &[(&str, &str)],
        body: Vec<u8>,
    ) -> http::Response<Body> {
        let mut request = Request::builder().method(method.clone()).uri(url);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::from(body)).unwrap();
        let info = RequestInfo::parse(&method, request.uri()).unwrap();
        let access: Access = authorize(&Sees(self.visibility.clone()), &()).await.unwrap();
        let caller = Arc::new(Caller { name: "tester".to_owned(), ..Caller::default() });
        let mut cx = RequestContext::new(info, caller, access, Instant::now() + WAIT);
        match &cx.info {
            RequestInfo::Resource(_) => dispatch(&self.api, &mut cx, request).await,
            RequestInfo::Path(_) => {
                Routes::new(self.api.documents.routes()).unwrap().answer(&mut cx, request).await
            }
        }
    }

    pub(crate) async fn ask(
        &self,
        method: Method,
        url: &str,
        headers: &[(&str, &str)],
        body: impl Into<Vec<u8>>,
    ) -> Answer {
        let response = self.open(method, url, headers, body.into()).await;
        let (code, headers) = (response.status().as_u16(), response.headers().clone());
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        Answer { code, headers, text: String::from_utf8_lossy(&bytes).into_owned(), bytes }
    }

    /// The code of a request whose path may be invalid.
    pub(crate) async fn code_of(&self, method: Method, url: &str) -> u16 {
        match RequestInfo::parse(&method, &url.parse().unwrap()) {
            Ok(_) => self.ask(method, url, &[], Vec::new()).await.code,
            Err(status) => status.code,
        }
    }

    pub(crate) async fn get(&self, url: &str) -> Answer {
        self.ask(Method::GET, url, &[], Vec::new()).await
    }

    pub(crate) async fn get_as(&self, url: &str, accept: &str) -> Answer {
        self.ask(Method::GET, url, &[("accept", accept)], Vec::new()).await
    }

    pub(crate) async fn post(&self, url: &str, body: &Value) -> Answer {
        self.ask(Method::POST, url, &[("user-agent", "kubectl/v1")], body.to_string()).await
    }

    pub(crate) async fn put(&self, url: &str, body: &Value) -> Answer {
        self.ask(Method::PUT, url, &[], body.to_string()).await
    }

    pub(crate) async fn delete(&self, url: &str, options: &Value) -> Answer {
        let body = if options.is_null() { String::new() } else { options.to_string() };
        self.ask(Method::DELETE, url, &[], body).await
    }

    pub(crate) async fn patch(&self, url: &str, kind: &str, body: &Value) -> Answer {
        let kind = match kind {
            "apply" => "application/apply-patch+yaml".to_owned(),
            other => format!("application/{other}+json"),
        };
        self.ask(Method::PATCH, url, &[("content-type", &kind)], body.to_string()).await
    }

    /// Creates a widget with this name and colour.
    pub(crate) async fn widget(&self, name: &str, colour: &str) -> Value {
        let body = serde_json::json!({"metadata": {"name": name}, "spec": {"colour": colour}});
        let answer = self.post(LIST, &body).await;
        assert_eq!(answer.code, 201, "{}", answer.text);
        answer.json()
    }

    pub(crate) async fn watch(&self, url: &str, accept: &str) -> Events {
        let response = self.open(Method::GET, url, &[("accept", accept)], Vec::new()).await;
        assert_eq!(response.status(), 200);
        assert!(response.headers().get("content-length").is_none());
        let protobuf =
            response.headers()["content-type"] == "application/vnd.kubernetes.protobuf;stream=watch";
        Events { protobuf, stream: response.into_body().into_data_stream(), rest: BytesMut::new() }
    }
}

/// An open watch.
pub(crate) struct Events {
    stream: BodyDataStream,
    rest: BytesMut,
    protobuf: bool,
}

impl Events {
    /// The next event; `None` at the end of the stream.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            if self.protobuf {
                let frame =
                    self.rest.first_chunk().map_or(usize::MAX, |head| u32::from_be_bytes(*head) as usize);
                if self.rest.len().saturating_sub(4) >= frame {
                    self.rest.advance(4);
                    return Some(meta::protobuf::decode_event(&self.rest.split_to(frame)).unwrap());
                }
            } else if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line = self.rest.split_to(end + 1);
                return Some(serde_json::from_slice(&line).unwrap());
            }
            let chunk = tokio::time::timeout(WAIT, self.stream.next()).await.expect("an event in time")?;
            self.rest.extend_from_slice(&chunk.unwrap());
        }
    }

    /// The first chunk of the stream. Nothing may have been read before.
    pub(crate) async fn chunk(&mut self) -> Bytes {
        let chunk = tokio::time::timeout(WAIT, self.stream.next()).await.expect("an event in time");
        chunk.expect("the stream goes on").unwrap()
    }

    /// Type, name and revision of the next event.
    pub(crate) async fn brief(&mut self) -> (String, String, u64) {
        let event = self.next().await.expect("the stream goes on");
        let metadata = &event["object"]["metadata"];
        let version = metadata["resourceVersion"].as_str().unwrap_or("0").parse().unwrap();
        let name = metadata["name"].as_str().unwrap_or_default().to_owned();
        (event["type"].as_str().unwrap().to_owned(), name, version)
    }
}

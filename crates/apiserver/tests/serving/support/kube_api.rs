use super::pki::Ca;
use axum::body::{Body, Bytes};
use http::{Request, Response};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

/// Permits of each semaphore that delays reviews.
const REVIEW_PERMITS: usize = 1000;

type Rights = Box<dyn Fn(&Value) -> bool + Send + Sync>;

/// A fake kube-apiserver with what an aggregated server needs: reviews, and one ConfigMap with its watch.
pub(crate) struct KubeApi {
    config_map: watch::Sender<BTreeMap<String, String>>,
    tokens: Mutex<BTreeMap<String, Value>>,
    rights: Mutex<Rights>,
    pub(crate) down: AtomicBool,
    pub(crate) access_reviews: Mutex<Vec<Value>>,
    pub(crate) token_reviews: AtomicUsize,
    /// Each TokenReview acquires a permit, so that a test that holds all of them delays the reviews.
    token_gate: Arc<Semaphore>,
    /// The same for each SubjectAccessReview.
    right_gate: Arc<Semaphore>,
    /// `traceparent` of each request.
    pub(crate) traceparents: Mutex<Vec<String>>,
}

impl KubeApi {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            config_map: watch::Sender::new(BTreeMap::new()),
            tokens: Mutex::default(),
            rights: Mutex::new(Box::new(|_| false)),
            down: AtomicBool::new(false),
            access_reviews: Mutex::default(),
            token_reviews: AtomicUsize::new(0),
            token_gate: Arc::new(Semaphore::new(REVIEW_PERMITS)),
            right_gate: Arc::new(Semaphore::new(REVIEW_PERMITS)),
            traceparents: Mutex::default(),
        })
    }

    pub(crate) fn client(self: &Arc<Self>) -> kube::Client {
        let this = Arc::clone(self);
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let this = Arc::clone(&this);
            async move { Ok::<_, std::io::Error>(this.answer(request).await) }
        });
        kube::Client::new(service, "default")
    }

    pub(crate) fn trust(&self, clients: &Ca, proxy: &Ca, allowed: &[&str]) {
        let pairs = [
            ("client-ca-file", clients.pem()),
            ("requestheader-client-ca-file", proxy.pem()),
            ("requestheader-username-headers", r#"["X-Remote-User"]"#.to_owned()),
            ("requestheader-uid-headers", r#"["X-Remote-Uid"]"#.to_owned()),
            ("requestheader-group-headers", r#"["X-Remote-Group"]"#.to_owned()),
            ("requestheader-extra-headers-prefix", r#"["X-Remote-Extra-"]"#.to_owned()),
            ("requestheader-allowed-names", json!(allowed).to_string()),
        ];
        self.config_map.send_replace(pairs.map(|(key, value)| (key.to_owned(), value)).into());
    }

    /// Sets which `SubjectAccessReviews` are allowed, by their spec.
    pub(crate) fn allow(&self, rights: impl Fn(&Value) -> bool + Send + Sync + 'static) {
        *self.rights.lock().unwrap() = Box::new(rights);
    }

    pub(crate) fn know_token(&self, token: &str, user: Value) {
        self.tokens.lock().unwrap().insert(token.to_owned(), user);
    }

    /// Delays `TokenReviews` until the result is dropped.
    pub(crate) async fn hold_tokens(&self) -> OwnedSemaphorePermit {
        Arc::clone(&self.token_gate).acquire_many_owned(REVIEW_PERMITS.try_into().unwrap()).await.unwrap()
    }

    /// Delays `SubjectAccessReviews` until the result is dropped.
    pub(crate) async fn hold_rights(&self) -> OwnedSemaphorePermit {
        Arc::clone(&self.right_gate).acquire_many_owned(REVIEW_PERMITS.try_into().unwrap()).await.unwrap()
    }

    pub(crate) fn forget_token(&self, token: &str) {
        self.tokens.lock().unwrap().remove(token);
    }

    async fn answer(&self, request: Request<kube::client::Body>) -> Response<Body> {
        let (head, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        if self.down.load(Ordering::SeqCst) {
            return status(503);
        }
        if let Some(parent) = head.headers.get("traceparent") {
            self.traceparents.lock().unwrap().push(parent.to_str().unwrap().to_owned());
        }
        let query = head.uri.query().unwrap_or_default();
        match head.uri.path() {
            "/apis/authorization.k8s.io/v1/subjectaccessreviews" => {
                let review: Value = serde_json::from_slice(&body).unwrap();
                let spec = review["spec"].clone();
                let allowed = (self.rights.lock().unwrap())(&spec);
                self.access_reviews.lock().unwrap().push(spec.clone());
                drop(self.right_gate.acquire().await.unwrap());
                let reason = if allowed { "" } else { "no role binds him" };
                reply(&json!({"spec": spec, "status": {"allowed": allowed, "reason": reason}}))
            }
            "/apis/authentication.k8s.io/v1/tokenreviews" => {
                self.token_reviews.fetch_add(1, Ordering::SeqCst);
                drop(self.token_gate.acquire().await.unwrap());
                let review: Value = serde_json::from_slice(&body).unwrap();
                let user =
                    self.tokens.lock().unwrap().get(review["spec"]["token"].as_str().unwrap()).cloned();
                reply(
                    &json!({"spec": {"token": ""}, "status": {"authenticated": user.is_some(), "user": user}}),
                )
            }
            "/api/v1/namespaces/kube-system/configmaps" if query.contains("watch=true") => self.watch(),
            "/api/v1/namespaces/kube-system/configmaps" => {
                reply(&json!({"metadata": {"resourceVersion": "1"}, "items": [self.object()]}))
            }
            "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication" => {
                reply(&self.object())
            }
            other => panic!("nobody should ask for {other}"),
        }
    }

    fn object(&self) -> Value {
        let data = self.config_map.borrow().clone();
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": data,
            "metadata": {"name": "extension-apiserver-authentication", "namespace": "kube-system", "resourceVersion": "1"},
        })
    }

    fn watch(&self) -> Response<Body> {
        let mut changes = self.config_map.subscribe();
        changes.mark_changed();
        let events = futures_util::stream::unfold(changes, async |mut changes| {
            changes.changed().await.ok()?;
            let data = changes.borrow_and_update().clone();
            let metadata = json!({"name": "extension-apiserver-authentication", "resourceVersion": "2"});
            let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data});
            let line = format!("{}\n", json!({"type": "MODIFIED", "object": object}));
            Some((Ok::<_, std::io::Error>(Bytes::from(line)), changes))
        });
        Response::new(Body::from_stream(Box::pin(events)))
    }
}

fn reply(value: &Value) -> Response<Body> {
    Response::new(Body::from(value.to_string()))
}

fn status(code: u16) -> Response<Body> {
    let status =
        json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "down", "code": code});
    let mut response = Response::new(Body::from(status.to_string()));
    *response.status_mut() = http::StatusCode::from_u16(code).unwrap();
    response
}

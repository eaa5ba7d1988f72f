//! Bodies of requests over HTTP/2 that are answered before their end, as refused writes are.
//!
//! If such a body is dropped, h2 resets its stream. It remembers fifty of these for a second; what the client has sent
//! on others counts as an error of the connection, and ends it after 1024 of them. The connection of kube-apiserver
//! carries the requests of all users. So the rest of a body is read, until the client has noticed the answer.

use axum::body::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::task::JoinSet;

/// How long the rest of a body is read, and how many bytes of it. Then the stream is reset.
const REST_TIMEOUT: Duration = Duration::from_secs(5);
const REST_MAX: usize = 4 << 20;

/// The rests of bodies of one connection. Reading ends with it.
#[derive(Default)]
pub(super) struct UnreadBodies(Mutex<JoinSet<()>>);

impl UnreadBodies {
    fn read(&self, mut body: Incoming) {
        // Without a runtime, the connection has ended, too.
        let Ok(runtime) = Handle::try_current() else { return };
        let mut reading = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while reading.try_join_next().is_some() {}
        let rest = async move {
            let mut left = REST_MAX;
            while let Some(Ok(frame)) = body.frame().await {
                let Some(less) = left.checked_sub(frame.data_ref().map_or(0, Bytes::len)) else { break };
                left = less;
            }
        };
        let read = async move {
            let _elapsed = tokio::time::timeout(REST_TIMEOUT, rest).await;
        };
        reading.spawn_on(read, &runtime);
    }
}

/// The body of a request.
pub(super) struct RequestBody {
    /// `None` only while it is dropped.
    body: Option<Incoming>,
    unread: Arc<UnreadBodies>,
}

impl RequestBody {
    pub(super) fn new(body: Incoming, unread: &Arc<UnreadBodies>) -> Self {
        Self { body: Some(body), unread: Arc::clone(unread) }
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        if let Some(body) = self.body.take().filter(|body| !body.is_end_stream()) {
            self.unread.read(body);
        }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match &mut self.body {
            Some(body) => Pin::new(body).poll_frame(cx),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Incoming::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(SizeHint::default, Incoming::size_hint)
    }
}

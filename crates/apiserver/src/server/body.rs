use crate::flow::LanePlace;
use crate::metrics::{ServerMetrics, WatchEvents};
use axum::body::{Body, Bytes};
use http_body::{Frame, SizeHint};
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// The body of a stream: it keeps its place in the lane until it ends, and a panic in it ends it. Each frame of a watch
/// is one event.
pub(super) struct Streamed {
    body: Body,
    _place: LanePlace,
    events: Option<WatchEvents>,
    metrics: Arc<ServerMetrics>,
    broken: bool,
}

impl Streamed {
    pub(super) fn wrap(
        body: Body,
        place: LanePlace,
        events: Option<WatchEvents>,
        metrics: Arc<ServerMetrics>,
    ) -> Body {
        Body::new(Self { body, _place: place, events, metrics, broken: false })
    }
}

impl http_body::Body for Streamed {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.broken {
            return Poll::Ready(None);
        }
        let polled = std::panic::catch_unwind(AssertUnwindSafe(|| Pin::new(&mut self.body).poll_frame(cx)));
        if let (Some(events), Ok(Poll::Ready(Some(Ok(frame))))) = (&self.events, &polled)
            && let Some(event) = frame.data_ref()
        {
            events.sent(event.len());
        }
        polled.unwrap_or_else(|_panic| {
            self.broken = true;
            self.metrics.panics.inc();
            tracing::error!("a response's stream panicked");
            Poll::Ready(Some(Err(axum::Error::new(std::io::Error::other("internal error")))))
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

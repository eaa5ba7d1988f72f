//! Bodies of streams. Each keeps its place in the lane until it ends, and a panic in it ends it. A client that takes nothing keeps
//! nothing alive for long either: what is still to be sent, objects and events, is given up.

use crate::flow::LanePlace;
use crate::metrics::{ServerMetrics, WatchEvents};
use axum::body::{Body, Bytes};
use http_body::{Frame, SizeHint};
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// A client that takes nothing for so long is gone.
pub(crate) const CLIENT_WAIT: Duration = Duration::from_secs(30);
/// Between two looks at what the clients of a connection take.
const SWEEP_INTERVAL: Duration = Duration::from_secs(10);

/// The streams of one connection.
#[derive(Default)]
pub(super) struct Streams(Mutex<Vec<Weak<Mutex<Stream>>>>);

/// A stream that is sent. Each frame of a watch is one chunk of events.
struct Stream {
    /// `None` once it was given up.
    sending: Option<Sending>,
    /// When a frame was taken, until the next one is asked for.
    taken: Option<Instant>,
}

struct Sending {
    body: Body,
    _place: LanePlace,
    events: Option<WatchEvents>,
    metrics: Arc<ServerMetrics>,
}

impl Streams {
    /// The body of an answer that goes on.
    pub(super) fn wrap(
        &self,
        body: Body,
        place: LanePlace,
        events: Option<WatchEvents>,
        metrics: Arc<ServerMetrics>,
    ) -> Body {
        let sending = Some(Sending { body, _place: place, events, metrics });
        let stream = Arc::new(Mutex::new(Stream { sending, taken: None }));
        lock(&self.0).push(Arc::downgrade(&stream));
        Body::new(Streamed(stream))
    }

    /// Gives up streams of which nothing is taken, for as long as this is waited for; with `at_once` it ends when there was one.
    pub(super) async fn sweep(&self, at_once: bool) {
        loop {
            sleep(SWEEP_INTERVAL).await;
            if self.give_up(Instant::now()) > 0 && at_once {
                return;
            }
        }
    }

    fn give_up(&self, now: Instant) -> usize {
        let mut stalled = Vec::new();
        lock(&self.0).retain(|stream| {
            let Some(stream) = stream.upgrade() else { return false };
            let mut stream = lock(&stream);
            let is_stalled = stream.taken.is_some_and(|taken| now.duration_since(taken) > CLIENT_WAIT);
            if is_stalled {
                stalled.extend(stream.sending.take());
            }
            !is_stalled
        });
        for sending in &stalled {
            sending.metrics.terminated("client takes nothing");
        }
        stalled.len()
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Stream {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.taken = None;
        let Some(sending) = &mut self.sending else {
            return Poll::Ready(Some(Err(failed("nothing was taken for too long"))));
        };
        let body = &mut sending.body;
        let Ok(polled) =
            std::panic::catch_unwind(AssertUnwindSafe(|| http_body::Body::poll_frame(Pin::new(body), cx)))
        else {
            sending.metrics.panics.inc();
            tracing::error!("a response's stream panicked");
            self.sending = None;
            return Poll::Ready(Some(Err(failed("internal error"))));
        };
        if let Poll::Ready(Some(Ok(frame))) = &polled {
            self.taken = Some(Instant::now());
            if let (Some(events), Some(event)) = (&sending.events, frame.data_ref()) {
                events.sent(event.len());
            }
        }
        polled
    }
}

fn failed(why: &'static str) -> axum::Error {
    axum::Error::new(std::io::Error::other(why))
}

struct Streamed(Arc<Mutex<Stream>>);

impl http_body::Body for Streamed {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        lock(&self.0).poll(cx)
    }

    fn is_end_stream(&self) -> bool {
        lock(&self.0).sending.as_ref().is_some_and(|sending| sending.body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        let stream = lock(&self.0);
        stream.sending.as_ref().map_or_else(SizeHint::default, |sending| sending.body.size_hint())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caller::Caller;
    use crate::flow::Lane;
    use futures_util::{FutureExt, StreamExt, stream};
    use http_body_util::BodyExt;
    use prometheus_client::metrics::gauge::Gauge;
    use runtime::Metrics;
    use std::convert::Infallible;

    #[tokio::test]
    async fn a_stream_of_which_nothing_is_taken_is_given_up_and_one_in_which_nothing_happens_is_not() {
        let (lane, streams) = (Lane::new(1, Gauge::default()), Streams::default());
        let metrics = Arc::new(ServerMetrics::new(&Metrics::new(), &[]));
        let enter = || lane.enter(&Caller::default(), false);
        let (later, events) =
            (CLIENT_WAIT * 2, ["a", "b", "c"].map(|text| Ok::<_, Infallible>(Bytes::from(text))));
        let body = Body::from_stream(stream::iter(events).chain(stream::pending()));
        let mut body = streams.wrap(body, enter().unwrap(), None, metrics);
        assert_eq!(streams.give_up(Instant::now() + later), 0, "nothing was sent yet");
        for _ in 0..2 {
            body.frame().await.unwrap().unwrap();
            assert_eq!(streams.give_up(Instant::now()), 0);
        }
        body.frame().await.unwrap().unwrap();
        assert!(body.frame().now_or_never().is_none());
        assert_eq!(streams.give_up(Instant::now() + later), 0, "it waits for what happens");
        drop(body);
        assert_eq!(lock(&streams.0).len(), 1);

        let body =
            Body::from_stream(stream::iter(["a", "b"].map(|text| Ok::<_, Infallible>(Bytes::from(text)))));
        let metrics = Arc::new(ServerMetrics::new(&Metrics::new(), &[]));
        let mut body = streams.wrap(body, enter().unwrap(), None, metrics);
        body.frame().await.unwrap().unwrap();
        assert!(enter().is_none());
        assert_eq!(streams.give_up(Instant::now() + later), 1);
        assert!(enter().is_some(), "its place is free");
        assert!(body.frame().await.unwrap().is_err(), "who comes back is told");
        assert_eq!(lock(&streams.0).len(), 0);
    }
}

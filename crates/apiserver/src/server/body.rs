//! Bodies of streamed responses. Each holds its in-flight permit until it ends; a panic in it ends it. When a client
//! stops reading, the stream is terminated, so that the objects and events still to be sent are freed. A finite
//! response, such as a list, is also terminated when the client reads too slowly, since it would hold its permit for
//! too long.

use crate::flow::InFlightPermit;
use crate::metrics::{ServerMetrics, WatchEvents};
use crate::transfer_rate;
use axum::body::{Body, Bytes};
use http_body::{Frame, SizeHint};
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// A client that reads nothing for so long is considered gone.
pub(crate) const CLIENT_STALL_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a finite response may take, in addition to the time of its bytes at the minimum rate.
const FINITE_BODY_BASE_TIMEOUT: Duration = Duration::from_mins(1);
/// The interval of checks for stalled streams.
const STALL_CHECK_INTERVAL: Duration = Duration::from_secs(10);

/// The streamed responses of one connection.
#[derive(Default)]
pub(super) struct Streams(Mutex<Vec<Weak<Mutex<TrackedStream>>>>);

/// What a stream holds until it ends.
pub(super) struct StreamResources {
    pub(super) permit: InFlightPermit,
    /// Whether it ends by itself, unlike a watch, and so must end in time.
    pub(super) is_finite: bool,
    pub(super) events: Option<WatchEvents>,
    pub(super) metrics: Arc<ServerMetrics>,
}

/// A stream and the progress of its client. Each frame of a watch is a chunk of events.
struct TrackedStream {
    /// `None` once it was terminated.
    active: Option<ActiveStream>,
    /// When a frame was sent; `None` again when the connection asks for the next one.
    frame_sent_at: Option<Instant>,
    started: Instant,
    /// Bytes that were sent.
    bytes: u64,
}

struct ActiveStream {
    body: Body,
    _permit: InFlightPermit,
    is_finite: bool,
    events: Option<WatchEvents>,
    metrics: Arc<ServerMetrics>,
}

impl Streams {
    /// Wraps the body of a streamed response.
    pub(super) fn wrap(&self, body: Body, resources: StreamResources) -> Body {
        let StreamResources { permit, is_finite, events, metrics } = resources;
        let active = Some(ActiveStream { body, _permit: permit, is_finite, events, metrics });
        let stream = TrackedStream { active, frame_sent_at: None, started: Instant::now(), bytes: 0 };
        let stream = Arc::new(Mutex::new(stream));
        lock(&self.0).push(Arc::downgrade(&stream));
        Body::new(TrackedBody(stream))
    }

    /// Terminates stalled streams, at intervals, as long as this future runs. With `until_first` it completes when it
    /// has terminated one.
    pub(super) async fn terminate_stalls(&self, until_first: bool) {
        loop {
            sleep(STALL_CHECK_INTERVAL).await;
            if self.terminate_stalled(Instant::now()) > 0 && until_first {
                return;
            }
        }
    }

    fn terminate_stalled(&self, now: Instant) -> usize {
        let mut terminated = Vec::new();
        lock(&self.0).retain(|stream| {
            let Some(stream) = stream.upgrade() else { return false };
            let mut stream = lock(&stream);
            let Some(why) = stream.termination_reason(now) else { return true };
            terminated.extend(stream.active.take().map(|active| (active, why)));
            false
        });
        for (active, why) in &terminated {
            active.metrics.record_termination(why);
        }
        terminated.len()
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl TrackedStream {
    /// Why the stream must be terminated; `None` if it goes on.
    fn termination_reason(&self, now: Instant) -> Option<&'static str> {
        if self.frame_sent_at.is_some_and(|at| now.duration_since(at) > CLIENT_STALL_TIMEOUT) {
            return Some("client takes nothing");
        }
        let is_finite = self.active.as_ref().is_some_and(|active| active.is_finite);
        let allowed = transfer_rate::timeout_for(self.bytes, FINITE_BODY_BASE_TIMEOUT);
        let is_late = is_finite && now.duration_since(self.started) > allowed;
        is_late.then_some("timeout")
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.frame_sent_at = None;
        let Some(active) = &mut self.active else {
            return Poll::Ready(Some(Err(failed("it was taken too slowly"))));
        };
        let body = &mut active.body;
        let Ok(polled) =
            std::panic::catch_unwind(AssertUnwindSafe(|| http_body::Body::poll_frame(Pin::new(body), cx)))
        else {
            active.metrics.panics.inc();
            tracing::error!("a response's stream panicked");
            self.active = None;
            return Poll::Ready(Some(Err(failed("internal error"))));
        };
        if let Poll::Ready(Some(Ok(frame))) = &polled {
            self.frame_sent_at = Some(Instant::now());
            let length = frame.data_ref().map_or(0, Bytes::len);
            self.bytes = self.bytes.saturating_add(u64::try_from(length).unwrap_or(u64::MAX));
            if let (Some(events), true) = (&active.events, frame.is_data()) {
                events.sent(length);
            }
        }
        polled
    }
}

fn failed(why: &'static str) -> axum::Error {
    axum::Error::new(std::io::Error::other(why))
}

struct TrackedBody(Arc<Mutex<TrackedStream>>);

impl http_body::Body for TrackedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        lock(&self.0).poll(cx)
    }

    fn is_end_stream(&self) -> bool {
        lock(&self.0).active.as_ref().is_some_and(|active| active.body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        let stream = lock(&self.0);
        stream.active.as_ref().map_or_else(SizeHint::default, |active| active.body.size_hint())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caller::Caller;
    use crate::flow::{InFlightLimiter, PriorityLevel};
    use futures_util::{FutureExt, StreamExt, stream};
    use http_body_util::BodyExt;
    use prometheus_client::metrics::gauge::Gauge;
    use runtime::Metrics;
    use std::convert::Infallible;

    fn resources(limiter: &Arc<InFlightLimiter>, is_finite: bool) -> Option<StreamResources> {
        let permit = limiter.try_acquire(&Caller::default(), PriorityLevel::Ordinary)?;
        let metrics = Arc::new(ServerMetrics::new(&Metrics::new(), &[]));
        Some(StreamResources { permit, is_finite, events: None, metrics })
    }

    fn body_of<const N: usize>(pieces: [Bytes; N]) -> Body {
        Body::from_stream(stream::iter(pieces.map(Ok::<_, Infallible>)))
    }

    #[tokio::test]
    async fn a_stream_of_which_nothing_is_taken_is_given_up_and_one_in_which_nothing_happens_is_not() {
        let (limiter, streams) = (InFlightLimiter::new(1, Gauge::default()), Streams::default());
        let (later, events) =
            (CLIENT_STALL_TIMEOUT * 2, ["a", "b", "c"].map(|text| Ok::<_, Infallible>(Bytes::from(text))));
        let body = Body::from_stream(stream::iter(events).chain(stream::pending()));
        let mut body = streams.wrap(body, resources(&limiter, false).unwrap());
        assert_eq!(streams.terminate_stalled(Instant::now() + later), 0, "nothing was sent yet");
        for _ in 0..2 {
            body.frame().await.unwrap().unwrap();
            assert_eq!(streams.terminate_stalled(Instant::now()), 0);
        }
        body.frame().await.unwrap().unwrap();
        assert!(body.frame().now_or_never().is_none());
        assert_eq!(streams.terminate_stalled(Instant::now() + later), 0, "it waits for what happens");
        drop(body);
        assert_eq!(lock(&streams.0).len(), 1);

        let body = body_of(["a", "b"].map(Bytes::from));
        let mut body = streams.wrap(body, resources(&limiter, false).unwrap());
        body.frame().await.unwrap().unwrap();
        assert!(resources(&limiter, false).is_none());
        assert_eq!(streams.terminate_stalled(Instant::now() + later), 1);
        assert!(resources(&limiter, false).is_some(), "its place is free");
        assert!(body.frame().await.unwrap().is_err(), "who comes back is told");
        assert_eq!(lock(&streams.0).len(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_that_is_taken_in_sips_ends_as_an_error_and_one_that_is_only_long_does_not() {
        let (limiter, streams) = (InFlightLimiter::new(1, Gauge::default()), Streams::default());
        let sips = body_of([(); 4].map(|()| Bytes::from(vec![b'x'; 64 * 1024])));
        let mut sips = streams.wrap(sips, resources(&limiter, true).unwrap());
        for _ in 0..3 {
            sips.frame().await.unwrap().unwrap();
            assert_eq!(streams.terminate_stalled(Instant::now()), 0);
            tokio::time::advance(CLIENT_STALL_TIMEOUT * 5 / 6).await;
        }
        assert_eq!(streams.terminate_stalled(Instant::now()), 1);
        assert!(sips.frame().await.unwrap().is_err(), "not a list that seems to be whole");

        let long = body_of([(); 4].map(|()| Bytes::from(vec![b'x'; 16 << 20])));
        let mut long = streams.wrap(long, resources(&limiter, true).unwrap());
        for _ in 0..4 {
            long.frame().await.unwrap().unwrap();
            tokio::time::advance(CLIENT_STALL_TIMEOUT * 5 / 6).await;
            assert_eq!(streams.terminate_stalled(Instant::now()), 0);
        }
        assert!(long.frame().await.is_none());
    }
}

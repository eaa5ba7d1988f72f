//! Bodies of streams. Each keeps its place in the lane until it ends, and a panic in it ends it. A client that takes
//! nothing keeps nothing alive for long: the objects and events still to be sent are given up. So is an answer with
//! an end, such as a list, if the client takes it too slowly and would occupy the place.

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

/// A client that takes nothing for so long is gone.
pub(crate) const CLIENT_WAIT: Duration = Duration::from_secs(30);
/// An answer with an end may take so long, and in addition the time of its bytes at the least rate.
const ENDS_WITHIN: Duration = Duration::from_mins(1);
/// Time between two looks at what the clients of a connection take.
const SWEEP_INTERVAL: Duration = Duration::from_secs(10);

/// The streams of one connection.
#[derive(Default)]
pub(super) struct Streams(Mutex<Vec<Weak<Mutex<Stream>>>>);

/// What a stream keeps until it ends.
pub(super) struct Kept {
    pub(super) place: InFlightPermit,
    /// It ends by itself, unlike a watch, and must do so in time.
    pub(super) ends: bool,
    pub(super) events: Option<WatchEvents>,
    pub(super) metrics: Arc<ServerMetrics>,
}

/// A stream that is sent. Each frame of a watch is one chunk of events.
struct Stream {
    /// `None` once it was given up.
    sending: Option<Sending>,
    /// When a frame was taken, until the next one is asked for.
    taken: Option<Instant>,
    began: Instant,
    /// Bytes that were taken.
    bytes: u64,
}

struct Sending {
    body: Body,
    _place: InFlightPermit,
    ends: bool,
    events: Option<WatchEvents>,
    metrics: Arc<ServerMetrics>,
}

impl Streams {
    /// The body of an answer that goes on.
    pub(super) fn wrap(&self, body: Body, kept: Kept) -> Body {
        let Kept { place, ends, events, metrics } = kept;
        let sending = Some(Sending { body, _place: place, ends, events, metrics });
        let stream = Stream { sending, taken: None, began: Instant::now(), bytes: 0 };
        let stream = Arc::new(Mutex::new(stream));
        lock(&self.0).push(Arc::downgrade(&stream));
        Body::new(Streamed(stream))
    }

    /// Gives up streams of which nothing or too little is taken, as long as this future runs. With `at_once` it ends
    /// after the first.
    pub(super) async fn sweep(&self, at_once: bool) {
        loop {
            sleep(SWEEP_INTERVAL).await;
            if self.give_up(Instant::now()) > 0 && at_once {
                return;
            }
        }
    }

    fn give_up(&self, now: Instant) -> usize {
        let mut given_up = Vec::new();
        lock(&self.0).retain(|stream| {
            let Some(stream) = stream.upgrade() else { return false };
            let mut stream = lock(&stream);
            let Some(why) = stream.hopeless(now) else { return true };
            given_up.extend(stream.sending.take().map(|sending| (sending, why)));
            false
        });
        for (sending, why) in &given_up {
            sending.metrics.record_termination(why);
        }
        given_up.len()
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Stream {
    /// Why the stream is given up; `None` if it goes on.
    fn hopeless(&self, now: Instant) -> Option<&'static str> {
        if self.taken.is_some_and(|taken| now.duration_since(taken) > CLIENT_WAIT) {
            return Some("client takes nothing");
        }
        let ends = self.sending.as_ref().is_some_and(|sending| sending.ends);
        let is_late =
            ends && now.duration_since(self.began) > transfer_rate::timeout_for(self.bytes, ENDS_WITHIN);
        is_late.then_some("timeout")
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.taken = None;
        let Some(sending) = &mut self.sending else {
            return Poll::Ready(Some(Err(failed("it was taken too slowly"))));
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
            let length = frame.data_ref().map_or(0, Bytes::len);
            self.bytes = self.bytes.saturating_add(u64::try_from(length).unwrap_or(u64::MAX));
            if let (Some(events), true) = (&sending.events, frame.is_data()) {
                events.sent(length);
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
    use crate::flow::{InFlightLimiter, PriorityLevel};
    use futures_util::{FutureExt, StreamExt, stream};
    use http_body_util::BodyExt;
    use prometheus_client::metrics::gauge::Gauge;
    use runtime::Metrics;
    use std::convert::Infallible;

    fn kept(limiter: &Arc<InFlightLimiter>, ends: bool) -> Option<Kept> {
        let place = limiter.try_acquire(&Caller::default(), PriorityLevel::Ordinary)?;
        let metrics = Arc::new(ServerMetrics::new(&Metrics::new(), &[]));
        Some(Kept { place, ends, events: None, metrics })
    }

    fn body_of<const N: usize>(pieces: [Bytes; N]) -> Body {
        Body::from_stream(stream::iter(pieces.map(Ok::<_, Infallible>)))
    }

    #[tokio::test]
    async fn a_stream_of_which_nothing_is_taken_is_given_up_and_one_in_which_nothing_happens_is_not() {
        let (limiter, streams) = (InFlightLimiter::new(1, Gauge::default()), Streams::default());
        let (later, events) =
            (CLIENT_WAIT * 2, ["a", "b", "c"].map(|text| Ok::<_, Infallible>(Bytes::from(text))));
        let body = Body::from_stream(stream::iter(events).chain(stream::pending()));
        let mut body = streams.wrap(body, kept(&limiter, false).unwrap());
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

        let body = body_of(["a", "b"].map(Bytes::from));
        let mut body = streams.wrap(body, kept(&limiter, false).unwrap());
        body.frame().await.unwrap().unwrap();
        assert!(kept(&limiter, false).is_none());
        assert_eq!(streams.give_up(Instant::now() + later), 1);
        assert!(kept(&limiter, false).is_some(), "its place is free");
        assert!(body.frame().await.unwrap().is_err(), "who comes back is told");
        assert_eq!(lock(&streams.0).len(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_that_is_taken_in_sips_ends_as_an_error_and_one_that_is_only_long_does_not() {
        let (limiter, streams) = (InFlightLimiter::new(1, Gauge::default()), Streams::default());
        let sips = body_of([(); 4].map(|()| Bytes::from(vec![b'x'; 64 * 1024])));
        let mut sips = streams.wrap(sips, kept(&limiter, true).unwrap());
        for _ in 0..3 {
            sips.frame().await.unwrap().unwrap();
            assert_eq!(streams.give_up(Instant::now()), 0);
            tokio::time::advance(CLIENT_WAIT * 5 / 6).await;
        }
        assert_eq!(streams.give_up(Instant::now()), 1);
        assert!(sips.frame().await.unwrap().is_err(), "not a list that seems to be whole");

        let long = body_of([(); 4].map(|()| Bytes::from(vec![b'x'; 16 << 20])));
        let mut long = streams.wrap(long, kept(&limiter, true).unwrap());
        for _ in 0..4 {
            long.frame().await.unwrap().unwrap();
            tokio::time::advance(CLIENT_WAIT * 5 / 6).await;
            assert_eq!(streams.give_up(Instant::now()), 0);
        }
        assert!(long.frame().await.is_none());
    }
}

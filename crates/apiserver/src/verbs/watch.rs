//! `GET` of a collection with `watch`: a stream of event frames.

mod frames;

use crate::resource::StoredKind;
use crate::response::{Media, body_response};
use crate::server::CLIENT_STALL_TIMEOUT;
use crate::store_status::{status_of, watch_expired};
use crate::stream_authorization::{Revocation, StreamAuthorization, VisibilityGate};
use crate::verbs::Call;
use crate::verbs::list::selection;
use crate::verbs::options::{ListOptions, resource_version};
use axum::body::Body;
use bytes::{Bytes, BytesMut};
use frames::Frames;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, stream};
use http::{Response, StatusCode};
use meta::status::Status;
use std::convert::Infallible;
use std::time::Duration;
use store::Revision;
use store::read::{At, WatchEnd, WatchFrom, WatchItem, WatchQuery};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

/// Shortest lifetime of a watch without `timeoutSeconds`. The longest is twice that.
const LIFETIME_SECONDS_MIN: u64 = 1800;
/// Longest lifetime that a watch may ask for.
const LIFETIME_SECONDS_MAX: u64 = 24 * 3600;
/// Tells a client to list again although its revision is not compacted.
const VISIBILITY_CHANGED: &str = "what the caller may see has changed: list again";
/// About how often a bookmark is sent.
const BOOKMARK_INTERVAL: Duration = Duration::from_mins(1);
/// How long a watch waits to learn whether its caller has lost his right, after what he sees has changed. That may need
/// a review.
const REVOCATION_WAIT: Duration = Duration::from_secs(1);
/// How long before its end a watch gets its last bookmark.
const LAST_BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);
/// No further frame is added to a chunk of this size.
const CHUNK_BYTES_MAX: usize = 64 << 10;
/// Least time between two chunks of a watch. The first event after a pause is sent at once. Under load several events
/// share a chunk, a TLS record and a wake-up of the client.
const CHUNK_INTERVAL: Duration = Duration::from_millis(2);

pub(crate) async fn watch(call: &mut Call<'_>, stored: &StoredKind) -> Result<Response<Body>, Status> {
    let options = ListOptions::parse(&call.query, true)?;
    let media = call.style.accepted.media;
    let frames = Frames::new(call.renderer()?, call.api.clock.clone());
    let selection = selection(stored, &call.request.namespace, &options)?;
    let from = watch_start(&options)?;
    if call.api.draining.is_cancelled() {
        return Err(Status::too_many_requests(1));
    }
    let opened = call.api.store.watch(&call.cx.access, &WatchQuery { selection, from }).await;
    let body = match opened {
        Ok(watch) => {
            let authorization = call.cx.stream_authorization.take();
            let mut stream = WatchStream {
                watch,
                frames,
                allows_bookmarks: options.bookmarks,
                next_bookmark: None,
                initial: matches!(from, WatchFrom::State(_)),
                end: Instant::now() + lifetime(options.timeout_seconds),
                draining: call.api.draining.clone(),
                gate: authorization.as_deref().and_then(StreamAuthorization::visibility_gate),
                revoked: authorization.map(|authorization| authorization.revoked().boxed()),
                held_event: None,
                ended: false,
                last_sent: None,
            };
            stream.schedule_bookmark();
            let chunks = stream::unfold(Box::new(stream), |mut stream| async move {
                let chunk = stream.chunk().await?;
                Some((Ok::<_, Infallible>(chunk), stream))
            });
            Body::from_stream(chunks)
        }
        Err(store::Error::Expired { asked, current }) => {
            error_stream(&watch_expired(asked.0, current.0), media)
        }
        Err(error @ store::Error::TooFarAhead { .. }) => {
            error_stream(&status_of(&error, &call.resource.group_resource(), ""), media)
        }
        Err(error) => return Err(status_of(&error, &call.resource.group_resource(), "")),
    };
    Ok(body_response(StatusCode::OK, media.stream_type(), body))
}

/// A stream of one error frame. Unlike other errors it has no Content-Length.
fn error_stream(status: &Status, media: Media) -> Body {
    Body::from_stream(stream::iter([Ok::<_, Infallible>(frames::error(status, media))]))
}

/// What `resourceVersion` and `sendInitialEvents` mean together. Without the latter, "" and "0" send the initial state.
fn watch_start(options: &ListOptions) -> Result<WatchFrom, Status> {
    let revision = resource_version(&options.resource_version)?;
    let state = match revision {
        None => At::Latest,
        Some(0) => At::Any,
        Some(n) => At::NotOlderThan(Revision(n)),
    };
    Ok(match (options.send_initial_events, revision) {
        (Some(true), _) | (None, None | Some(0)) => WatchFrom::State(state),
        (Some(false), None | Some(0)) => WatchFrom::Now,
        (_, Some(n)) => WatchFrom::After(Revision(n)),
    })
}

fn lifetime(asked: Option<i64>) -> Duration {
    let seconds = match asked.and_then(|n| u64::try_from(n).ok()) {
        Some(n) if n > 0 => n.min(LIFETIME_SECONDS_MAX),
        _ => rand::random_range(LIFETIME_SECONDS_MIN..=LIFETIME_SECONDS_MIN * 2),
    };
    Duration::from_secs(seconds)
}

/// Waits until the stream must end because of its caller; for ever if nothing can revoke his right.
async fn revoked(revoked: &mut Option<BoxFuture<'static, Revocation>>) -> Revocation {
    match revoked {
        Some(revoked) => revoked.await,
        None => std::future::pending().await,
    }
}

struct WatchStream {
    watch: store::watch::Watch,
    frames: Frames,
    /// Whether the client allows bookmarks.
    allows_bookmarks: bool,
    /// When the next regular bookmark is due, if there is to be one.
    next_bookmark: Option<Instant>,
    /// Whether the initial state is still being sent. There are no bookmarks until its end.
    initial: bool,
    end: Instant,
    draining: CancellationToken,
    /// Checks each event; `None` if what the caller sees cannot change.
    gate: Option<VisibilityGate>,
    /// Completes when the stream must end because of its caller.
    revoked: Option<BoxFuture<'static, Revocation>>,
    /// An event that waits for the gate.
    held_event: Option<WatchItem>,
    ended: bool,
    /// When the last chunk was sent.
    last_sent: Option<Instant>,
}

impl WatchStream {
    /// The next frames, as many as are ready; `None` ends the stream, and the client connects again by itself. It is
    /// called when the client has taken the previous chunk. If the caller has lost his right by then, he gets no
    /// further events, nor the event that took it away.
    async fn chunk(&mut self) -> Option<Bytes> {
        if let Some(last_sent) = self.last_sent {
            if last_sent.elapsed() > CLIENT_STALL_TIMEOUT {
                return None;
            }
            sleep_until(last_sent + CHUNK_INTERVAL).await;
        }
        if let Some(revoked) = self.revoked.as_mut().and_then(FutureExt::now_or_never) {
            return self.terminate(&revoked);
        }
        let first = self.next().await?;
        let chunk = self.gather(first);
        self.last_sent = Some(Instant::now());
        Some(chunk)
    }

    /// Joins a frame with those after it that are ready.
    fn gather(&mut self, first: Bytes) -> Bytes {
        let Some(second) = self.ready() else { return first };
        let mut chunk = BytesMut::with_capacity((first.len() + second.len()) * 2);
        chunk.extend_from_slice(&first);
        chunk.extend_from_slice(&second);
        while chunk.len() < CHUNK_BYTES_MAX
            && let Some(frame) = self.ready()
        {
            chunk.extend_from_slice(&frame);
        }
        chunk.freeze()
    }

    /// The next frame, if it is ready.
    fn ready(&mut self) -> Option<Bytes> {
        while !self.ended {
            let item = self.watch.next().now_or_never()?;
            let item = self.pass_or_hold(item)?;
            if let Some(frame) = self.frame(item) {
                return Some(frame);
            }
        }
        None
    }

    /// Returns an item that can be sent at once. Holds an event that has to wait for the gate.
    fn pass_or_hold(&mut self, item: Result<WatchItem, WatchEnd>) -> Option<Result<WatchItem, WatchEnd>> {
        let is_event = matches!(item, Ok(WatchItem::Event { .. }));
        let gate = self.gate.as_mut().filter(|_| is_event);
        let passes = gate.is_none_or(|gate| !gate.must_settle() && gate.is_open());
        match item {
            Ok(event) if !passes => {
                self.held_event = Some(event);
                None
            }
            item => Some(item),
        }
    }

    /// Waits for the gate if the item is an event. An error if the caller may not see it.
    async fn check_visibility(&mut self, item: &Result<WatchItem, WatchEnd>) -> Result<(), Revocation> {
        let (Some(gate), Ok(WatchItem::Event { .. })) = (&mut self.gate, item) else {
            return Ok(());
        };
        gate.settle().await;
        if gate.is_open() {
            return Ok(());
        }
        // If the caller has lost his right too, the stream ends with that reason.
        Err(timeout(REVOCATION_WAIT, revoked(&mut self.revoked))
            .await
            .unwrap_or(Revocation::VisibilityChanged))
    }

    /// Waits for the next frame; `None` when there are no more.
    async fn next(&mut self) -> Option<Bytes> {
        while !self.ended && Instant::now() < self.end {
            let due = self.bookmark_due();
            let item = if let Some(event) = self.held_event.take() {
                Ok(event)
            } else {
                tokio::select! {
                    biased;
                    item = self.watch.next() => item,
                    () = self.draining.cancelled() => return None,
                    revoked = revoked(&mut self.revoked) => return self.terminate(&revoked),
                    () = sleep_until(due.unwrap_or(self.end).min(self.end)) => {
                        if due.is_some_and(|due| due < self.end) {
                            self.watch.bookmark();
                            self.schedule_bookmark();
                        }
                        continue;
                    }
                }
            };
            if let Err(revoked) = self.check_visibility(&item).await {
                return self.terminate(&revoked);
            }
            if let Some(frame) = self.frame(item) {
                return Some(frame);
            }
        }
        None
    }

    /// The last frame of a stream that may not go on.
    ///
    /// If what the caller sees has changed, he has to list again, as after a compaction. Synthetic events for the
    /// objects that appear and disappear would not help: they have no resource version of their own, so a client that
    /// connects again after one of them would miss the others.
    fn terminate(&mut self, revoked: &Revocation) -> Option<Bytes> {
        (self.ended, self.revoked) = (true, None);
        match revoked {
            Revocation::CredentialEnded => None,
            Revocation::Forbidden(status) => Some(self.frames.error(status)),
            Revocation::VisibilityChanged => Some(self.frames.error(&Status::expired(VISIBILITY_CHANGED))),
        }
    }

    /// The frame of an item; `None` if the client gets nothing for it.
    fn frame(&mut self, item: Result<WatchItem, WatchEnd>) -> Option<Bytes> {
        match item {
            Ok(WatchItem::Event { op, entry, frame }) => Some(self.frames.event(op, &entry, &frame)),
            Ok(WatchItem::InitialEnd(revision)) => {
                let first = std::mem::take(&mut self.initial);
                (first && self.allows_bookmarks).then(|| self.frames.bookmark(revision, true))
            }
            Ok(WatchItem::Bookmark(revision)) => {
                self.allows_bookmarks.then(|| self.frames.bookmark(revision, false))
            }
            Err(end) => {
                self.ended = true;
                let WatchEnd::Expired { asked, current } = end else { return None };
                Some(self.frames.error(&watch_expired(asked.0, current.0)))
            }
        }
    }

    fn bookmark_due(&self) -> Option<Instant> {
        self.next_bookmark.filter(|_| !self.initial)
    }

    /// Sets when the next bookmark is due: about every minute, and shortly before the end.
    fn schedule_bookmark(&mut self) {
        if !self.allows_bookmarks {
            return;
        }
        let Some(last) = self.end.checked_sub(LAST_BOOKMARK_BEFORE_END) else { return };
        let now = Instant::now();
        let regular = now + BOOKMARK_INTERVAL.mul_f64(0.75 + rand::random::<f64>() / 2.0);
        self.next_bookmark = (now < last).then(|| regular.min(last));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Query;

    #[test]
    fn a_watch_begins_where_its_parameters_say() {
        let of =
            |text: &str| watch_start(&ListOptions::parse(&Query::parse(Some(text)), true).unwrap()).unwrap();
        let more = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
        let less = "sendInitialEvents=false&resourceVersionMatch=NotOlderThan";
        for (query, want) in [
            (String::new(), WatchFrom::State(At::Latest)),
            ("resourceVersion=0".to_owned(), WatchFrom::State(At::Any)),
            ("resourceVersion=5".to_owned(), WatchFrom::After(Revision(5))),
            (more.to_owned(), WatchFrom::State(At::Latest)),
            (format!("{more}&resourceVersion=0"), WatchFrom::State(At::Any)),
            (format!("{more}&resourceVersion=5"), WatchFrom::State(At::NotOlderThan(Revision(5)))),
            (less.to_owned(), WatchFrom::Now),
            (format!("{less}&resourceVersion=5"), WatchFrom::After(Revision(5))),
        ] {
            assert_eq!(of(&query), want, "{query}");
        }
    }

    #[test]
    fn a_watch_lives_as_long_as_asked_or_half_an_hour_to_an_hour() {
        assert_eq!(lifetime(Some(7)), Duration::from_secs(7));
        assert!((1800..=3600).contains(&lifetime(None).as_secs()));
        assert!((1800..=3600).contains(&lifetime(Some(0)).as_secs()));
        assert_eq!(lifetime(Some(i64::MAX)), Duration::from_secs(LIFETIME_SECONDS_MAX));
    }
}

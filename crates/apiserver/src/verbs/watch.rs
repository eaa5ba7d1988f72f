//! `GET` of a collection with `watch`: a stream of frames that ends cleanly.

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

/// Shortest life of a watch that did not ask for one; the longest is twice that.
const LIFE_SECONDS_MIN: u64 = 1800;
/// Longest life that a watch may ask for.
const LIFE_SECONDS_MAX: u64 = 24 * 3600;
/// Why a client has to list again although nothing was compacted.
const SEES_OTHERWISE: &str = "what the caller may see has changed: list again";
/// About how often a bookmark is sent.
const BOOKMARK_INTERVAL: Duration = Duration::from_mins(1);
/// How long it may take to find out why a caller sees no more what he saw. It may need a review.
const REASON_WAIT: Duration = Duration::from_secs(1);
/// How long before its end a watch gets its last bookmark.
const LAST_BOOKMARK: Duration = Duration::from_secs(2);
/// Most bytes that are sent together, apart from the last frame.
const CHUNK_BYTES_MAX: usize = 64 << 10;
/// Least time between two chunks of a watch. The first event after a silence goes out at once. Under load several
/// events share a chunk, a record of TLS and a wake-up of the client.
const CHUNK_INTERVAL: Duration = Duration::from_millis(2);

pub(crate) async fn watch(call: &mut Call<'_>, stored: &StoredKind) -> Result<Response<Body>, Status> {
    let options = ListOptions::parse(&call.query, true)?;
    let media = call.style.accepted.media;
    let frames = Frames::new(call.renderer()?, call.api.clock.clone());
    let selection = selection(stored, &call.asked.namespace, &options)?;
    let from = beginning(&options)?;
    if call.api.draining.is_cancelled() {
        return Err(Status::too_many_requests(1));
    }
    let opened = call.api.store.watch(&call.cx.access, &WatchQuery { selection, from }).await;
    let body = match opened {
        Ok(watch) => {
            let end = Instant::now() + life(options.timeout_seconds);
            let bookmarks = options.bookmarks.then_some(Bookmarks { next: Some(Instant::now()) });
            let draining = call.api.draining.clone();
            let gate = call.cx.stream_authorization.as_deref().and_then(StreamAuthorization::gate);
            let lost = call
                .cx
                .stream_authorization
                .take()
                .map(|stream_authorization| stream_authorization.lost().boxed());
            let initial = matches!(from, WatchFrom::State(_));
            let (held, ended, sent) = (None, false, None);
            let mut stream =
                Stream { watch, frames, bookmarks, initial, end, draining, gate, lost, held, ended, sent };
            stream.schedule_bookmark();
            let chunks = stream::unfold(Box::new(stream), |mut stream| async move {
                let chunk = stream.chunk().await?;
                Some((Ok::<_, Infallible>(chunk), stream))
            });
            Body::from_stream(chunks)
        }
        Err(store::Error::Expired { asked, current }) => {
            failed_at_once(&watch_expired(asked.0, current.0), media)
        }
        Err(error @ store::Error::TooFarAhead { .. }) => {
            failed_at_once(&status_of(&error, &call.resource.group_resource(), ""), media)
        }
        Err(error) => return Err(status_of(&error, &call.resource.group_resource(), "")),
    };
    Ok(body_response(StatusCode::OK, media.stream_type(), body))
}

/// A stream, without Content-Length, of one error.
fn failed_at_once(status: &Status, media: Media) -> Body {
    Body::from_stream(stream::iter([Ok::<_, Infallible>(frames::error(status, media))]))
}

/// `resourceVersion` and `sendInitialEvents`, with the old meaning of "" and "0".
fn beginning(options: &ListOptions) -> Result<WatchFrom, Status> {
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

fn life(asked: Option<i64>) -> Duration {
    let seconds = match asked.and_then(|n| u64::try_from(n).ok()) {
        Some(n) if n > 0 => n.min(LIFE_SECONDS_MAX),
        _ => rand::random_range(LIFE_SECONDS_MIN..=LIFE_SECONDS_MIN * 2),
    };
    Duration::from_secs(seconds)
}

/// Waits until the caller may not go on; for ever if nothing can take his right away.
async fn lost(lost: &mut Option<BoxFuture<'static, Revocation>>) -> Revocation {
    match lost {
        Some(lost) => lost.await,
        None => std::future::pending().await,
    }
}

/// When bookmarks are due.
struct Bookmarks {
    next: Option<Instant>,
}

struct Stream {
    watch: store::watch::Watch,
    frames: Frames,
    /// Only if the client allowed them.
    bookmarks: Option<Bookmarks>,
    /// The first state is still being sent; until its end there are no bookmarks.
    initial: bool,
    end: Instant,
    draining: CancellationToken,
    /// Each event passes it, if what the caller sees can change.
    gate: Option<VisibilityGate>,
    /// Completes when the caller may not go on.
    lost: Option<BoxFuture<'static, Revocation>>,
    /// An event that waits before the gate.
    held: Option<WatchItem>,
    ended: bool,
    /// When the last chunk was sent.
    sent: Option<Instant>,
}

impl Stream {
    /// The next frames, as many as are there; `None` ends the stream, and the client comes back by itself. It is
    /// called as soon as the client has taken the previous chunk. Events that were not sent by then are not sent to a
    /// caller who may not see them any more; nor is the one that takes the sight of it away.
    async fn chunk(&mut self) -> Option<Bytes> {
        if let Some(sent) = self.sent {
            if sent.elapsed() > CLIENT_STALL_TIMEOUT {
                return None;
            }
            sleep_until(sent + CHUNK_INTERVAL).await;
        }
        if let Some(lost) = self.lost.as_mut().and_then(FutureExt::now_or_never) {
            return self.lose(&lost);
        }
        let first = self.next().await?;
        let chunk = self.gather(first);
        self.sent = Some(Instant::now());
        Some(chunk)
    }

    /// A frame and those that are ready behind it.
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

    /// The next frame, if it can be had at once.
    fn ready(&mut self) -> Option<Bytes> {
        while !self.ended {
            let item = self.watch.next().now_or_never()?;
            let item = self.held_back(item)?;
            if let Some(frame) = self.frame(item) {
                return Some(frame);
            }
        }
        None
    }

    /// An item that can be sent at once; an event that has to wait is held.
    fn held_back(&mut self, item: Result<WatchItem, WatchEnd>) -> Option<Result<WatchItem, WatchEnd>> {
        let is_event = matches!(item, Ok(WatchItem::Event { .. }));
        let gate = self.gate.as_mut().filter(|_| is_event);
        let passes = gate.is_none_or(|gate| !gate.must_settle() && gate.is_open());
        match item {
            Ok(event) if !passes => {
                self.held = Some(event);
                None
            }
            item => Some(item),
        }
    }

    /// Lets an event pass, or says why the caller is not shown it.
    async fn pass(&mut self, item: &Result<WatchItem, WatchEnd>) -> Result<(), Revocation> {
        let (Some(gate), Ok(WatchItem::Event { .. })) = (&mut self.gate, item) else { return Ok(()) };
        gate.settle().await;
        if gate.is_open() {
            return Ok(());
        }
        // He may have lost his right with it, and is told the one or the other.
        Err(timeout(REASON_WAIT, lost(&mut self.lost)).await.unwrap_or(Revocation::VisibilityChanged))
    }

    /// The next frame; `None`, now and later, when there are no more.
    async fn next(&mut self) -> Option<Bytes> {
        while !self.ended && Instant::now() < self.end {
            let due = self.bookmark_due();
            let item = if let Some(event) = self.held.take() {
                Ok(event)
            } else {
                tokio::select! {
                    biased;
                    item = self.watch.next() => item,
                    () = self.draining.cancelled() => return None,
                    lost = lost(&mut self.lost) => return self.lose(&lost),
                    () = sleep_until(due.unwrap_or(self.end).min(self.end)) => {
                        if due.is_some_and(|due| due < self.end) {
                            self.watch.bookmark();
                            self.schedule_bookmark();
                        }
                        continue;
                    }
                }
            };
            if let Err(lost) = self.pass(&item).await {
                return self.lose(&lost);
            }
            if let Some(frame) = self.frame(item) {
                return Some(frame);
            }
        }
        None
    }

    /// The last frame of a stream that may not go on.
    ///
    /// If the caller sees something else now, what he was told is no longer the whole truth, and he has to list
    /// again, as after a compaction. Events could be made up for what appears and disappears, but they would have no
    /// place in the history that resource versions count, and a client that comes back from one would miss the rest.
    fn lose(&mut self, lost: &Revocation) -> Option<Bytes> {
        (self.ended, self.lost) = (true, None);
        match lost {
            Revocation::CredentialEnded => None,
            Revocation::Forbidden(status) => Some(self.frames.error(status)),
            Revocation::VisibilityChanged => Some(self.frames.error(&Status::expired(SEES_OTHERWISE))),
        }
    }

    /// The frame of an item; `None` if the client gets none.
    fn frame(&mut self, item: Result<WatchItem, WatchEnd>) -> Option<Bytes> {
        match item {
            Ok(WatchItem::Event { op, entry, frame }) => Some(self.frames.event(op, &entry, &frame)),
            Ok(WatchItem::InitialEnd(revision)) => {
                let first = std::mem::take(&mut self.initial);
                (first && self.bookmarks.is_some()).then(|| self.frames.bookmark(revision, true))
            }
            Ok(WatchItem::Bookmark(revision)) => {
                self.bookmarks.is_some().then(|| self.frames.bookmark(revision, false))
            }
            Err(end) => {
                self.ended = true;
                let WatchEnd::Expired { asked, current } = end else { return None };
                Some(self.frames.error(&watch_expired(asked.0, current.0)))
            }
        }
    }

    fn bookmark_due(&self) -> Option<Instant> {
        if self.initial { None } else { self.bookmarks.as_ref()?.next }
    }

    /// About every minute, and shortly before the end.
    fn schedule_bookmark(&mut self) {
        let Some(bookmarks) = &mut self.bookmarks else { return };
        let Some(last) = self.end.checked_sub(LAST_BOOKMARK) else { return };
        let now = Instant::now();
        let regular = now + BOOKMARK_INTERVAL.mul_f64(0.75 + rand::random::<f64>() / 2.0);
        bookmarks.next = (now < last).then(|| regular.min(last));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Query;

    #[test]
    fn a_watch_begins_where_its_parameters_say() {
        let of =
            |text: &str| beginning(&ListOptions::parse(&Query::parse(Some(text)), true).unwrap()).unwrap();
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
        assert_eq!(life(Some(7)), Duration::from_secs(7));
        assert!((1800..=3600).contains(&life(None).as_secs()));
        assert!((1800..=3600).contains(&life(Some(0)).as_secs()));
        assert_eq!(life(Some(i64::MAX)), Duration::from_secs(LIFE_SECONDS_MAX));
    }
}

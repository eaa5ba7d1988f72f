//! How much a member cluster may answer at a time. Its owner may have anything answered in its place, and what is answered is
//! read as a whole before it is looked at: without a bound one cluster could take the memory that all of them need.

use futures_util::future::BoxFuture;
use http::{Request, Response, StatusCode, Uri};
use hyper::body::{Body, Bytes, Frame, SizeHint};
use kube::client::Body as Asked;
use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use tower::{BoxError, Layer, Service};

const MIB: usize = 1 << 20;
/// An answer about one object: the storage of a cluster takes none of more than 1.5 MiB.
const ANSWER_MAX: usize = 4 * MIB;
/// An event of a watch is one object, too.
const EVENT_MAX: usize = 4 * MIB;
/// The pages of lists of one cluster that are being read at a time.
const PAGES_MAX: usize = 32 * MIB;
/// What an object within an answer counts beside its text: the least of it becomes so large in memory.
const OBJECT_WEIGHT: usize = 128;

/// More than a cluster is read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} of the cluster may be {mib} MiB at most, and more came")]
struct TooMuch {
    what: &'static str,
    mib: usize,
}

/// Whether something has failed because there was more than is read. Fewer objects at a time may be read all the same.
pub(crate) fn is_too_much(failure: &(dyn Error + 'static)) -> bool {
    let mut next = Some(failure);
    while let Some(error) = next {
        if error.is::<TooMuch>() {
            return true;
        }
        // What an I/O error carries is not its source.
        let carried = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        next = match carried {
            Some(carried) => Some(carried),
            None => error.source(),
        };
    }
    false
}

/// Puts the bounds on whatever a client of one cluster is answered.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bounds {
    /// What the pages weigh that are being read.
    pages: Arc<AtomicUsize>,
}

impl Bounds {
    fn of(&self, uri: &Uri, status: StatusCode) -> Meter {
        let has = |name: &str| uri.query().unwrap_or_default().split('&').any(|pair| pair.starts_with(name));
        // An error is read as a whole although a watch was asked for.
        if has("watch=") && !status.is_client_error() && !status.is_server_error() {
            return Meter::Watch { begun: 0, scale: Scale::default() };
        }
        if has("limit=") {
            return Meter::Page { read: 0, all: Arc::clone(&self.pages), scale: Scale::default() };
        }
        Meter::Answer { read: 0, scale: Scale::default() }
    }
}

impl<S> Layer<S> for Bounds {
    type Service = Bounded<S>;

    fn layer(&self, inner: S) -> Bounded<S> {
        Bounded { inner, bounds: self.clone() }
    }
}

/// A service within the bounds.
#[derive(Clone, Debug)]
pub(crate) struct Bounded<S> {
    inner: S,
    bounds: Bounds,
}

impl<S, B> Service<Request<Asked>> for Bounded<S>
where
    S: Service<Request<Asked>, Response = Response<B>>,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    B: Send + 'static,
{
    type Response = Response<BoundedBody<B>>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Self::Response, S::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Asked>) -> Self::Future {
        let (uri, bounds) = (request.uri().clone(), self.bounds.clone());
        let answering = self.inner.call(request);
        Box::pin(async move {
            let response = answering.await?;
            let meter = bounds.of(&uri, response.status());
            Ok(response.map(|inner| BoundedBody { inner, meter }))
        })
    }
}

/// A body that fails where it has become too large.
#[derive(Debug)]
pub(crate) struct BoundedBody<B> {
    inner: B,
    meter: Meter,
}

impl<B> Body for BoundedBody<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.get_mut();
        let Some(read) = ready!(Pin::new(&mut this.inner).poll_frame(cx)) else { return Poll::Ready(None) };
        Poll::Ready(Some(read.map_err(Into::into).and_then(|frame| this.meter.pass(frame))))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// What was read of one answer.
#[derive(Debug)]
enum Meter {
    Answer { read: usize, scale: Scale },
    Page { read: usize, all: Arc<AtomicUsize>, scale: Scale },
    Watch { begun: usize, scale: Scale },
}

impl Meter {
    fn pass(&mut self, frame: Frame<Bytes>) -> Result<Frame<Bytes>, BoxError> {
        if let Some(data) = frame.data_ref() {
            self.count(data)?;
        }
        Ok(frame)
    }

    fn count(&mut self, data: &[u8]) -> Result<(), TooMuch> {
        let (total, max, what) = match self {
            Self::Answer { read, scale } => {
                *read = read.saturating_add(scale.weigh(data));
                (*read, ANSWER_MAX, "an answer")
            }
            Self::Page { read, all, scale } => {
                let more = scale.weigh(data);
                *read = read.saturating_add(more);
                (all.fetch_add(more, Ordering::Relaxed).saturating_add(more), PAGES_MAX, "the pages of lists")
            }
            Self::Watch { begun, scale } => {
                let mut rest = data.rsplit(|byte| *byte == b'\n');
                let last = rest.next().unwrap_or_default();
                // Whatever was begun before has ended where there is an end in it.
                if rest.next().is_some() {
                    (*begun, *scale) = (0, Scale::default());
                }
                *begun = begun.saturating_add(scale.weigh(last));
                (*begun, EVENT_MAX, "an event of a watch")
            }
        };
        if total > max { Err(TooMuch { what, mib: max / MIB }) } else { Ok(()) }
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        if let Self::Page { read, all, .. } = self {
            all.fetch_sub(*read, Ordering::Relaxed);
        }
    }
}

/// Weighs JSON as it comes. What stands in its strings is no object, whatever somebody writes there.
#[derive(Clone, Copy, Debug, Default)]
struct Scale {
    in_string: bool,
    escaped: bool,
}

impl Scale {
    /// The text, and what its objects need beside it.
    fn weigh(&mut self, data: &[u8]) -> usize {
        let mut weight = data.len();
        for byte in data {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' if self.in_string => self.escaped = true,
                b'"' => self.in_string = !self.in_string,
                b'{' if !self.in_string => weight = weight.saturating_add(OBJECT_WEIGHT),
                _ => {}
            }
        }
        weight
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{CallFailure, chain};
    use futures_util::{StreamExt as _, stream};
    use http_body_util::StreamBody;
    use kube::Client;
    use kube::client::ClientBuilder;
    use serde_json::Value;
    use std::convert::Infallible;
    use std::pin::pin;

    /// Says to every request the same, so often.
    fn client(status: u16, said: &'static [u8], times: usize) -> Client {
        let service = tower::service_fn(move |_: Request<Asked>| {
            let frames = std::iter::repeat_n(said, times);
            let frames = frames.map(|said| Ok::<_, Infallible>(Frame::data(Bytes::from_static(said))));
            std::future::ready(Response::builder().status(status).body(StreamBody::new(stream::iter(frames))))
        });
        ClientBuilder::new(service, "default").with_layer(&Bounds::default()).build()
    }

    fn get(path: &str) -> Request<Vec<u8>> {
        Request::get(path).body(Vec::new()).unwrap()
    }

    async fn read(client: &Client, path: &str) -> Result<usize, String> {
        let answer = client.request_text(get(path)).await;
        answer.map(|text| text.len()).map_err(|error| CallFailure::from(error).to_string())
    }

    async fn watched(client: &Client) -> Result<usize, String> {
        let events = client.request_events::<Value>(get("/api/v1/namespaces?&watch=true")).await;
        let events = events.map_err(|error| chain(&error))?;
        let (mut events, mut count) = (pin!(events), 0);
        while let Some(event) = events.next().await {
            event.map_err(|error| chain(&error))?;
            count += 1;
        }
        Ok(count)
    }

    /// 64 KiB.
    const TEXT: &[u8] = &[b' '; 1 << 16];
    const ENDLESS: usize = usize::MAX;
    const OBJECT: &str = "/api/v1/namespaces/kube-system";
    const PAGE: &str = "/api/v1/namespaces?&limit=500";

    #[tokio::test]
    async fn an_answer_without_end_is_none() {
        for status in [200, 403, 500] {
            let without_end = client(status, TEXT, ENDLESS);
            let failure = read(&without_end, OBJECT).await.unwrap_err();
            assert!(failure.starts_with("no answer") && failure.contains("4 MiB"), "{failure}");
            let failure = read(&without_end, PAGE).await.unwrap_err();
            assert!(failure.contains("the pages of lists of the cluster may be 32 MiB"), "{failure}");
        }
        assert_eq!(read(&client(200, TEXT, 64), OBJECT).await, Ok(ANSWER_MAX));
    }

    #[tokio::test]
    async fn pages_count_while_they_are_read() {
        let lists = client(200, TEXT, 300);
        for _ in 0..3 {
            assert_eq!(read(&lists, PAGE).await, Ok(300 * TEXT.len()));
        }
        let bounds = Bounds::default();
        let uri: Uri = PAGE.parse().unwrap();
        let [mut one, mut other] = [(); 2].map(|()| bounds.of(&uri, StatusCode::OK));
        let half = vec![b' '; PAGES_MAX / 2];
        assert_eq!((one.count(&half), other.count(&half)), (Ok(()), Ok(())));
        assert!(other.count(b" ").is_err(), "together they are too much");
        drop(one);
        assert_eq!(other.count(b" "), Ok(()));
    }

    #[tokio::test]
    async fn small_objects_count_as_what_they_become() {
        let objects = client(200, b"{},{},{},{},{},{},{},{},", 20_000);
        assert!(read(&objects, OBJECT).await.is_err());
        assert!(read(&objects, PAGE).await.is_ok());
    }

    #[test]
    fn what_stands_in_a_text_is_no_object() {
        let weigh = |parts: &[&str]| {
            let mut scale = Scale::default();
            parts.iter().map(|part| scale.weigh(part.as_bytes())).sum::<usize>()
        };
        let text = r#"{"a{{":"{\"{\\\\","b":{}}"#;
        assert_eq!(weigh(&[text]), text.len() + 2 * OBJECT_WEIGHT);
        for at in 0..text.len() {
            let (begin, end) = text.split_at(at);
            assert_eq!(weigh(&[begin, end]), weigh(&[text]), "wherever it is cut: {begin}");
        }
    }

    #[tokio::test]
    async fn what_is_too_much_is_told_from_other_failures() {
        let without_end = client(200, TEXT, ENDLESS);
        for path in [OBJECT, PAGE] {
            let failure = without_end.request_text(get(path)).await.unwrap_err();
            assert!(is_too_much(&failure), "{failure}");
        }
        let events =
            without_end.request_events::<Value>(get("/api/v1/namespaces?&watch=true")).await.unwrap();
        let failure = pin!(events).next().await.unwrap().unwrap_err();
        assert!(is_too_much(&failure), "{failure}");
        let failure = client(403, b"{}", 1).request_text(get(PAGE)).await.unwrap_err();
        assert!(!is_too_much(&failure), "{failure}");
    }

    #[tokio::test]
    async fn a_watch_goes_on_for_ever_and_none_of_its_events_does() {
        const EVENT: &[u8] = b"{\"type\":\"ADDED\",\"object\":{}}\n{\"type\":\"ADDED\",\"object\":{}}\n";
        assert_eq!(watched(&client(200, EVENT, 50_000)).await, Ok(100_000));
        let failure = watched(&client(200, TEXT, ENDLESS)).await.unwrap_err();
        assert!(failure.contains("an event of a watch of the cluster may be 4 MiB"), "{failure}");
        let failure = watched(&client(500, EVENT, ENDLESS)).await.unwrap_err();
        assert!(failure.contains("an answer of the cluster"), "{failure}");
    }
}

//! Limits how much a member cluster may answer at a time. Its owner controls the answers, and each is read as a whole
//! before it is used: without a limit, one cluster could take the memory that all need.

use crate::error::TooLarge;
use futures_util::future::BoxFuture;
use http::{Request, Response, StatusCode, Uri};
use hyper::body::{Body, Bytes, Frame, SizeHint};
use kube::client::Body as RequestBody;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use tower::{BoxError, Layer, Service};

const MIB: usize = 1 << 20;
/// An answer with one object, or an event of a watch. The storage of a cluster takes no object of more than 1.5 MiB, as
/// protobuf: a role binding of that size has 58,000 subjects, which weigh 71 MiB as JSON.
const OBJECT_MAX: usize = 72 * MIB;
/// What each object may weigh without counting with others. Only the largest objects weigh more.
const COMMON_MAX: usize = 4 * MIB;
/// What all answers of one cluster may weigh together beyond that: one of the largest objects, and another large one.
const LARGE_MAX: usize = OBJECT_MAX;
/// What all pages of one cluster that are being read may weigh together. Beyond it, each page still has the same common
/// part as an object.
const PAGES_MAX: usize = 96 * MIB;
/// The weight of a byte of text: it is buffered, joined and copied before it is parsed, and strings are kept.
const TEXT_WEIGHT: usize = 4;
/// The weight of a JSON object beside its text, if it may be non-empty: a B-tree leaf as it is allocated. An object
/// that is parsed into a struct takes less.
const OBJECT_WEIGHT: usize = 640;
/// The same of a JSON array, which has room for four items.
const LIST_WEIGHT: usize = 128;
/// The same of one more item or member: twice its slot in an array, or its part of a leaf.
const NEXT_WEIGHT: usize = 128;
/// Lists of which only sums are kept (`member_cluster/nodes.rs`) weigh as much as their text: nodes and pods contain
/// hundreds of objects that are not parsed. The API of a cluster may be below a path.
const SUMMED_LISTS: [&str; 2] = ["/api/v1/nodes", "/api/v1/pods"];

/// Limits everything that a client of one cluster is answered.
#[derive(Clone, Debug, Default)]
pub(crate) struct ResponseLimits {
    /// The weight of all pages that are being read.
    pages: Arc<AtomicUsize>,
    /// The weight of all objects that are being read, beyond their common part.
    large: Arc<AtomicUsize>,
}

impl ResponseLimits {
    fn of(&self, uri: &Uri, status: StatusCode) -> Meter {
        let has = |name: &str| uri.query().unwrap_or_default().split('&').any(|pair| pair.starts_with(name));
        // An error is read as a whole, even in place of a watch.
        let is_error = status.is_client_error() || status.is_server_error();
        if has("watch=") && !is_error {
            return Meter::Watch(self.object());
        }
        if has("limit=") {
            let text_alone = !is_error && SUMMED_LISTS.iter().any(|list| uri.path().ends_with(list));
            let weigher = JsonWeigher { text_alone, ..JsonWeigher::default() };
            return Meter::Page { read: 0, all: Arc::clone(&self.pages), weigher };
        }
        Meter::Answer(self.object())
    }

    fn object(&self) -> ObjectMeter {
        ObjectMeter { read: 0, large: 0, all: Arc::clone(&self.large), weigher: JsonWeigher::default() }
    }
}

impl<S> Layer<S> for ResponseLimits {
    type Service = LimitedService<S>;

    fn layer(&self, inner: S) -> LimitedService<S> {
        LimitedService { inner, limits: self.clone() }
    }
}

/// A service with limited responses.
#[derive(Clone, Debug)]
pub(crate) struct LimitedService<S> {
    inner: S,
    limits: ResponseLimits,
}

impl<S, B> Service<Request<RequestBody>> for LimitedService<S>
where
    S: Service<Request<RequestBody>, Response = Response<B>>,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    B: Send + 'static,
{
    type Response = Response<LimitedBody<B>>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Self::Response, S::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<RequestBody>) -> Self::Future {
        let (uri, limits) = (request.uri().clone(), self.limits.clone());
        let answering = self.inner.call(request);
        Box::pin(async move {
            let response = answering.await?;
            let meter = limits.of(&uri, response.status());
            Ok(response.map(|inner| LimitedBody { inner, meter }))
        })
    }
}

/// A body that fails when it has become too large.
#[derive(Debug)]
pub(crate) struct LimitedBody<B> {
    inner: B,
    meter: Meter,
}

impl<B> Body for LimitedBody<B>
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

/// Measures one answer.
#[derive(Debug)]
enum Meter {
    Answer(ObjectMeter),
    Page { read: usize, all: Arc<AtomicUsize>, weigher: JsonWeigher },
    Watch(ObjectMeter),
}

/// Measures one object.
#[derive(Debug)]
struct ObjectMeter {
    read: usize,
    /// The weight beyond the common part, which counts with that of others.
    large: usize,
    all: Arc<AtomicUsize>,
    weigher: JsonWeigher,
}

impl ObjectMeter {
    fn set(&mut self, read: usize, what: &'static str) -> Result<(), TooLarge> {
        let large = read.saturating_sub(COMMON_MAX);
        let more = large.saturating_sub(self.large);
        let all = self.all.fetch_add(more, Ordering::Relaxed).saturating_add(more);
        self.all.fetch_sub(self.large.saturating_sub(large), Ordering::Relaxed);
        (self.read, self.large) = (read, large);
        if read > OBJECT_MAX {
            return Err(TooLarge { what, mib: OBJECT_MAX / MIB });
        }
        if more > 0 && all > LARGE_MAX {
            return Err(TooLarge { what: "what is large in answers", mib: LARGE_MAX / MIB });
        }
        Ok(())
    }
}

impl Drop for ObjectMeter {
    fn drop(&mut self) {
        self.all.fetch_sub(self.large, Ordering::Relaxed);
    }
}

impl Meter {
    fn pass(&mut self, frame: Frame<Bytes>) -> Result<Frame<Bytes>, BoxError> {
        if let Some(data) = frame.data_ref() {
            self.count(data)?;
        }
        Ok(frame)
    }

    fn count(&mut self, data: &[u8]) -> Result<(), TooLarge> {
        match self {
            Self::Answer(object) => {
                let more = object.weigher.weigh(data);
                object.set(object.read.saturating_add(more), "an answer")
            }
            Self::Page { read, all, weigher } => {
                let more = weigher.weigh(data);
                *read = read.saturating_add(more);
                let all = all.fetch_add(more, Ordering::Relaxed).saturating_add(more);
                // A large page does not take the room of small ones.
                if all > PAGES_MAX && *read > COMMON_MAX {
                    return Err(TooLarge { what: "the pages of lists", mib: PAGES_MAX / MIB });
                }
                Ok(())
            }
            Self::Watch(event) => {
                let mut rest = data.rsplit(|byte| *byte == b'\n');
                let last = rest.next().unwrap_or_default();
                // A newline ends the event that was begun before.
                let before = if rest.next().is_some() {
                    event.weigher = JsonWeigher::default();
                    0
                } else {
                    event.read
                };
                let more = event.weigher.weigh(last);
                event.set(before.saturating_add(more), "an event of a watch")
            }
        }
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        if let Self::Page { read, all, .. } = self {
            all.fetch_sub(*read, Ordering::Relaxed);
        }
    }
}

/// The position of the next byte.
#[derive(Clone, Copy, Debug, Default)]
enum JsonPosition {
    #[default]
    Structure,
    Text,
    /// In a string, after a backslash.
    Escape,
}

/// Weighs JSON as it is received, by what it may become in memory. Braces within strings do not count.
#[derive(Clone, Copy, Debug, Default)]
struct JsonWeigher {
    position: JsonPosition,
    /// The last byte outside of strings that is not whitespace.
    last: u8,
    /// An object has begun that is the value of a member: it takes nothing if it is empty.
    opened: bool,
    /// Only the text is weighed.
    text_alone: bool,
}

impl JsonWeigher {
    /// The weight of the text, its objects and its arrays.
    fn weigh(&mut self, data: &[u8]) -> usize {
        let text = data.len().saturating_mul(TEXT_WEIGHT);
        if self.text_alone {
            return text;
        }
        data.iter().fold(text, |weight, byte| weight.saturating_add(self.beside(*byte)))
    }

    fn beside(&mut self, byte: u8) -> usize {
        self.position = match (self.position, byte) {
            (JsonPosition::Text, b'\\') => JsonPosition::Escape,
            (JsonPosition::Text, b'"') => JsonPosition::Structure,
            (JsonPosition::Text | JsonPosition::Escape, _) => JsonPosition::Text,
            (JsonPosition::Structure, byte) if byte.is_ascii_whitespace() => JsonPosition::Structure,
            (JsonPosition::Structure, byte) => return self.of_structure(byte),
        };
        0
    }

    fn of_structure(&mut self, byte: u8) -> usize {
        let is_filled = std::mem::take(&mut self.opened) && byte != b'}';
        let before = if is_filled { OBJECT_WEIGHT } else { 0 };
        let own = match byte {
            b'{' if self.last == b':' => {
                self.opened = true;
                0
            }
            b'{' => OBJECT_WEIGHT,
            b'[' => LIST_WEIGHT,
            b',' => NEXT_WEIGHT,
            _ => 0,
        };
        if byte == b'"' {
            self.position = JsonPosition::Text;
        }
        self.last = byte;
        before.saturating_add(own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{CallFailure, chain, is_too_large};
    use futures_util::{StreamExt as _, stream};
    use http_body_util::StreamBody;
    use kube::Client;
    use kube::client::ClientBuilder;
    use serde_json::Value;
    use std::convert::Infallible;
    use std::pin::pin;

    /// Says to every request the same, so often.
    fn client(status: u16, said: &'static [u8], times: usize) -> Client {
        let service = tower::service_fn(move |_: Request<RequestBody>| {
            let frames = std::iter::repeat_n(said, times);
            let frames = frames.map(|said| Ok::<_, Infallible>(Frame::data(Bytes::from_static(said))));
            std::future::ready(Response::builder().status(status).body(StreamBody::new(stream::iter(frames))))
        });
        ClientBuilder::new(service, "default").with_layer(&ResponseLimits::default()).build()
    }

    fn get(path: &str) -> Request<Vec<u8>> {
        Request::get(path).body(Vec::new()).unwrap()
    }

    async fn read(client: &Client, path: &str) -> Result<usize, String> {
        let answer = client.request_text(get(path)).await;
        answer.map(|text| text.len()).map_err(|error| CallFailure::from(error).to_string())
    }

    async fn watched(client: &Client) -> Result<usize, kube::Error> {
        let events = client.request_events::<Value>(get("/api/v1/namespaces?&watch=true")).await?;
        let (mut events, mut count) = (pin!(events), 0);
        while let Some(event) = events.next().await {
            event?;
            count += 1;
        }
        Ok(count)
    }

    /// A text that weighs so much.
    fn text(weight: usize) -> Vec<u8> {
        vec![b' '; weight / TEXT_WEIGHT]
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
            assert!(failure.starts_with("no answer") && failure.contains("72 MiB"), "{failure}");
            let failure = read(&without_end, PAGE).await.unwrap_err();
            assert!(failure.contains("the pages of lists of the cluster may be 96 MiB"), "{failure}");
        }
        assert_eq!(read(&client(200, TEXT, 288), OBJECT).await, Ok(OBJECT_MAX / TEXT_WEIGHT));
    }

    #[tokio::test]
    async fn pages_count_while_they_are_read() {
        let lists = client(200, TEXT, 300);
        for _ in 0..3 {
            assert_eq!(read(&lists, PAGE).await, Ok(300 * TEXT.len()));
        }
        let limits = ResponseLimits::default();
        let uri: Uri = PAGE.parse().unwrap();
        let [mut one, mut other] = [(); 2].map(|()| limits.of(&uri, StatusCode::OK));
        let half = text(PAGES_MAX / 2);
        assert_eq!((one.count(&half), other.count(&half)), (Ok(()), Ok(())));
        assert!(other.count(b" ").is_err(), "together they are too much");
        let mut small = limits.of(&uri, StatusCode::OK);
        assert_eq!(small.count(&text(COMMON_MAX)), Ok(()), "it has a share of its own");
        assert!(small.count(b" ").is_err());
        drop((one, small));
        assert_eq!(other.count(b" "), Ok(()));
    }

    #[tokio::test]
    async fn small_objects_count_as_what_they_become() {
        let objects = client(200, b"{},{},{},{},{},{},{},{},", 13_000);
        let lists = client(200, b"[0],[0],[0],[0],[0],[0],[0],[0],", 40_000);
        let members = client(200, br#""a":0,"b":0,"c":0,"d":0,"e":0,"f":0,"g":0,"h":0,"#, 70_000);
        for small in [objects, lists, members] {
            assert!(read(&small, OBJECT).await.is_err());
            assert!(read(&small, PAGE).await.is_ok());
        }
    }

    #[test]
    fn what_is_summed_counts_as_its_text() {
        let objects = vec![b'{'; MIB];
        for (path, status, is_read) in [
            ("/api/v1/pods?limit=500&fieldSelector=status.phase", StatusCode::OK, true),
            ("/k8s/clusters/c/api/v1/nodes?limit=500", StatusCode::OK, true),
            ("/api/v1/pods?limit=500", StatusCode::FORBIDDEN, false),
            ("/api/v1/pods", StatusCode::OK, false),
            ("/api/v1/namespaces/web/pods?limit=500", StatusCode::OK, false),
            ("/api/v1/resourcequotas?limit=500", StatusCode::OK, false),
        ] {
            let mut meter = ResponseLimits::default().of(&path.parse().unwrap(), status);
            assert_eq!(meter.count(&objects).is_ok(), is_read, "{path} {status}");
        }
        let mut meter =
            ResponseLimits::default().of(&"/api/v1/pods?limit=500".parse().unwrap(), StatusCode::OK);
        assert!(meter.count(&vec![b'{'; PAGES_MAX / TEXT_WEIGHT + 1]).is_err(), "its text has a bound");
    }

    #[test]
    fn what_stands_in_a_text_is_no_object() {
        let weigh = |parts: &[&str]| {
            let mut weigher = JsonWeigher::default();
            parts.iter().map(|part| weigher.weigh(part.as_bytes())).sum::<usize>()
        };
        let beside = |text: &str| weigh(&[text]) - TEXT_WEIGHT * text.len();
        for (text, weight) in [
            (r#"{"a{{":"{\"{\\\\","b":{}}"#, OBJECT_WEIGHT + NEXT_WEIGHT),
            ("[[],[{}]]", 3 * LIST_WEIGHT + NEXT_WEIGHT + OBJECT_WEIGHT),
            (r#"{"a" : { } , "b" : { "c" : 0 } }"#, 2 * OBJECT_WEIGHT + NEXT_WEIGHT),
            (r#"{"a":{"b":{"c":{}}}}"#, 3 * OBJECT_WEIGHT),
            (r#""[,{:\"[,{""#, 0),
        ] {
            assert_eq!(beside(text), weight, "{text}");
            for at in 0..text.len() {
                let (begin, end) = text.split_at(at);
                assert_eq!(weigh(&[begin, end]), weigh(&[text]), "wherever it is cut: {begin}");
            }
        }
    }

    #[tokio::test]
    async fn what_is_too_much_is_told_from_other_failures() {
        let without_end = client(200, TEXT, ENDLESS);
        for path in [OBJECT, PAGE] {
            let failure = without_end.request_text(get(path)).await.unwrap_err();
            assert!(is_too_large(&failure), "{failure}");
        }
        let events =
            without_end.request_events::<Value>(get("/api/v1/namespaces?&watch=true")).await.unwrap();
        let failure = pin!(events).next().await.unwrap().unwrap_err();
        assert!(is_too_large(&failure), "{failure}");
        let failure = client(403, b"{}", 1).request_text(get(PAGE)).await.unwrap_err();
        assert!(!is_too_large(&failure), "{failure}");
    }

    #[tokio::test]
    async fn a_watch_goes_on_for_ever_and_none_of_its_events_does() {
        const EVENT: &[u8] = b"{\"type\":\"ADDED\",\"object\":{}}\n{\"type\":\"ADDED\",\"object\":{}}\n";
        assert_eq!(watched(&client(200, EVENT, 50_000)).await.ok(), Some(100_000));
        let failure = watched(&client(200, TEXT, ENDLESS)).await.unwrap_err();
        let text = chain(&failure);
        assert!(text.contains("an event of a watch of the cluster may be 72 MiB"), "{text}");
        assert!(is_too_large(&failure), "{failure:?}");
        let failure = watched(&client(500, EVENT, ENDLESS)).await.unwrap_err();
        assert!(chain(&failure).contains("an answer of the cluster"), "{failure:?}");
        let failure = watched(&client(200, b"{\"type\":1}\n", 1)).await.unwrap_err();
        assert!(!is_too_large(&failure), "{failure:?}");
    }

    /// The storage takes a binding of 1.5 MiB, and it comes as JSON.
    #[tokio::test]
    async fn the_largest_object_that_a_storage_takes_is_read() {
        let subject = br#"{"kind":"User","apiGroup":"rbac.authorization.k8s.io","name":"a"},"#;
        let subjects = subject.repeat(58_000);
        let whole =
            [&br#"{"type":"ADDED","object":{"subjects":["#[..], &subjects[..subjects.len() - 1], b"]}}\n"];
        let event: &'static [u8] = Box::leak(whole.concat().into_boxed_slice());
        assert!(JsonWeigher::default().weigh(event) > COMMON_MAX);
        assert_eq!(watched(&client(200, event, 3)).await.ok(), Some(3));
    }

    #[tokio::test]
    async fn large_objects_count_together_and_others_have_their_own_share() {
        let limits = ResponseLimits::default();
        let uri: Uri = OBJECT.parse().unwrap();
        let [mut one, mut two, mut three] = [(); 3].map(|()| limits.of(&uri, StatusCode::OK));
        let (common, large, largest) = (text(COMMON_MAX), text(2 * COMMON_MAX), text(OBJECT_MAX));
        assert_eq!((one.count(&largest), two.count(&large)), (Ok(()), Ok(())));
        assert_eq!(three.count(&common), Ok(()));
        assert!(three.count(b" ").is_err(), "together they are too much");
        drop(one);
        assert_eq!(three.count(b" "), Ok(()));
        let mut event = limits.of(&"/api/v1/namespaces?watch=true".parse().unwrap(), StatusCode::OK);
        assert_eq!(event.count(&large), Ok(()));
        assert_eq!(event.count(b"\n"), Ok(()));
        assert_eq!(limits.large.load(Ordering::Relaxed), COMMON_MAX + 2 * TEXT_WEIGHT, "it has ended");
    }
}

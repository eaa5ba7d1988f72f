//! A proxy that can cut or stall a connection on the client's side, while the server's backend goes on.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

pub(crate) struct Proxy {
    pub(crate) url: String,
    cut: Arc<Mutex<CancellationToken>>,
    refusing: Arc<AtomicBool>,
    muting: Arc<AtomicBool>,
    stall: Arc<Stall>,
    only: AllowedApplication,
    closed: CancellationToken,
}

/// The only application whose new connections are allowed; `None` allows all.
type AllowedApplication = Arc<Mutex<Option<&'static str>>>;

/// Whether the next batch is sent to the server, and its answer withheld from the client.
#[derive(Default)]
struct Stall {
    wanted: AtomicBool,
    begun: CancellationToken,
}

impl Proxy {
    /// A proxy in front of the server at this URL.
    pub(crate) async fn start(url: &str) -> Self {
        let (head, tail) = url.split_once("127.0.0.1:").unwrap();
        let (port, rest) = tail.split_once('/').unwrap();
        let server = format!("127.0.0.1:{port}");
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let own = listener.local_addr().unwrap().port();
        let proxy = Self {
            url: format!("{head}127.0.0.1:{own}/{rest}"),
            cut: Arc::default(),
            refusing: Arc::default(),
            muting: Arc::default(),
            stall: Arc::default(),
            only: Arc::default(),
            closed: CancellationToken::new(),
        };
        let (cut, closed) = (Arc::clone(&proxy.cut), proxy.closed.clone());
        let only = Arc::clone(&proxy.only);
        let (refusing, stall) = (Arc::clone(&proxy.refusing), Arc::clone(&proxy.stall));
        let muting = Arc::clone(&proxy.muting);
        tokio::spawn(async move {
            while let Some(Ok((client, _))) = closed.run_until_cancelled(listener.accept()).await {
                if refusing.load(Ordering::SeqCst) {
                    continue;
                }
                let token = cut.lock().unwrap().clone();
                let Ok(server) = TcpStream::connect(&server).await else { continue };
                let (from_client, to_client) = client.into_split();
                let (from_server, to_server) = server.into_split();
                // Whoever copies to the server keeps the server's half open after a cut.
                let (stall_too, only) = (Arc::clone(&stall), Arc::clone(&only));
                let (muting, muted) = (Arc::clone(&muting), Arc::new(AtomicBool::new(false)));
                let mute = Mute { wanted: muting, begun: Arc::clone(&muted) };
                let direction = Direction::Server { keep: closed.clone(), stall: stall_too, only, mute };
                tokio::spawn(copy(from_client, to_server, token.clone(), direction));
                let direction = Direction::Client { stall: Arc::clone(&stall), muted };
                tokio::spawn(copy(from_server, to_client, token, direction));
            }
        });
        proxy
    }

    /// Ends all connections for their clients. The server does not notice.
    pub(crate) fn cut(&self) {
        let mut cut = self.cut.lock().unwrap();
        cut.cancel();
        *cut = CancellationToken::new();
    }

    /// Sends the next batch to the server, and withholds its answer from the client.
    pub(crate) fn stall_next_batch(&self) {
        self.stall.wanted.store(true, Ordering::SeqCst);
    }

    /// Waits until that batch was sent.
    pub(crate) async fn stalled(&self) {
        self.stall.begun.cancelled().await;
    }

    /// Whether a new connection of the writer gets no answer from its first statement on, which registers the kinds.
    pub(crate) fn mute_openings(&self, mute: bool) {
        self.muting.store(mute, Ordering::SeqCst);
    }

    /// Whether new connections are refused.
    pub(crate) fn refuse(&self, refuse: bool) {
        self.refusing.store(refuse, Ordering::SeqCst);
    }

    /// From now on only this application may open new connections; with `None` all may.
    pub(crate) fn allow_only(&self, only: Option<&'static str>) {
        *self.only.lock().unwrap() = only;
    }

    /// Closes the connections to the server, too.
    pub(crate) fn close(&self) {
        self.closed.cancel();
    }
}

/// Whether a connection's client is to get no answers, and whether it gets none.
struct Mute {
    wanted: Arc<AtomicBool>,
    begun: Arc<AtomicBool>,
}

enum Direction {
    Server { keep: CancellationToken, stall: Arc<Stall>, only: AllowedApplication, mute: Mute },
    Client { stall: Arc<Stall>, muted: Arc<AtomicBool> },
}

async fn copy(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, cut: CancellationToken, direction: Direction) {
    let mut buffer = vec![0; 65536];
    let mut prepared = false;
    loop {
        let Some(read) = cut.run_until_cancelled(from.read(&mut buffer)).await else {
            drop(from);
            if let Direction::Server { keep, .. } = direction {
                keep.cancelled().await;
            }
            return;
        };
        let Ok(count @ 1..) = read else { return };
        let chunk = &buffer[..count];
        match &direction {
            // a statement is parsed in one message and bound in a later one, which begins with a B
            Direction::Server { stall, only, mute, .. } => {
                let holds = |text: &str| chunk.windows(text.len()).any(|part| part == text.as_bytes());
                if only.lock().unwrap().is_some_and(|name| holds("application_name") && !holds(name)) {
                    return;
                }
                if mute.wanted.load(Ordering::SeqCst) && holds("INSERT INTO kinds") {
                    mute.begun.store(true, Ordering::SeqCst);
                }
                if prepared && chunk[0] == b'B' && stall.wanted.load(Ordering::SeqCst) {
                    stall.begun.cancel();
                }
                prepared |= chunk.windows(12).any(|text| text == b"apply_batch_");
            }
            Direction::Client { stall, muted } => {
                if stall.begun.is_cancelled() || muted.load(Ordering::SeqCst) {
                    cut.cancelled().await;
                    return;
                }
            }
        }
        if to.write_all(chunk).await.is_err() {
            return;
        }
    }
}

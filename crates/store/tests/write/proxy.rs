//! A connection that can be cut on the client's side while the server's backend goes on.

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
    closed: CancellationToken,
}

impl Proxy {
    /// Stands before the server of this URL.
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
            closed: CancellationToken::new(),
        };
        let (cut, closed) = (Arc::clone(&proxy.cut), proxy.closed.clone());
        let refusing = Arc::clone(&proxy.refusing);
        tokio::spawn(async move {
            while let Some(Ok((client, _))) = closed.run_until_cancelled(listener.accept()).await {
                if refusing.load(Ordering::SeqCst) {
                    continue;
                }
                let token = cut.lock().unwrap().clone();
                let server = TcpStream::connect(&server).await.unwrap();
                let (from_client, to_client) = client.into_split();
                let (from_server, to_server) = server.into_split();
                // Whoever copies to the server keeps the server's half open after a cut.
                tokio::spawn(copy(from_client, to_server, token.clone(), Some(closed.clone())));
                tokio::spawn(copy(from_server, to_client, token, None));
            }
        });
        proxy
    }

    /// Ends all connections for their clients; the server is told nothing.
    pub(crate) fn cut(&self) {
        let mut cut = self.cut.lock().unwrap();
        cut.cancel();
        *cut = CancellationToken::new();
    }

    /// Whether whoever comes is turned away.
    pub(crate) fn refuse(&self, refuse: bool) {
        self.refusing.store(refuse, Ordering::SeqCst);
    }

    /// Lets go of the server's ends, too.
    pub(crate) fn close(&self) {
        self.closed.cancel();
    }
}

async fn copy(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    cut: CancellationToken,
    keep: Option<CancellationToken>,
) {
    let mut buffer = vec![0; 65536];
    loop {
        let read = cut.run_until_cancelled(from.read(&mut buffer)).await;
        match read {
            Some(Ok(0) | Err(_)) => return,
            Some(Ok(count)) => {
                if to.write_all(&buffer[..count]).await.is_err() {
                    return;
                }
            }
            None => {
                drop(from);
                if let Some(keep) = keep {
                    keep.cancelled().await;
                }
                return;
            }
        }
    }
}

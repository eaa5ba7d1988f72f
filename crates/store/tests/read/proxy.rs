//! A way to the database that a test can cut, and lay to another one.

use crate::fixture::PATIENCE;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    way: Arc<Mutex<Way>>,
    accepting: JoinHandle<()>,
}

struct Way {
    target: Option<String>,
    cut: CancellationToken,
}

impl Proxy {
    /// To `host:port`.
    pub(crate) async fn new(target: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let way = Way { target: Some(target.to_owned()), cut: CancellationToken::new() };
        let way = Arc::new(Mutex::new(way));
        let accepting = tokio::spawn({
            let way = Arc::clone(&way);
            async move {
                while let Ok((client, _)) = listener.accept().await {
                    let (target, cut) = {
                        let way = way.lock().unwrap();
                        (way.target.clone(), way.cut.clone())
                    };
                    tokio::spawn(async move { cut.run_until_cancelled_owned(carry(client, target)).await });
                }
            }
        });
        Self { address, way, accepting }
    }

    /// Cuts all connections; new ones go to `target`, or nowhere.
    pub(crate) fn lead_to(&self, target: Option<&str>) {
        let mut way = self.way.lock().unwrap();
        way.target = target.map(str::to_owned);
        std::mem::replace(&mut way.cut, CancellationToken::new()).cancel();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn carry(mut client: TcpStream, target: Option<String>) {
    let Some(target) = target else { return };
    let server = tokio::time::timeout(PATIENCE, TcpStream::connect(target)).await;
    if let Ok(Ok(mut server)) = server {
        let _end = copy_bidirectional(&mut client, &mut server).await;
    }
}

/// `host:port` of a database's URL, and the URL with another one.
pub(crate) fn host(url: &str) -> &str {
    let (_, rest) = url.split_once('@').unwrap();
    rest.split_once('/').unwrap().0
}

pub(crate) fn through(url: &str, address: SocketAddr) -> String {
    url.replace(host(url), &address.to_string())
}

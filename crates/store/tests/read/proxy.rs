//! A proxy to the database that a test can cut, and redirect to another server.

use crate::fixture::WAIT_MAX;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    route: Arc<Mutex<Route>>,
    accepting: JoinHandle<()>,
}

struct Route {
    target: Option<String>,
    cut: CancellationToken,
    frozen: CancellationToken,
}

impl Proxy {
    /// A proxy to `host:port`.
    pub(crate) async fn new(target: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (cut, frozen) = (CancellationToken::new(), CancellationToken::new());
        let route = Route { target: Some(target.to_owned()), cut, frozen };
        let route = Arc::new(Mutex::new(route));
        let accepting = tokio::spawn({
            let route = Arc::clone(&route);
            async move {
                while let Ok((client, _)) = listener.accept().await {
                    let (target, cut, frozen) = {
                        let route = route.lock().unwrap();
                        (route.target.clone(), route.cut.clone(), route.frozen.clone())
                    };
                    let forwarding = forward(client, target, frozen);
                    tokio::spawn(async move { cut.run_until_cancelled_owned(forwarding).await });
                }
            }
        });
        Self { address, route, accepting }
    }

    /// Cuts all connections. New ones go to `target`, or nowhere.
    pub(crate) fn redirect(&self, target: Option<&str>) {
        let mut route = self.route.lock().unwrap();
        route.target = target.map(str::to_owned);
        std::mem::replace(&mut route.cut, CancellationToken::new()).cancel();
    }

    /// Nothing passes through the connections that are open now, and none of them is closed.
    pub(crate) fn freeze(&self) {
        let mut route = self.route.lock().unwrap();
        std::mem::replace(&mut route.frozen, CancellationToken::new()).cancel();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn forward(mut client: TcpStream, target: Option<String>, frozen: CancellationToken) {
    let Some(target) = target else { return };
    let server = tokio::time::timeout(WAIT_MAX, TcpStream::connect(target)).await;
    if let Ok(Ok(mut server)) = server {
        tokio::select! {
            _end = copy_bidirectional(&mut client, &mut server) => {}
            () = frozen.cancelled() => std::future::pending().await,
        }
    }
}

/// The `host:port` of a database's URL.
pub(crate) fn host(url: &str) -> &str {
    let (_, rest) = url.split_once('@').unwrap();
    rest.split_once('/').unwrap().0
}

/// The URL with another address.
pub(crate) fn through(url: &str, address: SocketAddr) -> String {
    url.replace(host(url), &address.to_string())
}

//! A network between client and server that can be cut.

use anyhow::Result;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

/// Forwards a port of 127.0.0.1 to a server until dropped.
#[derive(Debug)]
pub(crate) struct TestProxy {
    pub(crate) port: u16,
    whole: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl TestProxy {
    pub(crate) async fn new(server: String) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let port = listener.local_addr()?.port();
        let (whole, state) = watch::channel(true);
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                let mut state = state.clone();
                let server = server.clone();
                connections.spawn(async move {
                    tokio::select! {
                        () = forward(client, &server) => {}
                        _ = state.wait_for(|whole| !whole) => {}
                    }
                });
            }
        });
        Ok(Self { port, whole, task })
    }

    /// Ends all connections; new ones end at once, too.
    pub(crate) fn cut(&self) {
        self.whole.send_replace(false);
    }

    pub(crate) fn mend(&self) {
        self.whole.send_replace(true);
    }
}

impl Drop for TestProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn forward(mut client: TcpStream, server: &str) {
    if let Ok(mut backend) = TcpStream::connect(server).await {
        // How a connection ends is seen by its two ends.
        drop(copy_bidirectional(&mut client, &mut backend).await);
    }
}

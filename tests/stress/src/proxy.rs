//! A proxy between the replicas and PostgreSQL. Now and then it drops an answer and closes the connection, so that
//! the client does not know whether its commit happened.

use crate::faults::Cuts;
use anyhow::Result;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Bytes read at a time.
const CHUNK_BYTES: usize = 64 * 1024;

/// Listens on a port of 127.0.0.1 and forwards to `server` until the runtime ends; tells the port.
pub(crate) async fn start(server: String, cuts: Arc<Cuts>) -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let port = listener.local_addr()?.port();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let (server, cuts) = (server.clone(), Arc::clone(&cuts));
            tokio::spawn(async move {
                if let Ok(backend) = TcpStream::connect(server).await {
                    forward(client, backend, &cuts).await;
                }
            });
        }
    });
    Ok(port)
}

/// Ends when either side does, or when an answer is cut.
async fn forward(client: TcpStream, backend: TcpStream, cuts: &Cuts) {
    drop((client.set_nodelay(true), backend.set_nodelay(true)));
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_backend, mut to_backend) = backend.into_split();
    let questions = async {
        let mut buffer = vec![0; CHUNK_BYTES];
        while let Ok(read @ 1..) = from_client.read(&mut buffer).await {
            let bytes = buffer.get(..read).unwrap_or_default();
            if to_backend.write_all(bytes).await.is_err() {
                return;
            }
        }
    };
    let answers = async {
        let mut buffer = vec![0; CHUNK_BYTES];
        while let Ok(read @ 1..) = from_backend.read(&mut buffer).await {
            let bytes = buffer.get(..read).unwrap_or_default();
            if cuts.strikes() || to_client.write_all(bytes).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = questions => {}
        () = answers => {}
    }
}

//! The network of one node: a process that forwards connections. While it is stopped, the node runs but no data passes
//! in either direction; when it is killed, every connection breaks.

use anyhow::{Context, Result};
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::thread;

const CHUNK_BYTES: usize = 64 * 1024;

/// Forwards one port of 127.0.0.1 to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forward {
    pub from: u16,
    pub to: u16,
}

/// Reads `PORT:PORT`.
pub fn way(text: &str) -> Result<Forward, String> {
    let parse = || {
        let (from, to) = text.split_once(':')?;
        Some(Forward { from: from.parse().ok()?, to: to.parse().ok()? })
    };
    parse().ok_or_else(|| format!("{text:?} is not PORT:PORT"))
}

/// Forwards until the process ends.
pub fn run(ways: &[Forward]) -> Result<()> {
    let mut threads = Vec::new();
    for way in ways.iter().copied() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, way.from))
            .with_context(|| format!("listen on port {}", way.from))?;
        threads.push(thread::spawn(move || {
            for client in listener.incoming().flatten() {
                thread::spawn(move || join(&client, way.to));
            }
        }));
    }
    for thread in threads {
        drop(thread.join());
    }
    Ok(())
}

/// Copies both directions until each has ended.
fn join(client: &TcpStream, to: u16) {
    let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, to)) else { return };
    drop((client.set_nodelay(true), server.set_nodelay(true)));
    thread::scope(|scope| {
        scope.spawn(|| copy(client, &server));
        copy(&server, client);
    });
}

fn copy(mut from: &TcpStream, mut to: &TcpStream) {
    let mut buffer = vec![0; CHUNK_BYTES];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        if to.write_all(buffer.get(..read).unwrap_or_default()).is_err() {
            break;
        }
    }
    // Whoever reads there is told; the other direction goes on by itself.
    drop((to.shutdown(Shutdown::Write), from.shutdown(Shutdown::Read)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_is_two_ports() {
        assert_eq!(way("1:2"), Ok(Forward { from: 1, to: 2 }));
        for wrong in ["", "1", "1:", "x:2", "1:70000"] {
            assert!(way(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn bytes_go_both_ways_until_one_side_ends() {
        let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let to = server.local_addr().unwrap().port();
        let (near, far) = {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            (near, listener.accept().unwrap().0)
        };
        let cable = thread::spawn(move || join(&far, to));
        let mut answering = server.accept().unwrap().0;
        (&near).write_all(b"ask").unwrap();
        let mut asked = [0; 3];
        answering.read_exact(&mut asked).unwrap();
        answering.write_all(b"answer").unwrap();
        drop(answering);
        let mut answer = Vec::new();
        (&near).read_to_end(&mut answer).unwrap();
        assert_eq!((&asked[..], &answer[..]), (&b"ask"[..], &b"answer"[..]));
        drop(near);
        cable.join().unwrap();
    }
}

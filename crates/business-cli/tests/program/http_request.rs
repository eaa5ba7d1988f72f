use std::io::{BufRead, BufReader, Read};
use std::net::TcpStream;

/// An HTTP request that a fake server has read.
pub(crate) struct HttpRequest {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) body: Vec<u8>,
}

impl HttpRequest {
    /// Reads the next request; `None` if the connection is closed.
    pub(crate) fn read(stream: &TcpStream) -> Option<Self> {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let (mut line, mut length) = (String::new(), 0);
        if reader.read_line(&mut line).unwrap_or_default() == 0 {
            return None;
        }
        loop {
            let mut header = String::new();
            reader.read_line(&mut header).unwrap();
            if let Some(value) = header.to_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if header.trim().is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let mut words = line.split(' ');
        let (method, target) = (words.next().unwrap().to_owned(), words.next().unwrap());
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        Some(Self { method, path: path.to_owned(), query: query.to_owned(), body })
    }
}

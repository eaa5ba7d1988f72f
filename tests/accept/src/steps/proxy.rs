//! Plain HTTP through `kubectl proxy`: any method, any content type, any body.

use super::background::Background;
use anyhow::{Context, Result};
use instance::kubectl::Kubectl;
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::process::Stdio;
use std::time::Duration;

const ANSWER: Duration = Duration::from_secs(90);

/// A running `kubectl proxy`, ended when dropped.
#[derive(Debug)]
pub(super) struct Proxy {
    _process: Background,
    port: u16,
}

/// What came back.
#[derive(Clone, Debug)]
pub(super) struct ProxyAnswer {
    pub(super) code: u16,
    pub(super) headers: String,
    pub(super) body: String,
}

impl ProxyAnswer {
    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }
}

impl Proxy {
    pub(super) fn start(kubectl: &Kubectl) -> Result<Self> {
        let mut command = kubectl.command(&["proxy", "--port=0"]);
        let mut process = Background::spawn(command.stdout(Stdio::piped()).stderr(Stdio::null()))?;
        let mut line = String::new();
        let out = process.child()?.stdout.take().context("no output")?;
        BufReader::new(out).read_line(&mut line)?;
        let port = line.trim().rsplit(':').next().and_then(|port| port.parse().ok());
        let port = port.with_context(|| format!("kubectl proxy says {line:?}"))?;
        Ok(Self { _process: process, port })
    }

    pub(super) fn send(&self, method: &str, path: &str, kind: &str, body: &[u8]) -> Result<ProxyAnswer> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port))?;
        stream.set_read_timeout(Some(ANSWER))?;
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.0\r\nHost: localhost\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n"
        );
        stream.write_all(head.as_bytes())?;
        // A refused body may close the connection before all of it is written; the answer counts.
        let written = stream.write_all(body);
        let mut answer = Vec::new();
        let read = stream.read_to_end(&mut answer);
        let text = String::from_utf8_lossy(&answer);
        let code = text.split(' ').nth(1).and_then(|code| code.parse().ok());
        let Some(code) = code else {
            written.and(read.map(drop)).context("send a request")?;
            anyhow::bail!("no HTTP answer: {text}")
        };
        let (headers, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        Ok(ProxyAnswer { code, headers: headers.to_lowercase(), body: body.to_owned() })
    }

    pub(super) fn post(&self, path: &str, object: &Value) -> Result<ProxyAnswer> {
        self.send("POST", path, "application/json", object.to_string().as_bytes())
    }

    pub(super) fn get(&self, path: &str) -> Result<ProxyAnswer> {
        self.send("GET", path, "application/json", b"")
    }
}

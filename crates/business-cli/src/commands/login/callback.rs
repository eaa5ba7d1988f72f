use crate::failure::Failure;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use openidconnect::url::Url;
use std::net::Ipv4Addr;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// How long a browser may take to say what it wants.
const REQUEST: Duration = Duration::from_secs(10);
const REQUEST_BYTES_MAX: usize = 16 << 10;
/// Connections at once: browsers open some that they do not use.
const CONNECTIONS_MAX: usize = 16;
const PATH: &str = "/callback";
/// The code is not exchanged yet, and the server not asked.
const DONE: &str = "Go on in the terminal: it says whether you are logged in. This page can be closed.";
/// What to do if the browser did not come back.
const NOBODY_CAME: &str = "call it again: the address above is of this call alone; give yourself longer with --timeout; where the \
                           provider's page refuses the address: --listen-port, the port that it knows";
const NOT_DONE: &str = "The login did not work; the terminal says why. This page can be closed.";

/// A listener on this machine that waits for one browser.
pub(super) struct Callback {
    listener: TcpListener,
    port: u16,
}

/// What the browser brings from the provider.
enum Brought {
    Code(String),
    Refusal(String),
}

impl Callback {
    pub(super) async fn listen(port: u16) -> Result<Self, Failure> {
        let failed = |error: std::io::Error| Failure::Stopped(format!("listen on 127.0.0.1:{port}: {error}"));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.map_err(failed)?;
        let port = listener.local_addr().map_err(failed)?.port();
        Ok(Self { listener, port })
    }

    pub(super) fn url(&self) -> String {
        format!("http://127.0.0.1:{}{PATH}", self.port)
    }

    /// Waits this long for the browser that comes from this login.
    pub(super) async fn code(self, state: &str, after: Duration) -> Result<String, Failure> {
        let brought = tokio::time::timeout(after, self.brought(state)).await;
        match brought {
            Err(_elapsed) => {
                let what = "somebody logs in".to_owned();
                let last = "no browser has come back".to_owned();
                Err(Failure::TimedOut { what, after, last }.advised_late(NOBODY_CAME))
            }
            Ok(Err(failure)) => Err(failure),
            Ok(Ok(Brought::Code(code))) => Ok(code),
            Ok(Ok(Brought::Refusal(why))) => Err(Failure::Stopped(format!("the provider refused: {why}"))),
        }
    }

    async fn brought(&self, state: &str) -> Result<Brought, Failure> {
        let mut browsers = FuturesUnordered::new();
        loop {
            tokio::select! {
                accepted = self.listener.accept(), if browsers.len() < CONNECTIONS_MAX => {
                    let (stream, _) = accepted.map_err(|error| Failure::Stopped(error.to_string()))?;
                    browsers.push(tokio::time::timeout(REQUEST, served(stream, state)));
                }
                Some(done) = browsers.next() => {
                    if let Ok(Some(brought)) = done {
                        return Ok(brought);
                    }
                }
            }
        }
    }
}

/// What a browser has brought, if it comes from this login.
async fn served(mut stream: TcpStream, state: &str) -> Option<Brought> {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        if head.len() > REQUEST_BYTES_MAX || stream.read_buf(&mut head).await.ok()? == 0 {
            return None;
        }
    }
    let text = String::from_utf8_lossy(&head);
    let target = text.strip_prefix("GET ").and_then(|rest| rest.split(' ').next());
    let brought = target.and_then(|target| brought(target, state));
    let (code, page) = match &brought {
        Some(Brought::Code(_)) => ("200 OK", DONE),
        Some(Brought::Refusal(_)) => ("200 OK", NOT_DONE),
        None => ("404 Not Found", "There is nothing here."),
    };
    let answer = format!(
        "HTTP/1.1 {code}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\nCache-Control: no-store\r\n\
         Connection: close\r\n\r\n{page}",
        page.len()
    );
    let _gone = stream.write_all(answer.as_bytes()).await;
    let _gone = stream.shutdown().await;
    brought
}

/// Only what bears the state of this login is of it.
fn brought(target: &str, state: &str) -> Option<Brought> {
    let url = Url::parse("http://127.0.0.1").ok()?.join(target).ok()?;
    let value =
        |name: &str| url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned());
    if url.path() != PATH || value("state").as_deref() != Some(state) {
        return None;
    }
    if let Some(error) = value("error") {
        let more = value("error_description").map_or_else(String::new, |text| format!(": {text}"));
        return Some(Brought::Refusal(error + &more));
    }
    value("code").map(Brought::Code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_browser_of_this_login_is_heard() {
        assert!(
            matches!(brought("/callback?code=c%2B1&state=s", "s"), Some(Brought::Code(code)) if code == "c+1")
        );
        for other in
            ["/callback?code=c&state=t", "/callback?code=c", "/?code=c&state=s", "/callback?state=s", ""]
        {
            assert!(brought(other, "s").is_none(), "{other}");
        }
        let refused = brought("/callback?error=access_denied&error_description=no&state=s", "s");
        assert!(matches!(refused, Some(Brought::Refusal(why)) if why == "access_denied: no"));
    }

    #[tokio::test]
    async fn browsers_may_leave_when_there_are_as_many_as_are_heard_at_once() {
        let callback = Callback::listen(0).await.unwrap();
        let port = callback.port;
        let heard = tokio::spawn(async move { callback.code("s", REQUEST).await });
        let mut browsers = Vec::new();
        for _ in 0..CONNECTIONS_MAX {
            browsers.push(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap());
        }
        // They are taken in their order: when the next one's turn comes, there are as many.
        drop(browsers.pop());
        let mut one = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap();
        one.write_all(b"GET /callback?code=c&state=s HTTP/1.1\r\n\r\n").await.unwrap();
        assert_eq!(heard.await.unwrap().unwrap(), "c");
    }
}

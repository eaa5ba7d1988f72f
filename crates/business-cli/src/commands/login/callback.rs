use crate::failure::Failure;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use openidconnect::url::Url;
use std::net::Ipv4Addr;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// Timeout of reading a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
const REQUEST_BYTES_MAX: usize = 16 << 10;
/// Concurrent connections: browsers open some that they do not use.
const CONNECTIONS_MAX: usize = 16;
const PATH: &str = "/callback";
/// The page before the code is exchanged, so it does not promise success.
const DONE: &str = "Go on in the terminal: it says whether you are logged in. This page can be closed.";
/// Advice if the browser did not come back.
const NOBODY_CAME: &str = "call it again: the address above is of this call alone; give yourself longer with --timeout; where the \
                           provider's page refuses the address: --listen-port, the port that it knows";
const NOT_DONE: &str = "The login did not work; the terminal says why. This page can be closed.";

/// A listener on this machine for the redirect of one login.
pub(super) struct Callback {
    listener: TcpListener,
    port: u16,
}

/// The result of a login at the provider.
enum CallbackResult {
    Code(String),
    Refusal(String),
}

impl Callback {
    pub(super) async fn listen(port: u16) -> Result<Self, Failure> {
        let failed = |error: std::io::Error| Failure::Other(format!("listen on 127.0.0.1:{port}: {error}"));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.map_err(failed)?;
        let port = listener.local_addr().map_err(failed)?.port();
        Ok(Self { listener, port })
    }

    pub(super) fn url(&self) -> String {
        format!("http://127.0.0.1:{}{PATH}", self.port)
    }

    /// Waits this long for the redirect of this login.
    pub(super) async fn code(self, state: &str, after: Duration) -> Result<String, Failure> {
        let result = tokio::time::timeout(after, self.accept(state)).await;
        match result {
            Err(_elapsed) => {
                let what = "somebody logs in".to_owned();
                let last = "no browser has come back".to_owned();
                Err(Failure::TimedOut { what, after, last }.with_advice_on_timeout(NOBODY_CAME))
            }
            Ok(Err(failure)) => Err(failure),
            Ok(Ok(CallbackResult::Code(code))) => Ok(code),
            Ok(Ok(CallbackResult::Refusal(why))) => {
                Err(Failure::Other(format!("the provider refused: {why}")))
            }
        }
    }

    async fn accept(&self, state: &str) -> Result<CallbackResult, Failure> {
        let mut browsers = FuturesUnordered::new();
        loop {
            tokio::select! {
                accepted = self.listener.accept(), if browsers.len() < CONNECTIONS_MAX => {
                    let (stream, _) = accepted.map_err(|error| Failure::Other(error.to_string()))?;
                    browsers.push(tokio::time::timeout(REQUEST_TIMEOUT, serve_browser(stream, state)));
                }
                Some(done) = browsers.next() => {
                    if let Ok(Some(result)) = done {
                        return Ok(result);
                    }
                }
            }
        }
    }
}

/// Answers a browser. Returns the result if the request belongs to this login.
async fn serve_browser(mut stream: TcpStream, state: &str) -> Option<CallbackResult> {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        if head.len() > REQUEST_BYTES_MAX || stream.read_buf(&mut head).await.ok()? == 0 {
            return None;
        }
    }
    let text = String::from_utf8_lossy(&head);
    let target = text.strip_prefix("GET ").and_then(|rest| rest.split(' ').next());
    let result = target.and_then(|target| parse_callback(target, state));
    let (code, page) = match &result {
        Some(CallbackResult::Code(_)) => ("200 OK", DONE),
        Some(CallbackResult::Refusal(_)) => ("200 OK", NOT_DONE),
        None => ("404 Not Found", "There is nothing here."),
    };
    let answer = format!(
        "HTTP/1.1 {code}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\nCache-Control: no-store\r\n\
         Connection: close\r\n\r\n{page}",
        page.len()
    );
    let _gone = stream.write_all(answer.as_bytes()).await;
    let _gone = stream.shutdown().await;
    result
}

/// Parses a request's target; `None` if it has not the state of this login.
fn parse_callback(target: &str, state: &str) -> Option<CallbackResult> {
    let url = Url::parse("http://127.0.0.1").ok()?.join(target).ok()?;
    let value =
        |name: &str| url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned());
    if url.path() != PATH || value("state").as_deref() != Some(state) {
        return None;
    }
    if let Some(error) = value("error") {
        let more = value("error_description").map_or_else(String::new, |text| format!(": {text}"));
        return Some(CallbackResult::Refusal(error + &more));
    }
    value("code").map(CallbackResult::Code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_browser_of_this_login_is_heard() {
        assert!(
            matches!(parse_callback("/callback?code=c%2B1&state=s", "s"), Some(CallbackResult::Code(code)) if code == "c+1")
        );
        for other in
            ["/callback?code=c&state=t", "/callback?code=c", "/?code=c&state=s", "/callback?state=s", ""]
        {
            assert!(parse_callback(other, "s").is_none(), "{other}");
        }
        let refused = parse_callback("/callback?error=access_denied&error_description=no&state=s", "s");
        assert!(matches!(refused, Some(CallbackResult::Refusal(why)) if why == "access_denied: no"));
    }

    #[tokio::test]
    async fn browsers_may_leave_when_there_are_as_many_as_are_heard_at_once() {
        let callback = Callback::listen(0).await.unwrap();
        let port = callback.port;
        let heard = tokio::spawn(async move { callback.code("s", REQUEST_TIMEOUT).await });
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

//! Bearer tokens among the subprotocols of a WebSocket: a web page can set no other header of the handshake
//! (`k8s.io/apiserver/pkg/authentication/request/websocket`).

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use http::header::{CONNECTION, SEC_WEBSOCKET_PROTOCOL, UPGRADE};
use http::{HeaderMap, HeaderValue};

/// The prefix of a token, which follows as base64url without padding.
const PREFIX: &str = "base64url.bearer.authorization.k8s.io.";

/// Whether a client requests an upgrade to a WebSocket.
pub(crate) fn is_websocket(headers: &HeaderMap) -> bool {
    headers.get(UPGRADE).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket"))
        && headers
            .get_all(CONNECTION)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .any(|value| value.to_ascii_lowercase().contains("upgrade"))
}

/// The subprotocols that a client offers.
pub(crate) fn offered(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let values = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim).filter(|protocol| !protocol.is_empty())
}

/// Removes a token from the subprotocols. At least one other must remain, for the server to select.
pub(super) fn take(headers: &mut HeaderMap) -> Option<Result<String, &'static str>> {
    if !headers.contains_key(UPGRADE) || !is_websocket(headers) {
        return None;
    }
    let (tokens, others): (Vec<&str>, Vec<&str>) =
        offered(headers).partition(|protocol| protocol.starts_with(PREFIX));
    let token = match tokens.as_slice() {
        [] => return None,
        [one] => token(one),
        _ => Err("several tokens among the subprotocols"),
    };
    let token = if others.is_empty() { Err("no subprotocol beside the token") } else { token };
    match HeaderValue::try_from(others.join(",")) {
        Ok(rest) if !rest.is_empty() => headers.insert(SEC_WEBSOCKET_PROTOCOL, rest),
        _ => headers.remove(SEC_WEBSOCKET_PROTOCOL),
    };
    // An empty token counts as none.
    Some(token).filter(|token| token.as_ref().map_or(true, |token| !token.is_empty()))
}

fn token(protocol: &str) -> Result<String, &'static str> {
    let encoded = protocol.strip_prefix(PREFIX).unwrap_or_default();
    let bytes = BASE64_URL_SAFE_NO_PAD
        .decode(encoded)
        .map_err(|_undecodable| "the token among the subprotocols is no base64url")?;
    String::from_utf8(bytes).map_err(|_not_utf8| "the token among the subprotocols is no text")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_taken_from_among_the_subprotocols() {
        // "let me in"
        let token = "base64url.bearer.authorization.k8s.io.bGV0IG1lIGlu";
        let two = format!("{token}, {token}, json.k8s.io");
        for (value, found, rest) in [
            (format!("{token}, json.k8s.io"), Some(Ok("let me in")), Some("json.k8s.io")),
            (format!("a,{token},b"), Some(Ok("let me in")), Some("a,b")),
            ("json.k8s.io".to_owned(), None, Some("json.k8s.io")),
            (token.to_owned(), Some(Err("no subprotocol beside the token")), None),
            (two, Some(Err("several tokens among the subprotocols")), Some("json.k8s.io")),
            (
                format!("{PREFIX}%%, json.k8s.io"),
                Some(Err("the token among the subprotocols is no base64url")),
                Some("json.k8s.io"),
            ),
            (
                format!("{PREFIX}_w, json.k8s.io"),
                Some(Err("the token among the subprotocols is no text")),
                Some("json.k8s.io"),
            ),
            (format!("{PREFIX}, json.k8s.io"), None, Some("json.k8s.io")),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(UPGRADE, HeaderValue::from_static("WebSocket"));
            headers.insert(CONNECTION, HeaderValue::from_static("keep-alive, Upgrade"));
            headers.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::try_from(&value).unwrap());
            let taken = take(&mut headers);
            assert_eq!(taken.as_ref().map(|t| t.as_deref().map_err(|why| *why)), found, "{value}");
            let left = headers.get(SEC_WEBSOCKET_PROTOCOL).map(|value| value.to_str().unwrap());
            assert_eq!(left, rest, "{value}");
        }
    }

    #[test]
    fn a_request_that_stays_http_has_no_such_token() {
        let mut headers = HeaderMap::new();
        let value = "base64url.bearer.authorization.k8s.io.bGV0IG1lIGlu, x";
        headers.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(value));
        assert_eq!(take(&mut headers), None);
        headers.insert(UPGRADE, HeaderValue::from_static("h2c"));
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        assert_eq!(take(&mut headers), None);
    }
}

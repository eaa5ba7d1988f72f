//! The few pages that the server makes itself. Nothing in them is a script.

use axum::body::Body;
use http::{HeaderValue, Response, StatusCode, header};

/// A page that goes on to another one of ours. A redirect would not do: a browser that comes from another site's redirect
/// does not send Strict cookies with the next one either.
pub(super) fn going_on(path: &str) -> Response<Body> {
    let path = escaped(path);
    page(
        StatusCode::OK,
        &format!(
            "<meta http-equiv=\"refresh\" content=\"0;url={path}\"><title>Console</title>\
             <p><a href=\"{path}\">Go on to the console</a></p>"
        ),
    )
}

/// A page that says what went wrong, and how to begin again.
pub(super) fn failure(code: StatusCode, why: &str) -> Response<Body> {
    let why = escaped(why);
    page(
        code,
        &format!(
            "<title>Not logged in</title><h1>You are not logged in</h1><p>{why}</p>\
             <p><a href=\"/console/\">Begin again</a></p>"
        ),
    )
}

fn page(code: StatusCode, content: &str) -> Response<Body> {
    let text = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\">{content}"
    );
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            _ => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_a_text() {
        assert_eq!(escaped("<a href='x'>&\""), "&lt;a href=&#39;x&#39;&gt;&amp;&quot;");
    }
}

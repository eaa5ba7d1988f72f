//! The few pages that the server makes itself. Nothing in them is a script.

use super::words::{self, Language, Text};
use axum::body::Body;
use http::{HeaderValue, Response, StatusCode, header};

/// The file with their style sheet: the policy allows no styles in the page itself.
pub(super) const STYLE: &str = "server.css";
const STYLED: &str = "<link rel=\"stylesheet\" href=\"/console/server.css\">";

/// A page that goes on to another one of ours. A redirect would not do: a browser that comes from another site's redirect
/// does not send Strict cookies with the next one either. It waits for no style.
pub(super) fn going_on(path: &str, language: Language) -> Response<Body> {
    let path = escaped(path);
    let refresh = format!("<meta http-equiv=\"refresh\" content=\"0;url={path}\">");
    let link = link(&path, words::GO_ON, language);
    page(StatusCode::OK, language, words::CONSOLE, &refresh, &link)
}

/// A page that says what went wrong, what programs say of that, and how to begin again on the way to a page.
pub(super) fn failure(
    code: StatusCode,
    why: Text,
    detail: &str,
    back: &str,
    language: Language,
) -> Response<Body> {
    let title = words::NOT_LOGGED_IN;
    let (head, why) = (title.said_in(language), why.said_in(language));
    let detail = match detail {
        "" => String::new(),
        detail => format!("<p class=\"detail\" lang=\"en\">{}</p>", escaped(detail)),
    };
    let again = link(&escaped(back), words::BEGIN_AGAIN, language);
    page(code, language, title, STYLED, &format!("<h1>{head}</h1><p>{why}</p>{detail}{again}"))
}

/// A page instead of one that is not there.
pub(super) fn not_built(language: Language) -> Response<Body> {
    let (title, how) = (words::NOT_BUILT, words::HOW_TO_BUILD.said_in(language));
    let content = format!("<h1>{}</h1><p>{how}</p>", title.said_in(language));
    page(StatusCode::NOT_FOUND, language, title, STYLED, &content)
}

/// Their style sheet.
pub(super) fn style() -> Response<Body> {
    let mut response = Response::new(Body::from(include_str!("html.css")));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/css; charset=utf-8"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

fn link(path: &str, text: Text, language: Language) -> String {
    format!("<p><a href=\"{path}\">{}</a></p>", text.said_in(language))
}

fn page(code: StatusCode, language: Language, title: Text, head: &str, content: &str) -> Response<Body> {
    let (tag, title) = (language.tag(), title.said_in(language));
    let text = format!(
        "<!doctype html><html lang=\"{tag}\"><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">{head}<title>{title}</title>\
         <main>{content}</main>"
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

    #[test]
    fn the_style_is_where_the_pages_say() {
        assert!(STYLED.contains(&format!("\"{}/{STYLE}\"", super::super::ROOT)), "{STYLED}");
    }
}

//! The few pages that the server generates itself. They have no scripts.

use super::messages::{self, Language, LocalizedText};
use axum::body::Body;
use http::{HeaderValue, Response, StatusCode, header};

/// The path of their style sheet, as the policy allows no inline styles.
pub(super) const STYLE: &str = "server.css";
const STYLE_LINK: &str = "<link rel=\"stylesheet\" href=\"/console/server.css\">";

/// A page that goes on to another one of ours. After a redirect from another site, a browser sends no Strict cookies
/// with further redirects either, so this is a page. It has no style sheet to wait for.
pub(super) fn redirect_page(path: &str, language: Language) -> Response<Body> {
    let path = escape(path);
    let refresh = format!("<meta http-equiv=\"refresh\" content=\"0;url={path}\">");
    let link = link(&path, messages::GO_ON, language);
    page(StatusCode::OK, language, messages::CONSOLE, &refresh, &link)
}

/// A page that says why a login failed, with details and a link to the page `back`, which begins again.
pub(super) fn failure_page(
    code: StatusCode,
    why: LocalizedText,
    detail: &str,
    back: &str,
    language: Language,
) -> Response<Body> {
    let title = messages::NOT_LOGGED_IN;
    let (head, why) = (title.in_language(language), why.in_language(language));
    let detail = match detail {
        "" => String::new(),
        detail => format!("<p class=\"detail\" lang=\"en\">{}</p>", escape(detail)),
    };
    let again = link(&escape(back), messages::BEGIN_AGAIN, language);
    page(code, language, title, STYLE_LINK, &format!("<h1>{head}</h1><p>{why}</p>{detail}{again}"))
}

/// The page of a program that was built without the console's files.
pub(super) fn not_built_page(language: Language) -> Response<Body> {
    let (title, how) = (messages::NOT_BUILT, messages::HOW_TO_BUILD.in_language(language));
    let content = format!("<h1>{}</h1><p>{how}</p>", title.in_language(language));
    page(StatusCode::NOT_FOUND, language, title, STYLE_LINK, &content)
}

/// Their style sheet.
pub(super) fn style_sheet() -> Response<Body> {
    let mut response = Response::new(Body::from(include_str!("html.css")));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/css; charset=utf-8"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

fn link(path: &str, text: LocalizedText, language: Language) -> String {
    format!("<p><a href=\"{path}\">{}</a></p>", text.in_language(language))
}

fn page(
    code: StatusCode,
    language: Language,
    title: LocalizedText,
    head: &str,
    content: &str,
) -> Response<Body> {
    let (tag, title) = (language.tag(), title.in_language(language));
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

fn escape(text: &str) -> String {
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
        assert_eq!(escape("<a href='x'>&\""), "&lt;a href=&#39;x&#39;&gt;&amp;&quot;");
    }

    #[test]
    fn the_style_is_where_the_pages_say() {
        assert!(STYLE_LINK.contains(&format!("\"{}/{STYLE}\"", super::super::ROOT)), "{STYLE_LINK}");
    }
}

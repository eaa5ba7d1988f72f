//! The page itself: static files, the same for everybody.

use super::words::{Language, weighed};
use super::{ROOT, html};
use apiserver::response::status_response;
use axum::body::Body;
use console_page::{FILES, PageFile};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Response, header};
use meta::status::Status;
use std::borrow::Cow;
use std::path::{Component, Path, PathBuf};

const INDEX: &str = "index.html";
/// Below it a file's name has the hash of what is in it.
const HASHED: &str = "assets/";

/// Where the files are.
#[derive(Clone, Debug)]
pub(super) enum Files {
    /// In the program.
    Embedded,
    /// In a directory, for those who write them. Beside a file may be others of its name with `.br` and `.gz` appended.
    Directory(PathBuf),
}

/// A file in the form that was chosen.
struct Chosen {
    bytes: Cow<'static, [u8]>,
    encoding: Option<&'static str>,
}

impl Files {
    /// Answers at any path below the console's root: a path that is no file is a place in the page.
    pub(super) async fn answer(&self, request: &Parts) -> Response<Body> {
        let path = request.uri.path().strip_prefix(ROOT).unwrap_or_default().trim_start_matches('/');
        if path == html::STYLE {
            return html::style();
        }
        let accepted = Accepted::of(&request.headers);
        if let Some(chosen) = self.find(path, accepted).await {
            return file(path, chosen);
        }
        if path.starts_with(HASHED) {
            return status_response(&Status::no_such_path(), &request.headers, &request.uri);
        }
        match self.find(INDEX, accepted).await {
            Some(chosen) => file(INDEX, chosen),
            None => html::not_built(Language::of(&request.headers)),
        }
    }

    async fn find(&self, path: &str, accepted: Accepted) -> Option<Chosen> {
        match self {
            Self::Embedded => {
                let found = FILES.binary_search_by(|file| file.path.cmp(path)).ok()?;
                FILES.get(found).map(|file| choose(file, accepted))
            }
            Self::Directory(directory) => read(directory, path, accepted).await,
        }
    }
}

fn choose(file: &PageFile, accepted: Accepted) -> Chosen {
    let (bytes, encoding) = match accepted {
        Accepted { brotli: true, .. } if file.brotli.len() < file.plain.len() => (file.brotli, Some("br")),
        Accepted { gzip: true, .. } if file.gzip.len() < file.plain.len() => (file.gzip, Some("gzip")),
        _ => (file.plain, None),
    };
    Chosen { bytes: Cow::Borrowed(bytes), encoding }
}

async fn read(directory: &Path, path: &str, accepted: Accepted) -> Option<Chosen> {
    let is_below = Path::new(path).components().all(|part| matches!(part, Component::Normal(_)));
    if path.is_empty() || !is_below {
        return None;
    }
    for (is_accepted, ending, encoding) in
        [(accepted.brotli, ".br", Some("br")), (accepted.gzip, ".gz", Some("gzip")), (true, "", None)]
    {
        if is_accepted && let Ok(bytes) = tokio::fs::read(directory.join(format!("{path}{ending}"))).await {
            return Some(Chosen { bytes: Cow::Owned(bytes), encoding });
        }
    }
    None
}

fn file(path: &str, chosen: Chosen) -> Response<Body> {
    let caching = if path.starts_with(HASHED) { "public, max-age=31536000, immutable" } else { "no-cache" };
    let body = match chosen.bytes {
        Cow::Borrowed(bytes) => Body::from(bytes),
        Cow::Owned(bytes) => Body::from(bytes),
    };
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type(path)));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(caching));
    headers.insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    if let Some(encoding) = chosen.encoding {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static(encoding));
    }
    response
}

fn content_type(path: &str) -> &'static str {
    match path.rsplit_once('.').map(|(_, ending)| ending) {
        Some("html") => "text/html; charset=utf-8",
        Some("js" | "mjs") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("json" | "map") => "application/json",
        Some("webmanifest") => "application/manifest+json",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("ico") => "image/x-icon",
        Some("woff2") => "font/woff2",
        Some("txt") => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

/// Which compressed forms a client takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Accepted {
    brotli: bool,
    gzip: bool,
}

impl Accepted {
    fn of(headers: &HeaderMap) -> Self {
        let mut accepted = Self::default();
        for (coding, weight) in weighed(headers, header::ACCEPT_ENCODING) {
            match coding {
                "br" => accepted.brotli = weight > 0.0,
                "gzip" => accepted.gzip = weight > 0.0,
                _ => {}
            }
        }
        accepted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_takes_what_it_says() {
        let of = |text: &'static str| {
            Accepted::of(&HeaderMap::from_iter([(header::ACCEPT_ENCODING, HeaderValue::from_static(text))]))
        };
        assert_eq!(of("gzip, deflate, br;q=0.8"), Accepted { brotli: true, gzip: true });
        assert_eq!(of("gzip;q=0, br; q=0.0"), Accepted::default());
        assert_eq!(of("identity"), Accepted::default());
    }

    #[tokio::test]
    async fn nothing_outside_of_the_directory_is_read() {
        let files = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        assert!(read(&files, "lib.rs", Accepted::default()).await.is_some());
        for path in ["../Cargo.toml", "/etc/hostname", "console/../../Cargo.toml", "", "."] {
            assert!(read(&files, path, Accepted::default()).await.is_none(), "{path}");
        }
    }
}

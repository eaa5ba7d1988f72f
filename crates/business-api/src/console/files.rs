//! The static files of the page, the same for everybody.

use super::messages::{Language, weighted_values};
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
/// Names below it contain the hash of the file's content.
const HASHED_PREFIX: &str = "assets/";

/// Where the files are.
#[derive(Clone, Debug)]
pub(super) enum Files {
    /// Embedded in the program.
    Embedded,
    /// In a directory, for development. Beside a file there may be compressed ones with `.br` and `.gz` appended.
    Directory(PathBuf),
}

/// A file in the selected encoding.
struct EncodedFile {
    bytes: Cow<'static, [u8]>,
    encoding: Option<&'static str>,
}

impl Files {
    /// Answers any path below the console's root. A path that is no file is a route of the page, and gets the index.
    pub(super) async fn answer(&self, request: &Parts) -> Response<Body> {
        let path = request.uri.path().strip_prefix(ROOT).unwrap_or_default().trim_start_matches('/');
        if path == html::STYLE {
            return html::style_sheet();
        }
        let accepted = AcceptedEncodings::of(&request.headers);
        if let Some(chosen) = self.find(path, accepted).await {
            return file_response(path, chosen);
        }
        if path.starts_with(HASHED_PREFIX) {
            return status_response(&Status::no_such_path(), &request.headers, &request.uri);
        }
        match self.find(INDEX, accepted).await {
            Some(chosen) => file_response(INDEX, chosen),
            None => html::not_built_page(Language::of(&request.headers)),
        }
    }

    async fn find(&self, path: &str, accepted: AcceptedEncodings) -> Option<EncodedFile> {
        match self {
            Self::Embedded => {
                let found = FILES.binary_search_by(|file| file.path.cmp(path)).ok()?;
                FILES.get(found).map(|file| select_encoding(file, accepted))
            }
            Self::Directory(directory) => read(directory, path, accepted).await,
        }
    }
}

fn select_encoding(file: &PageFile, accepted: AcceptedEncodings) -> EncodedFile {
    let (bytes, encoding) = match accepted {
        AcceptedEncodings { brotli: true, .. } if file.brotli.len() < file.plain.len() => {
            (file.brotli, Some("br"))
        }
        AcceptedEncodings { gzip: true, .. } if file.gzip.len() < file.plain.len() => {
            (file.gzip, Some("gzip"))
        }
        _ => (file.plain, None),
    };
    EncodedFile { bytes: Cow::Borrowed(bytes), encoding }
}

async fn read(directory: &Path, path: &str, accepted: AcceptedEncodings) -> Option<EncodedFile> {
    let is_below = Path::new(path).components().all(|part| matches!(part, Component::Normal(_)));
    if path.is_empty() || !is_below {
        return None;
    }
    for (is_accepted, ending, encoding) in
        [(accepted.brotli, ".br", Some("br")), (accepted.gzip, ".gz", Some("gzip")), (true, "", None)]
    {
        if is_accepted && let Ok(bytes) = tokio::fs::read(directory.join(format!("{path}{ending}"))).await {
            return Some(EncodedFile { bytes: Cow::Owned(bytes), encoding });
        }
    }
    None
}

fn file_response(path: &str, chosen: EncodedFile) -> Response<Body> {
    let caching =
        if path.starts_with(HASHED_PREFIX) { "public, max-age=31536000, immutable" } else { "no-cache" };
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

/// The content encodings that a client accepts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct AcceptedEncodings {
    brotli: bool,
    gzip: bool,
}

impl AcceptedEncodings {
    fn of(headers: &HeaderMap) -> Self {
        let mut accepted = Self::default();
        for (coding, weight) in weighted_values(headers, header::ACCEPT_ENCODING) {
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
            AcceptedEncodings::of(&HeaderMap::from_iter([(
                header::ACCEPT_ENCODING,
                HeaderValue::from_static(text),
            )]))
        };
        assert_eq!(of("gzip, deflate, br;q=0.8"), AcceptedEncodings { brotli: true, gzip: true });
        assert_eq!(of("gzip;q=0, br; q=0.0"), AcceptedEncodings::default());
        assert_eq!(of("identity"), AcceptedEncodings::default());
    }

    #[tokio::test]
    async fn nothing_outside_of_the_directory_is_read() {
        let files = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        assert!(read(&files, "lib.rs", AcceptedEncodings::default()).await.is_some());
        for path in ["../Cargo.toml", "/etc/hostname", "console/../../Cargo.toml", "", "."] {
            assert!(read(&files, path, AcceptedEncodings::default()).await.is_none(), "{path}");
        }
    }
}

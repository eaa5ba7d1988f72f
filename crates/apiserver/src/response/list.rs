//! Lists are written in chunks from the bytes in the cache: a large list is never whole in memory.

use crate::response::render::Envelope;
use crate::response::{Media, Renderer, Style, body_response, bytes_response, rendered_response};
use axum::body::Body;
use bytes::{BufMut, Bytes, BytesMut};
use flate2::Compression;
use flate2::write::GzEncoder;
use futures_util::stream;
use http::header::{CONTENT_ENCODING, HeaderValue, VARY};
use http::{Response, StatusCode};
use meta::status::ListMeta;
use std::convert::Infallible;
use std::io::Write;
use std::sync::Arc;
use store::Entry;
use tokio::task::yield_now;

/// Least bytes of a chunk, except for the last one.
const CHUNK_BYTES: usize = 64 * 1024;
/// Up to this size a list is one piece with a Content-Length, and is indented for people; above it, it may be
/// compressed.
const SINGLE_CHUNK_BYTES_MAX: usize = 128 * 1024;

/// Answers with a list of entries.
pub(crate) async fn list_response(
    renderer: Renderer,
    meta: &ListMeta,
    items: Vec<Arc<Entry>>,
    style: &Style,
) -> Response<Body> {
    let Envelope { before, separator, after } = renderer.envelope(meta, &items).await;
    let mut chunks = Chunks {
        before: Some(before),
        separator,
        after: Some(after),
        items: items.into_iter(),
        renderer,
        is_first: true,
    };
    let mut start = BytesMut::new();
    let media = style.accepted.media;
    while start.len() <= SINGLE_CHUNK_BYTES_MAX {
        match chunks.next() {
            Some(chunk) => start.put_slice(&chunk),
            None if media == Media::Yaml => {
                return bytes_response(StatusCode::OK, media.content_type(), start.freeze());
            }
            None => return rendered_response(StatusCode::OK, start, style),
        }
    }
    let last = Some(media.end()).filter(|end| !end.is_empty()).map(Bytes::from_static);
    let rest = std::iter::once(start.freeze()).chain(chunks).chain(last);
    if !style.gzip {
        return body_response(StatusCode::OK, media.content_type(), body_of(rest));
    }
    let zipped =
        GzipChunks { chunks: Some(rest), encoder: Some(GzEncoder::new(Vec::new(), Compression::fast())) };
    let mut response = body_response(StatusCode::OK, media.content_type(), body_of(zipped));
    response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    response.headers_mut().append(VARY, HeaderValue::from_static("Accept-Encoding"));
    response
}

fn body_of(chunks: impl Iterator<Item = Bytes> + Send + 'static) -> Body {
    let stream = stream::unfold(chunks, |mut chunks| async move {
        // The next chunk needs no waiting, so other tasks get their turn here.
        yield_now().await;
        chunks.next().map(|chunk| (Ok::<_, Infallible>(chunk), chunks))
    });
    Body::from_stream(stream)
}

struct Chunks {
    /// Until it is written.
    before: Option<Bytes>,
    separator: &'static [u8],
    /// Until it is written, which is the end.
    after: Option<Bytes>,
    items: std::vec::IntoIter<Arc<Entry>>,
    renderer: Renderer,
    /// Whether the next element is the first one.
    is_first: bool,
}

impl Iterator for Chunks {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        self.after.as_ref()?;
        let mut chunk = BytesMut::with_capacity(if self.items.len() > 16 { CHUNK_BYTES } else { 4096 });
        if let Some(before) = self.before.take() {
            chunk.put_slice(&before);
        }
        while chunk.len() < CHUNK_BYTES {
            let Some(entry) = self.items.next() else {
                chunk.put_slice(&self.after.take().unwrap_or_default());
                break;
            };
            if !std::mem::replace(&mut self.is_first, false) {
                chunk.put_slice(self.separator);
            }
            self.renderer.element(&entry, &mut chunk);
        }
        Some(chunk.freeze())
    }
}

struct GzipChunks<I> {
    chunks: Option<I>,
    encoder: Option<GzEncoder<Vec<u8>>>,
}

impl<I: Iterator<Item = Bytes>> Iterator for GzipChunks<I> {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        while let Some(chunks) = &mut self.chunks {
            let encoder = self.encoder.as_mut()?;
            match chunks.next() {
                // Writing to memory does not fail.
                Some(chunk) => encoder.write_all(&chunk).ok()?,
                None => self.chunks = None,
            }
            if encoder.get_ref().len() >= CHUNK_BYTES {
                return Some(Bytes::from(std::mem::take(encoder.get_mut())));
            }
        }
        self.encoder.take()?.finish().ok().map(Bytes::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn what_is_compressed_in_pieces_comes_back_whole() {
        let source: Vec<Bytes> =
            (0..400_u32).map(|i| Bytes::from(format!("{}-{i}", "ab".repeat(500)).into_bytes())).collect();
        let plain: Vec<u8> = source.iter().flatten().copied().collect();
        let encoder = Some(GzEncoder::new(Vec::new(), Compression::fast()));
        let zipped: Vec<u8> = GzipChunks { chunks: Some(source.into_iter()), encoder }.flatten().collect();
        let mut back = Vec::new();
        flate2::read::GzDecoder::new(zipped.as_slice()).read_to_end(&mut back).unwrap();
        assert_eq!(back, plain);
    }
}

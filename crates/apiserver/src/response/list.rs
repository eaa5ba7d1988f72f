//! Lists, written in pieces out of the cache's bytes: a large list never exists as one text or message.

use crate::response::{Media, Renderer, Style, body_response, bytes_response, rendered};
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

/// Bytes of a piece.
const PIECE_BYTES: usize = 64 * 1024;
/// Up to this size a list is one piece with a Content-Length, and is indented for people; above it, it may be compressed.
const WHOLE_BYTES_MAX: usize = 128 * 1024;

/// Answers with a list of entries.
pub(crate) async fn list_response(
    renderer: Renderer,
    meta: &ListMeta,
    items: Vec<Arc<Entry>>,
    style: &Style,
) -> Response<Body> {
    let (head, between, end) = renderer.around(meta, &items).await;
    let mut pieces = Pieces {
        head: Some(head),
        between,
        end,
        items: items.into_iter(),
        renderer,
        first: true,
        done: false,
    };
    let mut start = BytesMut::new();
    let media = style.accepted.media;
    while start.len() <= WHOLE_BYTES_MAX {
        match pieces.next() {
            Some(piece) => start.put_slice(&piece),
            None if media == Media::Yaml => {
                return bytes_response(StatusCode::OK, media.content_type(), start.freeze());
            }
            None => return rendered(StatusCode::OK, start, style),
        }
    }
    let last = Some(media.end()).filter(|end| !end.is_empty()).map(Bytes::from_static);
    let rest = std::iter::once(start.freeze()).chain(pieces).chain(last);
    if !style.gzip {
        return body_response(StatusCode::OK, media.content_type(), body_of(rest));
    }
    let zipped =
        Zipped { pieces: Some(rest), encoder: Some(GzEncoder::new(Vec::new(), Compression::fast())) };
    let mut response = body_response(StatusCode::OK, media.content_type(), body_of(zipped));
    response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    response.headers_mut().append(VARY, HeaderValue::from_static("Accept-Encoding"));
    response
}

fn body_of(pieces: impl Iterator<Item = Bytes> + Send + 'static) -> Body {
    let stream = stream::unfold(pieces, |mut pieces| async move {
        // The next piece never waits for anything: others get their turn here.
        yield_now().await;
        pieces.next().map(|piece| (Ok::<_, Infallible>(piece), pieces))
    });
    Body::from_stream(stream)
}

struct Pieces {
    head: Option<Bytes>,
    between: &'static [u8],
    end: Bytes,
    items: std::vec::IntoIter<Arc<Entry>>,
    renderer: Renderer,
    first: bool,
    done: bool,
}

impl Iterator for Pieces {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        if self.done {
            return None;
        }
        let mut piece = BytesMut::with_capacity(if self.items.len() > 16 { PIECE_BYTES } else { 4096 });
        if let Some(head) = self.head.take() {
            piece.put_slice(&head);
        }
        while piece.len() < PIECE_BYTES {
            let Some(entry) = self.items.next() else {
                piece.put_slice(&self.end);
                self.done = true;
                break;
            };
            if !std::mem::replace(&mut self.first, false) {
                piece.put_slice(self.between);
            }
            self.renderer.element(&entry, &mut piece);
        }
        Some(piece.freeze())
    }
}

struct Zipped<I> {
    pieces: Option<I>,
    encoder: Option<GzEncoder<Vec<u8>>>,
}

impl<I: Iterator<Item = Bytes>> Iterator for Zipped<I> {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        while let Some(pieces) = &mut self.pieces {
            let encoder = self.encoder.as_mut()?;
            match pieces.next() {
                // Writing to memory does not fail.
                Some(piece) => encoder.write_all(&piece).ok()?,
                None => self.pieces = None,
            }
            if encoder.get_ref().len() >= PIECE_BYTES {
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
        let zipped: Vec<u8> = Zipped { pieces: Some(source.into_iter()), encoder }.flatten().collect();
        let mut back = Vec::new();
        flate2::read::GzDecoder::new(zipped.as_slice()).read_to_end(&mut back).unwrap();
        assert_eq!(back, plain);
    }
}

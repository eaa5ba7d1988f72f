//! Coalesces small writes: responses that are ready at the same time are sent in one TLS record.
//!
//! HTTP/2 flushes whenever a response is complete. Writes are committed in batches, so dozens of responses are complete
//! at nearly the same moment. Each would need a TLS record, a system call here, and a wake-up and a system call of the
//! client. So the first flush yields once to the other tasks that are ready, and the next one sends everything that has
//! been written until then.

use bytes::{Buf as _, BytesMut};
use pin_project_lite::pin_project;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The size of the buffer: one TLS record. Larger writes are not buffered.
const TLS_RECORD_BYTES: usize = 16 * 1024;

pin_project! {
    /// A stream that buffers writes, and whose flushes yield once to the scheduler.
    pub(super) struct CoalescingWriter<S> {
        #[pin]
        inner: S,
        buffer: BytesMut,
        is_enabled: bool,
        // Whether a flush has yielded already, so that the next one sends the buffer.
        has_yielded: bool,
    }
}

impl<S: AsyncWrite> CoalescingWriter<S> {
    /// Without `is_enabled`, nothing is buffered: on a connection with one response at a time there is nothing to
    /// coalesce.
    pub(super) fn new(inner: S, is_enabled: bool) -> Self {
        Self { inner, buffer: BytesMut::new(), is_enabled, has_yielded: false }
    }

    fn poll_flush_buffer(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut this = self.project();
        while !this.buffer.is_empty() {
            let sent = ready!(this.inner.as_mut().poll_write(cx, this.buffer))?;
            if sent == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            this.buffer.advance(sent);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead> AsyncRead for CoalescingWriter<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.project().inner.poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite> AsyncWrite for CoalescingWriter<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if !self.is_enabled {
            return self.project().inner.poll_write(cx, bytes);
        }
        if self.buffer.len().saturating_add(bytes.len()) > TLS_RECORD_BYTES {
            ready!(self.as_mut().poll_flush_buffer(cx))?;
        }
        if bytes.len() >= TLS_RECORD_BYTES {
            return self.project().inner.poll_write(cx, bytes);
        }
        self.project().buffer.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.buffer.is_empty() && !self.has_yielded {
            *self.project().has_yielded = true;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        ready!(self.as_mut().poll_flush_buffer(cx))?;
        let this = self.project();
        *this.has_yielded = false;
        this.inner.poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.as_mut().poll_flush_buffer(cx))?;
        self.project().inner.poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Waker;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    fn polled<T>(poll: impl FnOnce(&mut Context<'_>) -> Poll<T>) -> Poll<T> {
        poll(&mut Context::from_waker(Waker::noop()))
    }

    #[tokio::test]
    async fn what_comes_until_the_second_flush_goes_out_in_one_write() {
        let (near, mut far) = duplex(64 * 1024);
        let mut stream = CoalescingWriter::new(near, true);
        let mut seen = [0; 64];
        for (number, answer) in ["one ", "two ", "three"].into_iter().enumerate() {
            stream.write_all(answer.as_bytes()).await.unwrap();
            if number == 0 {
                assert!(polled(|cx| Pin::new(&mut stream).poll_flush(cx)).is_pending());
            }
        }
        let mut read = ReadBuf::new(&mut seen);
        assert!(
            polled(|cx| Pin::new(&mut far).poll_read(cx, &mut read)).is_pending(),
            "nothing has left yet"
        );
        stream.flush().await.unwrap();
        let length = far.read(&mut seen).await.unwrap();
        assert_eq!(&seen[..length], b"one two three");
    }

    #[tokio::test]
    async fn a_flush_ends_by_itself() {
        let (near, mut far) = duplex(64);
        let mut stream = CoalescingWriter::new(near, true);
        for _ in 0..2 {
            stream.write_all(b"answer").await.unwrap();
            stream.flush().await.unwrap();
            let mut seen = [0; 6];
            far.read_exact(&mut seen).await.unwrap();
        }
    }

    #[tokio::test]
    async fn much_does_not_wait_and_nothing_is_lost_or_turned_round() {
        let (near, mut far) = duplex(1024);
        let mut stream = CoalescingWriter::new(near, true);
        let parts = [
            vec![b'a'; 100],
            vec![b'b'; TLS_RECORD_BYTES],
            vec![b'c'; TLS_RECORD_BYTES - 1],
            vec![b'd'; 2],
            vec![b'e'; 3 * TLS_RECORD_BYTES],
        ];
        let all = parts.concat();
        let write = async {
            for part in &parts {
                stream.write_all(part).await.unwrap();
            }
            stream.shutdown().await.unwrap();
        };
        let mut seen = Vec::new();
        let ((), read) = tokio::join!(write, far.read_to_end(&mut seen));
        assert_eq!(read.unwrap(), all.len());
        assert!(seen == all);
    }

    #[tokio::test]
    async fn a_connection_with_one_answer_at_a_time_waits_for_nothing() {
        let (near, mut far) = duplex(64);
        let mut stream = CoalescingWriter::new(near, false);
        stream.write_all(b"answer").await.unwrap();
        let mut seen = [0; 6];
        far.read_exact(&mut seen).await.unwrap();
        assert_eq!(&seen, b"answer");
    }
}

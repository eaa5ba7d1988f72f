//! A connection that carries many answers at a time sends those that are ready together in one record.
//!
//! HTTP/2 flushes whenever one answer is complete. Writes are decided in batches, so dozens of answers are complete
//! at nearly the same moment, and each would be a record of TLS, a system call here, and a wake-up and another one at
//! the other end. So the first flush lets the tasks that are ready run once more, and the next one sends what has
//! come together.

use bytes::{Buf as _, BytesMut};
use pin_project_lite::pin_project;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Most bytes that are gathered: a record of TLS. More goes out at once.
const RECORD: usize = 16 * 1024;

pin_project! {
    /// A stream whose flushes wait for one turn of the scheduler.
    pub(super) struct Gathering<S> {
        #[pin]
        inner: S,
        gathered: BytesMut,
        is_on: bool,
        // A flush has waited its turn; what is gathered goes out now.
        has_waited: bool,
    }
}

impl<S: AsyncWrite> Gathering<S> {
    /// Gathers when `is_on`, else hands everything through: a connection with one answer at a time has nothing to wait for.
    pub(super) fn new(inner: S, is_on: bool) -> Self {
        Self { inner, gathered: BytesMut::new(), is_on, has_waited: false }
    }

    fn poll_send(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut this = self.project();
        while !this.gathered.is_empty() {
            let sent = ready!(this.inner.as_mut().poll_write(cx, this.gathered))?;
            if sent == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            this.gathered.advance(sent);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead> AsyncRead for Gathering<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.project().inner.poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite> AsyncWrite for Gathering<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if !self.is_on {
            return self.project().inner.poll_write(cx, bytes);
        }
        if self.gathered.len().saturating_add(bytes.len()) > RECORD {
            ready!(self.as_mut().poll_send(cx))?;
        }
        if bytes.len() >= RECORD {
            return self.project().inner.poll_write(cx, bytes);
        }
        self.project().gathered.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.gathered.is_empty() && !self.has_waited {
            *self.project().has_waited = true;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        ready!(self.as_mut().poll_send(cx))?;
        let this = self.project();
        *this.has_waited = false;
        this.inner.poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.as_mut().poll_send(cx))?;
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
        let mut stream = Gathering::new(near, true);
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
        let mut stream = Gathering::new(near, true);
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
        let mut stream = Gathering::new(near, true);
        let parts = [
            vec![b'a'; 100],
            vec![b'b'; RECORD],
            vec![b'c'; RECORD - 1],
            vec![b'd'; 2],
            vec![b'e'; 3 * RECORD],
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
        let mut stream = Gathering::new(near, false);
        stream.write_all(b"answer").await.unwrap();
        let mut seen = [0; 6];
        far.read_exact(&mut seen).await.unwrap();
        assert_eq!(&seen, b"answer");
    }
}

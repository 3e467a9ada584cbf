//! A connection that can be cut in the middle of what HTTP takes for one piece.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

const WHOLE: u8 = 0;
/// Half of what is written next goes out.
const HALF: u8 = 1;
const GONE: u8 = 2;

/// How a connection ends, shared with whoever answers over it.
#[derive(Debug, Default)]
pub(crate) struct Cut {
    writes: AtomicU8,
    resets: AtomicBool,
}

impl Cut {
    /// Lets half of the next write through and nothing after it.
    pub(crate) fn halve(&self) {
        self.writes.store(HALF, Ordering::SeqCst);
    }

    /// Makes the end of the connection a reset.
    pub(crate) fn reset(&self) {
        self.resets.store(true, Ordering::SeqCst);
    }
}

/// A stream that obeys a [`Cut`].
pub(crate) struct Line {
    stream: TcpStream,
    cut: Arc<Cut>,
}

impl Line {
    pub(crate) fn new(stream: TcpStream, cut: Arc<Cut>) -> Self {
        Self { stream, cut }
    }
}

impl AsyncRead for Line {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Line {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let state = this.cut.writes.load(Ordering::SeqCst);
        let part = match state {
            WHOLE => bytes,
            HALF => &bytes[..bytes.len().div_ceil(2)],
            _ => return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
        };
        let written = ready!(Pin::new(&mut this.stream).poll_write(cx, part))?;
        if state == HALF {
            this.cut.writes.store(GONE, Ordering::SeqCst);
        }
        Poll::Ready(Ok(written))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if self.cut.resets.load(Ordering::SeqCst) {
            // Without it the stream would be closed in order; a stream that cannot take it is gone already.
            let _ = self.stream.set_zero_linger();
        }
    }
}

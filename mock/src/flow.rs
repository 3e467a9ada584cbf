//! The body of a response on its way: piece by piece, and as far as the script lets it come.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::body::{Body, Bytes, Frame, SizeHint};
use tokio::time::{Sleep, sleep};

use crate::line::Cut;
use crate::log::{End, Ticket};

/// Time in which what was written reaches the client, before the connection is torn from under it.
const SETTLE: Duration = Duration::from_millis(25);

/// How a body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Whole,
    Close,
    Reset,
    /// In the middle of the last piece.
    HalfChunk,
    Hang,
}

/// The connection ends here, as the script wants it.
#[derive(Debug, thiserror::Error)]
#[error("the script ends the connection here")]
pub(crate) struct Severed;

/// What there is to send, and how.
#[derive(Debug)]
pub(crate) struct Sending {
    pub(crate) pieces: VecDeque<Bytes>,
    /// Announced before; chunks if absent.
    pub(crate) length: Option<u64>,
    pub(crate) pace: Duration,
    pub(crate) ending: Ending,
}

pub(crate) struct Flow {
    sending: Sending,
    pause: Option<Pin<Box<Sleep>>>,
    settled: bool,
    ticket: Ticket,
    cut: Arc<Cut>,
}

impl Flow {
    pub(crate) fn new(sending: Sending, mut ticket: Ticket, cut: Arc<Cut>) -> Self {
        let mut pause = None;
        if sending.pieces.is_empty() {
            if sending.ending == Ending::Whole {
                ticket.end(End::Answered);
            } else {
                pause = Some(Box::pin(sleep(SETTLE)));
            }
        }
        Self { sending, pause, settled: false, ticket, cut }
    }

    fn wait(&mut self, time: Duration) {
        self.pause = (!time.is_zero()).then(|| Box::pin(sleep(time)));
    }

    /// What the log and the connection get to know of a piece that is about to go out.
    fn account(&mut self, length: usize) {
        let last = self.sending.pieces.is_empty();
        let ending = self.sending.ending;
        self.ticket.sent(if last && ending == Ending::HalfChunk { length / 2 } else { length });
        match ending {
            Ending::Whole if last => self.ticket.end(End::Answered),
            Ending::HalfChunk if last => {
                self.cut.halve();
                self.ticket.end(End::Severed);
                self.wait(SETTLE);
            }
            _ if last => self.wait(SETTLE),
            _ => self.wait(self.sending.pace),
        }
    }

    fn end(&mut self) -> Poll<Option<Result<Frame<Bytes>, Severed>>> {
        match self.sending.ending {
            Ending::Whole => return Poll::Ready(None),
            // Whoever waits for it is woken by the connection alone.
            Ending::Hang => return Poll::Pending,
            Ending::Reset => self.cut.reset(),
            Ending::Close | Ending::HalfChunk => {}
        }
        self.ticket.end(End::Severed);
        Poll::Ready(Some(Err(Severed)))
    }
}

impl Body for Flow {
    type Data = Bytes;
    type Error = Severed;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Severed>>> {
        let this = self.get_mut();
        loop {
            if let Some(pause) = this.pause.as_mut() {
                ready!(pause.as_mut().poll(cx));
                this.pause = None;
            }
            // What went before must be out, or the half would be measured on more than the last piece.
            if this.sending.pieces.len() == 1 && this.sending.ending == Ending::HalfChunk && !this.settled {
                this.settled = true;
                this.wait(SETTLE);
                continue;
            }
            let Some(piece) = this.sending.pieces.pop_front() else { return this.end() };
            this.account(piece.len());
            return Poll::Ready(Some(Ok(Frame::data(piece))));
        }
    }

    fn is_end_stream(&self) -> bool {
        self.sending.pieces.is_empty() && self.sending.ending == Ending::Whole
    }

    fn size_hint(&self) -> SizeHint {
        self.sending.length.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

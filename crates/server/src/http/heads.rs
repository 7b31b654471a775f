//! Heads of requests that are larger than the buffer of a connection.
//!
//! hyper answers one with 431 and not a word more. A token with very many groups makes such a head,
//! and whoever presents it should be told. So what does not fit is read and thrown away, the
//! request is marked ([`HeadCut`]) and refused whatever it asks for, and the connection ends. It
//! needs no more memory than any other.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Sleep, sleep},
};

/// What is thrown away of one head. Nobody's token is as large.
const DISCARDED_MAX: usize = 4 * 1024 * 1024;

/// How long a client has to take the answer, which it may lose if the connection is closed while
/// it still sends.
const LINGER: Duration = Duration::from_secs(2);

/// Ends a head that was cut in a name, in a value or between two lines.
const ENDING: &[u8] = b"x:\r\n\r\n";

/// The head of a request is not complete. An extension of the request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeadCut;

/// What the two ends of a connection know of each other: the bytes below, the requests above.
#[derive(Debug, Default)]
pub(super) struct HeadState {
    /// Bytes of the head that is being read.
    bytes: AtomicUsize,
    /// Between the end of a head and the beginning of the answer, no head is read.
    is_answering: AtomicBool,
    is_cut: AtomicBool,
}

/// A connection whose heads are cut.
pub(super) struct CutHeads<S> {
    stream: S,
    max: usize,
    state: Arc<HeadState>,
    end: HeadEnd,
    discarded: usize,
    /// What the reader gets in place of the rest.
    ending: &'static [u8],
    lingering: Option<Pin<Box<Sleep>>>,
}

/// Looks for the empty line after a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HeadEnd {
    InLine,
    AfterLine,
    /// A carriage return after the end of a line.
    Returned,
}

// === impl HeadState ===

impl HeadState {
    /// Notes that a head is complete; whether it was cut.
    pub(super) fn begin_answer(&self) -> bool {
        self.is_answering.store(true, Ordering::Relaxed);
        self.is_cut.load(Ordering::Relaxed)
    }

    /// Notes that an answer has begun: what is read next is a head.
    pub(super) fn answer_begun(&self) {
        self.bytes.store(0, Ordering::Relaxed);
        self.is_answering.store(false, Ordering::Relaxed);
    }
}

// === impl HeadEnd ===

impl HeadEnd {
    /// Reads on; true at the end of the head.
    fn feed(&mut self, bytes: &[u8]) -> bool {
        for byte in bytes {
            *self = match (*self, byte) {
                (Self::AfterLine | Self::Returned, b'\n') => return true,
                (_, b'\n') => Self::AfterLine,
                (Self::AfterLine, b'\r') => Self::Returned,
                _ => Self::InLine,
            };
        }
        false
    }
}

// === impl CutHeads ===

impl<S: AsyncRead + Unpin> CutHeads<S> {
    /// Heads may have up to `max` bytes.
    pub(super) fn new(stream: S, max: usize, state: Arc<HeadState>) -> Self {
        Self {
            stream,
            max,
            state,
            end: HeadEnd::InLine,
            discarded: 0,
            ending: &[],
            lingering: None,
        }
    }

    fn is_cut(&self) -> bool {
        self.state.is_cut.load(Ordering::Relaxed)
    }

    /// Reads up to the end of a head, or as much of it as anybody may send. False at the end of
    /// the connection.
    fn poll_discard_head(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        loop {
            let mut scratch = [0; 4096];
            let mut part = ReadBuf::new(&mut scratch);
            ready!(Pin::new(&mut self.stream).poll_read(cx, &mut part))?;
            self.discarded += part.filled().len();
            if part.filled().is_empty() {
                return Poll::Ready(Ok(false));
            }
            if self.end.feed(part.filled()) || self.discarded >= DISCARDED_MAX {
                return Poll::Ready(Ok(true));
            }
        }
    }

    /// Reads until the client has closed its side, for a while.
    fn poll_linger(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let lingering = self
            .lingering
            .get_or_insert_with(|| Box::pin(sleep(LINGER)));
        if lingering.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        loop {
            let mut scratch = [0; 4096];
            let mut part = ReadBuf::new(&mut scratch);
            let read = ready!(Pin::new(&mut self.stream).poll_read(cx, &mut part));
            self.discarded += part.filled().len();
            if read.is_err() || part.filled().is_empty() || self.discarded >= 2 * DISCARDED_MAX {
                return Poll::Ready(());
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for CutHeads<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.state.is_answering.load(Ordering::Relaxed) && !this.is_cut() {
            return Pin::new(&mut this.stream).poll_read(cx, buf);
        }
        let has = this.state.bytes.load(Ordering::Relaxed);
        if has >= this.max && !this.is_cut() {
            if !ready!(this.poll_discard_head(cx))? {
                return Poll::Ready(Ok(()));
            }
            this.state.is_cut.store(true, Ordering::Relaxed);
            this.ending = ENDING;
        }
        if this.is_cut() {
            if this.ending.is_empty() {
                // There is no other request. An end would be one of the client, who waits.
                return Poll::Pending;
            }
            let (now, later) = this.ending.split_at(buf.remaining().min(this.ending.len()));
            buf.put_slice(now);
            this.ending = later;
            return Poll::Ready(Ok(()));
        }
        let room = this.max - has;
        let before = buf.filled().len();
        if buf.remaining() <= room {
            ready!(Pin::new(&mut this.stream).poll_read(cx, buf))?;
        } else {
            // Seldom: a buffer that is written to the end takes memory to the end.
            let mut part = ReadBuf::new(buf.initialize_unfilled_to(room));
            ready!(Pin::new(&mut this.stream).poll_read(cx, &mut part))?;
            let count = part.filled().len();
            buf.advance(count);
        }
        let read = &buf.filled()[before..];
        let count = read.len();
        // The last bytes say all about whether a line has just ended.
        this.end.feed(&read[count.saturating_sub(3)..]);
        this.state.bytes.store(has + count, Ordering::Relaxed);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for CutHeads<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.lingering.is_none() {
            ready!(Pin::new(&mut self.stream).poll_shutdown(cx))?;
        }
        if self.is_cut() {
            ready!(self.poll_linger(cx));
        }
        Poll::Ready(Ok(()))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    const MAX: usize = 64;

    /// What a reader gets of what a client sends, in pieces of this size; and whether it was cut.
    async fn read_head(sent: &[u8], piece: usize) -> (Vec<u8>, bool) {
        let (mut client, server) = duplex(piece);
        let state = Arc::new(HeadState::default());
        let mut server = CutHeads::new(server, MAX, Arc::clone(&state));
        let sending = async {
            let _closed = client.write_all(sent).await;
            client
        };
        let reading = async {
            let mut got = Vec::new();
            while !got.ends_with(b"\r\n\r\n") {
                if server.read_buf(&mut got).await.unwrap() == 0 {
                    break;
                }
            }
            got
        };
        let (client, got) = tokio::join!(sending, reading);
        drop(client);
        (got, state.begin_answer())
    }

    #[tokio::test]
    async fn a_head_that_fits_is_left_alone() {
        let head = b"GET / HTTP/1.1\r\nauthorization: Bearer t\r\n\r\n";
        for piece in [1, 7, 1000] {
            assert_eq!(read_head(head, piece).await, (head.to_vec(), false));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// Wherever it is cut, what is read is a head, and nothing of it is anything else.
        #[test]
        fn fuzz_a_head_is_cut_anywhere(
            before in 0_usize..40,
            value in 60_usize..9000,
            piece in 1_usize..5000,
        ) {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
            let head = format!(
                "GET / HTTP/1.1\r\na: {}\r\nauthorization: {}\r\nlast: 1\r\n\r\n",
                "b".repeat(before), "v".repeat(value)
            );
            let (got, is_cut) = runtime.block_on(read_head(head.as_bytes(), piece));
            prop_assert!(is_cut);
            prop_assert_eq!(&got[..MAX], &head.as_bytes()[..MAX]);
            prop_assert_eq!(&got[MAX..], ENDING);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_client_still_sends_does_not_lose_it_the_answer() {
        let (mut client, server) = duplex(128);
        let state = Arc::new(HeadState::default());
        let mut server = CutHeads::new(server, MAX, Arc::clone(&state));
        let head = format!("GET / HTTP/1.1\r\na: {}\r\n\r\n", "v".repeat(500));
        let sending = async {
            client.write_all(head.as_bytes()).await.unwrap();
            let mut answer = [0; 3];
            client.read_exact(&mut answer).await.unwrap();
            // More than the connection holds.
            client.write_all(&[b'b'; 1000]).await.unwrap();
            assert_eq!(&answer, b"401");
        };
        let serving = async {
            let mut got = Vec::new();
            while !got.ends_with(b"\r\n\r\n") {
                server.read_buf(&mut got).await.unwrap();
            }
            assert!(state.begin_answer());
            server.write_all(b"401").await.unwrap();
            state.answer_begun();
            let begun = tokio::time::Instant::now();
            server.shutdown().await.unwrap();
            assert_eq!(begun.elapsed(), LINGER, "and not for ever");
        };
        tokio::join!(sending, serving);
    }

    #[tokio::test]
    async fn a_body_is_no_head() {
        let (mut client, server) = duplex(100_000);
        let state = Arc::new(HeadState::default());
        let mut server = CutHeads::new(server, MAX, Arc::clone(&state));
        client.write_all(b"POST / HTTP/1.1\r\n\r\n").await.unwrap();
        let mut got = Vec::new();
        server.read_buf(&mut got).await.unwrap();
        assert!(!state.begin_answer());
        client.write_all(&[b'b'; 5000]).await.unwrap();
        let mut body = vec![0; 5000];
        server.read_exact(&mut body).await.unwrap();
        assert!(body.iter().all(|byte| *byte == b'b'));
        // The next one is read as a head again.
        state.answer_begun();
        client.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
        let mut got = Vec::new();
        server.read_buf(&mut got).await.unwrap();
        assert!(got.starts_with(b"GET /"));
        assert!(!state.begin_answer());
    }
}

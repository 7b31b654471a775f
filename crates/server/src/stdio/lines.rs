//! Lines within a limit, and writes that can be interrupted.

use std::io;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};

/// Some editors begin a file with it, and so does what is piped from it.
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// What comes next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// A line with something in it, without its end.
    Text(Vec<u8>),
    /// A line that is longer than the limit; it is thrown away.
    TooLong,
    /// There are no more.
    End,
}

/// Reads lines.
pub(super) struct LineReader<R> {
    input: BufReader<R>,
    bytes_max: usize,
    line: Vec<u8>,
    /// The rest of a line that is too long is being thrown away.
    discarding: bool,
}

/// Writes lines. What is put is written by the next flush, also if an earlier one was
/// interrupted.
pub(super) struct LineWriter<W> {
    output: W,
    waiting: BytesMut,
}

// === impl LineReader ===

impl<R: AsyncRead + Unpin> LineReader<R> {
    pub(super) fn new(input: R, bytes_max: usize) -> Self {
        Self {
            input: BufReader::new(input),
            bytes_max,
            line: Vec::new(),
            discarding: false,
        }
    }

    /// The next line that is not empty. Cancel-safe: what was read of it is kept.
    pub(super) async fn next(&mut self) -> io::Result<Line> {
        loop {
            let available = self.input.fill_buf().await?;
            let at_end = available.is_empty();
            let newline = available.iter().position(|byte| *byte == b'\n');
            let taken = newline.map_or(available.len(), |at| at + 1);
            let too_long = self.line.len() + taken > self.bytes_max;
            if !self.discarding && !too_long {
                self.line.extend_from_slice(&available[..taken]);
            }
            self.input.consume(taken);
            let was_discarding = self.discarding;
            self.discarding = newline.is_none() && !at_end && (self.discarding || too_long);
            if !was_discarding && too_long {
                self.line = Vec::new();
                return Ok(Line::TooLong);
            }
            // What the end cuts off may be a whole message: `printf` ends no line.
            if newline.is_some() || at_end {
                let line = trimmed(std::mem::take(&mut self.line));
                if !line.is_empty() {
                    return Ok(Line::Text(line));
                }
            }
            if at_end {
                return Ok(Line::End);
            }
        }
    }
}

fn trimmed(mut line: Vec<u8>) -> Vec<u8> {
    while line.last().is_some_and(u8::is_ascii_whitespace) {
        line.pop();
    }
    if line.starts_with(BYTE_ORDER_MARK) {
        line.drain(..BYTE_ORDER_MARK.len());
    }
    line
}

// === impl LineWriter ===

impl<W: AsyncWrite + Unpin> LineWriter<W> {
    pub(super) fn new(output: W) -> Self {
        Self {
            output,
            waiting: BytesMut::new(),
        }
    }

    /// Puts a line behind what waits.
    pub(super) fn put(&mut self, line: &[u8]) {
        self.waiting.reserve(line.len() + 1);
        self.waiting.extend_from_slice(line);
        self.waiting.extend_from_slice(b"\n");
    }

    /// Writes what waits. Cancel-safe: no byte is lost or written twice.
    pub(super) async fn flush(&mut self) -> io::Result<()> {
        while self.waiting.has_remaining() {
            if self.output.write_buf(&mut self.waiting).await? == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
        }
        self.output.flush().await
    }
}

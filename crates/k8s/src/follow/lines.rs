//! A log stream, line by line, with a limit on each line. A cancelled read loses nothing.

use std::{io, pin::Pin};

use futures_util::{AsyncBufRead, AsyncBufReadExt};

/// A longer line is truncated: it is data, and not useful as a whole.
const LINE_BYTES_MAX: usize = 16 * 1024;

/// The response body of a log request.
pub(super) type LogStream = Pin<Box<dyn AsyncBufRead + Send>>;

/// Splits a stream into lines.
pub(super) struct Lines {
    stream: LogStream,
    line: Vec<u8>,
}

// === impl Lines ===

impl Lines {
    pub(super) fn new(stream: LogStream) -> Self {
        Self {
            stream,
            line: Vec::new(),
        }
    }

    /// The next line; `None` at the end of the stream. Cancel-safe.
    pub(super) async fn next(&mut self) -> io::Result<Option<String>> {
        loop {
            let chunk = self.stream.fill_buf().await?;
            if chunk.is_empty() {
                return Ok((!self.line.is_empty()).then(|| self.take_line()));
            }
            let end = chunk.iter().position(|byte| *byte == b'\n');
            let used = end.map_or(chunk.len(), |at| at + 1);
            let capacity = LINE_BYTES_MAX.saturating_sub(self.line.len());
            self.line.extend_from_slice(&chunk[..used.min(capacity)]);
            self.stream.consume_unpin(used);
            if end.is_some() {
                return Ok(Some(self.take_line()));
            }
        }
    }

    fn take_line(&mut self) -> String {
        let line = std::mem::take(&mut self.line);
        let text = String::from_utf8_lossy(&line);
        text.trim_end_matches(['\n', '\r']).to_owned()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::io::{BufReader, Cursor};

    use super::*;

    #[tokio::test]
    async fn lines_come_whole_and_none_without_end() {
        let mut text = b"one\r\n\ntwo\xff\n".to_vec();
        text.extend(vec![b'x'; 5 * LINE_BYTES_MAX]);
        let bytes = BufReader::with_capacity(7, Cursor::new(text));
        let mut lines = Lines::new(Box::pin(bytes));
        for expected in ["one", "", "two\u{fffd}"] {
            assert_eq!(lines.next().await.unwrap().unwrap(), expected);
        }
        let long = lines.next().await.unwrap().unwrap();
        assert_eq!(long.len(), LINE_BYTES_MAX);
        assert_eq!(lines.next().await.unwrap(), None);
    }
}

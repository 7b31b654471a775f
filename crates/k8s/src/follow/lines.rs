//! A stream of bytes, line by line, with a limit and without losing any to a
//! cancellation.

use std::{io, pin::Pin};

use futures_util::{AsyncBufRead, AsyncBufReadExt};

/// A longer line is cut: it is data, and no reader wants it whole.
const LINE_BYTES_MAX: usize = 16 * 1024;

/// What a log is read from.
pub(super) type Bytes = Pin<Box<dyn AsyncBufRead + Send>>;

/// Hands out lines.
pub(super) struct Lines {
    from: Bytes,
    line: Vec<u8>,
}

// === impl Lines ===

impl Lines {
    pub(super) fn new(from: Bytes) -> Self {
        Self {
            from,
            line: Vec::new(),
        }
    }

    /// The next line; none when the stream has ended. Cancel-safe.
    pub(super) async fn next(&mut self) -> io::Result<Option<String>> {
        loop {
            let chunk = self.from.fill_buf().await?;
            if chunk.is_empty() {
                return Ok((!self.line.is_empty()).then(|| self.whole()));
            }
            let end = chunk.iter().position(|byte| *byte == b'\n');
            let used = end.map_or(chunk.len(), |at| at + 1);
            let room = LINE_BYTES_MAX.saturating_sub(self.line.len());
            self.line.extend_from_slice(&chunk[..used.min(room)]);
            self.from.consume_unpin(used);
            if end.is_some() {
                return Ok(Some(self.whole()));
            }
        }
    }

    fn whole(&mut self) -> String {
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

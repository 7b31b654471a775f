//! A log, line by line, and what a kubelet writes in place of one.

use std::time::Duration;

use futures_util::{AsyncBufRead, AsyncBufReadExt};
use jiff::Timestamp;
use tokio::time::Instant;

/// A longer line is truncated: it is data, and not useful as a whole.
const LINE_BYTES_MAX: usize = 16 * 1024;

/// How the errors begin that a kubelet can meet after it has answered with status 200: from
/// then on it has no other way to tell them than in place of the log or of its end. Errors
/// that it meets before are answers of their own status.
const KUBELET_MESSAGES: [&str; 15] = [
    "unable to retrieve container logs for ",
    "container status is nil",
    "failed to try resolving symlinks in path ",
    "failed to open log file ",
    "failed to tail ",
    "failed to seek ",
    "failed to read log file ",
    "failed to reset seek in log file ",
    "failed to create fsnotify watcher: ",
    "failed to watch directory ",
    "failed to watch file ",
    "failed to get parse function: ",
    "unexpected stream type ",
    "rpc error: code = ",
    "context cancel",
];

/// A line of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogLine<'a> {
    /// The line without its newline.
    pub(crate) text: &'a str,
    /// Whether a newline followed.
    pub(crate) is_terminated: bool,
}

/// How reading a log ended.
#[derive(Debug, Default)]
pub(crate) struct LogReadEnd {
    /// Number of bytes that were read.
    pub(crate) bytes: usize,
    /// Why reading stopped before the end, if it did: the lines until then are kept.
    pub(crate) incomplete: Option<String>,
    /// The error message that the kubelet sent in place of the log or of its end, if it did;
    /// it is no line.
    pub(crate) kubelet_message: Option<String>,
}

/// Reads a log and calls `on_line` for each line.
pub(crate) async fn read(
    stream: impl AsyncBufRead,
    stall_timeout: Duration,
    deadline: Instant,
    mut on_line: impl FnMut(LogLine<'_>),
) -> LogReadEnd {
    let mut stream = std::pin::pin!(stream);
    let mut line: Vec<u8> = Vec::new();
    let mut end = LogReadEnd::default();
    loop {
        // Not `read_until`: an endless line must not fill the memory.
        let chunk = match tokio::time::timeout(stall_timeout, stream.fill_buf()).await {
            Ok(Ok(chunk)) => chunk,
            Ok(Err(error)) => {
                end.incomplete = Some(format!("the connection broke: {error}"));
                return end;
            }
            Err(_elapsed) => {
                let seconds = stall_timeout.as_secs_f64();
                end.incomplete = Some(format!("nothing more came within {seconds} s"));
                return end;
            }
        };
        if Instant::now() > deadline {
            end.incomplete = Some("there was no time to read it to its end".to_owned());
            return end;
        }
        if chunk.is_empty() {
            let text = String::from_utf8_lossy(&line);
            if is_kubelet_message(&text) {
                end.incomplete = Some(format!("the kubelet answers: {text}"));
                end.kubelet_message = Some(text.into_owned());
            } else if !line.is_empty() {
                emit(&line, &mut on_line);
            }
            return end;
        }
        let newline = chunk.iter().position(|byte| *byte == b'\n');
        let used = newline.map_or(chunk.len(), |at| at + 1);
        let room = LINE_BYTES_MAX.saturating_sub(line.len());
        line.extend_from_slice(&chunk[..used.min(room)]);
        stream.as_mut().consume_unpin(used);
        end.bytes += used;
        if newline.is_some() {
            emit(&line, &mut on_line);
            line.clear();
        }
    }
}

fn emit(line: &[u8], on_line: &mut impl FnMut(LogLine<'_>)) {
    let text = String::from_utf8_lossy(line);
    let is_terminated = text.ends_with('\n') || line.len() >= LINE_BYTES_MAX;
    let text = text.trim_end_matches(['\n', '\r']);
    let cut;
    let text = if line.len() >= LINE_BYTES_MAX {
        cut = format!("{text} [line cut at {LINE_BYTES_MAX} bytes]");
        &cut
    } else {
        text
    };
    on_line(LogLine {
        text,
        is_terminated,
    });
}

/// Whether the unterminated last line of an answer is an error message of the kubelet. The
/// same words of a workload end with a newline, or begin with a timestamp if that was asked
/// for; for what remains, the caller asks again with timestamps.
pub(crate) fn is_kubelet_message(last_line: &str) -> bool {
    KUBELET_MESSAGES
        .iter()
        .any(|message| last_line.starts_with(message))
}

/// Splits a line into the timestamp that the kubelet adds and the text.
pub(crate) fn split_timestamp(line: &str) -> (Option<Timestamp>, &str) {
    let Some((time, rest)) = line.split_once(' ') else {
        // An empty line is only its timestamp.
        return match line.parse() {
            Ok(time) => (Some(time), ""),
            Err(_) => (None, line),
        };
    };
    match time.parse() {
        Ok(time) => (Some(time), rest),
        Err(_) => (None, line),
    }
}

#[cfg(test)]
mod tests {
    use futures_util::io::{BufReader, Cursor};
    use proptest::prelude::*;

    use super::*;

    fn far() -> Instant {
        Instant::now() + Duration::from_hours(1)
    }

    async fn lines_of(bytes: &[u8]) -> Vec<String> {
        let mut seen = Vec::new();
        let stream = BufReader::with_capacity(7, Cursor::new(bytes.to_vec()));
        let ended = read(stream, Duration::from_secs(1), far(), |line| {
            seen.push(line.text.to_owned());
        })
        .await;
        assert_eq!((ended.incomplete, ended.bytes), (None, bytes.len()));
        seen
    }

    #[tokio::test]
    async fn lines_come_whole_however_they_arrive() {
        assert_eq!(
            lines_of(b"one\ntwo, a longer one\r\n\nlast").await,
            ["one", "two, a longer one", "", "last"]
        );
        assert_eq!(lines_of(b"").await, [""; 0]);
        assert_eq!(lines_of(b"bad \xff byte\n").await, ["bad \u{fffd} byte"]);
    }

    #[tokio::test]
    async fn a_line_without_an_end_is_cut() {
        let lines = lines_of(&vec![b'x'; 10 * LINE_BYTES_MAX]).await;
        assert_eq!(lines.len(), 1);
        assert!(
            lines[0].ends_with("x [line cut at 16384 bytes]"),
            "and it says so"
        );
        assert!(lines[0].len() < LINE_BYTES_MAX + 40);
    }

    #[tokio::test(start_paused = true)]
    async fn a_log_that_stalls_gives_what_came() {
        let first = futures_util::stream::iter([Ok::<_, std::io::Error>(b"one\n".to_vec())]);
        let stalled = futures_util::StreamExt::chain(first, futures_util::stream::pending());
        let mut seen = Vec::new();
        let reader = futures_util::TryStreamExt::into_async_read(stalled);
        let incomplete = read(reader, Duration::from_secs(4), far(), |line| {
            seen.push(line.text.to_owned());
        })
        .await
        .incomplete;
        assert_eq!(seen, ["one"]);
        assert_eq!(incomplete.unwrap(), "nothing more came within 4 s");
    }

    async fn read_whole(text: &str) -> (String, Option<String>) {
        let mut seen = String::new();
        let stream = BufReader::with_capacity(7, Cursor::new(text.as_bytes().to_vec()));
        let ended = read(stream, Duration::from_secs(1), far(), |line| {
            seen.push_str(line.text);
            if line.is_terminated {
                seen.push('\n');
            }
        })
        .await;
        let words = ended.kubelet_message;
        assert_eq!(
            ended.incomplete.is_some(),
            words.is_some(),
            "and it says that something is missing"
        );
        (seen, words)
    }

    #[tokio::test]
    async fn an_error_message_of_a_kubelet_is_no_line() {
        for words in [
            "unable to retrieve container logs for containerd://0af1",
            "failed to try resolving symlinks in path \"/var/log/pods/a_b_c/app/0.log\": lstat: no such file or directory",
            "failed to create fsnotify watcher: too many open files",
            "rpc error: code = NotFound desc = an error occurred when try to find container \"0af1\": not found",
        ] {
            let said = Some(words.to_owned());
            assert_eq!(read_whole(words).await, (String::new(), said.clone()));
            let after = format!("work\n{words}");
            assert_eq!(read_whole(&after).await, ("work\n".to_owned(), said));
            // The same words of a workload.
            for line in [
                format!("{words}\n"),
                format!("{words}\nand more"),
                format!("2026-11-15T10:00:00.1Z {words}"),
                format!("E1115 {words}"),
            ] {
                assert_eq!(read_whole(&line).await, (line, None));
            }
        }
    }

    #[test]
    fn a_line_has_its_time_before_it() {
        let (time, line) = split_timestamp("2026-11-15T10:00:00.123456789Z hello there");
        assert_eq!(
            (time.unwrap().subsec_nanosecond(), line),
            (123_456_789, "hello there")
        );
        assert_eq!(split_timestamp("2026-11-15T10:00:00Z").1, "");
        assert_eq!(split_timestamp("no time at all"), (None, "no time at all"));
    }

    proptest! {
        #[test]
        fn terminated_lines_are_never_taken_for_a_message(
            lines in prop::collection::vec("(rpc error: code = |failed to open log file |)[a-z ]{0,9}", 0..9),
        ) {
            let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            prop_assert_eq!(runtime.block_on(read_whole(&text)), (text, None));
        }
    }
}

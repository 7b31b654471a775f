//! The log of one container, streamed: it is never whole in memory.

use std::{borrow::Cow, collections::VecDeque, time::Duration};

use futures_util::{AsyncBufRead, AsyncBufReadExt};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, api::LogParams};
use regex::Regex;
use tokio::time::Instant;

use super::{
    client::Cluster,
    error::{ClusterError, Operation},
    name::Name,
};

/// Lines that a filter searches: the result is the last matching lines, not the matches among
/// the last lines.
const SCAN_LINES: i64 = 100_000;

/// A longer line is truncated: it is data, and not useful as a whole.
const LINE_BYTES_MAX: usize = 16 * 1024;

/// The deadline for reading a log; the text is cut there and marked incomplete.
const READ_TIMEOUT: Duration = Duration::from_secs(20);

const DEFAULT_CONTAINER: &str = "kubectl.kubernetes.io/default-container";

/// Which lines of a log to read.
#[derive(Clone, Debug)]
pub struct LogQuery {
    /// Namespace of the pod.
    pub namespace: Name,
    /// Name of the pod.
    pub pod: Name,
    /// Container; the default container of the pod if none.
    pub container: Option<Name>,
    /// Whether to read the log of the previous run.
    pub previous: bool,
    /// Maximum number of lines, counted from the end.
    pub tail: usize,
    /// Age of a line, at most.
    pub since: Option<Duration>,
    /// Only lines that match this pattern.
    pub include: Option<Regex>,
    /// No lines that match this pattern.
    pub exclude: Option<Regex>,
    /// Maximum number of bytes, counted from the end.
    pub limit_bytes: usize,
    /// Whether each line begins with its timestamp.
    pub timestamps: bool,
}

/// The end of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogText {
    /// Container that wrote the log.
    pub container: String,
    /// Other containers of the pod.
    pub others: Vec<String>,
    /// The lines as text.
    pub text: String,
    /// Number of lines.
    pub lines: usize,
    /// Whether earlier matching lines were dropped because of a limit.
    pub truncated: bool,
    /// Why the text may be incomplete, if it may.
    pub incomplete: Option<String>,
}

impl Cluster {
    /// Reads the end of a container's log.
    pub async fn log(&self, query: &LogQuery) -> Result<LogText, ClusterError> {
        let (container, others) = self.container(query).await?;
        let operation = Operation {
            verb: "get",
            resource: "pods/log",
            name: Some(query.pod.as_str()),
            namespace: Some(query.namespace.as_str()),
            context: self.context(),
        };
        let api: Api<Pod> = Api::namespaced(self.client(), query.namespace.as_str());
        let filtered = query.include.is_some() || query.exclude.is_some();
        let params = LogParams {
            container: Some(container.clone()),
            previous: query.previous,
            since_seconds: query.since.map(|since| whole_seconds(since).max(1)),
            // One line more than needed shows whether there are more.
            tail_lines: Some(if filtered {
                SCAN_LINES
            } else {
                count(query.tail) + 1
            }),
            timestamps: query.timestamps,
            ..LogParams::default()
        };
        let stream = self
            .request(&operation, api.log_stream(query.pod.as_str(), &params))
            .await?;
        let mut tail = Tail::new(query.tail, query.limit_bytes);
        let matches = |line: &str| {
            // Patterns apply to the line without the timestamp that the kubelet adds.
            let timestamped = if query.timestamps {
                line.split_once(' ')
            } else {
                None
            };
            let line = timestamped.map_or(line, |(_time, line)| line);
            query
                .include
                .as_ref()
                .is_none_or(|include| include.is_match(line))
                && query
                    .exclude
                    .as_ref()
                    .is_none_or(|exclude| !exclude.is_match(line))
        };
        let deadline = Instant::now() + READ_TIMEOUT;
        let mut scanned = 0;
        // Redacted before lines are filtered and cut: a filter or a limit must not reveal a
        // part of a secret.
        let mut lines = self.redactor().lines();
        let mut incomplete = read(stream, self.timeout(), deadline, |line| {
            scanned += 1;
            // The line without its timestamp: a key of several lines, or an indented one, would
            // not be recognised after it.
            let timestamped = line.split_once(' ').filter(|_| query.timestamps);
            let line = match timestamped {
                Some((time, line)) => Cow::Owned(format!("{time} {}", lines.clean(line))),
                None => lines.clean(line),
            };
            if matches(&line) {
                tail.push(&line);
            }
        })
        .await
        .incomplete;
        if filtered && scanned >= SCAN_LINES && incomplete.is_none() {
            incomplete = Some(format!("only the last {SCAN_LINES} lines were searched"));
        }
        Ok(LogText {
            container,
            others,
            lines: tail.lines.len(),
            truncated: tail.dropped,
            text: tail.into_text(),
            incomplete,
        })
    }

    /// The containers of a pod, regular ones first.
    pub async fn containers(
        &self,
        namespace: &Name,
        pod: &Name,
    ) -> Result<Vec<String>, ClusterError> {
        Ok(container_names(&self.pod_object(namespace, pod).await?))
    }

    async fn pod_object(&self, namespace: &Name, pod: &Name) -> Result<Pod, ClusterError> {
        let operation = Operation {
            verb: "get",
            resource: "pods",
            name: Some(pod.as_str()),
            namespace: Some(namespace.as_str()),
            context: self.context(),
        };
        let api: Api<Pod> = Api::namespaced(self.client(), namespace.as_str());
        self.request(&operation, api.get(pod.as_str())).await
    }

    /// The container to read, and the others of the pod.
    async fn container(&self, query: &LogQuery) -> Result<(String, Vec<String>), ClusterError> {
        let pod = self.pod_object(&query.namespace, &query.pod).await?;
        let names = container_names(&pod);
        let preferred = pod
            .metadata
            .annotations
            .unwrap_or_default()
            .remove(DEFAULT_CONTAINER);
        let chosen = match &query.container {
            Some(name) if !names.iter().any(|existing| existing == name.as_str()) => {
                return Err(ClusterError::invalid(
                    format!(
                        "cannot read a log of pod `{}` in `{}`",
                        query.pod, query.namespace
                    ),
                    format!("it has no container `{name}`"),
                    &format!("its containers are: `{}`", names.join("`, `")),
                ));
            }
            Some(name) => name.to_string(),
            None => preferred
                .filter(|name| names.contains(name))
                .or_else(|| names.first().cloned())
                .unwrap_or_default(),
        };
        let others = names.into_iter().filter(|name| *name != chosen).collect();
        Ok((chosen, others))
    }
}

/// Regular containers first, then init and ephemeral ones.
pub(super) fn container_names(pod: &Pod) -> Vec<String> {
    let Some(spec) = &pod.spec else {
        return Vec::new();
    };
    let regular = spec.containers.iter().map(|container| &container.name);
    let init = spec
        .init_containers
        .iter()
        .flatten()
        .map(|container| &container.name);
    let ephemeral = spec
        .ephemeral_containers
        .iter()
        .flatten()
        .map(|container| &container.name);
    regular.chain(init).chain(ephemeral).cloned().collect()
}

/// How reading a log ended.
pub(super) struct LogReadEnd {
    /// Number of bytes that were read.
    pub(super) bytes: usize,
    /// Why reading stopped before the end, if it did: the lines until then are kept.
    pub(super) incomplete: Option<String>,
}

/// Reads a log and calls `on_line` for each line.
pub(super) async fn read(
    stream: impl AsyncBufRead,
    stall_timeout: Duration,
    deadline: Instant,
    on_line: impl FnMut(&str),
) -> LogReadEnd {
    let mut bytes = 0;
    let incomplete = read_counting(stream, stall_timeout, deadline, &mut bytes, on_line).await;
    LogReadEnd { bytes, incomplete }
}

async fn read_counting(
    stream: impl AsyncBufRead,
    stall_timeout: Duration,
    deadline: Instant,
    bytes: &mut usize,
    mut on_line: impl FnMut(&str),
) -> Option<String> {
    let mut stream = std::pin::pin!(stream);
    let mut line: Vec<u8> = Vec::new();
    let mut emit = |line: &mut Vec<u8>| {
        let text = String::from_utf8_lossy(line);
        let text = text.trim_end_matches(['\n', '\r']);
        if line.len() >= LINE_BYTES_MAX {
            on_line(&format!("{text} [line cut at {LINE_BYTES_MAX} bytes]"));
        } else {
            on_line(text);
        }
        line.clear();
    };
    loop {
        // Not `read_until`: an endless line must not fill the memory.
        let chunk = match tokio::time::timeout(stall_timeout, stream.fill_buf()).await {
            Ok(Ok(chunk)) => chunk,
            Ok(Err(error)) => return Some(format!("the connection broke: {error}")),
            Err(_elapsed) => {
                return Some(format!(
                    "nothing more came within {} s",
                    stall_timeout.as_secs_f64()
                ));
            }
        };
        if Instant::now() > deadline {
            return Some("there was no time to read it to its end".to_owned());
        }
        if chunk.is_empty() {
            if !line.is_empty() {
                emit(&mut line);
            }
            return None;
        }
        let end = chunk.iter().position(|byte| *byte == b'\n');
        let used = end.map_or(chunk.len(), |at| at + 1);
        let room = LINE_BYTES_MAX.saturating_sub(line.len());
        line.extend_from_slice(&chunk[..used.min(room)]);
        stream.as_mut().consume_unpin(used);
        *bytes += used;
        if end.is_some() {
            emit(&mut line);
        }
    }
}

/// The last lines of any number, bounded in lines and bytes.
struct Tail {
    lines: VecDeque<String>,
    bytes: usize,
    lines_max: usize,
    bytes_max: usize,
    dropped: bool,
}

// === impl Tail ===

impl Tail {
    fn new(lines_max: usize, bytes_max: usize) -> Self {
        Self {
            lines: VecDeque::new(),
            bytes: 0,
            lines_max,
            bytes_max,
            dropped: false,
        }
    }

    fn push(&mut self, line: &str) {
        let kept = tail_of(line, self.bytes_max.saturating_sub(1));
        if kept.len() < line.len() {
            // A line without its beginning must be the first one.
            self.lines.clear();
            self.bytes = 0;
            self.dropped = true;
        }
        self.bytes += kept.len() + 1;
        self.lines.push_back(kept.to_owned());
        while self.lines.len() > self.lines_max || self.bytes > self.bytes_max {
            let Some(oldest) = self.lines.pop_front() else {
                break;
            };
            self.bytes -= oldest.len() + 1;
            self.dropped = true;
        }
    }

    fn into_text(self) -> String {
        let mut text = String::with_capacity(self.bytes);
        for line in self.lines {
            text.push_str(&line);
            text.push('\n');
        }
        text
    }
}

/// The end of a text, from a character boundary.
fn tail_of(text: &str, bytes_max: usize) -> &str {
    let from = text.len().saturating_sub(bytes_max);
    let from = (from..=text.len())
        .find(|at| text.is_char_boundary(*at))
        .unwrap_or(text.len());
    &text[from..]
}

fn count(lines: usize) -> i64 {
    i64::try_from(lines).unwrap_or(i64::MAX - 1)
}

fn whole_seconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_secs()).unwrap_or(i64::MAX)
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
            seen.push(line.to_owned());
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
            seen.push(line.to_owned());
        })
        .await
        .incomplete;
        assert_eq!(seen, ["one"]);
        assert_eq!(incomplete.unwrap(), "nothing more came within 4 s");
    }

    proptest! {
        #[test]
        fn a_tail_is_the_end_and_never_too_large(
            lines in prop::collection::vec("[a-zäß€]{0,12}", 0..40),
            lines_max in 1..20_usize, bytes_max in 1..200_usize,
        ) {
            let mut tail = Tail::new(lines_max, bytes_max);
            for line in &lines {
                tail.push(line);
            }
            let kept = tail.lines.len();
            let dropped = tail.dropped;
            let text = tail.into_text();
            prop_assert!(text.len() <= bytes_max && kept <= lines_max);
            let whole: String = lines.iter().map(|line| format!("{line}\n")).collect();
            prop_assert!(whole.ends_with(&text));
            prop_assert_eq!(dropped, text.len() < whole.len());
        }
    }
}

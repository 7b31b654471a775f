//! The log of one container, streamed: it is never whole in memory.

mod read;

use std::{collections::VecDeque, time::Duration};

use kube::{Api, api::LogParams};
use regex::Regex;
use tokio::time::Instant;

pub(super) use self::read::{LogReadEnd, is_kubelet_message, read, split_timestamp};
use super::{
    client::Cluster,
    error::{ClusterError, ErrorKind, Operation},
    name::Name,
    pods::read::Pod,
};
use kubecrier_core::faults::KUBELET_RETRY_DELAYS;

/// Lines that a filter searches: the result is the last matching lines, not the matches among
/// the last lines.
const SCAN_LINES: i64 = 100_000;

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
        let mut delays = KUBELET_RETRY_DELAYS.into_iter();
        let mut timestamps = query.timestamps;
        loop {
            let (tail, ended) = self
                .read_lines(query, &operation, &container, timestamps)
                .await?;
            if let Some(message) = ended.kubelet_message
                && tail.lines.is_empty()
            {
                // It may have learned a moment later what became of the container. A dated
                // line is one of the workload, whatever it says.
                timestamps = true;
                let Some(delay) = delays.next() else {
                    return Err(kubelet_failed(&operation, message));
                };
                tokio::time::sleep(delay).await;
                continue;
            }
            return Ok(LogText {
                container,
                others,
                lines: tail.lines.len(),
                truncated: tail.dropped,
                text: tail.into_text(),
                incomplete: ended.incomplete,
            });
        }
    }

    /// Reads the lines that the query selects; `timestamps` are asked for, and kept only if
    /// the query wants them.
    async fn read_lines(
        &self,
        query: &LogQuery,
        operation: &Operation<'_>,
        container: &str,
        timestamps: bool,
    ) -> Result<(Tail, LogReadEnd), ClusterError> {
        let api: Api<Pod> = Api::namespaced(self.client(), query.namespace.as_str());
        let filtered = query.include.is_some() || query.exclude.is_some();
        let params = LogParams {
            container: Some(container.to_owned()),
            previous: query.previous,
            since_seconds: query.since.map(|since| whole_seconds(since).max(1)),
            // One line more than needed shows whether there are more.
            tail_lines: Some(if filtered {
                SCAN_LINES
            } else {
                count(query.tail) + 1
            }),
            timestamps,
            ..LogParams::default()
        };
        let stream = self
            .request(operation, api.log_stream(query.pod.as_str(), &params))
            .await?;
        let mut tail = Tail::new(query.tail, query.limit_bytes);
        let matches = |line: &str| {
            let is_included = |include: &Regex| include.is_match(line);
            query.include.as_ref().is_none_or(is_included)
                && !query.exclude.as_ref().is_some_and(is_included)
        };
        let deadline = Instant::now() + READ_TIMEOUT;
        let mut scanned = 0;
        // Redacted before lines are filtered and cut: a filter or a limit must not reveal a
        // part of a secret.
        let mut lines = self.redactor().lines();
        let mut ended = read(stream, self.timeout(), deadline, |line| {
            scanned += 1;
            // The line without its timestamp: a key of several lines, or an indented one, would
            // not be recognised after it, and patterns apply to what the workload wrote.
            let (time, line) = match line.text.split_once(' ') {
                Some((time, line)) if timestamps => (Some(time), line),
                _ => (None, line.text),
            };
            let line = lines.clean(line);
            if !matches(&line) {
                return;
            }
            match time.filter(|_| query.timestamps) {
                Some(time) => tail.push(&format!("{time} {line}")),
                None => tail.push(&line),
            }
        })
        .await;
        if filtered && scanned >= SCAN_LINES && ended.incomplete.is_none() {
            ended.incomplete = Some(format!("only the last {SCAN_LINES} lines were searched"));
        }
        Ok((tail, ended))
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

/// The error of a log in place of which the kubelet sends a message.
fn kubelet_failed(operation: &Operation<'_>, message: String) -> ClusterError {
    let reason = format!("the kubelet answers: {message}");
    let hint = "its container has ended a moment ago or was removed: read the other log (with or \
                without `previous`), or try again in a few seconds";
    let hint = Some(hint.to_owned());
    ClusterError::new(ErrorKind::Other, operation.to_string(), reason, hint)
}

/// Regular containers first, then init and ephemeral ones.
pub(super) fn container_names(pod: &Pod) -> Vec<String> {
    let spec = &pod.spec;
    let all = spec.containers.iter().chain(&spec.init_containers);
    let all = all.chain(&spec.ephemeral_containers);
    all.map(|container| container.name.clone()).collect()
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
    use proptest::prelude::*;

    use super::*;

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

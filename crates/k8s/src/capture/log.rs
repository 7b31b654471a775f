//! The end of a log, for the evidence of a fault: as much as there is room for, and little more.

use kube::api::LogParams;
use tokio::time::{Instant, timeout};

use super::{PodReader, TEXT_BYTES_MAX};
use crate::{
    error::ErrorKind,
    identity,
    logs::{read, split_timestamp},
};
use kubecrier_core::faults::{CaptureError, Detector, LogError, LogRequest, LogSample, TailBuffer};

/// Lines of the first request: a crash may begin far above the end of the log.
const TAIL_LINES: i64 = 200;

/// Bytes of a log that are read. A kubelet cuts the end off a longer answer, so this only
/// guards against endless lines; the sample is cut to its own limit here.
const LIMIT_BYTES: i64 = 512 * 1024;

/// Lines of the second request, for the newest lines alone, when the first met the limit.
const LAST_LINES: i64 = 2;

/// The last lines of a log, as far as one request shows them.
struct Reading {
    sample: LogSample,
    /// Whether the kubelet cut the end of them off.
    is_cut: bool,
    /// Lines to ask for if earlier ones are to fill the sample, if there are any.
    lines_wanted: Option<i64>,
}

impl PodReader {
    pub(super) async fn read_log(&self, request: &LogRequest) -> Result<LogSample, LogError> {
        if self.cluster.scope().hides_logs {
            return Err(LogError::Failed(CaptureError::SwitchedOff));
        }
        let first = self.read(request, TAIL_LINES).await?;
        if first.is_cut {
            return Ok(self.read_newest(request, first.sample).await);
        }
        let mut best = first;
        // The lines above may be shorter than those that were seen: the second time there
        // are enough of them even if they are empty.
        for _ in 0..2 {
            let Some(lines) = best.lines_wanted else {
                break;
            };
            match self.read_more(request, lines).await {
                Some(more) if !more.is_cut && more.sample.incomplete.is_none() => best = more,
                // Fewer lines than there is room for, but the newest.
                Some(_) | None => break,
            }
        }
        Ok(best.sample)
    }

    /// Reads the newest lines alone: the kubelet sent the beginning of more lines, not their
    /// end.
    async fn read_newest(&self, request: &LogRequest, beginning: LogSample) -> LogSample {
        let (mut sample, is_cut, signature) = match self.read_more(request, LAST_LINES).await {
            Some(newest) => (newest.sample, newest.is_cut, beginning.signature),
            // Better the beginning than nothing.
            None => (beginning, true, None),
        };
        sample.tail.truncated = true;
        sample.signature = sample.signature.or(signature);
        if is_cut && sample.incomplete.is_none() {
            let limit = LIMIT_BYTES / 1024;
            sample.incomplete = Some(format!("its last lines are longer than {limit} KiB"));
        }
        sample
    }

    /// Reads other lines when a sample is already there: none in half of the time that is
    /// left, or after an error, costs nothing.
    async fn read_more(&self, request: &LogRequest, tail_lines: i64) -> Option<Reading> {
        let remaining = request.deadline.saturating_duration_since(Instant::now());
        let reading = self.read(request, tail_lines);
        timeout(remaining / 2, reading).await.ok()?.ok()
    }

    async fn read(&self, request: &LogRequest, tail_lines: i64) -> Result<Reading, LogError> {
        let LogRequest {
            container,
            previous,
            bytes_max,
            is_retry,
            deadline,
            ..
        } = request;
        let (api, name) = self.api(&request.namespace, &request.pod)?;
        let params = LogParams {
            container: Some(container.clone()),
            previous: *previous,
            // One line more than needed shows whether there are more.
            tail_lines: Some(tail_lines + 1),
            limit_bytes: Some(LIMIT_BYTES),
            // A dated line is one of the workload, whatever it says.
            timestamps: *is_retry,
            ..LogParams::default()
        };
        let key = self.key(&request.namespace, &request.pod);
        let operation = self.operation("get", "pods/log", &key);
        let answer = self
            .cluster
            .request(&operation, api.log_stream(name.as_str(), &params));
        let stream = answer.await.map_err(|error| match error.kind() {
            // A kubelet and an API server answer 400 for a run that left no log.
            ErrorKind::Invalid if *previous => CaptureError::NotFound,
            _ => error.into(),
        })?;
        let mut lines = self.cluster.redactor().lines();
        let mut detector = Detector::default();
        let mut tail = TailBuffer::new(*bytes_max);
        let mut count = 0;
        let remaining = deadline.saturating_duration_since(Instant::now());
        let ended = read(stream, remaining, *deadline, |line| {
            count += 1;
            let text = if *is_retry {
                split_timestamp(line.text).1
            } else {
                line.text
            };
            // The redactor may make several lines of one.
            let cleaned = lines.clean(text);
            let (before, last) = cleaned.rsplit_once('\n').unzip();
            for line in before.into_iter().flat_map(|before| before.split('\n')) {
                detector.line(line);
                tail.push(line);
            }
            let last = last.unwrap_or(&cleaned);
            detector.line(last);
            if line.is_terminated {
                tail.push(last);
            } else {
                tail.push_unterminated(last);
            }
        })
        .await;
        let lines_wanted = (count > tail_lines && !tail.is_full())
            .then(|| lines_to_fill(*bytes_max, tail.len(), count, tail_lines))
            .flatten();
        if count > tail_lines {
            tail.mark_truncated();
        }
        if tail.is_empty() {
            if let Some(message) = ended.kubelet_message {
                let message = identity::bounded(self.cluster.redactor(), &message, TEXT_BYTES_MAX);
                return Err(LogError::Kubelet(message.into_owned()));
            }
            if ended.incomplete.is_some() {
                let is_late = Instant::now() >= *deadline;
                return Err(LogError::Failed(if is_late {
                    CaptureError::Timeout
                } else {
                    CaptureError::Unavailable
                }));
            }
        }
        let is_cut = i64::try_from(ended.bytes).is_ok_and(|bytes| bytes >= LIMIT_BYTES);
        let incomplete =
            (ended.incomplete).map(|why| identity::sentence(self.cluster.redactor(), &why));
        Ok(Reading {
            sample: LogSample {
                tail: tail.finish(),
                signature: detector.finish(),
                incomplete,
            },
            is_cut,
            lines_wanted,
        })
    }
}

/// The number of lines that fills a sample of so many bytes, if `count` lines have `bytes`
/// bytes; none if no more than `asked` lines would help.
///
/// Twice as many as the mean asks for: lines of a log differ. Never more than one per byte,
/// which is enough for empty lines; after lines that were too few, at once.
fn lines_to_fill(bytes_max: usize, bytes: usize, count: i64, asked: i64) -> Option<i64> {
    let bytes_max = i64::try_from(bytes_max).ok()?;
    let bytes = i64::try_from(bytes).ok()?.max(1);
    let lines = match asked {
        TAIL_LINES => bytes_max.checked_mul(2 * count)? / bytes + 1,
        _ => bytes_max,
    };
    let lines = lines.min(bytes_max);
    (lines > asked).then_some(lines)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Few lines more than are needed, enough for lines like those that were seen, and
        /// never an endless escalation.
        #[test]
        fn enough_lines_are_asked_for_and_not_many_more(bytes_max in 1000..100_000_usize, mean in 1..60_i64) {
            let bytes = usize::try_from(201 * mean).unwrap();
            prop_assume!(bytes < bytes_max);
            let max = i64::try_from(bytes_max).unwrap();
            if let Some(lines) = lines_to_fill(bytes_max, bytes, 201, TAIL_LINES) {
                prop_assert!(lines > TAIL_LINES && lines <= max);
                prop_assert!(lines * mean >= max, "it is filled");
                prop_assert!(lines * mean <= 2 * max + mean, "at most twice what fits");
                let last = lines_to_fill(bytes_max, bytes, lines + 1, lines);
                prop_assert!(last.is_none_or(|last| last == max));
                prop_assert_eq!(lines_to_fill(bytes_max, bytes, max + 1, max), None);
            }
        }
    }
}

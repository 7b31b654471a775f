//! The logs of containers, and the subresource `pods/log`.

use std::{
    collections::{BTreeMap, VecDeque},
    io,
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use futures_util::{Stream, stream};
use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::watch;

use crate::{
    request::Query,
    resource::PODS,
    shared::{OpenStream, Shared, Signals, StreamKind},
    status::{InvalidObject, StatusError},
    store::ObjectKey,
};

/// The logs of all containers.
#[derive(Debug, Default)]
pub(crate) struct Logs(BTreeMap<LogKey, Log>);

/// The container that a log is of, and which run of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LogKey {
    pub(crate) namespace: String,
    pub(crate) pod: String,
    pub(crate) container: String,
    /// The run before the last restart.
    pub(crate) previous: bool,
}

/// The lines of one container. The oldest are dropped when there are too many.
#[derive(Clone, Debug, Default)]
struct Log {
    lines: VecDeque<(Timestamp, Bytes)>,
    /// How many lines were dropped.
    dropped: usize,
}

/// The parameters of a request for a log, as in `PodLogOptions`.
#[derive(Clone, Debug, Default)]
pub(crate) struct LogOptions {
    pub(crate) follow: bool,
    pub(crate) previous: bool,
    timestamps: bool,
    tail: Option<usize>,
    limit: Option<usize>,
    since: Option<Since>,
}

#[derive(Clone, Copy, Debug)]
enum Since {
    Ago(Duration),
    Time(Timestamp),
}

/// The lines that are kept of each log.
const LINES_MAX: usize = 2000;

/// The logs that are kept; further containers have none.
const LOGS_MAX: usize = 4096;

// === impl LogKey ===

impl LogKey {
    fn pod_key(&self) -> ObjectKey {
        ObjectKey {
            resource: PODS,
            namespace: self.namespace.clone(),
            name: self.pod.clone(),
        }
    }
}

// === impl Logs ===

impl Logs {
    /// Appends a line, to a new log if there is none.
    pub(crate) fn push(&mut self, key: &LogKey, at: Timestamp, line: &str) {
        if !self.0.contains_key(key) && self.0.len() >= LOGS_MAX {
            return;
        }
        let log = self.0.entry(key.clone()).or_default();
        log.lines
            .push_back((at, Bytes::copy_from_slice(line.as_bytes())));
        if log.lines.len() > LINES_MAX {
            log.lines.pop_front();
            log.dropped += 1;
        }
    }

    /// Moves the current log of a container to the previous one, as a restart does.
    pub(crate) fn restart(&mut self, key: &LogKey) {
        let mut previous = key.clone();
        previous.previous = true;
        let log = self
            .0
            .insert(key.clone(), Log::default())
            .unwrap_or_default();
        self.0.insert(previous, log);
    }

    pub(crate) fn forget_pod(&mut self, namespace: &str, pod: &str) {
        self.0
            .retain(|key, _| key.namespace != namespace || key.pod != pod);
    }

    fn read(&self, key: &LogKey, options: &LogOptions, now: Timestamp) -> (Vec<u8>, usize) {
        let Some(log) = self.0.get(key) else {
            return (Vec::new(), 0);
        };
        let is_recent = |at: &Timestamp| match options.since {
            None => true,
            Some(Since::Ago(age)) => *at >= now.checked_sub(age).unwrap_or(Timestamp::MIN),
            Some(Since::Time(from)) => *at >= from,
        };
        let kept: Vec<_> = log.lines.iter().filter(|(at, _)| is_recent(at)).collect();
        let skip = options
            .tail
            .map_or(0, |tail| kept.len().saturating_sub(tail));
        let mut text = Vec::new();
        for line in kept.into_iter().skip(skip) {
            append(&mut text, line, options.timestamps);
        }
        (text, log.dropped + log.lines.len())
    }

    /// The lines after the first `seen` ones, and how many there are now. `None` when that log
    /// has ended.
    fn after(&self, key: &LogKey, seen: usize, timestamps: bool) -> Option<(Vec<u8>, usize)> {
        let Some(log) = self.0.get(key) else {
            // No line was written yet, or the log was cleared.
            return (seen == 0).then(|| (Vec::new(), 0));
        };
        let end = log.dropped + log.lines.len();
        if end < seen {
            // A restart began a new log.
            return None;
        }
        let mut text = Vec::new();
        for line in log.lines.iter().skip(seen.saturating_sub(log.dropped)) {
            append(&mut text, line, timestamps);
        }
        Some((text, end))
    }
}

fn append(text: &mut Vec<u8>, (at, line): &(Timestamp, Bytes), timestamps: bool) {
    if timestamps {
        let at = at.strftime("%Y-%m-%dT%H:%M:%S.%9fZ");
        text.extend_from_slice(format!("{at} ").as_bytes());
    }
    text.extend_from_slice(line);
    text.push(b'\n');
}

// === impl LogOptions ===

impl LogOptions {
    pub(crate) fn parse(query: &Query, pod: &str) -> Result<Self, StatusError> {
        let object = InvalidObject {
            group: "",
            kind: "PodLogOptions",
            name: pod,
        };
        let invalid = |field: &str, value: i64, least: &str| {
            let error = format!("Invalid value: {value}: must be greater than {least}");
            StatusError::invalid(&object, "FieldValueInvalid", field, &error)
        };
        let (tail, limit) = (query.number("tailLines")?, query.number("limitBytes")?);
        let seconds = query.number("sinceSeconds")?;
        let time = query.get("sinceTime").map(parse_time).transpose()?;
        if let Some(tail) = tail.filter(|tail| *tail < 0) {
            return Err(invalid("tailLines", tail, "or equal to 0"));
        }
        if let Some(limit) = limit.filter(|limit| *limit < 1) {
            return Err(invalid("limitBytes", limit, "0"));
        }
        let since = match (seconds, time) {
            (Some(_), Some(_)) => {
                return Err(StatusError::invalid(
                    &object,
                    "FieldValueForbidden",
                    "[]",
                    "Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified",
                ));
            }
            (Some(seconds), None) if seconds < 1 => {
                return Err(invalid("sinceSeconds", seconds, "0"));
            }
            (Some(seconds), None) => Some(Since::Ago(Duration::from_secs(seconds.unsigned_abs()))),
            (None, time) => time.map(Since::Time),
        };
        let count = |number: Option<i64>| number.and_then(|number| usize::try_from(number).ok());
        Ok(Self {
            follow: query.flag("follow"),
            previous: query.flag("previous"),
            timestamps: query.flag("timestamps"),
            tail: count(tail),
            limit: count(limit),
            since,
        })
    }
}

fn parse_time(text: &str) -> Result<Timestamp, StatusError> {
    text.parse().map_err(|_| {
        StatusError::bad_request(format!(
            "parsing time \"{text}\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"{text}\" as \
             \"2006\""
        ))
    })
}

/// The container that a request names, or the only one of the pod.
pub(crate) fn container(pod: &Value, requested: Option<&str>) -> Result<String, StatusError> {
    let name = pod["metadata"]["name"].as_str().unwrap_or_default();
    let names: Vec<_> = ["initContainers", "containers", "ephemeralContainers"]
        .into_iter()
        .flat_map(|field| pod["spec"][field].as_array().into_iter().flatten())
        .filter_map(|container| container["name"].as_str())
        .collect();
    match (requested, names.as_slice()) {
        (Some(requested), names) if names.contains(&requested) => Ok(requested.to_owned()),
        (Some(requested), _) => Err(StatusError::bad_request(format!(
            "container {requested} is not valid for pod {name}"
        ))),
        (None, [only]) => Ok((*only).to_owned()),
        (None, names) => Err(StatusError::bad_request(format!(
            "a container name must be specified for pod {name}, choose one of: [{}]",
            names.join(" "),
        ))),
    }
}

/// Whether a kubelet would answer with the previous log instead of the current one, or its
/// error, in its own words.
pub(crate) fn select(pod: &Value, container: &str, previous: bool) -> Result<bool, StatusError> {
    let name = pod["metadata"]["name"].as_str().unwrap_or_default();
    let fields = [
        "containerStatuses",
        "initContainerStatuses",
        "ephemeralContainerStatuses",
    ];
    let status = fields
        .into_iter()
        .flat_map(|field| pod["status"][field].as_array().into_iter().flatten())
        .find(|status| status["name"] == container);
    let subject = format!("container \"{container}\" in pod \"{name}\"");
    let fail = |reason: &str| Err(StatusError::bad_request(format!("{subject} {reason}")));
    let Some(status) = status else {
        return fail("is not available");
    };
    let has_ended = status["lastState"]["terminated"]["containerID"] != Value::Null;
    if previous {
        return if has_ended {
            Ok(true)
        } else {
            Err(StatusError::bad_request(format!(
                "previous terminated {subject} not found"
            )))
        };
    }
    let state = &status["state"];
    if !state["running"].is_null() || !state["terminated"].is_null() {
        return Ok(false);
    }
    if has_ended {
        // Between two runs the log of the last one is the current one.
        return Ok(true);
    }
    match state["waiting"]["reason"].as_str() {
        Some("ErrImagePull") => fail("is waiting to start: image can't be pulled"),
        Some("ImagePullBackOff") => fail("is waiting to start: trying and failing to pull image"),
        Some(reason) => fail(&format!("is waiting to start: {reason}")),
        None => fail("is waiting to start - no logs yet"),
    }
}

/// The text of a log, followed by new lines if the request follows it.
pub(crate) fn read(
    shared: &Arc<Shared>,
    key: LogKey,
    options: LogOptions,
) -> impl Stream<Item = io::Result<Bytes>> + Send + use<> {
    let now = shared.clock.now();
    let (text, seen) = shared.lock().logs.read(&key, &options, now);
    let signals = shared.signals();
    let opened = *signals.borrow();
    let stream = LogStream {
        opened,
        // A previous log does not grow.
        open: (options.follow && !key.previous)
            .then(|| OpenStream::new(shared, StreamKind::Follower)),
        remaining: options.limit.unwrap_or(usize::MAX),
        first: Some(text),
        shared: Arc::clone(shared),
        signals,
        key,
        options,
        seen,
    };
    stream::unfold(stream, |mut stream| async move {
        let next = stream.next().await?;
        Some((next, stream))
    })
}

struct LogStream {
    shared: Arc<Shared>,
    signals: watch::Receiver<Signals>,
    opened: Signals,
    key: LogKey,
    options: LogOptions,
    first: Option<Vec<u8>>,
    seen: usize,
    remaining: usize,
    open: Option<OpenStream>,
}

// === impl LogStream ===

impl LogStream {
    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        loop {
            if self.remaining == 0 {
                return None;
            }
            let signals = *self.signals.borrow_and_update();
            if signals.cut > self.opened.cut {
                self.remaining = 0;
                return Some(Err(io::ErrorKind::ConnectionReset.into()));
            }
            if !signals.frozen {
                if let Some(first) = self.first.take().filter(|text| !text.is_empty()) {
                    return Some(Ok(limit(first, &mut self.remaining)));
                }
                self.open.as_ref()?;
                let state = self.shared.lock();
                // The log ends with its pod, even before its first line.
                state.store.get(&self.key.pod_key())?;
                let timestamps = self.options.timestamps;
                let (text, end) = state.logs.after(&self.key, self.seen, timestamps)?;
                drop(state);
                self.seen = end;
                if !text.is_empty() {
                    let text = limit(text, &mut self.remaining);
                    return Some(Ok(text));
                }
            }
            self.signals.changed().await.ok()?;
        }
    }
}

fn limit(mut text: Vec<u8>, remaining: &mut usize) -> Bytes {
    text.truncate(*remaining);
    *remaining -= text.len();
    text.into()
}

//! What containers have said, and `pods/log`.

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
    shared::{Open, Opened, Shared, Signals},
    status::{Refusal, Subject},
    store::Key,
};

/// The logs of all containers.
#[derive(Debug, Default)]
pub(crate) struct Logs(BTreeMap<Source, Log>);

/// Whose log.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Source {
    pub(crate) namespace: String,
    pub(crate) pod: String,
    pub(crate) container: String,
    /// The one before the last restart.
    pub(crate) previous: bool,
}

/// One container's lines, the oldest of which go when there are too many.
#[derive(Clone, Debug, Default)]
struct Log {
    lines: VecDeque<(Timestamp, Bytes)>,
    /// How many have gone.
    gone: usize,
}

/// Which part of a log is asked for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
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

/// As many lines as a small kubelet would keep.
const LINES_MAX: usize = 2000;

/// More containers than that have no logs.
const LOGS_MAX: usize = 4096;

// === impl Source ===

impl Source {
    fn pod_key(&self) -> Key {
        Key {
            resource: ("", "pods"),
            namespace: self.namespace.clone(),
            name: self.pod.clone(),
        }
    }
}

// === impl Logs ===

impl Logs {
    /// Adds a line; the log begins with it if there was none.
    pub(crate) fn push(&mut self, source: &Source, at: Timestamp, line: &str) {
        if !self.0.contains_key(source) && self.0.len() >= LOGS_MAX {
            return;
        }
        let log = self.0.entry(source.clone()).or_default();
        log.lines
            .push_back((at, Bytes::copy_from_slice(line.as_bytes())));
        if log.lines.len() > LINES_MAX {
            log.lines.pop_front();
            log.gone += 1;
        }
    }

    /// The log of a container that has restarted: what it said is now what the one
    /// before it said.
    pub(crate) fn restart(&mut self, source: &Source) {
        let mut previous = source.clone();
        previous.previous = true;
        let log = self
            .0
            .insert(source.clone(), Log::default())
            .unwrap_or_default();
        self.0.insert(previous, log);
    }

    pub(crate) fn clear(&mut self, source: &Source) {
        self.0.remove(source);
    }

    pub(crate) fn forget_pod(&mut self, namespace: &str, pod: &str) {
        self.0
            .retain(|source, _| source.namespace != namespace || source.pod != pod);
    }

    fn select(&self, source: &Source, wanted: &Wanted, now: Timestamp) -> (Vec<u8>, usize) {
        let Some(log) = self.0.get(source) else {
            return (Vec::new(), 0);
        };
        let young = |at: &Timestamp| match wanted.since {
            None => true,
            Some(Since::Ago(age)) => *at >= now.checked_sub(age).unwrap_or(Timestamp::MIN),
            Some(Since::Time(from)) => *at >= from,
        };
        let kept: Vec<_> = log.lines.iter().filter(|(at, _)| young(at)).collect();
        let skip = wanted
            .tail
            .map_or(0, |tail| kept.len().saturating_sub(tail));
        let mut text = Vec::new();
        for line in kept.into_iter().skip(skip) {
            print(&mut text, line, wanted.timestamps);
        }
        (text, log.gone + log.lines.len())
    }

    /// What was added after so many lines, and how many there are now; nothing if
    /// that log is over.
    fn after(&self, source: &Source, seen: usize, timestamps: bool) -> Option<(Vec<u8>, usize)> {
        let Some(log) = self.0.get(source) else {
            // Nothing said yet, or all of it gone.
            return (seen == 0).then(|| (Vec::new(), 0));
        };
        let end = log.gone + log.lines.len();
        if end < seen {
            // A new container began a new log.
            return None;
        }
        let mut text = Vec::new();
        for line in log.lines.iter().skip(seen.saturating_sub(log.gone)) {
            print(&mut text, line, timestamps);
        }
        Some((text, end))
    }
}

fn print(text: &mut Vec<u8>, (at, line): &(Timestamp, Bytes), timestamps: bool) {
    if timestamps {
        let at = at.strftime("%Y-%m-%dT%H:%M:%S.%9fZ");
        text.extend_from_slice(format!("{at} ").as_bytes());
    }
    text.extend_from_slice(line);
    text.push(b'\n');
}

// === impl Wanted ===

impl Wanted {
    pub(crate) fn parse(query: &Query, pod: &str) -> Result<Self, Refusal> {
        let subject = Subject {
            group: "",
            kind: "PodLogOptions",
            name: pod,
        };
        let invalid = |field: &str, value: i64, least: &str| {
            let wrong = format!("Invalid value: {value}: must be greater than {least}");
            Refusal::invalid(&subject, "FieldValueInvalid", field, &wrong)
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
                return Err(Refusal::invalid(
                    &subject,
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
            follow: query.truth("follow"),
            previous: query.truth("previous"),
            timestamps: query.truth("timestamps"),
            tail: count(tail),
            limit: count(limit),
            since,
        })
    }
}

fn parse_time(text: &str) -> Result<Timestamp, Refusal> {
    text.parse().map_err(|_| {
        Refusal::bad_request(format!(
            "parsing time \"{text}\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"{text}\" as \
             \"2006\""
        ))
    })
}

/// The container that is meant, or why that is not clear.
pub(crate) fn container(pod: &Value, asked: Option<&str>) -> Result<String, Refusal> {
    let name = pod["metadata"]["name"].as_str().unwrap_or_default();
    let names: Vec<_> = ["initContainers", "containers", "ephemeralContainers"]
        .into_iter()
        .flat_map(|field| pod["spec"][field].as_array().into_iter().flatten())
        .filter_map(|container| container["name"].as_str())
        .collect();
    match (asked, names.as_slice()) {
        (Some(asked), names) if names.contains(&asked) => Ok(asked.to_owned()),
        (Some(asked), _) => Err(Refusal::bad_request(format!(
            "container {asked} is not valid for pod {name}"
        ))),
        (None, [only]) => Ok((*only).to_owned()),
        (None, names) => Err(Refusal::bad_request(format!(
            "a container name must be specified for pod {name}, choose one of: [{}]",
            names.join(" "),
        ))),
    }
}

/// Which log a kubelet would read, the current or the previous one, or what it
/// says instead, in its own words.
pub(crate) fn which(pod: &Value, container: &str, previous: bool) -> Result<bool, Refusal> {
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
    let here = format!("container \"{container}\" in pod \"{name}\"");
    let refuse = |why: &str| Err(Refusal::bad_request(format!("{here} {why}")));
    let Some(status) = status else {
        return refuse("is not available");
    };
    let ended = status["lastState"]["terminated"]["containerID"] != Value::Null;
    if previous {
        return if ended {
            Ok(true)
        } else {
            Err(Refusal::bad_request(format!(
                "previous terminated {here} not found"
            )))
        };
    }
    let state = &status["state"];
    if !state["running"].is_null() || !state["terminated"].is_null() {
        return Ok(false);
    }
    if ended {
        // Between two lives the last one's log is what there is.
        return Ok(true);
    }
    match state["waiting"]["reason"].as_str() {
        Some("ErrImagePull") => refuse("is waiting to start: image can't be pulled"),
        Some("ImagePullBackOff") => refuse("is waiting to start: trying and failing to pull image"),
        Some(reason) => refuse(&format!("is waiting to start: {reason}")),
        None => refuse("is waiting to start - no logs yet"),
    }
}

/// The text of a log, and what is said after it.
pub(crate) fn read(
    shared: &Arc<Shared>,
    source: Source,
    wanted: Wanted,
) -> impl Stream<Item = io::Result<Bytes>> + Send + use<> {
    let now = shared.clock.now();
    let (text, seen) = shared.lock().logs.select(&source, &wanted, now);
    let signals = shared.signals();
    let began = *signals.borrow();
    let reading = Reading {
        began,
        // What has ended says nothing more.
        open: (wanted.follow && !source.previous).then(|| Open::new(shared, Opened::Follower)),
        left: wanted.limit.unwrap_or(usize::MAX),
        first: Some(text),
        shared: Arc::clone(shared),
        signals,
        source,
        wanted,
        seen,
    };
    stream::unfold(reading, |mut reading| async move {
        let next = reading.next().await?;
        Some((next, reading))
    })
}

struct Reading {
    shared: Arc<Shared>,
    signals: watch::Receiver<Signals>,
    began: Signals,
    source: Source,
    wanted: Wanted,
    first: Option<Vec<u8>>,
    seen: usize,
    left: usize,
    open: Option<Open>,
}

// === impl Reading ===

impl Reading {
    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        loop {
            if self.left == 0 {
                return None;
            }
            let signals = *self.signals.borrow_and_update();
            if signals.cut > self.began.cut {
                self.left = 0;
                return Some(Err(io::ErrorKind::ConnectionReset.into()));
            }
            if !signals.frozen {
                if let Some(first) = self.first.take().filter(|text| !text.is_empty()) {
                    return Some(Ok(cut(first, &mut self.left)));
                }
                self.open.as_ref()?;
                let state = self.shared.lock();
                // With its pod a log is over, even one that never began.
                state.store.get(&self.source.pod_key())?;
                let timestamps = self.wanted.timestamps;
                let (text, end) = state.logs.after(&self.source, self.seen, timestamps)?;
                drop(state);
                self.seen = end;
                if !text.is_empty() {
                    let text = cut(text, &mut self.left);
                    return Some(Ok(text));
                }
            }
            self.signals.changed().await.ok()?;
        }
    }
}

fn cut(mut text: Vec<u8>, left: &mut usize) -> Bytes {
    text.truncate(*left);
    *left -= text.len();
    text.into()
}

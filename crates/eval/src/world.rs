//! The objects and logs of a case, with the times of today.

use std::{
    collections::{BTreeMap, HashMap},
    fs,
    path::Path,
    sync::Arc,
};

use anyhow::{Context, Result};
use jiff::{SignedDuration, Timestamp};
use kubecrier_incidents::eval::{key, named};
use serde::Deserialize;
use serde_json::Value;

const DAY_MINUTES: i64 = 24 * 60;

/// Everything that is in the cluster of a case.
#[derive(Clone, Debug, Default)]
pub(crate) struct World {
    /// The objects, as `kubectl get -o yaml` prints them.
    pub(crate) objects: Vec<Value>,
    /// By `namespace/pod/container`.
    pub(crate) logs: BTreeMap<String, Logs>,
}

/// What the logs of a container end with.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Logs {
    pub(crate) previous: Option<String>,
    pub(crate) current: Option<String>,
}

/// Reads the worlds of cases; a background is read once.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    backgrounds: HashMap<String, Arc<Vec<Value>>>,
}

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    background: String,
    #[serde(default)]
    remove: Vec<String>,
    #[serde(default)]
    logs: BTreeMap<String, Logs>,
    objects: Vec<Value>,
}

#[derive(Deserialize)]
struct Background {
    objects: Vec<Value>,
}

// === impl Reader ===

impl Reader {
    /// Reads the world of a case of a folder.
    pub(crate) fn read(&mut self, folder: &Path, case: &str) -> Result<World> {
        let file: File = parse(&folder.join(format!("{case}.yaml")))?;
        let behind = self.background(folder, &file.background)?;
        let removed = file.remove.iter().map(|name| named(name));
        let replaced: Vec<_> = file.objects.iter().map(key).chain(removed).collect();
        let kept = behind
            .iter()
            .filter(|object| !replaced.contains(&key(object)));
        Ok(World {
            objects: kept.chain(&file.objects).cloned().collect(),
            logs: file.logs,
        })
    }

    fn background(&mut self, folder: &Path, name: &str) -> Result<Arc<Vec<Value>>> {
        if name.is_empty() {
            return Ok(Arc::default());
        }
        if let Some(known) = self.backgrounds.get(name) {
            return Ok(Arc::clone(known));
        }
        let backgrounds = folder.parent().unwrap_or(folder).join("background");
        let read: Background = parse(&backgrounds.join(format!("{name}.yaml")))?;
        let objects = Arc::new(read.objects);
        self.backgrounds
            .insert(name.to_owned(), Arc::clone(&objects));
        Ok(objects)
    }
}

fn parse<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T> {
    let failed = || format!("cannot read `{}`", path.display());
    let text = fs::read_to_string(path).with_context(failed)?;
    serde_saphyr::from_str(&text).with_context(failed)
}

// === impl World ===

impl World {
    /// Moves all times, so that one moment becomes another.
    pub(crate) fn move_to(&mut self, from: Timestamp, to: Timestamp) {
        let by = to.duration_since(from);
        for object in &mut self.objects {
            shift(object, by);
            if object["kind"] == "CronJob"
                && let Some(schedule) = object["spec"]["schedule"].as_str()
            {
                object["spec"]["schedule"] = move_schedule(schedule, by).into();
            }
        }
    }
}

/// Adds to every text that is a time.
fn shift(value: &mut Value, by: SignedDuration) {
    match value {
        Value::String(text) => {
            if let Some(moved) = moved(text, by) {
                *text = moved;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| shift(item, by)),
        Value::Object(fields) => fields.values_mut().for_each(|field| shift(field, by)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn moved(text: &str, by: SignedDuration) -> Option<String> {
    let looks_like_one = (20..=30).contains(&text.len())
        && text.as_bytes().get(10) == Some(&b'T')
        && text.ends_with('Z');
    let time: Timestamp = looks_like_one.then(|| text.parse().ok())??;
    let time = time.checked_add(by).ok()?;
    // A MicroTime is refused without its fraction, and a Time with one is not.
    Some(if text.contains('.') {
        format!("{time:.6}")
    } else {
        format!("{time:.0}")
    })
}

/// A schedule that is due as long before the new moment as it was before the old one.
/// Knows those of a minute, hourly and daily ones; others stay.
fn move_schedule(schedule: &str, by: SignedDuration) -> String {
    let minutes = by.as_mins().rem_euclid(DAY_MINUTES);
    let fields: Vec<_> = schedule.split(' ').collect();
    let [minute, hour, rest @ ..] = &*fields else {
        return schedule.to_owned();
    };
    let rest = rest.join(" ");
    let number = |text: &str| text.parse::<i64>().ok();
    match (number(minute), number(hour)) {
        (Some(minute), Some(hour)) => {
            let at = (hour * 60 + minute + minutes) % DAY_MINUTES;
            format!("{} {} {rest}", at % 60, at / 60)
        }
        (Some(minute), None) if *hour == "*" => format!("{} * {rest}", (minute + minutes) % 60),
        _ => match minute.strip_prefix("*/").and_then(number) {
            Some(step @ 1..) if *hour == "*" && 60 % step == 0 => {
                let first = minutes % step;
                format!("{first}-59/{step} * {rest}")
            }
            _ => schedule.to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn all_times_are_moved_and_nothing_else_is() {
        let mut world = World {
            objects: vec![json!({
                "metadata": {"name": "2026", "annotations": {"at": "2026-03-01T11:00:00Z"}},
                "eventTime": "2026-03-01T11:00:00.000001Z",
                "status": {"since": ["2026-03-01T12:00:00Z"], "count": 3, "text": "at 2026-03-01T12:00:00Z"},
            })],
            logs: BTreeMap::new(),
        };
        let time = |text: &str| text.parse::<Timestamp>().unwrap();
        world.move_to(time("2026-03-01T12:00:00Z"), time("2026-07-01T13:07:00Z"));
        let expected = json!({
            "metadata": {"name": "2026", "annotations": {"at": "2026-07-01T12:07:00Z"}},
            "eventTime": "2026-07-01T12:07:00.000001Z",
            "status": {"since": ["2026-07-01T13:07:00Z"], "count": 3, "text": "at 2026-03-01T12:00:00Z"},
        });
        assert_eq!(world.objects[0], expected);
    }

    #[test]
    fn a_schedule_moves_with_the_clock() {
        let by = SignedDuration::from_mins(3 * DAY_MINUTES + 67);
        for (schedule, expected) in [
            ("0 3 * * *", "7 4 * * *"),
            ("15 * * * *", "22 * * * *"),
            ("59 23 * * *", "6 1 * * *"),
            ("*/15 * * * *", "7-59/15 * * * *"),
            ("@daily", "@daily"),
            ("0 0/2 * * *", "0 0/2 * * *"),
        ] {
            assert_eq!(move_schedule(schedule, by), expected, "{schedule}");
        }
    }
}

//! Cases as data: objects as `kubectl get -o yaml` prints them, and what is true about them.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use crate::{messages::telling_line, state::State};

/// The state of a cluster at one moment, and what is wrong with it.
#[derive(Clone, Debug)]
pub struct Case {
    /// The name of its file.
    pub name: String,
    /// One line for people.
    pub title: String,
    /// `startup`, `scheduling`, ...
    pub class: String,
    /// The moment.
    pub now: Timestamp,
    /// What is wrong.
    pub truth: Truth,
    /// Everything that was read.
    pub state: State,
    /// The events, for the baseline.
    pub events: Vec<Value>,
}

/// What is wrong in a case; nothing by default.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Truth {
    /// The object that is to be named first; empty if nothing is wrong.
    #[serde(deserialize_with = "or_empty")]
    pub object: String,
    /// Others that a reader would take as well.
    pub also: Vec<String>,
    /// Objects that are hurt: naming them accuses nobody, and explains nothing.
    pub victims: Vec<String>,
    /// What a reader needs to know.
    pub words: Vec<String>,
    /// Whether a hint without a warning is fine.
    pub info: bool,
}

/// Reports a case that cannot be used.
#[derive(Debug)]
pub struct CaseError {
    /// Its file.
    pub file: PathBuf,
    /// What is wrong with it.
    pub reason: String,
}

#[derive(Debug, Deserialize)]
struct File {
    title: String,
    class: String,
    #[serde(default)]
    background: String,
    now: Timestamp,
    #[serde(default)]
    truth: Option<Truth>,
    #[serde(default)]
    remove: Vec<String>,
    /// By `namespace/pod/container`.
    #[serde(default)]
    logs: BTreeMap<String, Logs>,
    objects: Vec<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Logs {
    previous: Option<String>,
    current: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Background {
    objects: Vec<Value>,
}

// === impl CaseError ===

impl std::fmt::Display for CaseError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.file.display(), self.reason)
    }
}

impl std::error::Error for CaseError {}

/// Reads the cases of a folder; their backgrounds are in the folder `background` beside it.
///
/// # Errors
///
/// Names the file that cannot be read, and why.
pub fn load(folder: &Path) -> Result<Vec<Case>, CaseError> {
    let failed = |file: &Path, reason: &dyn std::fmt::Display| CaseError {
        file: file.to_owned(),
        reason: reason.to_string(),
    };
    let listed = || -> io::Result<Vec<PathBuf>> {
        let entries = fs::read_dir(folder)?;
        entries.map(|entry| Ok(entry?.path())).collect()
    };
    let mut files = listed().map_err(|error| failed(folder, &error))?;
    files.sort();
    let mut backgrounds: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    let mut cases = Vec::new();
    for path in files {
        let text = fs::read_to_string(&path).map_err(|error| failed(&path, &error))?;
        let file: File = serde_saphyr::from_str(&text).map_err(|error| failed(&path, &error))?;
        if !file.background.is_empty() && !backgrounds.contains_key(&file.background) {
            let parent = folder.parent().unwrap_or(folder).join("background");
            let from = parent.join(format!("{}.yaml", file.background));
            let text = fs::read_to_string(&from).map_err(|error| failed(&from, &error))?;
            let read: Background =
                serde_saphyr::from_str(&text).map_err(|error| failed(&from, &error))?;
            backgrounds.insert(file.background.clone(), read.objects);
        }
        let behind = backgrounds
            .get(&file.background)
            .map_or(&[][..], Vec::as_slice);
        let name = path.file_stem().unwrap_or_default();
        let name = name.to_string_lossy().into_owned();
        let case = case(name, file, behind).map_err(|error| failed(&path, &error))?;
        cases.push(case);
    }
    Ok(cases)
}

fn case(name: String, file: File, behind: &[Value]) -> Result<Case, serde_json::Error> {
    let replaced: Vec<_> = file.objects.iter().map(key).chain(file.remove).collect();
    let kept = behind
        .iter()
        .filter(|object| !replaced.contains(&key(object)));
    let mut state = State::default();
    let mut events = Vec::new();
    for object in kept.chain(&file.objects) {
        if object["kind"] == "Event" {
            events.push(object.clone());
        }
        state.apply_json(object.clone())?;
    }
    state.set_all_known();
    for (container, logs) in &file.logs {
        let mut parts = container.splitn(3, '/');
        let (Some(namespace), Some(pod), Some(container)) =
            (parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        let text = logs.previous.as_deref().or(logs.current.as_deref());
        if let Some(line) = text.and_then(telling_line) {
            state.set_log_line(namespace, pod, container, line);
        }
    }
    Ok(Case {
        name,
        title: file.title,
        class: file.class,
        now: file.now,
        truth: file.truth.unwrap_or_default(),
        state,
        events,
    })
}

fn or_empty<'de, D: serde::Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    Option::deserialize(from).map(Option::unwrap_or_default)
}

/// `Kind/namespace/name`; the namespace of what is cluster-wide is empty.
fn key(object: &Value) -> String {
    let meta = &object["metadata"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let kind = text(&object["kind"]);
    format!(
        "{kind}/{}/{}",
        text(&meta["namespace"]),
        text(&meta["name"])
    )
}

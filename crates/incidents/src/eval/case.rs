//! Cases as data: objects as `kubectl get -o yaml` prints them, and what is true about them.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::Value;

use crate::{messages::telling_line, objects::ObjectRef, state::State};

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
    /// The objects as they were read, events among them.
    pub objects: Vec<Arc<Value>>,
    /// By pod and container.
    log_lines: Vec<(ObjectRef, String, String)>,
}

/// How the objects of a case got into the cluster that is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// It is the cluster that was recorded.
    Live,
    /// They were written to another API server, which gave them other uids and times of
    /// creation; their times are those of now.
    Replayed,
    /// The same, and their references to owners were left out.
    Orphaned,
    /// As replayed, and their times are those of long ago.
    Unshifted,
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
    let mut backgrounds: BTreeMap<String, Vec<Arc<Value>>> = BTreeMap::new();
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
            let objects = read.objects.into_iter().map(Arc::new);
            backgrounds.insert(file.background.clone(), objects.collect());
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

fn case(name: String, file: File, behind: &[Arc<Value>]) -> Result<Case, serde_json::Error> {
    let removed = file.remove.iter().map(|name| named(name));
    let replaced: Vec<_> = file.objects.iter().map(key).chain(removed).collect();
    let kept = behind
        .iter()
        .filter(|object| !replaced.contains(&key(object)))
        .cloned();
    let objects = kept.chain(file.objects.into_iter().map(Arc::new)).collect();
    let mut log_lines = Vec::new();
    for (container, logs) in &file.logs {
        let mut parts = container.splitn(3, '/');
        let (Some(namespace), Some(pod), Some(container)) =
            (parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        let text = logs.previous.as_deref().or(logs.current.as_deref());
        if let Some(line) = text.and_then(telling_line) {
            let pod = ObjectRef::new("Pod", namespace, pod);
            log_lines.push((pod, container.to_owned(), line.to_owned()));
        }
    }
    let mut case = Case {
        name,
        title: file.title,
        class: file.class,
        now: file.now,
        truth: file.truth.unwrap_or_default(),
        state: State::default(),
        objects,
        log_lines,
    };
    case.state = case.read()?;
    Ok(case)
}

// === impl Case ===

impl Case {
    /// The same objects, written to an API server in another way.
    ///
    /// # Errors
    ///
    /// Says why an object cannot be read.
    pub fn in_form(&self, form: Form) -> Result<Self, serde_json::Error> {
        let now = match form {
            Form::Live => return Ok(self.clone()),
            Form::Replayed | Form::Orphaned => self.now,
            Form::Unshifted => self.now + SignedDuration::from_hours(200 * 24),
        };
        let copies = self.objects.iter().enumerate().map(|(number, object)| {
            let mut object = Value::clone(object);
            let meta = &mut object["metadata"];
            meta["creationTimestamp"] = now.to_string().into();
            meta["uid"] = format!("copy-{number}").into();
            if meta["generation"].is_number() {
                meta["generation"] = 1.into();
            }
            if form == Form::Orphaned {
                meta["ownerReferences"] = Value::Null;
            }
            Arc::new(object)
        });
        let mut case = Self {
            now,
            objects: copies.collect(),
            ..self.clone()
        };
        case.state = case.read()?;
        Ok(case)
    }

    /// The events, for the baseline.
    pub fn events(&self) -> impl Iterator<Item = &Value> {
        let objects = self.objects.iter().map(|object| &**object);
        objects.filter(|object| object["kind"] == "Event")
    }

    fn read(&self) -> Result<State, serde_json::Error> {
        let mut state = State::default();
        for object in &self.objects {
            state.apply_json(Value::clone(object))?;
        }
        state.set_all_known();
        for (pod, container, line) in &self.log_lines {
            state.set_log_line(&pod.namespace, &pod.name, container, line);
        }
        Ok(state)
    }
}

fn or_empty<'de, D: serde::Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    Option::deserialize(from).map(Option::unwrap_or_default)
}

/// `namespace/kind/name` or `kind/name`, the kind in lower case.
pub fn key(object: &Value) -> String {
    let meta = &object["metadata"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (kind, name) = (text(&object["kind"]).to_lowercase(), text(&meta["name"]));
    match &*text(&meta["namespace"]) {
        "" => format!("{kind}/{name}"),
        namespace => format!("{namespace}/{kind}/{name}"),
    }
}

/// The same of what a person wrote: `Kind/namespace/name` is fine, too.
pub fn named(name: &str) -> String {
    let parts: Vec<_> = name.split('/').collect();
    match parts.as_slice() {
        [kind, "", name] => format!("{}/{name}", kind.to_lowercase()),
        [kind, namespace, name] if kind.starts_with(|one: char| one.is_ascii_uppercase()) => {
            format!("{namespace}/{}/{name}", kind.to_lowercase())
        }
        _ => name.to_owned(),
    }
}

//! Reads of the project's resources.

use std::{
    collections::{BTreeMap, VecDeque},
    fs::File,
    io::Read,
    os::unix::fs::MetadataExt,
    path::{Component, Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;

use super::{
    arguments::{self, variable_name},
    call::{CallTarget, with_target},
    checked_path::OpenError,
    file_of,
    item::{ContentSource, Program, Rejection, Snapshot},
    process::{ProcessEvent, ProcessSpec, RunError, describe_exit},
    project::Project,
    safety::PathChecker,
    template::{self, UriError},
};

/// The size of a file that is read.
const READ_MAX: u64 = 10 << 20;
/// The time that a provider has.
const PROVIDER_TIMEOUT: Duration = Duration::from_secs(30);
/// The exit code with which a provider says that there is no such resource.
const NOT_FOUND_EXIT: i32 = 3;

/// The last lines of a provider's stderr that an error has.
const ERROR_LINES_MAX: usize = 10;
/// The folder to which the files of templates are confined.
const RESOURCES: &str = "resources";

/// The content of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceBody {
    /// Text or not: see the type, and look at them.
    pub bytes: Vec<u8>,
    /// The type, if the resource has one.
    pub mime_type: Option<String>,
}

/// Says why a resource cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// There is no such resource, or its file may not be read by clients.
    #[error("there is no such resource")]
    NotFound,
    /// The URI matches a template, and names nothing that it may name.
    #[error("{0}")]
    Uri(String),
    /// The resource exists and reading it failed.
    #[error("the resource cannot be read: {0}")]
    Failed(String),
}

/// A resource, or a template with the variables of the URI.
struct Match<'a> {
    source: &'a ContentSource,
    mime_type: Option<&'a String>,
    variables: BTreeMap<String, String>,
}

// === impl Project ===

impl Project {
    /// Whether a URI is that of a resource of the project, or has the form of one.
    pub fn has(&self, uri: &str) -> bool {
        find(&self.current(), uri).is_some()
    }

    /// A stamp that changes with the content of a resource; `None` if the content comes
    /// from a command, or the URI cannot name a file.
    pub fn stamp(&self, uri: &str) -> Option<String> {
        let now = self.current();
        let found = find(&now, uri)?.ok()?;
        let root = &self.config().root;
        let (folder, path) = found.file(root, uri)?.ok()?;
        let opened = PathChecker::new(root)
            .ok()
            .and_then(|checker| checker.open_file(folder, &path).ok());
        let meta = opened.and_then(|file| file.metadata().ok());
        let stamp = meta.map(|meta| (meta.ino(), meta.len(), meta.mtime(), meta.mtime_nsec()));
        Some(format!("{stamp:?}"))
    }

    /// Reads a resource. What a provider writes to stderr passes `clean`, line by line, before
    /// it is logged or becomes part of an error.
    pub async fn read(
        &self,
        uri: &str,
        target: &CallTarget,
        clean: impl FnMut(&str) -> String + Send,
    ) -> Result<ResourceBody, ReadError> {
        let now = self.current();
        let found = find(&now, uri).ok_or(ReadError::NotFound)??;
        let mime_type = found.mime_type.cloned();
        let root = self.config().root.clone();
        let bytes = match (found.source, found.file(&root, uri)) {
            (ContentSource::Command(program), _) => {
                self.run_provider(program, uri, &found.variables, target, clean)
                    .await?
            }
            (ContentSource::File(_), None) => return Err(ReadError::NotFound),
            (ContentSource::File(_), Some(file)) => {
                let (folder, path) = file?;
                let read = move || read_file(&root, folder, &path);
                let read = tokio::task::spawn_blocking(read).await;
                read.map_err(|error| ReadError::Failed(error.to_string()))??
            }
        };
        Ok(ResourceBody { bytes, mime_type })
    }

    async fn run_provider(
        &self,
        program: &Program,
        uri: &str,
        variables: &BTreeMap<String, String>,
        target: &CallTarget,
        mut clean: impl FnMut(&str) -> String + Send,
    ) -> Result<Vec<u8>, ReadError> {
        arguments::check_uri(uri).map_err(ReadError::Uri)?;
        let opened = PathChecker::new(&program.root)
            .and_then(|checker| checker.open_program(program))
            .map_err(|Rejection { path, reason, .. }| {
                ReadError::Failed(format!("`{path}` is not run: {reason}"))
            })?;
        let mut environment = self.environment();
        for (name, value) in variables {
            environment = environment.with(variable_name(name), value);
        }
        let spec = ProcessSpec {
            program: opened,
            arguments: vec![uri.into()],
            stdin: Bytes::new(),
            environment: with_target(environment, target),
            timeout: PROVIDER_TIMEOUT,
        };
        let failed = |error: RunError| ReadError::Failed(format!("`{}`: {error}", program.file));
        // Cleaned from the first line on: a part of a key could not be recognised.
        let mut last_lines = VecDeque::new();
        let log = |event| {
            let line = match event {
                ProcessEvent::Log(line) => Some(line),
                ProcessEvent::Message(message) => Some(message.text()),
                ProcessEvent::Progress(_) => None,
            };
            if let Some(line) = line {
                let line = clean(&line);
                tracing::info!(provider = program.file, line, "provider says");
                last_lines.push_back(line);
                if last_lines.len() > ERROR_LINES_MAX {
                    last_lines.pop_front();
                }
            }
        };
        let process = self.runner().start(spec).await.map_err(failed)?;
        let output = process.wait_with(log).await.map_err(failed)?;
        match output.status.code() {
            Some(0) => Ok(output.stdout),
            Some(NOT_FOUND_EXIT) => Err(ReadError::NotFound),
            _ => Err(ReadError::Failed(format!(
                "`{}`: {}: {}",
                program.file,
                describe_exit(output.status),
                Vec::from(last_lines).join("\n")
            ))),
        }
    }
}

impl From<UriError> for ReadError {
    fn from(error: UriError) -> Self {
        Self::Uri(error.to_string())
    }
}

// === impl Match ===

impl Match<'_> {
    /// The folder to which the file is confined, and its path there; `None` if there is no
    /// file. The author of the project chose the file of a resource, anywhere in the project;
    /// a client chooses that of a template, in `resources/`.
    fn file(&self, root: &Path, uri: &str) -> Option<Result<(&'static Path, PathBuf), ReadError>> {
        let ContentSource::File(path) = self.source else {
            return None;
        };
        let path = match path {
            Some(path) => template::fill(path, &self.variables),
            None => file_of(root, uri)?,
        };
        let refused = |why: String| ReadError::Uri(format!("`{uri}` names no resource: {why}"));
        if let Err(why) = template::check_path(&path) {
            return Some(Err(refused(why)));
        }
        // Without `.`, which a URI such as `file://./a` has.
        let path: PathBuf = Path::new(&path)
            .components()
            .filter(|part| matches!(part, Component::Normal(_)))
            .collect();
        if self.variables.is_empty() {
            return Some(Ok((Path::new(""), path)));
        }
        let below = path.strip_prefix(RESOURCES).ok();
        Some(match below.filter(|below| *below != Path::new("")) {
            Some(below) => Ok((Path::new(RESOURCES), below.to_owned())),
            None => Err(refused(format!(
                "a template has files in `{RESOURCES}/` only"
            ))),
        })
    }
}

/// Finds the resource or template of a URI.
fn find<'a>(now: &'a Arc<Snapshot>, uri: &str) -> Option<Result<Match<'a>, UriError>> {
    if let Some(one) = now.resource(uri) {
        return Some(Ok(Match {
            source: &one.backing,
            mime_type: one.mime_type.as_ref(),
            variables: BTreeMap::new(),
        }));
    }
    // Another template may accept what the first one refuses.
    let mut refused = None;
    for one in &now.templates {
        match one.template.variables(uri) {
            None => {}
            Some(Err(error)) => refused = refused.or(Some(error)),
            Some(Ok(variables)) => {
                return Some(Ok(Match {
                    source: &one.backing,
                    mime_type: one.mime_type.as_ref(),
                    variables,
                }));
            }
        }
    }
    refused.map(Err)
}

fn read_file(root: &Path, folder: &Path, path: &Path) -> Result<Vec<u8>, ReadError> {
    let not_read = |path: String, reason: String| {
        tracing::debug!(path, reason, "not read");
        ReadError::NotFound
    };
    let checker =
        PathChecker::new(root).map_err(|rejection| not_read(rejection.path, rejection.reason))?;
    let file: File = checker
        .open_file(folder, path)
        .map_err(|error| match error {
            OpenError::Io(error) => ReadError::Failed(error.to_string()),
            other => not_read(path.display().to_string(), other.to_string()),
        })?;
    let mut bytes = Vec::new();
    file.take(READ_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| ReadError::Failed(error.to_string()))?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > READ_MAX {
        return Err(ReadError::Failed(format!(
            "it has more than {READ_MAX} bytes"
        )));
    }
    Ok(bytes)
}

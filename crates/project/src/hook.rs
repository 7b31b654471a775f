//! The hook `server.d/register.sh`, which prints a registration, or calls the functions of
//! mcp-bash's hooks. It runs only if the
//! operator allowed it, and only if no other user could have written it.

use std::{fs, path::Path, sync::Arc, time::Duration};

use bytes::Bytes;

use super::{
    executable::Executable,
    item::{Program, Rejection},
    mcp_bash::with_register_functions,
    process::{ProcessSpec, describe_exit},
    project::Project,
    registration::Registration,
    safety::PathChecker,
};

const FILE: &str = "server.d/register.sh";
/// Short, because a client waits for its list while the hook runs.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The last registration of the hook, and the error of its last run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct HookResult {
    pub(super) registration: Option<Arc<Registration>>,
    /// Why the hook did not run, or failed.
    pub(super) rejection: Option<Rejection>,
}

// === impl HookResult ===

impl HookResult {
    /// Keeps the registration of the run before if this one failed.
    pub(super) fn or_last(mut self, last: &Self) -> Self {
        if self.rejection.is_some() {
            self.registration.clone_from(&last.registration);
        }
        self
    }
}

/// The rejection of a hook that exists and is not allowed to run.
pub(super) fn not_allowed(root: &Path) -> Option<Rejection> {
    let there = root.join(FILE).symlink_metadata().is_ok();
    there.then(|| Rejection::new(FILE, "it is not run without --allow-register-hook"))
}

/// Runs the hook, if there is one to run.
pub(super) async fn run(project: &Project) -> HookResult {
    let root = &project.config().root;
    let file = root.join(FILE);
    // A registration as data takes precedence over code.
    if file.symlink_metadata().is_err() || root.join("server.d/register.json").exists() {
        return HookResult::default();
    }
    let result = match open(root) {
        Ok(program) => execute(project, program).await,
        Err(rejection) => Err(rejection),
    };
    let (registration, rejection) = match result {
        Ok(registration) => (Some(Arc::new(registration)), None),
        Err(rejection) => (None, Some(rejection)),
    };
    HookResult {
        registration,
        rejection,
    }
}

fn open(root: &Path) -> Result<Executable, Rejection> {
    let checker = PathChecker::new(root)?;
    let path = root.join(FILE);
    let is_link = fs::symlink_metadata(&path).is_ok_and(|meta| meta.file_type().is_symlink());
    if is_link {
        return Err(checker.rejection(&path, "it is a link; it must be the file itself"));
    }
    checker.open_program(&Program {
        root: root.to_owned(),
        path,
        folder: root.join("server.d"),
        file: FILE.to_owned(),
        digest: String::new(),
    })
}

async fn execute(project: &Project, program: Executable) -> Result<Registration, Rejection> {
    let reject = |why: String| Rejection::new(FILE, why);
    let spec = ProcessSpec {
        program,
        arguments: Vec::new(),
        stdin: Bytes::new(),
        environment: with_register_functions(project.environment()),
        timeout: TIMEOUT,
    };
    let process = project.runner().start(spec).await;
    let process = process.map_err(|error| reject(error.to_string()))?;
    let output = process.wait_with(|_| {}).await;
    let output = output.map_err(|error| reject(error.to_string()))?;
    if !output.status.success() {
        let stderr = output.stderr_tail.join("; ");
        let exit = describe_exit(output.status);
        return Err(reject(format!("{exit}: {stderr}")));
    }
    Registration::parse_hook(&output.stdout)
        .map_err(|why| reject(format!("what it printed: {why}")))
}

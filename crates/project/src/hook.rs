//! `server.d/register.sh`: code that says what to register. It runs only where the
//! operator allowed it, and only if nobody else could have written it.

use std::{fs, path::Path, sync::Arc, time::Duration};

use bytes::Bytes;

use super::{
    item::Refusal,
    process::{Job, describe},
    project::Project,
    register::Register,
    safety::Guard,
};

const FILE: &str = "server.d/register.sh";
/// It stands between a client and a list.
const TIMEOUT: Duration = Duration::from_secs(5);

/// What the hook last said, and what is wrong with it now.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Hook {
    /// What it registered.
    pub(super) said: Option<Arc<Register>>,
    /// Why it did not run, or did not end well.
    pub(super) refusal: Option<Refusal>,
}

// === impl Hook ===

impl Hook {
    /// A hook that fails takes nothing back: what it last said stays.
    pub(super) fn after(self, before: &Self) -> Self {
        match (&self.said, &self.refusal) {
            (None, Some(_)) => Self {
                said: before.said.clone(),
                ..self
            },
            _ => self,
        }
    }
}

/// Whether there is a hook that nobody allowed.
pub(super) fn is_idle(root: &Path) -> Option<Refusal> {
    let there = root.join(FILE).symlink_metadata().is_ok();
    there.then(|| Refusal::new(FILE, "it is not run without --allow-register-hook"))
}

/// Runs the hook, if there is one to run.
pub(super) async fn run(project: &Project) -> Hook {
    let root = &project.config().root;
    let file = root.join(FILE);
    // Data wins over code.
    if file.symlink_metadata().is_err() || root.join("server.d/register.json").exists() {
        return Hook::default();
    }
    let said = match check(root) {
        Ok(()) => ask(project).await,
        Err(refusal) => Err(refusal),
    };
    match said {
        Ok(register) => Hook {
            said: Some(Arc::new(register)),
            refusal: None,
        },
        Err(refusal) => Hook {
            said: None,
            refusal: Some(refusal),
        },
    }
}

fn check(root: &Path) -> Result<(), Refusal> {
    let user = rustix::process::geteuid().as_raw();
    let guard = Guard::new(root, user)?;
    guard.look(&root.join("server.d"))?;
    let file = root.join(FILE);
    let is_link = fs::symlink_metadata(&file).is_ok_and(|meta| meta.file_type().is_symlink());
    if is_link {
        return Err(guard.refusal(&file, "it is a link; it must be the file itself"));
    }
    guard.look(&file).map(|_there| ())
}

async fn ask(project: &Project) -> Result<Register, Refusal> {
    let refuse = |why: String| Refusal::new(FILE, why);
    let root = &project.config().root;
    let job = Job {
        program: root.join(FILE),
        folder: root.join("server.d"),
        arguments: Vec::new(),
        stdin: Bytes::new(),
        environment: project.environment().into_vec(),
        timeout: TIMEOUT,
    };
    let running = project.runner().start(job).await;
    let running = running.map_err(|error| refuse(error.to_string()))?;
    let ended = running.finish(|_| {}).await;
    let ended = ended.map_err(|error| refuse(error.to_string()))?;
    if !ended.status.success() {
        let said = ended.complaints.join("; ");
        return Err(refuse(format!("{}: {said}", describe(ended.status))));
    }
    Register::parse(&ended.stdout).map_err(|why| refuse(format!("what it printed: {why}")))
}

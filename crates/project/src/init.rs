//! `kubecrier init DIR`: a small project to begin with, one example of each kind.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

/// The files, seen from the root, and whether they are run.
const FILES: [(&str, &str, bool); 11] = [
    ("README.md", include_str!("init/README.md"), false),
    (
        "tools/restarts/tool.sh",
        include_str!("init/restarts.sh"),
        true,
    ),
    (
        "tools/restarts/tool.meta.json",
        include_str!("init/restarts.meta.json"),
        false,
    ),
    (
        "resources/on-call.md",
        include_str!("init/on-call.md"),
        false,
    ),
    (
        "resources/on-call.meta.json",
        include_str!("init/on-call.meta.json"),
        false,
    ),
    (
        "resources/runbooks/full-disk.md",
        include_str!("init/full-disk.md"),
        false,
    ),
    (
        "resources/runbook.meta.json",
        include_str!("init/runbook.meta.json"),
        false,
    ),
    (
        "resources/now.meta.json",
        include_str!("init/now.meta.json"),
        false,
    ),
    ("providers/now.sh", include_str!("init/now.sh"), true),
    ("prompts/triage.md", include_str!("init/triage.md"), false),
    (
        "prompts/triage.meta.json",
        include_str!("init/triage.meta.json"),
        false,
    ),
];

/// Why no project was made.
#[derive(Debug, thiserror::Error)]
#[error("cannot write `{}`: {error}", path.display())]
pub struct InitError {
    /// What was to be written.
    path: PathBuf,
    /// Why not.
    error: io::Error,
}

/// Writes the examples; a file that is there already is never touched, and then
/// nothing is written at all.
pub fn init(root: &Path) -> Result<Vec<PathBuf>, InitError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |error| InitError { path, error }
    };
    let all: Vec<_> = FILES.iter().map(|(file, ..)| root.join(file)).collect();
    for path in &all {
        if path.symlink_metadata().is_ok() {
            let there = io::Error::new(io::ErrorKind::AlreadyExists, "it is there already");
            return Err(failed(path)(there));
        }
    }
    for ((_, text, run), path) in FILES.iter().zip(&all) {
        if let Some(folder) = path.parent() {
            // Whatever the umask says: what others could write would be refused.
            let mut builder = fs::DirBuilder::new();
            let made = builder.recursive(true).mode(0o755).create(folder);
            made.map_err(failed(folder))?;
        }
        let mode = if *run { 0o755 } else { 0o644 };
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(mode);
        options
            .open(path)
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .map_err(failed(path))?;
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        hook::Hook,
        scan::{Reserved, Scanner},
    };

    #[test]
    fn the_example_is_served_without_a_complaint() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("new/project");
        assert_eq!(init(&root).unwrap().len(), FILES.len());
        let mut scanner = Scanner::new(root.clone(), Reserved::default(), |_, _| Ok(()));
        let found = scanner.scan(&Hook::default());
        assert_eq!(found.refusals, []);
        assert_eq!(
            (
                found.tools.len(),
                found.resources.len(),
                found.templates.len(),
                found.prompts.len()
            ),
            (1, 2, 1, 1)
        );
        let again = init(&root).unwrap_err();
        assert!(
            again
                .to_string()
                .contains("README.md`: it is there already"),
            "{again}"
        );
    }
}

//! `kubecrier init DIR`: writes an example project with one item of each kind.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

/// A file of the example: its path relative to the root, and its content.
macro_rules! example {
    ($path:literal) => {
        ($path, include_str!(concat!("init/", $path)))
    };
}

/// The example; scripts are executable.
const FILES: [(&str, &str); 11] = [
    example!("README.md"),
    example!("tools/restarts/tool.sh"),
    example!("tools/restarts/tool.meta.json"),
    example!("resources/on-call.md"),
    example!("resources/on-call.meta.json"),
    example!("resources/runbooks/full-disk.md"),
    example!("resources/runbook.meta.json"),
    example!("resources/now.meta.json"),
    example!("providers/now.sh"),
    example!("prompts/triage.md"),
    example!("prompts/triage.meta.json"),
];

/// Reports a file of the example that could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write `{}`: {error}", path.display())]
pub struct InitError {
    path: PathBuf,
    error: io::Error,
}

/// Writes the example project. If any of its files exists, nothing is written at all.
pub fn init(root: &Path) -> Result<Vec<PathBuf>, InitError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |error| InitError { path, error }
    };
    let all: Vec<_> = FILES.iter().map(|(file, _)| root.join(file)).collect();
    for path in &all {
        if path.symlink_metadata().is_ok() {
            let there = io::Error::new(io::ErrorKind::AlreadyExists, "it is there already");
            return Err(failed(path)(there));
        }
    }
    for ((_, text), path) in FILES.iter().zip(&all) {
        if let Some(folder) = path.parent() {
            // Whatever the umask is: files that others may write would be rejected.
            let mut builder = fs::DirBuilder::new();
            let made = builder.recursive(true).mode(0o755).create(folder);
            made.map_err(failed(folder))?;
        }
        let is_script = path.extension().is_some_and(|ext| ext == "sh");
        let mode = if is_script { 0o755 } else { 0o644 };
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
        hook::HookResult,
        scan::{ReservedNames, Scanner},
    };

    #[test]
    fn the_example_is_served_without_rejections() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("new/project");
        assert_eq!(init(&root).unwrap().len(), FILES.len());
        let mut scanner = Scanner::new(root.clone(), ReservedNames::default(), |_, _| Ok(()));
        let found = scanner.scan(&HookResult::default());
        assert_eq!(found.rejections, []);
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

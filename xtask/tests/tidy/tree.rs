//! The files of the project.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// A text file and its path, relative to the root.
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) text: String,
}

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// Every text file below a folder, in the order of their names.
pub(crate) fn files(below: &str) -> Vec<File> {
    let mut found = Vec::new();
    walk(&root().join(below), &mut found);
    found.sort();
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).ok()?;
        let path = path
            .strip_prefix(root())
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned();
        Some(File { path, text })
    };
    found.into_iter().filter_map(read).collect()
}

/// The text files whose names have this ending.
pub(crate) fn files_named(below: &str, ending: &str) -> Vec<File> {
    let files: Vec<_> = files(below)
        .into_iter()
        .filter(|file| file.path.ends_with(ending))
        .collect();
    assert!(
        !files.is_empty(),
        "no {ending} files below {below}: the rule would hold for nothing"
    );
    files
}

fn walk(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if matches!(
            name,
            "target" | ".git" | "node_modules" | "proptest-regressions"
        ) {
            continue;
        }
        if path.is_dir() {
            walk(&path, found);
        } else {
            found.push(path);
        }
    }
}

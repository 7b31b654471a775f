//! Files that are shown before they are written. What is there already is left: the same text
//! needs nothing, and another one is the user's, unless they say otherwise.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use super::agents::RecipeFile;

/// A file cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[error("cannot {what} `{}`: {error}", path.display())]
pub(super) struct FileError {
    what: &'static str,
    path: PathBuf,
    error: io::Error,
}

/// What is to be done with each file.
#[derive(Debug)]
pub(super) struct Plan {
    steps: Vec<Step>,
}

#[derive(Debug)]
struct Step {
    path: PathBuf,
    /// What stands there; `None` if there is no such file.
    before: Option<String>,
    after: String,
    /// What is there stays in it.
    is_addition: bool,
}

// === impl Plan ===

impl Plan {
    /// Reads what is there.
    pub(super) fn new(dir: &Path, files: &[RecipeFile]) -> Result<Self, FileError> {
        let steps = files.iter().map(|file| {
            let path = dir.join(file.path);
            let before = match fs::read_to_string(&path) {
                Ok(text) => Some(text),
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                Err(error) => {
                    let what = "read";
                    return Err(FileError { what, path, error });
                }
            };
            let added = before.as_ref().zip(file.added_without);
            let after = match added {
                Some((text, mark)) if text.lines().any(|line| line.trim() == mark) => text.clone(),
                Some((text, _)) if text.is_empty() || text.ends_with("\n\n") => {
                    format!("{text}{}", file.text)
                }
                Some((text, _)) if text.ends_with('\n') => format!("{text}\n{}", file.text),
                Some((text, _)) => format!("{text}\n\n{}", file.text),
                None => file.text.clone(),
            };
            let is_addition = added.is_some();
            Ok(Step {
                path,
                before,
                after,
                is_addition,
            })
        });
        let steps = steps.collect::<Result<_, _>>()?;
        Ok(Self { steps })
    }

    /// Whether everything is there as it should be.
    pub(super) fn is_done(&self) -> bool {
        self.steps.iter().all(Step::is_done)
    }

    /// What would be written.
    pub(super) fn preview(&self) -> Vec<String> {
        let lines = self.steps.iter().flat_map(|step| {
            let path = step.path.display();
            let title = match &step.before {
                None => format!("{path}: new"),
                Some(_) if step.is_done() => format!("{path}: there already"),
                Some(_) if step.is_addition => format!("{path}: will be added to"),
                Some(_) => format!("{path}: differs, and stays as it is without --force"),
            };
            let diff = diff(step.before.as_deref().unwrap_or_default(), &step.after);
            [title].into_iter().chain(diff)
        });
        lines.collect()
    }

    /// Writes what is new or an addition; with `force` also over what differs.
    pub(super) fn write(&self, force: bool) -> Result<Vec<String>, FileError> {
        let mut lines = Vec::new();
        for step in &self.steps {
            let path = step.path.display();
            let line = match &step.before {
                Some(_) if step.is_done() => format!("{path}: there already"),
                Some(_) if !step.is_addition && !force => {
                    format!("{path}: differs, not written (--force replaces it)")
                }
                before => {
                    step.write()?;
                    match before {
                        None => format!("{path}: written"),
                        Some(_) if step.is_addition => format!("{path}: added to"),
                        Some(_) => format!("{path}: replaced"),
                    }
                }
            };
            lines.push(line);
        }
        Ok(lines)
    }
}

// === impl Step ===

impl Step {
    fn is_done(&self) -> bool {
        self.before.as_deref() == Some(self.after.as_str())
    }

    fn write(&self) -> Result<(), FileError> {
        let failed = |error| FileError {
            what: "write",
            path: self.path.clone(),
            error,
        };
        if let Some(folder) = self.path.parent() {
            fs::create_dir_all(folder).map_err(failed)?;
        }
        fs::write(&self.path, &self.after).map_err(failed)
    }
}

/// The lines that differ, between those that do not at the beginning and at the end.
fn diff(before: &str, after: &str) -> Vec<String> {
    let (before, after): (Vec<_>, Vec<_>) = (before.lines().collect(), after.lines().collect());
    let same = before.iter().zip(&after).take_while(|(a, b)| a == b);
    let same = same.count();
    let (before, after) = (&before[same..], &after[same..]);
    let tail = before.iter().rev().zip(after.iter().rev());
    let tail = tail.take_while(|(a, b)| a == b).count();
    let removed = before[..before.len() - tail].iter();
    let added = after[..after.len() - tail].iter();
    let removed = removed.map(|line| format!("  - {line}"));
    removed
        .chain(added.map(|line| format!("  + {line}")))
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MARK: &str = "[mcp_servers.kubecrier]";

    fn files() -> [RecipeFile; 2] {
        [("folder/script.sh", None), ("config.toml", Some(MARK))].map(|(path, added_without)| {
            RecipeFile {
                path,
                text: format!("{MARK}\nours = 1\n"),
                added_without,
            }
        })
    }

    fn plan(dir: &Path) -> Plan {
        Plan::new(dir, &files()).unwrap()
    }

    #[test]
    fn what_is_new_is_shown_written_once_and_then_left() {
        let dir = tempfile::tempdir().unwrap();
        let shown = plan(dir.path()).preview().join("\n");
        assert!(shown.contains("script.sh: new\n  + [mcp"), "{shown}");
        assert!(!dir.path().join("config.toml").exists(), "it is only shown");
        let lines = plan(dir.path()).write(false).unwrap();
        assert!(
            lines.iter().all(|line| line.ends_with(": written")),
            "{lines:?}"
        );
        assert!(plan(dir.path()).is_done());
        let again = plan(dir.path()).write(true).unwrap();
        assert!(
            again.iter().all(|line| line.ends_with(": there already")),
            "{again:?}"
        );
        let shown = plan(dir.path()).preview();
        assert_eq!(shown.len(), 2, "{shown:?}");
    }

    #[test]
    fn what_a_user_has_changed_stays_unless_they_say_otherwise() {
        let dir = tempfile::tempdir().unwrap();
        plan(dir.path()).write(false).unwrap();
        let path = dir.path().join("folder/script.sh");
        let own = format!("{MARK}\nours = 2\n");
        fs::write(&path, &own).unwrap();
        let shown = plan(dir.path()).preview().join("\n");
        assert!(shown.contains("differs"), "{shown}");
        assert!(shown.contains("  - ours = 2\n  + ours = 1"), "{shown}");
        assert!(!shown.contains("- [mcp"), "{shown}");
        let lines = plan(dir.path()).write(false).unwrap().join("\n");
        assert!(lines.contains("not written (--force"), "{lines}");
        assert_eq!(fs::read_to_string(&path).unwrap(), own);
        plan(dir.path()).write(true).unwrap();
        assert_eq!(
            fs::read_to_string(&path).unwrap(),
            format!("{MARK}\nours = 1\n")
        );
    }

    #[test]
    fn settings_of_the_user_are_added_to_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.toml");
        for own in ["", "a = 1", "a = 1\n", "a = 1\n\n"] {
            fs::write(&path, own).unwrap();
            plan(dir.path()).write(false).unwrap();
            let text = fs::read_to_string(&path).unwrap();
            assert!(
                text.starts_with(own) && text.ends_with("ours = 1\n"),
                "{text}"
            );
            toml::from_str::<toml::Table>(&text).unwrap();
            plan(dir.path()).write(true).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text, "once");
        }
        let own = format!("{MARK}\ntheirs = 1\n");
        fs::write(&path, &own).unwrap();
        plan(dir.path()).write(true).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), own, "it has an entry");
    }

    proptest! {
        /// Whoever follows the diff has the new text.
        #[test]
        fn a_diff_has_every_line_that_differs(
            before in "([abc]\n){0,8}", after in "([abc]\n){0,8}",
        ) {
            let lines = diff(&before, &after);
            let count = |text: &str| i64::try_from(text.lines().count()).unwrap();
            let signs = |sign: &str| {
                let found = lines.iter().filter(|line| line.starts_with(sign)).count();
                i64::try_from(found).unwrap()
            };
            prop_assert_eq!(signs("  + ") - signs("  - "), count(&after) - count(&before));
            prop_assert_eq!(lines.is_empty(), before == after);
        }
    }
}

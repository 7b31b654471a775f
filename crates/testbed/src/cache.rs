//! A folder outside the checkout for what is fetched or built once per machine.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

/// A folder that is being filled.
pub(crate) struct Staging {
    scratch: tempfile::TempDir,
    target: PathBuf,
}

// === impl Staging ===

impl Staging {
    /// The temporary folder; moved to the target when it is complete.
    pub(crate) fn path(&self) -> &Path {
        self.scratch.path()
    }

    /// The final folder.
    pub(crate) fn target(&self) -> &Path {
        &self.target
    }
}

/// The root of the cache, which all clones of the repository share.
pub(crate) fn root() -> Result<PathBuf> {
    if let Some(dir) = env::var_os("TESTBED_CACHE").filter(|dir| !dir.is_empty()) {
        return Ok(dir.into());
    }
    let base = match env::var_os("XDG_CACHE_HOME").filter(|dir| !dir.is_empty()) {
        Some(dir) => PathBuf::from(dir),
        None => env::home_dir()
            .context("neither HOME nor TESTBED_CACHE is set")?
            .join(".cache"),
    };
    Ok(base.join("kubecrier"))
}

/// Fills `target` completely or not at all. Of two concurrent runs, the second waits and
/// uses the result of the first.
pub(crate) fn fill(target: &Path, work: impl FnOnce(&Staging) -> Result<()>) -> Result<()> {
    let parent = target.parent().context("a cache folder has a parent")?;
    fs::create_dir_all(parent).with_context(|| format!("cannot create `{}`", parent.display()))?;
    let lock = fs::File::create(parent.join("lock"))?;
    lock.lock().context("cannot lock the cache")?;
    if target.is_dir() {
        return Ok(());
    }
    let scratch = tempfile::Builder::new()
        .prefix("filling-")
        .tempdir_in(parent)?;
    let staging = Staging {
        scratch,
        target: target.to_owned(),
    };
    if let Err(error) = work(&staging) {
        // The next run would take a partial folder for a complete one.
        if target.exists() {
            fs::remove_dir_all(target)?;
        }
        return Err(error);
    }
    if !target.exists() {
        fs::rename(staging.scratch.keep(), target)
            .with_context(|| format!("cannot move the result to `{}`", target.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use anyhow::bail;

    use super::*;

    #[test]
    fn a_folder_is_filled_once() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("x");
        fill(&target, |staging| {
            Ok(fs::write(staging.path().join("file"), "1")?)
        })
        .unwrap();
        fill(&target, |_| bail!("already there")).unwrap();
        assert_eq!(fs::read_to_string(target.join("file")).unwrap(), "1");
    }

    #[test]
    fn half_a_folder_does_not_stay() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("x");
        let failed = fill(&target, |staging| {
            fs::create_dir(staging.target())?;
            bail!("no network")
        });
        assert_eq!(failed.unwrap_err().to_string(), "no network");
        assert!(!target.exists());
        let left: Vec<_> = fs::read_dir(dir.path())
            .unwrap()
            .map(|e| e.unwrap().file_name())
            .collect();
        assert_eq!(left, ["lock"]);
    }
}

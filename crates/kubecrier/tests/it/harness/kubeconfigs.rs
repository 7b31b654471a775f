//! Kubeconfigs for servers under test.

use std::path::PathBuf;

use testbed::{Cluster, Kubeconfig, User};

/// A kubeconfig in a folder of its own.
pub(crate) struct File {
    _dir: tempfile::TempDir,
    pub(crate) path: PathBuf,
}

pub(crate) fn kubeconfig(build: impl FnOnce(Kubeconfig) -> Kubeconfig) -> File {
    let dir = tempfile::tempdir().unwrap();
    let path = build(Kubeconfig::new())
        .write(&dir.path().join("config"))
        .unwrap();
    File { _dir: dir, path }
}

/// One context, `dev`, which is the current one.
pub(crate) fn one_context(cluster: &Cluster, user: User) -> File {
    kubeconfig(|file| file.context("dev", cluster, user).current("dev"))
}

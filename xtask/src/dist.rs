//! `cargo xtask dist`: everything that is given to users of this machine's platform, from one
//! program. The same program makes the same bytes.

mod archive;

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

use self::archive::tar_gz;
use crate::step::{cargo, in_root, print_line, root, run};

/// Folders that may be cleared: they hold this file, which is written last.
const SUMS: &str = "SHA256SUMS";

/// Shells whose completion scripts are in the archive, and the names they have there.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "kubecrier.bash"),
    ("zsh", "_kubecrier"),
    ("fish", "kubecrier.fish"),
];

/// Makes everything. Builds the program for release, unless there is one.
pub(crate) fn make(binary: Option<&Path>, out: &Path) -> Result<()> {
    let here = env::current_dir()?;
    let out = here.join(out);
    let binary = match binary {
        Some(binary) => here.join(binary),
        None => build()?,
    };
    clear(&out)?;
    for folder in ["npm", "pypi", "charts"] {
        fs::create_dir_all(out.join(folder))?;
    }
    let version = env!("CARGO_PKG_VERSION");
    let platform = platform()?;
    let name = format!("kubecrier-{version}-{platform}");
    make_archive(&binary, &name, &out.join(format!("{name}.tar.gz")))?;
    for (interpreter, script, folder) in [
        ("node", "packaging/npm/pack.mjs", "npm"),
        ("python3", "packaging/pypi/pack.py", "pypi"),
    ] {
        let mut pack = in_root(interpreter);
        pack.args([script, "--platform", &platform, "--binary"])
            .arg(&binary)
            .arg("--out")
            .arg(out.join(folder));
        run(&format!("packages for {folder}"), pack)?;
    }
    tar_gz(
        &root().join("charts"),
        "kubecrier",
        &out.join(format!("charts/kubecrier-{version}.tgz")),
    )?;
    fs::copy(
        root().join("packaging/server.json"),
        out.join("server.json"),
    )?;
    let sums = checksums(&out)?;
    fs::write(out.join(SUMS), &sums)?;
    print_line(&format!("made in {}:\n{sums}", out.display()));
    Ok(())
}

fn build() -> Result<PathBuf> {
    let build = ["build", "--release", "--locked", "--package", "kubecrier"];
    run("kubecrier for release", cargo(&build))?;
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), Into::into);
    Ok(target.join("release/kubecrier"))
}

/// Removes what an earlier run made, and nothing else.
fn clear(out: &Path) -> Result<()> {
    if !out.exists() {
        return Ok(());
    }
    if !out.join(SUMS).is_file() && fs::read_dir(out)?.next().is_some() {
        bail!(
            "`{}` was not made by this command: name an empty folder with --out",
            out.display()
        );
    }
    fs::remove_dir_all(out).with_context(|| format!("cannot clear `{}`", out.display()))
}

/// This machine, as npm calls it.
fn platform() -> Result<String> {
    let system = match env::consts::OS {
        "macos" => "darwin",
        "linux" => "linux",
        other => bail!("kubecrier is not packed for {other}"),
    };
    let cpu = match env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => bail!("kubecrier is not packed for {other}"),
    };
    Ok(format!("{system}-{cpu}"))
}

/// The program, and what belongs to an installation of it.
fn make_archive(binary: &Path, name: &str, archive: &Path) -> Result<()> {
    let scratch = tempfile::tempdir()?;
    let folder = scratch.path().join(name);
    fs::create_dir_all(folder.join("completions"))?;
    fs::copy(binary, folder.join("kubecrier"))
        .with_context(|| format!("cannot read `{}`", binary.display()))?;
    for file in ["LICENSE", "README.md", "CHANGELOG.md"] {
        fs::copy(root().join(file), folder.join(file))?;
    }
    for (shell, file) in COMPLETIONS {
        let script = printed_by(binary, &["completion", shell])?;
        fs::write(folder.join("completions").join(file), script)?;
    }
    fs::write(folder.join("kubecrier.1"), printed_by(binary, &["man"])?)?;
    tar_gz(scratch.path(), name, archive)
}

fn printed_by(binary: &Path, arguments: &[&str]) -> Result<Vec<u8>> {
    let done = Command::new(binary).args(arguments).output();
    let done = done.with_context(|| format!("cannot start `{}`", binary.display()))?;
    if !done.status.success() {
        let words = String::from_utf8_lossy(&done.stderr);
        bail!("`kubecrier {}` failed: {words}", arguments.join(" "));
    }
    Ok(done.stdout)
}

/// The lines that `sha256sum --check` reads.
fn checksums(out: &Path) -> Result<String> {
    let mut lines = String::new();
    for file in archive::files_below(out)? {
        let hash = Sha256::digest(fs::read(out.join(&file))?);
        let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        lines.push_str(&format!("{hash}  {}\n", file.display()));
    }
    Ok(lines)
}

#[cfg(test)]
mod tests;

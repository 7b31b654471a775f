//! `cargo xtask dist`: everything that is given to users of this machine's platform, from one
//! program, and the image from a static one. The same commit makes the same bytes, in any folder,
//! with the same toolchain and C library.

mod archive;
mod build;
mod image;
mod merge;
mod sbom;

use std::{env, fs, path::Path, process::Command};

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

pub(crate) use self::merge::merge;
use self::{archive::tar_gz, build::Programs};
use crate::step::{in_root, print_line, root, run};

/// Folders that may be cleared: they hold this file, with the names of ours.
const SUMS: &str = "SHA256SUMS";
/// The first file that is made, and what all names of files begin with.
const LISTING: &str = "server.json";
const NAMES: [&str; 6] = [
    LISTING,
    "kubecrier-",
    "npm/kubecrier-",
    "pypi/kubecrier-",
    "charts/kubecrier-",
    "image/",
];

/// Shells whose completion scripts are in the archive, and the names they have there.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "kubecrier.bash"),
    ("zsh", "_kubecrier"),
    ("fish", "kubecrier.fish"),
];

/// What is packed.
#[derive(Debug)]
pub(crate) struct Options<'a> {
    /// A program for this machine; built for release, and statically for the image as well, if
    /// there is none.
    pub(crate) binary: Option<&'a Path>,
    /// A static program for the image.
    pub(crate) static_binary: Option<&'a Path>,
    pub(crate) out: &'a Path,
}

/// Makes everything. Builds the programs for release, unless they are there.
pub(crate) fn make(options: &Options<'_>) -> Result<()> {
    let here = env::current_dir()?;
    let out = here.join(options.out);
    // Before the minutes that a build takes.
    check_is_ours(&out)?;
    let given = options.static_binary.map(|binary| here.join(binary));
    let programs = match options.binary {
        Some(binary) => Programs {
            native: here.join(binary),
            image: given,
        },
        None => build::programs(given)?,
    };
    begin(&out)?;
    for folder in ["npm", "pypi", "charts"] {
        fs::create_dir_all(out.join(folder))?;
    }
    let version = env!("CARGO_PKG_VERSION");
    let platform = platform()?;
    let name = format!("kubecrier-{version}-{platform}");
    let binary = &programs.native;
    make_archive(binary, &name, &out.join(format!("{name}.tar.gz")))?;
    for (interpreter, script, folder) in [
        ("node", "packaging/npm/pack.mjs", "npm"),
        ("python3", "packaging/pypi/pack.py", "pypi"),
        ("python3", "packaging/mcpb/pack.py", ""),
    ] {
        let mut pack = in_root(interpreter);
        pack.args([script, "--platform", &platform, "--binary"])
            .arg(binary)
            .arg("--out")
            .arg(out.join(folder));
        run(script, pack)?;
    }
    make_chart(&out.join(format!("charts/kubecrier-{version}.tgz")))?;
    match &programs.image {
        Some(program) => image::make(program, &out.join("image"))?,
        None => print_line("no image is made: there is no static program (--static-binary)"),
    }
    let sbom = sbom::cyclonedx(target()?)?;
    fs::write(out.join(format!("{name}.cdx.json")), sbom)?;
    let sums = write_checksums(&out)?;
    print_line(&format!("made in {}:\n{sums}", out.display()));
    Ok(())
}

/// This machine, as Rust calls it.
fn target() -> Result<&'static str> {
    match (env::consts::OS, env::consts::ARCH) {
        ("linux", "x86_64") => Ok("x86_64-unknown-linux-gnu"),
        ("linux", "aarch64") => Ok("aarch64-unknown-linux-gnu"),
        ("macos", "x86_64") => Ok("x86_64-apple-darwin"),
        ("macos", "aarch64") => Ok("aarch64-apple-darwin"),
        (system, cpu) => bail!("kubecrier is not packed for {system} on {cpu}"),
    }
}

/// Refuses a folder with anything but what this command made.
fn check_is_ours(out: &Path) -> Result<()> {
    if !out.exists() || fs::read_dir(out)?.next().is_none() {
        return Ok(());
    }
    let sums = fs::read_to_string(out.join(SUMS)).unwrap_or_default();
    let names: Vec<_> = sums.lines().map(|line| line.split_once("  ")).collect();
    let is_ours = |name: &str| NAMES.iter().any(|ours| name.starts_with(ours));
    let all_are = names
        .iter()
        .all(|line| line.is_some_and(|(_, name)| is_ours(name)));
    let is_listed = names
        .iter()
        .any(|line| line.is_some_and(|(_, name)| name == LISTING));
    if !all_are || !is_listed {
        bail!(
            "`{}` was not made by this command: name an empty folder with --out",
            out.display()
        );
    }
    Ok(())
}

/// Removes what an earlier run made. What a run leaves that fails from here on is known as ours.
fn begin(out: &Path) -> Result<()> {
    check_is_ours(out)?;
    if out.exists() {
        fs::remove_dir_all(out).with_context(|| format!("cannot clear `{}`", out.display()))?;
    }
    fs::create_dir_all(out)?;
    fs::copy(root().join("packaging").join(LISTING), out.join(LISTING))?;
    write_checksums(out).map(drop)
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

/// The chart, and the licence that it is under.
fn make_chart(archive: &Path) -> Result<()> {
    let chart = root().join("charts/kubecrier");
    let scratch = tempfile::tempdir()?;
    let folder = scratch.path().join("kubecrier");
    let files = archive::tracked_below(&chart)?.into_iter();
    let files = files.map(|file| (chart.join(&file), file));
    for (from, file) in files.chain([(root().join("LICENSE"), "LICENSE".into())]) {
        let to = folder.join(file);
        fs::create_dir_all(to.parent().context("a file has a folder")?)?;
        fs::copy(from, to)?;
    }
    tar_gz(scratch.path(), "kubecrier", archive)
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

/// Writes the lines that `sha256sum --check` reads.
fn write_checksums(out: &Path) -> Result<String> {
    let mut lines = String::new();
    for file in archive::files_below(out)? {
        if file == Path::new(SUMS) {
            continue;
        }
        let hash = hex_digest(&fs::read(out.join(&file))?);
        lines.push_str(&format!("{hash}  {}\n", file.display()));
    }
    fs::write(out.join(SUMS), &lines)?;
    Ok(lines)
}

fn hex_digest(bytes: &[u8]) -> String {
    let hash = Sha256::digest(bytes);
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;

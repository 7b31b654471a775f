//! `cargo xtask dist`: everything that is given to users of this machine's platform, from one
//! program, and the image from a static one. The same programs make the same bytes.

mod archive;
mod image;
mod sbom;

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

use self::archive::tar_gz;
use crate::{
    step::{in_root, print_line, root, run},
    tool::Tool,
};

/// Folders that may be cleared: they hold this file, which is written last.
const SUMS: &str = "SHA256SUMS";
/// The profile of what is given to users.
const PROFILE: &str = "dist";

/// Shells whose completion scripts are in the archive, and the names they have there.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "kubecrier.bash"),
    ("zsh", "_kubecrier"),
    ("fish", "kubecrier.fish"),
];

/// Lists what is in a program, in the program itself.
const CARGO_AUDITABLE: Tool = Tool {
    name: "cargo-auditable",
    version: "0.7.7",
};

/// The section of that list.
const AUDIT_SECTION: &[u8] = b".dep-v0";

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

/// The programs that everything is made of.
struct Programs {
    native: PathBuf,
    /// For the image, which has no dynamic loader; none on other systems than Linux.
    image: Option<PathBuf>,
}

/// Makes everything. Builds the programs for release, unless they are there.
pub(crate) fn make(options: &Options<'_>) -> Result<()> {
    let here = env::current_dir()?;
    let out = here.join(options.out);
    let given = options.static_binary.map(|binary| here.join(binary));
    let programs = match options.binary {
        Some(binary) => Programs {
            native: here.join(binary),
            image: given,
        },
        None => build(given)?,
    };
    clear(&out)?;
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
    tar_gz(
        &root().join("charts"),
        "kubecrier",
        &out.join(format!("charts/kubecrier-{version}.tgz")),
    )?;
    match &programs.image {
        Some(program) => image::make(program, &out.join("image"))?,
        None => print_line("no image is made: there is no static program (--static-binary)"),
    }
    let sbom = sbom::cyclonedx(target()?)?;
    fs::write(out.join(format!("{name}.cdx.json")), sbom)?;
    fs::copy(
        root().join("packaging/server.json"),
        out.join("server.json"),
    )?;
    let sums = checksums(&out)?;
    fs::write(out.join(SUMS), &sums)?;
    print_line(&format!("made in {}:\n{sums}", out.display()));
    Ok(())
}

/// Builds both programs, each with the list of what is in it.
fn build(given: Option<PathBuf>) -> Result<Programs> {
    let auditable = CARGO_AUDITABLE.path()?;
    let folder = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), Into::into);
    let command = |target: Option<&str>| {
        let mut command = in_root(&auditable);
        command.args(["auditable", "build", "--profile", PROFILE, "--locked"]);
        command.args(["--package", "kubecrier"]);
        command.args(target.map(|target| format!("--target={target}")));
        command
    };
    run("kubecrier for release", command(None))?;
    let native = folder.join(PROFILE).join("kubecrier");
    check_audit_section(&native)?;
    if given.is_some() || env::consts::OS != "linux" {
        return Ok(Programs {
            native,
            image: given,
        });
    }
    // With a target, the flags are not those of build scripts and macros, which are not static.
    let target = target()?;
    let mut command = command(Some(target));
    command.env("RUSTFLAGS", "-C target-feature=+crt-static");
    run("kubecrier for release, static", command)?;
    let image = folder.join(target).join(PROFILE).join("kubecrier");
    check_audit_section(&image)?;
    let version = ["version"];
    if printed_by(&image, &version)? != printed_by(&native, &version)? {
        bail!("the static program is another one than that of the archive");
    }
    Ok(Programs {
        native,
        image: Some(image),
    })
}

/// A list that was lost on the way would be noticed when it is needed.
fn check_audit_section(program: &Path) -> Result<()> {
    let bytes =
        fs::read(program).with_context(|| format!("cannot read `{}`", program.display()))?;
    // Mach-O cuts the name at 16 bytes and has it in the header, too.
    if !bytes
        .windows(AUDIT_SECTION.len())
        .any(|part| part == AUDIT_SECTION)
    {
        bail!("`{}` does not list what is in it", program.display());
    }
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
        let hash = hex_digest(&fs::read(out.join(&file))?);
        lines.push_str(&format!("{hash}  {}\n", file.display()));
    }
    Ok(lines)
}

fn hex_digest(bytes: &[u8]) -> String {
    let hash = Sha256::digest(bytes);
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;

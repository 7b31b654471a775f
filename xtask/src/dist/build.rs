//! The programs that are given to users. Nothing in them says in which folders they were built:
//! the same sources make the same program for everybody with the same toolchain and C library.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

use super::{printed_by, target};
use crate::{
    step::{cargo, in_root, root, run},
    tool::Tool,
};

/// The profile of what is given to users.
const PROFILE: &str = "dist";

/// Lists what is in a program, in the program itself.
const CARGO_AUDITABLE: Tool = Tool {
    name: "cargo-auditable",
    version: "0.7.7",
};

/// The section of that list.
const AUDIT_SECTION: &[u8] = b".dep-v0";

/// The words of `cargo` that the tool repeats when it asks for the dependencies.
const AUDITED_WORDS: &str = r#"{"offline":false,"locked":true,"frozen":false,"config":[]}"#;

const STATIC: &str = "-Ctarget-feature=+crt-static";

/// The programs that everything is made of.
pub(super) struct Programs {
    pub(super) native: PathBuf,
    /// For the image, which has no dynamic loader; none on other systems than Linux.
    pub(super) image: Option<PathBuf>,
}

/// Folders of this machine that compilers write into programs, and what stands there instead.
#[derive(Debug)]
pub(super) struct Folders(Vec<(String, String)>);

/// Builds both programs, each with the list of what is in it.
pub(super) fn programs(given: Option<PathBuf>) -> Result<Programs> {
    let folder = target_folder();
    let folders = Folders::of_this_machine()?;
    run("kubecrier for release", command(&folders, &[])?)?;
    let native = folder.join(PROFILE).join("kubecrier");
    check(&native, &folders)?;
    if given.is_some() || env::consts::OS != "linux" {
        return Ok(Programs {
            native,
            image: given,
        });
    }
    // With a target, the flags are not those of build scripts and macros, which are not static.
    let target = target()?;
    let mut command = command(&folders, &[STATIC])?;
    command.arg(format!("--target={target}"));
    run("kubecrier for release, static", command)?;
    let image = folder.join(target).join(PROFILE).join("kubecrier");
    check(&image, &folders)?;
    let version = ["version"];
    if printed_by(&image, &version)? != printed_by(&native, &version)? {
        bail!("the static program is another one than that of the archive");
    }
    Ok(Programs {
        native,
        image: Some(image),
    })
}

/// The build, as `cargo auditable build` starts it. That names the tool by its path, and cargo
/// mixes the path into the names of symbols: a program would depend on where the tool is.
fn command(folders: &Folders, flags: &[&str]) -> Result<Command> {
    let tool = CARGO_AUDITABLE.path()?;
    let folder = tool.parent().context("a program is in a folder")?;
    let path = env::var_os("PATH").unwrap_or_default();
    let path = env::join_paths(
        [folder.to_owned()]
            .into_iter()
            .chain(env::split_paths(&path)),
    )?;
    let mut command = cargo(&["build", "--profile", PROFILE, "--locked"]);
    command
        .args(["--package", "kubecrier"])
        .env("PATH", path)
        .env("RUSTC_WORKSPACE_WRAPPER", CARGO_AUDITABLE.name)
        .env("CARGO_AUDITABLE_ORIG_ARGS", AUDITED_WORDS)
        // The form in which a flag may have spaces; it wins over RUSTFLAGS and configurations.
        .env("CARGO_ENCODED_RUSTFLAGS", folders.flags(flags));
    Ok(command)
}

fn target_folder() -> PathBuf {
    let given = env::var_os("CARGO_TARGET_DIR");
    root().join(given.unwrap_or_else(|| "target".into()))
}

/// What would be noticed only when it is needed.
fn check(program: &Path, folders: &Folders) -> Result<()> {
    let bytes =
        fs::read(program).with_context(|| format!("cannot read `{}`", program.display()))?;
    check_audit_section(program, &bytes)?;
    folders.check(program, &bytes)
}

pub(super) fn check_audit_section(program: &Path, bytes: &[u8]) -> Result<()> {
    // Mach-O cuts the name at 16 bytes and has it in the header, too.
    if !has(bytes, AUDIT_SECTION) {
        bail!("`{}` does not list what is in it", program.display());
    }
    Ok(())
}

fn has(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|found| found == part)
}

// === impl Folders ===

impl Folders {
    /// The later ones may be inside of the earlier ones.
    fn of_this_machine() -> Result<Self> {
        let home = match env::var_os("CARGO_HOME").filter(|home| !home.is_empty()) {
            Some(home) => root().join(home),
            None => env::home_dir()
                .context("neither CARGO_HOME nor HOME is set")?
                .join(".cargo"),
        };
        let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let said = |words: &[&str]| -> Result<String> {
            let done = in_root(&rustc).args(words).output();
            let done = done.context("cannot start rustc")?;
            Ok(String::from_utf8(done.stdout)?.trim().to_owned())
        };
        // The sources of the standard library, which rustc names itself where they are not
        // installed.
        let library = Path::new(&said(&["--print", "sysroot"])?).join("lib/rustlib/src/rust");
        let about = said(&["--version", "--verbose"])?;
        let commit = about
            .lines()
            .find_map(|line| line.strip_prefix("commit-hash: "));
        let library_name = format!("/rustc/{}", commit.context("rustc has no commit")?);
        Self::new(&[
            (root(), "/kubecrier"),
            (&target_folder(), "/target"),
            (&home, "/cargo"),
            (&library, &library_name),
        ])
    }

    pub(super) fn new(folders: &[(&Path, &str)]) -> Result<Self> {
        let text = |(folder, name): &(&Path, &str)| {
            let folder = folder.to_str();
            let folder = folder.context("rustc takes names of folders in UTF-8 only")?;
            Ok((folder.to_owned(), (*name).to_owned()))
        };
        folders.iter().map(text).collect::<Result<_>>().map(Self)
    }

    /// These flags and those that replace the folders, as cargo reads them. Cargo leaves the
    /// latter out of the names of symbols and files, which depend on flags otherwise.
    pub(super) fn flags(&self, more: &[&str]) -> String {
        let own = self.0.iter();
        let own = own.map(|(folder, name)| format!("--remap-path-prefix={folder}={name}"));
        let more = more.iter().map(|flag| (*flag).to_owned());
        own.chain(more).collect::<Vec<_>>().join("\u{1f}")
    }

    pub(super) fn check(&self, program: &Path, bytes: &[u8]) -> Result<()> {
        for (folder, name) in &self.0 {
            // What is found of `/src` may be the end of something else.
            let is_known = folder != name && Path::new(folder).components().count() > 2;
            if is_known && has(bytes, folder.as_bytes()) {
                bail!(
                    "`{}` names `{folder}`, where it was built: it would be another program elsewhere",
                    program.display()
                );
            }
        }
        Ok(())
    }
}

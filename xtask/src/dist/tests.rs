mod merged;

use std::{collections::BTreeSet, os::unix::fs::PermissionsExt, path::PathBuf};

use serde_json::Value;

use super::*;

/// A program that answers as kubecrier does, a thousand times smaller.
fn program(folder: &Path) -> PathBuf {
    let path = folder.join("program");
    fs::write(&path, "#!/bin/sh\necho \"$@\"\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// What is a static program by its header. Nobody starts it.
fn static_program(folder: &Path) -> PathBuf {
    static_program_for(folder, "static", 62)
}

fn static_program_for(folder: &Path, name: &str, machine: u8) -> PathBuf {
    let mut bytes = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0".to_vec();
    bytes.extend([machine, 0, 1, 0, 0, 0]);
    let words =
        |words: &[u64]| -> Vec<u8> { words.iter().flat_map(|one| one.to_le_bytes()).collect() };
    bytes.extend(words(&[0, 64, 0]));
    bytes.extend([0, 0, 0, 0, 64, 0, 56, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
    bytes.extend([1, 0, 0, 0, 5, 0, 0, 0]);
    bytes.extend(words(&[0, 0, 0, 120, 120, 0x1000]));
    let path = folder.join(name);
    fs::write(&path, bytes).unwrap();
    path
}

/// The same with a loader.
fn dynamic_program(folder: &Path) -> PathBuf {
    let mut bytes = fs::read(static_program(folder)).unwrap();
    bytes[64] = 3;
    let path = folder.join("dynamic");
    fs::write(&path, bytes).unwrap();
    path
}

fn make(binary: &Path, static_binary: &Path, out: &Path) -> Result<()> {
    super::make(&Options {
        binary: Some(binary),
        static_binary: Some(static_binary),
        out,
    })
}

fn contents(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let files = archive::files_below(folder).unwrap().into_iter();
    files
        .map(|file| {
            let bytes = fs::read(folder.join(&file)).unwrap();
            (file, bytes)
        })
        .collect()
}

/// Whether the packages can be made here. Where nothing may be skipped, they have to be.
fn can_pack() -> bool {
    let required = env::var_os("TESTBED_REQUIRED").is_some_and(|value| !value.is_empty());
    let npm = Command::new("npm").arg("--version").output();
    let there = required || npm.is_ok_and(|done| done.status.success());
    if !there {
        print_line("skipped: no npm to make packages with; install Node 20 or newer");
    }
    there
}

#[test]
fn everything_is_made_twice_alike_and_checked_by_its_sums() {
    if !can_pack() {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let program = program(scratch.path());
    let out = scratch.path().join("dist");
    let image = static_program(scratch.path());
    make(&program, &image, &out).unwrap();
    let first = contents(&out);
    let version = env!("CARGO_PKG_VERSION");
    let platform = platform().unwrap();
    let (blobs, names): (Vec<_>, Vec<_>) = first
        .iter()
        .map(|(file, _)| file.to_str().unwrap())
        .partition(|name| name.starts_with("image/blobs/"));
    // The layer, the configuration and the manifest.
    assert_eq!(blobs.len(), 3);
    let wheel = names.iter().find(|name| name.contains("-none-")).unwrap();
    let mut expected = vec![
        SUMS.to_owned(),
        format!("charts/kubecrier-{version}.tgz"),
        "image/index.json".to_owned(),
        "image/oci-layout".to_owned(),
        format!("kubecrier-{version}-{platform}.cdx.json"),
        format!("kubecrier-{version}-{platform}.mcpb"),
        format!("kubecrier-{version}-{platform}.tar.gz"),
        format!("npm/kubecrier-{version}.tgz"),
        format!("npm/kubecrier-{platform}-{version}.tgz"),
        (*wheel).to_owned(),
        format!("pypi/kubecrier-{version}.tar.gz"),
        "server.json".to_owned(),
    ];
    expected.sort();
    assert_eq!(names, expected);
    let check = ["--check", "--strict", SUMS];
    let sums = Command::new("sha256sum")
        .args(check)
        .current_dir(&out)
        .output();
    assert!(sums.unwrap().status.success());
    // Into the folder of before, whose files are other ones now.
    fs::write(out.join("stale"), "x").unwrap();
    make(&program, &image, &out).unwrap();
    assert!(first == contents(&out));
}

#[test]
fn what_git_does_not_know_is_not_packed() {
    let scratch = tempfile::tempdir().unwrap();
    let git = |words: &[&str]| {
        let mut git = Command::new("git");
        git.args(words).current_dir(scratch.path());
        assert!(git.output().unwrap().status.success(), "{git:?}");
    };
    git(&["init", "--quiet"]);
    let chart = scratch.path().join("chart");
    fs::create_dir_all(chart.join("templates")).unwrap();
    for file in ["Chart.yaml", "templates/a b.yaml"] {
        fs::write(chart.join(file), "x").unwrap();
    }
    let refused = archive::tracked_below(&chart).unwrap_err().to_string();
    assert!(refused.contains("knows no file"), "{refused}");
    git(&["add", "chart"]);
    fs::write(chart.join("Chart.yaml.orig"), "x").unwrap();
    let files = archive::tracked_below(&chart).unwrap();
    let expected = ["Chart.yaml", "templates/a b.yaml"].map(PathBuf::from);
    assert_eq!(files, expected);
}

#[test]
fn a_folder_that_something_else_made_is_not_cleared() {
    let scratch = tempfile::tempdir().unwrap();
    let program = program(scratch.path());
    let error = make(&program, &program, scratch.path())
        .unwrap_err()
        .to_string();
    assert!(error.contains("was not made by this command"), "{error}");
    assert!(program.is_file());
    // Sums of something else say nothing about whose the folder is.
    let notes = scratch.path().join("notes.txt");
    fs::write(&notes, "mine").unwrap();
    let sums = scratch.path().join(SUMS);
    let hash = hex_digest(b"mine");
    let (notes_line, listing_line) = (
        format!("{hash}  notes.txt\n"),
        format!("{hash}  {LISTING}\n"),
    );
    for text in [
        String::new(),
        "x".to_owned(),
        notes_line.clone(),
        listing_line + &notes_line,
    ] {
        fs::write(&sums, &text).unwrap();
        let error = make(&program, &program, scratch.path())
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("was not made by this command"),
            "{text}: {error}"
        );
    }
    assert_eq!(fs::read_to_string(&notes).unwrap(), "mine");
}

#[test]
fn what_a_failed_run_leaves_is_cleared_by_the_next() {
    let scratch = tempfile::tempdir().unwrap();
    let out = scratch.path().join("dist");
    let missing = scratch.path().join("missing");
    let failed = || make(&missing, &missing, &out).unwrap_err().to_string();
    let error = failed();
    assert!(error.contains("missing"), "{error}");
    assert!(out.join(LISTING).is_file());
    fs::write(out.join("stale"), "x").unwrap();
    assert_eq!(failed(), error);
    assert!(!out.join("stale").exists());
}

/// A project with code of its own, of a build script and of cargo's folder, all of which may panic.
fn project(folder: &Path) -> Command {
    let write = |path: &str, text: &str| {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write(
        "sources/Cargo.toml",
        "[package]\nname = \"tiny\"\nversion = \"1.0.0\"\nedition = \"2024\"\n[workspace]\n\
         [profile.dist]\ninherits = \"release\"\nstrip = true\n",
    );
    write(
        "sources/build.rs",
        "fn main() {\n    let out = std::env::var(\"OUT_DIR\").unwrap();\n    \
         std::fs::write(format!(\"{out}/made.rs\"), \"pub fn made() -> &'static str { file!() }\").unwrap();\n}\n",
    );
    let home = folder.join("home/source.rs");
    write(
        "home/source.rs",
        "pub fn fetched() -> &'static str { file!() }",
    );
    let main = format!(
        "mod made {{ include!(concat!(env!(\"OUT_DIR\"), \"/made.rs\")); }}\n\
         #[path = {home:?}]\nmod home;\n\
         fn main() {{ println!(\"{{}} {{}} {{}}\", file!(), made::made(), home::fetched()); }}\n"
    );
    write("sources/src/main.rs", &main);
    let mut build = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    build
        .args(["build", "--quiet", "--offline", "--profile", "dist"])
        .current_dir(folder.join("sources"))
        .env("CARGO_TARGET_DIR", folder.join("made here"));
    build
}

#[test]
fn a_program_does_not_say_where_it_was_built() {
    let built = |name: &str| {
        let scratch = tempfile::Builder::new().prefix(name).tempdir().unwrap();
        let folder = scratch.path();
        let folders = build::Folders::new(&[
            (&folder.join("sources"), "/kubecrier"),
            (&folder.join("made here"), "/target"),
            (&folder.join("home"), "/cargo"),
        ]);
        let folders = folders.unwrap();
        let program = folder.join("made here/dist/tiny");
        let mut build = project(folder);
        assert!(build.status().unwrap().success());
        let plain = fs::read(&program).unwrap();
        let error = folders.check(&program, &plain).unwrap_err().to_string();
        assert!(error.contains("where it was built"), "{error}");
        build.env("CARGO_ENCODED_RUSTFLAGS", folders.flags(&["-Cdebuginfo=0"]));
        assert!(build.status().unwrap().success());
        let bytes = fs::read(&program).unwrap();
        folders.check(&program, &bytes).unwrap();
        let names = printed_by(&program, &[]).unwrap();
        let names = String::from_utf8(names).unwrap();
        assert!(
            names.contains("/target/dist/build/tiny-") && names.contains("/cargo/source.rs"),
            "{names}"
        );
        bytes
    };
    assert!(built("short") == built("longer"));
    let short = build::Folders::new(&[(Path::new("/src"), "/kubecrier")]).unwrap();
    short
        .check(Path::new("x"), b"crates/core/src/lib.rs")
        .unwrap();
}

#[test]
fn a_tree_names_what_each_package_links() {
    let tree = "0 kubecrier v0.1.0 (/a b)\n1 kube v5.0.0\n2 bytes v1.12.0\n1 rmcp v3.8.0\n2 bytes v1.12.0 (*)\n";
    let linked = sbom::linked(tree).unwrap();
    let package = |name: &str, version: &str| (name.to_owned(), version.to_owned());
    let of = |name: &str, version: &str| -> Vec<&str> {
        linked[&package(name, version)]
            .iter()
            .map(|(name, _)| &**name)
            .collect()
    };
    assert_eq!(linked.len(), 4);
    assert_eq!(of("kubecrier", "0.1.0"), ["kube", "rmcp"]);
    assert_eq!(of("rmcp", "3.8.0"), ["bytes"]);
    assert!(of("bytes", "1.12.0").is_empty());
    assert!(sbom::linked("error: no such package").is_err());
}

#[test]
fn the_archive_holds_the_program_and_what_it_prints() {
    let scratch = tempfile::tempdir().unwrap();
    let program = program(scratch.path());
    let archive = scratch.path().join("x.tar.gz");
    make_archive(&program, "kubecrier-1", &archive).unwrap();
    let mut unpack = Command::new("tar");
    unpack.arg("--extract").arg("--file").arg(&archive);
    let unpack = unpack.arg("--directory").arg(scratch.path());
    assert!(unpack.status().unwrap().success());
    let folder = scratch.path().join("kubecrier-1");
    let read = |file: &str| fs::read_to_string(folder.join(file)).unwrap();
    assert_eq!(read("completions/_kubecrier"), "completion zsh\n");
    assert_eq!(read("kubecrier.1"), "man\n");
    let mode = fs::metadata(folder.join("kubecrier"))
        .unwrap()
        .permissions();
    assert_eq!(mode.mode() & 0o777, 0o755);
}

#[test]
fn an_image_is_made_of_a_static_program_only() {
    let scratch = tempfile::tempdir().unwrap();
    let refused = |program: &Path| {
        let layout = scratch.path().join("image");
        let error = image::make(program, &layout).unwrap_err().to_string();
        assert!(!layout.exists());
        error
    };
    let dynamic = refused(&dynamic_program(scratch.path()));
    assert!(dynamic.contains("is not static"), "{dynamic}");
    let script = refused(&program(scratch.path()));
    assert!(script.contains("is not a program of Linux"), "{script}");
    // This machine's own programs have a loader.
    if env::consts::OS == "linux" {
        let own = refused(&env::current_exe().unwrap());
        assert!(own.contains("is not static"), "{own}");
    }
}

#[test]
fn a_program_without_its_list_is_refused() {
    let scratch = tempfile::tempdir().unwrap();
    let program = scratch.path().join("program");
    let check = |bytes: &[u8]| build::check_audit_section(&program, bytes);
    let error = check(b"nothing").unwrap_err().to_string();
    assert!(error.contains("does not list"), "{error}");
    check(b"x\0.dep-v0\0y").unwrap();
}

#[test]
fn the_list_of_dependencies_has_what_is_linked_and_nothing_else() {
    let text = sbom::cyclonedx(target().unwrap()).unwrap();
    assert_eq!(text, sbom::cyclonedx(target().unwrap()).unwrap());
    let list: Value = serde_json::from_str(&text).unwrap();
    let program = &list["metadata"]["component"];
    assert_eq!(program["name"], "kubecrier");
    let components = list["components"].as_array().unwrap();
    let named = |name: &str| components.iter().find(|one| one["name"] == name);
    for linked in ["rmcp", "kube", "mcp-notify", "kubecrier-server", "ring"] {
        assert!(named(linked).is_some(), "no {linked}");
    }
    // Of tests, also where tests only turn on a feature; of builds; macros; of other programs.
    for other in [
        "proptest",
        "testbed",
        "reqwest",
        "oauth2",
        "cc",
        "serde_derive",
        "thiserror-impl",
        "tracing-attributes",
        "syn",
        "webpki-root-certs",
        "kubecrier",
    ] {
        assert!(named(other).is_none(), "{other} is not linked");
    }
    for component in components {
        let name = component["name"].as_str().unwrap();
        assert!(component["licenses"][0]["expression"].is_string(), "{name}");
        let is_ours = name.starts_with("kubecrier") || name == "mcp-notify";
        assert_eq!(component["hashes"].is_array(), !is_ours, "{name}");
    }
    let known: BTreeSet<_> = components
        .iter()
        .chain([program])
        .map(|one| one["bom-ref"].as_str().unwrap())
        .collect();
    assert_eq!(known.len(), components.len() + 1);
    for dependency in list["dependencies"].as_array().unwrap() {
        let needed = dependency["dependsOn"].as_array().unwrap();
        for reference in needed.iter().chain([&dependency["ref"]]) {
            assert!(known.contains(reference.as_str().unwrap()), "{reference}");
        }
    }
}

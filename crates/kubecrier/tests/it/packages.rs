//! The packages for npm and PyPI: packed, fetched from a registry on loopback with npx and uvx,
//! and spoken to as a client does.

mod registry;
mod signals;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::{Value, json};
use testbed::{Missing, Uv};

use self::registry::{Registry, packages_folder};
use crate::harness::{File, StdioSession, kubeconfig};

/// A kubeconfig whose one context is called `away`.
fn away() -> File {
    kubeconfig(|file| {
        file.server_context("away", "https://127.0.0.1:1", "")
            .current("away")
    })
}

/// A program with nothing of this machine but its path, and a home of its own.
fn clean(program: &str, home: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", home);
    command
}

/// `npx` or `npm` with this registry and no other.
fn npm(program: &str, registry: &Registry, home: &Path) -> Command {
    let mut command = clean(program, home);
    command
        .env("npm_config_registry", registry.url())
        .env("npm_config_cache", home.join("npm"))
        .env("npm_config_update_notifier", "false")
        .env("npm_config_fund", "false")
        .env("npm_config_audit", "false");
    command
}

fn uvx(registry: &Registry, home: &Path) -> Option<Command> {
    let uvx = Uv::uvx().inspect_err(testbed::skip).ok()?;
    let mut command = clean(uvx.get_program().to_str().unwrap(), home);
    command
        .env("UV_CACHE_DIR", home.join("uv"))
        .env("UV_PYTHON_DOWNLOADS", "never")
        .env("UV_DEFAULT_INDEX", format!("{}/simple", registry.url()));
    Some(command)
}

/// The registry with what was packed, or none where there is no npm.
fn registry() -> Option<Registry> {
    let there = Command::new("npm").arg("--version").output();
    if there.is_ok_and(|done| done.status.success()) {
        return Some(Registry::start());
    }
    testbed::skip(&Missing(
        "no npm to make packages with; install Node 20 or newer".to_owned(),
    ));
    None
}

/// A client's first steps; every line of stdout has to be a message.
fn speaks_mcp(command: &mut Command) -> StdioSession {
    let file = away();
    let mut session = StdioSession::start(command.arg("--kubeconfig").arg(&file.path));
    let answer = session.handshake();
    assert_eq!(answer["result"]["serverInfo"]["name"], "kubecrier");
    let contexts = session.call("configuration_contexts_list", json!({})).ok();
    assert_eq!(contexts.data["contexts"][0]["name"], "away");
    session
}

fn text(done: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (text(&done.stdout), text(&done.stderr))
}

/// The launcher, installed by npm.
fn installed(registry: &Registry, home: &Path) -> PathBuf {
    let mut install = npm("npm", registry, home);
    let install = install
        .args(["install", "--prefix"])
        .arg(home)
        .arg("kubecrier");
    let done = install.output().unwrap();
    assert!(done.status.success(), "{:?}", text(&done));
    home.join("node_modules/kubecrier/bin/kubecrier.js")
}

#[tokio::test]
async fn npx_starts_a_server_that_ends_with_its_client() {
    let Some(registry) = registry() else { return };
    let home = tempfile::tempdir().unwrap();
    let npx = || {
        let mut npx = npm("npx", &registry, home.path());
        npx.args(["-y", "kubecrier"]);
        npx
    };
    let mut session = speaks_mcp(&mut npx());
    session.close();
    assert_eq!(session.server.exit().await.code(), Some(0));
    let wrong = npx().arg("--no-such-flag").output().unwrap();
    assert_eq!(wrong.status.code(), Some(64), "{:?}", text(&wrong));
    let (stdout, stderr) = text(&wrong);
    assert!(
        stdout.is_empty() && stderr.contains("--no-such-flag"),
        "{stdout}{stderr}"
    );
}

/// The installed package with the program: its name and its folder.
fn native_package(home: &Path) -> (String, PathBuf) {
    let packages = fs::read_dir(home.join("node_modules")).unwrap();
    let mut packages = packages.map(|entry| entry.unwrap().path());
    let folder = packages
        .find(|path| {
            let name = path.file_name().unwrap().to_str().unwrap();
            name.starts_with("kubecrier-")
        })
        .unwrap();
    let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
    (name, folder)
}

#[test]
fn without_a_program_the_launcher_says_what_to_do() {
    let Some(registry) = registry() else { return };
    let home = tempfile::tempdir().unwrap();
    let launcher = installed(&registry, home.path());
    let refused = |script: &str, words: &[&str]| {
        let script = format!("{script}\nrequire({launcher:?});");
        let mut node = clean("node", home.path());
        let done = node.args(["-e", &script]).output().unwrap();
        let (stdout, stderr) = text(&done);
        assert_eq!(done.status.code(), Some(1), "{stderr}");
        assert!(stdout.is_empty(), "{stdout}");
        for word in words {
            assert!(stderr.contains(word), "no {word} in {stderr}");
        }
    };
    refused(
        "Object.defineProperty(process, 'platform', {value: 'sunos'});",
        &[
            "no program for sunos-",
            "linux-x64",
            "darwin-arm64",
            "build it with Rust",
        ],
    );
    let (name, folder) = native_package(home.path());
    // As Alpine has it: the file is there, and its loader is not.
    let program = folder.join("bin/kubecrier");
    fs::write(&program, "#!/lib64/no-such-loader.so.2\n").unwrap();
    refused(
        "",
        &[
            "cannot start",
            "ENOENT",
            "glibc, which Alpine does not have",
        ],
    );
    fs::remove_dir_all(folder).unwrap();
    refused("", &[&name, "is not installed", "--omit=optional"]);
}

#[tokio::test]
async fn uvx_starts_a_server_and_nothing_stands_in_between() {
    let Some(registry) = registry() else { return };
    let home = tempfile::tempdir().unwrap();
    let uvx = || {
        let mut uvx = uvx(&registry, home.path())?;
        uvx.arg("kubecrier");
        Some(uvx)
    };
    let Some(mut first) = uvx() else { return };
    let mut session = speaks_mcp(&mut first);
    session.close();
    assert_eq!(session.server.exit().await.code(), Some(0));
    let wrong = uvx().unwrap().arg("--no-such-flag").output().unwrap();
    assert_eq!(wrong.status.code(), Some(64), "{:?}", text(&wrong));
    assert!(text(&wrong).0.is_empty());
    // A platform without a wheel gets the source package, which says so.
    let elsewhere = Registry::without_wheels();
    let home = tempfile::tempdir().unwrap();
    let mut uvx = self::uvx(&elsewhere, home.path()).unwrap();
    let done = uvx.arg("kubecrier").output().unwrap();
    let (stdout, stderr) = text(&done);
    assert!(!done.status.success() && stdout.is_empty(), "{stdout}");
    // The glibc of the wheel's name, because a machine with an older one gets here, too.
    let mut files = fs::read_dir(registry::packed()).unwrap();
    let wheel = files.find_map(|entry| {
        let path = entry.unwrap().path();
        (path.extension()? == "whl").then_some(path)
    });
    let wheel = wheel.unwrap().into_os_string().into_string().unwrap();
    let needed = match wheel.split_once("manylinux_2_") {
        Some((_, rest)) => format!("(glibc 2.{} or newer)", rest.split_once('_').unwrap().0),
        None => "(a recent glibc)".to_owned(),
    };
    for words in [
        "kubecrier has no program for",
        "build it with Rust",
        &needed,
    ] {
        assert!(stderr.contains(words), "no {words} in {stderr}");
    }
}

/// The path of this program is one in a cache, which is cleared some day.
#[test]
fn what_was_started_from_a_cache_installs_its_launcher() {
    let Some(registry) = registry() else { return };
    let home = tempfile::tempdir().unwrap();
    let mut npx = npm("npx", &registry, home.path());
    npx.args(["-y", "kubecrier"]);
    let Some(mut uvx) = uvx(&registry, home.path()) else {
        return;
    };
    uvx.arg("kubecrier");
    for (launcher, client, file, expected) in [
        (
            &mut npx,
            "cursor",
            ".cursor/mcp.json",
            json!({"command": "npx", "args": ["-y", "kubecrier"]}),
        ),
        (
            &mut uvx,
            "zed",
            ".config/zed/settings.json",
            json!({"command": "uvx", "args": ["kubecrier"]}),
        ),
    ] {
        let done = launcher
            .args(["install", client, "--yes"])
            .output()
            .unwrap();
        assert!(done.status.success(), "{:?}", text(&done));
        let written = fs::read_to_string(home.path().join(file)).unwrap();
        let written: Value = serde_json::from_str(&written).unwrap();
        let servers = written.as_object().unwrap().values().next().unwrap();
        assert_eq!(servers["kubecrier"], expected);
    }
}

#[test]
fn every_package_carries_the_licence() {
    let Some(_) = registry() else { return };
    let packed = registry::packed();
    let mut seen = 0;
    for entry in fs::read_dir(&packed).unwrap() {
        let path = entry.unwrap().path();
        let mut list = Command::new("tar");
        if path.extension().is_some_and(|it| it == "whl") {
            list = Command::new("python3");
            list.args(["-m", "zipfile", "--list"]).arg(&path);
        } else {
            list.arg("-tzf").arg(&path);
        }
        let (files, _) = text(&list.output().unwrap());
        assert!(files.contains("/LICENSE"), "{}: {files}", path.display());
        seen += 1;
    }
    assert_eq!(seen, 4, "two of npm, two of PyPI");
}

#[test]
fn the_packages_are_of_the_version_of_the_server() {
    let about = packages_folder().join("npm/kubecrier/package.json");
    let about: Value = serde_json::from_str(&fs::read_to_string(about).unwrap()).unwrap();
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(about["version"], version);
    let listing = packages_folder().join("server.json");
    let listing: Value = serde_json::from_str(&fs::read_to_string(listing).unwrap()).unwrap();
    assert_eq!(listing["version"], version);
    for package in listing["packages"].as_array().unwrap() {
        let identifier = package["identifier"].as_str().unwrap();
        match identifier.split_once(':') {
            // An image has its version in its name.
            Some((_, tag)) => assert_eq!(tag, version),
            None => assert_eq!(package["version"], version),
        }
    }
    // The user of the image has no cluster and may not read the files of others.
    let image = listing["packages"].as_array().unwrap().iter();
    let mut image = image.filter(|package| package["registryType"] == "oci");
    let image = image.next().unwrap();
    assert_eq!(image["runtimeHint"], "docker");
    let arguments = image["runtimeArguments"].as_array().unwrap().iter();
    let arguments = arguments.map(|one| format!("{} {}", one["name"], one["value"]));
    let arguments = arguments.collect::<Vec<_>>().join(" ").replace('"', "");
    assert_eq!(arguments, "--user {user} --volume {folder}:/kube:ro");
    let variable = &image["environmentVariables"][0];
    assert_eq!(variable["name"], "KUBECONFIG");
    assert_eq!(variable["value"], "/kube/config");
    // The MCP registry compares the name with those in the packages.
    assert_eq!(about["mcpName"], listing["name"]);
    let readme = fs::read_to_string(packages_folder().join("pypi/README.md")).unwrap();
    let name = format!("mcp-name: {} ", listing["name"].as_str().unwrap());
    assert!(readme.contains(&name), "{readme}");
    assert!(listing["description"].as_str().unwrap().len() <= 100);
    let platforms = about["optionalDependencies"].as_object().unwrap();
    assert!(
        platforms.values().all(|one| one == version),
        "{platforms:?}"
    );
}

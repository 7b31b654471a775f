//! The packages for npm and PyPI: packed, fetched from a registry on loopback with npx and uvx,
//! and spoken to as a client does.

mod registry;

use std::{
    fs,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use testbed::{Missing, Uv};

use self::registry::{Registry, packages_folder};
use crate::harness::{File, StdioSession, Terminal, command, kubeconfig};

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

#[tokio::test]
async fn the_launcher_passes_on_signals_and_how_the_program_ended() {
    let Some(registry) = registry() else { return };
    let home = tempfile::tempdir().unwrap();
    let launcher = installed(&registry, home.path());
    let start = || {
        let mut node = clean("node", home.path());
        speaks_mcp(node.arg(&launcher))
    };
    for signal in [Signal::TERM, Signal::INT] {
        let mut native = speaks_mcp(&mut command());
        native.server.signal(signal);
        let mut launched = start();
        launched.server.signal(signal);
        let expected = native.server.exit().await;
        assert_eq!(launched.server.exit().await, expected, "{signal:?}");
    }
    let mut launched = start();
    let launcher = launched.server.id();
    let children = format!("/proc/{launcher}/task/{launcher}/children");
    let child = fs::read_to_string(children).unwrap();
    let child = Pid::from_raw(child.trim().parse().unwrap()).unwrap();
    kill_process(child, Signal::KILL).unwrap();
    assert_eq!(launched.server.exit().await.signal(), Some(9));
}

/// A terminal sends ctrl-c to the program as well, and a second signal ends the server at once:
/// the launcher must not add one.
#[test]
fn ctrl_c_in_a_terminal_is_left_to_the_terminal() {
    let Some(registry) = registry() else { return };
    let home = tempfile::tempdir().unwrap();
    let launcher = installed(&registry, home.path());
    let (_, folder) = native_package(home.path());
    let script = "#!/bin/sh\ntrap 'n=x$n' INT\ntrap 'echo passed on' USR1\necho started\n\
                  until [ -e \"$1\" ]; do sleep 0.05; done\necho \"interrupts: $n.\"\n";
    fs::write(folder.join("bin/kubecrier"), script).unwrap();
    let told = home.path().join("told");
    let mut node = clean("node", home.path());
    let mut terminal = Terminal::start(node.arg(&launcher).arg(&told), 80);
    terminal.wait_for("started");
    terminal.signal(Signal::INT);
    // The launcher handles one after the other, and the shell the lower number first.
    terminal.signal(Signal::USR1);
    terminal.wait_for("passed on");
    fs::write(&told, "").unwrap();
    terminal.wait_for("interrupts: .");
    assert_eq!(terminal.exit().code(), Some(0));
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
    for words in ["kubecrier has no program for", "build it with Rust"] {
        assert!(stderr.contains(words), "no {words} in {stderr}");
    }
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

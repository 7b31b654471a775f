//! Keycloak, for the interop run: from Maven Central, installed once per machine into the cache,
//! and run on loopback from a copy, because it writes into its own folder.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;
use tokio::time::Instant;

use crate::{
    Missing, Progress, cache,
    guard::{Guard, Spec},
    install,
};

const VERSION: &str = "26.7.3";

/// What copies an artifact out of a repository.
const COPY: &str = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy";

/// The oldest Java that it runs on.
const JAVA_MIN: u32 = 17;

/// It prepares its own code when it starts, on a busy machine for minutes.
const START_TIMEOUT: Duration = Duration::from_mins(5);

/// Name and password of its administrator.
const ADMIN: &str = "admin";

/// A running Keycloak; it ends when this is dropped.
pub struct Keycloak {
    url: String,
    guard: Guard,
    _folder: TempDir,
}

// === impl Keycloak ===

impl Keycloak {
    /// Downloads it if it is not there yet.
    pub fn prepare(progress: Progress<'_>) -> Result<()> {
        check_java()?;
        let target = folder()?;
        if target.is_dir() {
            return Ok(());
        }
        if !install::is_there("mvn") {
            return Err(Missing(
                "Keycloak is downloaded by Maven (`mvn`), which is not on this machine".to_owned(),
            )
            .into());
        }
        progress(&format!(
            "downloading Keycloak {VERSION} (170 MB, once per machine)"
        ));
        cache::fill(&target, |staging| {
            let artifact = format!("org.keycloak:keycloak-quarkus-dist:{VERSION}:zip");
            install::run(
                Command::new("mvn")
                    .args(["--quiet", "--batch-mode", COPY])
                    .arg(format!("-Dartifact={artifact}"))
                    .arg(format!("-DoutputDirectory={}", staging.path().display()))
                    .current_dir(staging.path()),
            )?;
            let archive = format!("keycloak-quarkus-dist-{VERSION}.zip");
            install::run(
                Command::new("python3")
                    .args(["-m", "zipfile", "-e", &archive, "."])
                    .current_dir(staging.path()),
            )?;
            Ok(fs::remove_file(staging.path().join(archive))?)
        })
    }

    /// Starts it on a port of loopback, without realms of its own.
    pub async fn start(port: u16) -> Result<Self> {
        check_java()?;
        let installed = folder()?.join(format!("keycloak-{VERSION}"));
        if !installed.is_dir() {
            return Err(Missing("Keycloak is not installed".to_owned()).into());
        }
        let folder = tempfile::tempdir()?;
        let home = folder.path().join("keycloak");
        install::run(Command::new("cp").arg("-r").arg(&installed).arg(&home))?;
        let arguments = [
            home.join("bin/kc.sh").into_os_string(),
            "start-dev".into(),
            "--http-host=127.0.0.1".into(),
            format!("--http-port={port}").into(),
            "--cache=local".into(),
            "--db=dev-mem".into(),
            format!("--bootstrap-admin-username={ADMIN}").into(),
            format!("--bootstrap-admin-password={ADMIN}").into(),
        ];
        // `kc.sh` becomes Java, so that the guard ends the right process.
        let guard = Guard::start(&Spec {
            program: Path::new("bash"),
            args: arguments.into(),
            clear: None,
            log: folder.path().join("log"),
        })?;
        let keycloak = Self {
            url: format!("http://127.0.0.1:{port}"),
            guard,
            _folder: folder,
        };
        keycloak.wait_until_ready().await?;
        Ok(keycloak)
    }

    /// Its address, without a slash at the end.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// An access token of its administrator.
    pub async fn admin_token(&self) -> Result<String> {
        let url = format!("{}/realms/master/protocol/openid-connect/token", self.url);
        let form =
            format!("grant_type=password&client_id=admin-cli&username={ADMIN}&password={ADMIN}");
        let request = reqwest::Client::new().post(url);
        let request = request.header("content-type", "application/x-www-form-urlencoded");
        let answer = request.body(form).send().await?.error_for_status()?;
        let answer: serde_json::Value = answer.json().await?;
        let token = answer["access_token"].as_str();
        Ok(token.context("no token of the administrator")?.to_owned())
    }

    async fn wait_until_ready(&self) -> Result<()> {
        let began = Instant::now();
        while self.admin_token().await.is_err() {
            if self.guard.exited() || began.elapsed() > START_TIMEOUT {
                bail!("Keycloak does not start:\n{}", self.guard.log_tail());
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        Ok(())
    }
}

fn folder() -> Result<PathBuf> {
    Ok(cache::root()?.join(format!("keycloak-{VERSION}")))
}

/// Fails with what to do where no Java is new enough.
fn check_java() -> Result<()> {
    let asked = Command::new("java").arg("-version").output();
    let said = asked.map(|done| String::from_utf8_lossy(&done.stderr).into_owned());
    let version = said.as_deref().ok().and_then(java_version);
    match version {
        Some(version) if version >= JAVA_MIN => Ok(()),
        found => {
            let found = found.map_or("none".to_owned(), |version| version.to_string());
            let wanted = format!(
                "Keycloak needs Java {JAVA_MIN} or newer, found {found}; on Debian: apt-get install \
                 openjdk-17-jre-headless"
            );
            Err(Missing(wanted).into())
        }
    }
}

/// The major version in what `java -version` says, such as `openjdk version "17.0.15"`.
fn java_version(said: &str) -> Option<u32> {
    let version = said.split('"').nth(1)?;
    let mut numbers = version.split(['.', '-', '+', '_']);
    match numbers.next()?.parse().ok()? {
        // Java 8 calls itself 1.8.
        1 => numbers.next()?.parse().ok(),
        major => Some(major),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_java_is_its_first_number() {
        for (said, expected) in [
            ("openjdk version \"17.0.15\" 2025-04-15\nOpenJDK", Some(17)),
            ("openjdk version \"21\" 2023-09-19", Some(21)),
            ("java version \"1.8.0_392\"", Some(8)),
            ("openjdk version \"25-ea\"", Some(25)),
            ("bash: java: command not found", None),
            ("", None),
        ] {
            assert_eq!(java_version(said), expected, "{said}");
        }
    }
}

//! Checks whether a server with these settings could listen, and who could reach it.

use std::{
    io,
    net::{SocketAddr, TcpListener},
    os::unix::fs::PermissionsExt,
    path::Path,
};

use super::report::{Finding, Section};
use crate::{cli::Settings, config::Config};
use kubecrier_k8s::ClusterIdentity;
use kubecrier_server::{HttpConfig, TlsFiles, Transport};

/// Checks the settings of a server.
pub(super) fn check_settings(settings: &Settings) -> Section {
    let config = Config::try_from(settings.clone());
    let config = config.map(|config| (config.transport, config.cluster.identity));
    let findings = match config {
        Err(error) => vec![Finding::error(&error.to_string())],
        Ok((Transport::Stdio, _)) => vec![Finding::ok(
            "no port is set: it serves on stdio, where agents poll (events_poll); set --port for pushes",
        )],
        Ok((Transport::Http(http), identity)) => check_http(&http, identity),
    };
    Section::new("settings", findings)
}

fn check_http(http: &HttpConfig, identity: ClusterIdentity) -> Vec<Finding> {
    let scheme = http.tls.as_ref().map_or("http", |_| "https");
    let mut findings = vec![check_port(http.listen, scheme, "mcp")];
    let is_loopback = http.listen.ip().to_canonical().is_loopback();
    if !is_loopback && http.allowed_hosts.is_empty() {
        findings.push(
            Finding::note("requests must name this host by its address")
                .hint("name the hosts that clients use with --allowed-hosts"),
        );
    }
    match &http.tls {
        Some(files) => findings.extend(check_certificate(files)),
        None if !is_loopback => findings.push(
            Finding::note("others can reach it, and everything is sent in clear text, tokens too")
                .hint(
                    "name a certificate with --tls-cert and --tls-key, or keep the network private",
                ),
        ),
        None => {}
    }
    if let Some(path) = &http.auth_token_file {
        findings.extend(check_token_file(path, identity));
    }
    if http.allow_other_users && is_loopback && http.auth_token_file.is_none() {
        findings.push(
            Finding::note("every user of this machine can call it (--allow-other-users)")
                .hint("tokens tell them apart: --auth-token-file"),
        );
    }
    if let Some(address) = http.admin {
        findings.push(check_port(address, scheme, "metrics"));
        if !address.ip().to_canonical().is_loopback() {
            findings.push(Finding::note(format!(
                "{address} shows what all callers watch to everyone who can reach it (--admin-address)"
            )));
        }
    }
    findings
}

fn check_port(listen: SocketAddr, scheme: &str, page: &str) -> Finding {
    match TcpListener::bind(listen) {
        Ok(_free) => Finding::ok(format!("{listen} is free to listen on")),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            let finding = Finding::note(format!("{listen} is taken"));
            if page == "mcp" {
                finding.hint(format!(
                    "if that is a kubecrier, check it with `kubecrier doctor --url {scheme}://{listen}/mcp`"
                ))
            } else {
                finding.hint(format!(
                    "if that is a kubecrier, {scheme}://{listen}/{page} shows it"
                ))
            }
        }
        Err(error) => Finding::fail(format!("cannot listen on {listen}: {error}")),
    }
}

fn check_token_file(path: &Path, identity: ClusterIdentity) -> Vec<Finding> {
    match kubecrier_server::check_token_file(path) {
        Ok(found) => {
            let count = found.tokens;
            let text = format!("the token file `{}` has {count} tokens", path.display());
            let refused = found.without_user;
            let unmapped = (identity.is_impersonate() && refused > 0).then(|| {
                Finding::note(format!(
                    "{refused} of them name no Kubernetes user and are refused"
                ))
                .hint("write `name:token user=ann@example.com groups=dev,ops`")
            });
            [Some(Finding::ok(text)), unmapped, check_rights(path)]
                .into_iter()
                .flatten()
                .collect()
        }
        Err(error) => vec![Finding::fail(error.to_string())],
    }
}

fn check_certificate(files: &TlsFiles) -> Vec<Finding> {
    match files.check() {
        Ok(()) => {
            let text = format!(
                "the certificate `{}` fits its key",
                files.certificate.display()
            );
            [Some(Finding::ok(text)), check_rights(&files.key)]
                .into_iter()
                .flatten()
                .collect()
        }
        Err(error) => vec![Finding::fail(error.to_string())],
    }
}

/// A secret that others on the machine can read.
fn check_rights(path: &Path) -> Option<Finding> {
    const OTHERS: u32 = 0o007;
    let mode = std::fs::metadata(path).ok()?.permissions().mode();
    (mode & OTHERS != 0).then(|| {
        let path = path.display();
        Finding::note(format!("`{path}` is open to every user of this machine"))
            .hint(format!("chmod o= {path}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(settings: Settings) -> Vec<String> {
        let section = check_settings(&Settings {
            port: Some(0),
            ..settings
        });
        let text = |one: Finding| format!("{:?}: {} {:?}", one.verdict, one.text, one.hint);
        section.findings.into_iter().map(text).collect()
    }

    fn check(settings: Settings, parts: &[&str]) {
        let found = findings(settings);
        for part in parts {
            assert!(
                found.iter().any(|one| one.contains(part)),
                "{part} in {found:#?}"
            );
        }
        assert_eq!(found.len(), parts.len(), "{found:#?}");
    }

    #[test]
    fn who_could_reach_the_server_is_reported() {
        let usual = Settings::default;
        check(usual(), &["Ok: 127.0.0.1:0 is free"]);
        check(
            Settings {
                bind_address: Some("0.0.0.0".to_owned()),
                ..usual()
            },
            &["Fail: `bind-address` is `0.0.0.0`"],
        );
        check(
            Settings {
                bind_address: Some("0.0.0.0".to_owned()),
                allow_unauthenticated: Some(true),
                admin_address: Some("0.0.0.0:0".to_owned()),
                ..usual()
            },
            &[
                "Ok: 0.0.0.0:0 is free",
                "--allowed-hosts",
                "clear text",
                "Ok: 0.0.0.0:0 is free",
                "--admin-address",
            ],
        );
        check(
            Settings {
                allow_other_users: Some(true),
                ..usual()
            },
            &["is free", "every user of this machine can call it"],
        );
    }

    #[test]
    fn files_are_checked_as_the_server_reads_them() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tokens");
        let tokens = || Settings {
            auth_token_file: Some(path.clone()),
            ..Settings::default()
        };
        check(tokens(), &["is free", "Fail: cannot read the token file"]);
        std::fs::write(&path, "ann:short\n").unwrap();
        check(tokens(), &["is free", "Fail: line 1 of the token file"]);
        std::fs::write(&path, "ann:0123456789abcdef\n").unwrap();
        let mode = |mode| std::fs::set_permissions(&path, PermissionsExt::from_mode(mode));
        mode(0o640).unwrap();
        check(tokens(), &["is free", "has 1 tokens"]);
        mode(0o644).unwrap();
        check(tokens(), &["is free", "has 1 tokens", "chmod o="]);
        let acting = || Settings {
            cluster_identity: Some(crate::cli::IdentityChoice::Impersonate),
            ..tokens()
        };
        mode(0o640).unwrap();
        check(
            acting(),
            &[
                "is free",
                "has 1 tokens",
                "1 of them name no Kubernetes user",
            ],
        );
        std::fs::write(&path, "ann:0123456789abcdef user=ann\n").unwrap();
        check(acting(), &["is free", "has 1 tokens"]);
        check(
            Settings {
                tls_cert: Some(path.clone()),
                tls_key: Some(path.clone()),
                ..Settings::default()
            },
            &["is free", "Fail: there is no certificate in"],
        );
    }
}

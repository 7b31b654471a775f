//! Checks whether an entry can work. Findings repeat only names of programs and flags and
//! the URL of an entry, no other value.

use std::{ffi::OsString, fs, os::unix::fs::PermissionsExt, path::Path, time::Duration};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use http::{StatusCode, Uri};

use super::entry::{Connection, ServerEntry, Token, is_kubecrier};
use crate::{
    clients::{McpClient, SearchPaths, UrlHandling},
    config::{Config, ConfigError, Invocation},
    doctor::report::{Finding, Verdict},
};
use kubecrier_client::{ClientError, Endpoint, Probe};
use kubecrier_server::Transport;

/// A running server answers in less.
const PROBE_TIMEOUT: Duration = Duration::from_secs(10);

/// The alternative for clients that do not show pushes.
const POLL_HINT: &str = "let the agent call events_poll, which has the same events";

/// Shorter values are not redacted in what a server answers: they would match anywhere.
const SECRET_BYTES_MIN: usize = 4;

/// Checks an entry.
pub(super) async fn check_entry(
    client: &McpClient,
    server: &ServerEntry,
    paths: &SearchPaths,
) -> Vec<Finding> {
    let name = &server.name;
    if server.disabled {
        let text = format!("`{name}` is switched off");
        return vec![Finding::note(text)];
    }
    match &server.connection {
        Connection::Missing => vec![
            Finding::fail(format!("`{name}` has neither a command nor an address")).hint(
                "write \"command\": \"kubecrier\", or \"url\": \"http://127.0.0.1:8080/mcp\"",
            ),
        ],
        Connection::Stdio { command, args, env } => {
            let mut findings = vec![check_program(name, command, paths)];
            // The flags of a program that cannot be started do not matter.
            if is_kubecrier(command) && findings[0].verdict != Verdict::Fail {
                findings.push(check_arguments(name, args, env));
            }
            findings
        }
        Connection::Http {
            url,
            key,
            transport,
            token,
        } => {
            let is_sse = |text: &str| matches!(text, "sse" | "legacy-sse");
            let transport = transport.as_deref();
            if transport.is_some_and(is_sse) {
                let text = format!(
                    "`{name}` uses the transport before Streamable HTTP (sse), which kubecrier has not"
                );
                return vec![Finding::fail(text).hint("write \"type\": \"http\"")];
            }
            if client.url_handling == UrlHandling::NeedsHttpUrl
                && *key == "url"
                && transport.is_none()
            {
                let text = format!(
                    "`{name}`: {} takes \"url\" for the transport before Streamable HTTP (sse), which \
                     kubecrier has not",
                    client.name
                );
                return vec![Finding::fail(text).hint("write \"httpUrl\" in place of \"url\"")];
            }
            if client.url_handling == UrlHandling::NeedsType && transport.is_none() {
                let text = format!(
                    "`{name}` has an address and no type: {} looks for a command",
                    client.name
                );
                return vec![Finding::fail(text).hint("add \"type\": \"http\"")];
            }
            check_url(client, name, url, token).await
        }
    }
}

// --- commands ---

/// Checks whether the client can find and start the program.
fn check_program(name: &str, command: &str, paths: &SearchPaths) -> Finding {
    if command.starts_with('~') {
        let text = format!("`{name}` starts `{command}`, and clients do not know what ~ is");
        return Finding::fail(text).hint("write the whole path");
    }
    if command.contains("${") {
        let text = format!("`{name}` starts a program whose place only the client knows");
        return Finding::note(text);
    }
    let found = if command.contains('/') {
        let path = paths.project.clone().unwrap_or_default().join(command);
        fs::metadata(&path).is_ok().then_some(path)
    } else {
        let files = paths.programs.iter().map(|folder| folder.join(command));
        files.into_iter().find(|path| is_executable(path))
    };
    match found {
        Some(path) if is_executable(&path) => {
            Finding::ok(format!("`{name}` starts {}", path.display()))
        }
        Some(path) => {
            let text = format!("`{name}` starts {}, which cannot be run", path.display());
            Finding::fail(text).hint(format!("chmod +x {}", path.display()))
        }
        None if command.contains('/') => {
            let text = format!("`{name}` starts `{command}`, which is not there");
            Finding::fail(text).hint(this_program())
        }
        None => {
            let text = format!("`{name}` starts `{command}`, which is in no folder of PATH");
            let hint = this_program();
            Finding::fail(text).hint(format!("write the whole path; {hint}"))
        }
    }
}

fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
}

fn this_program() -> String {
    match std::env::current_exe() {
        Ok(path) => format!("this kubecrier is {}", path.display()),
        Err(_) => "`command -v kubecrier` says where it is".to_owned(),
    }
}

/// Checks whether kubecrier accepts the arguments and variables and then serves on stdio.
fn check_arguments(name: &str, args: &[String], env: &[(String, String)]) -> Finding {
    let mut values = args.iter().chain(env.iter().map(|(_, value)| value));
    if values.any(|value| value.contains("${")) {
        let text =
            format!("`{name}` has words that only the client knows: its flags were not tried");
        return Finding::note(text);
    }
    let arguments = std::iter::once("kubecrier").chain(args.iter().map(String::as_str));
    let environment = (env.iter()).map(|(name, value)| (OsString::from(name), value.into()));
    let loaded = Invocation::load(arguments.map(OsString::from), environment);
    let invocation = match loaded {
        Ok(invocation) => invocation,
        Err(error) => return rejected(name, &error),
    };
    if invocation.command.is_some() {
        let word = args.first().map(String::as_str).unwrap_or_default();
        let text =
            format!("`{name}` runs `kubecrier {word}`, which is for people: it speaks no MCP");
        return Finding::fail(text).hint("leave that word out");
    }
    let config = match Config::try_from(invocation.settings) {
        Ok(config) => config,
        Err(error) => return rejected(name, &error),
    };
    match config.transport {
        Transport::Stdio => Finding::note(format!(
            "`{name}` speaks on stdio, where nothing can be pushed"
        ))
        .hint(format!(
            "{POLL_HINT}; or run `kubecrier --port 8080` and connect to http://127.0.0.1:8080/mcp"
        )),
        Transport::Http(http) => Finding::fail(format!(
            "`{name}` is started with a port, so it serves HTTP, while the client waits on stdio"
        ))
        .hint(format!(
            "leave the port out; or start it yourself, and have the client connect to \
             {}://{}/mcp",
            http.tls.as_ref().map_or("http", |_| "https"),
            http.listen
        )),
    }
}

/// The finding on rejected arguments, without their values.
fn rejected(name: &str, error: &ConfigError) -> Finding {
    let what = match error {
        ConfigError::Usage(error) => {
            let flag = match error.get(ContextKind::InvalidArg) {
                Some(ContextValue::String(text)) => text.split(['=', ' ']).next(),
                _ => None,
            };
            match (error.kind(), flag.filter(|flag| flag.starts_with("--"))) {
                (ErrorKind::DisplayHelp | ErrorKind::DisplayVersion, _) => {
                    "it is asked for help or its version, and ends".to_owned()
                }
                (ErrorKind::UnknownArgument, Some(flag)) => format!("there is no flag {flag}"),
                (_, Some(flag)) => format!("{flag} does not have a value that it can have"),
                (_, None) => "there is a word that it does not know".to_owned(),
            }
        }
        ConfigError::Impersonation { why, .. } => {
            format!("--cluster-identity is impersonate, but {why}")
        }
        ConfigError::IdentityNotChosen { setting } => {
            format!("--{setting} needs --cluster-identity")
        }
        ConfigError::UnknownVariable { name, .. } => format!("there is no setting {name}"),
        ConfigError::File { path, source } => {
            format!("the file {} cannot be read: {source}", path.display())
        }
        ConfigError::Syntax { path, .. } => {
            format!("the file {} is not as it should be", path.display())
        }
        ConfigError::Unauthenticated { .. } => {
            "it would listen for others without asking who they are".to_owned()
        }
        ConfigError::ProjectForAll => {
            "every user of this machine could run the project's executables".to_owned()
        }
        ConfigError::Unfit { key, command, .. } => {
            format!("--{key} does not go with the command {command}")
        }
        ConfigError::Incomplete { given, missing } => format!("--{given} needs --{missing}"),
        ConfigError::Sink { sink, reason } => format!("sink {sink}: {reason}"),
        ConfigError::ClusterStore { why } => why.clone(),
        ConfigError::Value { key, expected, .. } => format!("--{key} must be {expected}"),
    };
    Finding::fail(format!("`{name}` ends at once: {what}"))
        .hint("run the command in a terminal to see more; `kubecrier --help-all` lists the flags")
}

// --- URLs ---

/// Checks whether a server answers at the URL and whether its pushes arrive.
async fn check_url(client: &McpClient, name: &str, url: &str, token: &Token) -> Vec<Finding> {
    if url.contains("${") {
        let text = format!("`{name}` has an address that only the client knows: it was not tried");
        return vec![Finding::note(text)];
    }
    let Some((shown, path)) = without_credentials(url) else {
        let text = format!("`{name}` has an address that is none");
        return vec![Finding::fail(text).hint("write http://127.0.0.1:8080/mcp")];
    };
    if path == "/" {
        let text = format!("`{name}` is at {shown}, where kubecrier serves no MCP");
        let hint = format!("write {}/mcp", shown.trim_end_matches('/'));
        return vec![Finding::fail(text).hint(hint)];
    }
    let sent = match token {
        Token::Bearer(token) => Some(token.as_str()),
        Token::None | Token::Unknown => None,
    };
    let endpoint = match Endpoint::new(url, sent) {
        Ok(endpoint) => endpoint,
        Err(ClientError::InvalidToken) => {
            let text = format!("`{name}` sends a token with characters that no token has");
            return vec![Finding::fail(text)];
        }
        Err(_) => return vec![Finding::fail(format!("`{name}`: {shown} cannot be tried"))],
    };
    let mut secrets = secrets(url);
    secrets.extend(sent);
    let full_url = endpoint.url();
    let redact = |text: &str| without_secrets(&secrets, &text.replace(&full_url, &shown));
    let probe = match tokio::time::timeout(PROBE_TIMEOUT, Probe::run(endpoint)).await {
        Ok(probe) => probe,
        Err(_elapsed) => {
            let seconds = PROBE_TIMEOUT.as_secs();
            let text = format!("`{name}`: no answer from {shown} within {seconds} s");
            return vec![Finding::fail(text).hint(start_hint(&shown))];
        }
    };
    match &probe.error {
        Some(error) => vec![connection_failure(name, &shown, token, error, &redact)],
        None => {
            let server = redact(probe.server.as_deref().unwrap_or("?"));
            describe_probe(client, name, &shown, &server, &probe)
        }
    }
}

fn describe_probe(
    client: &McpClient,
    name: &str,
    shown: &str,
    server: &str,
    probe: &Probe,
) -> Vec<Finding> {
    let mut findings = vec![Finding::ok(format!("`{name}` reaches {shown}: {server}"))];
    if !probe.has_subscribe {
        let text = format!("`{name}`: what is there has no events_subscribe: is it a kubecrier?");
        findings.push(Finding::fail(text));
        return findings;
    }
    findings.push(match (&probe.push, client.pushes) {
        (None, _) => Finding::fail(format!("`{name}`: no push came within 5 s")).hint(format!(
            "a proxy in between may hold streams back; {POLL_HINT}"
        )),
        (Some(_), Some(what)) => Finding::note(format!(
            "`{name}`: pushes come this far, and {} {what}",
            client.name
        ))
        .hint(POLL_HINT),
        (Some(_), None) => Finding::ok(format!("`{name}`: pushes come this far")).hint(format!(
            "if {} does not show them, {POLL_HINT}",
            client.name
        )),
    });
    findings
}

/// The finding on a failed connection; `redact` removes secrets from what a server answered.
fn connection_failure(
    name: &str,
    shown: &str,
    token: &Token,
    error: &ClientError,
    redact: &dyn Fn(&str) -> String,
) -> Finding {
    match (error, token) {
        (ClientError::Unauthorized(_), Token::Unknown) => Finding::note(format!(
            "`{name}`: {shown} asks for a token, and only the client knows the one it sends"
        ))
        .hint("try it with `KUBECRIER_TOKEN=... kubecrier doctor --url ...`"),
        (ClientError::Unauthorized(_), Token::Bearer(_)) => {
            Finding::fail(format!("`{name}`: {shown} does not accept its token"))
                .hint("the tokens that it accepts are in the file of its --auth-token-file")
        }
        (ClientError::Unauthorized(_), Token::None) => Finding::fail(format!(
            "`{name}`: {shown} asks for a token, and none is sent"
        ))
        .hint("add a header: \"Authorization\": \"Bearer TOKEN\""),
        (ClientError::Status { status, body, .. }, _)
            if *status == StatusCode::FORBIDDEN && body.contains("--allowed-hosts") =>
        {
            Finding::fail(format!("`{name}`: {shown} does not go by that host name"))
                .hint("start the server with --allowed-hosts and the host of this address")
        }
        (ClientError::Status { status, .. }, _)
            if matches!(
                *status,
                StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED
            ) =>
        {
            Finding::fail(format!("`{name}`: there is no MCP at {shown} ({status})"))
                .hint("kubecrier serves it at /mcp")
        }
        (ClientError::Unreachable { .. }, _) => {
            let text = redact(&error.to_string());
            let finding = Finding::error(&format!("`{name}`: {text}"));
            match finding.hint {
                Some(_) => finding,
                None => finding.hint(start_hint(shown)),
            }
        }
        _ => {
            let text = redact(&error.to_string());
            Finding::error(&format!("`{name}`: {text}"))
        }
    }
}

/// The parts of a URL that may be secret: its user information and the values of its query.
fn secrets(url: &str) -> Vec<&str> {
    let (address, query) = url.split_once('?').unwrap_or((url, ""));
    let (_, address) = address.split_once("://").unwrap_or(("", address));
    let authority = address.split('/').next().unwrap_or_default();
    let user = authority.rsplit_once('@').map_or("", |(user, _)| user);
    let values = query.split('&').filter_map(|pair| pair.split_once('='));
    let user = std::iter::once(user).chain(user.split_once(':').map(|(_, password)| password));
    let mut all: Vec<_> = user.chain(values.map(|(_, value)| value)).collect();
    // A value such as 1 is no secret and would match anywhere.
    all.retain(|one| one.len() >= SECRET_BYTES_MIN);
    all
}

/// The text without the secrets that were sent: a server may repeat them.
fn without_secrets(secrets: &[&str], text: &str) -> String {
    let mut text = text.to_owned();
    for secret in secrets.iter().filter(|one| !one.is_empty()) {
        text = text.replace(secret, "[redacted]");
        // The answer of a server is cut, maybe in the middle of a secret.
        let cuts = secret.char_indices().map(|(at, _)| at).rev();
        let cut = cuts
            .filter(|at| *at >= SECRET_BYTES_MIN)
            .find(|at| text.ends_with(&secret[..*at]));
        if let Some(cut) = cut {
            text.truncate(text.len() - cut);
            text.push_str("[redacted]");
        }
    }
    text
}

fn start_hint(shown: &str) -> String {
    let port = shown.parse::<Uri>().ok().and_then(|uri| uri.port_u16());
    let port = port.map_or("8080".to_owned(), |port| port.to_string());
    format!("is it running? `kubecrier --port {port}` starts it")
}

/// The URL without credentials and query, and its path.
fn without_credentials(url: &str) -> Option<(String, String)> {
    let uri: Uri = url.parse().ok()?;
    let scheme = uri
        .scheme_str()
        .filter(|one| matches!(*one, "http" | "https"))?;
    let host = uri.authority()?.as_str();
    let host = host.rsplit('@').next().unwrap_or(host);
    Some((
        format!("{scheme}://{host}{}", uri.path()),
        uri.path().to_owned(),
    ))
}

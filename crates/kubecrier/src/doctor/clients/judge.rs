//! Whether an entry can work, and what to do if not. Of what stands in it, only names
//! of programs and flags and the address are repeated.

use std::{ffi::OsString, fs, os::unix::fs::PermissionsExt, path::Path, time::Duration};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use http::{StatusCode, Uri};

use super::{
    Client, Places, Reads,
    entry::{Launch, Server, Token, is_us},
};
use crate::{
    config::{Config, ConfigError, Invocation},
    doctor::report::{Finding, Verdict},
    watch::{Endpoint, Probe, WireError},
};
use kubecrier_server::Transport;

/// A server that is there answers in less.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// The pull twin, for whoever is not told.
const POLL: &str = "let the agent call events_poll, which has the same events";

/// What is shorter is not looked for in the words of a server.
const SECRET_BYTES_MIN: usize = 4;

/// What there is to say of an entry.
pub(super) async fn judge(client: &Client, server: &Server, places: &Places) -> Vec<Finding> {
    let name = &server.name;
    if server.off {
        let text = format!("`{name}` is switched off");
        return vec![Finding::note(text)];
    }
    match &server.launch {
        Launch::Nothing => vec![
            Finding::fail(format!("`{name}` has neither a command nor an address")).hint(
                "write \"command\": \"kubecrier\", or \"url\": \"http://127.0.0.1:8080/mcp\"",
            ),
        ],
        Launch::Command { command, args, env } => {
            let mut findings = vec![program(name, command, places)];
            // What is not started need not be told anything.
            if is_us(command) && findings[0].verdict != Verdict::Fail {
                findings.push(words(name, args, env));
            }
            findings
        }
        Launch::Url {
            url,
            key,
            kind,
            token,
        } => {
            let old = |text: &str| matches!(text, "sse" | "legacy-sse");
            let kind = kind.as_deref();
            if kind.is_some_and(old) {
                let text = format!(
                    "`{name}` uses the transport before Streamable HTTP (sse), which kubecrier has not"
                );
                return vec![Finding::fail(text).hint("write \"type\": \"http\"")];
            }
            if client.reads == Reads::HttpUrl && *key == "url" && kind.is_none() {
                let text = format!(
                    "`{name}`: {} takes \"url\" for the transport before Streamable HTTP (sse), which \
                     kubecrier has not",
                    client.name
                );
                return vec![Finding::fail(text).hint("write \"httpUrl\" in place of \"url\"")];
            }
            if client.reads == Reads::TypeNeeded && kind.is_none() {
                let text = format!(
                    "`{name}` has an address and no type: {} looks for a command",
                    client.name
                );
                return vec![Finding::fail(text).hint("add \"type\": \"http\"")];
            }
            address(client, name, url, token).await
        }
    }
}

// --- programs ---

/// Whether the client finds something to start.
fn program(name: &str, command: &str, places: &Places) -> Finding {
    if command.starts_with('~') {
        let text = format!("`{name}` starts `{command}`, and clients do not know what ~ is");
        return Finding::fail(text).hint("write the whole path");
    }
    if command.contains("${") {
        let text = format!("`{name}` starts a program whose place only the client knows");
        return Finding::note(text);
    }
    let found = if command.contains('/') {
        let path = places.here.clone().unwrap_or_default().join(command);
        fs::metadata(&path).is_ok().then_some(path)
    } else {
        let files = places.path.iter().map(|folder| folder.join(command));
        files.into_iter().find(|path| runs(path))
    };
    match found {
        Some(path) if runs(&path) => Finding::ok(format!("`{name}` starts {}", path.display())),
        Some(path) => {
            let text = format!("`{name}` starts {}, which cannot be run", path.display());
            Finding::fail(text).hint(format!("chmod +x {}", path.display()))
        }
        None if command.contains('/') => {
            let text = format!("`{name}` starts `{command}`, which is not there");
            Finding::fail(text).hint(where_we_are())
        }
        None => {
            let text = format!("`{name}` starts `{command}`, which is in no folder of PATH");
            let hint = where_we_are();
            Finding::fail(text).hint(format!("write the whole path; {hint}"))
        }
    }
}

fn runs(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
}

fn where_we_are() -> String {
    match std::env::current_exe() {
        Ok(path) => format!("this kubecrier is {}", path.display()),
        Err(_) => "`command -v kubecrier` says where it is".to_owned(),
    }
}

/// Whether the program understands what it is told, and then speaks on stdin and
/// stdout.
fn words(name: &str, args: &[String], env: &[(String, String)]) -> Finding {
    let all = || args.iter().chain(env.iter().map(|(_, value)| value));
    if all().any(|word| word.contains("${")) {
        let text =
            format!("`{name}` has words that only the client knows: its flags were not tried");
        return Finding::note(text);
    }
    let arguments = std::iter::once("kubecrier").chain(args.iter().map(String::as_str));
    let environment = (env.iter()).map(|(name, value)| (OsString::from(name), value.into()));
    let read = Invocation::load(arguments.map(OsString::from), environment);
    let invocation = match read {
        Ok(invocation) => invocation,
        Err(error) => return refused(name, &error),
    };
    if invocation.command.is_some() {
        let word = args.first().map(String::as_str).unwrap_or_default();
        let text =
            format!("`{name}` runs `kubecrier {word}`, which is for people: it speaks no MCP");
        return Finding::fail(text).hint("leave that word out");
    }
    let config = match Config::try_from(invocation.settings) {
        Ok(config) => config,
        Err(error) => return refused(name, &error),
    };
    match config.transport {
        Transport::Stdio => Finding::note(format!(
            "`{name}` speaks on stdio, where nothing can be pushed"
        ))
        .hint(format!(
            "{POLL}; or run `kubecrier --port 8080` and connect to http://127.0.0.1:8080/mcp"
        )),
        Transport::Http(http) => Finding::fail(format!(
            "`{name}` is started with a port, so it serves HTTP, while the client waits on stdio"
        ))
        .hint(format!(
            "leave the port out; or start it yourself, and have the client connect to \
             http://{}/mcp",
            http.listen
        )),
    }
}

/// What is wrong with the words, without repeating a value.
fn refused(name: &str, error: &ConfigError) -> Finding {
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
        ConfigError::UnknownVariable { name, .. } => format!("there is no setting {name}"),
        ConfigError::File { path, source } => {
            format!("the file {} cannot be read: {source}", path.display())
        }
        ConfigError::Syntax { path, .. } => {
            format!("the file {} is not as it should be", path.display())
        }
        ConfigError::Unguarded { .. } => {
            "it would listen for others without asking who they are".to_owned()
        }
        ConfigError::Value { key, expected, .. } => format!("--{key} must be {expected}"),
    };
    Finding::fail(format!("`{name}` ends at once: {what}"))
        .hint("run the command in a terminal to see more; `kubecrier --help-all` lists the flags")
}

// --- addresses ---

/// Whether somebody is there, and what it is.
async fn address(client: &Client, name: &str, url: &str, token: &Token) -> Vec<Finding> {
    if url.contains("${") {
        let text = format!("`{name}` has an address that only the client knows: it was not tried");
        return vec![Finding::note(text)];
    }
    let Some((shown, path)) = shown(url) else {
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
        Err(WireError::Token) => {
            let text = format!("`{name}` sends a token with characters that no token has");
            return vec![Finding::fail(text)];
        }
        Err(_) => return vec![Finding::fail(format!("`{name}`: {shown} cannot be tried"))],
    };
    let mut secrets = secrets(url);
    secrets.extend(sent);
    let whole = endpoint.url();
    let say = |words: &str| without(&secrets, &words.replace(&whole, &shown));
    let probe = match tokio::time::timeout(ANSWER_WITHIN, Probe::run(endpoint)).await {
        Ok(probe) => probe,
        Err(_elapsed) => {
            let seconds = ANSWER_WITHIN.as_secs();
            let text = format!("`{name}`: no answer from {shown} within {seconds} s");
            return vec![Finding::fail(text).hint(is_it_up(&shown))];
        }
    };
    match &probe.error {
        Some(error) => vec![failure(name, &shown, token, error, &say)],
        None => {
            let server = say(probe.server.as_deref().unwrap_or("?"));
            reached(client, name, &shown, &server, &probe)
        }
    }
}

fn reached(client: &Client, name: &str, shown: &str, server: &str, probe: &Probe) -> Vec<Finding> {
    let mut findings = vec![Finding::ok(format!("`{name}` reaches {shown}: {server}"))];
    if !probe.subscribe {
        let text = format!("`{name}`: what is there has no events_subscribe: is it a kubecrier?");
        findings.push(Finding::fail(text));
        return findings;
    }
    findings.push(match (&probe.pushed, client.pushes) {
        (None, _) => Finding::fail(format!("`{name}`: no push came within 5 s"))
            .hint(format!("a proxy in between may hold streams back; {POLL}")),
        (Some(_), Some(what)) => Finding::note(format!(
            "`{name}`: pushes come this far, and {} {what}",
            client.name
        ))
        .hint(POLL),
        (Some(_), None) => Finding::ok(format!("`{name}`: pushes come this far"))
            .hint(format!("if {} does not show them, {POLL}", client.name)),
    });
    findings
}

/// What went wrong; `say` makes what a server said fit to be repeated.
fn failure(
    name: &str,
    shown: &str,
    token: &Token,
    error: &WireError,
    say: &dyn Fn(&str) -> String,
) -> Finding {
    match (error, token) {
        (WireError::Unauthorized(_), Token::Unknown) => Finding::note(format!(
            "`{name}`: {shown} asks for a token, and only the client knows the one it sends"
        ))
        .hint("try it with `KUBECRIER_TOKEN=... kubecrier doctor --url ...`"),
        (WireError::Unauthorized(_), Token::Bearer(_)) => {
            Finding::fail(format!("`{name}`: {shown} does not accept its token"))
                .hint("the tokens that it accepts are in the file of its --auth-token-file")
        }
        (WireError::Unauthorized(_), Token::None) => Finding::fail(format!(
            "`{name}`: {shown} asks for a token, and none is sent"
        ))
        .hint("add a header: \"Authorization\": \"Bearer TOKEN\""),
        (WireError::Refused { status, said, .. }, _)
            if *status == StatusCode::FORBIDDEN && said.contains("--allowed-hosts") =>
        {
            Finding::fail(format!("`{name}`: {shown} does not go by that host name"))
                .hint("start the server with --allowed-hosts and the host of this address")
        }
        (WireError::Refused { status, .. }, _)
            if matches!(
                *status,
                StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED
            ) =>
        {
            Finding::fail(format!("`{name}`: there is no MCP at {shown} ({status})"))
                .hint("kubecrier serves it at /mcp")
        }
        (WireError::Unreachable { .. }, _) => {
            let text = say(&error.to_string());
            let finding = Finding::error(&format!("`{name}`: {text}"));
            match finding.hint {
                Some(_) => finding,
                None => finding.hint(is_it_up(shown)),
            }
        }
        _ => {
            let text = say(&error.to_string());
            Finding::error(&format!("`{name}`: {text}"))
        }
    }
}

/// What an address has that may be secret: who asks, and the values of its query.
fn secrets(url: &str) -> Vec<&str> {
    let (address, query) = url.split_once('?').unwrap_or((url, ""));
    let (_, address) = address.split_once("://").unwrap_or(("", address));
    let authority = address.split('/').next().unwrap_or_default();
    let user = authority.rsplit_once('@').map_or("", |(user, _)| user);
    let values = query.split('&').filter_map(|pair| pair.split_once('='));
    let user = std::iter::once(user).chain(user.split_once(':').map(|(_, password)| password));
    let mut all: Vec<_> = user.chain(values.map(|(_, value)| value)).collect();
    // A value such as 1 is no secret, and would be found everywhere.
    all.retain(|one| one.len() >= SECRET_BYTES_MIN);
    all
}

/// The same without the secrets that we sent: a server may repeat what it was told.
fn without(secrets: &[&str], said: &str) -> String {
    let mut said = said.to_owned();
    for secret in secrets.iter().filter(|one| !one.is_empty()) {
        said = said.replace(secret, "[redacted]");
        // What a server says is cut, maybe in the middle of it.
        let cuts = secret.char_indices().map(|(at, _)| at).rev();
        let cut = cuts
            .filter(|at| *at >= SECRET_BYTES_MIN)
            .find(|at| said.ends_with(&secret[..*at]));
        if let Some(cut) = cut {
            said.truncate(said.len() - cut);
            said.push_str("[redacted]");
        }
    }
    said
}

fn is_it_up(shown: &str) -> String {
    let port = shown.parse::<Uri>().ok().and_then(|uri| uri.port_u16());
    let port = port.map_or("8080".to_owned(), |port| port.to_string());
    format!("is it running? `kubecrier --port {port}` starts it")
}

/// The address without a password and without what may be one, and its path.
fn shown(url: &str) -> Option<(String, String)> {
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

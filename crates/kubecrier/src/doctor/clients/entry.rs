//! Entries of servers in the configuration files of MCP clients. Different clients use
//! slightly different keys for the same.

use std::path::Path;

use serde_json::{Map, Value};

use crate::clients::{FileFormat, ParseError};

/// The entry of a server.
#[derive(Debug, PartialEq)]
pub(super) struct ServerEntry {
    pub(super) name: String,
    pub(super) disabled: bool,
    pub(super) connection: Connection,
}

/// How a client connects to a server.
#[derive(Debug, PartialEq)]
pub(super) enum Connection {
    /// Starts a program and uses its stdin and stdout.
    Stdio {
        command: String,
        args: Vec<String>,
        env: Vec<(String, String)>,
    },
    /// Sends HTTP requests.
    Http {
        url: String,
        /// The key of the URL in the entry.
        key: &'static str,
        transport: Option<String>,
        token: Token,
    },
    /// The entry has neither a command nor a URL.
    Missing,
}

/// The bearer token that a client sends.
#[derive(Debug, PartialEq)]
pub(super) enum Token {
    None,
    Bearer(String),
    /// Only the client knows the token: it is in a variable, or the client asks for it.
    Unknown,
}

/// Programs that start other programs.
const LAUNCHERS: [&str; 12] = [
    "bash", "cargo", "cmd", "docker", "env", "flatpak", "nix", "npx", "podman", "sh", "sudo", "uvx",
];

/// The entries of a file.
pub(super) fn parse(
    text: &str,
    format: FileFormat,
    key: &str,
) -> Result<Vec<ServerEntry>, ParseError> {
    let root = format.parse(text)?;
    let mut servers = Vec::new();
    collect(&root[key], "", &mut servers);
    // Claude Code keeps entries of single projects under `projects`.
    for (project, settings) in root["projects"].as_object().into_iter().flatten() {
        collect(&settings[key], project, &mut servers);
    }
    Ok(servers)
}

fn collect(listed: &Value, project: &str, servers: &mut Vec<ServerEntry>) {
    for (name, entry) in listed.as_object().into_iter().flatten() {
        let Value::Object(entry) = entry else {
            continue;
        };
        let name = if project.is_empty() {
            name.clone()
        } else {
            format!("{name} of {project}")
        };
        servers.push(ServerEntry {
            name,
            disabled: entry.get("disabled") == Some(&Value::Bool(true))
                || entry.get("enabled") == Some(&Value::Bool(false)),
            connection: Connection::parse(entry),
        });
    }
}

// === impl Connection ===

impl Connection {
    fn parse(entry: &Map<String, Value>) -> Self {
        for key in ["httpUrl", "serverUrl", "url"] {
            if let Some(Value::String(url)) = entry.get(key) {
                let transport = entry.get("type").and_then(Value::as_str);
                return Self::Http {
                    url: url.clone(),
                    key,
                    transport: transport.map(str::to_lowercase),
                    token: Token::parse(entry),
                };
            }
        }
        let words = |value: Option<&Value>| -> Vec<String> {
            let words = value.and_then(Value::as_array).into_iter().flatten();
            words.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let mut args = words(entry.get("args"));
        let command = match entry.get("command") {
            Some(Value::String(command)) => command.clone(),
            // The program and its arguments in one list.
            Some(Value::Array(_)) => {
                let mut all = words(entry.get("command"));
                if all.is_empty() {
                    return Self::Missing;
                }
                let command = all.remove(0);
                args.splice(..0, all);
                command
            }
            Some(Value::Object(command)) => {
                args.splice(..0, words(command.get("args")));
                let path = command.get("path").and_then(Value::as_str);
                path.unwrap_or_default().to_owned()
            }
            _ => return Self::Missing,
        };
        let env =
            (entry.get("env").or_else(|| entry.get("environment"))).and_then(Value::as_object);
        let env = env.into_iter().flatten().filter_map(|(name, value)| {
            let value = match value {
                Value::String(text) => text.clone(),
                Value::Number(number) => number.to_string(),
                _ => return None,
            };
            Some((name.clone(), value))
        });
        Self::Stdio {
            command,
            args,
            env: env.collect(),
        }
    }

    /// Whether the command or the URL names kubecrier.
    pub(super) fn names_kubecrier(&self) -> bool {
        match self {
            Self::Stdio { command, args, .. } => {
                is_kubecrier(command)
                    || (LAUNCHERS.contains(&base_name(command))
                        && args.iter().any(|arg| is_kubecrier(arg)))
            }
            Self::Http { url, .. } => url.to_lowercase().contains("kubecrier"),
            Self::Missing => false,
        }
    }
}

/// Whether the command is the program itself, and not one that starts it.
pub(super) fn is_kubecrier(command: &str) -> bool {
    base_name(command) == "kubecrier"
}

/// The name of a program or of an image, without its folder and version.
fn base_name(command: &str) -> &str {
    let name = Path::new(command)
        .file_name()
        .and_then(|name| name.to_str());
    let name = name.unwrap_or_default();
    let name = name.split([':', '@']).next().unwrap_or_default();
    name.strip_suffix(".exe").unwrap_or(name)
}

// === impl Token ===

impl Token {
    fn parse(entry: &Map<String, Value>) -> Self {
        let has = |key: &str| entry.contains_key(key);
        if has("bearer_token_env_var") || has("env_http_headers") || has("headersHelper") {
            return Self::Unknown;
        }
        let headers = ["headers", "http_headers", "requestInit"];
        let headers = headers.iter().find_map(|key| entry.get(*key)?.as_object());
        let sent = headers.into_iter().flatten().find_map(|(name, value)| {
            (name.eq_ignore_ascii_case("authorization")).then_some(value.as_str()?)
        });
        match sent {
            None => Self::None,
            Some(text) if text.contains(['$', '{']) => Self::Unknown,
            Some(text) => match text.split_once(' ') {
                Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => {
                    Self::Bearer(token.trim().to_owned())
                }
                _ => Self::Unknown,
            },
        }
    }
}

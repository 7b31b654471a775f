//! A server as a client's file has it. Files of different clients say the same in
//! slightly different words.

use std::path::Path;

use jsonc_parser::ParseOptions;
use serde_json::{Map, Value};

use super::Form;

/// One entry.
#[derive(Debug, PartialEq)]
pub(super) struct Server {
    pub(super) name: String,
    /// The client does not use it.
    pub(super) off: bool,
    pub(super) launch: Launch,
}

/// How the client gets to it.
#[derive(Debug, PartialEq)]
pub(super) enum Launch {
    /// It starts a program and speaks on its stdin and stdout.
    Command {
        command: String,
        args: Vec<String>,
        env: Vec<(String, String)>,
    },
    /// It sends requests.
    Url {
        url: String,
        /// The word that the address stands under.
        key: &'static str,
        kind: Option<String>,
        token: Token,
    },
    /// Neither a program nor an address.
    Nothing,
}

/// How it says who it is.
#[derive(Debug, PartialEq)]
pub(super) enum Token {
    None,
    /// As it is sent.
    Bearer(String),
    /// Only the client knows it: a variable, or something it asks for.
    Unknown,
}

/// A file that its client cannot read.
#[derive(Debug, PartialEq)]
pub(super) struct Broken {
    pub(super) line: usize,
    pub(super) why: String,
}

/// Programs that start others.
const STARTERS: [&str; 12] = [
    "bash", "cargo", "cmd", "docker", "env", "flatpak", "nix", "npx", "podman", "sh", "sudo", "uvx",
];

/// All servers of a file.
pub(super) fn read(text: &str, form: Form, key: &str) -> Result<Vec<Server>, Broken> {
    let root = match form {
        Form::Json | Form::Jsonc => json(text, form == Form::Jsonc)?,
        Form::Toml => toml(text)?,
    };
    let mut servers = Vec::new();
    collect(&root[key], "", &mut servers);
    // What Claude Code keeps for a project alone.
    for (project, settings) in root["projects"].as_object().into_iter().flatten() {
        collect(&settings[key], project, &mut servers);
    }
    Ok(servers)
}

fn json(text: &str, comments: bool) -> Result<Value, Broken> {
    let options = ParseOptions {
        allow_comments: comments,
        allow_trailing_commas: comments,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    };
    jsonc_parser::parse_to_serde_value(text, &options).map_err(|error| Broken {
        line: error.line_display(),
        why: format!(
            "this is not JSON: {}",
            error.kind().to_string().to_lowercase()
        ),
    })
}

fn toml(text: &str) -> Result<Value, Broken> {
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
        let before = error.span().map_or(0, |span| span.start);
        let before = text.get(..before).unwrap_or_default();
        Broken {
            line: before.matches('\n').count() + 1,
            // The whole text of the error quotes the line, and what is in it.
            why: "this is not TOML".to_owned(),
        }
    })?;
    serde_json::to_value(table).map_err(|_| Broken {
        line: 1,
        why: "this is not TOML".to_owned(),
    })
}

fn collect(listed: &Value, project: &str, servers: &mut Vec<Server>) {
    for (name, entry) in listed.as_object().into_iter().flatten() {
        let Value::Object(entry) = entry else {
            continue;
        };
        let name = if project.is_empty() {
            name.clone()
        } else {
            format!("{name} of {project}")
        };
        servers.push(Server {
            name,
            off: entry.get("disabled") == Some(&Value::Bool(true))
                || entry.get("enabled") == Some(&Value::Bool(false)),
            launch: Launch::read(entry),
        });
    }
}

// === impl Launch ===

impl Launch {
    fn read(entry: &Map<String, Value>) -> Self {
        for key in ["httpUrl", "serverUrl", "url"] {
            if let Some(Value::String(url)) = entry.get(key) {
                let kind = entry.get("type").and_then(Value::as_str);
                return Self::Url {
                    url: url.clone(),
                    key,
                    kind: kind.map(str::to_lowercase),
                    token: Token::read(entry),
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
            // The program and its arguments in one.
            Some(Value::Array(_)) => {
                let mut all = words(entry.get("command"));
                if all.is_empty() {
                    return Self::Nothing;
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
            _ => return Self::Nothing,
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
        Self::Command {
            command,
            args,
            env: env.collect(),
        }
    }

    /// Whether what is started or reached is called kubecrier.
    pub(super) fn names_us(&self) -> bool {
        match self {
            Self::Command { command, args, .. } => {
                is_us(command)
                    || (STARTERS.contains(&base(command)) && args.iter().any(|arg| is_us(arg)))
            }
            Self::Url { url, .. } => url.to_lowercase().contains("kubecrier"),
            Self::Nothing => false,
        }
    }
}

/// The program itself, and not one that starts it.
pub(super) fn is_us(command: &str) -> bool {
    base(command) == "kubecrier"
}

/// The name of a program or of an image, without its folder and version.
fn base(command: &str) -> &str {
    let name = Path::new(command)
        .file_name()
        .and_then(|name| name.to_str());
    let name = name.unwrap_or_default();
    let name = name.split([':', '@']).next().unwrap_or_default();
    name.strip_suffix(".exe").unwrap_or(name)
}

// === impl Token ===

impl Token {
    fn read(entry: &Map<String, Value>) -> Self {
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

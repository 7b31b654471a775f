//! What is written for kubecrier, in the words of each client. Where a client has no way to take
//! a token out of a variable that was seen to work, there is none here: tokens are not written
//! into files.

mod cache;

use std::{
    env,
    path::{Path, PathBuf},
};

use serde_json::{Map, Value};

use super::InstallError;
use crate::{
    cli::{InstallArgs, Launcher},
    clients::{ClientName, McpClient},
};

/// A value in a configuration file, with its keys in the order in which people write them.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Node {
    Text(String),
    Flag(bool),
    List(Vec<String>),
    Map(Vec<(&'static str, Node)>),
}

/// How a client connects to kubecrier.
enum Connection<'a> {
    Program {
        command: String,
        args: Vec<String>,
    },
    Url {
        url: &'a str,
        token_env: Option<&'a str>,
    },
}

/// The entry for a client.
pub(super) fn entry(args: &InstallArgs) -> Result<Node, InstallError> {
    let client = args.client.about();
    match connection(args)? {
        Connection::Program { command, args } => Ok(program_entry(client.id, command, args)),
        Connection::Url { url, token_env } => url_entry(client, url, token_env),
    }
}

fn connection(args: &InstallArgs) -> Result<Connection<'_>, InstallError> {
    if let Some(url) = &args.url {
        let token_env = args.token_env.as_deref();
        return Ok(Connection::Url { url, token_env });
    }
    let (command, mut words) = match args.via.unwrap_or_else(default_launcher) {
        Launcher::Program => (this_program()?, Vec::new()),
        Launcher::Npx => ("npx".to_owned(), vec!["-y", "kubecrier"]),
        Launcher::Uvx => ("uvx".to_owned(), vec!["kubecrier"]),
    };
    if let Some(context) = &args.context {
        words.extend(["--context", context]);
    }
    let args = words.into_iter().map(str::to_owned).collect();
    Ok(Connection::Program { command, args })
}

/// This program, unless it is in a cache, whose owner removes it some day.
fn default_launcher() -> Launcher {
    let path = program_path().unwrap_or_default();
    cache::launcher_of(&path).unwrap_or(Launcher::Program)
}

/// The whole path: what a client has in its PATH is not known, least of all on a desktop.
fn this_program() -> Result<String, InstallError> {
    let path = program_path()?;
    match Path::to_str(&path) {
        Some(path) => Ok(path.to_owned()),
        None => Err(InstallError::ProgramPath { path }),
    }
}

fn program_path() -> Result<PathBuf, InstallError> {
    env::current_exe().map_err(|source| InstallError::Program { source })
}

fn program_entry(client: ClientName, command: String, args: Vec<String>) -> Node {
    let command_line = [
        ("command", Node::Text(command.clone())),
        ("args", Node::List(args.clone())),
    ];
    let fields = match client {
        ClientName::ClaudeCode | ClientName::VsCode => typed("stdio").chain(command_line).collect(),
        ClientName::CopilotCli => typed("local")
            .chain(command_line)
            .chain([all_tools()])
            .collect(),
        ClientName::OpenCode => {
            let words = [command].into_iter().chain(args).collect();
            let words = ("command", Node::List(words));
            typed("local").chain([words, enabled()]).collect()
        }
        ClientName::ClaudeDesktop
        | ClientName::Cursor
        | ClientName::Windsurf
        | ClientName::Codex
        | ClientName::GeminiCli
        | ClientName::Zed => command_line.into(),
    };
    Node::Map(fields)
}

fn url_entry(
    client: &'static McpClient,
    url: &str,
    token_env: Option<&str>,
) -> Result<Node, InstallError> {
    let address = |key: &'static str| [(key, Node::Text(url.to_owned()))];
    let no_token = || match token_env {
        None => Ok(()),
        Some(_) => Err(InstallError::TokenNotTaken {
            client: client.name,
        }),
    };
    let headers = |reference: &dyn Fn(&str) -> String| {
        token_env.map(|name| {
            let value = Node::Text(format!("Bearer {}", reference(name)));
            ("headers", Node::Map(vec![("Authorization", value)]))
        })
    };
    let fields = match client.id {
        ClientName::ClaudeDesktop => {
            return Err(InstallError::UrlNotTaken {
                client: client.name,
            });
        }
        ClientName::ClaudeCode => typed("http")
            .chain(address("url"))
            .chain(headers(&|name| format!("${{{name}}}")))
            .collect(),
        ClientName::VsCode => {
            no_token()?;
            typed("http").chain(address("url")).collect()
        }
        ClientName::CopilotCli => {
            no_token()?;
            let address = address("url");
            typed("http").chain(address).chain([all_tools()]).collect()
        }
        ClientName::Cursor => address("url")
            .into_iter()
            .chain(headers(&|name| format!("${{env:{name}}}")))
            .collect(),
        ClientName::Windsurf => address("serverUrl")
            .into_iter()
            .chain(headers(&|name| format!("${{env:{name}}}")))
            .collect(),
        ClientName::Codex => {
            let token = token_env.map(|name| ("bearer_token_env_var", Node::Text(name.to_owned())));
            address("url").into_iter().chain(token).collect()
        }
        ClientName::GeminiCli => address("httpUrl")
            .into_iter()
            .chain(headers(&|name| format!("${{{name}}}")))
            .collect(),
        ClientName::Zed => {
            no_token()?;
            address("url").into()
        }
        ClientName::OpenCode => {
            // It would look for a login first.
            let oauth = token_env.map(|_| ("oauth", Node::Flag(false)));
            typed("remote")
                .chain(address("url"))
                .chain([enabled()])
                .chain(oauth)
                .chain(headers(&|name| format!("{{env:{name}}}")))
                .collect()
        }
    };
    Ok(Node::Map(fields))
}

fn typed(name: &str) -> impl Iterator<Item = (&'static str, Node)> {
    [("type", Node::Text(name.to_owned()))].into_iter()
}

fn enabled() -> (&'static str, Node) {
    ("enabled", Node::Flag(true))
}

fn all_tools() -> (&'static str, Node) {
    ("tools", Node::List(vec!["*".to_owned()]))
}

// === impl Node ===

impl Node {
    /// The same without an order.
    pub(super) fn to_value(&self) -> Value {
        match self {
            Self::Text(text) => Value::from(text.as_str()),
            Self::Flag(flag) => Value::from(*flag),
            Self::List(words) => Value::from(words.clone()),
            Self::Map(fields) => {
                let fields = fields.iter();
                let fields = fields.map(|(key, node)| ((*key).to_owned(), node.to_value()));
                Value::Object(fields.collect::<Map<_, _>>())
            }
        }
    }
}

//! `kubecrier install`.

use clap::{ArgAction, Args, ValueEnum};

use crate::clients::ClientName;

/// Writes kubecrier into the configuration of an MCP client. Shows the change and asks first;
/// comments and all other entries stay as they are, and --undo takes it back.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct InstallArgs {
    /// Print help
    #[arg(long, short, action = ArgAction::HelpShort)]
    help: Option<bool>,

    /// The client
    #[arg(value_name = "CLIENT")]
    pub client: ClientName,

    /// Whose configuration: the user's, or that of the project in this folder
    #[arg(long, value_name = "SCOPE", default_value = "user")]
    pub scope: InstallScope,

    /// What the client starts: this program, or the package of npm or PyPI [default: program,
    /// or what started this one: npx, uvx]
    #[arg(long, value_name = "WAY")]
    pub via: Option<Launcher>,

    /// Context for calls that name none [default: the current context]
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,

    /// URL of a running kubecrier to connect to, instead of starting one
    #[arg(long, value_name = "URL", conflicts_with_all = ["via", "context"])]
    pub url: Option<String>,

    /// Variable from which the client takes the bearer token for --url
    #[arg(long, value_name = "NAME", requires = "url", value_parser = variable)]
    pub token_env: Option<String>,

    /// Take the change back
    #[arg(long, conflicts_with_all = ["via", "context", "url"])]
    pub undo: bool,

    /// Do not ask
    #[arg(long, short)]
    pub yes: bool,
}

/// Whose configuration is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum InstallScope {
    /// The user's, for every project
    User,
    /// That of the project in this folder
    Project,
}

/// What a client starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Launcher {
    /// This program, by its path
    Program,
    /// The npm package
    Npx,
    /// The PyPI package
    Uvx,
}

fn variable(text: &str) -> Result<String, String> {
    let starts_well = !text.starts_with(|first: char| first.is_ascii_digit());
    let is_word = |text: &str| {
        text.chars()
            .all(|one| one.is_ascii_alphanumeric() || one == '_')
    };
    if text.is_empty() || !starts_well || !is_word(text) {
        return Err("must be the name of a variable, such as KUBECRIER_TOKEN".to_owned());
    }
    Ok(text.to_owned())
}

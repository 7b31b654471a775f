//! The command line: help, the file, the settings and the command.

use std::path::PathBuf;

use clap::{ArgAction, Parser};

use super::{Command, Settings};

const AFTER_HELP: &str = "\
--help-all shows every setting. Each is also an environment variable (--log-level is
KUBECRIER_LOG_LEVEL) and a key of the --config file (log_level). A flag wins over the environment,
the environment over the file. Exit codes: 0 done, 64 bad usage or configuration, 1 failed while
running.";

/// The Kubernetes MCP server that tells an agent what just happened in a cluster.
/// Without --port it speaks MCP on stdin and stdout; with it, Streamable HTTP at
/// /mcp. It only reads from clusters.
#[derive(Debug, Parser)]
#[command(
    name = "kubecrier",
    version,
    max_term_width = 100,
    disable_help_flag = true,
    disable_help_subcommand = true,
    subcommand_value_name = "COMMAND"
)]
#[command(mut_args = |arg: clap::Arg| arg.hide_env(true))]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Print help
    #[arg(long, short, action = ArgAction::HelpShort)]
    help: Option<bool>,

    /// Print help on every setting
    #[arg(long, action = ArgAction::HelpLong)]
    help_all: Option<bool>,

    /// TOML file with the same settings (keys in snake_case)
    #[arg(long, env = "KUBECRIER_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// The settings themselves.
    #[command(flatten)]
    pub settings: Settings,

    /// The command; without one, the server runs.
    #[command(subcommand)]
    pub command: Option<Command>,
}

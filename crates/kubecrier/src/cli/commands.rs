//! The commands for people. Without a command, the server runs.

use std::path::PathBuf;

use clap::{ArgAction, Args, Subcommand, ValueEnum};

use super::{ColorChoice, install::InstallArgs};

/// The variable with the token for a server. It is not a flag, which every user of the host
/// could read.
pub const TOKEN_VARIABLE: &str = "KUBECRIER_TOKEN";

/// The commands.
#[derive(Clone, Debug, PartialEq, Subcommand)]
pub enum Command {
    /// Run the server on a demo cluster in memory, where things go wrong
    Demo(DemoArgs),
    /// Follow the events and faults of a cluster in the terminal
    Watch(Box<WatchArgs>),
    /// Write kubecrier into the configuration of an MCP client
    Install(InstallArgs),
    /// Create a project folder with an example of each kind
    Init(InitArgs),
    /// Check clusters, permissions, settings, MCP clients, and whether pushes arrive
    Doctor(DoctorArgs),
    /// Print a shell completion script
    Completion(CompletionArgs),
    /// Print the JSON schema of the --config file
    Schema(GenerateArgs),
    /// Print the man page
    Man(GenerateArgs),
    /// Print the version
    Version(GenerateArgs),
    /// Print help on a command
    Help(HelpArgs),
}

/// Starts the server over a cluster in memory, where a payment service crash-loops
/// after a rollout, an image cannot be pulled, a disk fills up, and all of it recovers.
/// Shows what a subscribed agent receives.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct DemoArgs {
    /// Print help
    #[arg(long, short, action = ArgAction::HelpShort)]
    help: Option<bool>,

    /// Speed of the story; 2 is twice as fast
    #[arg(long, value_name = "FACTOR", default_value = "1", value_parser = speed)]
    pub speed: f64,

    /// Seed of the generated names
    #[arg(long, value_name = "N", default_value = "1")]
    pub seed: u64,

    /// Port to serve on [default: 8080, or the next free port]
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,

    /// Only serve; do not subscribe and show notifications
    #[arg(long)]
    pub no_client: bool,

    /// When to use colors
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub color: ColorChoice,
}

/// Prints one line per event, with the ends of logs under each fault. Without --url it
/// starts a server inside this process, for the kubeconfig.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct WatchArgs {
    /// Print help
    #[arg(long, short, action = ArgAction::HelpShort)]
    help: Option<bool>,

    /// URL of a running kubecrier, e.g. http://127.0.0.1:8080/mcp
    #[arg(long, value_name = "URL", help_heading = "Where")]
    pub url: Option<String>,

    /// File with the bearer token for --url; or set KUBECRIER_TOKEN
    #[arg(long, value_name = "FILE", requires = "url", help_heading = "Where")]
    pub token_file: Option<PathBuf>,

    /// File with the certificate authorities to trust for an https --url [default: the system's]
    #[arg(long, value_name = "FILE", requires = "url", help_heading = "Where")]
    pub certificate_authority: Option<PathBuf>,

    /// Path to the kubeconfig file, without --url
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "url",
        help_heading = "Where"
    )]
    pub kubeconfig: Option<PathBuf>,

    /// Context to watch; may be repeated [default: the current context]
    #[arg(long, value_name = "NAME", action = ArgAction::Append, help_heading = "Where")]
    pub context: Vec<String>,

    /// Namespace or pattern, e.g. 'prod-*'; may be repeated [default: the context's]
    #[arg(long, short, value_name = "NAME", action = ArgAction::Append, value_delimiter = ',')]
    #[arg(help_heading = "What")]
    pub namespace: Vec<String>,

    /// Watch all namespaces
    #[arg(long, short = 'A', conflicts_with = "namespace", help_heading = "What")]
    pub all_namespaces: bool,

    /// Label selector of the involved object, e.g. app=web
    #[arg(long, short = 'l', value_name = "LABELS", help_heading = "What")]
    pub selector: Option<String>,

    /// Only events about this object, e.g. deployment/web
    #[arg(long = "for", value_name = "KIND/NAME", help_heading = "What")]
    pub object: Option<String>,

    /// Only events of these types
    #[arg(
        long,
        value_name = "TYPE,...",
        value_delimiter = ',',
        help_heading = "What"
    )]
    #[arg(ignore_case = true)]
    pub types: Vec<EventType>,

    /// Only events whose reason begins with this, e.g. Fail
    #[arg(long, value_name = "PREFIX", help_heading = "What")]
    pub reason: Option<String>,

    /// Only warnings about pods, each with the ends of its logs
    #[arg(long, help_heading = "What")]
    pub faults: bool,

    /// What is wrong: each incident when it is opened, changed and resolved
    #[arg(
        long,
        conflicts_with_all = ["selector", "types", "reason"],
        help_heading = "What"
    )]
    pub incidents: bool,

    /// First list events newer than a relative duration, e.g. 15m, 2h
    #[arg(
        long,
        value_name = "TIME",
        conflicts_with = "selector",
        help_heading = "What"
    )]
    #[arg(value_parser = time)]
    pub since: Option<String>,

    /// Output format
    #[arg(
        long,
        short,
        value_name = "FORM",
        default_value = "text",
        help_heading = "How"
    )]
    pub output: WatchFormat,

    /// Number of lines shown of each log under a fault [default: 4; with -o wide: all]
    #[arg(long, value_name = "N", help_heading = "How")]
    pub log_lines: Option<usize>,

    /// Shell command to run for each fault, or with --incidents each incident, with its JSON on
    /// stdin; implies --faults if neither is given
    #[arg(long, value_name = "CMD", help_heading = "How")]
    pub exec: Option<String>,

    /// Maximum number of concurrent commands
    #[arg(
        long,
        value_name = "N",
        default_value = "4",
        requires = "exec",
        help_heading = "How"
    )]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=100))]
    pub exec_max: u16,

    /// When to use colors
    #[arg(
        long,
        value_name = "WHEN",
        default_value = "auto",
        help_heading = "How"
    )]
    pub color: ColorChoice,
}

/// Checks every context of the kubeconfig, the settings, and the configuration of MCP
/// clients on this machine, or with --url one connection. Exit code 0 if no check failed,
/// else 1.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct DoctorArgs {
    /// Print help
    #[arg(long, short, action = ArgAction::HelpShort)]
    help: Option<bool>,

    /// URL of a running kubecrier; checks whether its pushes arrive
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,

    /// File with the bearer token for --url; or set KUBECRIER_TOKEN
    #[arg(long, value_name = "FILE", requires = "url")]
    pub token_file: Option<PathBuf>,

    /// File with the certificate authorities to trust for an https --url [default: the system's]
    #[arg(long, value_name = "FILE", requires = "url")]
    pub certificate_authority: Option<PathBuf>,

    /// Path to the kubeconfig file
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// Context to check; may be repeated [default: all]
    #[arg(long, value_name = "NAME", action = ArgAction::Append)]
    pub context: Vec<String>,

    /// Namespace for permissions that are not granted cluster-wide; may be repeated
    /// [default: the context's]
    #[arg(long, short, value_name = "NAME", action = ArgAction::Append, value_delimiter = ',')]
    pub namespace: Vec<String>,

    /// Output format
    #[arg(long, short, value_name = "FORM", default_value = "text")]
    pub output: OutputFormat,

    /// When to use colors
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub color: ColorChoice,
}

/// Arguments of `init`.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct InitArgs {
    /// Print help
    #[arg(long, short, action = ArgAction::HelpShort)]
    help: Option<bool>,

    /// Folder to create
    pub dir: PathBuf,
}

/// Arguments of `completion`.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct CompletionArgs {
    /// Print help
    #[arg(long, short, action = ArgAction::HelpShort)]
    help: Option<bool>,

    /// Shell, e.g. `source <(kubecrier completion bash)`
    #[arg(value_name = "SHELL")]
    pub shell: clap_complete::Shell,
}

/// Arguments of `help`.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct HelpArgs {
    /// Print help
    #[arg(long, short, action = ArgAction::HelpShort)]
    help: Option<bool>,

    /// The command
    #[arg(value_name = "COMMAND")]
    pub command: Option<String>,
}

/// Arguments of `schema`, `man` and `version`.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct GenerateArgs {
    /// Print help
    #[arg(long, short, action = ArgAction::HelpShort)]
    help: Option<bool>,
}

/// The format of a command's output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// Text for people
    #[default]
    Text,
    /// JSON for programs
    Json,
}

/// The format of the output of `watch`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum WatchFormat {
    /// Lines that fit the terminal, a repeated fault once
    #[default]
    Text,
    /// The same in full
    Wide,
    /// One JSON object per line
    Json,
}

/// A type of event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "PascalCase")]
pub enum EventType {
    /// Expected events
    Normal,
    /// Unexpected events
    Warning,
}

// === impl EventType ===

impl EventType {
    /// The type as Kubernetes writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

fn speed(text: &str) -> Result<f64, String> {
    (text.parse().ok())
        .filter(|speed| (0.1..=100.0).contains(speed))
        .ok_or_else(|| "must be a number from 0.1 to 100".to_owned())
}

fn time(text: &str) -> Result<String, String> {
    kubecrier_core::duration::parse(text)
        .map(|_| text.to_owned())
        .map_err(|_| "must be a time such as 90s, 15m or 2h".to_owned())
}

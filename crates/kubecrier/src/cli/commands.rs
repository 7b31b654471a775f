//! The commands for people. Without a command, the server runs.

use std::{ffi::OsString, path::PathBuf};

use clap::{ArgAction, Args, Subcommand, ValueEnum};

use super::{ColorChoice, install::InstallArgs};

/// The variable with the token for a server. It is not a flag, which every user of the host
/// could read.
pub const TOKEN_VARIABLE: &str = "KUBECRIER_TOKEN";

/// The variable with the URL for `watch`.
pub const URL_VARIABLE: &str = "KUBECRIER_URL";

/// The commands.
#[derive(Clone, Debug, PartialEq, Subcommand)]
pub enum Command {
    /// Run the server on a demo cluster in memory, where things go wrong
    Demo(DemoArgs),
    /// Follow the events and faults of a cluster in the terminal
    Watch(Box<WatchArgs>),
    /// Write kubecrier into the configuration of an MCP client
    Install(InstallArgs),
    /// Create a project folder with an example of each kind, or the files for an agent
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
#[expect(clippy::struct_excessive_bools, reason = "a flag is one")]
pub struct WatchArgs {
    /// Print help
    #[arg(long, short, action = ArgAction::HelpShort)]
    help: Option<bool>,

    /// URL of a running kubecrier, e.g. http://127.0.0.1:8080/mcp; or set KUBECRIER_URL
    #[arg(long, value_name = "URL", help_heading = "Where")]
    pub url: Option<String>,

    /// File with the bearer token for --url; or set KUBECRIER_TOKEN
    #[arg(long, value_name = "FILE", help_heading = "Where")]
    pub token_file: Option<PathBuf>,

    /// File with the certificate authorities to trust for an https --url [default: the system's]
    #[arg(long, value_name = "FILE", help_heading = "Where")]
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

    /// First list what happened within a relative duration, e.g. 15m, 2d
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

    /// End after the first incident that is opened from now on
    #[arg(
        long,
        requires = "incidents",
        conflicts_with = "faults",
        help_heading = "How"
    )]
    pub first: bool,

    /// For --first, -o brief and --exec: tell also when an incident is over
    #[arg(long, requires = "incidents", help_heading = "How")]
    pub resolved: bool,

    /// File with the incidents that were told, for the next run to go on with
    #[arg(
        long,
        value_name = "FILE",
        requires = "incidents",
        help_heading = "How"
    )]
    pub told: Option<PathBuf>,

    /// Program to run for each fault, or with --incidents once for each incident, with its JSON
    /// on stdin; the last flag: what follows are its arguments
    #[arg(
        long,
        value_name = "PROGRAM",
        num_args = 1..,
        allow_hyphen_values = true,
        help_heading = "How"
    )]
    pub exec: Vec<OsString>,

    /// Maximum number of concurrent programs
    #[arg(
        long,
        value_name = "N",
        default_value = "1",
        requires = "exec",
        help_heading = "How"
    )]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=100))]
    pub exec_at_once: u16,

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

    /// File with the bearer token for --url; or set KUBECRIER_TOKEN. Without --url, an access token
    /// to try: who would its caller be?
    #[arg(long, value_name = "FILE")]
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

/// Creates a project folder with an example of each kind. With --agent: the files with which
/// a coding agent is told of incidents; they are shown, and written with --yes.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct InitArgs {
    /// Print help
    #[arg(long, short, action = ArgAction::HelpShort)]
    help: Option<bool>,

    /// Folder to create; with --agent the folder of the work [default: .]
    #[arg(required_unless_present = "agent")]
    pub dir: Option<PathBuf>,

    /// Write the files of this agent instead
    #[arg(long, value_name = "AGENT")]
    pub agent: Option<Agent>,

    /// URL of a running kubecrier for the agent [default: start one for the kubeconfig]
    #[arg(long, value_name = "URL", requires = "agent")]
    pub url: Option<String>,

    /// Write the files that are shown without it
    #[arg(long, requires = "agent")]
    pub yes: bool,

    /// With --yes: replace files that are there and differ
    #[arg(long, requires = "yes")]
    pub force: bool,
}

/// An agent that can be told of incidents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Agent {
    /// Claude Code
    Claude,
    /// Codex CLI
    Codex,
    /// OpenCode
    #[value(name = "opencode")]
    OpenCode,
    /// Copilot CLI
    Copilot,
    /// Gemini CLI
    Gemini,
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
    /// With --incidents, one line under 500 bytes per incident, for agents
    Brief,
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

// === impl WatchArgs ===

impl WatchArgs {
    /// Takes the URL from the environment, unless a cluster is named. The error says which flag
    /// needs another one.
    pub(crate) fn complete(&mut self, url: Option<String>) -> Result<(), &'static str> {
        if self.url.is_none() && self.kubeconfig.is_none() {
            self.url = url;
        }
        if self.url.is_none() {
            if self.token_file.is_some() {
                return Err("--token-file is for a server at --url or KUBECRIER_URL");
            }
            if self.certificate_authority.is_some() {
                return Err("--certificate-authority is for a server at --url or KUBECRIER_URL");
            }
        }
        if self.output == WatchFormat::Brief && (self.faults || !self.incidents) {
            return Err("-o brief is for --incidents alone");
        }
        let told_once = self.first || self.output == WatchFormat::Brief || !self.exec.is_empty();
        if !told_once && self.resolved {
            return Err("--resolved is for --first, -o brief or --exec: all others show it anyway");
        }
        if !told_once && self.told.is_some() {
            return Err("--told is for --first, -o brief or --exec");
        }
        Ok(())
    }
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

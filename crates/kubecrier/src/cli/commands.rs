//! The commands for people. Without one, the server serves.

use std::path::PathBuf;

use clap::{ArgAction, Args, Subcommand, ValueEnum};

/// Who has a token may also say it so; as a flag every user of the host could read it.
pub const TOKEN: &str = "KUBECRIER_TOKEN";

/// What else the program does.
#[derive(Clone, Debug, PartialEq, Subcommand)]
pub enum Command {
    /// See it work, without a cluster: a shop where things go wrong
    Demo(DemoArgs),
    /// Follow events and faults of a cluster in the terminal
    Watch(Box<WatchArgs>),
    /// Write a small project folder to begin with, an example of each kind
    Init(InitArgs),
    /// Check clusters, rights, settings, MCP clients, and whether pushes arrive
    Doctor(DoctorArgs),
    /// Print a script that completes commands and flags
    Completion(CompletionArgs),
    /// Print the JSON schema of the --config file
    Schema(PaperArgs),
    /// Print the man page
    Man(PaperArgs),
}

/// Starts the server over a cluster in memory, where a payment service crash-loops
/// after a rollout, an image cannot be pulled, a disk fills up, and all of it heals;
/// and shows what a subscribed agent is told.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct DemoArgs {
    /// Print help
    #[arg(long, short, action = ArgAction::HelpShort)]
    help: Option<bool>,

    /// How fast the story goes; 2 is twice as fast
    #[arg(long, value_name = "FACTOR", default_value = "1", value_parser = speed)]
    pub speed: f64,

    /// The same seed gives the same names
    #[arg(long, value_name = "N", default_value = "1")]
    pub seed: u64,

    /// Serve on this port [default: 8080, or the next free one]
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,

    /// Only serve; do not subscribe and show
    #[arg(long)]
    pub no_client: bool,

    /// When to colour
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub color: Colour,
}

/// One line per event, logs folded under faults. Without --url it starts a server
/// inside, for the kubeconfig.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct WatchArgs {
    /// Print help
    #[arg(long, short, action = ArgAction::HelpShort)]
    help: Option<bool>,

    /// A running kubecrier, e.g. http://127.0.0.1:8080/mcp
    #[arg(long, value_name = "URL", help_heading = "Where")]
    pub url: Option<String>,

    /// File with the bearer token for --url; or set KUBECRIER_TOKEN
    #[arg(long, value_name = "FILE", requires = "url", help_heading = "Where")]
    pub token_file: Option<PathBuf>,

    /// File with the authorities to trust for an https --url [default: the system's]
    #[arg(long, value_name = "FILE", requires = "url", help_heading = "Where")]
    pub certificate_authority: Option<PathBuf>,

    /// Kubeconfig for the server inside
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "url",
        help_heading = "Where"
    )]
    pub kubeconfig: Option<PathBuf>,

    /// Context to watch; may be repeated [default: the current one]
    #[arg(long, value_name = "NAME", action = ArgAction::Append, help_heading = "Where")]
    pub context: Vec<String>,

    /// Namespace; may be repeated, and be a pattern such as 'prod-*' [default: the context's]
    #[arg(long, short, value_name = "NAME", action = ArgAction::Append, value_delimiter = ',')]
    #[arg(help_heading = "What")]
    pub namespace: Vec<String>,

    /// All namespaces
    #[arg(long, short = 'A', conflicts_with = "namespace", help_heading = "What")]
    pub all_namespaces: bool,

    /// Labels of the object, e.g. app=web
    #[arg(long, short = 'l', value_name = "LABELS", help_heading = "What")]
    pub selector: Option<String>,

    /// Only about this object, e.g. deployment/web
    #[arg(long = "for", value_name = "KIND/NAME", help_heading = "What")]
    pub about: Option<String>,

    /// Only these types: Normal, Warning
    #[arg(
        long,
        value_name = "TYPE,...",
        value_delimiter = ',',
        help_heading = "What"
    )]
    #[arg(ignore_case = true)]
    pub types: Vec<Kind>,

    /// Only reasons that begin so, e.g. Fail
    #[arg(long, value_name = "PREFIX", help_heading = "What")]
    pub reason: Option<String>,

    /// Only warnings about pods, each with the ends of its logs
    #[arg(long, help_heading = "What")]
    pub faults: bool,

    /// First what happened in the last e.g. 15m, 2h
    #[arg(
        long,
        value_name = "TIME",
        conflicts_with = "selector",
        help_heading = "What"
    )]
    #[arg(value_parser = time)]
    pub since: Option<String>,

    /// json: one object a line
    #[arg(
        long,
        short,
        value_name = "FORM",
        default_value = "text",
        help_heading = "How"
    )]
    pub output: Form,

    /// Lines of each log that are shown under a fault
    #[arg(long, value_name = "N", default_value = "4", help_heading = "How")]
    pub log_lines: usize,

    /// Run this in a shell for each fault, with its JSON on stdin; implies --faults
    #[arg(long, value_name = "CMD", help_heading = "How")]
    pub exec: Option<String>,

    /// How many of them may run at once
    #[arg(
        long,
        value_name = "N",
        default_value = "4",
        requires = "exec",
        help_heading = "How"
    )]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=100))]
    pub exec_max: u16,

    /// When to colour
    #[arg(
        long,
        value_name = "WHEN",
        default_value = "auto",
        help_heading = "How"
    )]
    pub color: Colour,
}

/// Looks at every context of the kubeconfig, at the settings and at the configuration of
/// MCP clients here, or with --url at one connection. Ends with 0 if all is well, else
/// with 1.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct DoctorArgs {
    /// Print help
    #[arg(long, short, action = ArgAction::HelpShort)]
    help: Option<bool>,

    /// A running kubecrier: does what it pushes arrive here?
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,

    /// File with the bearer token for --url; or set KUBECRIER_TOKEN
    #[arg(long, value_name = "FILE", requires = "url")]
    pub token_file: Option<PathBuf>,

    /// File with the authorities to trust for an https --url [default: the system's]
    #[arg(long, value_name = "FILE", requires = "url")]
    pub certificate_authority: Option<PathBuf>,

    /// Kubeconfig to look at
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// Context to look at; may be repeated [default: all]
    #[arg(long, value_name = "NAME", action = ArgAction::Append)]
    pub context: Vec<String>,

    /// Where to look for rights that are not granted everywhere [default: the context's]
    #[arg(long, short, value_name = "NAME", action = ArgAction::Append, value_delimiter = ',')]
    pub namespace: Vec<String>,

    /// How to tell it
    #[arg(long, short, value_name = "FORM", default_value = "text")]
    pub output: Form,

    /// When to colour
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub color: Colour,
}

/// Where to.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct InitArgs {
    /// Print help
    #[arg(long, short, action = ArgAction::HelpShort)]
    help: Option<bool>,

    /// The folder
    pub dir: PathBuf,
}

/// For which shell.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct CompletionArgs {
    /// Print help
    #[arg(long, short, action = ArgAction::HelpShort)]
    help: Option<bool>,

    /// The shell, e.g. `source <(kubecrier completion bash)`
    #[arg(value_name = "SHELL")]
    pub shell: clap_complete::Shell,
}

/// Nothing to choose.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct PaperArgs {
    /// Print help
    #[arg(long, short, action = ArgAction::HelpShort)]
    help: Option<bool>,
}

/// When to colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Colour {
    /// In a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// How something is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// For people
    #[default]
    Text,
    /// For programs
    Json,
}

/// A type of event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "PascalCase")]
pub enum Kind {
    /// What should happen
    Normal,
    /// What should not
    Warning,
}

// === impl Kind ===

impl Kind {
    /// As Kubernetes writes it.
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

//! What is wrong with a configuration, and what to do.

use std::{net::IpAddr, path::PathBuf};

/// An invalid configuration: exit code 64.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The arguments are invalid, or ask for `--help` or `--version`.
    #[error("{0}")]
    Usage(#[from] clap::Error),
    /// An environment variable has the prefix and is not a setting.
    #[error("unknown environment variable `{name}`\nhint: known ones are {known}")]
    UnknownVariable {
        /// The variable.
        name: String,
        /// The known variables.
        known: String,
    },
    /// The configuration file cannot be read.
    #[error("cannot read the configuration file `{}`: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the read.
        source: std::io::Error,
    },
    /// The configuration file is not valid TOML, or has an unknown key.
    #[error("in the configuration file `{}`: {message}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// The position and the reason.
        message: String,
    },
    /// The address is reachable for others, and there is no authentication.
    #[error(
        "`bind-address` is `{address}`, which others can reach, and there is no authentication\n\
         hint: name tokens with --auth-token-file, an issuer of tokens with --oauth-issuer, or the header \
         of a proxy that authenticates with --trusted-user-header; --allow-unauthenticated opens it to \
         everyone"
    )]
    Unauthenticated {
        /// The address to listen on.
        address: IpAddr,
    },
    /// Every user of the machine could run the executables of the project.
    #[error(
        "`project-root` is served to every user of this machine: this system does not tell which \
         user connects, and there is no authentication\n\
         hint: name tokens with --auth-token-file, or say --allow-other-users"
    )]
    ProjectForAll,
    /// Callers cannot act in clusters as themselves.
    #[error("`cluster-identity` is `impersonate`, but {why}\nhint: {hint}")]
    Impersonation {
        /// Why not.
        why: &'static str,
        /// What to do.
        hint: &'static str,
    },
    /// Callers who prove who they are would all read what the server may read.
    #[error(
        "`{setting}` tells callers apart, and `cluster-identity` is not set\n\
         hint: say --cluster-identity impersonate to let each read what Kubernetes lets them read, or \
         --cluster-identity shared to let all read what the server may read"
    )]
    IdentityNotChosen {
        /// The setting by which callers prove who they are.
        setting: &'static str,
    },
    /// A command cannot honour the setting.
    #[error(
        "`{key}` does not go with `kubecrier {command}`: {why}\n\
         hint: leave it out; it may also be in the environment or the --config file"
    )]
    Unfit {
        /// The setting.
        key: &'static str,
        /// The command.
        command: &'static str,
        /// Why.
        why: &'static str,
    },
    /// A setting is useless without another one.
    #[error("`{given}` needs `{missing}` as well")]
    Incomplete {
        /// The setting that is there.
        given: &'static str,
        /// The setting that is not.
        missing: &'static str,
    },
    /// The store of servers that work together cannot be what the settings say.
    #[error("{why}")]
    ClusterStore {
        /// What is wrong, and what to do.
        why: String,
    },
    /// A sink cannot be what the settings say.
    #[error("sink `{sink}`: {reason}")]
    Sink {
        /// Its name, or what it is known by.
        sink: String,
        /// What is wrong, and what to do.
        reason: String,
    },
    /// A setting has a value that is not allowed.
    #[error("{origin}`{key}` is `{value}`, but must be {expected}")]
    Value {
        /// The source of the value, as a prefix of the message; may be empty.
        origin: String,
        /// The setting.
        key: &'static str,
        /// The value.
        value: String,
        /// The allowed values.
        expected: String,
    },
}

//! The settings and the command of a process, and the settings of a server that runs for a
//! command.

use std::ffi::OsString;

use clap::{FromArgMatches, error::ErrorKind};

use super::{Config, ConfigError, Invocation, environment, read_file};
use crate::cli::{Args, Command, HelpArgs, Settings};

/// Why settings of a server that others can reach are refused.
const LOOPBACK_ONLY: &str = "the demo is for the user who starts it, on this machine";
/// Why settings of clusters are refused.
const OWN_CLUSTER: &str = "the demo has a cluster of its own, in memory";

// === impl Invocation ===

impl Invocation {
    /// Loads settings and command from arguments, environment and the file that they name.
    pub fn load(
        arguments: impl IntoIterator<Item = OsString>,
        environment: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Self, ConfigError> {
        let environment: Vec<_> = environment.into_iter().collect();
        let url = environment::url(&environment);
        let mut cli = environment::command_for(environment)?;
        let mut matches = cli.try_get_matches_from_mut(arguments)?;
        let args = Args::from_arg_matches_mut(&mut matches)?;
        let command = match args.command {
            Some(Command::Watch(mut watch)) => {
                let usage = |why| cli.error(ErrorKind::MissingRequiredArgument, why);
                watch.complete(url).map_err(usage)?;
                Some(Command::Watch(watch))
            }
            Some(Command::Help(HelpArgs { command, .. })) => {
                let words = ["kubecrier".to_owned()].into_iter().chain(command);
                let words = words.chain(["--help".to_owned()]);
                // The help is an "error" of the parser, as that of the flag is.
                cli.try_get_matches_from_mut(words)?;
                None
            }
            command => command,
        };
        let file = args.config.as_deref().map(read_file).transpose()?;
        let mut invocation = Self {
            settings: args.settings.or(file.unwrap_or_default()),
            command,
        };
        if let Some(Command::Demo(demo)) = &mut invocation.command {
            let port = invocation.settings.port;
            demo.port = demo.port.or(port.and_then(|port| u16::try_from(port).ok()));
        }
        Ok(invocation)
    }

    /// The configuration of the server, for this command.
    pub fn config(&self) -> Result<Config, ConfigError> {
        let mut settings = self.settings.clone();
        match &self.command {
            None | Some(Command::Init(_) | Command::Help(_)) => {}
            Some(Command::Demo(demo)) => {
                settings.check_for_demo()?;
                settings.log_level.get_or_insert_with(|| "warn".to_owned());
                settings.port = Some(demo.port.map_or(0, u64::from));
            }
            Some(Command::Watch(watch)) => {
                // It reports failures itself.
                settings.log_level.get_or_insert_with(|| "error".to_owned());
                settings.keep_private();
                settings.kubeconfig = watch.kubeconfig.clone().or(settings.kubeconfig);
            }
            Some(Command::Doctor(doctor)) => {
                settings.keep_private();
                settings.kubeconfig = doctor.kubeconfig.clone().or(settings.kubeconfig);
            }
            Some(
                Command::Install(_)
                | Command::Completion(_)
                | Command::Schema(_)
                | Command::Man(_)
                | Command::Version(_),
            ) => settings.keep_private(),
        }
        settings.try_into()
    }
}

// === impl Settings ===

impl Settings {
    /// A server, if any, is for the command alone: the settings are those of another one.
    fn keep_private(&mut self) {
        // Records at INFO would mix with the command's own output.
        self.log_level.get_or_insert_with(|| "warn".to_owned());
        self.port = Some(0);
        self.bind_address = None;
        self.auth_token_file = None;
        self.trusted_user_header = None;
        self.trusted_proxies = None;
        self.trusted_groups_header = None;
        self.cluster_identity = None;
        self.tls_cert = None;
        self.tls_key = None;
        self.admin_address = None;
        self.sink = None;
        // Another server may have it open.
        self.history = None;
        self.history_max_age = None;
        self.history_max_bytes = None;
        // It is none of the servers that work together.
        self.cluster_store = None;
        self.cluster_store_fleet = None;
        self.cluster_store_credentials = None;
        self.cluster_store_ca_file = None;
        self.audit_log = None;
        // Who may call another server is nothing to this one.
        self.take_oauth();
    }

    /// Refuses what the server of the demo cannot honour; everything else holds for it.
    fn check_for_demo(&self) -> Result<(), ConfigError> {
        let unfit = [
            ("kubeconfig", self.kubeconfig.is_some(), OWN_CLUSTER),
            ("context", self.context.is_some(), OWN_CLUSTER),
            ("cluster-store", self.cluster_store.is_some(), OWN_CLUSTER),
            (
                "cluster-store-fleet",
                self.cluster_store_fleet.is_some(),
                OWN_CLUSTER,
            ),
            (
                "cluster-store-credentials",
                self.cluster_store_credentials.is_some(),
                OWN_CLUSTER,
            ),
            (
                "cluster-store-ca-file",
                self.cluster_store_ca_file.is_some(),
                OWN_CLUSTER,
            ),
            ("bind-address", self.bind_address.is_some(), LOOPBACK_ONLY),
            (
                "allow-unauthenticated",
                self.allow_unauthenticated.is_some(),
                LOOPBACK_ONLY,
            ),
            (
                "auth-token-file",
                self.auth_token_file.is_some(),
                LOOPBACK_ONLY,
            ),
            (
                "trusted-user-header",
                self.trusted_user_header.is_some(),
                LOOPBACK_ONLY,
            ),
            (
                "trusted-proxies",
                self.trusted_proxies.is_some(),
                LOOPBACK_ONLY,
            ),
            (
                "trusted-groups-header",
                self.trusted_groups_header.is_some(),
                LOOPBACK_ONLY,
            ),
            (
                "cluster-identity",
                self.cluster_identity.is_some(),
                LOOPBACK_ONLY,
            ),
            ("tls-cert", self.tls_cert.is_some(), LOOPBACK_ONLY),
            ("tls-key", self.tls_key.is_some(), LOOPBACK_ONLY),
        ];
        let tokens = self.clone().take_oauth();
        let tokens = tokens.given().map(|key| (key, true, LOOPBACK_ONLY));
        match unfit
            .into_iter()
            .chain(tokens)
            .find(|(_, is_set, _)| *is_set)
        {
            None => Ok(()),
            Some((key, _, why)) => Err(ConfigError::Unfit {
                key,
                command: "demo",
                why,
            }),
        }
    }
}

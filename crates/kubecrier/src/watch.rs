//! `kubecrier watch`: flags become a request, and [`kubecrier_client`] follows the server
//! named by `--url`, or one inside this process.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use futures_util::{Stream, stream};
use kubecrier_client::{
    BridgeConfig, Endpoint, Format, NamespaceScope, Screen, View, ViewConfig, WatchRequest,
};

use crate::{
    cli::{EventType, TOKEN_VARIABLE, WatchArgs, WatchFormat},
    config::Config,
};

/// Lines of each log under a fault, unless all are wanted.
const LOG_LINES: usize = 4;

/// The file with the token for a server cannot be read.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot read the token file `{}`: {source}\nhint: --token-file names a file with the token in it",
    path.display()
)]
pub struct TokenFileError {
    path: PathBuf,
    source: std::io::Error,
}

/// Runs until the first item of `stop`, or until the pipe on standard output is closed.
pub async fn run(args: &WatchArgs, config: Config, stop: impl Stream<Item = ()>) -> Result<()> {
    let screen = Screen::new(args.color.on_stdout());
    let mut view = View::new(
        screen,
        ViewConfig {
            format: args.output.into(),
            log_lines: args.log_lines.unwrap_or(match args.output {
                WatchFormat::Wide => usize::MAX,
                WatchFormat::Text | WatchFormat::Json | WatchFormat::Brief => LOG_LINES,
            }),
            show_context: args.context.len() > 1,
            name_context: !args.context.is_empty(),
        },
    );
    if args.first || args.output == WatchFormat::Brief || !args.exec.is_empty() {
        view = view.bridge(&BridgeConfig {
            exec: args.exec.clone(),
            exec_at_once: args.exec_at_once,
            first: args.first,
            resolved: args.resolved,
            told_file: args.told.clone(),
        })?;
    }
    let request = WatchRequest::from(args);
    let Some(url) = &args.url else {
        let token = uuid::Uuid::new_v4().to_string();
        let server = crate::start(for_this_client(config, &token)).await?;
        let address = server
            .address()
            .context("the server inside has no address")?;
        let endpoint = Endpoint::new(&format!("http://{address}/mcp"), Some(&token))?;
        return tokio::select! {
            shown = view.run(endpoint, request, stop) => Ok(shown?),
            ended = server.until(stream::pending()) => ended,
        };
    };
    let token = read_token(args.token_file.as_deref())?;
    let endpoint = Endpoint::with_certificate_authority(
        url,
        token.as_deref(),
        args.certificate_authority.as_deref(),
    )?;
    Ok(view.run(endpoint, request, stop).await?)
}

/// The token for a server: from the file, or else from the environment.
pub(crate) fn read_token(file: Option<&Path>) -> Result<Option<String>, TokenFileError> {
    let token = match file {
        Some(path) => {
            let text = fs::read_to_string(path).map_err(|source| TokenFileError {
                path: path.to_owned(),
                source,
            })?;
            Some(text.trim().to_owned())
        }
        None => env::var(TOKEN_VARIABLE).ok(),
    };
    Ok(token.filter(|token| !token.is_empty()))
}

/// The configuration of a server for the one client in this process, which alone has the
/// token.
fn for_this_client(mut config: Config, token: &str) -> Config {
    if let kubecrier_server::Transport::Http(http) = &mut config.transport {
        http.own_token = Some(token.to_owned());
    }
    // The only session may subscribe to as many contexts as are named.
    let caps = &mut config.subscriptions.caps;
    caps.per_session_max = caps.per_session_max.max(caps.global_max);
    config
}

impl From<&WatchArgs> for WatchRequest {
    fn from(args: &WatchArgs) -> Self {
        Self {
            contexts: args.context.clone(),
            namespaces: match (args.all_namespaces, args.namespace.as_slice()) {
                (true, _) => NamespaceScope::All,
                (false, []) => NamespaceScope::Context,
                (false, names) => NamespaceScope::Named(names.to_vec()),
            },
            label_selector: args.selector.clone(),
            object: args.object.clone(),
            types: args
                .types
                .iter()
                .map(|one| EventType::as_str(*one).to_owned())
                .collect(),
            reason: args.reason.clone(),
            faults: args.faults || (!args.exec.is_empty() && !args.incidents),
            incidents: args.incidents,
            since: args.since.clone(),
        }
    }
}

impl From<WatchFormat> for Format {
    fn from(format: WatchFormat) -> Self {
        match format {
            WatchFormat::Text => Self::Text,
            WatchFormat::Wide => Self::Wide,
            WatchFormat::Json => Self::Json,
            WatchFormat::Brief => Self::Brief,
        }
    }
}

//! `kubecrier demo`: the server as it is released, over a cluster in memory, and a view of
//! what a subscribed agent receives. The view is a client over HTTP like any other.

use std::pin::Pin;

use anstyle::{AnsiColor, Style};
use anyhow::{Context, Result, bail};
use demo_cluster::{DemoCluster, Options, Scenario};
use futures_util::{Stream, StreamExt, stream};
use kubecrier_client::{Endpoint, Format, NamespaceScope, Screen, View, ViewConfig, WatchRequest};

use crate::{RunningServer, cli::DemoArgs, config::Config};
use kubecrier_k8s::Demo;

/// The first port that is tried, and how many are.
const PORT: u16 = 8080;
const PORTS: u16 = 100;

/// Lines of each log under a fault.
const LOG_LINES: usize = 3;

type Signals<S> = Pin<Box<S>>;

/// What the demo waits for.
enum Phase<S> {
    /// The view shows what arrives, until the first signal.
    Showing(Box<View>, Signals<S>),
    /// Until the first signal.
    Serving(Signals<S>),
    /// The server drains, until the next signal.
    Draining(Signals<S>),
}

/// Runs until the first item of `stop`, which drains the server as [`crate::run`] does, or
/// until the pipe on standard output is closed.
pub async fn run(args: &DemoArgs, config: Config, stop: impl Stream<Item = ()>) -> Result<()> {
    let cluster = DemoCluster::new(Options {
        seed: args.seed,
        ..Options::default()
    });
    let scenario = Scenario::set_up(&cluster, args.seed)
        .context("cannot set up the shop")?
        .speed(args.speed);
    let server = start(over(config, &cluster), args.port).await?;
    let address = server.address().context("the server has no address")?;
    let url = format!("http://{address}/mcp");
    let mut screen = Screen::new(args.color.on_stdout());
    let color = screen.color();
    let intro = introduce(&url, args.no_client, &|text| heading(text, color));
    if let Err(error) = screen.show(&intro).await {
        return Ok(error.ignore_closed_pipe()?);
    }
    let stop = Box::pin(stop);
    let phase = if args.no_client {
        Phase::Serving(stop)
    } else {
        let config = ViewConfig {
            format: Format::Text,
            log_lines: LOG_LINES,
            show_context: false,
            name_context: false,
        };
        Phase::Showing(Box::new(View::new(screen, config)), stop)
    };
    let mut failure = Ok(());
    let stops = stream::unfold((phase, &mut failure), async |(phase, failure)| {
        let (ended, stop) = next_stop(phase, &url).await;
        if ended.is_err() {
            *failure = ended;
        }
        Some(((), (Phase::Draining(stop), failure)))
    });
    let ended = tokio::select! {
        played = scenario.run() => played.context("the story cannot go on"),
        ended = server.until(stops) => ended,
    };
    failure.and(ended)
}

/// Waits for what stops the server: the end of the view, or a signal.
async fn next_stop<S: Stream<Item = ()>>(phase: Phase<S>, url: &str) -> (Result<()>, Signals<S>) {
    match phase {
        Phase::Showing(view, mut stop) => {
            let request = WatchRequest {
                namespaces: NamespaceScope::All,
                faults: true,
                incidents: true,
                ..WatchRequest::default()
            };
            let shown = match Endpoint::new(url, None) {
                Ok(endpoint) => view.run(endpoint, request, &mut stop).await,
                Err(error) => Err(error.into()),
            };
            (shown.map_err(Into::into), stop)
        }
        Phase::Serving(mut stop) | Phase::Draining(mut stop) => {
            if stop.next().await.is_none() {
                // No signal will come.
                std::future::pending::<()>().await;
            }
            (Ok(()), stop)
        }
    }
}

/// The configuration of a server over the cluster in memory.
fn over(mut config: Config, cluster: &DemoCluster) -> Config {
    config.cluster.demo = Some(Demo::new(cluster));
    config
}

/// Starts the server on the requested port, or else on the first free one.
async fn start(mut config: Config, requested: Option<u16>) -> Result<RunningServer> {
    let ports = match requested {
        Some(port) => port..=port,
        None => PORT..=PORT + (PORTS - 1),
    };
    let mut last = None;
    for port in ports {
        let kubecrier_server::Transport::Http(http) = &mut config.transport else {
            bail!("the demo serves over HTTP");
        };
        http.listen.set_port(port);
        match crate::start(config.clone()).await {
            Err(error)
                if (error.downcast_ref::<kubecrier_server::ListenError>())
                    .is_some_and(kubecrier_server::ListenError::is_address_in_use) =>
            {
                last = Some(error);
            }
            started => return started,
        }
    }
    let error = last.context("there is no port to listen on")?;
    if requested.is_some() {
        return Err(error);
    }
    let end = PORT + (PORTS - 1);
    bail!("ports {PORT} to {end} are all taken\nhint: choose another with --port")
}

fn heading(text: &str, color: bool) -> String {
    let style = if color {
        AnsiColor::Cyan.on_default().bold()
    } else {
        Style::new()
    };
    format!("{style}{text}{style:#}")
}

fn introduce(url: &str, no_client: bool, heading: &dyn Fn(&str) -> String) -> Vec<String> {
    let mut lines = vec![
        format!("{} at {url}", heading("kubecrier, over a shop in memory")),
        String::new(),
        heading("Connect an agent"),
        "  Claude Code".to_owned(),
        format!("    claude mcp add --transport http kubecrier-demo {url}"),
        "  VS Code, in .vscode/mcp.json".to_owned(),
        r#"    {"servers": {"kubecrier-demo":"#.to_owned(),
        format!(r#"      {{"type": "http", "url": "{url}"}}}}}}"#),
        "  curl".to_owned(),
        format!("    curl -s {url} -H 'content-type: application/json' \\"),
        "      -H 'accept: application/json, text/event-stream' \\".to_owned(),
        "      -H 'mcp-protocol-version: 2026-07-28' -H 'mcp-method: tools/call' \\".to_owned(),
        "      -H 'mcp-name: faults_list' \\".to_owned(),
        r#"      -d '{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"#.to_owned(),
        r#"        "name": "faults_list", "arguments": {}, "_meta": {"#.to_owned(),
        r#"        "io.modelcontextprotocol/protocolVersion": "2026-07-28","#.to_owned(),
        r#"        "io.modelcontextprotocol/clientCapabilities": {}}}}'"#.to_owned(),
        "  then ask it: what is wrong in the shop?".to_owned(),
        String::new(),
    ];
    if no_client {
        lines.push("ctrl-c ends it".to_owned());
    } else {
        let text = "What a subscribed agent is told (ctrl-c ends it; the first comes in seconds)";
        lines.push(heading(text));
    }
    lines
}

#[cfg(test)]
mod tests;

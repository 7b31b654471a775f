//! `kubecrier demo`: the server as it is released, over a cluster in memory, and a view of
//! what a subscribed agent receives. The view is a client over HTTP like any other.

use std::{
    net::{Ipv4Addr, SocketAddr},
    pin::pin,
};

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

/// Runs until the first item of `stop`, or until the pipe on standard output is closed.
pub async fn run(args: &DemoArgs, mut config: Config, stop: impl Stream<Item = ()>) -> Result<()> {
    let cluster = DemoCluster::new(Options {
        seed: args.seed,
        ..Options::default()
    });
    let scenario = Scenario::set_up(&cluster, args.seed)
        .context("cannot set up the shop")?
        .speed(args.speed);
    config.cluster.demo = Some(Demo::new(&cluster));
    config.cluster.context = None;
    let server = start(config, args.port).await?;
    let address = server.address().context("the server has no address")?;
    let url = format!("http://{address}/mcp");
    let mut screen = Screen::new(args.color.on_stdout());
    let color = screen.color();
    let intro = introduce(&url, args.no_client, &|text| heading(text, color));
    if let Err(error) = screen.show(&intro).await {
        return Ok(error.ignore_closed_pipe()?);
    }
    let showing = async {
        if args.no_client {
            pin!(stop).next().await;
            return Ok(());
        }
        let config = ViewConfig {
            format: Format::Text,
            log_lines: LOG_LINES,
            show_context: false,
        };
        let request = WatchRequest {
            namespaces: NamespaceScope::All,
            faults: true,
            ..WatchRequest::default()
        };
        let endpoint = Endpoint::new(&url, None)?;
        Ok(View::new(screen, config)
            .run(endpoint, request, stop)
            .await?)
    };
    tokio::select! {
        shown = showing => shown,
        played = scenario.run() => played.context("the story cannot go on"),
        ended = server.until(stream::pending()) => ended,
    }
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
        http.listen = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
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
        format!(r#"    {{"servers": {{"kubecrier-demo": {{"type": "http", "url": "{url}"}}}}}}"#),
        "  curl".to_owned(),
        format!("    curl -s {url} -H 'content-type: application/json' \\"),
        "      -H 'accept: application/json, text/event-stream' \\".to_owned(),
        "      -H 'mcp-protocol-version: 2026-07-28' -H 'mcp-method: tools/call' \\".to_owned(),
        "      -H 'mcp-name: faults_list' -d '{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\
         \"params\":{\"name\":\"faults_list\",\"arguments\":{},\
         \"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\",\
         \"io.modelcontextprotocol/clientCapabilities\":{}}}}'"
            .to_owned(),
        "  then ask it: what is wrong in the shop?".to_owned(),
        String::new(),
    ];
    if no_client {
        lines.push("ctrl-c ends it".to_owned());
    } else {
        let text =
            "What a subscribed agent is told (ctrl-c ends it; the first fault comes in seconds)";
        lines.push(heading(text));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_introduction_is_as_it_was() {
        let lines = introduce("http://127.0.0.1:8080/mcp", false, &|text| text.to_owned());
        insta::assert_snapshot!(lines.join("\n"));
    }
}

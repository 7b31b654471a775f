//! `kubecrier watch`, and what the demo shows: a client of kubecrier like any other,
//! over plain HTTP. It names neither kube nor rmcp; what it knows of the server is
//! what stands on the wire.

mod exec;
mod follow;
mod lines;
mod news;
mod probe;
mod screen;
mod session;
mod trust;
mod wire;
mod wish;

use std::{collections::HashSet, env, fs, path::Path, pin::pin, sync::Arc};

use anyhow::{Context, Result};
use futures_util::{Stream, StreamExt, stream};
use jiff::tz::TimeZone;
use serde_json::Value;

pub use self::wire::WireError;
pub(crate) use self::{
    probe::Probe,
    screen::{Closed, Screen},
    wire::Endpoint,
    wish::{Spaces, Wish},
};

use self::{
    exec::Runner,
    follow::{Follower, Heard},
    lines::Look,
    news::News,
    wish::Order,
};
use crate::{
    cli::{Form, TOKEN, WatchArgs},
    config::Config,
};

/// How news is shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    pub(crate) output: Form,
    pub(crate) log_lines: usize,
    /// Whether there is more than one context to tell apart.
    pub(crate) contexts: bool,
}

/// Shows what a follower hears.
#[derive(Debug)]
pub(crate) struct View {
    screen: Screen,
    look: Look,
    output: Form,
    runner: Option<Runner>,
    /// What was listed, and may be pushed too.
    listed: HashSet<String>,
}

/// Runs until told to stop, or until nobody reads any more.
pub async fn run(args: &WatchArgs, config: Config, stop: impl Stream<Item = ()>) -> Result<()> {
    let mut view = View::new(
        Screen::new(args.color),
        Style {
            output: args.output,
            log_lines: args.log_lines,
            contexts: args.context.len() > 1,
        },
    );
    view.runner = (args.exec.as_deref()).map(|command| Runner::new(command, args.exec_max));
    let wish = Wish::from(args);
    let Some(url) = &args.url else {
        let token = uuid::Uuid::new_v4().to_string();
        let inside = crate::start(for_one(config, &token)).await?;
        let address = inside
            .address()
            .context("the server inside has no address")?;
        let endpoint = Endpoint::new(&format!("http://{address}/mcp"), Some(&token))?;
        return tokio::select! {
            shown = view.follow(endpoint, wish, stop) => shown,
            ended = inside.until(stream::pending()) => ended,
        };
    };
    let token = token(args.token_file.as_deref())?;
    let authority = args.certificate_authority.as_deref();
    let endpoint = Endpoint::believing(url, token.as_deref(), authority)?;
    view.follow(endpoint, wish, stop).await
}

/// The token for a server: from a file, else from the environment.
pub(crate) fn token(file: Option<&Path>) -> Result<Option<String>> {
    let token = match file {
        Some(path) => {
            let text = fs::read_to_string(path)
                .with_context(|| format!("cannot read the token file `{}`", path.display()))?;
            Some(text.trim().to_owned())
        }
        None => env::var(TOKEN).ok(),
    };
    Ok(token.filter(|token| !token.is_empty()))
}

/// A server for the one client in the same process: nobody else has its token.
fn for_one(mut config: Config, token: &str) -> Config {
    if let kubecrier_server::Transport::Http(http) = &mut config.transport {
        http.own_token = Some(token.to_owned());
    }
    // As many contexts as a person names.
    let caps = &mut config.subscriptions.caps;
    caps.per_session_max = caps.per_session_max.max(caps.global_max);
    config
}

// === impl View ===

impl View {
    pub(crate) fn new(screen: Screen, style: Style) -> Self {
        let look = Look {
            colour: screen.colour(),
            width: None,
            zone: TimeZone::system(),
            contexts: style.contexts,
            log_lines: style.log_lines,
        };
        Self {
            screen,
            look,
            output: style.output,
            runner: None,
            listed: HashSet::new(),
        }
    }

    /// Shows everything until there is nobody to show it to, or until told to stop.
    pub(crate) async fn follow(
        mut self,
        endpoint: Endpoint,
        wish: Wish,
        stop: impl Stream<Item = ()>,
    ) -> Result<()> {
        let mut stop = pin!(stop);
        let url = endpoint.url();
        let since = wish.since.clone();
        let mut follower = Follower::new(Arc::new(endpoint), wish);
        loop {
            let heard = tokio::select! {
                heard = follower.next() => heard,
                _asked = stop.next() => {
                    follower.end().await;
                    return Ok(());
                }
            };
            let heard = match heard {
                Ok(heard) => heard,
                Err(error) => {
                    follower.end().await;
                    return Err(error.into());
                }
            };
            let shown = match heard {
                Heard::Subscribed {
                    orders,
                    notes,
                    again,
                } => {
                    self.subscribed(&url, &orders, &notes, again).await;
                    match since.as_deref().filter(|_| !again) {
                        Some(since) => {
                            let rows = follower.history(&orders, since).await?;
                            self.history(rows).await
                        }
                        None => Ok(()),
                    }
                }
                Heard::Resumed => {
                    let text = "connected again, going on where the stream broke";
                    self.screen.note(text).await;
                    Ok(())
                }
                Heard::Lost(why) => {
                    self.screen
                        .note(&format!("{why}; trying again ({url})"))
                        .await;
                    Ok(())
                }
                Heard::Missing(count) => {
                    let text =
                        format!("{count} messages were missed: more came than could be kept");
                    self.screen.note(&text).await;
                    Ok(())
                }
                Heard::News(data) => self.news(&data).await,
            };
            if let Err(closed) = shown {
                follower.end().await;
                return Ok(closed.outcome()?);
            }
        }
    }

    async fn subscribed(&mut self, url: &str, orders: &[Order], notes: &[String], again: bool) {
        if again {
            let text = "connected again, in a new session: what happened meanwhile was not seen";
            self.screen.note(text).await;
        }
        for order in orders {
            let text = format!("watching {} ({url})", order.describe());
            self.screen.note(&text).await;
        }
        for note in notes {
            self.screen.note(note).await;
        }
    }

    async fn history(&mut self, rows: Vec<(String, Value)>) -> Result<(), Closed> {
        for (context, row) in rows {
            let data = news::history(&context, &row);
            self.listed.insert(news::key(&data));
            self.show(&data).await?;
        }
        Ok(())
    }

    async fn news(&mut self, data: &Value) -> Result<(), Closed> {
        if self.listed.remove(&news::key(data)) {
            return Ok(());
        }
        self.show(data).await?;
        let fault = data.get("faultId").is_some();
        if let Some(runner) = self.runner.as_mut().filter(|_| fault) {
            for note in runner.run(data.to_string()) {
                self.screen.note(&note).await;
            }
        }
        Ok(())
    }

    async fn show(&mut self, data: &Value) -> Result<(), Closed> {
        let lines = match self.output {
            Form::Json => vec![data.to_string()],
            Form::Text => {
                let Some(news) = News::read(data) else {
                    return Ok(());
                };
                self.look.width = Screen::width();
                self.look.lines(&news)
            }
        };
        self.screen.show(&lines).await
    }
}

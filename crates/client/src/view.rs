//! Shows what a subscription delivers, until it is stopped or standard output is closed.

use std::{collections::HashSet, pin::pin, sync::Arc};

use futures_util::{Stream, StreamExt};
use jiff::tz::TimeZone;
use serde_json::Value;

use crate::{
    ClientError, Endpoint, OutputError, Screen, WatchRequest,
    exec::Runner,
    follow::{Follower, Update},
    healing::{Healing, Recovery},
    notification::{self, Notification},
    render::Renderer,
    repeats::Repeats,
    request::ContextRequest,
};

/// The form in which notifications are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Lines for people.
    Text,
    /// Lines for people, with everything: nothing is cut, and nothing left out as a repeat.
    Wide,
    /// One JSON object per line.
    Json,
}

/// How notifications are shown.
#[derive(Clone, Copy, Debug)]
pub struct ViewConfig {
    /// The form of the output.
    pub format: Format,
    /// Lines of each log under a fault.
    pub log_lines: usize,
    /// Whether each line names its context, because there are several.
    pub show_context: bool,
}

/// Shows the notifications of a subscription on a screen.
#[derive(Debug)]
pub struct View {
    screen: Screen,
    renderer: Renderer,
    format: Format,
    runner: Option<Runner>,
    /// Keys of listed events, which may be pushed as well.
    listed: HashSet<String>,
    repeats: Repeats,
    healing: Healing,
}

/// Why a view ended.
#[derive(Debug, thiserror::Error)]
pub enum ViewError {
    /// The server cannot be followed.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// Standard output cannot be written to.
    #[error(transparent)]
    Output(#[from] OutputError),
}

// === impl View ===

impl View {
    /// A view on that screen.
    pub fn new(screen: Screen, config: ViewConfig) -> Self {
        let ViewConfig {
            format,
            log_lines,
            show_context,
        } = config;
        let renderer = Renderer {
            color: screen.color(),
            width: None,
            zone: TimeZone::system(),
            show_context,
            log_lines,
            whole: format == Format::Wide,
        };
        Self {
            screen,
            renderer,
            format,
            runner: None,
            listed: HashSet::new(),
            repeats: Repeats::default(),
            healing: Healing::default(),
        }
    }

    /// Also runs a shell command for each fault or incident, `concurrency` of them at once.
    #[must_use]
    pub fn exec(mut self, command: &str, concurrency: u16) -> Self {
        self.runner = Some(Runner::new(command, concurrency));
        self
    }

    /// Subscribes and shows what arrives, until the first item of `stop` or until the
    /// pipe on standard output is closed.
    ///
    /// # Errors
    ///
    /// The first attempt fails, the server refuses the client, or standard output cannot
    /// be written to. A connection that is lost later is made again.
    pub async fn run(
        mut self,
        endpoint: Endpoint,
        request: WatchRequest,
        stop: impl Stream<Item = ()>,
    ) -> Result<(), ViewError> {
        let mut follower = Follower::new(Arc::new(endpoint), request);
        let outcome = self.show_updates(&mut follower, stop).await;
        follower.end().await;
        match outcome {
            Err(ViewError::Output(error)) => Ok(error.ignore_closed_pipe()?),
            other => other,
        }
    }

    async fn show_updates(
        &mut self,
        follower: &mut Follower,
        stop: impl Stream<Item = ()>,
    ) -> Result<(), ViewError> {
        let mut stop = pin!(stop);
        let url = follower.url();
        loop {
            let session = follower.session();
            let update = {
                // It is not cancel-safe.
                let mut next = pin!(follower.next());
                loop {
                    tokio::select! {
                        update = &mut next => break update?,
                        _signal = stop.next() => return Ok(()),
                        recovery = self.healing.next(session.as_ref()) => {
                            self.recovered(&recovery).await?;
                        }
                    }
                }
            };
            match update {
                Update::Subscribed {
                    contexts,
                    warnings,
                    open,
                    reconnected,
                } => {
                    self.subscribed(&url, &contexts, &warnings, reconnected)
                        .await;
                    for data in &open {
                        self.show(data).await?;
                    }
                    if !reconnected {
                        let rows = follower.history(&contexts).await?;
                        self.history(rows).await?;
                    }
                }
                Update::Resumed => {
                    let text = "connected again, going on where the stream broke";
                    self.screen.note(text).await;
                }
                Update::Disconnected => {
                    let text = format!("the connection is gone; trying again ({url})");
                    self.screen.note(&text).await;
                }
                Update::Gap(count) => {
                    let text =
                        format!("{count} messages were missed: more came than could be kept");
                    self.screen.note(&text).await;
                }
                Update::Notification(data) => self.notification(&data).await?,
            }
        }
    }

    async fn subscribed(
        &mut self,
        url: &str,
        contexts: &[ContextRequest],
        warnings: &[String],
        reconnected: bool,
    ) {
        if reconnected {
            let text = "connected again, in a new session: what happened meanwhile was not seen";
            self.screen.note(text).await;
        }
        for context in contexts {
            let text = format!("watching {} ({url})", context.describe());
            self.screen.note(&text).await;
        }
        for warning in warnings {
            self.screen.note(warning).await;
        }
    }

    async fn history(&mut self, rows: Vec<Value>) -> Result<(), OutputError> {
        for data in rows {
            self.listed.insert(notification::event_key(&data));
            self.show(&data).await?;
        }
        Ok(())
    }

    async fn notification(&mut self, data: &Value) -> Result<(), OutputError> {
        if self.listed.remove(&notification::event_key(data)) {
            return Ok(());
        }
        self.show(data).await?;
        let is_fault = data.get("faultId").is_some() || data.get("incident").is_some();
        if let Some(runner) = self.runner.as_mut().filter(|_| is_fault) {
            for note in runner.spawn(data.to_string()) {
                self.screen.note(&note).await;
            }
        }
        Ok(())
    }

    async fn show(&mut self, data: &Value) -> Result<(), OutputError> {
        if self.format == Format::Json {
            return self.screen.show(&[data.to_string()]).await;
        }
        let Some(notification) = Notification::parse(data) else {
            return Ok(());
        };
        let repeat = self.repeats.count(&notification);
        let repeat = repeat.filter(|_| self.format == Format::Text);
        self.renderer.width = Screen::width();
        let lines = self.renderer.lines(&notification, repeat);
        self.healing.on_fault(notification);
        self.screen.show(&lines).await
    }

    async fn recovered(&mut self, recovery: &Recovery) -> Result<(), OutputError> {
        self.repeats.forget(&recovery.fault);
        self.renderer.width = Screen::width();
        let lines = self.renderer.recovery(recovery);
        self.screen.show(&lines).await
    }
}

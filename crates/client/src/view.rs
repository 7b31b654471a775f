//! Shows what a subscription delivers, until it is stopped or standard output is closed.

use std::{collections::HashSet, pin::pin, sync::Arc};

use futures_util::{Stream, StreamExt};
use jiff::tz::TimeZone;
use serde_json::Value;

use crate::{
    BridgeConfig, ClientError, Endpoint, OutputError, Screen, ToldFileError, WatchRequest,
    bridge::{self, Bridge},
    follow::{Follower, Past, Update},
    healing::{Healing, Recovery},
    notification::{self, Notification},
    render::{Renderer, brief},
    repeats::Repeats,
    request::{ContextRequest, OpenIncidents},
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
    /// One short line per incident, for agents: each once.
    Brief,
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
    /// Whether a short line names its context, because it was asked for.
    pub name_context: bool,
}

/// Shows the notifications of a subscription on a screen.
#[derive(Debug)]
pub struct View {
    screen: Screen,
    renderer: Renderer,
    format: Format,
    bridge: Option<Bridge>,
    /// Ends after the first incident that is told.
    first: bool,
    /// Whether a short line names its context.
    name_context: bool,
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
    /// The file of told incidents cannot be used.
    #[error(transparent)]
    ToldFile(#[from] ToldFileError),
    /// The program of the one incident that was to be told.
    #[error("the incident was not told, its program failed")]
    ProgramFailed,
}

/// Whether there is more to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Wait,
    End,
}

// === impl View ===

impl View {
    /// A view on that screen.
    pub fn new(screen: Screen, config: ViewConfig) -> Self {
        let ViewConfig {
            format,
            log_lines,
            show_context,
            name_context,
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
            bridge: None,
            first: false,
            name_context,
            listed: HashSet::new(),
            repeats: Repeats::default(),
            healing: Healing::default(),
        }
    }

    /// Also tells each incident once, to a program or to who waits for the first.
    ///
    /// # Errors
    ///
    /// The file of told incidents cannot be used.
    pub fn bridge(mut self, config: &BridgeConfig) -> Result<Self, ViewError> {
        self.bridge = Some(Bridge::new(config, self.name_context)?);
        self.first = config.first;
        Ok(self)
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
        if let Some(bridge) = &mut self.bridge {
            bridge.end().await;
        }
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
        let (mut stop, mut closed) = (pin!(stop), pin!(Screen::closed()));
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
                        () = &mut closed => return Ok(()),
                        recovery = self.healing.next(session.as_ref()) => {
                            self.recovered(&recovery).await?;
                        }
                        note = next_failure(&mut self.bridge) => self.screen.note(&note).await,
                    }
                }
            };
            let next = match update {
                Update::Subscribed {
                    contexts,
                    warnings,
                    open,
                    reconnected,
                } => {
                    self.subscribed(&url, &contexts, &warnings, reconnected)
                        .await;
                    if !reconnected {
                        let past = follower.history(&contexts).await?;
                        self.history(past).await?;
                    }
                    self.open(&open).await?
                }
                Update::Resumed => {
                    let text = "connected again, going on where the stream broke";
                    self.screen.note(text).await;
                    Next::Wait
                }
                Update::Disconnected => {
                    let text = format!("the connection is gone; trying again ({url})");
                    self.screen.note(&text).await;
                    Next::Wait
                }
                Update::Gap(count) => {
                    let text =
                        format!("{count} messages were missed: more came than could be kept");
                    self.screen.note(&text).await;
                    Next::Wait
                }
                Update::Notification(data) => self.notification(&data).await?,
            };
            if next == Next::End {
                return tokio::select! {
                    finished = self.finish() => finished,
                    _signal = stop.next() => Ok(()),
                };
            }
        }
    }

    /// Waits for the program of the one incident that was told.
    async fn finish(&mut self) -> Result<(), ViewError> {
        let Some(bridge) = &mut self.bridge else {
            return Ok(());
        };
        let (succeeded, notes) = bridge.finish().await;
        for note in &notes {
            self.screen.note(note).await;
        }
        if succeeded {
            return Ok(());
        }
        Err(ViewError::ProgramFailed)
    }

    /// What is open is shown, unless each is to be told once: then only what is news.
    async fn open(&mut self, open: &[OpenIncidents]) -> Result<Next, ViewError> {
        let news = match &mut self.bridge {
            Some(bridge) => bridge.on_open(open)?,
            None => HashSet::new(),
        };
        for data in open.iter().flat_map(|one| &one.incidents) {
            let is_told = news.contains(&bridge::key(data));
            if is_told || !self.tells_once() {
                self.show(data).await?;
            }
            if !is_told {
                continue;
            }
            let outcome = self.bridge.as_mut().map(|bridge| bridge.on_news(data));
            if let Some(note) = outcome.and_then(|outcome| outcome.note) {
                self.screen.note(&note).await;
            }
            if self.first {
                return Ok(Next::End);
            }
        }
        Ok(Next::Wait)
    }

    /// Whether only what is told is shown.
    fn tells_once(&self) -> bool {
        self.first || self.format == Format::Brief
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

    async fn history(&mut self, past: Past) -> Result<(), OutputError> {
        for note in &past.notes {
            self.screen.note(note).await;
        }
        for data in past.rows {
            if data.get("event").is_some() {
                self.listed.insert(notification::event_key(&data));
            } else if self.tells_once() {
                // It is over, and nobody is to be told of it.
                continue;
            }
            self.show(&data).await?;
        }
        Ok(())
    }

    async fn notification(&mut self, data: &Value) -> Result<Next, ViewError> {
        if self.listed.remove(&notification::event_key(data)) {
            return Ok(Next::Wait);
        }
        let outcome = match &mut self.bridge {
            Some(bridge) => bridge.on_notification(data)?,
            None => bridge::Outcome::default(),
        };
        let is_incident = data.get("incident").is_some();
        if outcome.is_told || !is_incident || !self.tells_once() {
            self.show(data).await?;
        }
        if let Some(note) = &outcome.note {
            self.screen.note(note).await;
        }
        if outcome.is_told && self.first {
            return Ok(Next::End);
        }
        Ok(Next::Wait)
    }

    async fn show(&mut self, data: &Value) -> Result<(), OutputError> {
        if self.format == Format::Json {
            return self.screen.show(&[data.to_string()]).await;
        }
        let Some(notification) = Notification::parse(data) else {
            return Ok(());
        };
        if self.format == Format::Brief {
            return self.show_brief(&notification).await;
        }
        let repeat = self.repeats.count(&notification);
        let repeat = repeat.filter(|_| self.format == Format::Text);
        self.renderer.width = Screen::width();
        let lines = self.renderer.lines(&notification, repeat);
        self.healing.on_fault(notification);
        self.screen.show(&lines).await
    }

    /// A line on standard output is an incident: the state of the watch is a note.
    async fn show_brief(&mut self, notification: &Notification) -> Result<(), OutputError> {
        if let Some(incident) = &notification.incident {
            let line = brief(notification, incident, self.name_context);
            return self.screen.show(&[line]).await;
        }
        for line in self.renderer.lines(notification, None) {
            self.screen.note(&line).await;
        }
        Ok(())
    }

    async fn recovered(&mut self, recovery: &Recovery) -> Result<(), OutputError> {
        self.repeats.forget(&recovery.fault);
        self.renderer.width = Screen::width();
        let lines = self.renderer.recovery(recovery);
        self.screen.show(&lines).await
    }
}

/// The next note on a program that failed. Cancel-safe.
async fn next_failure(bridge: &mut Option<Bridge>) -> String {
    match bridge {
        Some(bridge) => bridge.next_failure().await,
        None => std::future::pending().await,
    }
}

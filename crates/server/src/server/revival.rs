//! Sessions that are continued: what their records have of the server, and how it comes back.

use mcp_notify::{Level, LogMessage, Session};
use serde_json::json;

use super::Server;
use crate::{
    doors::Door,
    output::ToolError,
    resources::{ProtocolEra, Requester},
    sessions::{HttpSession, SessionRecord, StreamPosition},
    subscriptions::{SubscriptionRecord, WakeFrom},
};
use kubecrier_core::filters::Mode;

/// Logger of what is said about subscriptions.
const STATUS_LOGGER: &str = "kubernetes/subscription_error";

impl Server {
    /// Completes the record of a session with what it has of the server.
    pub(crate) fn describe_session(
        &self,
        entry: &HttpSession,
        mut record: SessionRecord,
    ) -> SessionRecord {
        let session = entry.session();
        record.level = session.log_level().map(|level| level.to_string());
        record.subscriptions = self.subscriptions().records(session);
        record.resources = self.shared.resources.uris(session);
        // What waits may never be sent, so it does not count as notified.
        let notified = self.shared.list_changes.notified(session);
        record.lists = entry.lists_when_sent(notified);
        let feeds: Vec<_> = (record.subscriptions.iter())
            .filter_map(SubscriptionRecord::short_id)
            .collect();
        entry.retain_feeds(|feed| feeds.contains(&feed));
        record
    }

    /// Gives a session that is continued what its record has.
    pub(crate) async fn restore_session(&self, entry: &HttpSession, record: SessionRecord) {
        let session = entry.session();
        let requester = requester(entry);
        let level = record.level.and_then(|level| level.parse::<Level>().ok());
        if let Some(level) = level {
            self.shared.logging.set_level(session, level);
        }
        for kept in &record.subscriptions {
            if let Err(error) = self.restore_subscription(&requester, session, kept) {
                let error = format!("the subscription has ended, subscribe again: {error}");
                let data = json!({
                    "subscriptionId": kept.id, "cluster": kept.context, "error": error, "degraded": true,
                });
                let told = LogMessage::new(Level::Error, &data).logger(STATUS_LOGGER);
                let _accounted = session.push(told.into_notification());
            }
        }
        let uris: Vec<_> = record.resources.iter().map(ToString::to_string).collect();
        self.shared.resources.listen(session, &uris, &requester);
        if record.is_initialized {
            let _after = self.rescan().await;
            let snapshot = self.list_snapshot();
            let lists = &self.shared.list_changes;
            lists.continued(session, &record.lists, &snapshot);
        }
    }

    fn restore_subscription(
        &self,
        requester: &Requester,
        session: &Session,
        kept: &SubscriptionRecord,
    ) -> Result<(), ToolError> {
        let tool_filter = &self.shared.tool_filter;
        tool_filter.check_tool("events_subscribe")?;
        match kept.mode() {
            Mode::Events => {}
            Mode::Faults => tool_filter.check(Door::FaultMode)?,
            Mode::Incidents => tool_filter.check(Door::IncidentMode)?,
        }
        self.subscriptions().restore(requester, Some(session), kept)
    }

    /// Has what is pushed to a session that is continued delivered, now that its stream is
    /// opened by a client that has seen what `seen` says.
    pub(crate) fn wake_session(&self, entry: &HttpSession, seen: Option<&StreamPosition>) {
        let session = entry.session();
        for one in self.subscriptions().asleep(session) {
            let from = match seen {
                None => WakeFrom::Unknown,
                Some(seen) => {
                    let feed = one.id().short();
                    let mark = seen.marks.iter().find(|mark| mark.feed == feed);
                    mark.map_or(WakeFrom::Beginning, |mark| WakeFrom::Entry(*mark))
                }
            };
            let subscriptions = self.subscriptions().clone();
            let (requester, session) = (requester(entry), session.clone());
            self.shared.lifecycle.spawn("continued", async move {
                subscriptions.wake(&requester, &session, &one, from).await;
            });
        }
    }
}

/// The client of a session, for work that is not a request's.
fn requester(entry: &HttpSession) -> Requester {
    Requester {
        session: Some(entry.session().clone()),
        caller: entry.caller().clone(),
        peer: entry.peer(),
        era: ProtocolEra::Legacy,
    }
}

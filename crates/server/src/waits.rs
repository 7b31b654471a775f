//! Waiting for the next incident.
//!
//! ```text
//!  Waits::wait ──▶ Incidents::follow: a follower of the shared watcher, as a subscription has
//!       │               │ on_update: does it match? ──▶ Alarm
//!       ▼               ▼
//!  WaitOutcome ◀── the journals of the scopes, after the cursor
//! ```
//!
//! A wait keeps nothing between two calls: what was announced meanwhile is in the journals,
//! and a cursor is a position in them. A dropped wait leaves nothing behind.

mod cursor;

use std::{collections::HashMap, sync::Arc};

use tokio::{
    sync::Notify,
    time::{Duration, Instant, interval_at, sleep_until},
};
use tokio_util::sync::CancellationToken;

use self::cursor::{Cursor, ProcessId};
use crate::{
    incidents::{IncidentRead, Incidents},
    output::ToolError,
    resources::Requester,
    viewers::Viewers,
};
use kubecrier_core::{
    access::Viewer,
    filters::Filters,
    incident::{IncidentNotice, IncidentTransition},
    metrics::WaitMetrics,
};
use kubecrier_incidents::Transition;
use kubecrier_k8s::{IncidentFollower, IncidentUpdate};

/// How often a wait shows that it is alive: below the shortest deadline without progress of
/// the clients that are known, which is 60 s.
pub(super) const PROGRESS_INTERVAL: Duration = Duration::from_secs(20);

/// The waits of all callers. A clone is the same.
#[derive(Clone, Debug)]
pub(super) struct Waits {
    incidents: Incidents,
    viewers: Viewers,
    metrics: WaitMetrics,
    process: ProcessId,
}

/// What a caller waits for.
#[derive(Clone, Debug)]
pub(super) struct WaitRequest {
    pub(super) context: Option<String>,
    pub(super) filters: Filters,
    pub(super) until: WaitUntil,
    pub(super) cursor: Option<String>,
    pub(super) timeout: Duration,
}

/// What ends a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaitUntil {
    Opened,
    Changed,
    Resolved,
    Any,
}

/// What a wait found.
#[derive(Debug)]
pub(super) struct WaitOutcome {
    /// The incidents, as they are now.
    pub(super) read: IncidentRead,
    /// What the filters admit of all that was announced since the cursor, the oldest first.
    pub(super) notices: Vec<Arc<IncidentNotice>>,
    /// Why there may have been more.
    pub(super) gap: Option<WaitGap>,
    /// The cursor for the next wait.
    pub(super) cursor: String,
    /// How long it took.
    pub(super) waited: Duration,
    /// Whether the server stops.
    pub(super) draining: bool,
}

/// Why something may have been missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaitGap {
    /// The cursor is of another process.
    Restarted,
    /// Nobody watched, or it is not kept any more.
    Unwatched,
}

/// Wakes a wait when something is announced that ends it.
struct Alarm {
    filters: Filters,
    until: WaitUntil,
    rung: Notify,
}

// === impl Waits ===

impl Waits {
    pub(super) fn new(incidents: Incidents, viewers: Viewers, metrics: WaitMetrics) -> Self {
        Self {
            incidents,
            viewers,
            metrics,
            process: ProcessId::random(),
        }
    }

    /// Waits until something is announced that the request is about, for as long as it says.
    /// What was announced since its cursor counts. `on_progress` is called from time to time.
    /// Cancel-safe: nothing is left of a wait that is dropped.
    pub(super) async fn wait(
        &self,
        requester: &Requester,
        request: &WaitRequest,
        on_progress: impl Fn(Duration),
        stop: &CancellationToken,
    ) -> Result<WaitOutcome, ToolError> {
        let WaitRequest {
            context,
            filters,
            until,
            cursor,
            timeout,
        } = request;
        // Before anything is watched: a cursor that is none costs the cluster nothing.
        let cursor: Option<Cursor> = cursor.as_deref().map(str::parse).transpose()?;
        let _counted = self.metrics.begin();
        let began = Instant::now();
        let context = self.incidents.contexts().resolve(context.as_deref())?;
        let alarm = Arc::new(Alarm {
            filters: filters.clone(),
            until: *until,
            rung: Notify::new(),
        });
        let follower = Arc::clone(&alarm) as Arc<dyn IncidentFollower>;
        let (caller, viewer) = (requester.share_key(), self.viewers.of(&requester.caller)?);
        let whose = (&caller, &viewer);
        let following = (self.incidents).follow(whose, &context, filters, &follower);
        let mut read = following.await?;
        let (from, restarted) = self.position(&viewer, cursor)?;
        let mut ticks = interval_at(began + PROGRESS_INTERVAL, PROGRESS_INTERVAL);
        let mut is_over = false;
        let draining = loop {
            let announced = self.announced(&viewer, &read, from, filters);
            let is_due = |notice: &Arc<IncidentNotice>| until.admits(notice.transition());
            if restarted || announced.gap || announced.notices.iter().any(is_due) {
                break false;
            }
            if is_over {
                break stop.is_cancelled();
            }
            loop {
                tokio::select! {
                    () = alarm.rung.notified() => break,
                    () = sleep_until(began + *timeout) => is_over = true,
                    () = stop.cancelled() => is_over = true,
                    () = requester.caller.revoked() => {
                        return Err(ToolError::NotFound("the token is revoked".to_owned()));
                    }
                    _tick = ticks.tick() => {
                        on_progress(began.elapsed());
                        continue;
                    }
                }
                break;
            }
            read.refresh().await?;
        };
        read.refresh().await?;
        let announced = self.announced(&viewer, &read, from, filters);
        Ok(WaitOutcome {
            read,
            notices: announced.notices,
            gap: match (restarted, announced.gap) {
                (true, _) => Some(WaitGap::Restarted),
                (false, true) => Some(WaitGap::Unwatched),
                (false, false) => None,
            },
            cursor: Cursor::new(self.process, announced.last).to_string(),
            waited: began.elapsed(),
            draining,
        })
    }

    /// Where a wait begins, and whether its cursor is of another process.
    fn position(&self, viewer: &Viewer, cursor: Option<Cursor>) -> Result<(u64, bool), ToolError> {
        let last = self.incidents.watches().last_announced(viewer);
        match cursor {
            None => Ok((last, false)),
            Some(cursor) if cursor.process != self.process => Ok((last, true)),
            // It may have been counted anew for a user who was away for long.
            Some(cursor) if cursor.number > last && viewer.user().is_some() => Ok((last, true)),
            Some(cursor) if cursor.number > last => Err(ToolError::Arguments(format!(
                "the cursor `{cursor}` is ahead of everything that was announced: use one that \
                 faults_wait gave you, or none"
            ))),
            Some(cursor) => Ok((cursor.number, false)),
        }
    }

    /// What the filters admit of what was announced after a number.
    fn announced(
        &self,
        viewer: &Viewer,
        read: &IncidentRead,
        from: u64,
        filters: &Filters,
    ) -> AdmittedNotices {
        // First: an announcement that comes now is left for the next wait.
        let last = self.incidents.watches().last_announced(viewer);
        let announced = read.announced_after(from);
        let mut last_of = HashMap::new();
        let mut notices = Vec::new();
        for (_, update) in announced
            .updates
            .iter()
            .filter(|(number, _)| *number <= last)
        {
            for notice in self.incidents.notices().get(update).iter() {
                // Two namespaces can be hurt by one node; both announce it.
                let id = notice.incident().id.clone();
                let before = last_of.insert(id, Arc::clone(notice));
                let is_again = before.is_some_and(|before| is_same(&before, notice));
                if !is_again && filters.admits_incident(notice.objects()) {
                    notices.push(Arc::clone(notice));
                }
            }
        }
        AdmittedNotices {
            notices,
            gap: announced.gap,
            last,
        }
    }
}

/// Whether two scopes announced the same, one after the other.
fn is_same(before: &IncidentNotice, notice: &IncidentNotice) -> bool {
    before.transition() == notice.transition()
        && (notice.transition() != IncidentTransition::Changed
            || before.incident().headline == notice.incident().headline)
}

/// What was announced and is admitted.
struct AdmittedNotices {
    notices: Vec<Arc<IncidentNotice>>,
    gap: bool,
    /// The number of the last announcement that was looked at.
    last: u64,
}

// === impl WaitUntil ===

impl WaitUntil {
    /// Whether a transition ends the wait.
    pub(super) fn admits(self, transition: IncidentTransition) -> bool {
        match (self, transition) {
            (Self::Any, _)
            | (Self::Opened, IncidentTransition::Opened)
            | (Self::Changed, IncidentTransition::Changed)
            | (Self::Resolved, IncidentTransition::Resolved) => true,
            (Self::Opened | Self::Changed | Self::Resolved, _) => false,
        }
    }

    /// In a sentence.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Opened => "opened",
            Self::Changed => "changed",
            Self::Resolved => "resolved",
            Self::Any => "opened, changed or resolved",
        }
    }
}

// === impl Alarm ===

impl IncidentFollower for Alarm {
    fn on_update(&self, update: &Arc<IncidentUpdate>) {
        let is_due = |transition: &Transition| {
            let (word, incident) = match transition {
                Transition::Opened(incident) => (IncidentTransition::Opened, incident),
                Transition::Changed(incident) => (IncidentTransition::Changed, incident),
                Transition::Resolved { incident, .. } => (IncidentTransition::Resolved, incident),
            };
            let effects = incident.effects.iter().map(|effect| &effect.object);
            let objects = std::iter::once(&incident.object).chain(effects);
            self.until.admits(word) && self.filters.admits_incident(objects)
        };
        if update.transitions.iter().any(is_due) {
            self.rung.notify_one();
        }
    }
}

#[cfg(test)]
mod tests;

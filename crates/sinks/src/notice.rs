//! What a sink is told of an incident.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use kubecrier_core::incident::IncidentNotice;
use kubecrier_incidents::{Incident, Transition};
use serde_json::{Value, json};

/// Effects that a text names.
const EFFECTS_MAX: usize = 5;

/// An incident of a context: what messages about it have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct IncidentKey {
    pub(crate) context: Arc<str>,
    pub(crate) id: String,
}

/// An incident that was opened, changed or resolved.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Notice {
    /// The context of the cluster.
    pub(crate) context: Arc<str>,
    /// When it was seen.
    pub(crate) at: Timestamp,
    /// What happened. All text is redacted.
    pub(crate) transition: Transition,
}

// === impl Notice ===

impl Notice {
    /// As it is now, or was last.
    pub(crate) fn incident(&self) -> &Incident {
        match &self.transition {
            Transition::Opened(incident)
            | Transition::Changed(incident)
            | Transition::Resolved { incident, .. } => incident,
        }
    }

    pub(crate) fn key(&self) -> IncidentKey {
        IncidentKey {
            context: Arc::clone(&self.context),
            id: self.incident().id.clone(),
        }
    }

    pub(crate) fn word(&self) -> &'static str {
        match self.transition {
            Transition::Opened(_) => "opened",
            Transition::Changed(_) => "changed",
            Transition::Resolved { .. } => "resolved",
        }
    }

    pub(crate) fn is_resolved(&self) -> bool {
        matches!(self.transition, Transition::Resolved { .. })
    }

    /// When the incident ended, if it did. Clocks of a cluster may be ahead; what is over ended
    /// before now.
    pub(crate) fn ended_at(&self) -> Option<Timestamp> {
        match &self.transition {
            Transition::Resolved { incident, after } => {
                let ended = incident.since.checked_add(*after);
                Some(ended.unwrap_or(self.at).min(self.at))
            }
            Transition::Opened(_) | Transition::Changed(_) => None,
        }
    }

    /// The id of the message: the same for each attempt, and for each server that sees the
    /// same beginning. An incident changes more than once, so the moment counts there.
    pub(crate) fn message_id(&self) -> String {
        let incident = self.incident();
        let moment = match self.transition {
            Transition::Changed(_) => self.at,
            Transition::Opened(_) | Transition::Resolved { .. } => incident.since,
        };
        format!("{}.{}.{}", incident.id, self.word(), moment.as_second())
    }

    /// The message as subscribers get it: the cluster and the incident.
    pub(crate) fn data(&self) -> Value {
        let notice = IncidentNotice::new(&self.transition, self.at);
        json!({"cluster": &*self.context, "incident": notice.payload()})
    }

    /// What happened in one line.
    pub(crate) fn summary(&self) -> String {
        IncidentNotice::new(&self.transition, self.at)
            .summary()
            .to_owned()
    }

    /// What happened in a few lines, for an agent or a person.
    pub(crate) fn text(&self) -> String {
        let incident = self.incident();
        let mut text = format!("{} (cluster {})", self.summary(), self.context);
        if !incident.why.is_empty() && !incident.headline.contains(&incident.why) {
            text.push_str(&format!("\nWhy: {}", incident.why));
        }
        let mut effects = incident.effects.iter().take(EFFECTS_MAX).peekable();
        if effects.peek().is_some() {
            text.push_str("\nHurt by it:");
        }
        for effect in effects {
            text.push_str(&format!("\n- {}: {}", effect.object, effect.what));
        }
        if let Some(omitted) = incident.effects.len().checked_sub(EFFECTS_MAX + 1) {
            text.push_str(&format!("\n- and {} more", omitted + 1));
        }
        for change in &incident.changes {
            text.push_str(&format!(
                "\nBefore: {} {} at {}",
                change.object, change.what, change.at
            ));
        }
        text
    }

    /// How long it took, if it is over.
    pub(crate) fn duration(&self) -> Option<SignedDuration> {
        match &self.transition {
            Transition::Resolved { after, .. } => Some(*after),
            Transition::Opened(_) | Transition::Changed(_) => None,
        }
    }
}

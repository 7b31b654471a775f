//! The alerts of an Alertmanager: those that fire, which are sent again and again, and those
//! that are over and not told yet.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use kubecrier_incidents::{Incident, Options};

use crate::{
    notice::{IncidentKey, Notice},
    payload::alert::{Alert, Labels, labels},
};

/// How often alerts that fire are sent.
pub(crate) const RESEND: Duration = Duration::from_mins(1);

/// How long an alert fires by itself if it is not sent again: a restart of the server or a few
/// lost requests end nothing.
pub(crate) const LIFETIME: SignedDuration = SignedDuration::from_mins(5);

/// An incident that is neither seen nor resolved for so much longer than it takes to be over
/// cannot be seen any more. Its alert is not sent again.
const UNSEEN_MARGIN: SignedDuration = SignedDuration::from_mins(2);

/// The alerts of one Alertmanager.
#[derive(Debug)]
pub(crate) struct Board {
    own: Labels,
    options: Arc<Options>,
    max: usize,
    firing: BTreeMap<IncidentKey, Firing>,
    over: VecDeque<Alert>,
}

#[derive(Debug)]
struct Firing {
    incident: Incident,
    labels: Labels,
    /// Since when it is not among the incidents that are there.
    absent_since: Option<Timestamp>,
    /// Alertmanager may know it: it was sent, and a request that failed may have arrived.
    is_sent: bool,
    is_delivered: bool,
}

/// Alerts to send.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Batch {
    /// Those that are over come first.
    pub(crate) alerts: Vec<Alert>,
    over: usize,
    firing: Vec<IncidentKey>,
}

// === impl Board ===

impl Board {
    pub(crate) fn new(own: Labels, options: Arc<Options>, max: usize) -> Self {
        Self {
            own,
            options,
            max: max.max(1),
            firing: BTreeMap::new(),
            over: VecDeque::new(),
        }
    }

    /// Takes a transition; how many alerts had to make room.
    pub(crate) fn apply(&mut self, notice: &Notice) -> usize {
        let key = notice.key();
        let Some(ended) = notice.ended_at() else {
            return self.fire(key, notice.incident().clone(), notice.at);
        };
        match self.firing.remove(&key) {
            Some(firing) if !firing.is_sent => 0,
            // The labels of the alert that fired, whatever those of the incident are now.
            Some(firing) => {
                let alert = Alert::new(firing.labels, notice.incident(), ended);
                self.end(alert)
            }
            None => {
                let labels = labels(&notice.context, notice.incident(), &self.own);
                self.end(Alert::new(labels, notice.incident(), ended))
            }
        }
    }

    /// Takes over the alert of an incident that another server has sent, perhaps; how many alerts
    /// had to make room.
    pub(crate) fn take_over(&mut self, context: &Arc<str>, incident: &Incident) -> usize {
        let key = IncidentKey {
            context: Arc::clone(context),
            id: incident.id.clone(),
        };
        if self.firing.contains_key(&key) {
            return 0;
        }
        let dropped = self.fire(key.clone(), incident.clone(), incident.since);
        if let Some(firing) = self.firing.get_mut(&key) {
            firing.is_sent = true;
        }
        dropped
    }

    /// Leaves the alerts of a context that fire to another server.
    pub(crate) fn leave(&mut self, context: &str) {
        self.firing.retain(|key, _| *key.context != *context);
    }

    /// Notes the incidents of a context that are there, with the words of now. What stands in
    /// labels waits for the transition: those of a moment would make an alert each.
    pub(crate) fn refresh<'a>(
        &mut self,
        context: &Arc<str>,
        open: impl IntoIterator<Item = &'a Incident>,
        now: Timestamp,
    ) {
        let open: HashMap<&str, &Incident> = open
            .into_iter()
            .map(|incident| (&*incident.id, incident))
            .collect();
        let of_context = |key: &IncidentKey| key.context == *context;
        for (key, firing) in self.firing.iter_mut().filter(|(key, _)| of_context(key)) {
            let Some(&incident) = open.get(&*key.id) else {
                firing.absent_since.get_or_insert(now);
                continue;
            };
            firing.absent_since = None;
            if labels(context, incident, &self.own) == firing.labels {
                let since = incident.since.min(firing.incident.since);
                firing.incident = Incident {
                    since,
                    ..incident.clone()
                };
            }
        }
    }

    /// Alerts to send now, those that are over and all that fire. Forgets what cannot be seen
    /// any more: Alertmanager ends it by itself.
    pub(crate) fn batch(&mut self, now: Timestamp) -> Batch {
        let options = &self.options;
        self.firing.retain(|_, firing| {
            let close = options.hold(firing.incident.detector).close;
            let is_forgotten = |since| now.duration_since(since) > close + UNSEEN_MARGIN;
            !firing.absent_since.is_some_and(is_forgotten)
        });
        let ends_at = now.checked_add(LIFETIME).unwrap_or(now);
        let mut alerts: Vec<Alert> = self.over.iter().cloned().collect();
        for firing in self.firing.values_mut() {
            firing.is_sent = true;
            let labels = firing.labels.clone();
            alerts.push(Alert::new(labels, &firing.incident, ends_at));
        }
        Batch {
            alerts,
            over: self.over.len(),
            firing: self.firing.keys().cloned().collect(),
        }
    }

    /// Notes that Alertmanager has these. What came meanwhile is not among them.
    pub(crate) fn delivered(&mut self, batch: &Batch) {
        self.drop_over(batch);
        let sent = batch.alerts[batch.over..].iter();
        for (key, alert) in batch.firing.iter().zip(sent) {
            if let Some(firing) = self.firing.get_mut(key) {
                firing.is_delivered |= firing.labels == alert.labels;
            }
        }
    }

    /// Drops those that are over, which Alertmanager does not take; how many there were.
    pub(crate) fn drop_over(&mut self, batch: &Batch) -> usize {
        let before = self.over.len();
        let sent = &batch.alerts[..batch.over];
        self.over.retain(|alert| !sent.contains(alert));
        before - self.over.len()
    }

    /// The number of alerts that Alertmanager was not told of.
    pub(crate) fn waiting(&self) -> usize {
        let untold = self.firing.values().filter(|firing| !firing.is_delivered);
        self.over.len() + untold.count()
    }

    /// Whether there is anything to send again.
    pub(crate) fn is_empty(&self) -> bool {
        self.over.is_empty() && self.firing.is_empty()
    }

    fn fire(&mut self, key: IncidentKey, incident: Incident, at: Timestamp) -> usize {
        let labels = labels(&key.context, &incident, &self.own);
        if self.firing.len() >= self.max && !self.firing.contains_key(&key) {
            return 1;
        }
        // What fires again is not over, and Alertmanager knows it.
        let before = self.over.len();
        self.over.retain(|alert| alert.labels != labels);
        let firing = Firing {
            incident,
            labels,
            absent_since: None,
            is_sent: self.over.len() < before,
            is_delivered: false,
        };
        match self.firing.insert(key, firing) {
            Some(former) if former.is_sent => self.supersede(former, at),
            _ => 0,
        }
    }

    /// Ends an alert that fires with other labels now, or takes over that it was sent.
    fn supersede(&mut self, former: Firing, at: Timestamp) -> usize {
        let mut firing = self.firing.values_mut();
        if let Some(same) = firing.find(|one| one.labels == former.labels) {
            same.is_sent = true;
            return 0;
        }
        self.end(Alert::new(former.labels, &former.incident, at))
    }

    fn end(&mut self, alert: Alert) -> usize {
        self.over.push_back(alert);
        if self.over.len() <= self.max {
            return 0;
        }
        // It ends by itself when it is not sent again.
        self.over.pop_front();
        1
    }
}

#[cfg(test)]
mod tests;

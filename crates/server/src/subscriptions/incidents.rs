//! Subscriptions of mode `incidents`: what is open when one begins, and the way of updates
//! into its feed.

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock, Weak},
};

use parking_lot::Mutex;

use super::JoinedSource;
use crate::incidents::{IncidentRead, Incidents, NoticeCache};
use kubecrier_core::{
    access::Clearance,
    filters::Filters,
    shares::ShareKey,
    subscriptions::{Listener as _, Subscription, WatchStatus},
};
use kubecrier_incidents::Incident;
use kubecrier_k8s::{ClusterError, IncidentFollower, IncidentUpdate};

/// Delivers updates to a subscription.
struct IncidentDelivery {
    subscription: Arc<Subscription>,
    notices: Arc<NoticeCache>,
    /// What is followed; weak, because it holds the delivery.
    read: OnceLock<Weak<IncidentRead>>,
    /// What the user could read last, by namespace.
    clearances: Mutex<HashMap<Option<String>, Arc<Clearance>>>,
}

/// Follows the incidents that the filters of a subscription are about.
pub(super) async fn join(
    incidents: &Incidents,
    caller: &ShareKey,
    filters: &Filters,
    subscription: &Arc<Subscription>,
) -> Result<JoinedSource, ClusterError> {
    let delivery = Arc::new(IncidentDelivery {
        subscription: Arc::clone(subscription),
        notices: Arc::clone(incidents.notices()),
        read: OnceLock::new(),
        clearances: Mutex::default(),
    });
    let follower = Arc::clone(&delivery) as Arc<dyn IncidentFollower>;
    let context = subscription.cluster();
    let read = incidents
        .follow((caller, subscription.viewer()), context, filters, &follower)
        .await?;
    let read = Arc::new(read);
    let _first = delivery.read.set(Arc::downgrade(&read));
    read.clearances().for_each(|one| delivery.note_rights(one));
    delivery.note_health();
    Ok(JoinedSource {
        warnings: read.notes().into_iter().map(str::to_owned).collect(),
        open: open(&read, filters),
        lease: Box::new(read),
        is_beside_history: false,
    })
}

/// What the filters are about, of what is open.
fn open(read: &IncidentRead, filters: &Filters) -> Vec<Arc<Incident>> {
    let open = read.open().into_iter().filter(|incident| {
        let effects = incident.effects.iter().map(|effect| &effect.object);
        filters.admits_incident(std::iter::once(&incident.object).chain(effects))
    });
    open.cloned().collect()
}

impl IncidentDelivery {
    /// Notes whether the watches work; the subscription tells when that changes.
    fn note_health(&self) {
        let Some(read) = self.read.get().and_then(Weak::upgrade) else {
            return;
        };
        let status = match read.degraded() {
            Some(error) => WatchStatus::Degraded { error },
            None => WatchStatus::Recovered,
        };
        self.subscription.on_status(0, &status);
    }
}

impl IncidentDelivery {
    /// Notes what the user may read; the subscription tells when that is less than before.
    fn note_rights(&self, clearance: &Arc<Clearance>) {
        let namespace = clearance.namespace().map(str::to_owned);
        let mut clearances = self.clearances.lock();
        let before = clearances.insert(namespace.clone(), Arc::clone(clearance));
        drop(clearances);
        if before.is_none_or(|before| clearance.covers(&before)) {
            return;
        }
        let detail = "you may not read all any more that these incidents are made of: those that \
                      waited are dropped, and what is told from here on is made of the rest";
        let status = WatchStatus::Withdrawn {
            namespace: namespace.unwrap_or_default(),
            detail: detail.to_owned(),
        };
        self.subscription.on_status(0, &status);
    }
}

impl IncidentFollower for IncidentDelivery {
    fn on_update(&self, update: &Arc<IncidentUpdate>) {
        self.note_health();
        if let Some(clearance) = &update.clearance {
            self.note_rights(clearance);
        }
        if !update.transitions.is_empty() {
            self.subscription.on_incidents(&self.notices.get(update));
        }
    }
}

//! Incidents for tools, subscriptions and resources: which scopes a request needs, and what
//! they have together.
//!
//! As a rule it is one scope, a namespace or the cluster. It is several where several
//! namespaces are named, and where the server is confined to some and none is named.

mod together;

use std::{
    collections::{BTreeSet, HashSet},
    sync::Arc,
};

use jiff::Timestamp;

use kubecrier_core::{
    access::{Clearance, Right, Viewer},
    faults::{Fault, FaultKey},
    filters::Filters,
    incident::IncidentNotice,
    shares::ShareKey,
};
use kubecrier_incidents::{Incident, Severity, Symptom};
use kubecrier_k8s::{
    Actor, Announced, Cluster, ClusterError, Contexts, ErrorKind, IncidentClaim, IncidentFollower,
    IncidentSnapshot, IncidentUpdate, IncidentView, IncidentWatches, Name, ResolvedIncident,
};
use parking_lot::Mutex;

use self::together::Together;

/// Namespaces that are watched one by one; more are watched as one cluster.
const NAMESPACES_MAX: usize = 8;

/// The incidents of all clusters. A clone is the same.
#[derive(Clone, Debug)]
pub(super) struct Incidents {
    contexts: Arc<Contexts>,
    watches: IncidentWatches,
    notices: Arc<NoticeCache>,
}

/// The incidents that a request asked for, and what keeps them up to date.
#[derive(Debug)]
pub(super) struct IncidentRead {
    /// The name of the context.
    pub(super) context: String,
    /// At least one.
    snapshots: Vec<Arc<IncidentSnapshot>>,
    views: Vec<IncidentView>,
    /// What a user may not see at all.
    left_out: Vec<String>,
    _claims: Vec<IncidentClaim>,
}

/// The notices of the last update. Followers of one scope are notified one after the other, so
/// that each update is serialised once for all of them.
#[derive(Debug, Default)]
pub(super) struct NoticeCache {
    last: Mutex<Option<(Arc<IncidentUpdate>, Notices)>>,
}

/// What was opened, changed and resolved.
pub(super) type Notices = Arc<[Arc<IncidentNotice>]>;

// === impl Incidents ===

impl Incidents {
    pub(super) fn new(contexts: Arc<Contexts>, watches: IncidentWatches) -> Self {
        Self {
            contexts,
            watches,
            notices: Arc::default(),
        }
    }

    /// The watchers under them.
    pub(super) fn watches(&self) -> &IncidentWatches {
        &self.watches
    }

    /// The contexts of the clusters.
    pub(super) fn contexts(&self) -> &Contexts {
        &self.contexts
    }

    /// The same, to be held.
    pub(super) fn shared_contexts(&self) -> &Arc<Contexts> {
        &self.contexts
    }

    /// The notices of updates.
    pub(super) fn notices(&self) -> &Arc<NoticeCache> {
        &self.notices
    }

    /// The incidents of a namespace, or of all that may be read.
    pub(super) async fn read(
        &self,
        caller: &ShareKey,
        viewer: &Viewer,
        context: Option<&str>,
        namespace: Option<&Name>,
    ) -> Result<IncidentRead, ClusterError> {
        let context = self.contexts.resolve(context)?;
        let scopes = match namespace {
            Some(name) => vec![Some(name.clone())],
            None => self.all_namespaces(&context, &Filters::default()).await?,
        };
        let mut views = SeenViews::new(&scopes);
        for scope in &scopes {
            let reading = (self.watches).read(caller, viewer, Some(&context), scope.as_ref());
            views.add(scope.as_ref(), reading.await)?;
        }
        views.read(context, Vec::new()).await
    }

    /// The incidents that filters are about; the follower is notified of changes while the
    /// answer is held. The claims come before anything is asked of a cluster, except the names
    /// of the namespaces that a confined server may read.
    pub(super) async fn follow(
        &self,
        (caller, viewer): (&ShareKey, &Viewer),
        context: &str,
        filters: &Filters,
        follower: &Arc<dyn IncidentFollower>,
    ) -> Result<IncidentRead, ClusterError> {
        let scopes = match filters.exact_namespaces() {
            Some(names) if names.len() <= NAMESPACES_MAX => {
                let names = names.into_iter();
                let names = names.map(|name| Name::label("namespace", name).map(Some));
                names.collect::<Result<Vec<_>, _>>()?
            }
            _ => self.all_namespaces(context, filters).await?,
        };
        let claim =
            |scope: &Option<Name>| self.watches.claim(caller, Some(context), scope.as_ref());
        let claims = scopes.iter().map(claim).collect::<Result<Vec<_>, _>>()?;
        let mut views = SeenViews::new(&scopes);
        let together = (scopes.len() > 1).then(|| Together::new(follower));
        for (number, scope) in scopes.iter().enumerate() {
            let follower = match &together {
                Some(together) => together.follower(number),
                None => Arc::clone(follower),
            };
            let following = (self.watches).follow(viewer, Some(context), scope.as_ref(), follower);
            views.add(scope.as_ref(), following.await)?;
        }
        views.read(context.to_owned(), claims).await
    }

    /// The cluster, or each namespace that a confined server may read and the filters admit.
    async fn all_namespaces(
        &self,
        context: &str,
        filters: &Filters,
    ) -> Result<Vec<Option<Name>>, ClusterError> {
        if !self.contexts.is_confined() {
            return Ok(vec![None]);
        }
        let names = |cluster: Cluster| async move { cluster.namespace_names().await };
        // The scope of a watch that all callers share.
        let asking = (self.contexts).with_cluster(&Actor::Server, Some(context), names);
        let names = asking.await?;
        let mut names: Vec<_> = names
            .into_iter()
            .filter(|name| filters.admits_namespace(name))
            .collect();
        names.sort();
        if names.len() > NAMESPACES_MAX {
            return Err(ClusterError::invalid(
                format!("cannot watch all namespaces of context `{context}`"),
                format!(
                    "{} are allowed, and {NAMESPACES_MAX} at once are watched",
                    names.len()
                ),
                "name some of them; namespaces_list shows them",
            ));
        }
        let names = names.iter().map(|name| Name::label("namespace", name));
        names.map(|name| name.map(Some)).collect()
    }
}

/// The views of several scopes. Of those, a user may see only some.
struct SeenViews {
    views: Vec<IncidentView>,
    left_out: Vec<String>,
    is_one: bool,
    refused: Option<ClusterError>,
}

// === impl SeenViews ===

impl SeenViews {
    fn new(scopes: &[Option<Name>]) -> Self {
        Self {
            views: Vec::with_capacity(scopes.len()),
            left_out: Vec::new(),
            is_one: scopes.len() == 1,
            refused: None,
        }
    }

    fn add(
        &mut self,
        scope: Option<&Name>,
        view: Result<IncidentView, ClusterError>,
    ) -> Result<(), ClusterError> {
        match (view, scope) {
            (Ok(view), _) => self.views.push(view),
            (Err(error), Some(name)) if !self.is_one && error.kind() == ErrorKind::Forbidden => {
                self.left_out
                    .push(format!("left out: you may not list anything in `{name}`"));
                self.refused = Some(error);
            }
            (Err(error), _) => return Err(error),
        }
        Ok(())
    }

    /// What may be seen of all of them; an error if that is nothing.
    async fn read(
        self,
        context: String,
        claims: Vec<IncidentClaim>,
    ) -> Result<IncidentRead, ClusterError> {
        if let (true, Some(error)) = (self.views.is_empty(), self.refused) {
            return Err(error);
        }
        let mut read = IncidentRead {
            context,
            snapshots: Vec::new(),
            views: self.views,
            left_out: self.left_out,
            _claims: claims,
        };
        read.refresh().await?;
        Ok(read)
    }
}

// === impl IncidentRead ===

impl IncidentRead {
    /// What is open now, the worst first.
    pub(super) fn open(&self) -> Vec<&Arc<Incident>> {
        let mut open: Vec<&Arc<Incident>> = Vec::new();
        for incident in self.snapshots.iter().flat_map(|one| &one.open) {
            // Two namespaces can be hurt by one node.
            if !open.iter().any(|other| other.id == incident.id) {
                open.push(incident);
            }
        }
        if self.snapshots.len() > 1 {
            open.sort_by_key(|incident| std::cmp::Reverse(incident.severity));
        }
        open
    }

    /// The same incidents as they are now, and as they may be seen now.
    pub(super) async fn refresh(&mut self) -> Result<(), ClusterError> {
        let mut snapshots = Vec::with_capacity(self.views.len());
        for view in &self.views {
            snapshots.push(view.snapshot_for_answer().await?);
        }
        self.snapshots = snapshots;
        Ok(())
    }

    /// What was announced after the announcement with that number, in all scopes, the oldest
    /// first: what may be seen since the last refresh.
    pub(super) fn announced_after(&self, number: u64) -> Announced {
        let mut all = Announced::default();
        for (view, snapshot) in self.views.iter().zip(&self.snapshots) {
            let Announced { updates, gap } = view.announced_after(number, snapshot);
            all.updates.extend(updates);
            all.gap |= gap;
        }
        all.updates.sort_by_key(|(number, _)| *number);
        all
    }

    /// What is open at this moment, while the answer is kept up to date.
    pub(super) fn open_now(&self) -> Vec<Arc<Incident>> {
        let mut open: Vec<Arc<Incident>> = Vec::new();
        for view in &self.views {
            for incident in &view.snapshot().open {
                if !open.iter().any(|other| other.id == incident.id) {
                    open.push(Arc::clone(incident));
                }
            }
        }
        open
    }

    /// What was resolved lately, the newest first.
    pub(super) fn resolved(&self) -> Vec<&Arc<ResolvedIncident>> {
        let resolved = self.snapshots.iter().flat_map(|one| &one.resolved);
        let mut resolved: Vec<_> = resolved.collect();
        resolved.sort_by_key(|one| std::cmp::Reverse(one.at));
        let mut seen = HashSet::new();
        resolved.retain(|one| seen.insert((&*one.incident.id, one.incident.since)));
        resolved
    }

    /// What the user may read whose incidents these are, for each scope.
    pub(super) fn clearances(&self) -> impl Iterator<Item = &Arc<Clearance>> {
        self.snapshots
            .iter()
            .filter_map(|one| one.clearance.as_ref())
    }

    /// The rights that an answer needs which tells of these, and of what is open: those of all
    /// objects that it was derived from.
    pub(super) fn rights_of<'a>(
        &self,
        incidents: impl Iterator<Item = &'a Incident>,
    ) -> Vec<Arc<Right>> {
        let open = self.open().into_iter().map(|incident| &**incident);
        let open: BTreeSet<_> = open.flat_map(namespaces).collect();
        let all = incidents.flat_map(namespaces).chain(open).collect();
        let rights = self.clearances().map(|clearance| clearance.gate(&all));
        rights.flat_map(|gate| gate.rights().to_vec()).collect()
    }

    /// What is not seen, and why.
    pub(super) fn notes(&self) -> Vec<&str> {
        let mut notes: Vec<&str> = self.left_out.iter().map(String::as_str).collect();
        for note in self.snapshots.iter().flat_map(|one| &one.notes) {
            if !notes.contains(&note.as_str()) {
                notes.push(note);
            }
        }
        notes
    }

    /// Why the incidents of now may be those of before, if watches do not work.
    pub(super) fn degraded(&self) -> Option<String> {
        self.views.iter().find_map(IncidentView::degraded)
    }

    /// The moment.
    pub(super) fn at(&self) -> Timestamp {
        let times = self.snapshots.iter().map(|one| one.at);
        times.min().unwrap_or_else(Timestamp::now)
    }
}

// === impl NoticeCache ===

impl NoticeCache {
    /// The notices of an update, made once.
    pub(super) fn get(&self, update: &Arc<IncidentUpdate>) -> Notices {
        let mut last = self.last.lock();
        if let Some((of, notices)) = &*last
            && Arc::ptr_eq(of, update)
        {
            return Arc::clone(notices);
        }
        let notices = update.transitions.iter();
        let notices: Notices = notices
            .map(|transition| {
                let notice = IncidentNotice::new(transition, update.at);
                Arc::new(match &update.clearance {
                    Some(clearance) => {
                        let gate = clearance.gate(&namespaces(notice.incident()));
                        notice.gated(gate)
                    }
                    None => notice,
                })
            })
            .collect();
        *last = Some((Arc::clone(update), Arc::clone(&notices)));
        notices
    }
}

/// The namespaces of all objects that an incident was derived from.
fn namespaces(incident: &Incident) -> BTreeSet<Arc<str>> {
    let effects = incident.effects.iter().map(|effect| &effect.object);
    let changes = incident.changes.iter().map(|change| &change.object);
    let symptoms = incident.symptoms.iter();
    let symptoms =
        symptoms.flat_map(|one| [&one.object, &one.workload].into_iter().chain(&one.cause));
    let objects = std::iter::once(&incident.object)
        .chain(effects)
        .chain(changes)
        .chain(symptoms);
    objects
        .map(|object| Arc::clone(&object.namespace))
        .collect()
}

/// The fault of the pod that shows an incident, for which evidence is captured.
pub(super) fn fault_of(cluster: &str, pod: &Symptom) -> Fault {
    Fault {
        key: FaultKey {
            cluster: cluster.to_owned(),
            namespace: pod.object.namespace.to_string(),
            pod: pod.object.name.to_string(),
            reason: pod.detector.to_owned(),
            count: 0,
        },
        uid: None,
        container: pod.container.as_deref().map(str::to_owned),
    }
}

/// Whether an incident is as bad as a caller asked for.
pub(super) fn is_at_least(incident: &Incident, least: Option<Severity>) -> bool {
    least.is_none_or(|least| incident.severity >= least)
}

#[cfg(test)]
pub(super) mod tests;

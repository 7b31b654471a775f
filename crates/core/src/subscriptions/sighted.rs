//! What the user of a subscription may see of it: when something is recorded, when it is sent,
//! and when it is read.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use futures_util::future::join_all;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{
    feed::{FeedEntry, FeedItem},
    listener::WatchStatus,
};
use crate::{
    Event,
    access::{
        AccessQuestion, Action, Answer, Gate, LabelRight, NotedNamespaces, Right, Sight, UserView,
        Verdict,
    },
    faults::Report,
};

/// Namespaces whose events a subscription has told.
const NAMESPACES_MAX: usize = 1024;

/// The sight of one subscription.
#[derive(Debug)]
pub(super) struct Sighted {
    sight: Sight,
    /// Namespaces whose events were recorded, and whether their withdrawal was told since.
    namespaces: Mutex<NotedNamespaces>,
}

/// What a user may see is being asked.
pub(super) struct NotKnown;

/// Answers of one moment.
struct Decided(HashMap<AccessQuestion, Answer>);

// === impl Sighted ===

impl Sighted {
    pub(super) fn new(view: &Arc<UserView>, cluster: &str) -> Self {
        Self {
            sight: Sight::new(view, cluster),
            namespaces: Mutex::default(),
        }
    }

    pub(super) fn view(&self) -> &Arc<UserView> {
        self.sight.view()
    }

    /// Notes that something of a namespace was told.
    pub(super) fn on_recorded(&self, item: &FeedItem) {
        let (FeedItem::Event(event) | FeedItem::Fault(event, _)) = item else {
            return;
        };
        let mut namespaces = self.namespaces.lock();
        namespaces.note(&event.namespace, false, NAMESPACES_MAX);
    }

    /// The notice that events of a namespace are not told any more, if they were and that is
    /// news.
    pub(super) fn withdraw(&self, namespace: &str) -> Option<WatchStatus> {
        let was_told = self.namespaces.lock().replace(namespace, true)?;
        if was_told {
            return None;
        }
        Some(WatchStatus::Withdrawn {
            namespace: namespace.to_owned(),
            detail: format!(
                "you may not list events in `{namespace}` any more: those that waited are dropped, and \
                 new ones come again when the right is back"
            ),
        })
    }

    /// What a reader has to be allowed when an item is sent.
    pub(super) fn gate(&self, item: &FeedItem) -> Option<Arc<Gate>> {
        match item {
            FeedItem::Event(event) => Some(self.sight.of_event(event).gate),
            FeedItem::Fault(event, report) => {
                let gate = self.sight.of_event(event).gate;
                let evidence = self.evidence_rights(event, report);
                let rights = gate.rights().iter().cloned().chain(evidence);
                Some(Arc::new(Gate::new(rights)))
            }
            FeedItem::Incident(notice) => notice.gate().cloned(),
            FeedItem::Notice(_) => None,
        }
    }

    /// The rights that the evidence in a report needs.
    fn evidence_rights(&self, event: &Event, report: &Report) -> impl Iterator<Item = Arc<Right>> {
        let pod = (report.shows_pod()).then(|| self.of_pod(event, Action::GET_PODS));
        let logs = (report.shows_logs()).then(|| self.of_pod(event, Action::GET_LOGS));
        pod.into_iter().chain(logs)
    }

    /// A right to the pod that an event is about.
    fn of_pod(&self, event: &Event, action: Action) -> Arc<Right> {
        self.sight.right(action, &event.involved.namespace)
    }

    /// Begins to ask for what the evidence of a fault will need.
    pub(super) fn expect_evidence(&self, event: &Event) {
        for action in [Action::GET_PODS, Action::GET_LOGS] {
            let _asked = self.of_pod(event, action).check();
        }
    }

    /// A fault with the evidence that may be seen, if any of it may be and that is known.
    pub(super) fn fault_now(
        &self,
        event: &Arc<Event>,
        report: &Arc<Report>,
    ) -> Result<Option<FeedItem>, NotKnown> {
        let known = |right: Arc<Right>| match right.check() {
            Verdict::Allowed => Ok(true),
            Verdict::Denied => Ok(false),
            Verdict::Pending(_) => Err(NotKnown),
        };
        let sees_event = known(self.sight.right(Action::LIST_EVENTS, &event.namespace))?;
        let sees_pod = known(self.of_pod(event, Action::GET_PODS))?;
        let sees_logs = known(self.of_pod(event, Action::GET_LOGS))?;
        Ok(sees_event.then(|| fault(event, report, sees_pod, sees_logs)))
    }

    /// The same when it is known. What cannot be found out counts as forbidden.
    pub(super) async fn fault_when_known(
        &self,
        event: &Arc<Event>,
        report: &Arc<Report>,
    ) -> Option<FeedItem> {
        let rights = [
            self.sight.right(Action::LIST_EVENTS, &event.namespace),
            self.of_pod(event, Action::GET_PODS),
            self.of_pod(event, Action::GET_LOGS),
        ];
        let answers = join_all(rights.iter().map(Right::decide)).await;
        let sees = |at: usize| answers.get(at).is_some_and(|answer| answer.is_allowed());
        sees(0).then(|| fault(event, report, sees(1), sees(2)))
    }

    /// Those of the entries that may be read now, as far as they may; and the namespaces of
    /// those that may not. What was known before does not count.
    pub(super) async fn visible(
        &self,
        entries: &[FeedEntry],
    ) -> (Vec<FeedEntry>, BTreeSet<String>) {
        let decided = self.decide(entries).await;
        let mut withdrawn = BTreeSet::new();
        let mut seen = Vec::with_capacity(entries.len());
        for entry in entries {
            let item = match &entry.item {
                FeedItem::Notice(_) => Some(entry.item.clone()),
                FeedItem::Incident(notice) => {
                    let is_seen = |gate: &Arc<Gate>| {
                        let mut rights = gate.rights().iter();
                        rights.all(|right| decided.allows(right))
                    };
                    (notice.gate().is_some_and(is_seen)).then(|| entry.item.clone())
                }
                FeedItem::Event(event) => {
                    (self.event(event, &decided, &mut withdrawn)).map(FeedItem::Event)
                }
                FeedItem::Fault(event, report) => {
                    self.event(event, &decided, &mut withdrawn).map(|shown| {
                        let sees = |action| decided.allows(&self.of_pod(event, action));
                        fault(
                            &shown,
                            report,
                            sees(Action::GET_PODS),
                            sees(Action::GET_LOGS),
                        )
                    })
                }
            };
            seen.extend(item.map(|item| FeedEntry {
                seq: entry.seq,
                item,
                resume: entry.resume,
            }));
        }
        (seen, withdrawn)
    }

    /// An event as it may be seen; a namespace that may not be read is noted.
    fn event(
        &self,
        event: &Arc<Event>,
        decided: &Decided,
        withdrawn: &mut BTreeSet<String>,
    ) -> Option<Arc<Event>> {
        let rights = self.sight.of_event(event);
        match decided.answer(&rights.event) {
            Answer::Allowed => {}
            Answer::Denied => {
                withdrawn.insert(event.namespace.clone());
                return None;
            }
            Answer::Unknown => return None,
        }
        let sees_labels = match &rights.labels {
            LabelRight::None => true,
            LabelRight::Needs(right) => decided.allows(right),
            LabelRight::Hidden => false,
        };
        Some(if sees_labels {
            Arc::clone(event)
        } else {
            Arc::clone(event.without_labels())
        })
    }

    /// Asks for everything that the entries need, now.
    async fn decide(&self, entries: &[FeedEntry]) -> Decided {
        let since = Instant::now();
        let mut needed: HashMap<AccessQuestion, Arc<Right>> = HashMap::new();
        for entry in entries {
            let mut rights = match &entry.item {
                FeedItem::Event(event) | FeedItem::Fault(event, _) => {
                    self.sight.of_event(event).gate.rights().to_vec()
                }
                FeedItem::Incident(notice) => match notice.gate() {
                    Some(gate) => gate.rights().to_vec(),
                    None => continue,
                },
                FeedItem::Notice(_) => continue,
            };
            if let FeedItem::Fault(event, report) = &entry.item {
                rights.extend(self.evidence_rights(event, report));
            }
            needed.extend(
                rights
                    .into_iter()
                    .map(|right| (right.question().clone(), right)),
            );
        }
        let asked = needed.into_iter().map(async |(question, right)| {
            let answer = right.decide_since(since).await;
            (question, answer)
        });
        Decided(join_all(asked).await.into_iter().collect())
    }
}

/// A fault with the evidence that may be seen.
fn fault(event: &Arc<Event>, report: &Arc<Report>, sees_pod: bool, sees_logs: bool) -> FeedItem {
    let hides = (report.shows_pod() && !sees_pod) || (report.shows_logs() && !sees_logs);
    let report = if hides {
        Arc::new(report.as_allowed(sees_pod, sees_logs))
    } else {
        Arc::clone(report)
    };
    FeedItem::Fault(Arc::clone(event), report)
}

// === impl Decided ===

impl Decided {
    fn answer(&self, right: &Arc<Right>) -> Answer {
        let known = self.0.get(right.question()).copied();
        known.unwrap_or(Answer::Unknown)
    }

    fn allows(&self, right: &Arc<Right>) -> bool {
        self.answer(right).is_allowed()
    }
}

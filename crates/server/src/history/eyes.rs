//! What a user may see of what is kept: asked for everything that is read, when it is read.

use std::{collections::HashMap, sync::Arc};

use futures_util::future::join_all;
use tokio::time::Instant;

use super::resume::{Backlog, BacklogItem};
use kubecrier_core::{
    Event,
    access::{Answer, LabelRight, Right, Sight, UserView, Viewer},
    filters::Filters,
    subscriptions::WatchStatus,
};

/// Events as a user may see them.
#[derive(Debug)]
pub(crate) struct SeenEvents {
    /// In the order of those that were asked about; none for what may not be seen.
    pub(crate) events: Vec<Option<Arc<Event>>>,
    /// How many are left out because nobody could say in time whether they may be seen.
    pub(crate) undecided: usize,
}

/// Events as a viewer may see them now.
pub(crate) async fn seen(viewer: &Viewer, context: &str, events: Vec<Arc<Event>>) -> SeenEvents {
    match viewer {
        Viewer::Everything => SeenEvents {
            events: events.into_iter().map(Some).collect(),
            undecided: 0,
        },
        Viewer::User(view) => seen_by_user(view, context, events).await,
    }
}

async fn seen_by_user(view: &Arc<UserView>, context: &str, events: Vec<Arc<Event>>) -> SeenEvents {
    let sight = Sight::new(view, context);
    let rights: Vec<_> = events.iter().map(|event| sight.of_event(event)).collect();
    let mut needed: HashMap<_, Arc<Right>> = HashMap::new();
    for right in rights.iter().flat_map(|rights| rights.gate.rights()) {
        needed.insert(right.question().clone(), Arc::clone(right));
    }
    let since = Instant::now();
    let asked = needed.into_iter().map(async |(question, right)| {
        let answer = right.decide_since(since).await;
        (question, answer)
    });
    let decided: HashMap<_, _> = join_all(asked).await.into_iter().collect();
    let answer = |right: &Arc<Right>| {
        let answer = decided.get(right.question()).copied();
        answer.unwrap_or(Answer::Unknown)
    };
    let mut undecided = 0;
    let seen = events.into_iter().zip(rights).map(|(event, rights)| {
        let labels = match &rights.labels {
            LabelRight::None => true,
            LabelRight::Needs(right) => answer(right).is_allowed(),
            LabelRight::Hidden => false,
        };
        match answer(&rights.event) {
            Answer::Allowed if labels => Some(event),
            Answer::Allowed => Some(Arc::clone(event.without_labels())),
            Answer::Denied => None,
            Answer::Unknown => {
                undecided += 1;
                None
            }
        }
    });
    let events = seen.collect();
    SeenEvents { events, undecided }
}

/// Leaves out of a backlog what a viewer may not see, or what it would not have matched without
/// the labels that it may not see. How much is missing is told to who may see everything.
pub(crate) async fn narrow(
    viewer: &Viewer,
    context: &str,
    filters: &Filters,
    backlog: &mut Backlog,
) {
    if viewer.user().is_none() {
        return;
    }
    let (positions, items): (Vec<_>, Vec<_>) =
        std::mem::take(&mut backlog.items).into_iter().unzip();
    let items = narrow_items(viewer, context, filters, items).await;
    backlog.items = (positions.into_iter().zip(items))
        .filter_map(|(position, item)| Some((position, item?)))
        .collect();
}

/// The same for items that have no position.
pub(crate) async fn narrow_items(
    viewer: &Viewer,
    context: &str,
    filters: &Filters,
    items: Vec<BacklogItem>,
) -> Vec<Option<BacklogItem>> {
    if viewer.user().is_none() {
        return items.into_iter().map(Some).collect();
    }
    let events = items.iter().filter_map(|item| match item {
        BacklogItem::Event(event) => Some(Arc::clone(event)),
        BacklogItem::Gap(_) => None,
    });
    let SeenEvents { events, undecided } = seen(viewer, context, events.collect()).await;
    let mut events = events.into_iter();
    let mut is_told = undecided == 0;
    let narrowed = items.into_iter().map(|item| match item {
        BacklogItem::Gap(WatchStatus::Gap { since, .. }) => {
            let detail = "events may be missing: see events_list with since".to_owned();
            Some(BacklogItem::Gap(WatchStatus::Gap { since, detail }))
        }
        BacklogItem::Gap(other) => Some(BacklogItem::Gap(other)),
        BacklogItem::Event(whole) => match events.next().flatten() {
            Some(event) => (filters.admits_labels(&event)).then_some(BacklogItem::Event(event)),
            None if !is_told => {
                is_told = true;
                let detail = "events are left out: the cluster did not say in time whether you may \
                              read them";
                Some(BacklogItem::Gap(WatchStatus::Gap {
                    since: whole.timestamp,
                    detail: detail.to_owned(),
                }))
            }
            None => None,
        },
    });
    narrowed.collect()
}

//! What changed in a namespace of late.
//!
//! The API server keeps no history, but it leaves traces: a ReplicaSet per revision
//! of a Deployment, the time at which each writer last changed the fields it owns,
//! and events. Together they answer most of "what did somebody do just before".

mod fields;
mod rollouts;

use std::{cmp::Reverse, fmt::Debug, time::Duration};

use futures_util::{FutureExt, future};
use jiff::Timestamp;
use k8s_openapi::{
    NamespaceResourceScope,
    api::{
        apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet},
        autoscaling::v2::HorizontalPodAutoscaler,
        batch::v1::CronJob,
        core::v1::{ConfigMap, PersistentVolumeClaim, Service},
        networking::v1::Ingress,
    },
};
use kube::{Api, Resource};
use serde::{Serialize, de::DeserializeOwned};

use super::{
    client::{Cluster, list_params},
    error::{ClusterError, ErrorKind, Operation},
    events::{EventQuery, EventRow},
    list::{ListQuery, More, PAGE, Page, page},
    name::Name,
};

/// Objects of one kind that are looked at.
const SCAN_MAX: usize = 2000;

/// A change is told in a line.
const DETAIL_CHARS_MAX: usize = 300;

/// Events that tell of somebody's decision, not of its consequences.
const REASONS: [&str; 2] = ["ScalingReplicaSet", "SuccessfulRescale"];

/// Which changes.
#[derive(Clone, Debug)]
pub struct ChangeQuery {
    /// Where.
    pub namespace: Name,
    /// How long ago at most.
    pub since: Duration,
    /// At most so many, the newest.
    pub limit: usize,
}

/// One change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ChangeRow {
    /// When.
    pub at: Timestamp,
    /// What sort of change.
    pub change: Change,
    /// What was changed: `Deployment/web`.
    pub object: String,
    /// Which program did it, as far as it said so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// A line on it.
    pub detail: String,
}

/// The sorts of changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Change {
    /// A new template for pods.
    Rollout,
    /// Another number of pods.
    Scale,
    /// Other content of a ConfigMap.
    Config,
    /// Something new.
    Created,
    /// Anything else that was written.
    Changed,
    /// Something that is going.
    Deleting,
}

/// What one look has found.
struct Found {
    rows: Vec<ChangeRow>,
    /// Whether there was more to look at.
    cut: bool,
}

// === impl Change ===

impl Change {
    /// As it is written in the data.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rollout => "rollout",
            Self::Scale => "scale",
            Self::Config => "config",
            Self::Created => "created",
            Self::Changed => "changed",
            Self::Deleting => "deleting",
        }
    }
}

// === impl Cluster ===

impl Cluster {
    /// What changed since then, newest first.
    pub async fn changes(&self, query: &ChangeQuery) -> Result<Page<ChangeRow>, ClusterError> {
        let since = Timestamp::now() - query.since;
        let space = &query.namespace;
        let looks = [
            ("replicasets", self.rollouts(space, since).boxed()),
            (
                "deployments",
                self.written::<Deployment>(space, since).boxed(),
            ),
            (
                "statefulsets",
                self.written::<StatefulSet>(space, since).boxed(),
            ),
            (
                "daemonsets",
                self.written::<DaemonSet>(space, since).boxed(),
            ),
            ("cronjobs", self.written::<CronJob>(space, since).boxed()),
            (
                "configmaps",
                self.written::<ConfigMap>(space, since).boxed(),
            ),
            ("services", self.written::<Service>(space, since).boxed()),
            ("ingresses", self.written::<Ingress>(space, since).boxed()),
            (
                "horizontalpodautoscalers",
                self.written::<HorizontalPodAutoscaler>(space, since)
                    .boxed(),
            ),
            (
                "persistentvolumeclaims",
                self.written::<PersistentVolumeClaim>(space, since).boxed(),
            ),
            ("events", self.told(query, REASONS[0]).boxed()),
            ("events", self.told(query, REASONS[1]).boxed()),
        ];
        let (names, looks): (Vec<_>, Vec<_>) = looks.into_iter().unzip();
        let found = future::join_all(looks).await;
        gather(&names, found, query.limit)
    }

    async fn rollouts(&self, space: &Name, since: Timestamp) -> Result<Found, ClusterError> {
        let operation = self.listing("replicasets", space);
        let api: Api<ReplicaSet> = Api::namespaced(self.client(), space.as_str());
        let all = ListQuery {
            limit: SCAN_MAX,
            ..ListQuery::default()
        };
        let sets = self.list(&operation, &api, &all).await?;
        Ok(Found {
            rows: rollouts::of(sets.items, since),
            cut: sets.more != More::NONE,
        })
    }

    /// Changes of the fields of a kind, without their values.
    async fn written<K>(&self, space: &Name, since: Timestamp) -> Result<Found, ClusterError>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
        K: Clone + DeserializeOwned + Debug,
    {
        let kind = K::kind(&());
        let plural = K::plural(&());
        let operation = self.listing(&plural, space);
        let api: Api<K> = Api::namespaced(self.client(), space.as_str());
        let selected = list_params(None, None);
        let (mut rows, mut looked, mut from) = (Vec::new(), 0, None);
        loop {
            let params = page(&selected, PAGE, from.take());
            let answer = self.request(&operation, api.list_metadata(&params)).await?;
            looked += answer.items.len();
            for item in answer.items {
                rows.extend(fields::changes(&kind, item.metadata, since));
            }
            match answer.metadata.continue_.filter(|token| !token.is_empty()) {
                None => return Ok(Found { rows, cut: false }),
                Some(_) if looked >= SCAN_MAX => return Ok(Found { rows, cut: true }),
                Some(next) => from = Some(next),
            }
        }
    }

    async fn told(&self, query: &ChangeQuery, reason: &str) -> Result<Found, ClusterError> {
        let events = EventQuery {
            namespace: Some(query.namespace.clone()),
            since: Some(query.since),
            field_selector: Some(format!("reason={reason}")),
            limit: query.limit,
            ..EventQuery::default()
        };
        let page = self.events(&events).await?;
        Ok(Found {
            rows: page.items.into_iter().map(scaled).collect(),
            cut: page.more != More::NONE,
        })
    }

    fn listing<'a>(&'a self, resource: &'a str, namespace: &'a Name) -> Operation<'a> {
        Operation {
            verb: "list",
            resource,
            name: None,
            namespace: Some(namespace.as_str()),
            context: self.context(),
        }
    }
}

fn scaled(EventRow(event): EventRow) -> ChangeRow {
    let object = event.involved;
    ChangeRow {
        at: event.timestamp,
        change: Change::Scale,
        object: format!("{}/{}", object.kind, object.name),
        by: None,
        detail: line(event.message),
    }
}

fn line(text: String) -> String {
    match text.char_indices().nth(DETAIL_CHARS_MAX) {
        None => text,
        Some((at, _)) => format!("{}...", &text[..at]),
    }
}

/// One list of all that was found. A kind that may not be read is named, unless
/// nothing may be.
fn gather(
    names: &[&str],
    found: Vec<Result<Found, ClusterError>>,
    limit: usize,
) -> Result<Page<ChangeRow>, ClusterError> {
    let (mut rows, mut unread, mut cut) = (Vec::new(), Vec::new(), Vec::new());
    let (mut any, mut failure) = (false, None);
    for (name, found) in names.iter().zip(found) {
        match found {
            Ok(found) => {
                any = true;
                rows.extend(found.rows);
                if found.cut {
                    cut.push(*name);
                }
            }
            // Whose credentials are refused gets new ones and asks again.
            Err(error) if error.kind() == ErrorKind::Unauthorized => return Err(error),
            Err(error) => {
                unread.push(format!("{name} ({})", error.kind().as_str()));
                failure = Some(error);
            }
        }
    }
    if let (false, Some(error)) = (any, failure) {
        return Err(error);
    }
    unread.dedup();
    cut.dedup();
    rows.sort_by(|a: &ChangeRow, b| {
        (Reverse(a.at), &a.object, a.change).cmp(&(Reverse(b.at), &b.object, b.change))
    });
    let left = rows.len().saturating_sub(limit);
    rows.truncate(limit);
    let mut notes = Vec::new();
    if !unread.is_empty() {
        notes.push(format!("could not look at {}", unread.join(", ")));
    }
    if !cut.is_empty() {
        notes.push(format!(
            "did not look at all {}: there are too many",
            cut.join(", ")
        ));
    }
    let mut page = Page::new(rows, More::Exactly(left));
    page.caveat = (!notes.is_empty()).then(|| notes.join("; "));
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(second: i64) -> ChangeRow {
        ChangeRow {
            at: Timestamp::from_second(second).unwrap(),
            change: Change::Scale,
            object: format!("Deployment/{second}"),
            by: None,
            detail: String::new(),
        }
    }

    fn seen(seconds: &[i64]) -> Found {
        let rows = seconds.iter().map(|second| change(*second)).collect();
        Found { rows, cut: false }
    }

    fn failed(kind: ErrorKind) -> ClusterError {
        ClusterError::new(kind, "cannot list", "no", None)
    }

    #[test]
    fn the_newest_come_first_and_what_was_not_seen_is_named() {
        let found = vec![
            Ok(seen(&[1, 9])),
            Err(failed(ErrorKind::Forbidden)),
            Ok(seen(&[5])),
        ];
        let page = gather(&["a", "b", "c"], found, 2).unwrap();
        let shown: Vec<_> = page.items.iter().map(|row| row.at.as_second()).collect();
        assert_eq!((shown, page.more), (vec![9, 5], More::Exactly(1)));
        assert_eq!(page.caveat.unwrap(), "could not look at b (forbidden)");
    }

    #[test]
    fn when_nothing_can_be_read_that_is_an_error() {
        let found = vec![
            Err(failed(ErrorKind::Unreachable)),
            Err(failed(ErrorKind::Unreachable)),
        ];
        let error = gather(&["a", "b"], found, 2).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unreachable);
        let found = vec![Ok(seen(&[1])), Err(failed(ErrorKind::Unauthorized))];
        assert_eq!(
            gather(&["a", "b"], found, 2).unwrap_err().kind(),
            ErrorKind::Unauthorized
        );
    }
}

//! Recent changes in a namespace.
//!
//! The API server keeps no history, but changes leave traces: a ReplicaSet per revision of a
//! Deployment, the time at which each field manager last changed the fields it owns, and
//! events. Together they answer most of "what was changed just before".

mod fields;
mod rollouts;

use std::{cmp::Reverse, iter, time::Duration};

use futures_util::{FutureExt, future};
use jiff::Timestamp;
use k8s_openapi::api::{
    apps::v1::{DaemonSet, Deployment, StatefulSet},
    autoscaling::v2::HorizontalPodAutoscaler,
    batch::v1::CronJob,
    core::v1::{ConfigMap, PersistentVolumeClaim, Service},
    networking::v1::Ingress,
};
use kube::{
    Api,
    api::{ApiResource, DynamicObject},
};
use serde::Serialize;

use self::rollouts::RevisionSet;
use super::{
    client::{Cluster, list_params},
    error::{ClusterError, ErrorKind, Operation},
    events::{EventQuery, EventRow},
    list::{ListQuery, PAGE_SIZE, Page, PageSize, Remaining, page_params},
    name::Name,
};

/// Objects of one kind that are read.
const SCAN_MAX: usize = 2000;

/// The detail of a change fits a line.
const DETAIL_CHARS_MAX: usize = 300;

/// Reasons of events that report a decision, not its consequences.
const REASONS: [&str; 2] = ["ScalingReplicaSet", "SuccessfulRescale"];

/// Which changes to list.
#[derive(Clone, Debug)]
pub struct ChangeQuery {
    /// Namespace of the objects.
    pub namespace: Name,
    /// Age of a change, at most.
    pub since: Duration,
    /// Maximum number of changes; the newest are kept.
    pub limit: usize,
}

/// One change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ChangeRow {
    /// Time of the change.
    pub at: Timestamp,
    /// Kind of change.
    pub change: ChangeKind,
    /// Kind and name of the object: `Deployment/web`.
    pub object: String,
    /// Field manager that made the change, where it is recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The change in one line, redacted.
    pub detail: String,
}

/// Kinds of changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ChangeKind {
    /// A new pod template.
    Rollout,
    /// Another number of replicas.
    Scale,
    /// Other data in a ConfigMap.
    Config,
    /// A new object.
    Created,
    /// Any other write.
    Changed,
    /// An object with a deletionTimestamp.
    Deleting,
}

/// The changes that one scan found.
struct ChangeScan {
    rows: Vec<ChangeRow>,
    /// Whether the scan ended before the last object.
    is_partial: bool,
}

// === impl Change ===

impl ChangeKind {
    /// The kind as structured output spells it.
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
    /// The changes of a namespace, newest first.
    pub async fn changes(&self, query: &ChangeQuery) -> Result<Page<ChangeRow>, ClusterError> {
        let since = Timestamp::now() - query.since;
        let namespace = &query.namespace;
        let changed = [
            ApiResource::erase::<Deployment>(&()),
            ApiResource::erase::<StatefulSet>(&()),
            ApiResource::erase::<DaemonSet>(&()),
            ApiResource::erase::<CronJob>(&()),
            ApiResource::erase::<ConfigMap>(&()),
            ApiResource::erase::<Service>(&()),
            ApiResource::erase::<Ingress>(&()),
            ApiResource::erase::<HorizontalPodAutoscaler>(&()),
            ApiResource::erase::<PersistentVolumeClaim>(&()),
        ];
        let fields = changed.iter().map(|kind| {
            let scan = self.field_changes(kind, namespace, since);
            (kind.plural.as_str(), scan.boxed())
        });
        let events = REASONS.map(|reason| ("events", self.scale_events(query, reason).boxed()));
        let rollouts = ("replicasets", self.rollouts(namespace, since).boxed());
        let scans = iter::once(rollouts).chain(fields).chain(events);
        let (names, scans): (Vec<_>, Vec<_>) = scans.unzip();
        let mut scans = future::join_all(scans).await;
        // A ReplicaSet tells of its Deployment, which may be of a denied kind.
        for scan in scans.iter_mut().flatten() {
            let kind = |row: &ChangeRow| row.object.split('/').next().map(str::to_owned);
            let denied = &self.scope().denied;
            scan.rows
                .retain(|row| !denied.denies_object("", &kind(row).unwrap_or_default()));
        }
        merge(&names, scans, query.limit)
    }

    async fn rollouts(
        &self,
        namespace: &Name,
        since: Timestamp,
    ) -> Result<ChangeScan, ClusterError> {
        let operation = self.listing("replicasets", namespace);
        let api: Api<RevisionSet> = Api::namespaced(self.client(), namespace.as_str());
        let query = ListQuery {
            limit: SCAN_MAX,
            ..ListQuery::default()
        };
        let sets = self.list(&operation, &api, &query).await?;
        Ok(ChangeScan {
            rows: rollouts::of(sets.items, since, self.redactor()),
            is_partial: sets.more != Remaining::NONE,
        })
    }

    /// Changes of the fields of a kind, by `managedFields`: names without values.
    async fn field_changes(
        &self,
        kind: &ApiResource,
        namespace: &Name,
        since: Timestamp,
    ) -> Result<ChangeScan, ClusterError> {
        let operation = &self.listing(&kind.plural, namespace);
        let api: Api<DynamicObject> = Api::namespaced_with(self.client(), namespace.as_str(), kind);
        let selected = list_params(None, None);
        let (mut rows, mut scanned, mut continue_token) = (Vec::new(), 0, None);
        let mut size = PageSize::new(PAGE_SIZE);
        loop {
            let (token, api) = (continue_token.take(), &api);
            let request = |size| {
                let params = page_params(&selected, size, token.clone());
                async move { self.request(operation, api.list_metadata(&params)).await }
            };
            let list = size.request(request).await?;
            scanned += list.items.len();
            for item in list.items {
                rows.extend(fields::changes(
                    &kind.kind,
                    item.metadata,
                    since,
                    self.redactor(),
                ));
            }
            match list.metadata.continue_.filter(|token| !token.is_empty()) {
                None => {
                    return Ok(ChangeScan {
                        rows,
                        is_partial: false,
                    });
                }
                Some(_) if scanned >= SCAN_MAX => {
                    return Ok(ChangeScan {
                        rows,
                        is_partial: true,
                    });
                }
                Some(next) => continue_token = Some(next),
            }
        }
    }

    async fn scale_events(
        &self,
        query: &ChangeQuery,
        reason: &str,
    ) -> Result<ChangeScan, ClusterError> {
        let events = EventQuery {
            namespace: Some(query.namespace.clone()),
            since: Some(query.since),
            field_selector: Some(format!("reason={reason}")),
            limit: query.limit,
            ..EventQuery::default()
        };
        let page = self.events(&events).await?;
        Ok(ChangeScan {
            rows: page.items.into_iter().map(scale_change).collect(),
            is_partial: page.more != Remaining::NONE,
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

fn scale_change(EventRow(event): EventRow) -> ChangeRow {
    let object = &event.involved;
    ChangeRow {
        at: event.timestamp,
        change: ChangeKind::Scale,
        object: format!("{}/{}", object.kind, object.name),
        by: None,
        detail: truncated(event.message.clone()),
    }
}

fn truncated(text: String) -> String {
    match text.char_indices().nth(DETAIL_CHARS_MAX) {
        None => text,
        Some((at, _)) => format!("{}...", &text[..at]),
    }
}

/// Merges the scans into one page. A kind that cannot be read is named in the caveat, unless
/// no kind can be read: that is an error.
fn merge(
    names: &[&str],
    scans: Vec<Result<ChangeScan, ClusterError>>,
    limit: usize,
) -> Result<Page<ChangeRow>, ClusterError> {
    let (mut rows, mut unread, mut truncated_kinds) = (Vec::new(), Vec::new(), Vec::new());
    let (mut any, mut failure) = (false, None);
    for (name, scan) in names.iter().zip(scans) {
        match scan {
            Ok(scan) => {
                any = true;
                rows.extend(scan.rows);
                if scan.is_partial {
                    truncated_kinds.push(*name);
                }
            }
            // The caller renews the credentials and tries again.
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
    truncated_kinds.dedup();
    rows.sort_by(|a: &ChangeRow, b| {
        (Reverse(a.at), &a.object, a.change).cmp(&(Reverse(b.at), &b.object, b.change))
    });
    let left = rows.len().saturating_sub(limit);
    rows.truncate(limit);
    let mut notes = Vec::new();
    if !unread.is_empty() {
        notes.push(format!("could not look at {}", unread.join(", ")));
    }
    if !truncated_kinds.is_empty() {
        notes.push(format!(
            "did not look at all {}: there are too many",
            truncated_kinds.join(", ")
        ));
    }
    let mut page = Page::new(rows, Remaining::Exactly(left));
    page.caveat = (!notes.is_empty()).then(|| notes.join("; "));
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(second: i64) -> ChangeRow {
        ChangeRow {
            at: Timestamp::from_second(second).unwrap(),
            change: ChangeKind::Scale,
            object: format!("Deployment/{second}"),
            by: None,
            detail: String::new(),
        }
    }

    fn scan(seconds: &[i64]) -> ChangeScan {
        let rows = seconds.iter().map(|second| change(*second)).collect();
        ChangeScan {
            rows,
            is_partial: false,
        }
    }

    fn failed(kind: ErrorKind) -> ClusterError {
        ClusterError::new(kind, "cannot list", "no", None)
    }

    #[test]
    fn the_newest_come_first_and_what_was_not_seen_is_named() {
        let scans = vec![
            Ok(scan(&[1, 9])),
            Err(failed(ErrorKind::Forbidden)),
            Ok(scan(&[5])),
        ];
        let page = merge(&["a", "b", "c"], scans, 2).unwrap();
        let shown: Vec<_> = page.items.iter().map(|row| row.at.as_second()).collect();
        assert_eq!((shown, page.more), (vec![9, 5], Remaining::Exactly(1)));
        assert_eq!(page.caveat.unwrap(), "could not look at b (forbidden)");
    }

    #[test]
    fn when_nothing_can_be_read_that_is_an_error() {
        let scans = vec![
            Err(failed(ErrorKind::Unreachable)),
            Err(failed(ErrorKind::Unreachable)),
        ];
        let error = merge(&["a", "b"], scans, 2).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unreachable);
        let scans = vec![Ok(scan(&[1])), Err(failed(ErrorKind::Unauthorized))];
        assert_eq!(
            merge(&["a", "b"], scans, 2).unwrap_err().kind(),
            ErrorKind::Unauthorized
        );
    }
}

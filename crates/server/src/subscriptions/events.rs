//! Subscriptions of modes `events` and `faults`: the watches under them.

use std::sync::Arc;

use super::{JoinedSource, Sources};
use crate::output::ToolError;
use kubecrier_core::{
    filters::{Filters, Mode},
    shares::ShareKey,
    subscriptions::Subscription,
};
use kubecrier_k8s::{JoinedWatch, WatchLease};

/// A rate above this is worth a warning.
const NOISY_EVENTS_PER_MINUTE: usize = 30;

/// Watches the events that filters are about. The claim comes before anything is asked of
/// a cluster. If it can be, the watches of the history are joined, for what is above a version.
pub(super) async fn join(
    sources: &Sources,
    caller: &ShareKey,
    filters: &Filters,
    one: &Arc<Subscription>,
    beside: Option<(&WatchLease, u64)>,
) -> Result<JoinedSource, ToolError> {
    let (watches, context) = (&sources.watches, one.cluster());
    let claim = watches.claim(caller, context, filters).map_err(|reached| {
        ToolError::Limit(format!(
            "{reached}: end a subscription with events_unsubscribe, or name fewer namespaces"
        ))
    })?;
    if let Some((history, after)) = beside {
        let joined = watches.join_beside(history, filters, Arc::clone(one) as _, after);
        if let Some(JoinedWatch {
            lease, warnings, ..
        }) = joined.await?
        {
            one.feed().begin_after(after);
            return Ok(JoinedSource {
                lease: Box::new((lease, claim)),
                warnings,
                open: Vec::new(),
                is_beside_history: true,
            });
        }
    }
    let listener = Arc::clone(one) as _;
    let joined = watches.join(context, filters, listener).await?;
    if let Some(version) = joined.version {
        one.feed().begin_after(version);
    }
    let mut warnings = joined.warnings;
    if let Some(rate) = joined.rate.filter(|rate| *rate > NOISY_EVENTS_PER_MINUTE) {
        warnings.push(format!(
            "about {rate} events a minute happen there, before your filters: narrow by namespace, for, \
             types or reason if that is more than you can read"
        ));
    }
    if filters.mode() == Mode::Faults && sources.faults.is_saturated(context) {
        warnings.push(
            "as many logs are being fetched as may be at once (--max-log-captures-per-cluster, \
             --max-log-captures-global): faults may come with `throttled` in place of logs"
                .to_owned(),
        );
    }
    Ok(JoinedSource {
        lease: Box::new((joined.lease, claim)),
        warnings,
        open: Vec::new(),
        is_beside_history: false,
    })
}

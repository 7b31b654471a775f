//! Subscriptions of modes `events` and `faults`: the watches under them.

use std::sync::Arc;

use super::{JoinedSource, Sources};
use crate::output::ToolError;
use kubecrier_core::{
    filters::{Filters, Mode},
    shares::ShareKey,
    subscriptions::Subscription,
};

/// A rate above this is worth a warning.
const NOISY_EVENTS_PER_MINUTE: usize = 30;

/// Watches the events that filters are about. The claim comes before anything is asked of
/// a cluster.
pub(super) async fn join(
    sources: &Sources,
    caller: &ShareKey,
    filters: &Filters,
    one: &Arc<Subscription>,
) -> Result<JoinedSource, ToolError> {
    let (watches, context) = (&sources.watches, one.cluster());
    let claim = watches.claim(caller, context, filters).map_err(|reached| {
        ToolError::Limit(format!(
            "{reached}: end a subscription with events_unsubscribe, or name fewer namespaces"
        ))
    })?;
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
    })
}

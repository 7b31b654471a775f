//! Limits that follow from others.

use kubecrier_core::{shares::CallerShare, subscriptions::SubscriptionLimits};
use kubecrier_server::WorkLimits;

/// Two for each of the sessions that there may be: a stream, and a request.
pub(super) const CONNECTIONS_MAX: usize = 20_000;

/// The watches of a graph: one for each kind.
const WATCHES_OF_A_GRAPH: usize = 12;

/// The watches under the incidents of a scope, of which there may be as many as graphs.
const WATCHES_OF_INCIDENTS: usize = 28;

/// The pipes to an executable of the project.
const PIPES: usize = 6;

/// A number that was given, or its default.
pub(super) fn count(given: Option<u64>, default: usize) -> usize {
    given.map_or(default, |count| {
        usize::try_from(count).unwrap_or(usize::MAX)
    })
}

/// The share of a caller: everything where there can be no other.
pub(super) fn share(percent: Option<u64>, others: bool) -> CallerShare {
    match percent.and_then(|percent| u8::try_from(percent).ok()) {
        Some(percent) => CallerShare::percent(percent),
        None if others => CallerShare::HALF,
        None => CallerShare::WHOLE,
    }
}

/// The limits of subscriptions. A number per session that was chosen is also granted to a
/// caller that has one session.
pub(super) fn subscriptions(
    per_session: Option<u64>,
    global: Option<u64>,
    share: CallerShare,
) -> SubscriptionLimits {
    let defaults = SubscriptionLimits::default();
    let global_max = count(global, defaults.global_max);
    let chosen = per_session.map_or(0, |chosen| count(Some(chosen), 0));
    SubscriptionLimits {
        per_session_max: count(per_session, defaults.per_session_max),
        per_caller_max: share.of(global_max).max(chosen),
        global_max,
    }
}

/// The descriptors of connections to clusters, and of executables, if everything is used
/// that the limits allow.
pub(super) fn descriptors_reserved(
    work: &WorkLimits,
    captures_max: usize,
    processes_max: usize,
) -> usize {
    let WorkLimits {
        share: _,
        calls_max: _,
        // The watches under them are those of incidents.
        waits_max: _,
        reads_max,
        watches_max,
        graphs_max,
        followed_logs_max,
    } = *work;
    // A read may need several requests at once.
    reads_max * 4
        + watches_max
        + graphs_max * (WATCHES_OF_A_GRAPH + WATCHES_OF_INCIDENTS)
        + followed_logs_max
        + captures_max
        + processes_max * PIPES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_caller_gets_half_where_there_can_be_others() {
        assert_eq!(share(None, true).of(100), 50);
        assert_eq!(share(None, false).of(100), 100);
        assert_eq!(share(Some(80), true).of(100), 80);
        assert_eq!(share(Some(20), false).of(100), 20);
    }

    #[test]
    fn a_number_per_session_that_was_chosen_is_kept() {
        let caller = |per_session, global| {
            subscriptions(per_session, global, CallerShare::HALF).per_caller_max
        };
        assert_eq!(caller(None, None), 50);
        assert_eq!(caller(None, Some(4)), 2);
        assert_eq!(caller(Some(300), Some(300)), 300);
        assert_eq!(caller(Some(1), Some(100)), 50);
    }
}

//! Checks that every client received every event, once and in order, and how late.

use std::collections::HashMap;

use serde::Serialize;

use crate::{creating::Created, report::millis, subscribers::Arrival};

/// The messages that clients received, compared with the events that were created.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Verdict {
    /// Deliveries of created events to all clients.
    pub(crate) deliveries: usize,
    pub(crate) lost: usize,
    pub(crate) doubled: usize,
    /// Events that arrived after one with a later resourceVersion.
    pub(crate) disordered: usize,
    /// Sequence numbers of subscriptions that do not follow their predecessor.
    pub(crate) holes: usize,
    pub(crate) throttled: usize,
    /// Messages without a log for a reason other than throttling.
    pub(crate) failed: usize,
    /// From the API server's response to the creator until arrival at a client.
    pub(crate) from_answer: Percentiles,
    /// From the request to the API server until arrival at a client.
    pub(crate) from_sending: Percentiles,
    /// From arrival at a plain watch until arrival at a client.
    pub(crate) from_watch: Percentiles,
}

/// The distribution of durations, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Percentiles {
    pub(crate) p50: u64,
    pub(crate) p99: u64,
    pub(crate) max: u64,
}

// === impl Verdict ===

impl Verdict {
    /// Judges what arrived since the last call; `last_seqs` has the last sequence number of
    /// each subscription and is updated.
    pub(crate) fn of(
        created: &[Created],
        watched: &HashMap<u32, u64>,
        arrived: &[Vec<Arrival>],
        last_seqs: &mut Vec<u64>,
    ) -> Self {
        let by_number: HashMap<u32, &Created> =
            created.iter().map(|one| (one.number, one)).collect();
        let mut verdict = Self::default();
        let (mut answer, mut sending, mut watch) = (Vec::new(), Vec::new(), Vec::new());
        last_seqs.resize(arrived.len(), 0);
        for (client, last_seq) in arrived.iter().zip(last_seqs) {
            let mut times: HashMap<u32, usize> = HashMap::new();
            let mut newest = 0;
            for arrival in client {
                verdict.holes += usize::from(arrival.seq != *last_seq + 1);
                *last_seq = arrival.seq;
                let number = arrival.number;
                let Some(one) = number.and_then(|number| by_number.get(&number)) else {
                    continue;
                };
                *times.entry(one.number).or_default() += 1;
                verdict.deliveries += 1;
                verdict.throttled += usize::from(arrival.throttled);
                verdict.failed += usize::from(arrival.failed);
                verdict.disordered += usize::from(one.version < newest);
                newest = newest.max(one.version);
                answer.push(arrival.at.saturating_sub(one.answered));
                sending.push(arrival.at.saturating_sub(one.sent));
                if let Some(watched_at) = watched.get(&one.number) {
                    watch.push(arrival.at.saturating_sub(*watched_at));
                }
            }
            verdict.lost += created.len() - times.len();
            verdict.doubled += times.values().map(|times| times - 1).sum::<usize>();
        }
        verdict.from_answer = Percentiles::of(answer);
        verdict.from_sending = Percentiles::of(sending);
        verdict.from_watch = Percentiles::of(watch);
        verdict
    }

    /// The number of defects; wrong order counts if the server guarantees order.
    pub(crate) fn wrong(&self, in_order: bool) -> usize {
        self.lost + self.doubled + self.holes + if in_order { self.disordered } else { 0 }
    }
}

// === impl Percentiles ===

impl Percentiles {
    pub(crate) fn of(mut times: Vec<u64>) -> Self {
        times.sort_unstable();
        let at = |percent: usize| {
            let at = (times.len() * percent / 100).min(times.len().saturating_sub(1));
            times.get(at).copied().unwrap_or_default()
        };
        Self {
            p50: at(50),
            p99: at(99),
            max: at(100),
        }
    }
}

impl std::fmt::Display for Percentiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.1} / {:.1}", millis(self.p50), millis(self.p99))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn created(number: u32, version: u64) -> Created {
        Created {
            number,
            sent: 100,
            answered: 150,
            version,
        }
    }

    fn arrival(number: u32, seq: u64) -> Arrival {
        Arrival {
            number: Some(number),
            seq,
            at: 200,
            throttled: false,
            failed: false,
        }
    }

    #[track_caller]
    fn check(arrived: &[(u32, u64)], expected: (usize, usize, usize, usize)) {
        // The cluster accepted 2 before 1.
        let all = [created(0, 5), created(1, 9), created(2, 7)];
        let client = arrived
            .iter()
            .map(|(number, seq)| arrival(*number, *seq))
            .collect();
        let verdict = Verdict::of(&all, &[(0, 190)].into(), &[client], &mut Vec::new());
        let Verdict {
            lost,
            doubled,
            disordered,
            holes,
            ..
        } = verdict;
        assert_eq!((lost, doubled, disordered, holes), expected, "{arrived:?}");
    }

    #[test]
    fn what_is_lost_doubled_or_out_of_order_is_noticed() {
        check(&[(0, 1), (2, 2), (1, 3)], (0, 0, 0, 0));
        check(&[(0, 1), (1, 2), (2, 3)], (0, 0, 1, 0));
        check(&[(0, 1), (2, 2)], (1, 0, 0, 0));
        check(&[(0, 1), (2, 3), (1, 4)], (0, 0, 0, 1));
        check(&[(0, 1), (2, 2), (2, 3), (1, 4)], (0, 1, 0, 0));
        check(&[], (3, 0, 0, 0));
    }

    #[test]
    fn times_are_from_sending_from_the_answer_and_from_the_plain_watch() {
        let arrived = [vec![arrival(0, 1)]];
        let watched = [(0, 190)].into();
        let verdict = Verdict::of(&[created(0, 5)], &watched, &arrived, &mut Vec::new());
        let medians = [
            verdict.from_sending,
            verdict.from_answer,
            verdict.from_watch,
        ]
        .map(|one| one.p50);
        assert_eq!(medians, [100, 50, 10]);
        let spread = Percentiles::of((1..=1000).collect());
        assert_eq!((spread.p50, spread.p99, spread.max), (501, 991, 1000));
    }
}

//! Whether what NATS is asked for works: a connection alone says little. JetStream may be full,
//! switched off or without a leader, a stream deleted, a right revoked.

use jiff::Timestamp;
use tokio::time::{Duration, Instant};

/// What has failed for so long, and not worked in between, is told: one call may be slow.
const LASTING: Duration = Duration::from_secs(3);

/// What has not been tried for so long is not known to fail.
const KNOWN: Duration = Duration::from_secs(30);

/// What is asked for. One may work while another does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    KeepStreams,
    ReadRecords,
    WriteRecords,
    ReadLog,
    WriteLog,
}

/// What fails at the moment.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    by_kind: [Option<Failure>; 5],
    /// What NATS said last of rights that are missing, and when.
    denied: Option<(Instant, String)>,
}

/// Something that did not work since it worked last.
#[derive(Debug)]
struct Failure {
    since: Timestamp,
    first: Instant,
    last: Instant,
    why: String,
}

// === impl Failures ===

impl Failures {
    /// Takes note of how something went.
    pub(crate) fn note(&mut self, doing: Doing, result: Result<(), &str>) {
        let slot = &mut self.by_kind[doing as usize];
        let now = Instant::now();
        let why = match result {
            Ok(()) => {
                *slot = None;
                return;
            }
            Err(why) => why.to_owned(),
        };
        match slot {
            Some(failure) if failure.last.elapsed() < KNOWN => {
                failure.last = now;
                failure.why = why;
            }
            Some(_) | None => {
                *slot = Some(Failure {
                    since: Timestamp::now(),
                    first: now,
                    last: now,
                    why,
                });
            }
        }
    }

    /// Takes note of a right that is missing.
    pub(crate) fn deny(&mut self, said: &str) {
        self.denied = Some((Instant::now(), said.to_owned()));
    }

    /// The right that NATS lately said to be missing.
    pub(crate) fn denied(&self) -> Option<&str> {
        let (at, said) = self.denied.as_ref()?;
        (at.elapsed() < KNOWN).then_some(said)
    }

    /// Whether anything has failed, if only once.
    pub(crate) fn is_any(&self) -> bool {
        self.known().next().is_some()
    }

    /// Whether this has failed, if only once.
    pub(crate) fn has(&self, doing: Doing) -> bool {
        let failure = self.by_kind[doing as usize].as_ref();
        failure.is_some_and(|one| one.last.elapsed() < KNOWN)
    }

    /// What has failed for a while: the first of it.
    pub(crate) fn lasting(&self) -> Option<(Timestamp, String)> {
        let lasting = self.known().filter(|one| one.last - one.first >= LASTING);
        let first = lasting.min_by_key(|one| one.first)?;
        Some((first.since, first.why.clone()))
    }

    fn known(&self) -> impl Iterator<Item = &Failure> {
        let failures = self.by_kind.iter().flatten();
        failures.filter(|one| one.last.elapsed() < KNOWN)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn what_fails_for_a_while_is_told_until_it_works_or_is_not_tried() {
        let mut failures = Failures::default();
        let why = |failures: &Failures| failures.lasting().map(|(_, why)| why);
        failures.note(Doing::WriteLog, Err("full"));
        assert!(failures.is_any() && failures.has(Doing::WriteLog));
        assert!(!failures.has(Doing::WriteRecords));
        assert_eq!(why(&failures), None, "it may have been slow");
        advance(4 * SECOND).await;
        assert_eq!(why(&failures), None, "it was not tried again");
        failures.note(Doing::ReadLog, Ok(()));
        failures.note(Doing::WriteLog, Err("still full"));
        assert_eq!(why(&failures).as_deref(), Some("still full"));
        failures.note(Doing::WriteLog, Ok(()));
        assert_eq!((why(&failures), failures.is_any()), (None, false));
        for _ in 0..5 {
            failures.note(Doing::ReadRecords, Err("no leader"));
            advance(SECOND).await;
        }
        assert_eq!(why(&failures).as_deref(), Some("no leader"));
        advance(KNOWN).await;
        assert_eq!(why(&failures), None);
        failures.note(Doing::ReadRecords, Err("again"));
        assert_eq!(why(&failures), None, "it is another failure");
    }

    #[tokio::test(start_paused = true)]
    async fn a_right_that_was_missing_long_ago_explains_nothing() {
        let mut failures = Failures::default();
        failures.deny("permissions violation");
        assert_eq!(failures.denied(), Some("permissions violation"));
        advance(KNOWN).await;
        assert_eq!(failures.denied(), None);
    }
}

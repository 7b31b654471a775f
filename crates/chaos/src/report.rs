//! How a run went, for people and for programs.

use std::{fs, path::Path};

use anyhow::Result;
use serde::Serialize;

use crate::{
    creating::Created,
    heard::Heard,
    leftovers::Leftovers,
    plan::{Action, ActionKind},
    print_line,
    run::ChaosConfig,
    verdict::{Numbers, Verdict},
    watches::Sample,
};

/// Subscribers with something to say that are printed.
const SHOWN_MAX: usize = 12;

/// Ranges of numbers that are printed.
const RANGES_SHOWN_MAX: usize = 5;

/// How long most subscribers may get nothing when a server dies: a lease is taken over within ten
/// seconds, and then what happened meanwhile has to be read.
const TAKE_OVER_MAX: u32 = 12_000;

/// How long a single subscriber may get nothing, whatever is done.
const SILENCE_MAX: u32 = 30_000;

/// With fewer of the events that were asked for, a run says little.
const RATE_PART_MIN: f64 = 0.8;

/// The report of a run.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    seed: u64,
    reproduce: String,
    events: usize,
    /// Events a second that the API server accepted.
    events_per_second: f64,
    actions: Vec<Done>,
    /// Of the longest pauses of all subscribers in all actions.
    silence: Spread,
    /// The same by what was done.
    silence_by_kind: Vec<KindSilence>,
    /// From when an event was sent to the API server to when a subscriber had it.
    latency: Spread,
    watches: Vec<Sample>,
    /// The most and the fewest watches of events in quiet times, without those of one second.
    quiet_watches: (u32, u32),
    subscribers: Vec<Verdict>,
    leftovers: Leftovers,
    /// What the promise was broken by.
    broken: Vec<String>,
}

/// What was done, and what came of it.
#[derive(Debug, Serialize)]
pub(crate) struct Done {
    /// Milliseconds from the beginning of the run.
    at: u32,
    action: Action,
    /// The longest pause of each subscriber from then to the next action.
    silence: Spread,
}

/// The longest pauses of subscribers in all actions of one kind.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct KindSilence {
    kind: &'static str,
    actions: usize,
    /// Of most subscribers: the medians of the actions.
    of_most: Spread,
    /// Of the subscriber that waited longest in each action.
    of_the_last: Spread,
}

/// Milliseconds.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Spread {
    p50: u32,
    p99: u32,
    max: u32,
}

// === impl Done ===

impl Done {
    pub(crate) fn all(done: &[(u32, Action)], heard: &[(String, Heard)]) -> Vec<Self> {
        let ends = done.iter().skip(1).map(|(at, _)| *at);
        let ends = ends.chain([u32::MAX]);
        let all = done.iter().zip(ends).map(|((at, action), end)| {
            let longest = heard.iter().map(|(_, heard)| {
                let within = heard.pauses.iter();
                let within = within.filter(|pause| pause.to > *at && pause.from < end);
                // A pause that began before counts from the action on.
                let lengths = within.map(|pause| pause.to.min(end) - pause.from.max(*at));
                lengths.max().unwrap_or_default()
            });
            Self {
                at: *at,
                action: *action,
                silence: Spread::of(longest.collect()),
            }
        });
        all.collect()
    }
}

// === impl KindSilence ===

impl KindSilence {
    fn all(actions: &[Done]) -> Vec<Self> {
        let of_kind = |kind: &'static str| {
            let same = || {
                actions
                    .iter()
                    .filter(move |done| done.action.kind.name() == kind)
            };
            Self {
                kind,
                actions: same().count(),
                of_most: Spread::of(same().map(|done| done.silence.p50).collect()),
                of_the_last: Spread::of(same().map(|done| done.silence.max).collect()),
            }
        };
        let kinds = ActionKind::NAMES.into_iter().map(of_kind);
        kinds.filter(|kind| kind.actions > 0).collect()
    }
}

// === impl Spread ===

impl Spread {
    fn of(mut values: Vec<u32>) -> Self {
        values.sort_unstable();
        let at = |percent: usize| {
            let index = (values.len() * percent / 100).min(values.len().saturating_sub(1));
            values.get(index).copied().unwrap_or_default()
        };
        Self {
            p50: at(50),
            p99: at(99),
            max: at(100),
        }
    }
}

// === impl Report ===

impl Report {
    #[expect(clippy::too_many_arguments, reason = "all that is known of a run")]
    pub(crate) fn new(
        config: &ChaosConfig,
        created: &[Created],
        subscribers: Vec<Verdict>,
        actions: Vec<Done>,
        latencies: Vec<u32>,
        watches: Vec<Sample>,
        quiet: &[(u32, u32)],
        leftovers: Leftovers,
    ) -> Self {
        let minutes = config.duration.as_secs_f64() / 60.0;
        let first = created.iter().map(|one| one.sent).min().unwrap_or(0);
        let last = created.iter().map(|one| one.accepted).max().unwrap_or(0);
        let seconds = f64::from((last - first).max(1)) / 1000.0;
        let events = u32::try_from(created.len()).unwrap_or(u32::MAX);
        let silences = actions.iter().map(|done| done.silence.max);
        let mut report = Self {
            seed: config.seed,
            reproduce: format!(
                "cargo xtask chaos --seed {} --minutes {minutes} --rate {} --subscribers {} --replicas {} --every {}",
                config.seed,
                config.rate,
                config.subscribers,
                config.replicas,
                config.every.as_secs_f64(),
            ),
            events: created.len(),
            events_per_second: f64::from(events) / seconds,
            silence: Spread::of(silences.collect()),
            silence_by_kind: KindSilence::all(&actions),
            actions,
            latency: Spread::of(latencies),
            quiet_watches: in_quiet(&watches, quiet),
            watches,
            subscribers,
            leftovers,
            broken: Vec::new(),
        };
        report.broken = report.broken(config);
        report
    }

    /// Whether the promise held.
    pub fn holds(&self) -> bool {
        self.broken.is_empty()
    }

    /// What broke the promise, in lines.
    pub fn broken_lines(&self) -> String {
        self.broken.join("\n")
    }

    fn broken(&self, config: &ChaosConfig) -> Vec<String> {
        let mut broken = Vec::new();
        let failed = self.subscribers.iter().filter(|one| !one.holds()).count();
        let total = self.subscribers.len();
        if failed > 0 {
            broken.push(format!(
                "{failed} of {total} subscribers did not get what was promised"
            ));
        }
        if total != config.subscribers {
            broken.push(format!(
                "{total} subscribers came to an end of {}",
                config.subscribers
            ));
        }
        // Gaps are for what nobody can have any more; in a run everything is still there.
        let announced = self.subscribers.iter().map(|one| one.announced.count);
        let announced: usize = announced.sum();
        if announced > 0 {
            broken.push(format!(
                "{announced} events were announced as missing, and the cluster still has them"
            ));
        }
        if self.events_per_second < f64::from(config.rate) * RATE_PART_MIN {
            broken.push(format!(
                "only {:.0} events a second came about, of {}",
                self.events_per_second, config.rate
            ));
        }
        for Done {
            at,
            action,
            silence,
        } in &self.actions
        {
            let is_late = silence.p50 > TAKE_OVER_MAX || silence.max > SILENCE_MAX;
            if is_late {
                broken.push(format!(
                    "after {} at {:.1} s subscribers got nothing for too long (s): {silence}",
                    action.kind,
                    seconds(*at)
                ));
            }
        }
        if self.quiet_watches != (1, 1) {
            let (most, fewest) = self.quiet_watches;
            broken.push(format!(
                "{fewest} to {most} watches of events in quiet times, and not 1"
            ));
        }
        let left = &self.leftovers;
        for (count, what) in [
            (left.processes, "servers did not stop"),
            (left.watches as usize, "watches are left on the API server"),
            (left.consumers, "consumers are left in NATS"),
            (
                left.records_of_ended,
                "records are left of sessions and subscriptions that ended",
            ),
        ] {
            if count > 0 {
                broken.push(format!("{count} {what}"));
            }
        }
        broken.extend(left.unknown.iter().cloned());
        broken
    }

    pub(crate) fn write(&self, folder: &Path) -> Result<()> {
        let file = folder.join("report.json");
        fs::write(&file, serde_json::to_string_pretty(self)?)?;
        print_line(&format!("chaos: logs and report in {}", folder.display()));
        Ok(())
    }

    pub(crate) fn print(&self) {
        print_line(
            "\n      at  action                              longest pause of deliveries, in s",
        );
        print_line("                                                    p50    p99    max");
        for Done {
            at,
            action,
            silence,
        } in &self.actions
        {
            let what = format!("{}, {:.1} s", action.kind, seconds(action.lasts));
            print_line(&format!("{:>8.1}  {what:<38}  {silence}", seconds(*at)));
        }
        print_line("\nlongest pauses (s)                  most subscribers     the last one");
        print_line("                                    p50    p99    max    p50    p99    max");
        for KindSilence {
            kind,
            actions,
            of_most,
            of_the_last,
        } in &self.silence_by_kind
        {
            let what = format!("{kind}, {actions} times");
            print_line(&format!("{what:<33} {of_most} {of_the_last}"));
        }
        print_line(&format!(
            "all actions                       {}",
            self.silence
        ));
        print_line(&format!(
            "an event is there after (s)       {}",
            self.latency
        ));
        print_line(&format!(
            "events                            {} ({:.0} a second)",
            self.events, self.events_per_second
        ));
        let (most, fewest) = self.quiet_watches;
        let highest = self
            .watches
            .iter()
            .map(|one| one.watches)
            .max()
            .unwrap_or(0);
        print_line(&format!(
            "watches of events                 {fewest} to {most} in quiet times, at most {highest}"
        ));
        print_line(&format!(
            "left afterwards                   {:?}",
            self.leftovers
        ));
        self.print_subscribers();
        if self.holds() {
            print_line("\nThe promise held.");
        } else {
            print_line(&format!(
                "\nThe promise is broken:\n{}",
                self.broken_lines()
            ));
        }
        print_line(&format!("again: {}", self.reproduce));
    }

    fn print_subscribers(&self) {
        let sum = |of: fn(&Verdict) -> usize| self.subscribers.iter().map(of).sum::<usize>();
        let doubles: u64 = self.subscribers.iter().map(|one| one.doubles).sum();
        print_line(&format!(
            "all subscribers together          got {}, lost {}, announced {}, doubles {doubles}, \
             renamed {}, out of order {}, 404 {}, begun anew {}",
            sum(|one| one.got),
            sum(|one| one.lost.count),
            sum(|one| one.announced.count),
            sum(|one| one.renamed.count),
            sum(|one| one.disordered.count),
            sum(|one| one.trouble.not_found.len()),
            sum(|one| one.trouble.started_over.len()),
        ));
        let is_worth_it = |one: &&Verdict| !one.holds() || one.announced.count > 0;
        let shown = self.subscribers.iter().filter(is_worth_it);
        for one in shown.take(SHOWN_MAX) {
            print_line(&format!(
                "  {:<16} lost {}, announced {} in {} gaps, renamed {}, out of order {}, 404 {:?}, begun anew {:?}",
                one.name,
                one.lost,
                one.announced,
                one.gaps.len(),
                one.renamed,
                one.disordered,
                one.trouble.not_found,
                one.trouble.started_over,
            ));
        }
    }
}

/// The most and the fewest watches in some times. A number that is seen once, while a watch is
/// renewed, does not count.
fn in_quiet(samples: &[Sample], quiet: &[(u32, u32)]) -> (u32, u32) {
    let mut lasting = Vec::new();
    for (from, to) in quiet {
        let within = samples.iter().filter(|one| (*from..=*to).contains(&one.at));
        let counts: Vec<_> = within.map(|one| one.watches).collect();
        let pairs = counts.windows(2).filter(|pair| pair[0] == pair[1]);
        lasting.extend(pairs.map(|pair| pair[0]));
    }
    let most = lasting.iter().max().copied().unwrap_or_default();
    (most, lasting.into_iter().min().unwrap_or_default())
}

fn seconds(millis: u32) -> f64 {
    f64::from(millis) / 1000.0
}

impl std::fmt::Display for Spread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { p50, p99, max } = *self;
        let (p50, p99, max) = (seconds(p50), seconds(p99), seconds(max));
        write!(f, "{p50:>6.2} {p99:>6.2} {max:>6.2}")
    }
}

impl std::fmt::Display for Numbers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.count {
            0 => f.write_str("0"),
            count => {
                let first = &self.ranges[..self.ranges.len().min(RANGES_SHOWN_MAX)];
                write!(f, "{count} {first:?}")
            }
        }
    }
}

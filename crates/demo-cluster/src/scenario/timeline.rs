//! The timeline of a round.

/// An action and its time, in milliseconds of the round.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) at: u64,
    pub(super) action: Action,
}

/// A change in the cluster. An action on a workload concerns its newest pod.
#[derive(Clone, Copy, Debug)]
pub(super) enum Action {
    /// Sets a new image and creates the first pod of the new revision. `{round}` is the
    /// number of the round.
    RollOut {
        workload: &'static str,
        image: &'static str,
    },
    /// Pulls the image and starts the container.
    Start { workload: &'static str },
    /// The container panics.
    Crash { workload: &'static str },
    /// The kubelet restarts the container.
    Restart { workload: &'static str },
    /// The kubelet backs off before the next restart.
    BackOff {
        workload: &'static str,
        seconds: u32,
    },
    /// Rolls back to the previous revision.
    RollBack { workload: &'static str },
    /// The registry does not have the image.
    PullFails { workload: &'static str },
    /// The kubelet backs off before the next pull.
    PullBacksOff { workload: &'static str },
    /// Creates the remaining pods of the new revision and removes the old ones.
    Complete { workload: &'static str },
    /// The disk of the node of the workload's pod becomes full.
    FillDisk { workload: &'static str },
    /// The kubelet evicts the workload's pod from that node.
    Evict { workload: &'static str },
    /// The ReplicaSet replaces the evicted pod, which cannot be scheduled.
    Replace { workload: &'static str },
    /// The scheduler binds that pod to another node.
    Schedule { workload: &'static str },
    /// The disk has free space again.
    FreeDisk,
    /// Nothing: the end of the round.
    End,
}

const fn at(at: u64, action: Action) -> Step {
    Step { at, action }
}

const PAYMENT: &str = "payment";
const CART: &str = "cart";
const CATALOG: &str = "catalog";
const RECOMMENDATIONS: &str = "recommendations";

/// The first warning comes six seconds after the start, so that a demo shows one soon. Each
/// state stays for as long as an incident of it has to hold: half a minute for an image that
/// cannot be pulled, a quarter of one for pods that no node fits.
pub(super) const TIMELINE: &[Step] = &[
    // The payment service crashes at start after a rollout.
    at(
        2_500,
        Action::RollOut {
            workload: PAYMENT,
            image: "registry.shop.example/payment:1.9.{round}",
        },
    ),
    at(3_500, Action::Start { workload: PAYMENT }),
    at(4_300, Action::Crash { workload: PAYMENT }),
    at(4_800, Action::Restart { workload: PAYMENT }),
    at(5_500, Action::Crash { workload: PAYMENT }),
    at(
        5_900,
        Action::BackOff {
            workload: PAYMENT,
            seconds: 10,
        },
    ),
    at(16_000, Action::Restart { workload: PAYMENT }),
    at(16_800, Action::Crash { workload: PAYMENT }),
    at(
        17_200,
        Action::BackOff {
            workload: PAYMENT,
            seconds: 20,
        },
    ),
    at(
        25_000,
        Action::BackOff {
            workload: PAYMENT,
            seconds: 20,
        },
    ),
    at(32_000, Action::RollBack { workload: PAYMENT }),
    // The image of a rollout is not in the registry yet.
    at(
        42_000,
        Action::RollOut {
            workload: CART,
            image: "registry.shop.example/cart:3.2.{round}",
        },
    ),
    at(43_500, Action::PullFails { workload: CART }),
    at(45_000, Action::PullBacksOff { workload: CART }),
    at(57_000, Action::PullFails { workload: CART }),
    at(58_500, Action::PullBacksOff { workload: CART }),
    at(84_000, Action::Start { workload: CART }),
    at(87_000, Action::Complete { workload: CART }),
    // A node has disk pressure.
    at(
        98_000,
        Action::FillDisk {
            workload: RECOMMENDATIONS,
        },
    ),
    at(100_000, Action::Evict { workload: CATALOG }),
    at(
        101_500,
        Action::Evict {
            workload: RECOMMENDATIONS,
        },
    ),
    at(104_000, Action::Replace { workload: CATALOG }),
    at(
        106_000,
        Action::Replace {
            workload: RECOMMENDATIONS,
        },
    ),
    at(123_000, Action::Schedule { workload: CATALOG }),
    at(
        125_000,
        Action::Schedule {
            workload: RECOMMENDATIONS,
        },
    ),
    at(132_000, Action::FreeDisk),
    at(141_000, Action::End),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_timeline_is_sorted_and_begins_soon() {
        assert!(TIMELINE.is_sorted_by_key(|step| step.at));
        let first = TIMELINE
            .iter()
            .find(|step| matches!(step.action, Action::BackOff { .. }));
        assert!(first.unwrap().at < 10_000, "the first fault comes late");
    }
}

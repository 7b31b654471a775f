//! What happens and when, in milliseconds of a round.

/// One line of the script.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) at: u64,
    pub(super) act: Act,
}

/// What happens. A workload is named by its name; its newest pod is meant.
#[derive(Clone, Copy, Debug)]
pub(super) enum Act {
    /// A new image, and the first pod of it. `{round}` counts the rounds.
    RollOut {
        workload: &'static str,
        image: &'static str,
    },
    /// The image comes, the container starts.
    Start { workload: &'static str },
    /// The container panics.
    Crash { workload: &'static str },
    /// It is started once more.
    Restart { workload: &'static str },
    /// It is not, for so many seconds.
    BackOff {
        workload: &'static str,
        seconds: u32,
    },
    /// The rollout is undone.
    RollBack { workload: &'static str },
    /// The registry does not have the image.
    PullFails { workload: &'static str },
    /// It is not asked for a while.
    PullBacksOff { workload: &'static str },
    /// The rest of the pods follow the first.
    Complete { workload: &'static str },
    /// The disk of the node under the workload's pod is full.
    FillDisk { under: &'static str },
    /// The workload's pod has to leave that node.
    Evict { workload: &'static str },
    /// What was evicted is made anew, and finds no room.
    Replace { workload: &'static str },
    /// It finds room on another node.
    Place { workload: &'static str },
    /// There is room again.
    FreeDisk,
    /// Nothing; the round ends here.
    Rest,
}

const fn at(at: u64, act: Act) -> Step {
    Step { at, act }
}

const PAYMENT: &str = "payment";
const CART: &str = "cart";
const CATALOG: &str = "catalog";
const RECOMMENDATIONS: &str = "recommendations";

/// The first warning comes six seconds after the start.
pub(super) const SCRIPT: &[Step] = &[
    // A payment service that cannot start after a rollout.
    at(
        2_500,
        Act::RollOut {
            workload: PAYMENT,
            image: "registry.shop.example/payment:1.9.{round}",
        },
    ),
    at(3_500, Act::Start { workload: PAYMENT }),
    at(4_300, Act::Crash { workload: PAYMENT }),
    at(4_800, Act::Restart { workload: PAYMENT }),
    at(5_500, Act::Crash { workload: PAYMENT }),
    at(
        5_900,
        Act::BackOff {
            workload: PAYMENT,
            seconds: 10,
        },
    ),
    at(16_000, Act::Restart { workload: PAYMENT }),
    at(16_800, Act::Crash { workload: PAYMENT }),
    at(
        17_200,
        Act::BackOff {
            workload: PAYMENT,
            seconds: 20,
        },
    ),
    at(
        25_000,
        Act::BackOff {
            workload: PAYMENT,
            seconds: 20,
        },
    ),
    at(32_000, Act::RollBack { workload: PAYMENT }),
    // An image that is not there yet.
    at(
        42_000,
        Act::RollOut {
            workload: CART,
            image: "registry.shop.example/cart:3.2.{round}",
        },
    ),
    at(43_500, Act::PullFails { workload: CART }),
    at(45_000, Act::PullBacksOff { workload: CART }),
    at(57_000, Act::PullFails { workload: CART }),
    at(58_500, Act::PullBacksOff { workload: CART }),
    at(72_000, Act::Start { workload: CART }),
    at(75_000, Act::Complete { workload: CART }),
    // A node without room on its disk.
    at(
        86_000,
        Act::FillDisk {
            under: RECOMMENDATIONS,
        },
    ),
    at(88_000, Act::Evict { workload: CATALOG }),
    at(
        89_500,
        Act::Evict {
            workload: RECOMMENDATIONS,
        },
    ),
    at(92_000, Act::Replace { workload: CATALOG }),
    at(
        94_000,
        Act::Replace {
            workload: RECOMMENDATIONS,
        },
    ),
    at(97_000, Act::Place { workload: CATALOG }),
    at(
        99_000,
        Act::Place {
            workload: RECOMMENDATIONS,
        },
    ),
    at(106_000, Act::FreeDisk),
    at(115_000, Act::Rest),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_is_in_order_and_begins_soon() {
        assert!(SCRIPT.is_sorted_by_key(|step| step.at));
        let first = SCRIPT
            .iter()
            .find(|step| matches!(step.act, Act::BackOff { .. }));
        assert!(first.unwrap().at < 10_000, "the first fault comes late");
    }
}

//! A scenario: a web shop whose workloads fail and recover, over and over.
//!
//! `workloads` and `timeline` are tables. `simulator` makes the changes that controllers,
//! scheduler and kubelets would make for each step of the timeline.

mod objects;
mod simulator;
mod timeline;
mod workloads;

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::{DemoCluster, random::Random, store::PutError};

use self::{simulator::Simulator, timeline::TIMELINE};

/// A scenario that runs on a demo cluster.
pub struct Scenario {
    simulator: Simulator,
    speed: f64,
    random: Random,
}

/// The slowest and the fastest speed.
const SPEED_RANGE: (f64, f64) = (0.01, 1000.0);

// === impl Scenario ===

impl Scenario {
    /// Creates the objects of the shop, all of them healthy. The same seeds of cluster and
    /// scenario give the same run.
    pub fn set_up(cluster: &DemoCluster, seed: u64) -> Result<Self, PutError> {
        Ok(Self {
            simulator: Simulator::set_up(cluster, seed)?,
            speed: 1.0,
            random: Random::new(!seed),
        })
    }

    /// Sets the speed; 2 is twice as fast.
    #[must_use]
    pub fn speed(mut self, speed: f64) -> Self {
        let (slowest, fastest) = SPEED_RANGE;
        // NaN is the normal speed.
        self.speed = if speed.is_nan() {
            1.0
        } else {
            speed.clamp(slowest, fastest)
        };
        self
    }

    /// The duration of a round at normal speed.
    pub fn length() -> Duration {
        TIMELINE
            .last()
            .map_or(Duration::ZERO, |step| Duration::from_millis(step.at))
    }

    /// Runs rounds until the future is dropped. Fails when the cluster is full.
    pub async fn run(mut self) -> Result<(), PutError> {
        loop {
            self.run_round().await?;
        }
    }

    /// Runs one round, from the first fault to the recovery of all workloads.
    pub async fn run_round(&mut self) -> Result<(), PutError> {
        let started = Instant::now();
        for step in TIMELINE {
            // Jitter, as in a real cluster.
            let jitter = self.random.below(300);
            let due = Duration::from_millis(step.at + jitter).div_f64(self.speed);
            sleep_until(started + due).await;
            self.simulator.apply(&step.action)?;
        }
        self.simulator.end_round();
        Ok(())
    }
}

//! A shop where things go wrong and heal, over and over.
//!
//! Who plays is in `cast`, what happens and when in `script`: both are tables.
//! `stage` does what controllers, scheduler and kubelets would do for each line.

mod cast;
mod objects;
mod script;
mod stage;

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::{DemoCluster, random::Random, store::Rejected};

use self::{script::SCRIPT, stage::Stage};

/// A story that is played on a cluster.
pub struct Story {
    stage: Stage,
    speed: f64,
    random: Random,
}

/// Slower than this is a still, faster a blur.
const SPEEDS: (f64, f64) = (0.01, 1000.0);

// === impl Story ===

impl Story {
    /// Puts the shop into the cluster, in good order. With the same seed, of the
    /// cluster too, the same happens.
    pub fn set_up(cluster: &DemoCluster, seed: u64) -> Result<Self, Rejected> {
        Ok(Self {
            stage: Stage::set_up(cluster, seed)?,
            speed: 1.0,
            random: Random::new(!seed),
        })
    }

    /// Twice as fast is 2.
    #[must_use]
    pub fn speed(mut self, speed: f64) -> Self {
        let (slowest, fastest) = SPEEDS;
        // What is not a number is the usual speed.
        self.speed = if speed.is_nan() {
            1.0
        } else {
            speed.clamp(slowest, fastest)
        };
        self
    }

    /// How long a round takes at the usual speed.
    pub fn length() -> Duration {
        SCRIPT
            .last()
            .map_or(Duration::ZERO, |step| Duration::from_millis(step.at))
    }

    /// Plays until it is dropped. Fails when the cluster takes no more objects.
    pub async fn play(mut self) -> Result<(), Rejected> {
        loop {
            self.play_round().await?;
        }
    }

    /// Plays from the first fault until all is healed.
    pub async fn play_round(&mut self) -> Result<(), Rejected> {
        let began = Instant::now();
        for step in SCRIPT {
            // Nothing in a cluster happens on the dot.
            let hesitates = self.random.below(300);
            let due = Duration::from_millis(step.at + hesitates).div_f64(self.speed);
            sleep_until(began + due).await;
            self.stage.perform(&step.act)?;
        }
        self.stage.end_round();
        Ok(())
    }
}

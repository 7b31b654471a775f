//! How well a first answer tells what is wrong.

use std::{collections::BTreeSet, fmt};

use super::case::Case;
use crate::{incident::incidents, symptom::Severity};

/// What a reader is shown first.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// Line by line.
    pub lines: Vec<Line>,
}

/// One line of an answer.
#[derive(Clone, Debug)]
pub struct Line {
    /// The object that it accuses, as `namespace/kind/name`.
    pub object: String,
    /// Whether it warns.
    pub is_warning: bool,
    /// All of it.
    pub text: String,
}

/// How well one answer does.
#[expect(clippy::struct_excessive_bools, reason = "independent marks")]
#[derive(Clone, Debug, Default)]
pub struct Score {
    /// The name of the case.
    pub case: String,
    /// Its class.
    pub class: String,
    /// Whether something is wrong at all.
    pub is_fault: bool,
    /// Whether the true object is named first.
    pub top: bool,
    /// Whether the true object is named.
    pub any: bool,
    /// Whether a reader learns what he needs.
    pub cause: bool,
    /// Objects that are accused and healthy.
    pub accused: Vec<String>,
    /// The size of the answer.
    pub bytes: usize,
}

/// The scores of many cases.
#[derive(Clone, Debug, Default)]
pub struct Scores(pub Vec<Score>);

/// The answer of `faults_list`.
pub fn faults_list(case: &Case) -> Answer {
    let found = incidents(&case.state, case.now);
    let lines = found.iter().map(|incident| Line {
        object: incident.object.to_string(),
        is_warning: incident.severity > Severity::Info,
        text: incident.listed(),
    });
    Answer {
        lines: lines.collect(),
    }
}

/// The answer of `events_list` with warnings only, the newest first.
pub fn baseline(case: &Case) -> Answer {
    let mut warnings: Vec<_> = case
        .events()
        .filter(|event| event["type"] == "Warning")
        .collect();
    warnings.sort_by_key(|event| {
        let time = event["lastTimestamp"]
            .as_str()
            .or(event["eventTime"].as_str());
        std::cmp::Reverse(time.unwrap_or_default().to_owned())
    });
    let lines = warnings.into_iter().map(|event| {
        let about = &event["involvedObject"];
        let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        let object = format!(
            "{}/{}/{}",
            text(&about["namespace"]),
            text(&about["kind"]).to_lowercase(),
            text(&about["name"])
        );
        Line {
            text: format!(
                "{object} {} {}",
                text(&event["reason"]),
                text(&event["message"])
            ),
            object,
            is_warning: true,
        }
    });
    Answer {
        lines: lines.collect(),
    }
}

// === impl Answer ===

impl Answer {
    /// Compares with what is true.
    pub fn score(&self, case: &Case) -> Score {
        let truth = &case.truth;
        let is_fault = !truth.object.is_empty();
        let names: Vec<_> = [&truth.object]
            .into_iter()
            .chain(&truth.also)
            .filter(|name| !name.is_empty())
            .collect();
        let is_true = |line: &Line| {
            let name = |full: &str| full.rsplit('/').next().unwrap_or_default().to_owned();
            // The name of a pod begins with that of its workload.
            names.iter().any(|known| {
                line.object == **known
                    || (kind_of(&line.object) == "pod"
                        && name(&line.object).starts_with(&format!("{}-", name(known))))
                    || line
                        .text
                        .contains(&format!("{}/{}", kind_of(known), name(known)))
            })
        };
        let all: String = self
            .lines
            .iter()
            .map(|line| line.text.to_lowercase() + "\n")
            .collect();
        let accused: BTreeSet<_> = self
            .lines
            .iter()
            .filter(|line| {
                line.is_warning && !is_true(line) && !truth.victims.contains(&line.object)
            })
            .map(|line| line.object.clone())
            .collect();
        Score {
            case: case.name.clone(),
            class: case.class.clone(),
            is_fault,
            top: is_fault && self.lines.first().is_some_and(is_true),
            any: is_fault && self.lines.iter().any(is_true),
            cause: is_fault
                && truth
                    .words
                    .iter()
                    .all(|word| all.contains(&word.to_lowercase())),
            accused: accused.into_iter().collect(),
            bytes: self.lines.iter().map(|line| line.text.len() + 1).sum(),
        }
    }
}

// === impl Score ===

impl Score {
    /// Whether a reader would be content.
    pub fn is_good(&self) -> bool {
        self.accused.is_empty() && (!self.is_fault || self.top && self.cause)
    }
}

fn kind_of(object: &str) -> &str {
    let mut parts = object.rsplit('/');
    parts.next();
    parts.next().unwrap_or_default()
}

// === impl Scores ===

impl Scores {
    /// The part of the cases with a fault for which something holds.
    pub fn rate(&self, holds: impl Fn(&Score) -> bool) -> f64 {
        let faults = self.0.iter().filter(|score| score.is_fault);
        let (mut all, mut good) = (0_u32, 0_u32);
        for score in faults {
            all += 1;
            good += u32::from(holds(score));
        }
        f64::from(good) / f64::from(all.max(1))
    }

    /// What is worse than promised.
    pub fn below_bars(&self) -> Vec<&'static str> {
        let bars = [
            (self.rate(|score| score.top) >= 0.8, "top-1 below 80 %"),
            (self.rate(|score| score.any) >= 0.82, "any below 82 %"),
            (self.rate(|score| score.cause) >= 0.75, "cause below 75 %"),
            (
                self.accused() <= 0.2,
                "more than 0.2 healthy objects accused per case",
            ),
            (self.bytes(50) <= 500, "median above 500 bytes"),
            (self.bytes(90) <= 1200, "p90 above 1,200 bytes"),
        ];
        let missed = bars.into_iter().filter(|(is_met, _)| !is_met);
        missed.map(|(_, bar)| bar).collect()
    }

    /// Healthy objects that are accused, per case.
    pub fn accused(&self) -> f64 {
        let all: usize = self.0.iter().map(|score| score.accused.len()).sum();
        ratio(all, self.0.len())
    }

    /// The size of an answer that so many of a hundred do not exceed.
    pub fn bytes(&self, percentile: usize) -> usize {
        let faults = self.0.iter().filter(|score| score.is_fault);
        let mut sizes: Vec<_> = faults.map(|score| score.bytes).collect();
        sizes.sort_unstable();
        let at = sizes.len() * percentile / 100;
        sizes
            .get(at.min(sizes.len().saturating_sub(1)))
            .copied()
            .unwrap_or(0)
    }
}

/// One line of a table.
impl fmt::Display for Scores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:.0} % | {:.0} % | {:.0} % | {:.2} | {} / {}",
            100.0 * self.rate(|score| score.top),
            100.0 * self.rate(|score| score.any),
            100.0 * self.rate(|score| score.cause),
            self.accused(),
            self.bytes(50),
            self.bytes(90)
        )
    }
}

#[expect(clippy::cast_precision_loss, reason = "a few hundred cases")]
fn ratio(part: usize, whole: usize) -> f64 {
    part as f64 / whole.max(1) as f64
}

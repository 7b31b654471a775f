//! What an operator may choose: which detectors are off, and how long a state has to be there.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    str::FromStr,
};

use jiff::SignedDuration;

use crate::{
    detectors::{DETECTORS, Detector, detector},
    symptom::Hold,
};

/// The longest hold.
const HOLD_MAX: SignedDuration = SignedDuration::from_hours(24);

/// What an operator chose; by default what the table of detectors says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    disabled: BTreeSet<&'static str>,
    holds: BTreeMap<&'static str, Hold>,
}

/// A detector by its name: `crash-loop`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DetectorName(&'static str);

/// Another hold for a detector: `not-ready=5m/1m`, or `not-ready=5m` to leave its end as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HoldSetting {
    detector: DetectorName,
    open: SignedDuration,
    close: Option<SignedDuration>,
}

/// Reports a setting that nobody can follow.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OptionsError {
    /// No detector has this name.
    UnknownDetector(String),
    /// There is no `=` between the detector and its hold.
    NoHold(String),
    /// It is not a length of time, or is negative or longer than a day.
    BadHold(String),
}

// === impl Options ===

impl Options {
    /// Takes what an operator chose; of two holds for one detector the later counts.
    pub fn new(
        disabled: impl IntoIterator<Item = DetectorName>,
        holds: impl IntoIterator<Item = HoldSetting>,
    ) -> Self {
        let mut options = Self {
            disabled: disabled.into_iter().map(|name| name.0).collect(),
            holds: BTreeMap::new(),
        };
        for HoldSetting {
            detector,
            open,
            close,
        } in holds
        {
            let default = options.hold(detector.0);
            let close = close.unwrap_or(default.close);
            options.holds.insert(detector.0, Hold { open, close });
        }
        options
    }

    /// Whether a detector finds nothing.
    pub fn is_disabled(&self, name: &str) -> bool {
        self.disabled.contains(name)
    }

    /// How long what a detector finds has to be there.
    pub fn hold(&self, name: &str) -> Hold {
        let table = || detector(name).map(|detector| detector.hold);
        self.chosen_hold(name).or_else(table).unwrap_or(Hold {
            open: SignedDuration::ZERO,
            close: SignedDuration::ZERO,
        })
    }

    /// The hold that the operator chose.
    pub(crate) fn chosen_hold(&self, name: &str) -> Option<Hold> {
        self.holds.get(name).copied()
    }
}

// === impl DetectorName ===

impl DetectorName {
    /// As settings and data spell it.
    pub fn as_str(&self) -> &'static str {
        self.0
    }
}

impl FromStr for DetectorName {
    type Err = OptionsError;

    fn from_str(text: &str) -> Result<Self, OptionsError> {
        let text = text.trim();
        let known = |Detector { name, .. }: &Detector| Self(name);
        let found = detector(text).map(known);
        found.ok_or_else(|| OptionsError::UnknownDetector(text.to_owned()))
    }
}

impl fmt::Display for DetectorName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

// === impl HoldSetting ===

impl FromStr for HoldSetting {
    type Err = OptionsError;

    fn from_str(text: &str) -> Result<Self, OptionsError> {
        let (name, hold) = text
            .split_once('=')
            .ok_or_else(|| OptionsError::NoHold(text.to_owned()))?;
        let detector = name.parse()?;
        let (open, close) = match hold.split_once('/') {
            Some((open, close)) => (duration(open)?, Some(duration(close)?)),
            None => (duration(hold)?, None),
        };
        Ok(Self {
            detector,
            open,
            close,
        })
    }
}

/// `not-ready=5m/1m`
impl fmt::Display for HoldSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={:#}", self.detector, self.open)?;
        match self.close {
            Some(close) => write!(f, "/{close:#}"),
            None => Ok(()),
        }
    }
}

fn duration(text: &str) -> Result<SignedDuration, OptionsError> {
    let bad = || OptionsError::BadHold(text.to_owned());
    let time = match text.trim() {
        "0" => SignedDuration::ZERO,
        text => text.parse().map_err(|_| bad())?,
    };
    let is_possible = (SignedDuration::ZERO..=HOLD_MAX).contains(&time);
    is_possible.then_some(time).ok_or_else(bad)
}

// === impl OptionsError ===

impl fmt::Display for OptionsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownDetector(name) => {
                let known: Vec<_> = DETECTORS.iter().map(|one| one.name).collect();
                write!(
                    f,
                    "there is no detector `{name}`; those there are: {}",
                    known.join(", ")
                )
            }
            Self::NoHold(text) => write!(
                f,
                "`{text}` names no hold; write the detector, `=` and how long its state has to \
                 be there, and after `/` how long it has to be gone: `not-ready=5m/1m`"
            ),
            Self::BadHold(text) => write!(
                f,
                "`{text}` is not a length of time from `0` to `24h`, such as `90s` or `5m`"
            ),
        }
    }
}

impl std::error::Error for OptionsError {}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jiff::Timestamp;
    use serde_json::json;

    use super::*;
    use crate::{Life, State, incidents_with};

    #[test]
    fn a_hold_is_read_and_printed_as_it_is_written() {
        for text in ["not-ready=5m/1m", "crash-loop=90s", "job=0s/24h"] {
            let setting: HoldSetting = text.parse().unwrap();
            let again: HoldSetting = setting.to_string().parse().unwrap();
            assert_eq!(setting, again, "{text} {setting}");
        }
        let options = Options::new([], ["not-ready=5m".parse().unwrap()]);
        let hold = Hold {
            open: SignedDuration::from_mins(5),
            close: SignedDuration::from_secs(30),
        };
        assert_eq!(options.hold("not-ready"), hold);
        let table = detector("job").map(|detector| detector.hold);
        assert_eq!(Some(options.hold("job")), table);
    }

    #[test]
    fn a_detector_that_is_off_finds_nothing_and_a_chosen_hold_is_kept() {
        let at = |seconds: i64| Timestamp::from_second(1_790_000_000 + seconds).unwrap();
        let mut state = State::default();
        let pod = json!({
            "kind": "Pod", "metadata": {"namespace": "shop", "name": "web", "creationTimestamp": at(-300)},
            "spec": {"nodeName": "worker", "containers": [{"name": "app", "image": "web:1"}]},
            "status": {"phase": "Pending", "startTime": at(-300), "containerStatuses": [
                {"name": "app", "state": {"waiting": {"reason": "ErrImagePull", "message": "no such host"}}},
            ]},
        });
        state.apply_json(pod).unwrap();
        let found = |disabled: &[&str], holds: &[&str]| {
            let disabled = disabled.iter().map(|one| one.parse().unwrap());
            let holds = holds.iter().map(|one| one.parse().unwrap());
            let options = Arc::new(Options::new(disabled, holds));
            let found = incidents_with(&state, at(0), &options);
            let mut life = Life::new(options);
            life.update(&[], at(-1));
            (found.len(), life.update(&found, at(0)).len())
        };
        assert_eq!(found(&[], &[]), (1, 1));
        assert_eq!(found(&["job"], &["job=10m"]), (1, 1));
        assert_eq!(found(&["image-pull"], &[]), (0, 0));
        assert_eq!(found(&[], &["image-pull=10m"]), (0, 0));
        assert_eq!(found(&[], &["image-pull=4m"]), (1, 1));
    }

    #[test]
    fn a_name_that_nobody_has_is_answered_with_those_there_are() {
        let unknown = "hpa".parse::<DetectorName>().unwrap_err().to_string();
        assert!(unknown.contains("`hpa`"), "{unknown}");
        for detector in DETECTORS {
            assert!(unknown.contains(detector.name), "{unknown}");
            assert_eq!(detector.name.parse(), Ok(DetectorName(detector.name)));
        }
        let known = "not-ready".parse::<HoldSetting>();
        assert_eq!(known, Err(OptionsError::NoHold("not-ready".to_owned())));
        for text in ["soon", "-5m", "25h", "", "5m/1m"] {
            let bad = format!("job=1m/{text}").parse::<HoldSetting>();
            assert_eq!(bad, Err(OptionsError::BadHold(text.to_owned())), "{text}");
        }
    }
}

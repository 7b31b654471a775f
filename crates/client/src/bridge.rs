//! What is told to programs and agents: each incident once, by a line or by a program that is
//! started for it.

use std::{collections::HashSet, ffi::OsString, path::PathBuf};

use kubecrier_redact::neutralise;
use serde_json::Value;

use crate::{
    ToldFileError,
    exec::{Job, Runner},
    notification::Notification,
    render::brief,
    request::OpenIncidents,
    told::{Key, OpenList, Telling, Told},
};

/// How incidents are told once.
#[derive(Clone, Debug, Default)]
pub struct BridgeConfig {
    /// The program to run for each, with its arguments; empty for none.
    pub exec: Vec<OsString>,
    /// How many programs run at once.
    pub exec_at_once: u16,
    /// Ends after the first.
    pub first: bool,
    /// Also tells when one that was told is over.
    pub resolved: bool,
    /// The file with those that were told by earlier processes.
    pub told_file: Option<PathBuf>,
}

/// Decides who is told what.
#[derive(Debug)]
pub(crate) struct Bridge {
    told: Told,
    runner: Option<Runner>,
    resolved: bool,
    name_context: bool,
}

/// What follows from a notification.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// Whether it is told to those who are told once.
    pub(crate) is_told: bool,
    /// A note for the user.
    pub(crate) note: Option<String>,
}

// === impl Bridge ===

impl Bridge {
    pub(crate) fn new(config: &BridgeConfig, name_context: bool) -> Result<Self, ToldFileError> {
        let told = match &config.told_file {
            Some(path) => Told::from_file(path)?,
            None => Told::default(),
        };
        let runner = (!config.exec.is_empty())
            .then(|| Runner::new(config.exec.clone(), config.exec_at_once.max(1)));
        Ok(Self {
            told,
            runner,
            resolved: config.resolved,
            name_context,
        })
    }

    /// Takes what is open when a subscription begins; returns what is news of it.
    pub(crate) fn on_open(
        &mut self,
        open: &[OpenIncidents],
    ) -> Result<HashSet<Key>, ToldFileError> {
        let ids = |one: &OpenIncidents| -> Vec<String> {
            let ids = one.incidents.iter().map(|data| key(data).id);
            ids.collect()
        };
        let ids: Vec<_> = open.iter().map(ids).collect();
        let ids: Vec<Vec<&str>> = ids
            .iter()
            .map(|ids| ids.iter().map(String::as_str).collect())
            .collect();
        let lists: Vec<_> = (open.iter().zip(&ids))
            .map(|(one, ids)| OpenList {
                cluster: &one.cluster,
                ids,
                is_complete: one.is_complete,
            })
            .collect();
        self.told.on_open(&lists)
    }

    /// Takes an incident that was opened while nobody listened.
    pub(crate) fn on_news(&mut self, data: &Value) -> Outcome {
        Outcome {
            is_told: true,
            note: self.enqueue(data),
        }
    }

    /// Takes a notification.
    pub(crate) fn on_notification(&mut self, data: &Value) -> Result<Outcome, ToldFileError> {
        if data.get("faultId").is_some() {
            return Ok(Outcome {
                is_told: false,
                note: self.enqueue(data),
            });
        }
        let Some(incident) = data.get("incident") else {
            return Ok(Outcome::default());
        };
        let transition = incident["transition"].as_str().unwrap_or_default();
        let key = key(data);
        let telling = self.told.on_transition(&key, transition)?;
        Ok(match telling {
            Telling::Tell => self.on_news(data),
            Telling::Update => {
                let job = job(data, self.name_context);
                if let Some(runner) = &mut self.runner {
                    runner.update(&job);
                }
                Outcome::default()
            }
            Telling::Over => self.on_over(data, &key),
            Telling::Nothing => Outcome::default(),
        })
    }

    /// Nobody has to be called for what is over before its program was started.
    fn on_over(&mut self, data: &Value, key: &Key) -> Outcome {
        let runner = self.runner.as_mut();
        let waited = runner.is_some_and(|runner| runner.forget(key));
        let note = if waited {
            Some(format!("{} is over, its program was not started", key.id))
        } else if self.resolved {
            self.enqueue(data)
        } else {
            None
        };
        Outcome {
            is_told: self.resolved,
            note,
        }
    }

    fn enqueue(&mut self, data: &Value) -> Option<String> {
        let job = job(data, self.name_context);
        self.runner.as_mut()?.enqueue(job)
    }

    /// The next note on a program that failed. Cancel-safe.
    pub(crate) async fn next_failure(&mut self) -> String {
        match &mut self.runner {
            Some(runner) => runner.next_failure().await,
            None => std::future::pending().await,
        }
    }

    /// Waits for the programs; `false` if one has failed.
    pub(crate) async fn finish(&mut self) -> (bool, Vec<String>) {
        match &mut self.runner {
            Some(runner) => {
                let notes = runner.finish().await;
                (!runner.has_failed(), notes)
            }
            None => (true, Vec::new()),
        }
    }

    /// Ends the programs.
    pub(crate) async fn end(&mut self) {
        if let Some(runner) = &mut self.runner {
            runner.end().await;
        }
    }
}

/// The incident or the fault of a notification.
pub(crate) fn key(data: &Value) -> Key {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let id = data.get("faultId").unwrap_or(&data["incident"]["id"]);
    Key {
        cluster: text(&data["cluster"]),
        id: text(id),
    }
}

/// The program of a notification: all of it as JSON, and the essentials of an incident as
/// variables.
fn job(data: &Value, name_context: bool) -> Job {
    let parsed = Notification::parse(data).unwrap_or_default();
    let environment = parsed.incident.as_ref().map_or_else(Vec::new, |incident| {
        let line = brief(&parsed, incident, name_context);
        // A variable has no NUL, and a terminal no control sequences.
        let values = [
            ("KUBECRIER_INCIDENT_ID", &incident.id),
            ("KUBECRIER_INCIDENT_STATE", &incident.transition),
            ("KUBECRIER_INCIDENT_SEVERITY", &incident.severity),
            ("KUBECRIER_INCIDENT_OBJECT", &incident.object),
            ("KUBECRIER_INCIDENT_HEADLINE", &incident.headline),
            ("KUBECRIER_INCIDENT_CONTEXT", &parsed.cluster),
            ("KUBECRIER_INCIDENT_BRIEF", &line),
        ];
        let values = values.map(|(name, value)| (name, neutralise(value).into_owned()));
        values.to_vec()
    });
    Job {
        key: key(data),
        input: data.to_string(),
        environment,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn incident(id: &str, transition: &str) -> Value {
        json!({"cluster": "dev", "incident": {"id": id, "transition": transition,
            "severity": "critical", "object": "shop/deployment/web", "headline": "it\u{0} crashes"}})
    }

    fn bridge(resolved: bool) -> Bridge {
        let config = BridgeConfig {
            exec: ["sh", "-c", "sleep 600"].map(OsString::from).to_vec(),
            resolved,
            ..BridgeConfig::default()
        };
        Bridge::new(&config, false).unwrap()
    }

    #[test]
    fn the_essentials_are_variables_without_control_characters() {
        let job = job(&incident("i-1", "opened"), false);
        let value = |name: &str| {
            let mut all = job.environment.iter();
            all.find(|(one, _)| *one == name).unwrap().1.clone()
        };
        assert_eq!(value("KUBECRIER_INCIDENT_ID"), "i-1");
        assert_eq!(value("KUBECRIER_INCIDENT_STATE"), "opened");
        assert_eq!(value("KUBECRIER_INCIDENT_CONTEXT"), "dev");
        assert!(value("KUBECRIER_INCIDENT_BRIEF").starts_with("CRITICAL it"));
        assert!(job.environment.iter().all(|(_, one)| !one.contains('\0')));
        assert_eq!(
            serde_json::from_str::<Value>(&job.input).unwrap(),
            incident("i-1", "opened")
        );
    }

    #[tokio::test]
    async fn what_is_over_before_its_turn_starts_nothing_and_says_so() {
        for resolved in [false, true] {
            let mut bridge = bridge(resolved);
            for id in ["i-1", "i-2"] {
                let opened = bridge.on_notification(&incident(id, "opened")).unwrap();
                assert!(opened.is_told && opened.note.is_none());
            }
            let changed = bridge.on_notification(&incident("i-1", "changed")).unwrap();
            assert!(!changed.is_told);
            let over = bridge
                .on_notification(&incident("i-2", "resolved"))
                .unwrap();
            assert_eq!(over.is_told, resolved);
            assert!(over.note.unwrap().contains("i-2 is over"));
            // The first one runs, and is waited for.
            let over = bridge
                .on_notification(&incident("i-1", "resolved"))
                .unwrap();
            assert_eq!((over.is_told, over.note), (resolved, None));
            bridge.end().await;
        }
    }
}

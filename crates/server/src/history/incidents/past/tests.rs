use std::{path::Path, time::Duration};

use kubecrier_history::{HistoryConfig, Retention};
use kubecrier_incidents::Severity;
use kubecrier_k8s::{Config, StoredWords, keep_incident};
use tokio::{sync::oneshot, task::JoinSet};

use super::*;
use crate::incidents::tests::crashing;

fn contexts() -> Arc<Contexts> {
    Arc::new(Contexts::new(Config {
        kubeconfig: None,
        context: None,
        request_timeout: Duration::from_secs(1),
        demo: None,
        redactor: kubecrier_redact::Redactor::default(),
        denied: kubecrier_k8s::DeniedKinds::default(),
        allowed: kubecrier_k8s::Allowed::default(),
        identity: kubecrier_k8s::ClusterIdentity::default(),
    }))
}

impl PastIncident {
    /// An incident that was kept, without a history.
    pub(crate) fn of(incident: Incident, state: PastState, occurrences: usize) -> Self {
        let kept = keep_incident(&incident, None);
        let stored = contexts().stored_incident(&kept, StoredWords::WithoutLogs);
        Self {
            stored: stored.unwrap(),
            state,
            occurrences,
        }
    }
}

async fn with_history(folder: &Path, work: impl AsyncFnOnce(&History)) {
    let config = HistoryConfig {
        folder: folder.to_owned(),
        retention: Retention::default(),
    };
    let (history, writer) = History::open(config).unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let mut running = JoinSet::new();
    running.spawn(writer.run(async {
        let _ended = stopped.await;
    }));
    work(&history).await;
    drop(stop);
    running.join_next().await.unwrap().unwrap();
}

fn record(history: &History, name: &str, moment: Moment, minute: i64) {
    let incident = crashing(name, Severity::Warning, 1);
    let at = Timestamp::from_second(1_800_000_000 + minute * 60).unwrap();
    let after = moment.is_end().then(|| SignedDuration::from_mins(2));
    history.record(&Arc::from("dev"), Stream::Incidents, move || {
        record::of_incident(&incident, moment, at, after, StoredWords::MayBeOfLogs)
    });
}

fn minute(minute: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + minute * 60).unwrap()
}

#[tokio::test]
async fn the_incidents_of_a_time_are_read_after_a_restart() {
    let held = tempfile::tempdir().unwrap();
    let folder = held.path().join("history");
    with_history(&folder, async |history: &History| {
        for (name, moment, minute) in [
            ("twice", Moment::Opened, 0),
            ("twice", Moment::Resolved, 5),
            ("early", Moment::Opened, 1),
            ("early", Moment::Resolved, 2),
            ("long", Moment::Opened, 3),
            ("twice", Moment::Opened, 20),
            ("twice", Moment::Changed, 25),
            ("twice", Moment::Resolved, 30),
            ("gone", Moment::Open, 31),
            ("gone", Moment::Gone, 40),
        ] {
            record(history, name, moment, minute);
        }
        let gap = Record::gap(
            minute(32).as_millisecond(),
            minute(33).as_millisecond(),
            Some(7),
            "a test",
        );
        history.record(&Arc::from("dev"), Stream::Incidents, move || gap);
        assert!(history.flush().await);
    })
    .await;
    with_history(&folder, async |history: &History| {
        let contexts = contexts();
        let mut past = search(history, &contexts, "dev", minute(4)).await;
        past.all
            .sort_by(|a, b| a.incident().id.cmp(&b.incident().id));
        let seen: Vec<_> = past
            .all
            .iter()
            .map(|one| (one.incident().id.as_str(), one.state, one.occurrences))
            .collect();
        let twice = PastState::Resolved {
            at: minute(30),
            after: SignedDuration::from_mins(2),
        };
        assert_eq!(
            seen,
            [
                ("i-gone", PastState::GoneBy { at: minute(40) }, 1),
                ("i-long", PastState::Open, 1),
                ("i-twice", twice, 2),
            ]
        );
        assert_eq!(past.caveats.len(), 1, "{:?}", past.caveats);
        assert!(past.caveats[0].contains("7 records are missing: a test"));
        let found = find(history, &contexts, "dev", "i-early").await.unwrap();
        assert_eq!(
            found.incident().headline,
            crashing("early", Severity::Warning, 1).headline
        );
        assert!(find(history, &contexts, "dev", "i-none").await.is_none());
        assert!(find(history, &contexts, "other", "i-early").await.is_none());
        let open = open(history, &contexts, "dev").await;
        assert_eq!(open.keys().collect::<Vec<_>>(), ["i-long"]);
        // What is not kept any more is said.
        let before = search(history, &contexts, "dev", minute(-60)).await;
        assert!(
            before
                .caveats
                .iter()
                .any(|one| one.contains("the history begins"))
        );
    })
    .await;
}

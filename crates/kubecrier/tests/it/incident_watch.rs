//! The watches that incidents are made of, on the real API server.

use std::{path::Path, sync::Arc, time::Duration};

use kubecrier_core::{access::Viewer, metrics::Metrics, shares::ShareKey};
use kubecrier_k8s::{
    Allowed, Config, Contexts, DeniedKinds, ErrorKind, IncidentFollower, IncidentSettings,
    IncidentUpdate, IncidentView, IncidentWatches, Name, TaskLimits,
};
use kubecrier_lifecycle::Lifecycle;
use kubecrier_redact::Redactor;
use parking_lot::Mutex;
use serde_json::{Value, json};
use testbed::{Cluster, Options, User, namespace, pod};
use tokio::time::{Instant, sleep};

use crate::harness::one_context;

const SECRET: &str = "hunter2-verysecret";

const LIMITS: TaskLimits = TaskLimits {
    total_max: 4,
    per_caller_max: 4,
};

/// Keeps what was announced, a word and the object each.
#[derive(Default)]
struct Announcements(Mutex<Vec<String>>);

impl IncidentFollower for Announcements {
    fn on_update(&self, update: &Arc<IncidentUpdate>) {
        let lines = update.transitions.iter().map(|one| format!("{one:?}"));
        self.0.lock().extend(lines);
    }
}

impl Announcements {
    /// `Opened`, `Changed` or `Resolved`, in order.
    fn words(&self) -> Vec<String> {
        let word = |line: &String| {
            let end = line.find(|one: char| !one.is_alphabetic());
            line[..end.unwrap_or(line.len())].to_owned()
        };
        self.0.lock().iter().map(word).collect()
    }
}

fn watches(kubeconfig: &Path) -> IncidentWatches {
    let contexts = Contexts::new(Config {
        kubeconfig: Some(kubeconfig.to_owned()),
        context: None,
        request_timeout: Duration::from_secs(10),
        redactor: Redactor::default(),
        demo: None,
        denied: DeniedKinds::default(),
        allowed: Allowed::default(),
        identity: kubecrier_k8s::ClusterIdentity::default(),
    });
    IncidentWatches::new(
        Arc::new(contexts),
        Lifecycle::default(),
        Metrics::new().watch().clone(),
        Duration::from_secs(5),
        LIMITS,
        IncidentSettings::default(),
    )
}

fn name(space: &str) -> Name {
    Name::label("namespace", space).unwrap()
}

/// A pod whose image has a name that no registry can have, and a secret in the message.
pub(crate) async fn break_pod(cluster: &Cluster, space: &str, pod: &str) {
    let message = format!("couldn't parse image name, password={SECRET}");
    let waiting = json!({"reason": "InvalidImageName", "message": message});
    set_state(cluster, space, pod, json!({"waiting": waiting})).await;
}

pub(crate) async fn mend_pod(cluster: &Cluster, space: &str, pod: &str) {
    let running = json!({"startedAt": "2026-01-01T00:00:00Z"});
    set_state(cluster, space, pod, json!({"running": running})).await;
}

async fn set_state(cluster: &Cluster, space: &str, pod: &str, state: Value) {
    let container = json!({
        "name": "app", "image": "web", "imageID": "", "restartCount": 0, "ready": false,
        "state": state,
    });
    let status = json!({"phase": "Pending", "containerStatuses": [container]});
    let set = cluster.set_pod_status(space, pod, status);
    set.await.unwrap();
}

/// Waits until the list is this one, by object and detector.
async fn until(view: &IncidentView, expected: &[&str]) {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let snapshot = view.snapshot();
        let open = snapshot.open.iter();
        let open: Vec<_> = open
            .map(|incident| format!("{} {}", incident.object, incident.detector))
            .collect();
        if open == expected {
            return;
        }
        assert!(Instant::now() < deadline, "{open:?} {:?}", snapshot.notes);
        sleep(Duration::from_millis(50)).await;
    }
}

async fn until_announced(announcements: &Announcements, expected: &[&str]) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while announcements.words() != expected {
        let words = announcements.words();
        assert!(Instant::now() < deadline, "{words:?}");
        sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn what_a_status_says_opens_and_resolves_and_its_secrets_are_never_seen() {
    let Some(bed) = testbed::shared() else { return };
    let (cluster, space) = (bed.dev(), "incidents-life");
    cluster
        .create_cluster_wide(&namespace(space))
        .await
        .unwrap();
    let file = one_context(cluster, User::Admin);
    let watches = watches(&file.path);
    let announcements = Arc::<Announcements>::default();
    let follower = Arc::clone(&announcements) as _;
    let view = watches
        .follow(&Viewer::Everything, None, Some(&name(space)), follower)
        .await;
    let view = view.unwrap();
    assert_eq!(view.snapshot().notes, [""; 0], "every kind can be read");
    until(&view, &[]).await;
    cluster.create(&pod(space, "web", &["app"])).await.unwrap();
    break_pod(cluster, space, "web").await;
    until(&view, &["incidents-life/pod/web image-name"]).await;
    until_announced(&announcements, &["Opened"]).await;
    let shown = format!("{:?} {:?}", view.snapshot(), announcements.0.lock());
    assert!(shown.contains("couldn't parse image name"), "{shown}");
    assert!(!shown.contains(SECRET), "{shown}");
    mend_pod(cluster, space, "web").await;
    until(&view, &[]).await;
    until_announced(&announcements, &["Opened", "Resolved"]).await;
    assert_eq!(view.snapshot().resolved.len(), 1);
}

#[tokio::test]
async fn a_role_in_a_namespace_gets_its_incidents_and_is_told_what_is_not_seen() {
    let Some(bed) = testbed::shared() else { return };
    let (cluster, space) = (bed.dev(), "team-a");
    let one = pod(space, "incident-of-team", &["app"]);
    cluster.create(&one).await.unwrap();
    break_pod(cluster, space, "incident-of-team").await;
    let file = one_context(cluster, User::TeamA);
    let watches = watches(&file.path);
    let caller = ShareKey::Process;
    let view = watches
        .read(&caller, &Viewer::Everything, None, Some(&name(space)))
        .await;
    let snapshot = view.unwrap().snapshot();
    let mut objects = snapshot.open.iter().map(|one| one.object.to_string());
    assert!(objects.any(|one| one == "team-a/pod/incident-of-team"));
    let [note] = snapshot.notes.as_slice() else {
        panic!("{:?}", snapshot.notes)
    };
    for expected in [
        "may not be read",
        "nodes",
        "not seen without",
        "node-pressure",
    ] {
        assert!(note.contains(expected), "{note}");
    }
    assert!(!note.contains("crash-loop"), "{note}");
    let whole = watches.read(&caller, &Viewer::Everything, None, None).await;
    assert_eq!(whole.unwrap_err().kind(), ErrorKind::Forbidden);
}

/// The API server is killed and its history compacted, so that everything is listed anew.
#[tokio::test]
async fn an_outage_announces_nothing_of_what_is_still_there() {
    let Some(bed) = testbed::shared() else { return };
    let cluster = bed.fresh("incident-outage", Options::default());
    let space = "shop";
    cluster
        .create_cluster_wide(&namespace(space))
        .await
        .unwrap();
    for sick in ["stays", "mends"] {
        cluster.create(&pod(space, sick, &["app"])).await.unwrap();
        break_pod(&cluster, space, sick).await;
    }
    let file = one_context(&cluster, User::Admin);
    let watches = watches(&file.path);
    let announcements = Arc::<Announcements>::default();
    let follower = Arc::clone(&announcements) as _;
    let view = watches
        .follow(&Viewer::Everything, None, Some(&name(space)), follower)
        .await;
    let view = view.unwrap();
    let both = ["shop/pod/mends image-name", "shop/pod/stays image-name"];
    assert_eq!(view.snapshot().open.len(), 2);
    cluster.kill_api().unwrap();
    sleep(Duration::from_secs(3)).await;
    assert_eq!(view.snapshot().open.len(), 2, "they are as they were");
    cluster.start_api().await.unwrap();
    cluster.compact().await.unwrap();
    mend_pod(&cluster, space, "mends").await;
    until(&view, &both[1..]).await;
    until_announced(&announcements, &["Resolved"]).await;
    assert!(announcements.0.lock()[0].contains("shop/pod/mends"));
    mend_pod(&cluster, space, "stays").await;
    until_announced(&announcements, &["Resolved", "Resolved"]).await;
    assert_eq!(view.snapshot().notes, [""; 0]);
}

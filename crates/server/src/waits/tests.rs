//! Waits on a cluster in memory, on paused time.

use demo_cluster::DemoCluster;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::*;
use crate::{caller::Caller, viewers::Viewers};
use kubecrier_core::{
    filters::{FilterRequest, Mode},
    metrics::Metrics,
};
use kubecrier_k8s::{
    Allowed, Config, Contexts, Demo, DeniedKinds, IncidentSettings, IncidentWatches, TaskLimits,
};
use kubecrier_lifecycle::Lifecycle;
use kubecrier_redact::Redactor;

const MINUTE: Duration = Duration::from_mins(1);

/// A cluster with two namespaces of one healthy pod each.
struct Fixture {
    cluster: DemoCluster,
    waits: Waits,
    stop: CancellationToken,
}

impl Fixture {
    fn new() -> Self {
        let cluster = DemoCluster::default();
        let contexts = Arc::new(Contexts::new(Config {
            kubeconfig: None,
            context: None,
            request_timeout: Duration::from_secs(5),
            redactor: Redactor::default(),
            demo: Some(Demo::new(&cluster)),
            denied: DeniedKinds::default(),
            allowed: Allowed::default(),
            identity: kubecrier_k8s::ClusterIdentity::default(),
        }));
        let limits = TaskLimits {
            total_max: 4,
            per_caller_max: 4,
        };
        let watches = IncidentWatches::new(
            Arc::clone(&contexts),
            Lifecycle::default(),
            Metrics::new().watch().clone(),
            MINUTE,
            limits,
            IncidentSettings::default(),
        );
        let incidents = Incidents::new(contexts, watches);
        let fixture = Self {
            waits: Waits::new(incidents, Viewers::Everything, WaitMetrics::default()),
            cluster,
            stop: CancellationToken::new(),
        };
        for space in ["shop", "bank"] {
            fixture
                .put(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}}));
            fixture.mend(space);
        }
        fixture
    }

    fn put(&self, object: Value) {
        self.cluster.put(object).unwrap();
    }

    fn pod(&self, space: &str, ready: &str, state: &Value) {
        self.put(json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"namespace": space, "name": "web", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"nodeName": "node-1", "containers": [{"name": "app", "image": "App"}]},
            "status": {
                "phase": if ready == "True" { "Running" } else { "Pending" },
                "conditions": [
                    {"type": "PodScheduled", "status": "True"},
                    {"type": "Ready", "status": ready, "lastTransitionTime": "2026-01-01T00:00:00Z"},
                ],
                "containerStatuses": [{
                    "name": "app", "image": "App", "imageID": "", "ready": ready == "True",
                    "restartCount": 0, "state": state,
                }],
            },
        }));
    }

    fn mend(&self, space: &str) {
        let running = json!({"running": {"startedAt": "2026-01-01T00:00:00Z"}});
        self.pod(space, "True", &running);
    }

    /// An incident at once: the image has a name that no registry can have.
    fn break_pod(&self, space: &str) {
        let message = "couldn't parse image name: repository name must be lowercase";
        let waiting = json!({"waiting": {"reason": "InvalidImageName", "message": message}});
        self.pod(space, "False", &waiting);
    }

    async fn wait(&self, request: &WaitRequest) -> Result<WaitOutcome, ToolError> {
        let requester = Requester::stateless(Caller::ANONYMOUS, None);
        self.waits
            .wait(&requester, request, |_waited| {}, &self.stop)
            .await
    }

    /// What a wait that must end before its time tells, and its cursor.
    async fn told(&self, request: &WaitRequest) -> (Vec<String>, String) {
        let outcome = timeout(request.timeout, self.wait(request)).await;
        let outcome = outcome.unwrap().unwrap();
        assert_eq!(outcome.gap, None);
        (words(&outcome), outcome.cursor)
    }
}

fn words(outcome: &WaitOutcome) -> Vec<String> {
    let notices = outcome.notices.iter();
    notices
        .map(|notice| {
            let word = format!("{:?}", notice.transition()).to_lowercase();
            format!("{word} {}", notice.incident().object)
        })
        .collect()
}

/// A wait of four minutes for what is opened in these namespaces.
fn request(spaces: &[&str]) -> WaitRequest {
    let filters = FilterRequest {
        mode: Mode::Incidents,
        namespaces: spaces.iter().map(ToString::to_string).collect(),
        ..FilterRequest::default()
    };
    WaitRequest {
        context: None,
        filters: filters.try_into().unwrap(),
        until: WaitUntil::Opened,
        cursor: None,
        timeout: 4 * MINUTE,
    }
}

fn after(cursor: &str, request: &WaitRequest) -> WaitRequest {
    WaitRequest {
        cursor: Some(cursor.to_owned()),
        ..request.clone()
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_with_what_is_opened_and_the_next_one_tells_what_was_missed() {
    let fixture = Fixture::new();
    let shop = request(&["shop"]);
    let breaks = async {
        sleep(MINUTE).await;
        fixture.break_pod("shop");
    };
    let ((told, cursor), ()) = tokio::join!(fixture.told(&shop), breaks);
    assert_eq!(told, ["opened shop/pod/web"]);

    // Nobody waits; it is over, and there again.
    fixture.mend("shop");
    sleep(MINUTE).await;
    fixture.break_pod("shop");
    sleep(MINUTE).await;
    let began = Instant::now();
    let (told, cursor) = fixture.told(&after(&cursor, &shop)).await;
    assert_eq!(told, ["resolved shop/pod/web", "opened shop/pod/web"]);
    assert!(began.elapsed() < MINUTE, "at once");

    let outcome = fixture.wait(&after(&cursor, &shop)).await.unwrap();
    assert_eq!(words(&outcome), [""; 0], "each thing is told once");
    assert_eq!(outcome.waited, 4 * MINUTE);
}

#[tokio::test(start_paused = true)]
async fn a_wait_hears_only_what_it_asked_for() {
    let fixture = Fixture::new();
    let shop = request(&["shop"]);
    let over = WaitRequest {
        until: WaitUntil::Resolved,
        ..shop.clone()
    };
    let story = async {
        for space in ["bank", "shop"] {
            sleep(MINUTE).await;
            fixture.break_pod(space);
        }
        sleep(MINUTE).await;
        fixture.mend("shop");
    };
    let (opened, resolved, ()) = tokio::join!(fixture.told(&shop), fixture.told(&over), story);
    assert_eq!(opened.0, ["opened shop/pod/web"]);
    assert_eq!(resolved.0, ["opened shop/pod/web", "resolved shop/pod/web"]);
}

#[tokio::test(start_paused = true)]
async fn a_wait_shows_that_it_is_alive_and_ends_with_nothing() {
    let fixture = Fixture::new();
    let ticks = Mutex::new(Vec::new());
    let requester = Requester::stateless(Caller::ANONYMOUS, None);
    let request = request(&["shop"]);
    let waiting = fixture.waits.wait(
        &requester,
        &request,
        |waited| ticks.lock().push(waited.as_secs()),
        &fixture.stop,
    );
    let outcome = waiting.await.unwrap();
    assert!(outcome.notices.is_empty() && outcome.gap.is_none());
    let ticks = ticks.into_inner();
    let expected: Vec<_> = (1..=11).map(|tick| tick * 20).collect();
    assert_eq!(ticks[..11], expected);
    // The server stops: the same answer, at once.
    let stop = async {
        sleep(MINUTE).await;
        fixture.stop.cancel();
    };
    let (outcome, ()) = tokio::join!(fixture.wait(&request), stop);
    let outcome = outcome.unwrap();
    assert!(outcome.draining && outcome.waited < 2 * MINUTE);
}

#[tokio::test(start_paused = true)]
async fn what_nobody_watched_is_a_gap() {
    let fixture = Fixture::new();
    let shop = request(&["shop"]);
    // Only the cursor is kept: a wait that has ended holds nothing.
    let cursor = fixture.wait(&shop).await.unwrap().cursor;
    // Longer than a watcher lives that nobody needs.
    sleep(10 * MINUTE).await;
    fixture.break_pod("shop");
    let outcome = fixture.wait(&after(&cursor, &shop)).await.unwrap();
    assert_eq!(outcome.gap, Some(WaitGap::Unwatched));
    assert!(outcome.waited < MINUTE, "at once");
    assert_eq!(outcome.read.open().len(), 1);
    let again = fixture.wait(&after(&outcome.cursor, &shop)).await.unwrap();
    assert_eq!((again.gap, again.notices.len()), (None, 0), "told once");

    let stranger = fixture.wait(&after("w-00000000.7", &shop)).await.unwrap();
    assert_eq!(stranger.gap, Some(WaitGap::Restarted));
    for cursor in ["yesterday", &format!("{}9", again.cursor)] {
        let refused = fixture.wait(&after(cursor, &shop)).await.unwrap_err();
        assert!(matches!(refused, ToolError::Arguments(_)), "{refused}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_thousand_waits_share_one_watcher_and_leave_nothing() {
    let fixture = Fixture::new();
    let shop = request(&["shop"]);
    let mut waits: Vec<_> = (0..1000).map(|_| Box::pin(fixture.wait(&shop))).collect();
    let all = futures_util::future::join_all(waits.iter_mut());
    assert!(timeout(MINUTE, all).await.is_err(), "nothing happens");
    assert_eq!(fixture.waits.metrics.open(), 1000);
    assert_eq!(fixture.cluster.requests("list", "pods"), 1);
    let left = waits.split_off(10);
    drop(left);
    assert_eq!(fixture.waits.metrics.open(), 10, "gone at once");
    fixture.break_pod("shop");
    for outcome in futures_util::future::join_all(waits).await {
        assert_eq!(words(&outcome.unwrap()), ["opened shop/pod/web"]);
    }
    assert_eq!(fixture.waits.metrics.open(), 0);
    assert_eq!(fixture.cluster.requests("list", "pods"), 1);
}

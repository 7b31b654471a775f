//! One watch, two users: each is told what Kubernetes lets it read, and nothing else, while
//! RoleBindings come and go.
//!
//! Every event that is made has a number in its message. Whatever a client receives, by whichever
//! way, is searched for these numbers, and each is held against what the user may read then.

mod derived;
mod oracle;
mod viewer;
mod withdrawn;

use std::time::Duration;

use serde_json::json;
use testbed::{Cluster, Options, User, event, namespace, pod};
use tokio::time::{Instant, sleep};

use self::{
    oracle::{Oracle, Way},
    viewer::Viewer,
};
use crate::harness::{Http, HttpSession, command, one_context};

/// The users, each with a token of its name.
const USERS: [&str; 2] = ["ann", "bob"];

/// The namespaces; nobody may ever read the last one.
const SPACES: [&str; 4] = ["eyes-a", "eyes-b", "eyes-c", "eyes-shut"];

/// A label of every pod. Nobody may read pods, so nobody may see it.
const LABEL: &str = "eyes-label-of-a-pod";

const STEPS: usize = 1100;

/// How long a right that is gone may still be seen in what is pushed.
const PUSHED_MAX: Duration = Duration::from_secs(30);

/// What the API server takes to follow a change of RBAC, and a message to be received.
const SLACK: Duration = Duration::from_millis(1500);

/// How long it may take until a right that is new counts.
const GRANTED_MAX: Duration = Duration::from_secs(12);

fn token(user: &str) -> String {
    format!("{user}-0123456789abcdef")
}

/// Steps of a generator with a fixed seed, so that a failure can be repeated.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^= value >> 31;
        usize::try_from(value % end as u64).unwrap()
    }
}

async fn furnish(cluster: &Cluster) {
    make_role(cluster).await;
    for space in SPACES {
        let made = cluster.create_cluster_wide(&namespace(space)).await;
        made.unwrap();
        let mut pod = pod(space, "web-0", &["app"]);
        pod.metadata.labels = Some([("owner".to_owned(), LABEL.to_owned())].into());
        cluster.create(&pod).await.unwrap();
    }
}

/// The role that reads events.
async fn make_role(cluster: &Cluster) {
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "eyes-events"},
        "rules": [{"apiGroups": [""], "resources": ["events"], "verbs": ["list", "watch"]}],
    });
    let path = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    cluster.send("POST", path, &role).await.unwrap();
}

/// Grants or withdraws the right of a user to read events of a namespace.
async fn bind(cluster: &Cluster, user: &str, space: &str, is_granted: bool) {
    bind_to(cluster, "eyes-events", user, space, is_granted).await;
}

/// The same for any role.
async fn bind_to(cluster: &Cluster, role: &str, user: &str, space: &str, is_granted: bool) {
    let path = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{space}/rolebindings");
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": user, "namespace": space},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    });
    let sent = if is_granted {
        cluster.send("POST", &path, &binding).await
    } else {
        let none = json!({});
        cluster
            .send("DELETE", &format!("{path}/{user}"), &none)
            .await
    };
    sent.unwrap();
}

async fn happen(cluster: &Cluster, oracle: &mut Oracle, space: &'static str) {
    let number = oracle.next_event(space);
    let message = format!("eyes-event-{number}-");
    let event = event(space, "Pod/web-0", "Warning", "Eyes", &message);
    cluster.create(&event).await.unwrap();
}

/// Items 3 and 4 of shared watches: nothing leaks, and what is allowed arrives.
#[tokio::test]
async fn a_shared_watch_tells_each_user_what_it_may_read() {
    let Some(bed) = testbed::shared() else { return };
    let cluster = &bed.fresh("eyes", Options::default());
    furnish(cluster).await;
    let file = one_context(cluster, User::Admin);
    let tokens = tempfile::NamedTempFile::new().unwrap();
    let lines = USERS.map(|user| format!("{user}:{} user={user}\n", token(user)));
    std::fs::write(tokens.path(), lines.concat()).unwrap();
    let kept = tempfile::tempdir().unwrap();
    let (server, base) = Http::launch(
        command()
            .arg("--kubeconfig")
            .arg(&file.path)
            .args(["--cluster-identity", "impersonate", "--auth-token-file"])
            .arg(tokens.path())
            .arg("--history")
            .arg(kept.path().join("history")),
    );
    let mut oracle = Oracle::new(&USERS, &SPACES);
    let mut viewers = Vec::new();
    for user in USERS {
        bind(cluster, user, SPACES[0], true).await;
        oracle.set(user, SPACES[0], true);
        let session = HttpSession::begin_as(&base, &token(user)).await;
        let mut viewer = Viewer::start(user, session).await;
        viewer.poll_modern(&mut oracle).await;
        viewers.push(viewer);
    }
    let seed = 20_261_118;
    let mut random = Random(seed);
    for step in 0..STEPS {
        let at = random.below(USERS.len());
        match random.below(60) {
            // The last namespace is never granted.
            0 => {
                let space = SPACES[random.below(SPACES.len() - 1)];
                let is_granted = !oracle.is_granted(USERS[at], space);
                bind(cluster, USERS[at], space, is_granted).await;
                oracle.set(USERS[at], space, is_granted);
            }
            1..=35 => happen(cluster, &mut oracle, SPACES[random.below(SPACES.len())]).await,
            36..=41 => viewers[at].poll(&mut oracle).await,
            42..=47 => viewers[at].poll_modern(&mut oracle).await,
            48..=50 => viewers[at].read(&mut oracle).await,
            51..=54 => viewers[at].reconnect(&mut oracle).await,
            55 | 56 => {
                let space = SPACES[random.below(SPACES.len() - 1)];
                viewers[at].search(&mut oracle, space).await;
            }
            _ => viewers[at].read_modern(&mut oracle).await,
        }
        for viewer in &mut viewers {
            viewer.receive(&mut oracle).await;
        }
        sleep(Duration::from_millis(30)).await;
        assert!(
            oracle.leaks().is_empty(),
            "step {step}, seed {seed}: {:?}",
            oracle.leaks()
        );
    }
    // With every right, everything arrives by every way.
    for user in USERS {
        for space in &SPACES[..SPACES.len() - 1] {
            if !oracle.is_granted(user, space) {
                bind(cluster, user, space, true).await;
                oracle.set(user, space, true);
            }
        }
    }
    sleep(GRANTED_MAX + Duration::from_millis(200)).await;
    for number in 0..60 {
        happen(cluster, &mut oracle, SPACES[number % SPACES.len()]).await;
        for viewer in &mut viewers {
            viewer.receive(&mut oracle).await;
        }
    }
    sleep(Duration::from_secs(7)).await;
    for viewer in &mut viewers {
        viewer.receive(&mut oracle).await;
        viewer.poll(&mut oracle).await;
        viewer.poll_modern(&mut oracle).await;
    }
    assert!(oracle.leaks().is_empty(), "{:?}", oracle.leaks());
    for way in [Way::Pushed, Way::Polled, Way::PolledModern] {
        let (expected, missing) = oracle.missing(way);
        assert!(expected > 50, "{way:?}: only {expected} are certain");
        assert!(
            missing.is_empty(),
            "{way:?}, seed {seed}: {missing:?}\n{}",
            server.log()
        );
    }
    // Without any right, nothing is seen any more: not what happens, and not what waited.
    for user in USERS {
        for space in SPACES {
            if oracle.is_granted(user, space) {
                bind(cluster, user, space, false).await;
                oracle.set(user, space, false);
            }
        }
    }
    let withdrawn = Instant::now();
    while withdrawn.elapsed() < PUSHED_MAX + SLACK {
        happen(cluster, &mut oracle, SPACES[random.below(SPACES.len())]).await;
        for viewer in &mut viewers {
            viewer.receive(&mut oracle).await;
        }
        sleep(Duration::from_millis(250)).await;
    }
    assert!(
        oracle.seen_after() <= PUSHED_MAX,
        "{:?}",
        oracle.seen_after()
    );
    println!(
        "a right that is gone was seen for up to {:?}",
        oracle.seen_after()
    );
    for viewer in &mut viewers {
        viewer.replay_all(&mut oracle).await;
        viewer.poll(&mut oracle).await;
        viewer.poll_modern(&mut oracle).await;
        viewer.read(&mut oracle).await;
        assert!(viewer.notices() > 0, "{} was told", viewer.user());
    }
    assert!(oracle.leaks().is_empty(), "{:?}", oracle.leaks());
    let metrics = viewers[0].metrics().await;
    let lines = metrics.lines();
    let reviews: Vec<_> = lines
        .filter(|line| line.starts_with("kubecrier_access"))
        .collect();
    assert!(!reviews.is_empty());
    println!("{}", reviews.join("\n"));
}

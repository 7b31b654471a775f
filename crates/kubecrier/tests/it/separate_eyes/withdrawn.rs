//! How long a right that is taken away is seen in what is pushed, and when its user is told.

use std::time::Duration;

use serde_json::json;
use testbed::{Cluster, Options, User, event, namespace};
use tokio::time::{Instant, sleep, timeout};

use super::{PUSHED_MAX, SLACK, bind, token};
use crate::harness::{Http, HttpSession, Stream, command, one_context};

const TRIALS: usize = 20;

/// In one of them something happens all the time, in the other nothing any more.
const BUSY: &str = "withdrawn-busy";
const IDLE: &str = "withdrawn-idle";

/// One user, and what was seen.
struct Trial {
    user: String,
    _session: HttpSession,
    stream: Stream,
    withdrawn: Instant,
    last_push: Duration,
    told_busy: Vec<Duration>,
    told_idle: Vec<Duration>,
}

async fn happen(cluster: &Cluster, space: &str) {
    let event = event(space, "Pod/web-0", "Warning", "Eyes", "withdrawn");
    cluster.create(&event).await.unwrap();
}

/// The middle and the longest of some times.
fn spread(mut times: Vec<Duration>) -> (Duration, Duration) {
    times.sort();
    (times[times.len() / 2], times[times.len() - 1])
}

#[tokio::test]
async fn a_withdrawn_binding_stops_pushes_and_is_told_once() {
    let Some(bed) = testbed::shared() else { return };
    let cluster = &bed.fresh("withdrawn", Options::default());
    super::make_role(cluster).await;
    for space in [BUSY, IDLE] {
        let made = cluster.create_cluster_wide(&namespace(space)).await;
        made.unwrap();
    }
    let users: Vec<_> = (0..TRIALS).map(|n| format!("user-{n:02}")).collect();
    let lines = users
        .iter()
        .map(|user| format!("{user}:{} user={user}\n", token(user)));
    let tokens = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(tokens.path(), lines.collect::<String>()).unwrap();
    let file = one_context(cluster, User::Admin);
    let (_server, base) = Http::launch(
        command()
            .arg("--kubeconfig")
            .arg(&file.path)
            .args(["--cluster-identity", "impersonate", "--auth-token-file"])
            .arg(tokens.path()),
    );
    for user in &users {
        for space in [BUSY, IDLE] {
            bind(cluster, user, space, true).await;
        }
    }
    sleep(SLACK).await;
    let mut trials = Vec::new();
    for user in users {
        let session = HttpSession::begin_as(&base, &token(&user)).await;
        let stream = session.stream(None).await;
        let level = json!({"level": "debug"});
        session.rpc("logging/setLevel", level).await;
        let filters = json!({"reason": "Eyes"});
        session.call("events_subscribe", filters).await.ok();
        trials.push(Trial {
            user,
            _session: session,
            stream,
            withdrawn: Instant::now(),
            last_push: Duration::ZERO,
            told_busy: Vec::new(),
            told_idle: Vec::new(),
        });
    }
    // The rights are of different age when they go, as they are in life.
    for _ in 0..40 {
        happen(cluster, BUSY).await;
        sleep(Duration::from_millis(200)).await;
    }
    happen(cluster, IDLE).await;
    sleep(Duration::from_secs(1)).await;
    for trial in &mut trials {
        while timeout(Duration::from_millis(2), trial.stream.next())
            .await
            .is_ok()
        {}
        for space in [BUSY, IDLE] {
            bind(cluster, &trial.user, space, false).await;
        }
        trial.withdrawn = Instant::now();
        sleep(Duration::from_millis(100)).await;
    }
    let began = Instant::now();
    while began.elapsed() < PUSHED_MAX + SLACK {
        happen(cluster, BUSY).await;
        for trial in &mut trials {
            while let Ok(message) = timeout(Duration::from_millis(1), trial.stream.next()).await {
                let (text, after) = (message.to_string(), trial.withdrawn.elapsed());
                let is_told = text.contains("\"withdrawn\":{");
                match (is_told, text.contains(IDLE)) {
                    (true, true) => trial.told_idle.push(after),
                    (true, false) => trial.told_busy.push(after),
                    (false, _) => trial.last_push = trial.last_push.max(after),
                }
            }
        }
        sleep(Duration::from_millis(100)).await;
    }
    for trial in &trials {
        let told = (trial.told_busy.len(), trial.told_idle.len());
        assert_eq!(told, (1, 1), "{} is told once of each", trial.user);
    }
    assert!(trials.iter().any(|one| !one.last_push.is_zero()));
    let of = |time: fn(&Trial) -> Duration| spread(trials.iter().map(time).collect());
    let (pushed, busy, idle) = (
        of(|one| one.last_push),
        of(|one| one.told_busy[0]),
        of(|one| one.told_idle[0]),
    );
    println!(
        "{TRIALS} trials, middle and longest: last push {pushed:?}, told where events come {busy:?}, told where none come {idle:?}"
    );
    for (_, longest) in [pushed, busy, idle] {
        assert!(longest <= PUSHED_MAX, "{longest:?}");
    }
}

mod limits;

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::time::{advance, sleep};

use super::*;
use crate::{
    faults::{
        signatures::detect,
        source::{ContainerFacts, LogSample, PodFacts},
        tail::cut,
    },
    metrics::Metrics,
};

/// A cluster whose pod and logs take their time.
#[derive(Clone)]
struct Fake {
    pod_takes: Duration,
    log_takes: Duration,
    /// How often the kubelet answers with an error message in place of the previous log.
    excuses: usize,
    pod: Result<Arc<PodFacts>, CaptureError>,
    seen: Arc<Seen>,
}

#[derive(Default)]
struct Seen {
    pods: AtomicUsize,
    logs: AtomicUsize,
    logs_previous: AtomicUsize,
    open: AtomicUsize,
    open_max: AtomicUsize,
}

impl Fake {
    fn new(containers: &[(&str, bool)], log_takes: Duration) -> Self {
        let containers = containers.iter().map(|(name, restarted)| ContainerFacts {
            name: (*name).to_owned(),
            restarted: *restarted,
        });
        let pod = PodFacts {
            uid: "u-1".to_owned(),
            containers: containers.collect(),
            ..PodFacts::default()
        };
        Self {
            pod_takes: Duration::ZERO,
            log_takes,
            excuses: 0,
            pod: Ok(Arc::new(pod)),
            seen: Arc::default(),
        }
    }

    fn logs(&self) -> usize {
        self.seen.logs.load(Ordering::SeqCst)
    }
}

struct Open<'a>(&'a Seen);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::SeqCst);
    }
}

impl EvidenceSource for Fake {
    fn pod<'a>(&'a self, _fault: &'a Fault) -> BoxFuture<'a, Result<Arc<PodFacts>, CaptureError>> {
        async {
            self.seen.pods.fetch_add(1, Ordering::SeqCst);
            sleep(self.pod_takes).await;
            self.pod.clone()
        }
        .boxed()
    }

    fn log<'a>(&'a self, request: &'a LogRequest) -> BoxFuture<'a, Result<LogSample, LogError>> {
        self.read(request).boxed()
    }
}

impl Fake {
    async fn read(&self, request: &LogRequest) -> Result<LogSample, LogError> {
        self.seen.logs.fetch_add(1, Ordering::SeqCst);
        let open = 1 + self.seen.open.fetch_add(1, Ordering::SeqCst);
        let _open = Open(&self.seen);
        self.seen.open_max.fetch_max(open, Ordering::SeqCst);
        if request.container != "quick" {
            sleep(self.log_takes).await;
        }
        if request.previous && self.seen.logs_previous.fetch_add(1, Ordering::SeqCst) < self.excuses
        {
            return Err(LogError::Kubelet(EXCUSE.to_owned()));
        }
        let text = format!("panic: in {}, {}\n", request.container, request.previous);
        Ok(LogSample {
            tail: cut(&text, request.bytes_max),
            signature: detect(&text),
            incomplete: None,
        })
    }
}

fn fault(cluster: &str, pod: &str) -> Fault {
    Fault {
        key: FaultKey {
            cluster: cluster.to_owned(),
            namespace: "shop".to_owned(),
            pod: pod.to_owned(),
            reason: "BackOff".to_owned(),
            count: 1,
        },
        uid: Some("u-1".to_owned()),
        container: None,
    }
}

/// Captures from the fake cluster.
async fn run(captures: &CapturePool, fake: &Fake, fault: &Fault) -> Captured {
    let source: Arc<dyn EvidenceSource> = Arc::new(fake.clone());
    captures.capture(&source, fault).await
}

fn captures(limits: CaptureLimits) -> (CapturePool, Metrics) {
    let metrics = Metrics::new();
    (CapturePool::new(limits, metrics.captures()), metrics)
}

fn errors(captured: &Captured) -> Vec<CaptureError> {
    captured
        .evidence
        .logs
        .iter()
        .filter_map(|entry| entry.error)
        .collect()
}

fn counted(metrics: &Metrics, line: &str) -> bool {
    let text = metrics.encode(0).unwrap();
    text.lines()
        .any(|one| one == format!("kubecrier_log_captures_{line}"))
}

const EXCUSE: &str = "unable to retrieve container logs for containerd://0af1";

const MS: Duration = Duration::from_millis(1);

#[tokio::test(start_paused = true)]
async fn current_and_previous_logs_come_side_by_side() {
    let (captures, metrics) = captures(CaptureLimits::default());
    let fake = Fake::new(&[("app", true), ("proxy", false)], 100 * MS);
    let began = Instant::now();
    let captured = run(&captures, &fake, &fault("dev", "web")).await;
    assert_eq!(began.elapsed(), 100 * MS, "not one after the other");
    let shown: Vec<_> = captured
        .evidence
        .logs
        .iter()
        .map(|one| (one.container.as_str(), one.previous, one.has_panic))
        .collect();
    assert_eq!(
        shown,
        [
            ("app", false, true),
            ("app", true, true),
            ("proxy", false, true)
        ]
    );
    assert!(counted(&metrics, "done_total 1") && counted(&metrics, "in_flight 0"));
    assert!(counted(&metrics, "seconds_count 1") && counted(&metrics, "throttled_total 0"));
}

#[tokio::test(start_paused = true)]
async fn many_subscribers_of_one_fault_cause_one_capture() {
    let (captures, metrics) = captures(CaptureLimits::default());
    let fake = Fake::new(&[("app", true)], 100 * MS);
    let web = fault("dev", "web");
    let all = join_all((0..20).map(|_| run(&captures, &fake, &web))).await;
    assert!(
        all.iter()
            .all(|one| Arc::ptr_eq(&one.evidence, &all[0].evidence))
    );
    assert_eq!((fake.seen.pods.load(Ordering::SeqCst), fake.logs()), (1, 2));
    assert!(counted(&metrics, "done_total 1"));
    // A late subscriber shares the capture, too, until the window is over.
    advance(Duration::from_secs(59)).await;
    run(&captures, &fake, &web).await;
    assert_eq!(fake.logs(), 2, "at 59 s");
    advance(Duration::from_secs(2)).await;
    run(&captures, &fake, &web).await;
    assert_eq!(fake.logs(), 4, "at 61 s");
    let mut again = web.clone();
    again.key.count = 2;
    run(&captures, &fake, &again).await;
    assert_eq!(fake.logs(), 6, "another count is another fault");
}

#[tokio::test(start_paused = true)]
async fn over_a_cap_the_answer_is_throttled_and_soon() {
    let (captures, metrics) = captures(CaptureLimits::default());
    let fake = Fake::new(&[("app", false)], Duration::from_secs(3));
    let pods: Vec<_> = (0..7).map(|n| fault("dev", &format!("web-{n}"))).collect();
    let capture = async |fault: &Fault| {
        let began = Instant::now();
        let captured = run(&captures, &fake, fault).await;
        (errors(&captured), began.elapsed())
    };
    let all = join_all(pods.iter().map(capture)).await;
    let throttled: Vec<_> = all
        .iter()
        .filter(|(errors, _)| *errors == [CaptureError::Throttled])
        .collect();
    assert_eq!(throttled.len(), 2, "5 of one cluster at once");
    assert!(throttled.iter().all(|(_, took)| *took == ACQUIRE_TIMEOUT));
    assert!(fake.seen.open_max.load(Ordering::SeqCst) <= 5);
    assert!(counted(&metrics, "throttled_total 2") && counted(&metrics, "done_total 5"));
    assert!(
        !counted(&metrics, "failed_total{reason=\"throttled\"} 2"),
        "counted once"
    );
    // A throttled answer is not kept: a later capture succeeds.
    let later = run(&captures, &fake, &pods[6]).await;
    assert_eq!(errors(&later), []);
}

#[tokio::test(start_paused = true)]
async fn a_burst_waits_its_turn_and_loses_no_evidence() {
    let (captures, metrics) = captures(CaptureLimits::default());
    let fake = Fake::new(&[("app", false)], 20 * MS);
    let pods: Vec<_> = (0..60).map(|n| fault("dev", &format!("web-{n}"))).collect();
    let began = Instant::now();
    let all = async { join_all(pods.iter().map(|one| run(&captures, &fake, one))).await };
    let watching = async {
        sleep(10 * MS).await;
        counted(&metrics, "in_flight 5") && counted(&metrics, "waiting 55")
    };
    let (all, waiting) = tokio::join!(all, watching);
    assert!(all.iter().all(|one| errors(one).is_empty()));
    assert_eq!(began.elapsed(), 240 * MS, "five at a time");
    assert_eq!(fake.seen.open_max.load(Ordering::SeqCst), 5);
    assert!(waiting && counted(&metrics, "waiting 0") && counted(&metrics, "throttled_total 0"));
}

#[tokio::test(start_paused = true)]
async fn those_who_wait_are_bounded_and_may_leave() {
    let limits = CaptureLimits {
        per_cluster: 1,
        ..CaptureLimits::default()
    };
    let (captures, metrics) = captures(limits);
    let fake = Fake::new(&[("app", false)], Duration::from_secs(3));
    let pods: Vec<_> = (0..25).map(|n| fault("dev", &format!("web-{n}"))).collect();
    let capture = async |fault: &Fault| {
        let began = Instant::now();
        let captured = run(&captures, &fake, fault).await;
        (errors(&captured).len(), began.elapsed())
    };
    let all = join_all(pods.iter().map(capture)).await;
    let after = |time| all.iter().filter(|one| **one == (1, time)).count();
    assert_eq!((after(ACQUIRE_TIMEOUT), after(Duration::ZERO)), (20, 4));
    // A capture that is given up makes room for another.
    let first = run(&captures, &fake, &pods[1]);
    let second = timeout(500 * MS, run(&captures, &fake, &pods[2]));
    let (captured, gone) = tokio::join!(first, second);
    assert!(errors(&captured).is_empty() && gone.is_err());
    assert!(counted(&metrics, "waiting 0") && counted(&metrics, "in_flight 0"));
}

#[tokio::test(start_paused = true)]
async fn waiting_is_a_part_of_the_deadline() {
    let limits = CaptureLimits {
        per_cluster: 1,
        ..CaptureLimits::default()
    };
    let (captures, _) = captures(limits);
    let brief = Fake::new(&[("app", false)], 900 * MS);
    let stuck = Fake::new(&[("app", false)], Duration::from_hours(1));
    let (web, db) = (fault("dev", "web"), fault("dev", "db"));
    let began = Instant::now();
    let (_, late) = tokio::join!(run(&captures, &brief, &web), run(&captures, &stuck, &db));
    assert_eq!(errors(&late), [CaptureError::Timeout]);
    assert_eq!(began.elapsed(), DEADLINE);
}

#[tokio::test(start_paused = true)]
async fn all_clusters_share_a_cap_and_none_waits_for_another() {
    let limits = CaptureLimits {
        per_cluster: 5,
        in_all: 8,
        ..CaptureLimits::default()
    };
    let (captures, _) = captures(limits);
    let fake = Fake::new(&[("a", true), ("b", true)], 1100 * MS);
    let pods: Vec<_> = (0..12)
        .map(|n| fault(["dev", "prod", "test"][n % 3], &format!("web-{n}")))
        .collect();
    let all = async { join_all(pods.iter().map(|one| run(&captures, &fake, one))).await };
    let watching = async {
        sleep(50 * MS).await;
        (captures.is_saturated("dev"), captures.is_saturated("other"))
    };
    let (all, saturated) = tokio::join!(all, watching);
    let throttled = all
        .iter()
        .filter(|one| errors(one) == [CaptureError::Throttled])
        .count();
    assert_eq!(throttled, 4);
    assert_eq!(saturated, (true, true), "all places are taken");
    assert!(!captures.is_saturated("dev"));
    assert_eq!(
        fake.seen.open_max.load(Ordering::SeqCst),
        8,
        "log requests keep to the cap too"
    );
    assert_eq!(fake.logs(), 8 * 4);
}

#[tokio::test(start_paused = true)]
async fn a_capture_ends_with_its_deadline_and_what_there_is() {
    let (captures, metrics) = captures(CaptureLimits::default());
    let fake = Fake::new(
        &[("quick", false), ("slow", false)],
        Duration::from_hours(1),
    );
    let began = Instant::now();
    let captured = run(&captures, &fake, &fault("dev", "web")).await;
    assert_eq!(began.elapsed(), DEADLINE);
    assert_eq!(errors(&captured), [CaptureError::Timeout]);
    assert!(
        captured.evidence.logs[0]
            .sample
            .as_ref()
            .is_some_and(|text| text.contains("quick"))
    );
    assert!(counted(&metrics, "failed_total{reason=\"timeout\"} 1"));
    let mut stuck = Fake::new(&[], Duration::ZERO);
    stuck.pod_takes = Duration::from_hours(1);
    let captured = run(&captures, &stuck, &fault("dev", "db")).await;
    assert_eq!(errors(&captured), [CaptureError::Timeout]);
    assert_eq!(captured.evidence.logs[0].container, "", "about the pod");
}

#[tokio::test(start_paused = true)]
async fn nobody_waiting_frees_the_place() {
    let limits = CaptureLimits {
        per_cluster: 1,
        ..CaptureLimits::default()
    };
    let (captures, metrics) = captures(limits);
    let fake = Fake::new(&[("app", false)], Duration::from_secs(3));
    let web = fault("dev", "web");
    let gone = timeout(Duration::from_secs(1), run(&captures, &fake, &web)).await;
    assert!(gone.is_err());
    assert!(!captures.is_saturated("dev") && counted(&metrics, "in_flight 0"));
    // One of two leaves: the other still gets it.
    let leaving = timeout(Duration::from_secs(1), run(&captures, &fake, &web));
    let (gone, captured) = tokio::join!(leaving, run(&captures, &fake, &web));
    assert!(gone.is_err());
    assert_eq!(errors(&captured), []);
    assert_eq!(fake.logs(), 2, "the abandoned one, and one for both");
}

#[tokio::test(start_paused = true)]
async fn five_containers_are_looked_at_and_the_rest_named() {
    let (captures, _) = captures(CaptureLimits::default());
    let names = ["a", "b", "c", "d", "e", "f", "g"];
    let fake = Fake::new(&names.map(|name| (name, false)), MS);
    let mut web = fault("dev", "web");
    web.container = Some("f".to_owned());
    let captured = run(&captures, &fake, &web).await;
    let shown: Vec<_> = captured
        .evidence
        .logs
        .iter()
        .map(|one| one.container.as_str())
        .collect();
    assert_eq!(shown, ["f", "a", "b", "c", "d"], "the event's own first");
    assert_eq!(captured.evidence.containers_omitted, ["e", "g"]);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_gone_is_said_so() {
    let (captures, _) = captures(CaptureLimits::default());
    let mut fake = Fake::new(&[("app", false)], MS);
    let mut replaced = fault("dev", "web");
    replaced.uid = Some("u-0".to_owned());
    let captured = run(&captures, &fake, &replaced).await;
    assert_eq!(
        (errors(&captured), fake.logs()),
        (vec![CaptureError::NotFound], 0),
        "another pod of that name"
    );
    fake.pod = Err(CaptureError::Forbidden);
    let captured = run(&captures, &fake, &fault("dev", "db")).await;
    assert_eq!(errors(&captured), [CaptureError::Forbidden]);
    let written = serde_json::to_value(&captured).unwrap();
    assert!(
        written["faultId"].is_string() && written["note"].as_str().unwrap().contains("untrusted")
    );
    assert!(written.get("context").is_none());
}

#[tokio::test(start_paused = true)]
async fn what_is_remembered_is_bounded() {
    let limits = CaptureLimits {
        log_bytes: 1 << 20,
        ..CaptureLimits::default()
    };
    let (captures, _) = captures(limits);
    let name = "x".repeat(200_000);
    let fake = Fake::new(&[(name.as_str(), true)], MS);
    for n in 0..60 {
        run(&captures, &fake, &fault("dev", &format!("web-{n}"))).await;
        let flights = captures.inner.flights.lock();
        assert!(flights.bytes <= FINISHED_BYTES_MAX);
        let real = flights.by_key.values().map(|flight| match flight {
            Flight::Finished(_, evidence) => evidence.bytes(),
            Flight::Running(_) => panic!("a finished capture counts as running"),
        });
        assert_eq!(flights.bytes, real.sum::<usize>());
    }
    captures.remove_expired();
    assert!(!captures.inner.flights.lock().by_key.is_empty());
    advance(Duration::from_secs(61)).await;
    captures.remove_expired();
    let flights = captures.inner.flights.lock();
    assert_eq!((flights.bytes, flights.by_key.len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_log_that_the_kubelet_excuses_is_asked_for_again_but_not_for_ever() {
    for (excuses, requests, takes) in [(1, 3, 300), (3, 5, 3300), (usize::MAX, 5, 3300)] {
        let limits = CaptureLimits {
            per_cluster: 1,
            ..CaptureLimits::default()
        };
        let (captures, metrics) = captures(limits);
        let mut fake = Fake::new(&[("app", true)], Duration::ZERO);
        fake.excuses = excuses;
        let began = Instant::now();
        let (web, other) = (fault("dev", "web"), fault("dev", "other"));
        let healthy = Fake::new(&[("app", false)], Duration::ZERO);
        let (captured, beside) = tokio::join!(run(&captures, &fake, &web), async {
            sleep(100 * MS).await;
            run(&captures, &healthy, &other).await
        });
        assert_eq!(began.elapsed(), takes * MS, "{excuses} excuses");
        assert_eq!(fake.logs(), requests, "{excuses} excuses");
        assert_eq!(errors(&beside), [], "no other capture waits for it");
        let [current, previous] = &captured.evidence.logs[..] else {
            panic!("{captured:?}");
        };
        assert!(current.sample.is_some() && current.message.is_none());
        if excuses < 4 {
            assert_eq!((previous.error, &previous.message), (None, &None));
            let sample = previous.sample.as_ref().unwrap();
            assert!(sample.contains("in app, true"), "{sample}");
        } else {
            let previous = serde_json::to_value(previous).unwrap();
            let expected = serde_json::json!({"container": "app", "previous": true, "hasPanic": false,
                "error": "unavailable", "message": EXCUSE});
            assert_eq!(previous, expected);
            assert!(counted(&metrics, "failed_total{reason=\"unavailable\"} 1"));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_excuse_outlives_the_deadline_and_never_becomes_a_timeout() {
    let (captures, _) = captures(CaptureLimits::default());
    let mut fake = Fake::new(&[("app", true)], 1500 * MS);
    fake.excuses = usize::MAX;
    let began = Instant::now();
    let captured = run(&captures, &fake, &fault("dev", "web")).await;
    assert!(began.elapsed() <= DEADLINE, "{:?}", began.elapsed());
    assert_eq!(errors(&captured), [CaptureError::Unavailable]);
    assert_eq!(captured.evidence.logs[1].message.as_deref(), Some(EXCUSE));
}

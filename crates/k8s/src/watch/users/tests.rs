use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::{AtomicBool, Ordering},
};

use futures_util::future::BoxFuture;
use tokio::time::advance;

use super::*;
use kubecrier_core::{
    EventFields, InvolvedObject, KubernetesUser,
    access::{AccessDecisions, AccessQuestion, AccessReviewer, ReviewError, Viewer},
    metrics::Metrics,
    subscriptions::Listener,
};
use kubecrier_lifecycle::Lifecycle;

/// An authorizer whose rules a test changes: users and questions.
#[derive(Clone, Default)]
struct Authorizer {
    granted: Arc<Mutex<BTreeSet<(String, String)>>>,
    asked: Arc<Mutex<Vec<String>>>,
    is_down: Arc<AtomicBool>,
}

impl Authorizer {
    fn set(&self, user: &str, question: &str, is_granted: bool) {
        let key = (user.to_owned(), question.to_owned());
        let mut granted = self.granted.lock();
        if is_granted {
            granted.insert(key);
        } else {
            granted.remove(&key);
        }
    }
}

impl AccessReviewer for Authorizer {
    fn review<'a>(
        &'a self,
        _context: &'a str,
        user: &'a KubernetesUser,
        question: &'a AccessQuestion,
    ) -> BoxFuture<'a, Result<bool, ReviewError>> {
        Box::pin(async move {
            let key = (user.name().to_owned(), question.to_string());
            let is_granted = self.granted.lock().contains(&key);
            self.asked.lock().push(question.to_string());
            // The second namespace of a test takes longer than the first.
            let slow = question.to_string().contains("slow");
            sleep(Duration::from_millis(if slow { 2000 } else { 20 })).await;
            if self.is_down.load(Ordering::Relaxed) {
                return Err(ReviewError("down".to_owned()));
            }
            Ok(is_granted)
        })
    }
}

/// A subscriber that notes what it gets, as lines.
struct Recorder {
    viewer: Viewer,
    lines: Mutex<Vec<String>>,
    events: Mutex<Vec<Arc<Event>>>,
}

impl Recorder {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.lines.lock())
    }
}

impl Listener for Recorder {
    fn wants(&self, event: &Event) -> bool {
        event.reason != "Unwanted"
    }

    fn viewer(&self) -> Viewer {
        self.viewer.clone()
    }

    fn on_events(self: Arc<Self>, events: &[&Arc<Event>]) {
        let line = |event: &&Arc<Event>| {
            let labels = event.labels.shown().values().cloned();
            let labels: String = labels.map(|value| format!(" {value}")).collect();
            format!("{}/{}{labels}", event.namespace, event.message)
        };
        self.lines.lock().extend(events.iter().map(line));
        self.events.lock().extend(events.iter().copied().cloned());
    }

    fn on_withdrawn(&self, namespace: &str) {
        self.lines.lock().push(format!("withdrawn {namespace}"));
    }

    fn on_status(&self, _watch: u64, status: &WatchStatus) {
        self.lines.lock().push(format!("{status:?}"));
    }
}

struct Fixture {
    authorizer: Authorizer,
    decisions: AccessDecisions,
    subscribers: Arc<Subscribers>,
    count: u64,
}

impl Fixture {
    fn new() -> Self {
        let authorizer = Authorizer::default();
        let metrics = Metrics::new().access();
        let decisions = AccessDecisions::new(authorizer.clone(), Lifecycle::default(), metrics);
        Self {
            authorizer,
            decisions,
            subscribers: Subscribers::new("dev"),
            count: 0,
        }
    }

    fn join(&mut self, user: Option<&str>) -> Arc<Recorder> {
        let viewer = user.map(|name| {
            let groups = ["dev"];
            let user = Arc::new(KubernetesUser::new(name, groups).unwrap());
            self.decisions.viewer(&user)
        });
        let recorder = Arc::new(Recorder {
            viewer: viewer.unwrap_or_default(),
            lines: Mutex::default(),
            events: Mutex::default(),
        });
        self.count += 1;
        self.subscribers.add(self.count, 0, recorder.clone());
        recorder
    }

    /// Delivers events of these namespaces, numbered by their messages.
    fn deliver(&self, events: &[(&str, &str)]) {
        let cohort = self.subscribers.cohort();
        let events: Vec<_> = events
            .iter()
            .map(|(namespace, message)| (Arc::new(event(namespace, message)), cohort))
            .collect();
        self.subscribers.deliver(&events);
    }

    async fn pass(&self, millis: u64) {
        for _ in 0..millis / 10 {
            advance(Duration::from_millis(10)).await;
            for _ in 0..5 {
                yield_now().await;
            }
        }
    }
}

fn event(namespace: &str, message: &str) -> Event {
    let labels: BTreeMap<_, _> = [("app".to_owned(), "label".to_owned())].into();
    let fields = EventFields {
        namespace: namespace.to_owned(),
        message: message.to_owned(),
        involved: InvolvedObject {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            name: "web".to_owned(),
            namespace: namespace.to_owned(),
            ..InvolvedObject::default()
        },
        ..EventFields::default()
    };
    Event {
        labels: labels.into(),
        ..fields.into()
    }
}

fn events_in(namespace: &str) -> String {
    format!("list events in `{namespace}`")
}

#[tokio::test(start_paused = true)]
async fn what_is_not_known_waits_in_order_and_holds_up_no_other_namespace() {
    let mut fixture = Fixture::new();
    let all = fixture.join(None);
    let ann = fixture.join(Some("ann"));
    for namespace in ["slow", "fast"] {
        fixture.authorizer.set("ann", &events_in(namespace), true);
        fixture
            .authorizer
            .set("ann", &format!("get pods in `{namespace}`"), true);
    }
    fixture.deliver(&[("slow", "1"), ("fast", "2"), ("none", "3")]);
    assert_eq!(
        all.take(),
        ["slow/1 label", "fast/2 label", "none/3 label"],
        "at once"
    );
    assert_eq!(ann.take(), [""; 0], "nothing before it is known");
    fixture.pass(500).await;
    assert_eq!(ann.take(), ["fast/2 label"]);
    fixture.deliver(&[("slow", "4"), ("fast", "5"), ("slow", "6"), ("none", "7")]);
    assert_eq!(ann.take(), ["fast/5 label"]);
    fixture.pass(6000).await;
    assert_eq!(ann.take(), ["slow/1 label", "slow/4 label", "slow/6 label"]);
    fixture.deliver(&[("slow", "8"), ("fast", "9")]);
    assert_eq!(ann.take(), ["slow/8 label", "fast/9 label"]);
}

/// Labels were read from another object than the event.
#[tokio::test(start_paused = true)]
async fn what_users_see_without_labels_is_kept_once_for_all() {
    let mut fixture = Fixture::new();
    let users = ["ann", "bob", "cid"].map(|name| {
        fixture.authorizer.set(name, &events_in("shop"), true);
        fixture.join(Some(name))
    });
    // The first waits until it is known what they may see, the second does not.
    for message in ["1", "2"] {
        fixture.deliver(&[("shop", message)]);
        fixture.pass(200).await;
    }
    let [ann, bob, cid] = users.map(|user| user.events.lock().clone());
    assert_eq!(ann.len(), 2);
    for at in 0..2 {
        assert!(ann[at].labels.is_empty());
        assert!(Arc::ptr_eq(&ann[at], &bob[at]) && Arc::ptr_eq(&ann[at], &cid[at]));
    }
}

#[tokio::test(start_paused = true)]
async fn labels_are_shown_to_who_may_read_the_object() {
    let mut fixture = Fixture::new();
    let (ann, bob) = (fixture.join(Some("ann")), fixture.join(Some("bob")));
    fixture.authorizer.set("ann", &events_in("shop"), true);
    fixture
        .authorizer
        .set("bob", "list events in the whole cluster", true);
    fixture.authorizer.set("bob", "get pods in `shop`", true);
    for message in ["1", "2"] {
        fixture.deliver(&[("shop", message)]);
        fixture.pass(500).await;
        assert_eq!(ann.take(), [format!("shop/{message}")]);
        assert_eq!(bob.take(), [format!("shop/{message} label")]);
    }
    let foreign = |api_version: &str| {
        let mut event = event("shop", "x");
        event.involved.api_version = api_version.to_owned();
        let cohort = fixture.subscribers.cohort();
        fixture.subscribers.deliver(&[(Arc::new(event), cohort)]);
        bob.take()
    };
    assert_eq!(
        foreign("example.com/v1"),
        ["shop/x"],
        "another kind of that name"
    );
    assert_eq!(foreign(""), ["shop/x label"]);
}

#[tokio::test(start_paused = true)]
async fn a_right_that_goes_is_told_once_and_one_that_comes_back_counts() {
    let mut fixture = Fixture::new();
    let (one, other) = (fixture.join(Some("ann")), fixture.join(Some("ann")));
    let question = events_in("shop");
    fixture.authorizer.set("ann", &question, true);
    fixture.deliver(&[("shop", "1")]);
    fixture.pass(500).await;
    assert_eq!(
        (one.take(), other.take()),
        (vec!["shop/1".to_owned()], vec!["shop/1".to_owned()])
    );
    let asked = fixture.authorizer.asked.lock().len();
    assert_eq!(
        asked, 4,
        "for both subscribers: cluster and namespace, events and pods"
    );
    fixture.authorizer.set("ann", &question, false);
    let mut lines = Vec::new();
    for _ in 0..40 {
        fixture.pass(1000).await;
        fixture.deliver(&[("shop", "2")]);
        lines.extend(one.take());
    }
    let told = lines
        .iter()
        .position(|line| line == "withdrawn shop")
        .unwrap();
    assert!(told < 31, "seconds until it is gone");
    assert!(lines[..told].iter().all(|line| line == "shop/2"));
    assert_eq!(
        lines.len(),
        told + 1,
        "nothing after it, and once: {lines:?}"
    );
    fixture.authorizer.set("ann", &question, true);
    fixture.pass(11_000).await;
    fixture.deliver(&[("shop", "3")]);
    fixture.pass(500).await;
    assert_eq!(one.take(), ["shop/3"]);
}

#[tokio::test(start_paused = true)]
async fn what_nobody_can_decide_is_a_gap_and_leaves_nothing_behind() {
    let mut fixture = Fixture::new();
    let ann = fixture.join(Some("ann"));
    fixture.authorizer.set("ann", &events_in("shop"), true);
    fixture.authorizer.is_down.store(true, Ordering::Relaxed);
    for _ in 0..2 * PARKED_MAX {
        fixture.deliver(&[("shop", "1")]);
    }
    fixture.authorizer.is_down.store(false, Ordering::Relaxed);
    fixture.pass(4000).await;
    let lines = ann.take();
    let (last, events) = lines.split_last().unwrap();
    assert_eq!(events.len(), PARKED_MAX);
    assert!(last.contains("Gap") && !last.contains("1024"), "{last}");
    fixture.authorizer.is_down.store(true, Ordering::Relaxed);
    fixture.pass(31_000).await;
    fixture.deliver(&[("shop", "2"), ("shop", "Unwanted")]);
    fixture.pass(8000).await;
    let lines = ann.take();
    assert!(
        matches!(&lines[..], [gap] if gap.contains("events are left out")),
        "{lines:?}"
    );
    fixture.authorizer.is_down.store(false, Ordering::Relaxed);
    fixture.deliver(&[("shop", "3")]);
    // What was asked while it was down is tried again within a second.
    fixture.pass(2000).await;
    assert_eq!(ann.take(), ["shop/3"]);
}

#[tokio::test(start_paused = true)]
async fn who_leaves_while_it_is_asked_gets_nothing() {
    let mut fixture = Fixture::new();
    let ann = fixture.join(Some("ann"));
    fixture.authorizer.set("ann", &events_in("shop"), true);
    fixture.deliver(&[("shop", "1")]);
    fixture.subscribers.remove(1);
    assert_eq!(fixture.subscribers.len(), 0);
    fixture.pass(1000).await;
    assert_eq!(ann.take(), [""; 0]);
    // Who joins while it is asked gets what comes after that, in a group of its own.
    let late = fixture.join(Some("ann"));
    fixture.deliver(&[("shop", "2")]);
    assert_eq!(late.take(), ["shop/2"]);
}

/// Who loses a right is told so once, though nothing happens there any more.
#[tokio::test(start_paused = true)]
async fn a_right_that_goes_while_nothing_happens_is_told() {
    let mut fixture = Fixture::new();
    let shop = "list events in `shop`";
    fixture.authorizer.set("ann", shop, true);
    let ann = fixture.join(Some("ann"));
    fixture.deliver(&[("shop", "1")]);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(ann.take(), ["shop/1"]);
    sleep(Duration::from_mins(2)).await;
    assert_eq!(ann.take(), [""; 0]);
    fixture.authorizer.set("ann", shop, false);
    sleep(Duration::from_secs(30)).await;
    assert_eq!(ann.take(), ["withdrawn shop"]);
    sleep(Duration::from_mins(2)).await;
    fixture.deliver(&[("shop", "2")]);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(ann.take(), [""; 0]);
    fixture.authorizer.set("ann", shop, true);
    sleep(Duration::from_secs(15)).await;
    fixture.deliver(&[("shop", "3")]);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(ann.take(), ["shop/3"]);
    // Nobody is asked about who is gone.
    fixture.subscribers.remove(1);
    drop(ann);
    sleep(Duration::from_secs(20)).await;
    fixture.authorizer.asked.lock().clear();
    sleep(Duration::from_mins(2)).await;
    assert_eq!(*fixture.authorizer.asked.lock(), [""; 0]);
}

/// Also if they are many more than are looked at together.
#[tokio::test(start_paused = true)]
async fn rights_in_many_namespaces_are_all_followed() {
    const COUNT: usize = 3 * FOLLOWED_MAX + 1;
    let mut fixture = Fixture::new();
    let ann = fixture.join(Some("ann"));
    let names: Vec<_> = (0..COUNT).map(|number| format!("ns-{number:03}")).collect();
    for some in names.chunks(50) {
        for name in some {
            fixture.authorizer.set("ann", &events_in(name), true);
            fixture.deliver(&[(name, "1")]);
        }
        // Only so much is asked about one user in a second.
        sleep(Duration::from_secs(4)).await;
    }
    assert_eq!(ann.take().len(), COUNT);
    for name in &names {
        fixture.authorizer.set("ann", &events_in(name), false);
    }
    sleep(Duration::from_mins(1)).await;
    let mut told = ann.take();
    told.sort();
    let expected: Vec<_> = names
        .iter()
        .map(|name| format!("withdrawn {name}"))
        .collect();
    assert_eq!(told, expected);
}

/// How many events there were, and in which namespace something fails, is for who may read all.
#[tokio::test(start_paused = true)]
async fn what_is_told_of_the_watch_itself_names_nothing_to_a_user() {
    let mut fixture = Fixture::new();
    let (all, ann) = (fixture.join(None), fixture.join(Some("ann")));
    let gap = WatchStatus::Gap {
        since: Timestamp::UNIX_EPOCH,
        detail: "4711 were recovered".to_owned(),
    };
    let degraded = WatchStatus::Degraded {
        error: "forbidden in `secret-plans`".to_owned(),
    };
    fixture.subscribers.notify_status(&gap);
    fixture.subscribers.notify_status(&degraded);
    let late = fixture.join(Some("bob"));
    fixture.subscribers.replay_status(3, &*late);
    let lines = all.take().join("\n");
    assert!(
        lines.contains("4711") && lines.contains("secret-plans"),
        "{lines}"
    );
    let lines = [ann.take(), late.take()].concat();
    assert_eq!(lines.len(), 3, "{lines:?}");
    for line in lines {
        assert!(!line.contains("4711") && !line.contains("secret"), "{line}");
    }
}

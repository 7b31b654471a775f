mod turns;

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
};

use futures_util::future::{BoxFuture, join_all};
use mcp_notify::{Admission, Gate as _};
use parking_lot::Mutex;
use tokio::{
    task::JoinSet,
    time::{Duration, Instant, advance, sleep},
};

use super::*;
use crate::{KubernetesUser, metrics::Metrics};
use kubecrier_lifecycle::Lifecycle;
use std::sync::Arc;

/// An authorizer whose rules a test changes.
#[derive(Clone, Default)]
pub(crate) struct Authorizer(Arc<Rules>);

#[derive(Default)]
struct Rules {
    granted: Mutex<BTreeSet<(String, String)>>,
    asked: Mutex<Vec<String>>,
    running: AtomicUsize,
    running_max: AtomicUsize,
    is_down: AtomicBool,
    /// Contexts whose server never answers, and those that answer with an error at once.
    silent: Mutex<BTreeSet<String>>,
    failing: Mutex<BTreeSet<String>>,
}

impl Authorizer {
    /// How long a review takes.
    pub(crate) const TAKES: Duration = Duration::from_millis(50);

    /// Grants or withdraws what a question says, such as `list events in `shop``.
    pub(crate) fn set(&self, user: &str, question: &str, is_granted: bool) {
        let key = (user.to_owned(), question.to_owned());
        let mut granted = self.0.granted.lock();
        if is_granted {
            granted.insert(key);
        } else {
            granted.remove(&key);
        }
    }

    pub(crate) fn set_down(&self, is_down: bool) {
        self.0.is_down.store(is_down, Ordering::Relaxed);
    }

    /// What was asked since the last call.
    pub(crate) fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.asked.lock())
    }

    pub(crate) fn decisions(&self) -> AccessDecisions {
        AccessDecisions::new(self.clone(), Lifecycle::default(), Metrics::new().access())
    }
}

/// A review that runs, until it has an answer or is given up.
struct Running<'a>(&'a Rules);

impl<'a> Running<'a> {
    fn begin(rules: &'a Rules) -> Self {
        let running = rules.running.fetch_add(1, Ordering::Relaxed) + 1;
        rules.running_max.fetch_max(running, Ordering::Relaxed);
        Self(rules)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Relaxed);
    }
}

impl AccessReviewer for Authorizer {
    fn review<'a>(
        &'a self,
        context: &'a str,
        user: &'a KubernetesUser,
        question: &'a AccessQuestion,
    ) -> BoxFuture<'a, Result<bool, ReviewError>> {
        Box::pin(async move {
            let _running = Running::begin(&self.0);
            // What holds when it is asked is the answer, however late that comes.
            let key = (user.name().to_owned(), question.to_string());
            // What is granted everywhere is granted in each namespace.
            let everywhere = question.everywhere();
            let wide = everywhere.map(|wide| (user.name().to_owned(), wide.to_string()));
            let is_granted = {
                let granted = self.0.granted.lock();
                granted.contains(&key) || wide.is_some_and(|wide| granted.contains(&wide))
            };
            self.0.asked.lock().push(question.to_string());
            if self.0.silent.lock().contains(context) {
                return std::future::pending().await;
            }
            if self.0.failing.lock().contains(context) {
                return Err(ReviewError("refused".to_owned()));
            }
            sleep(Self::TAKES).await;
            if self.0.is_down.load(Ordering::Relaxed) {
                return Err(ReviewError("down".to_owned()));
            }
            Ok(is_granted)
        })
    }
}

pub(crate) fn user(name: &str) -> Arc<KubernetesUser> {
    Arc::new(KubernetesUser::new(name, ["dev"]).unwrap())
}

pub(crate) fn view(decisions: &AccessDecisions, name: &str) -> Arc<UserView> {
    let viewer = decisions.viewer(&user(name));
    Arc::clone(viewer.user().unwrap())
}

const WIDE: &str = "list events in the whole cluster";
const SHOP: &str = "list events in `shop`";

fn shop(view: &Arc<UserView>) -> Arc<Right> {
    view.right("dev", Action::LIST_EVENTS, "shop")
}

fn known(right: &Arc<Right>) -> Option<bool> {
    match right.check() {
        Verdict::Allowed => Some(true),
        Verdict::Denied => Some(false),
        Verdict::Pending(_) => None,
    }
}

#[tokio::test(start_paused = true)]
async fn the_whole_cluster_is_asked_about_first_and_concurrent_questions_are_one() {
    let authorizer = Authorizer::default();
    let decisions = authorizer.decisions();
    let ann = view(&decisions, "ann");
    authorizer.set("ann", SHOP, true);
    let rights: Vec<_> = (0..50).map(|_| shop(&ann)).collect();
    let answers = join_all(rights.iter().map(Right::decide)).await;
    assert!(answers.into_iter().all(Answer::is_allowed));
    assert_eq!(authorizer.asked(), [WIDE, SHOP]);
    assert_eq!(known(&shop(&ann)), Some(true));
    let bob = view(&decisions, "bob");
    authorizer.set("bob", WIDE, true);
    assert_eq!(shop(&bob).decide().await, Answer::Allowed);
    let other = bob.right("dev", Action::LIST_EVENTS, "other");
    assert_eq!(other.decide().await, Answer::Allowed);
    assert_eq!(
        authorizer.asked(),
        [WIDE],
        "who may read all is asked about once"
    );
    // Another context is another cluster, and other groups are another user.
    let elsewhere = ann.right("prod", Action::LIST_EVENTS, "shop");
    assert_eq!(known(&elsewhere), None);
    let changed = Arc::new(KubernetesUser::new("ann", ["ops"]).unwrap());
    assert_ne!(decisions.viewer(&changed), decisions.viewer(&user("ann")));
    assert_eq!(decisions.viewer(&user("ann")), Viewer::User(ann));
}

/// A right that goes is gone within 30 seconds, one that comes is there within 10, and a
/// stream in steady use never waits for an answer.
#[tokio::test(start_paused = true)]
async fn a_right_goes_in_time_and_nothing_waits_for_it() {
    let authorizer = Authorizer::default();
    let decisions = authorizer.decisions();
    let right = shop(&view(&decisions, "ann"));
    authorizer.set("ann", SHOP, true);
    assert_eq!(right.decide().await, Answer::Allowed);
    for _ in 0..1000 {
        advance(Duration::from_millis(200)).await;
        tokio::task::yield_now().await;
        assert_eq!(known(&right), Some(true), "in use");
    }
    let asked = authorizer.asked().len();
    assert!(
        (10..20).contains(&asked),
        "200 s with a right: {asked} reviews"
    );
    authorizer.set("ann", SHOP, false);
    let withdrawn = Instant::now();
    while known(&right) != Some(false) {
        advance(Duration::from_millis(100)).await;
        tokio::task::yield_now().await;
    }
    let took = withdrawn.elapsed();
    assert!(took <= Duration::from_secs(30), "{took:?}");
    authorizer.set("ann", SHOP, true);
    let granted = Instant::now();
    while known(&right) != Some(true) {
        advance(Duration::from_millis(100)).await;
        tokio::task::yield_now().await;
    }
    assert!(granted.elapsed() <= Duration::from_secs(11));
}

/// The reviews of many users have to fit into what is asked in a second, and nearly all have
/// rights in namespaces alone.
#[tokio::test(start_paused = true)]
async fn who_may_not_read_everything_is_seldom_asked_about_everything() {
    let authorizer = Authorizer::default();
    let decisions = authorizer.decisions();
    let ann = view(&decisions, "ann");
    let (shop, other) = (shop(&ann), ann.right("dev", Action::LIST_EVENTS, "other"));
    authorizer.set("ann", SHOP, true);
    for _ in 0..1200 {
        let _answers = (known(&shop), known(&other));
        advance(Duration::from_millis(100)).await;
        tokio::task::yield_now().await;
    }
    let asked = authorizer.asked();
    let wide = asked.iter().filter(|question| *question == WIDE).count();
    assert!((1..=2).contains(&wide), "two minutes: {wide} of {asked:?}");
    assert!(asked.len() <= 24, "{} reviews", asked.len());
    // A right to everything counts as soon as one that is granted in the namespace.
    authorizer.set("ann", WIDE, true);
    let granted = Instant::now();
    while known(&other) != Some(true) {
        advance(Duration::from_millis(100)).await;
        tokio::task::yield_now().await;
    }
    assert!(granted.elapsed() <= Duration::from_secs(11));
}

#[tokio::test(start_paused = true)]
async fn a_right_that_is_not_used_is_not_believed_after_its_time() {
    let authorizer = Authorizer::default();
    let decisions = authorizer.decisions();
    let right = shop(&view(&decisions, "ann"));
    authorizer.set("ann", SHOP, true);
    assert_eq!(right.decide().await, Answer::Allowed);
    authorizer.set("ann", SHOP, false);
    advance(Duration::from_secs(30)).await;
    assert_eq!(known(&right), None, "not even for the first one");
    assert_eq!(right.decide().await, Answer::Denied);
}

/// What is answered to a request is decided at that moment.
#[tokio::test(start_paused = true)]
async fn an_answer_is_asked_for_anew_when_it_has_to_be() {
    let authorizer = Authorizer::default();
    let decisions = authorizer.decisions();
    let right = shop(&view(&decisions, "ann"));
    for question in [SHOP, WIDE] {
        authorizer.set("ann", question, true);
        assert_eq!(right.decide_since(Instant::now()).await, Answer::Allowed);
        // Asked before the right went, answered after that: it does not count.
        advance(Duration::from_secs(16)).await;
        assert_eq!(known(&right), Some(true));
        tokio::task::yield_now().await;
        authorizer.set("ann", question, false);
        advance(Duration::from_millis(1)).await;
        assert_eq!(right.decide_since(Instant::now()).await, Answer::Denied);
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_is_held_for_a_while_and_not_remembered() {
    let authorizer = Authorizer::default();
    let decisions = authorizer.decisions();
    let right = shop(&view(&decisions, "ann"));
    authorizer.set("ann", SHOP, true);
    authorizer.set_down(true);
    let began = Instant::now();
    assert_eq!(right.decide().await, Answer::Unknown);
    assert!((4..=6).contains(&began.elapsed().as_secs()));
    assert!(authorizer.asked().len() > 2, "tried again meanwhile");
    authorizer.set_down(false);
    assert_eq!(right.decide().await, Answer::Allowed, "at once");
    authorizer.set_down(true);
    advance(Duration::from_secs(20)).await;
    assert_eq!(
        known(&right),
        Some(true),
        "what was answered holds for its time"
    );
    advance(Duration::from_secs(10)).await;
    assert_eq!(known(&right), None, "and no longer");
    assert_eq!(right.decide().await, Answer::Unknown);
}

#[tokio::test(start_paused = true)]
async fn a_gate_needs_all_its_rights() {
    let authorizer = Authorizer::default();
    let decisions = authorizer.decisions();
    let ann = view(&decisions, "ann");
    let (events, logs) = (shop(&ann), ann.right("dev", Action::GET_LOGS, "shop"));
    let gate = Gate::new([events, logs]);
    let admitted = async || match gate.admit() {
        Admission::Open => true,
        Admission::Pending(answer) => answer.await,
        _ => false,
    };
    authorizer.set("ann", SHOP, true);
    assert!(!admitted().await);
    assert!(matches!(gate.admit(), Admission::Shut));
    authorizer.set("ann", "get pods/log in `shop`", true);
    advance(Duration::from_secs(10)).await;
    assert!(admitted().await);
    assert!(matches!(gate.admit(), Admission::Open));
}

fn listed(plural: &'static str, namespaced: bool) -> ScopedAction {
    let action = Action::list_named("", plural);
    ScopedAction { action, namespaced }
}

/// Pods first, a kind of namespaces, a kind of the cluster.
fn listed_kinds() -> Arc<[ScopedAction]> {
    Arc::new([
        listed("pods", true),
        listed("services", true),
        listed("nodes", false),
    ])
}

#[tokio::test(start_paused = true)]
async fn what_is_derived_from_many_kinds_is_decided_together() {
    let authorizer = Authorizer::default();
    let decisions = authorizer.decisions();
    let ann = view(&decisions, "ann");
    authorizer.set("ann", "list pods in `shop`", true);
    authorizer.set("ann", "list services in `shop`", true);
    authorizer.set("ann", "list services in `other`", true);
    let actions = listed_kinds();
    let decide = async |within: Within<'_>, since| {
        Clearance::decide(&ann, "dev", &actions, within, since).await
    };
    let shop = decide(Within::Namespace("shop"), None).await.unwrap();
    let missing: Vec<_> = shop.missing().map(ToString::to_string).collect();
    assert_eq!(missing, ["list nodes"]);
    assert!(!shop.is_nothing() && !shop.is_cut());
    assert!(
        decide(Within::Namespace("third"), None)
            .await
            .unwrap()
            .is_nothing()
    );
    // In a cluster, the first kind decides which namespaces are looked at.
    let names = ["", "other", "shop", "third"].map(Arc::from).into();
    let all = decide(Within::Cluster(&names), None).await.unwrap();
    let sees = |clearance: &Clearance, kind: usize, namespace: &str| {
        clearance.extent(kind).unwrap().contains(namespace)
    };
    assert!(sees(&all, 0, "shop") && sees(&all, 1, "shop"));
    assert!(!sees(&all, 0, "other") && !sees(&all, 1, "other") && !sees(&all, 2, ""));
    assert_eq!(all.missing().count(), 3);
    authorizer.set("ann", "list pods in the whole cluster", true);
    authorizer.set("ann", "list pods in `shop`", false);
    authorizer.set("ann", "list services in `shop`", false);
    let now = Some(Instant::now());
    let later = decide(Within::Cluster(&names), now).await.unwrap();
    assert!(sees(&later, 0, "third") && sees(&later, 1, "other") && !sees(&later, 1, "shop"));
    assert!(!later.covers(&all) && !all.covers(&later) && !later.is_same(&all));
    assert!(later.covers(&later.clone()) && all.is_same(&all.clone()));
    // What was derived from `shop` needs what it was derived from.
    let gate = all.gate(&["shop".into()].into());
    let asked: Vec<_> = gate
        .rights()
        .iter()
        .map(|right| right.question().to_string())
        .collect();
    assert_eq!(asked, ["list pods in `shop`", "list services in `shop`"]);
    advance(Duration::from_secs(40)).await;
    authorizer.set_down(true);
    assert_eq!(
        decide(Within::Namespace("shop"), None).await.err(),
        Some(Undecided)
    );
}

#[tokio::test(start_paused = true)]
async fn of_very_many_namespaces_some_are_looked_at_and_that_is_said() {
    let authorizer = Authorizer::default();
    let decisions = authorizer.decisions();
    let ann = view(&decisions, "ann");
    let name = |n: usize| format!("ns-{n:03}");
    for n in 0..30 {
        authorizer.set("ann", &format!("list pods in `{}`", name(n)), true);
    }
    let names = (0..100).map(|n| name(n).into()).collect();
    let actions = listed_kinds();
    let decided = Clearance::decide(&ann, "dev", &actions, Within::Cluster(&names), None);
    let decided = decided.await.unwrap();
    assert!(decided.is_cut());
    let seen = (0..100).filter(|n| decided.extent(0).unwrap().contains(&name(*n)));
    assert_eq!(seen.collect::<Vec<_>>(), (0..12).collect::<Vec<_>>());
    assert!(authorizer.asked().len() < 100);
}

/// Whoever was asked before says nothing about what may be read now.
#[tokio::test(start_paused = true)]
async fn a_context_that_names_another_cluster_is_asked_again() {
    let authorizer = Authorizer::default();
    let decisions = authorizer.decisions();
    let ann = view(&decisions, "ann");
    authorizer.set("ann", SHOP, true);
    let elsewhere = ann.right("prod", Action::LIST_EVENTS, "shop");
    assert_eq!(elsewhere.decide().await, Answer::Allowed);
    assert_eq!(shop(&ann).decide().await, Answer::Allowed);
    assert_eq!(authorizer.asked(), [WIDE, SHOP, WIDE, SHOP]);
    decisions.forget("dev");
    decisions.forget("unknown");
    advance(Duration::from_millis(1)).await;
    authorizer.set("ann", SHOP, false);
    assert_eq!(known(&elsewhere), Some(true), "it is the same as before");
    assert_eq!(known(&shop(&ann)), None);
    assert_eq!(shop(&ann).decide().await, Answer::Denied);
    assert_eq!(authorizer.asked(), [WIDE, SHOP]);
    // Nor does an answer count that is on its way meanwhile.
    authorizer.set("ann", WIDE, true);
    advance(Duration::from_secs(11)).await;
    let right = shop(&ann);
    let forgetting = async {
        sleep(Authorizer::TAKES / 2).await;
        decisions.forget("dev");
    };
    let (answer, ()) = tokio::join!(right.decide(), forgetting);
    assert_eq!(answer, Answer::Unknown);
    assert_eq!(known(&shop(&ann)), None);
    assert_eq!(shop(&ann).decide().await, Answer::Allowed);
}

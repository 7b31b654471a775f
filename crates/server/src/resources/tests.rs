use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use futures_util::future::BoxFuture;
use rmcp::ErrorData;
use serde_json::json;

use super::*;
use crate::{caller::Caller, shared_reads::SharedRead, viewers::Viewers};
use kubecrier_core::{
    KubernetesUser, ResourceType,
    access::{AccessDecisions, AccessQuestion, AccessReviewer, ReviewError},
    metrics::AccessMetrics,
};
use kubecrier_lifecycle::Lifecycle;

/// Notes, `note:///<name>`, of which `note:///own/<session>` is one session's.
#[derive(Clone, Default)]
pub(crate) struct Notes {
    /// How many URIs are followed now, and how many ever were.
    pub(crate) followed: Arc<AtomicUsize>,
    pub(crate) begun: Arc<AtomicUsize>,
    /// More of them, for `list_changed`.
    pub(crate) more: Arc<AtomicUsize>,
}

impl ResourceProvider for Notes {
    fn owns(&self, uri: &str) -> bool {
        uri.starts_with("note:///")
    }

    fn shared_updates(&self) -> Option<SharedRead> {
        None
    }

    fn list(&self, requester: &Requester) -> Vec<Resource> {
        let mut all = vec![Resource::new("note:///shared", "shared")];
        for n in 0..self.more.load(Ordering::Relaxed) {
            all.push(Resource::new(format!("note:///{n}"), "more"));
        }
        if let Some(session) = &requester.session {
            let uri = format!("note:///own/{}", session.id());
            all.push(Resource::new(uri, "own"));
        }
        all
    }

    fn templates(&self) -> Vec<ResourceTemplate> {
        vec![ResourceTemplate::new("note:///{name}", "note")]
    }

    fn read<'a>(&'a self, uri: &'a str, requester: &'a Requester) -> ReadFuture<'a> {
        Box::pin(async move {
            self.may_subscribe(uri, requester)?;
            Ok(vec![ResourceContents::text("remember", uri)])
        })
    }

    fn may_subscribe(&self, uri: &str, requester: &Requester) -> Result<(), ResourceError> {
        let own = uri.strip_prefix("note:///own/");
        let ours = requester
            .session
            .as_ref()
            .map(|session| session.id().as_ref());
        if own.is_some() && own != ours {
            return Err(ResourceError::not_found(uri));
        }
        Ok(())
    }

    fn follow(&self, uri: &str, updates: &UpdatePublisher) -> FollowGuard {
        struct Ends(Arc<AtomicUsize>);
        impl Drop for Ends {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::Relaxed);
            }
        }
        assert!(updates.is_subscribed(uri));
        self.begun.fetch_add(1, Ordering::Relaxed);
        self.followed.fetch_add(1, Ordering::Relaxed);
        FollowGuard::new(Ends(Arc::clone(&self.followed)))
    }
}

fn requester(session: Option<&Session>) -> Requester {
    Requester {
        session: session.cloned(),
        caller: Caller::current(),
        peer: None,
        era: ProtocolEra::Legacy,
    }
}

fn code(error: ResourceError) -> i32 {
    ErrorData::from(error).code.0
}

#[tokio::test]
async fn a_uri_is_read_by_its_family_and_an_unknown_one_is_not_found() {
    let resources = Resources::new(
        vec![Box::new(Notes::default())],
        ToolFilter::default(),
        CallerShare::default(),
    );
    let session = Session::new("a");
    let own = resources
        .read("note:///own/a", &requester(Some(&session)))
        .await;
    assert_eq!(own.unwrap().len(), 1);
    for (uri, requester) in [
        ("note:///own/a", requester(None)),
        ("note:///own/a", requester(Some(&Session::new("b")))),
        ("other:///x", requester(None)),
    ] {
        let error = resources.read(uri, &requester).await.unwrap_err();
        assert!(error.to_string().contains(uri), "{error}");
        assert_eq!(code(error), -32002);
    }
    let names = |requester| resources.list(&requester).len();
    assert_eq!(
        (names(requester(None)), names(requester(Some(&session)))),
        (1, 2)
    );
    assert_eq!(resources.templates().len(), 1);
}

#[test]
fn a_uri_is_followed_while_anybody_is_subscribed_and_its_updates_are_one() {
    let notes = Notes::default();
    let resources = Resources::new(
        vec![Box::new(notes.clone())],
        ToolFilter::default(),
        CallerShare::default(),
    );
    let (a, b) = (Session::new("a"), Session::new("b"));
    for session in [&a, &b, &a] {
        let asked = resources.subscribe(session, "note:///shared", &requester(Some(session)));
        assert!(asked.is_ok());
    }
    assert!(matches!(
        resources.subscribe(&b, "note:///own/a", &requester(Some(&b))),
        Err(ResourceError::NotFound { .. })
    ));
    assert_eq!(notes.begun.load(Ordering::Relaxed), 1);
    let tell = || {
        let meta = json!({"example/seq": 1});
        let kind = Some(ResourceType::Events);
        resources
            .updates()
            .publish("note:///shared", kind, Some(&meta))
    };
    assert_eq!((tell(), tell()), (2, 2));
    assert_eq!(
        resources.updates().publish::<()>("note:///0", None, None),
        0
    );
    let account = a.outbox().stats();
    assert_eq!((account.pushed, account.merged), (2, 1));
    resources.unsubscribe(&a, "note:///shared");
    resources.unsubscribe(&a, "note:///nothing");
    assert_eq!(tell(), 1);
    assert_eq!(notes.followed.load(Ordering::Relaxed), 1);
    drop(b);
    assert_eq!(notes.followed.load(Ordering::Relaxed), 0);
    assert!(!resources.updates().is_subscribed("note:///shared"));
}

#[test]
fn a_listen_gets_what_there_is_once_each_and_no_more_than_a_client_holds() {
    let resources = Resources::new(
        vec![Box::new(Notes::default())],
        ToolFilter::default(),
        CallerShare::default(),
    );
    let mut uris = vec![
        "note:///a".to_owned(),
        "other:///x".to_owned(),
        "note:///a".to_owned(),
        "note:///own/a".to_owned(),
        String::new(),
    ];
    assert_eq!(resources.listenable(&uris, &requester(None)), ["note:///a"]);
    uris.extend((0..1000).map(|n| format!("note:///{n}")));
    let accepted = resources.listenable(&uris, &requester(None));
    assert_eq!(accepted.len(), LISTEN_URIS_MAX);
    let session = Session::new("listen");
    resources.listen(&session, &accepted, &requester(None));
    assert_eq!(session.outbox().stats().pushed, LISTEN_URIS_MAX as u64);
}

#[test]
fn a_listen_goes_on_without_what_was_refused_since() {
    let notes = Notes::default();
    let resources = Resources::new(
        vec![Box::new(notes.clone())],
        ToolFilter::default(),
        CallerShare::default(),
    );
    let session = Session::new("listen");
    let uris = ["note:///a", "note:///own/other", "note:///b"].map(str::to_owned);
    resources.listen(&session, &uris, &requester(None));
    assert_eq!(session.outbox().stats().pushed, 3, "told of each");
    assert_eq!(notes.followed.load(Ordering::Relaxed), 2);
    assert!(!resources.updates().is_subscribed("note:///own/other"));
}

/// Subscriptions to resources count for their caller, in all its sessions.
#[test]
fn a_caller_has_its_share_of_subscriptions_to_resources() {
    let mut resources = Resources::new(
        vec![Box::new(Notes::default())],
        ToolFilter::default(),
        CallerShare::default(),
    );
    let name = LimitName::new("subscriptions to resources", "");
    resources.subscriptions = SharedLimit::new(name, 4, CallerShare::HALF);
    let subscribe = |caller: &str, n: usize| {
        let session = Session::new("any");
        let requester = Requester {
            caller: Caller::named(caller),
            ..requester(Some(&session))
        };
        let subscribed = resources.subscribe(&session, &format!("note:///{n}"), &requester);
        subscribed.map(|_| session)
    };
    let greedy: Vec<_> = (0..4).map(|n| subscribe("greedy", n)).collect();
    let granted = greedy.iter().filter(|one| one.is_ok()).count();
    assert_eq!(granted, 2);
    let modest: Vec<_> = (0..2).map(|n| subscribe("modest", n)).collect();
    assert!(modest.iter().all(Result::is_ok));
    for session in greedy.into_iter().flatten() {
        session.close(mcp_notify::CloseReason::Requested);
    }
    assert_eq!(
        resources.subscriptions.used(),
        2,
        "what was refused or has ended"
    );
}

/// An authorizer that nobody asks in these tests.
struct Unasked;

impl AccessReviewer for Unasked {
    fn review<'a>(
        &'a self,
        _context: &'a str,
        _user: &'a KubernetesUser,
        _question: &'a AccessQuestion,
    ) -> BoxFuture<'a, Result<bool, ReviewError>> {
        Box::pin(std::future::ready(Ok(false)))
    }
}

/// Who sees the same is told the same; a user hears nothing that was meant for another.
#[test]
fn a_uri_is_followed_once_for_each_user_and_updates_reach_that_user_alone() {
    let decisions = AccessDecisions::new(Unasked, Lifecycle::default(), AccessMetrics::default());
    let notes = Notes::default();
    let (filter, share) = (ToolFilter::default(), CallerShare::default());
    let resources = Resources::new(vec![Box::new(notes.clone())], filter, share);
    let resources = resources.seen_by(Viewers::Users(decisions.clone()));
    let user = |name: &str| Arc::new(KubernetesUser::new(name, ["dev"]).unwrap());
    let of_user = |name: &str, session: &Session| Requester {
        caller: Caller::named(name).acting_as(user(name)),
        ..requester(Some(session))
    };
    let sessions = ["ann", "ann", "bob"].map(|name| (name, Session::new(name)));
    for (name, session) in &sessions {
        let asked = resources.subscribe(session, "note:///shared", &of_user(name, session));
        assert!(asked.is_ok());
    }
    assert_eq!(notes.begun.load(Ordering::Relaxed), 2, "one for each user");
    let tell = |name: &str| {
        let updates = resources.updates().seen_by(&decisions.viewer(&user(name)));
        updates.publish::<()>("note:///shared", None, None)
    };
    assert_eq!((tell("ann"), tell("bob"), tell("eve")), (2, 1, 0));
    assert_eq!(
        resources
            .updates()
            .publish::<()>("note:///shared", None, None),
        0,
        "nobody sees everything"
    );
    let [(_, first), (_, second), (_, bob)] = &sessions;
    for (session, told) in [(first, 1), (second, 1), (bob, 1)] {
        assert_eq!(session.outbox().stats().pushed, told);
    }
    resources.unsubscribe(bob, "note:///shared");
    assert_eq!((tell("ann"), tell("bob")), (2, 0));
    assert_eq!(notes.followed.load(Ordering::Relaxed), 1);
    let nobody = resources.subscribe(first, "note:///shared", &requester(Some(first)));
    assert!(
        matches!(&nobody, Err(ResourceError::Refused(why)) if why.contains("no Kubernetes user")),
        "{nobody:?}"
    );
}

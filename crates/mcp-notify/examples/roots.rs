//! Roots: a client announces changes of its roots, and the server fetches them once the
//! burst is over, to know which files it may serve.
//!
//! `cargo run -p mcp-notify --features roots --example roots`

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mcp_notify::{Root, RootsClient, RootsFuture, RootsPage, RootsTracker, Session};
use tokio::sync::mpsc;

/// A client with two pages of roots. With rmcp this is `mcp_notify::rmcp::PeerRoots`.
#[derive(Clone, Default)]
struct Client {
    requests: Arc<AtomicUsize>,
}

impl RootsClient for Client {
    fn list<'a>(&'a self, _: &'a Session, cursor: Option<String>) -> RootsFuture<'a> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let page = match cursor {
            None => RootsPage::followed_by(vec![Root::new("file:///src")], "second"),
            Some(_) => RootsPage::last(vec![Root::new("file:///docs").named("Docs")]),
        };
        Box::pin(std::future::ready(Ok(page)))
    }
}

/// Whether the client lets the server read the file.
fn may_read(roots: &RootsTracker, session: &Session, uri: &str) -> bool {
    let snapshot = roots.snapshot(session);
    let roots = snapshot.iter().flat_map(|snapshot| &snapshot.roots);
    roots.into_iter().any(|root| {
        uri.strip_prefix(&root.uri)
            .is_some_and(|rest| rest.starts_with('/'))
    })
}

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (client, session) = (Client::default(), Session::new("example"));
    let roots = RootsTracker::new(client.clone());
    assert!(!may_read(&roots, &session, "file:///docs/a.md"));

    // Ten changes in a row are one fetch of both pages.
    for _ in 0..10 {
        roots.list_changed(&session);
    }
    let (changed, mut changes) = mpsc::unbounded_channel();
    let running = roots.run(move |_, snapshot| {
        let _ = changed.send(snapshot.version);
    });
    let version = tokio::select! {
        () = running => None,
        version = changes.recv() => version,
    };
    assert_eq!(version, Some(1));
    assert_eq!(client.requests.load(Ordering::Relaxed), 2);
    assert!(may_read(&roots, &session, "file:///docs/a.md"));
    assert!(!may_read(&roots, &session, "file:///documents/a.md"));
    Ok(())
}

#[test]
fn a_burst_of_changes_is_one_fetch_and_roots_decide_what_is_read()
-> Result<(), Box<dyn std::error::Error>> {
    main()
}

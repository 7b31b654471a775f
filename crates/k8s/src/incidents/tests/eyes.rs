//! Incidents through the eyes of users: derived from what each may read.

use super::*;
use crate::scope_rights::fixture::Grants;
use futures_util::future::join_all;
use kubecrier_core::{access::Right, incident::IncidentNotice};

/// A right that is gone is noticed within this time.
const NOTICED: Duration = Duration::from_secs(31);

fn grant(grants: &Grants, user: &str, actions: &[&str], is_granted: bool) {
    for action in actions {
        grants.set(user, &format!("{action} in `shop`"), is_granted);
    }
}

async fn read(fixture: &Fixture, viewer: &Viewer) -> Result<Arc<IncidentSnapshot>, ClusterError> {
    let shop = Name::label("namespace", "shop").unwrap();
    let view = (fixture.watches)
        .read(&ShareKey::Process, viewer, None, Some(&shop))
        .await?;
    view.snapshot_for_answer().await
}

fn text(snapshot: &IncidentSnapshot) -> String {
    format!("{:?} {:?}", snapshot.open, snapshot.resolved)
}

/// The same crash: by its Deployment, by its pod, not at all, and with or without the words of
/// the log.
#[tokio::test(start_paused = true)]
async fn an_incident_is_made_of_what_its_reader_may_read() {
    let (fixture, grants) = (Fixture::new(), Grants::default());
    let log = "panic: no provider for eur";
    fixture.cluster.log("shop", "web-1-a", "app", log);
    fixture.cluster.restart_log("shop", "web-1-a", "app");
    fixture.crash("");
    let lists = [
        "list pods",
        "list replicasets.apps",
        "list deployments.apps",
    ];
    grant(&grants, "ann", &lists, true);
    grant(&grants, "ann", &["get pods/log"], true);
    grant(&grants, "bob", &["list pods"], true);
    grant(&grants, "cy", &["list services"], true);
    let [ann, bob, cy, eve] = ["ann", "bob", "cy", "eve"].map(|name| grants.viewer(name));
    let _whole = fixture.follow().await.unwrap();
    fixture.settle().await;
    let of_ann = read(&fixture, &ann).await.unwrap();
    assert_eq!(of_ann.open.len(), 1, "{of_ann:?}");
    assert_eq!(of_ann.open[0].object.to_string(), "shop/deployment/web");
    assert!(
        of_ann.open[0].why.contains("no provider for eur"),
        "{of_ann:?}"
    );
    let of_bob = read(&fixture, &bob).await.unwrap();
    assert_eq!(of_bob.open.len(), 1, "{of_bob:?}");
    assert_eq!(of_bob.open[0].object.to_string(), "shop/pod/web-1-a");
    let told = text(&of_bob);
    for hidden in [
        "Deployment",
        "deployment/",
        "ReplicaSet",
        "node-1",
        "no provider",
    ] {
        assert!(!told.contains(hidden), "{hidden} in {told}");
    }
    let note = of_bob.notes.join("\n");
    assert!(
        note.contains("you may not") && note.contains("get pods/log"),
        "{note}"
    );
    assert!(!of_ann.notes.join("\n").contains("list pods"));
    assert!(read(&fixture, &cy).await.unwrap().open.is_empty());
    let error = read(&fixture, &eve).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Forbidden, "{error}");
    assert_eq!(
        fixture.watches.len(),
        2,
        "the cluster, and the namespace once"
    );
}

#[tokio::test(start_paused = true)]
async fn a_right_that_goes_takes_everything_with_it_that_was_derived_from_it() {
    let (fixture, grants) = (Fixture::new(), Grants::default());
    let lists = [
        "list pods",
        "list replicasets.apps",
        "list deployments.apps",
    ];
    grant(&grants, "ann", &lists, true);
    grant(&grants, "ann", &["list services"], true);
    let (ann, follower) = (grants.viewer("ann"), Arc::clone(&fixture.follower));
    let shop = Name::label("namespace", "shop").unwrap();
    let watches = &fixture.watches;
    let view = watches.follow(&ann, None, Some(&shop), Arc::clone(&follower) as _);
    let view = view.await.unwrap();
    let from = watches.last_announced(&ann);
    fixture.crash("cannot bind :8080");
    fixture.pass(Duration::from_mins(2)).await;
    let updates = follower.0.lock().clone();
    let opened = updates.iter().flat_map(|update| {
        let clearance = update.clearance.clone().unwrap();
        let notices = update.transitions.iter();
        notices.map(move |one| {
            let notice = IncidentNotice::new(one, update.at);
            notice.gated(clearance.gate(&["shop".into()].into()))
        })
    });
    let opened: Vec<_> = opened.collect();
    assert_eq!(opened.len(), 1, "{opened:?}");
    assert_eq!(follower.announced(), ["opened shop/deployment/web"]);
    let snapshot = view.snapshot_for_answer().await.unwrap();
    let announced = view.announced_after(from, &snapshot);
    assert_eq!((announced.updates.len(), announced.gap), (1, false));
    grant(&grants, "ann", &["list pods"], false);
    fixture.pass(Duration::from_secs(1)).await;
    // An answer knows at once: of a Deployment without pods there is less to say.
    let snapshot = view.snapshot_for_answer().await.unwrap();
    assert!(!text(&snapshot).contains("web-1-a"), "{snapshot:?}");
    assert!(!text(&snapshot).contains("cannot bind"), "{snapshot:?}");
    let announced = view.announced_after(from, &snapshot);
    assert_eq!((announced.updates.len(), announced.gap), (0, true));
    // What waits to be sent needs the right as well.
    let rights = opened[0].gate().unwrap().rights();
    let answers = join_all(rights.iter().map(Right::decide)).await;
    let denied = rights
        .iter()
        .zip(answers)
        .filter(|(_, answer)| !answer.is_allowed());
    let denied: Vec<_> = denied
        .map(|(right, _)| right.question().to_string())
        .collect();
    assert_eq!(denied, ["list pods in `shop`"]);
    fixture.pass(NOTICED).await;
    let kept = view.snapshot();
    assert!(!text(&kept).contains("web-1-a"), "{kept:?}");
    // Nobody says to this user how it ended.
    fixture.well();
    fixture.pass(Duration::from_mins(5)).await;
    let announced = follower.announced().join("\n");
    assert!(!announced.contains("resolved"), "{announced}");
    grant(&grants, "ann", &lists, false);
    grant(&grants, "ann", &["list services"], false);
    fixture.pass(Duration::from_secs(1)).await;
    let error = view.snapshot_for_answer().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Forbidden, "{error}");
}

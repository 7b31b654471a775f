use mcp_notify::Session;

use super::*;
use crate::{
    incidents::tests::{crashing, snapshot, update},
    resources::Resources,
};
use kubecrier_core::shares::CallerShare;
use kubecrier_incidents::Severity;

fn notifier(session: &Session) -> IncidentsNotifier {
    let updates = Resources::new(Vec::new(), ToolFilter::default(), CallerShare::default())
        .updates()
        .clone();
    let uri = "k8s://dev/shop/incidents".to_owned();
    updates.subscriptions().subscribe(session, &uri).unwrap();
    IncidentsNotifier {
        uri,
        updates,
        redactor: Redactor::default(),
        notices: Arc::default(),
        progress: Mutex::default(),
    }
}

#[test]
fn an_update_is_published_for_transitions_and_for_nothing_else() {
    let session = Session::new("a");
    let notifier = notifier(&session);
    let pushed = || session.outbox().stats().pushed;
    let web = || vec![crashing("web", Severity::Critical, 1)];
    notifier.on_update(&update(2, web()));
    assert_eq!(pushed(), 0, "it has not begun");
    notifier.publish_start(&snapshot(web(), Vec::new()));
    assert_eq!(pushed(), 1);
    notifier.on_update(&update(3, web()));
    assert_eq!(pushed(), 1, "it began with that");
    notifier.on_update(&update(4, Vec::new()));
    assert_eq!(pushed(), 1, "nothing was opened, changed or resolved");
    notifier.on_update(&update(5, web()));
    assert_eq!(pushed(), 2);
}

#[test]
fn a_read_is_bounded_and_says_what_is_left_out() {
    let open = (0..200).map(|n| crashing(&format!("w{n}"), Severity::Warning, 40));
    let one = snapshot(open.collect(), vec![crashing("old", Severity::Info, 3)]);
    let content = content(&one, 30_000);
    assert!(content.to_string().len() <= 30_500);
    let shown = content["incidents"].as_array().unwrap().len();
    assert!(shown > 3);
    assert_eq!(content["more"]["incidents"], 200 - shown);
    let small = super::content(
        &snapshot(Vec::new(), vec![crashing("old", Severity::Info, 3)]),
        9_000,
    );
    assert_eq!(small["incidents"], json!([]));
    assert_eq!(small["resolved"][0]["durationSeconds"], 252);
    assert!(small.get("more").is_none());
}

#[tokio::test]
async fn the_words_of_a_cluster_leave_without_their_secrets() {
    use kubecrier_k8s::ErrorKind;
    let session = Session::new("a");
    let reason = "webhook said password=swordfish-1";
    let error = ClusterError::new(ErrorKind::Other, "cannot list pods", reason, None);
    notifier(&session).publish_failure(&error);
    let batch = session.outbox().reader().next().await.unwrap();
    let said = format!("{:?}", batch.front().unwrap());
    assert!(
        said.contains("webhook said") && !said.contains("swordfish"),
        "{said}"
    );
}

use jiff::SignedDuration;

use super::*;
use crate::incidents::tests::{crashing, snapshot};

const ASKED: Asked<'static> = Asked {
    in_context: None,
    namespace: None,
    least: None,
    since: Duration::from_hours(48),
    limit: 50,
};

fn kept(name: &str, state: PastState, occurrences: usize) -> PastIncident {
    PastIncident::of(crashing(name, Severity::Warning, 1), state, occurrences)
}

fn hours_ago(hours: i64) -> Timestamp {
    Timestamp::now() - SignedDuration::from_hours(hours)
}

fn resolved(hours: i64) -> PastState {
    PastState::Resolved {
        at: hours_ago(hours),
        after: SignedDuration::from_secs(300),
    }
}

fn list(asked: &Asked<'_>, past: Vec<PastIncident>, read: Option<&IncidentRead>) -> Output {
    let past = PastIncidents {
        all: past,
        caveats: vec!["the history begins 5h ago".to_owned()],
    };
    let list = PastList::new("dev".to_owned(), asked, hours_ago(48), past, read);
    list.show(&Redactor::default(), asked.limit, 20_000)
}

fn ids(output: &Output) -> Vec<&str> {
    let rows = output.data()["incidents"].as_array().unwrap().iter();
    rows.map(|row| row["id"].as_str().unwrap()).collect()
}

#[test]
fn each_incident_is_listed_once_with_its_newest_state() {
    let live = snapshot(
        vec![crashing("web", Severity::Critical, 3)],
        vec![crashing("late", Severity::Warning, 1)],
    );
    let read = IncidentRead::of(vec![live]);
    let past = vec![
        kept("old", resolved(20), 1),
        // Open again since.
        kept("web", resolved(3), 2),
        // Its end is not written yet.
        kept("late", PastState::Open, 1),
        kept("lost", PastState::GoneBy { at: hours_ago(5) }, 1),
    ];
    let shown = list(&ASKED, past, Some(&read));
    assert_eq!(ids(&shown), ["i-web", "i-late", "i-lost", "i-old"]);
    let rows = &shown.data()["incidents"];
    assert_eq!(
        (&rows[0]["status"], &rows[0]["occurrences"]),
        (&json!("open"), &json!(3))
    );
    assert_eq!(rows[0]["severity"], "critical");
    assert_eq!(
        (&rows[1]["status"], &rows[1]["durationSeconds"]),
        (&json!("resolved"), &json!(252))
    );
    assert_eq!(rows[1].get("occurrences"), None);
    assert_eq!(rows[2]["resolvedAtOrBefore"], true);
    assert_eq!(rows[2].get("durationSeconds"), None);
    let lines: Vec<_> = shown.text().lines().collect();
    assert!(
        lines[0].ends_with("i-web; open, began 4m ago, 3 times]"),
        "{}",
        lines[0]
    );
    assert!(lines[2].ends_with("over 5h ago or before]"), "{}", lines[2]);
    assert!(
        lines[3].ends_with("resolved 20h ago after 5m]"),
        "{}",
        lines[3]
    );
    assert_eq!(lines[4], "NOTE: the history begins 5h ago");
}

#[test]
fn filters_are_those_of_the_list_of_now() {
    let read = IncidentRead::of(vec![snapshot(Vec::new(), Vec::new())]);
    let past = || vec![kept("one", resolved(1), 1), kept("two", resolved(2), 1)];
    let severe = Asked {
        least: Some(Severity::Critical),
        ..ASKED
    };
    let shown = list(&severe, past(), Some(&read));
    assert_eq!(ids(&shown), [""; 0]);
    assert!(
        shown
            .text()
            .starts_with("Nothing was wrong in context `dev` in the last 2d")
    );
    let other = Name::label("namespace", "other").unwrap();
    let elsewhere = Asked {
        namespace: Some(&other),
        ..ASKED
    };
    assert_eq!(ids(&list(&elsewhere, past(), Some(&read))), [""; 0]);
    let shop = Name::label("namespace", "shop").unwrap();
    let here = Asked {
        namespace: Some(&shop),
        limit: 1,
        ..ASKED
    };
    let shown = list(&here, past(), Some(&read));
    assert_eq!(
        (ids(&shown), &shown.data()["more"]),
        (vec!["i-one"], &json!(1))
    );
    assert!(
        shown.text().contains("... 1 more; narrow by"),
        "{}",
        shown.text()
    );
}

#[test]
fn what_is_open_in_the_history_is_over_if_the_cluster_does_not_have_it() {
    let read = IncidentRead::of(vec![snapshot(Vec::new(), Vec::new())]);
    let past = || vec![kept("web", PastState::Open, 1)];
    let shown = list(&ASKED, past(), Some(&read));
    assert_eq!(shown.data()["incidents"][0]["resolvedAtOrBefore"], true);
    let unread = list(&ASKED, past(), None);
    assert_eq!(unread.data()["incidents"][0]["status"], "open");
    assert!(
        unread.text().contains("open when last seen"),
        "{}",
        unread.text()
    );
}

use super::*;
use crate::incidents::tests::{crashing, snapshot};

fn list(read: &IncidentRead, least: Option<Severity>, resolved: bool, limit: usize) -> Output {
    let list = IncidentList {
        read,
        namespace: None,
        least,
        resolved,
    };
    list.show(&Redactor::default(), limit, 20_000)
}

#[test]
fn a_line_begins_with_the_object_and_ends_with_severity_reason_and_id() {
    let open = vec![
        crashing("payment", Severity::Critical, 3),
        crashing("cart", Severity::Warning, 1),
    ];
    let over = vec![crashing("old", Severity::Critical, 1)];
    let read = IncidentRead::of(vec![snapshot(open, over)]);
    let shown = list(&read, None, false, 50);
    let lines: Vec<_> = shown.text().lines().collect();
    assert_eq!(lines.len(), 2, "{}", shown.text());
    assert!(lines[0].starts_with("shop/deployment/payment: all 3 pods crash"));
    let end = " [critical CrashLoopBackOff i-payment]";
    assert!(lines[0].ends_with(end), "{}", lines[0]);
    assert!(shown.text().len() <= 500, "{}", shown.text().len());
    let rows = shown.data()["incidents"].as_array().unwrap();
    assert_eq!(rows[0]["object"], "shop/deployment/payment");
    assert_eq!(shown.data().get("resolved"), None);
    let critical = list(&read, Some(Severity::Critical), true, 50);
    assert!(!critical.text().contains("i-cart"), "{}", critical.text());
    assert!(
        critical
            .text()
            .contains("Resolved lately:\nshop/deployment/old")
    );
    assert!(
        critical.text().contains("ago after 4m"),
        "{}",
        critical.text()
    );
    assert_eq!(critical.data()["resolved"][0]["durationSeconds"], 252);
    let one = list(&read, None, false, 1);
    assert!(
        one.text().contains("... 1 more; narrow by"),
        "{}",
        one.text()
    );
    assert_eq!(one.data()["more"], 1);
}

#[test]
fn nothing_wrong_is_one_sentence_and_what_is_not_seen_is_said_shortly() {
    let mut quiet = snapshot(Vec::new(), Vec::new());
    quiet.notes = (0..9)
        .map(|n| format!("kind{n} may not be listed: {}", "forbidden ".repeat(40)))
        .collect();
    let read = IncidentRead::of(vec![quiet]);
    let shown = list(&read, None, false, 50);
    let first = shown.text().lines().next().unwrap();
    assert!(
        first.starts_with("Nothing is wrong in context `dev`"),
        "{first}"
    );
    assert!(shown.text().len() <= 900, "{}", shown.text());
    assert!(shown.text().contains("6 more kinds"), "{}", shown.text());
    assert_eq!(shown.data()["notes"].as_array().unwrap().len(), 9);
    let least = list(&read, Some(Severity::Warning), false, 50);
    assert!(least.text().starts_with("Nothing is warning or worse"));
}

#[test]
fn a_row_of_a_large_incident_is_short() {
    let open = (0..300).map(|n| crashing(&format!("w{n}"), Severity::Warning, 40));
    let read = IncidentRead::of(vec![snapshot(open.collect(), Vec::new())]);
    let shown = list(&read, None, false, 200);
    let bytes = shown.text().len() + Value::Object(shown.data().clone()).to_string().len();
    assert!(bytes <= 21_000, "{bytes}");
    let rows = shown.data()["incidents"].as_array().unwrap();
    assert_eq!(rows[0]["effects"].as_array().unwrap().len(), EFFECTS_MAX);
    assert_eq!(rows[0]["effectsOmitted"], 35);
    assert_eq!(shown.data()["more"], 300 - rows.len());
}

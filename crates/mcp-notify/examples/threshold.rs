//! A tool that notifies: `check_threshold` returns whether a value exceeds a threshold,
//! and sends a custom notification to the client that called it.
//!
//! `cargo run -p mcp-notify --features context --example threshold`

use mcp_notify::{
    CustomMethod, Delivery, MethodError, Notification, OutboxItem, Session, current_session,
    with_session,
};
use serde::Serialize;

/// The default threshold.
const THRESHOLD: f64 = 10.0;

#[derive(Serialize)]
struct ThresholdParams {
    value: f64,
    threshold: f64,
    /// ISO 8601 time.
    exceeded_at: String,
}

/// The result of the tool. A client that ignores notifications has all information.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Answer {
    exceeded: bool,
}

/// The tool. It has no parameter for the session, which comes from the context.
async fn check_threshold(
    delivery: &Delivery,
    value: f64,
    threshold: Option<f64>,
) -> Result<Answer, MethodError> {
    let threshold = threshold.unwrap_or(THRESHOLD);
    let exceeded = value > threshold;
    // Outside of a request there is no recipient, which is not an error.
    if let (true, Some(session)) = (exceeded, current_session()) {
        let exceeded_at = jiff::Timestamp::now().to_string();
        let method = CustomMethod::new("notifications/threshold/exceeded")?;
        let params = ThresholdParams {
            value,
            threshold,
            exceeded_at,
        };
        // The delivery logs failures; the result does not depend on them.
        delivery
            .deliver(&session, &Notification::custom(method, &params))
            .await;
    }
    Ok(Answer { exceeded })
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let delivery = Delivery::default();
    let session = Session::new("example");

    let answer = with_session(session.clone(), check_threshold(&delivery, 42.0, None)).await?;
    assert_eq!(answer, Answer { exceeded: true });
    let answer = with_session(session.clone(), check_threshold(&delivery, 10.0, None)).await?;
    assert_eq!(answer, Answer { exceeded: false }, "equal is not more");
    let answer = check_threshold(&delivery, 42.0, Some(41.5)).await?;
    assert_eq!(
        answer,
        Answer { exceeded: true },
        "outside a request, and silent"
    );

    let mut batch = session.outbox().reader().next().await?;
    let sent: Vec<OutboxItem> = batch.deliver_all().collect();
    let [OutboxItem::Notification(sent)] = &sent[..] else {
        return Err("exactly one was sent".into());
    };
    let sent: serde_json::Value = serde_json::from_slice(sent.frame().map_err(Clone::clone)?)?;
    assert_eq!(sent["method"], "notifications/threshold/exceeded");
    assert_eq!(sent["params"]["value"], 42.0);
    assert_eq!(sent["params"]["threshold"], 10.0);
    let at = sent["params"]["exceeded_at"]
        .as_str()
        .ok_or("a time is a text")?;
    at.parse::<jiff::Timestamp>()?;
    Ok(())
}

#[test]
fn a_value_above_the_threshold_notifies_who_asked_and_an_equal_one_does_not()
-> Result<(), Box<dyn std::error::Error>> {
    main()
}

//! A custom transport: server-sent events over any writer, read from the outbox.
//! Everything that is pending is sent in one write, from shared bytes and without JSON
//! work, and a gap is announced where notifications were dropped.
//!
//! `cargo run -p mcp-notify --example custom_transport`

use mcp_notify::{
    CustomMethod, FailureReport, Notification, OutboxConfig, OutboxItem, OutboxLimits, PushOutcome,
    ReadEnd, SendError, Session,
};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Writes a session's notifications until it is closed or another stream takes over.
async fn stream(session: &Session, mut out: impl AsyncWrite + Unpin) -> Result<ReadEnd, SendError> {
    let report = FailureReport::default();
    let mut reader = session.outbox().reader();
    loop {
        let mut batch = match reader.next().await {
            Ok(batch) => batch,
            Err(end) => return Ok(end),
        };
        let mut buffer = Vec::new();
        for item in batch.deliver_all() {
            match item {
                OutboxItem::Notification(notification) => match notification.frame() {
                    Ok(frame) => {
                        buffer.extend_from_slice(b"data: ");
                        buffer.extend_from_slice(frame);
                        buffer.extend_from_slice(b"\n\n");
                    }
                    Err(error) => report.abandoned(session, &notification, &error.into(), 0),
                },
                OutboxItem::Gap(gap) => {
                    let line = format!(": {} dropped here\n\n", gap.dropped);
                    buffer.extend_from_slice(line.as_bytes());
                }
                // `OutboxItem` is non-exhaustive.
                _ => {}
            }
        }
        out.write_all(&buffer).await.map_err(SendError::classify)?;
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let limits = OutboxLimits {
        messages_max: 3,
        bytes_max: 64 * 1024,
    };
    let session = Session::builder()
        .outbox(OutboxConfig::default().limits(limits))
        .build("example");

    // There is no reader yet, and room for three of five.
    let method = CustomMethod::new("notifications/example/tick")?;
    for number in 1..=5 {
        let tick = Notification::custom(method.clone(), &json!({ "number": number }));
        assert!(matches!(session.push(tick), PushOutcome::Queued { .. }));
    }

    // The stream opens, reads what is pending, and ends with the session.
    let (mut client, server) = tokio::io::duplex(64 * 1024);
    let (end, ()) = tokio::join!(stream(&session, server), async {
        while session.outbox().stats().pending > 0 {
            tokio::task::yield_now().await;
        }
        session.close(mcp_notify::CloseReason::Requested);
    });
    assert_eq!(end?, ReadEnd::Closed);

    let mut text = String::new();
    client.read_to_string(&mut text).await?;
    let events: Vec<&str> = text.split_terminator("\n\n").collect();
    assert_eq!(events.len(), 4);
    assert_eq!(events[0], ": 2 dropped here");
    assert!(events[1].contains(r#""number":3"#) && events[3].contains(r#""number":5"#));
    Ok(())
}

#[test]
fn a_stream_of_ones_own_says_what_was_dropped_in_its_place()
-> Result<(), Box<dyn std::error::Error>> {
    main()
}

//! Suspicion: a session that falls silent is suspect before it is down, early enough to
//! stop sending it expensive work.
//!
//! `cargo run -p mcp-notify --features phi-accrual --example suspicion`

use std::sync::Arc;
use std::time::Duration;

use mcp_notify::{Health, Heartbeat, HeartbeatConfig, HeartbeatEnd, Session};
use parking_lot::Mutex;
use tokio::time::Instant;

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() {
    let changes = Arc::<Mutex<Vec<(Health, Instant)>>>::default();
    let record = |changes: &Arc<Mutex<Vec<(Health, Instant)>>>| {
        let changes = Arc::clone(changes);
        move |_: &Session, health| changes.lock().push((health, Instant::now()))
    };
    let heartbeat = Heartbeat::new(HeartbeatConfig::default())
        .on_suspect(record(&changes))
        .on_down(record(&changes));

    // A client that answers its pings for ten minutes, and then no longer.
    let session = Session::new("example");
    let liveness = heartbeat.liveness();
    let silent_from = Instant::now() + Duration::from_mins(10);
    let end = heartbeat.run(&session, &liveness, move || async move {
        if Instant::now() >= silent_from {
            std::future::pending::<()>().await;
        }
        true
    });
    assert_eq!(end.await, HeartbeatEnd::Down);

    let changes = changes.lock();
    let [(Health::Suspect { phi }, suspect), (Health::Down, down)] = changes[..] else {
        panic!("suspect once, then down: {changes:?}");
    };
    assert!(phi > 5.0, "less than one in a hundred thousand: {phi}");
    assert!(silent_from < suspect && suspect < down);
    assert!(
        down - suspect >= Duration::from_secs(4),
        "at least one ping earlier"
    );
    assert_eq!(liveness.health(), Health::Down);
    assert!(session.is_closed());
}

#[test]
fn a_session_that_falls_silent_is_suspect_before_it_is_down() {
    main();
}

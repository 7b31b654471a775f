//! Askers that vanish or fall silent, and what is no message of a server at all.

use std::{sync::atomic::Ordering, time::Duration};

use async_nats::{Client, Subscriber};
use bytes::{BufMut, Bytes, BytesMut};
use futures_util::StreamExt;
use kubecrier_history::Peers;
use tokio::time::{Instant, sleep};

use crate::{
    peers::{two, whole},
    support::{Nats, soon, text, until},
};

/// How long a server works for an asker that says nothing.
const SILENCE_MAX: Duration = Duration::from_secs(15);

/// An asker that says no more than it has to: the request, and never that it is there.
async fn ask(nats: &Nats, request: &str) -> (Client, Subscriber) {
    let client = async_nats::connect(nats.server.url()).await.unwrap();
    let inbox = client.new_inbox();
    let mut heard = client.subscribe(inbox.clone()).await.unwrap();
    let open = Bytes::from_static(&[1]);
    let opened = client.publish_with_reply("kubecrier.peers.b", inbox, open);
    opened.await.unwrap();
    let accepted = soon(heard.next()).await.unwrap();
    assert_eq!(&accepted.payload[..], [2]);
    let mut piece = BytesMut::new();
    piece.put_u8(3);
    piece.put_u64(0);
    piece.put_u8(1);
    piece.put_slice(request.as_bytes());
    let to = accepted.reply.unwrap();
    client.publish(to, piece.freeze()).await.unwrap();
    (client, heard)
}

#[tokio::test(flavor = "multi_thread")]
async fn work_for_an_asker_that_vanished_is_dropped() {
    let Some(nats) = Nats::start() else { return };
    let two = two(&nats).await;
    let (client, heard) = ask(&nats, "silence").await;
    until(async || two.echo.open.load(Ordering::SeqCst) == 1).await;
    let since = Instant::now();
    // As its crash does: the connection is closed.
    drop((heard, client));
    until(async || two.echo.open.load(Ordering::SeqCst) == 0).await;
    assert!(since.elapsed() < Duration::from_secs(6), "NATS says so");
}

#[tokio::test(flavor = "multi_thread")]
async fn work_for_an_asker_that_is_silent_is_dropped() {
    let Some(nats) = Nats::start() else { return };
    let two = two(&nats).await;
    let (_client, _heard) = ask(&nats, "silence").await;
    until(async || two.echo.open.load(Ordering::SeqCst) == 1).await;
    let since = Instant::now();
    sleep(SILENCE_MAX / 2).await;
    assert_eq!(two.echo.open.load(Ordering::SeqCst), 1, "it may be slow");
    until(async || two.echo.open.load(Ordering::SeqCst) == 0).await;
    assert!(since.elapsed() + Duration::from_secs(1) >= SILENCE_MAX);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_message_of_a_server_changes_nothing() {
    let Some(nats) = Nats::start() else { return };
    let two = two(&nats).await;
    let client = async_nats::connect(nats.server.url()).await.unwrap();
    let broken: [&[u8]; 6] = [b"", b"\0", b"\xff\xff", &[1, 1], &[3, 0, 0], &[4; 9]];
    for subject in ["kubecrier.peers.b", "kubecrier.alive", "kubecrier.peers.c"] {
        for payload in broken {
            let payload = Bytes::copy_from_slice(payload);
            let inbox = client.new_inbox();
            let sent = client.publish_with_reply(subject, inbox, payload.clone());
            sent.await.unwrap();
            client.publish(subject, payload).await.unwrap();
        }
    }
    // A request whose first piece is not the first.
    let inbox = client.new_inbox();
    let mut heard = client.subscribe(inbox.clone()).await.unwrap();
    let open = Bytes::from_static(&[1]);
    let opened = client.publish_with_reply("kubecrier.peers.b", inbox, open);
    opened.await.unwrap();
    let to = soon(heard.next()).await.unwrap().reply.unwrap();
    let mut piece = BytesMut::new();
    piece.put_u8(3);
    piece.put_u64(7);
    piece.put_u8(1);
    client.publish(to, piece.freeze()).await.unwrap();
    // It is told that a piece is missing, maybe after a sign of life.
    while soon(heard.next()).await.unwrap().payload[0] != 5 {}
    let answer = two.a.send("b", text("still there")).await.unwrap();
    assert_eq!(whole(answer).await.unwrap()[1], text("still there"));
}

//! A receiver of webhooks: keeps what it is sent, and answers as told.

use std::{collections::VecDeque, net::SocketAddr, sync::Arc, time::Duration};

use parking_lot::Mutex;
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::{Instant, sleep},
};

use crate::harness::TIMEOUT;

/// A receiver that ends with the test.
pub(crate) struct Receiver {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
    /// Ends with the receiver.
    _task: JoinSet<()>,
}

#[derive(Default)]
struct Shared {
    requests: Mutex<Vec<Request>>,
    /// Statuses of the next answers, and further headers; 200 when there are no more.
    answers: Mutex<VecDeque<String>>,
}

#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// The lines before the body, in lower case.
    pub(crate) head: String,
    pub(crate) body: Value,
}

impl Receiver {
    pub(crate) async fn start() -> Self {
        Self::start_at("127.0.0.1:0").await
    }

    pub(crate) async fn start_at(address: &str) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::<Shared>::default();
        let of_task = Arc::clone(&shared);
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream, Arc::clone(&of_task)));
            }
        });
        Self {
            address,
            shared,
            _task: task,
        }
    }

    /// Answers the next requests so: a status, and perhaps headers on further lines.
    pub(crate) fn answer(&self, heads: impl IntoIterator<Item = &'static str>) {
        let heads = heads.into_iter().map(str::to_owned);
        self.shared.answers.lock().extend(heads);
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.shared.requests.lock().clone()
    }

    /// The first request that is like this.
    pub(crate) async fn wait_for(&self, what: &str, is_it: impl Fn(&Request) -> bool) -> Request {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let requests = self.requests();
            if let Some(found) = requests.iter().find(|one| is_it(one)) {
                return found.clone();
            }
            assert!(Instant::now() < deadline, "no {what} in {requests:#?}");
            sleep(Duration::from_millis(20)).await;
        }
    }
}

async fn serve(mut stream: TcpStream, shared: Arc<Shared>) {
    let mut read = Vec::new();
    let mut buffer = [0; 8192];
    loop {
        let text = String::from_utf8_lossy(&read).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let head = head.to_lowercase();
            let length = head.split("content-length: ").nth(1);
            let length = length.and_then(|rest| rest.lines().next()?.parse().ok());
            if body.len() >= length.unwrap_or(0) {
                let body = serde_json::from_str(body).unwrap_or_default();
                let answer = shared.answers.lock().pop_front();
                let answer = answer.unwrap_or_else(|| "200 OK".to_owned());
                shared.requests.lock().push(Request { head, body });
                let answer = format!(
                    "HTTP/1.1 {answer}\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{{}}"
                );
                let _gone = stream.write_all(answer.as_bytes()).await;
                return;
            }
        }
        match stream.read(&mut buffer).await {
            Ok(number @ 1..) => read.extend_from_slice(&buffer[..number]),
            _ => return,
        }
    }
}

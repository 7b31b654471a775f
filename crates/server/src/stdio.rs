//! stdio: one message a line, in both directions.
//!
//! rmcp's own transport ends at the end of stdin and leaves what was on its way to the
//! client unsent, drops lines that are no message, and knows no batches.
//!
//! - `lines`: lines within a limit, and writes that can be interrupted;
//! - `exchange`: what the client has sent and not got an answer to.

mod exchange;
mod lines;

use std::{collections::VecDeque, io, sync::Arc, time::Duration};

use bytes::Bytes;
use mcp_notify::Session;
use parking_lot::Mutex;
use rmcp::{
    RoleServer,
    model::{ClientJsonRpcMessage, ClientRequest, ServerJsonRpcMessage},
    transport::Transport,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::{Instant, sleep, timeout_at},
};
use tokio_util::sync::CancellationToken;

use self::{
    exchange::Exchange,
    lines::{Line, LineReader, LineWriter},
};
use crate::jsonrpc::{self, BatchItem, MESSAGE_BYTES_MAX, Refusal, Shape, TaskIds};

/// How long the end of stdin waits for what the client is still to get.
const END_WITHIN: Duration = Duration::from_secs(5);

/// How often the end of stdin looks whether everything is out.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(5);

/// The transport of the client that has started this process.
pub(super) struct StdioTransport<R, W> {
    input: LineReader<R>,
    /// An async lock: it is held while a line is written, which is its purpose.
    output: Arc<tokio::sync::Mutex<Option<LineWriter<W>>>>,
    /// Answers that are not rmcp's: to what is no message, and of batches.
    answers: VecDeque<Bytes>,
    /// Whether the writer has answers that are not flushed.
    unflushed: bool,
    /// Messages of a batch that rmcp has not taken yet.
    received: VecDeque<ClientJsonRpcMessage>,
    /// A short lock: two tasks of rmcp read and write messages.
    exchange: Arc<Mutex<Exchange>>,
    session: Session,
    /// Cancelled when the client has been told of the lists.
    announced: CancellationToken,
    /// Set at the end of stdin: when to give up on what is still on its way.
    ends: Option<Instant>,
}

// === impl StdioTransport ===

impl<R, W> StdioTransport<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    /// The transport of a session; `announced` is cancelled when it has been told of the
    /// lists.
    pub(super) fn new(
        (input, output): (R, W),
        session: Session,
        announced: CancellationToken,
    ) -> Self {
        Self {
            input: LineReader::new(input, MESSAGE_BYTES_MAX),
            output: Arc::new(tokio::sync::Mutex::new(Some(LineWriter::new(output)))),
            answers: VecDeque::new(),
            unflushed: false,
            received: VecDeque::new(),
            exchange: Arc::default(),
            session,
            announced,
            ends: None,
        }
    }

    /// Takes a line apart: into messages for rmcp, and answers to what is none.
    fn take(&mut self, line: &[u8]) {
        match serde_json::from_slice::<ClientJsonRpcMessage>(line) {
            Ok(message) => self.take_message(message, line),
            Err(_) => match jsonrpc::check(line).map(|checked| checked.shape) {
                Ok(Shape::Batch) => self.take_batch(line),
                // A notification is never answered, not even a wrong one.
                Ok(Shape::Message) if is_notification(line) => {}
                Ok(Shape::Message) => self.refuse(&jsonrpc::explain(line)),
                Err(refusal) => self.refuse(&refusal),
            },
        }
    }

    fn take_message(&mut self, message: ClientJsonRpcMessage, line: &[u8]) {
        let message = match message {
            // rmcp has this type for a request whose parameters it cannot read.
            ClientJsonRpcMessage::Request(request)
                if matches!(&request.request, ClientRequest::CustomRequest(custom)
                    if custom.method == "initialize") =>
            {
                match completed(line) {
                    Ok(message) => message,
                    Err(refusal) => return self.refuse(&refusal),
                }
            }
            ClientJsonRpcMessage::Request(mut request) => {
                if let ClientRequest::SubscriptionsListenRequest(listen) = &mut request.request {
                    listen.extensions.insert(TaskIds::read(line));
                }
                ClientJsonRpcMessage::Request(request)
            }
            message => message,
        };
        if self.exchange.lock().on_received(&message) {
            self.received.push_back(message);
        }
        self.answers.extend(self.exchange.lock().complete_batches());
    }

    fn take_batch(&mut self, line: &[u8]) {
        if !self.exchange.lock().has_batches() {
            return self.refuse(&jsonrpc::not_in_this_version());
        }
        let items = match jsonrpc::split(line) {
            Ok(items) => items,
            Err(refusal) => return self.refuse(&refusal),
        };
        let mut messages = Vec::new();
        let mut refused = Vec::new();
        for item in items {
            match item {
                BatchItem::Message(message) => {
                    let text = message.to_string();
                    match serde_json::from_str::<ClientJsonRpcMessage>(&text) {
                        Ok(message) => messages.push(message),
                        Err(_) if is_notification(text.as_bytes()) => {}
                        Err(_) => refused.push(jsonrpc::explain(text.as_bytes())),
                    }
                }
                BatchItem::Refused(refusal) => refused.push(refusal),
            }
        }
        let mut exchange = self.exchange.lock();
        exchange.begin_batch(&messages, &refused);
        for message in messages {
            if exchange.on_received(&message) {
                self.received.push_back(message);
            }
        }
        // Without a request in it, it is complete already.
        self.answers.extend(exchange.complete_batches());
    }

    fn refuse(&mut self, refusal: &Refusal) {
        self.answers.push_back(refusal.to_json().to_string().into());
    }

    /// Writes the answers that are not rmcp's. Cancel-safe: an answer is put into the
    /// writer and taken from the queue at once, and an interrupted flush is taken up again.
    async fn write_answers(&mut self) -> io::Result<()> {
        if self.answers.is_empty() && !self.unflushed {
            return Ok(());
        }
        let mut output = self.output.lock().await;
        let Some(writer) = output.as_mut() else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        self.unflushed = true;
        for answer in self.answers.drain(..) {
            writer.put(&answer);
        }
        writer.flush().await?;
        self.unflushed = false;
        Ok(())
    }
}

impl<R, W> Transport<RoleServer> for StdioTransport<R, W>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = io::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let line = serde_json::to_vec(&message).map_err(io::Error::from);
        let line = line.map(|line| self.exchange.lock().on_sent(&message, line.into()));
        let output = Arc::clone(&self.output);
        async move {
            // An answer of a batch waits for the others.
            let Some(line) = line? else { return Ok(()) };
            let mut output = output.lock().await;
            let Some(writer) = output.as_mut() else {
                return Err(io::ErrorKind::NotConnected.into());
            };
            writer.put(&line);
            writer.flush().await
        }
    }

    /// Cancel-safe, as rmcp needs it: what was read is kept until it is taken.
    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            if let Err(error) = self.write_answers().await {
                tracing::debug!(%error, "cannot write to stdout");
                return None;
            }
            if let Some(message) = self.received.pop_front() {
                return Some(message);
            }
            if let Some(until) = self.ends {
                let settled = settle(&self.exchange, &self.session, &self.announced);
                if timeout_at(until, settled).await.is_err() {
                    tracing::debug!("stdin has ended, and not everything could be sent");
                }
                return None;
            }
            match self.input.next().await {
                Ok(Line::Text(line)) => self.take(&line),
                Ok(Line::TooLong) => self.refuse(&Refusal::too_large(MESSAGE_BYTES_MAX)),
                Ok(Line::End) => self.ends = Some(Instant::now() + END_WITHIN),
                Err(error) => {
                    tracing::debug!(%error, "cannot read from stdin");
                    self.ends = Some(Instant::now() + END_WITHIN);
                }
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        drop(self.output.lock().await.take());
        Ok(())
    }
}

/// Waits until the client has got everything: answers, and what follows from
/// `initialized`.
async fn settle(exchange: &Mutex<Exchange>, session: &Session, announced: &CancellationToken) {
    while !exchange.lock().is_answered() {
        sleep(LOOK_AGAIN_AFTER).await;
    }
    if exchange.lock().is_initialized() {
        announced.cancelled().await;
    }
    while session.outbox().stats().pending > 0 {
        sleep(LOOK_AGAIN_AFTER).await;
    }
}

/// An `initialize` with what it leaves out.
fn completed(line: &[u8]) -> Result<ClientJsonRpcMessage, Refusal> {
    let whole = jsonrpc::complete(&Bytes::copy_from_slice(line), None)?;
    serde_json::from_slice(&whole).map_err(|_| jsonrpc::explain(&whole))
}

/// Whether JSON that is no message would be a notification.
fn is_notification(text: &[u8]) -> bool {
    let message: serde_json::Value = serde_json::from_slice(text).unwrap_or_default();
    message.get("id").is_none() && message["method"].is_string()
}

#[cfg(test)]
mod tests;

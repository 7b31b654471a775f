//! The connection to NATS, and what goes over it.

use std::{
    fmt,
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_nats::{
    Client, ConnectOptions,
    jetstream::{
        Context, ContextBuilder, ErrorCode,
        context::{PublishError, PublishErrorKind},
        message::{PublishMessage, StreamMessage},
        stream::{DirectGetErrorKind, RawMessageErrorKind},
    },
};
use kubecrier_history::MESSAGE_BYTES_MAX;
use kubecrier_lifecycle::Lifecycle;
use tokio::time::timeout;

use crate::{
    ConnectError, Health, NatsConfig, NatsPeers, NatsRegistry, NatsSharedLog,
    config::{Login, Servers},
    credentials,
    failures::Doing,
    keeper,
    link::Link,
    streams::Names,
};

/// How long the first connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long one server may take to answer the first words.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(4);

/// How long one call may take, with the wait for a connection that was lost.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_secs(2);

/// How often a silent server is asked whether it is there: after three times it is lost.
const PING_INTERVAL: Duration = Duration::from_secs(2);

/// The longest pause between two attempts to connect again.
const RECONNECT_DELAY_MAX: Duration = Duration::from_secs(1);

/// What a message may have besides its content, in bytes.
const HEADERS_BYTES_MAX: usize = 4096;

/// The code of a conditional write in a cluster of NATS that comes while another is under way.
const WRONG_LAST_SEQUENCE_NOW: ErrorCode = ErrorCode::STREAM_WRONG_LAST_SEQUENCE_CONSTANT;

/// A connection to the store that servers share. A clone is the same connection, which ends when
/// the last one is dropped and the lifecycle drains.
#[derive(Clone)]
pub struct NatsStore {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) client: Client,
    pub(crate) jetstream: Context,
    pub(crate) link: Link,
    pub(crate) names: Names,
    pub(crate) lifecycle: Lifecycle,
    /// The servers as they may be shown.
    pub(crate) url: String,
    /// A stream that several servers of NATS keep is read from its leader: the others may be
    /// behind.
    pub(crate) has_replicas: AtomicBool,
}

/// What went over the connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct NatsStats {
    /// Messages sent.
    pub messages_out: u64,
    /// Bytes sent.
    pub bytes_out: u64,
    /// Messages received.
    pub messages_in: u64,
    /// Bytes received.
    pub bytes_in: u64,
    /// How often a lost connection came back.
    pub reconnects: u64,
}

/// How a conditional write ended.
pub(crate) enum Written {
    At(u64),
    Conflict,
}

// === impl NatsStore ===

impl NatsStore {
    /// Connects, checks what the server can do, and makes the streams if they are not there.
    ///
    /// # Errors
    ///
    /// After an error nothing is left behind, and it can be tried again. It takes 10 s at most.
    pub async fn connect(config: &NatsConfig, lifecycle: &Lifecycle) -> Result<Self, ConnectError> {
        config.check()?;
        let servers = Servers::parse(&config.servers)?;
        let url = servers.shown.clone();
        // On the heap: it is large, and is done once.
        let connecting = Box::pin(Self::connect_now(config, servers, lifecycle));
        let Ok(connected) = timeout(CONNECT_TIMEOUT, connecting).await else {
            return Err(ConnectError::Down {
                url,
                why: format!("no answer within {} s", CONNECT_TIMEOUT.as_secs()),
            });
        };
        let store = connected?;
        let keeping = keeper::keep(Arc::clone(&store.inner), config.clone());
        lifecycle.spawn("nats_streams", keeping);
        Ok(store)
    }

    async fn connect_now(
        config: &NatsConfig,
        servers: Servers,
        lifecycle: &Lifecycle,
    ) -> Result<Self, ConnectError> {
        let link = Link::new();
        let has_credentials = config.credentials_file.is_some() || servers.login.is_some();
        let options = options(config, servers.login, &link).await?;
        let url = servers.shown;
        let client = options.connect(servers.addresses).await;
        let client =
            client.map_err(|error| ConnectError::of_client(&error, &url, has_credentials))?;
        check_server(&client, &url)?;
        let jetstream = ContextBuilder::new()
            .timeout(CALL_TIMEOUT)
            .ack_timeout(CALL_TIMEOUT)
            .build(client.clone());
        let inner = Inner {
            client,
            jetstream,
            link,
            names: Names::new(&config.fleet),
            lifecycle: lifecycle.clone(),
            url,
            has_replicas: AtomicBool::new(false),
        };
        keeper::ensure(&inner, config).await?;
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    /// Small records that servers share.
    pub fn registry(&self) -> NatsRegistry {
        NatsRegistry::new(Arc::clone(&self.inner))
    }

    /// The log that servers share.
    pub fn shared_log(&self) -> NatsSharedLog {
        NatsSharedLog::new(Arc::clone(&self.inner))
    }

    /// The other servers, of which this one has a name of letters, digits and `-` that no other
    /// one has or had. From now on they hear that it is there.
    pub async fn peers(&self, name: &str) -> Result<NatsPeers, ConnectError> {
        NatsPeers::start(Arc::clone(&self.inner), name).await
    }

    /// Whether the store can be reached now, and does what it is asked for.
    pub fn health(&self) -> Health {
        self.inner.link.health()
    }

    /// What went over the connection so far.
    pub fn stats(&self) -> NatsStats {
        let counted = self.inner.client.statistics();
        NatsStats {
            messages_out: counted.out_messages.load(Ordering::Relaxed),
            bytes_out: counted.out_bytes.load(Ordering::Relaxed),
            messages_in: counted.in_messages.load(Ordering::Relaxed),
            bytes_in: counted.in_bytes.load(Ordering::Relaxed),
            reconnects: self.inner.link.watch().borrow().reconnects,
        }
    }
}

impl fmt::Debug for NatsStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsStore")
            .field("url", &self.inner.url)
            .field("fleet", &self.inner.names.fleet)
            .field("health", &self.health())
            .finish_non_exhaustive()
    }
}

async fn options(
    config: &NatsConfig,
    login: Option<Login>,
    link: &Link,
) -> Result<ConnectOptions, ConnectError> {
    let options = match &config.credentials_file {
        Some(path) => credentials::options(path)?,
        None => ConnectOptions::new(),
    };
    let mut options = options
        .name("kubecrier")
        .connection_timeout(HANDSHAKE_TIMEOUT)
        .request_timeout(Some(CALL_TIMEOUT))
        .ping_interval(PING_INTERVAL)
        // Answers come on subjects of the fleet, so that a user needs rights for these alone.
        .custom_inbox_prefix(format!("{}.inbox", config.fleet))
        .reconnect_delay_callback(|attempts| {
            let doublings = u32::try_from(attempts.saturating_sub(1)).unwrap_or(u32::MAX);
            let delay = Duration::from_millis(20) * 2_u32.saturating_pow(doublings.min(10));
            delay.min(RECONNECT_DELAY_MAX)
        });
    let events = link.clone();
    options = options.event_callback(move |event| {
        events.on_event(&event);
        tracing::debug!(%event, "the connection of the shared store");
        std::future::ready(())
    });
    match login {
        None => {}
        Some(Login::Password { user, password }) => {
            options = options.user_and_password(user, password);
        }
        Some(Login::Token(token)) => options = options.token(token),
    }
    if let Some(path) = &config.ca_file {
        let unreadable = |error: std::io::Error| ConnectError::File {
            what: "CA file",
            path: path.clone(),
            why: error.to_string(),
        };
        tokio::fs::metadata(path).await.map_err(unreadable)?;
        options = options.add_root_certificates(path.clone());
    }
    Ok(options)
}

fn check_server(client: &Client, url: &str) -> Result<(), ConnectError> {
    let info = client.server_info();
    let url = url.to_owned();
    if !client.is_server_compatible(2, 11, 0) {
        return Err(ConnectError::TooOld {
            url,
            version: info.version.chars().take(40).collect(),
        });
    }
    if !info.jetstream {
        return Err(ConnectError::JetStreamOff { url });
    }
    if info.max_payload < MESSAGE_BYTES_MAX + HEADERS_BYTES_MAX {
        return Err(ConnectError::PayloadTooSmall {
            url,
            bytes: info.max_payload,
        });
    }
    Ok(())
}

// === impl Inner ===

impl Inner {
    /// Whether the store can be reached, and does what it is asked for.
    pub(crate) fn health(&self) -> Health {
        self.link.health()
    }

    /// Does something over the connection, within a time.
    pub(crate) async fn call<T>(
        &self,
        doing: Doing,
        work: impl Future<Output = Result<T, String>>,
    ) -> Result<T, String> {
        let done = self.call_once(work).await;
        let noted = done.as_ref().map(drop).map_err(String::as_str);
        self.link.note(doing, noted);
        done
    }

    /// The same, without a conclusion for other calls.
    pub(crate) async fn call_once<T>(
        &self,
        work: impl Future<Output = Result<T, String>>,
    ) -> Result<T, String> {
        // What is sent without a connection would be done later, when nobody expects it.
        if !self.link.is_back_soon().await {
            return Err(self.why_silent(CALL_TIMEOUT));
        }
        match timeout(CALL_TIMEOUT, work).await {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(why)) => Err(self.why_denied().unwrap_or(why)),
            Err(_) => Err(self.why_silent(CALL_TIMEOUT)),
        }
    }

    /// Why something fails for which a right is missing.
    fn why_denied(&self) -> Option<String> {
        let rights = ConnectError::Rights {
            url: self.url.clone(),
            fleet: self.names.fleet.clone(),
            why: self.link.denied()?,
        };
        Some(rights.to_string())
    }

    /// Why there was no answer.
    pub(crate) fn why_silent(&self, waited: Duration) -> String {
        match self.link.health() {
            Health::Connected | Health::Failing { .. } => self.why_denied().unwrap_or_else(|| {
                let seconds = waited.as_secs();
                format!("NATS at {} did not answer within {seconds} s", self.url)
            }),
            Health::Lost { since, why } => {
                format!("no connection to NATS at {} since {since}: {why}", self.url)
            }
        }
    }

    /// Writes a message, and waits until it is kept.
    pub(crate) async fn publish(
        &self,
        subject: String,
        message: PublishMessage,
    ) -> Result<Written, String> {
        let acked = async {
            let sent = self.jetstream.send_publish(subject, message).await?;
            sent.await
        };
        match acked.await {
            Ok(ack) => Ok(Written::At(ack.sequence)),
            Err(error) if is_conflict(&error) => Ok(Written::Conflict),
            Err(error) => Err(error.to_string()),
        }
    }

    /// The last message of a subject.
    pub(crate) async fn last(
        &self,
        stream: &str,
        subject: String,
    ) -> Result<Option<StreamMessage>, String> {
        let stream = self.jetstream.get_stream_no_info(stream).await;
        let stream = stream.map_err(|error| error.to_string())?;
        if self.has_replicas.load(Ordering::Relaxed) {
            return match stream.get_last_raw_message_by_subject(&subject).await {
                Ok(message) => Ok(Some(message)),
                Err(error) => match error.kind() {
                    RawMessageErrorKind::NoMessageFound => Ok(None),
                    _ => Err(error.to_string()),
                },
            };
        }
        match stream.direct_get_last_for_subject(subject).await {
            Ok(message) => Ok(Some(message)),
            Err(error) => match error.kind() {
                DirectGetErrorKind::NotFound => Ok(None),
                _ => Err(error.to_string()),
            },
        }
    }
}

fn is_conflict(error: &PublishError) -> bool {
    if error.kind() == PublishErrorKind::WrongLastSequence {
        return true;
    }
    let said = std::error::Error::source(error)
        .and_then(|source| source.downcast_ref::<async_nats::jetstream::Error>());
    said.is_some_and(|said| said.error_code() == WRONG_LAST_SEQUENCE_NOW)
}

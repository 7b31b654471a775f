//! Sessions: the recipients of notifications, and their teardown.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::{Mutex, RwLock};
use tokio_util::sync::CancellationToken;

use crate::logging::Level;
use crate::notification::Notification;
use crate::outbox::{Outbox, OutboxConfig, PushOutcome};
use crate::sink::{SendError, SendFuture};
use crate::teardown::{Detach, DetachOn, Hook, Teardown};
use crate::version::ProtocolVersion;

/// The session of a connected client.
///
/// A `Session` is a handle, and clones share the session. The code that accepted the
/// connection keeps one. When the last handle is dropped, or [`close`](Self::close) is
/// called, the session is closed: its outbox closes, its retries stop, it is removed
/// from every registry of this library, and its close hooks run. All of that happens
/// exactly once.
///
/// Sinks and delivery loops get handles that do not keep the session alive, so that a
/// slow send does not prolong its life.
#[derive(Clone)]
pub struct Session {
    core: Arc<Core>,
    /// `None` in the handles of the library's own loops.
    #[expect(dead_code, reason = "a guard: it acts when it is dropped")]
    alive: Option<Arc<Alive>>,
}

/// A weak handle to a session. Made by [`Session::downgrade`].
#[derive(Clone)]
pub struct WeakSession {
    core: Weak<Core>,
    alive: Weak<Alive>,
}

/// Builds a [`Session`].
#[derive(Default)]
#[must_use]
pub struct SessionBuilder {
    name: Option<Arc<str>>,
    protocol_version: Option<ProtocolVersion>,
    channel: Option<Arc<dyn SessionChannel>>,
    outbox: OutboxConfig,
}

/// The channel to one client, which [`Session::send`] uses.
///
/// The future of a send may be dropped at any await, when its deadline passes or the
/// session is closed.
pub trait SessionChannel: Send + Sync + 'static {
    /// Sends one notification.
    ///
    /// # Errors
    /// The [`SendError`] decides whether the send is retried and the session pruned.
    fn send<'a>(&'a self, notification: &'a Notification) -> SendFuture<'a>;
}

/// Why a session was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CloseReason {
    /// [`Session::close`] was called by the server.
    Requested,
    /// The last handle was dropped.
    Dropped,
    /// Its client no longer answers pings.
    Down,
}

/// The key of a session in the registries of this library: never reused, and unlike
/// the id not chosen by the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct SessionKey(u64);

struct Core {
    key: SessionKey,
    id: Arc<str>,
    name: Option<Arc<str>>,
    protocol_version: RwLock<Option<ProtocolVersion>>,
    /// 0 if no level was set; otherwise the level's number plus one.
    log_level: AtomicU8,
    channel: Option<Arc<dyn SessionChannel>>,
    outbox: Outbox,
    /// The same as `closed`, without the lock inside of a token.
    is_closed: AtomicBool,
    closed: CancellationToken,
    teardown: Mutex<Teardown>,
    /// Set once, when the session is built: a handle that does not keep the session
    /// alive is downgraded with it.
    alive: OnceLock<Weak<Alive>>,
}

/// Closes the session when the last owning handle is dropped.
struct Alive(Arc<Core>);

// === impl Session ===

impl Session {
    /// A session with an id and a default outbox.
    pub fn new(id: impl Into<Arc<str>>) -> Self {
        SessionBuilder::default().build(id)
    }

    /// A builder for a session with further settings.
    pub fn builder() -> SessionBuilder {
        SessionBuilder::default()
    }

    /// The id.
    pub fn id(&self) -> &Arc<str> {
        &self.core.id
    }

    /// The name for log records: the given name, or the id.
    pub fn name(&self) -> &str {
        self.core.name.as_ref().unwrap_or(&self.core.id)
    }

    /// The negotiated protocol version, if it is known.
    pub fn protocol_version(&self) -> Option<ProtocolVersion> {
        self.core.protocol_version.read().clone()
    }

    /// Records the negotiated protocol version.
    pub fn set_protocol_version(&self, version: ProtocolVersion) {
        *self.core.protocol_version.write() = Some(version);
    }

    /// The level of its log messages; `None` until the client sets one.
    pub fn log_level(&self) -> Option<Level> {
        Level::from_number(self.core.log_level.load(Ordering::Relaxed).checked_sub(1)?)
    }

    pub(crate) fn set_log_level(&self, level: Option<Level>) {
        let number = level.map_or(0, |level| level.number() + 1);
        self.core.log_level.store(number, Ordering::Relaxed);
    }

    /// The outbox.
    pub fn outbox(&self) -> &Outbox {
        &self.core.outbox
    }

    /// Pushes a notification to the outbox. Never waits; the outcome and the outbox's
    /// statistics tell whether it was dropped.
    pub fn push(&self, notification: Notification) -> PushOutcome {
        self.core.outbox.push(notification)
    }

    /// Pushes several notifications at once, and returns how many were taken.
    pub fn push_all(&self, notifications: Vec<Notification>) -> usize {
        self.core.outbox.push_all(notifications)
    }

    /// Sends over the session's own channel; without one, pushes to the outbox.
    ///
    /// Has no deadline, no retry and no log record: use a [`Delivery`](crate::Delivery)
    /// for these. Cancel-safe as far as the channel is.
    ///
    /// # Errors
    /// [`SendError::Closed`] if the session is closed, else the error of the channel.
    pub async fn send(&self, notification: &Notification) -> Result<(), SendError> {
        if self.is_closed() {
            return Err(SendError::Closed);
        }
        match &self.core.channel {
            Some(channel) => channel.send(notification).await,
            None => self.push(notification.clone()).into_result(),
        }
    }

    /// Closes the session for all its handles. Later calls do nothing.
    pub fn close(&self, reason: CloseReason) {
        self.core.close(reason);
    }

    /// Whether the session is closed.
    pub fn is_closed(&self) -> bool {
        self.core.is_closed.load(Ordering::Acquire)
    }

    /// Waits until the session is closed. Cancel-safe.
    pub async fn closed(&self) {
        self.core.closed.cancelled().await;
    }

    /// Runs `hook` exactly once, when the session is closed, or immediately if it is
    /// closed already. A hook that panics does not keep the others from running.
    ///
    /// This is the deterministic teardown for resources that must not wait until the
    /// last handle is dropped. Hooks run on the task that closes the session, so they
    /// must not block.
    pub fn on_close(&self, hook: impl FnOnce(CloseReason) + Send + 'static) {
        let late = self.core.teardown.lock().add_hook(Box::new(hook));
        if let Some((hook, reason)) = late {
            Teardown::run_hook(hook, reason);
        }
    }

    /// Removes the session from observers, logging and resource subscriptions without
    /// closing it. Delivery does so when the connection failed; the session may join
    /// again.
    pub fn prune(&self) {
        self.core.prune();
    }

    /// A weak handle.
    pub fn downgrade(&self) -> WeakSession {
        WeakSession {
            core: Arc::downgrade(&self.core),
            alive: self.core.alive.get().cloned().unwrap_or_default(),
        }
    }

    /// Whether both are handles of one session.
    pub fn same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.core, &other.core)
    }

    pub(crate) fn has_channel(&self) -> bool {
        self.core.channel.is_some()
    }

    pub(crate) fn key(&self) -> SessionKey {
        self.core.key
    }

    /// Detaches the session from `registry` when it is pruned or closed, once per
    /// registry. False if the session is closed already.
    pub(crate) fn attach(&self, registry: &Arc<dyn Detach>, on: DetachOn) -> bool {
        self.core.teardown.lock().attach(registry, on)
    }

    /// A handle that does not keep the session alive.
    pub(crate) fn unowned(&self) -> Self {
        Self {
            core: Arc::clone(&self.core),
            alive: None,
        }
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("id", &self.core.id)
            .field("name", &self.core.name)
            .field("closed", &self.is_closed())
            .finish_non_exhaustive()
    }
}

// === impl WeakSession ===

impl WeakSession {
    /// The session, if it is not closed.
    pub fn upgrade(&self) -> Option<Session> {
        let session = Session {
            core: self.core.upgrade()?,
            alive: Some(self.alive.upgrade()?),
        };
        (!session.is_closed()).then_some(session)
    }

    /// A handle that does not keep the session alive, if it is not closed.
    pub(crate) fn upgrade_unowned(&self) -> Option<Session> {
        let session = Session {
            core: self.core.upgrade()?,
            alive: None,
        };
        (!session.is_closed()).then_some(session)
    }
}

impl fmt::Debug for WeakSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WeakSession")
            .field(&self.upgrade_unowned())
            .finish()
    }
}

// === impl SessionBuilder ===

impl SessionBuilder {
    /// Sets the name for log records. The default is the id.
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets the negotiated protocol version.
    pub fn protocol_version(mut self, version: ProtocolVersion) -> Self {
        self.protocol_version = Some(version);
        self
    }

    /// Sets the channel that [`Session::send`] uses.
    pub fn channel(mut self, channel: impl SessionChannel) -> Self {
        self.channel = Some(Arc::new(channel));
        self
    }

    /// Sets limits and metrics of the outbox.
    pub fn outbox(mut self, config: OutboxConfig) -> Self {
        self.outbox = config;
        self
    }

    /// Builds the session.
    pub fn build(self, id: impl Into<Arc<str>>) -> Session {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let Self {
            name,
            protocol_version,
            channel,
            outbox,
        } = self;
        let id = id.into();
        let core = Arc::new(Core {
            key: SessionKey(NEXT.fetch_add(1, Ordering::Relaxed)),
            outbox: Outbox::new(outbox.owner(name.as_ref().unwrap_or(&id))),
            id,
            name,
            protocol_version: RwLock::new(protocol_version),
            log_level: AtomicU8::new(0),
            channel,
            is_closed: AtomicBool::new(false),
            closed: CancellationToken::new(),
            teardown: Mutex::default(),
            alive: OnceLock::new(),
        });
        let alive = Arc::new(Alive(Arc::clone(&core)));
        let _ = core.alive.set(Arc::downgrade(&alive));
        Session {
            core,
            alive: Some(alive),
        }
    }
}

impl fmt::Debug for SessionBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionBuilder")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

// === impl Core ===

impl Core {
    fn close(&self, reason: CloseReason) {
        let hooks: Vec<Hook> = match self.teardown.lock().close(reason) {
            Some(hooks) => hooks,
            None => return,
        };
        self.is_closed.store(true, Ordering::Release);
        self.closed.cancel();
        self.outbox.close();
        let registries = self.teardown.lock().take_all();
        self.detach(registries);
        for hook in hooks {
            Teardown::run_hook(hook, reason);
        }
    }

    fn prune(&self) {
        let registries = self.teardown.lock().take_pruned();
        self.detach(registries);
    }

    fn detach(&self, registries: Vec<Arc<dyn Detach>>) {
        for registry in registries {
            registry.detach(self.key);
        }
        self.log_level.store(0, Ordering::Relaxed);
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.close(CloseReason::Dropped);
    }
}

#[cfg(test)]
mod tests;

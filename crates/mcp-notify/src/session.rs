//! A session: whom notifications go to, and what ends with it.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::{Mutex, RwLock};
use tokio_util::sync::CancellationToken;

use crate::logging::Level;
use crate::notification::Notification;
use crate::outbox::{Outbox, OutboxConfig, PushOutcome};
use crate::sink::{SendError, SendFuture};
use crate::teardown::{Detach, Hook, Teardown, Until};
use crate::version::ProtocolVersion;

/// A client that is connected now.
///
/// A `Session` is a handle; clones are the same session. Whoever accepted the
/// connection keeps one. When the last handle is dropped, or [`close`](Self::close)
/// is called, the session ends: its outbox closes, its retries end, it leaves
/// every registry of this library at once, and its hooks run. All of that
/// happens exactly once.
///
/// Sinks and delivery loops are handed handles that do not keep the session
/// alive, so a slow send never prolongs a life.
#[derive(Clone)]
pub struct Session {
    core: Arc<Core>,
    /// Handles made for the library's own loops have none.
    #[expect(dead_code, reason = "to hold it is all it is for")]
    alive: Option<Arc<Alive>>,
}

/// A session that may be gone. Made by [`Session::downgrade`].
#[derive(Clone)]
pub struct WeakSession {
    core: Weak<Core>,
    alive: Weak<Alive>,
}

/// Makes a [`Session`].
#[derive(Default)]
#[must_use]
pub struct SessionBuilder {
    name: Option<Arc<str>>,
    protocol_version: Option<ProtocolVersion>,
    channel: Option<Arc<dyn SessionChannel>>,
    outbox: OutboxConfig,
}

/// A way to one client: what a session's own send uses.
///
/// The future may be dropped at any await, when the deadline of the send
/// passes or the session ends.
pub trait SessionChannel: Send + Sync + 'static {
    /// Sends one notification.
    ///
    /// # Errors
    /// The [`SendError`] decides what follows; see there.
    fn send<'a>(&'a self, notification: &'a Notification) -> SendFuture<'a>;
}

/// Why a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CloseReason {
    /// Somebody closed it.
    Requested,
    /// The last handle was dropped.
    Dropped,
    /// Its heartbeat stopped.
    Down,
}

/// What a session is known by in the maps of this library: never reused, and
/// unlike the id never chosen by anyone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct SessionKey(u64);

struct Core {
    key: SessionKey,
    id: Arc<str>,
    name: Option<Arc<str>>,
    protocol_version: RwLock<Option<ProtocolVersion>>,
    /// 0: no level was set; otherwise one more than the level's number.
    log_level: AtomicU8,
    channel: Option<Arc<dyn SessionChannel>>,
    outbox: Outbox,
    /// Says the same as `closed`, without the lock inside of that.
    ended: AtomicBool,
    closed: CancellationToken,
    teardown: Mutex<Teardown>,
    /// Set once, when the session is built: what a handle that does not keep
    /// the session alive is downgraded with.
    alive: OnceLock<Weak<Alive>>,
}

/// Ends the session when the last handle that counts is dropped.
struct Alive(Arc<Core>);

// === impl Session ===

impl Session {
    /// A session with an id and an outbox, and nothing else.
    pub fn new(id: impl Into<Arc<str>>) -> Self {
        SessionBuilder::default().build(id)
    }

    /// Starts a session with more than that.
    pub fn builder() -> SessionBuilder {
        SessionBuilder::default()
    }

    /// The id it was given.
    pub fn id(&self) -> &Arc<str> {
        &self.core.id
    }

    /// The name it was given, or its id: what logs call it.
    pub fn name(&self) -> &str {
        self.core.name.as_ref().unwrap_or(&self.core.id)
    }

    /// The version that was negotiated, if it was.
    pub fn protocol_version(&self) -> Option<ProtocolVersion> {
        self.core.protocol_version.read().clone()
    }

    /// Records the version that was negotiated.
    pub fn set_protocol_version(&self, version: ProtocolVersion) {
        *self.core.protocol_version.write() = Some(version);
    }

    /// The threshold of its log messages; `None` until the client sets one.
    pub fn log_level(&self) -> Option<Level> {
        Level::from_number(self.core.log_level.load(Ordering::Relaxed).checked_sub(1)?)
    }

    pub(crate) fn set_log_level(&self, level: Option<Level>) {
        let number = level.map_or(0, |level| level.number() + 1);
        self.core.log_level.store(number, Ordering::Relaxed);
    }

    /// What waits to be sent to it.
    pub fn outbox(&self) -> &Outbox {
        &self.core.outbox
    }

    /// Puts a notification into the outbox. Never waits and never fails; what
    /// became of it is in the outcome and in the outbox's statistics.
    pub fn push(&self, notification: Notification) -> PushOutcome {
        self.core.outbox.push(notification)
    }

    /// Puts several in at once, and says how many were taken.
    pub fn push_all(&self, notifications: Vec<Notification>) -> usize {
        self.core.outbox.push_all(notifications)
    }

    /// Sends over the session's own channel; without one, pushes to the outbox.
    ///
    /// No deadline, no retry and no log: go through a
    /// [`Delivery`](crate::Delivery) for these. Cancel-safe as far as the
    /// channel is.
    ///
    /// # Errors
    /// [`SendError::Closed`] after the session ended, else what the channel says.
    pub async fn send(&self, notification: &Notification) -> Result<(), SendError> {
        if self.is_closed() {
            return Err(SendError::Closed);
        }
        match &self.core.channel {
            Some(channel) => channel.send(notification).await,
            None => self.push(notification.clone()).into_result(),
        }
    }

    /// Ends the session, for everybody and exactly once; later calls do nothing.
    pub fn close(&self, reason: CloseReason) {
        self.core.close(reason);
    }

    /// Whether it has ended.
    pub fn is_closed(&self) -> bool {
        self.core.ended.load(Ordering::Acquire)
    }

    /// Waits until the session ends. Cancel-safe.
    pub async fn closed(&self) {
        self.core.closed.cancelled().await;
    }

    /// Runs `hook` when the session ends, exactly once; at once if it has
    /// ended. A hook that panics does not keep the others from running.
    ///
    /// This is the deterministic teardown for what must not wait for the last
    /// handle to go. Hooks run on the task that closes the session, so they
    /// must not block.
    pub fn on_close(&self, hook: impl FnOnce(CloseReason) + Send + 'static) {
        let late = self.core.teardown.lock().add_hook(Box::new(hook));
        if let Some((hook, reason)) = late {
            Teardown::run_hook(hook, reason);
        }
    }

    /// Makes the session no longer a target: it leaves observers, logging and
    /// resource subscriptions without ending. What delivery does when the
    /// connection failed for good; the session may join again.
    pub fn prune(&self) {
        self.core.prune();
    }

    /// A handle that does not keep the session alive.
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

    /// Has `part` told when the session is pruned or ends; once per part.
    /// False if it has ended already.
    pub(crate) fn attach(&self, part: &Arc<dyn Detach>, until: Until) -> bool {
        self.core.teardown.lock().attach(part, until)
    }

    /// The same session, without keeping it alive.
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
    /// The session, if it has not ended.
    pub fn upgrade(&self) -> Option<Session> {
        let session = Session {
            core: self.core.upgrade()?,
            alive: Some(self.alive.upgrade()?),
        };
        (!session.is_closed()).then_some(session)
    }

    /// The session without keeping it alive, if it has not ended.
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
    /// What logs call it, instead of its id.
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// The version that was negotiated.
    pub fn protocol_version(mut self, version: ProtocolVersion) -> Self {
        self.protocol_version = Some(version);
        self
    }

    /// The way to the client that [`Session::send`] uses.
    pub fn channel(mut self, channel: impl SessionChannel) -> Self {
        self.channel = Some(Arc::new(channel));
        self
    }

    /// Limits and counters of the outbox.
    pub fn outbox(mut self, config: OutboxConfig) -> Self {
        self.outbox = config;
        self
    }

    /// The session.
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
            ended: AtomicBool::new(false),
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
        self.ended.store(true, Ordering::Release);
        self.closed.cancel();
        self.outbox.close();
        let parts = self.teardown.lock().take_all();
        self.detach(parts);
        for hook in hooks {
            Teardown::run_hook(hook, reason);
        }
    }

    fn prune(&self) {
        let parts = self.teardown.lock().take_pruned();
        self.detach(parts);
    }

    fn detach(&self, parts: Vec<Arc<dyn Detach>>) {
        for part in parts {
            part.detach(self.key);
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

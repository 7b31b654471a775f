//! An rmcp server that uses the library, as a user would write it.

#![expect(
    deprecated,
    reason = "log levels and roots are part of versions up to 2025-11-25"
)]

use std::sync::Arc;
use std::time::Duration;

use mcp_notify::rmcp::{ListenSink, PeerRoots, PeerSink};
use mcp_notify::{
    ContentHash, Delivery, JoinPolicy, ListChangedTracker, ListKind, LoggingService,
    ObserverRegistry, Progress, ProgressToken, ProtocolVersion, ResourceSubscriptions,
    RootsTracker, Session, with_session,
};
use parking_lot::Mutex;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ListToolsResult, NumberOrString,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, SetLevelRequestParams,
    SubscribeRequestParams, SubscriptionFilter,
};
use rmcp::service::{NotificationContext, RequestContext, SubscriptionContext};
use rmcp::{ErrorData, Peer, RoleServer, ServerHandler};
use tokio::task::JoinSet;

/// State shared by all connections.
#[derive(Clone)]
pub(crate) struct Hub {
    pub(crate) observers: ObserverRegistry,
    pub(crate) logging: LoggingService,
    pub(crate) subscriptions: ResourceSubscriptions,
    pub(crate) lists: ListChangedTracker,
    pub(crate) delivery: Delivery,
    /// Every session that ever connected.
    pub(crate) sessions: Arc<Mutex<Vec<Session>>>,
    pub(crate) peers: Arc<Mutex<Vec<Peer<RoleServer>>>>,
    pub(crate) roots: Arc<Mutex<Option<RootsTracker>>>,
    tasks: Arc<Mutex<JoinSet<()>>>,
}

/// One connection.
pub(crate) struct Server {
    hub: Hub,
    session: Mutex<Option<Session>>,
}

impl Hub {
    pub(crate) fn new() -> Self {
        let delivery = Delivery::default();
        let lists = ListChangedTracker::new(ProtocolVersion::V_2025_11_25);
        for registry in ListKind::ALL {
            lists.update(registry, ContentHash::from("first"));
        }
        Self {
            observers: ObserverRegistry::with_delivery(delivery.clone(), JoinPolicy::OnList),
            logging: LoggingService::new(delivery.clone()),
            subscriptions: ResourceSubscriptions::default(),
            lists,
            delivery,
            sessions: Arc::default(),
            peers: Arc::default(),
            roots: Arc::default(),
            tasks: Arc::default(),
        }
    }

    pub(crate) fn server(&self) -> Server {
        Server {
            hub: self.clone(),
            session: Mutex::default(),
        }
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.lock().spawn(task);
    }

    /// Waits until this many sessions have connected.
    pub(crate) async fn until_sessions(&self, count: usize) -> Vec<Session> {
        let waiting = async {
            while self.sessions.lock().len() < count {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), waiting)
            .await
            .expect("they connect");
        self.sessions.lock().clone()
    }

    /// Pushes what is due to the session's outbox.
    pub(crate) fn push_due_lists(&self, session: &Session) {
        for notification in self.lists.due(session) {
            let _ = session.push(notification);
        }
    }
}

impl Server {
    fn session(&self) -> Session {
        self.session
            .lock()
            .clone()
            .expect("requests come after initialized here")
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(
            ServerCapabilities::builder()
                .enable_logging()
                .enable_tools()
                .enable_tool_list_changed()
                .enable_resources()
                .enable_resources_subscribe()
                .enable_resources_list_changed()
                .enable_prompts()
                .enable_prompts_list_changed()
                .build(),
        )
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        let peer = context.peer;
        let session = Session::builder()
            .channel(PeerSink::new(peer.clone()))
            .build("legacy");
        if let Some(info) = peer.peer_info() {
            session.set_protocol_version(ProtocolVersion::new(info.protocol_version.as_str()));
        }
        let run = self.hub.delivery.run(&session);
        self.hub.spawn(async move {
            let _ = run.await;
        });
        let roots = RootsTracker::new(PeerRoots::new(peer.clone()));
        *self.hub.roots.lock() = Some(roots.clone());
        self.hub.spawn(async move { roots.run(|_, _| ()).await });
        self.hub.push_due_lists(&session);
        *self.session.lock() = Some(session.clone());
        self.hub.sessions.lock().push(session);
        self.hub.peers.lock().push(peer);
    }

    async fn on_roots_list_changed(&self, _: NotificationContext<RoleServer>) {
        let session = self.session();
        if let Some(roots) = &*self.hub.roots.lock() {
            roots.list_changed(&session);
        }
    }

    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.hub
            .logging
            .set_level(&self.session(), request.level.into());
        Ok(())
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let subscribed = self
            .hub
            .subscriptions
            .subscribe(&self.session(), &request.uri);
        subscribed
            .map(drop)
            .map_err(|e| ErrorData::invalid_params(e.to_string(), None))
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let observers = self.hub.observers.clone();
        with_session(self.session(), async move {
            observers.remember_current_session();
        })
        .await;
        self.hub.push_due_lists(&self.session());
        Ok(ListToolsResult::default())
    }

    /// Counts to twenty and reports progress.
    async fn call_tool(
        &self,
        _: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let token = context
            .meta
            .get_progress_token()
            .map(|token| match token.0 {
                NumberOrString::Number(number) => ProgressToken::Number(number),
                NumberOrString::String(text) => ProgressToken::Text(text),
            });
        let sending = Delivery::new(PeerSink::new(context.peer.clone()));
        Progress::scope(&self.session(), token, &sending, |progress| async move {
            for _ in 0..20 {
                progress.advance(1.0, None).expect("it only grows");
                tokio::time::sleep(Duration::from_millis(30)).await;
            }
        })
        .await;
        Ok(CallToolResult::success(Vec::new()).into())
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    /// 2026-07-28: the stream is the session.
    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let session = Session::builder()
            .protocol_version(ProtocolVersion::V_2026_07_28)
            .channel(ListenSink::new(context.sink().clone()))
            .build(format!("listen-{:?}", context.sink().id()));
        for uri in context.accepted().resource_subscriptions.iter().flatten() {
            let subscribed = self.hub.subscriptions.subscribe(&session, uri);
            subscribed.map_err(|e| ErrorData::invalid_params(e.to_string(), None))?;
        }
        self.hub.observers.remember(&session);
        self.hub.sessions.lock().push(session.clone());
        tokio::select! {
            _ = self.hub.delivery.run(&session) => {}
            () = context.cancelled() => {}
        }
        session.close(mcp_notify::CloseReason::Requested);
        Ok(())
    }
}

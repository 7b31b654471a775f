//! The handler that rmcp calls: one per request over HTTP, one per process on stdio. A
//! handler is a cheap clone.

use std::{net::IpAddr, sync::Arc};

use http::request::Parts;
use mcp_notify::{ListKind, ProtocolVersion, Session};
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CancelTaskParams, CompleteRequestParams,
        CompleteResult, CustomRequest, CustomResult, DiscoverResult, ErrorCode, Extensions,
        GetPromptRequestParams, GetPromptResponse, GetTaskParams, GetTaskResult, Implementation,
        InitializeRequestParams, InitializeResult, ListPromptsResult, ListResourceTemplatesResult,
        ListResourcesResult, ListToolsResult, PaginatedRequestParams, ReadResourceRequestParams,
        ReadResourceResponse, ServerConfig, SubscribeRequestParams, SubscriptionFilter, Tool,
        UnsubscribeRequestParams, UpdateTaskParams,
    },
    service::{NotificationContext, RequestContext, SubscriptionContext},
};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{Server, instructions, lists, parameters};
use crate::{
    audit,
    caller::Caller,
    capabilities::{self, ServedFeatures},
    output::cleaned_contents,
    sessions::{NotKept, Sessions},
    share, tools,
};

/// Answers the requests of one client.
#[derive(Clone, Debug)]
pub(crate) struct Handler {
    pub(super) server: Server,
    pub(super) sessions: SessionLookup,
    /// The caller of every request that this handler answers: a session belongs to the
    /// caller that opened it.
    pub(super) caller: Caller,
    /// The address that the caller came from, over HTTP.
    pub(super) peer: Option<IpAddr>,
}

/// How the session of a request is found.
#[derive(Clone, Debug)]
pub(super) enum SessionLookup {
    /// The transport has one session.
    Single {
        session: Session,
        /// Cancelled when the client has been told of the lists, after `initialized`.
        announced: CancellationToken,
    },
    /// By the id in the request's header.
    ByHeader(Arc<Sessions>),
}

// === impl Handler ===

impl Handler {
    /// A handler for the one client of a transport.
    pub(super) fn for_session(server: Server, session: Session) -> Self {
        Self {
            server,
            sessions: SessionLookup::Single {
                session,
                announced: CancellationToken::new(),
            },
            caller: Caller::ANONYMOUS,
            peer: None,
        }
    }

    /// A handler for the clients of these sessions.
    pub(super) fn for_sessions(server: Server, sessions: Arc<Sessions>) -> Self {
        Self {
            server,
            sessions: SessionLookup::ByHeader(sessions),
            caller: Caller::ANONYMOUS,
            peer: None,
        }
    }

    /// Cancelled when the one client of a transport has been told of the lists.
    pub(crate) fn announced(&self) -> CancellationToken {
        match &self.sessions {
            SessionLookup::Single { announced, .. } => announced.clone(),
            SessionLookup::ByHeader(_) => CancellationToken::new(),
        }
    }

    /// The same for the caller of the HTTP request that is being answered.
    pub(crate) fn for_current_caller(&self) -> Self {
        self.for_caller(Caller::current(), share::current_peer())
    }

    /// The same for a caller that came from an address.
    pub(crate) fn for_caller(&self, caller: Caller, peer: Option<IpAddr>) -> Self {
        Self {
            caller,
            peer,
            ..self.clone()
        }
    }

    /// The session of a message; the newest protocol has none.
    pub(super) fn session(&self, extensions: &Extensions) -> Option<Session> {
        match &self.sessions {
            SessionLookup::Single { session, .. } => Some(session.clone()),
            SessionLookup::ByHeader(sessions) => {
                let parts = extensions.get::<Parts>()?;
                let id = parts.headers.get("mcp-session-id")?.to_str().ok()?;
                Some(sessions.get(id)?.session().clone())
            }
        }
    }

    /// Waits until what a request has changed of its session is kept, if sessions are.
    async fn settle_current(&self, context: &RequestContext<RoleServer>) -> Result<(), NotKept> {
        match self.session(&context.extensions) {
            Some(session) => self.settle(&session).await,
            None => Ok(()),
        }
    }

    async fn settle(&self, session: &Session) -> Result<(), NotKept> {
        match &self.sessions {
            SessionLookup::ByHeader(sessions) => sessions.settle(session.id()).await.map(drop),
            SessionLookup::Single { .. } => Ok(()),
        }
    }

    fn served_features(&self) -> ServedFeatures {
        ServedFeatures {
            subscribe: self.server.shared.resources.any(),
            // The built-in prompts and templates have arguments.
            completions: true,
            tasks: self.server.project().is_some()
                || (self.server.shared.tool_filter)
                    .check_tool(tools::FAULTS_WAIT)
                    .is_ok(),
        }
    }
}

/// Whether a request is of the protocol version without sessions.
pub(super) fn is_modern(context: &RequestContext<RoleServer>) -> bool {
    context.meta.protocol_version().is_some()
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let identity = Implementation::new("kubecrier", env!("CARGO_PKG_VERSION"))
            .with_title("kubecrier: what just happened in a cluster");
        let version = ProtocolVersion::V_2026_07_28;
        ServerConfig::new(capabilities::at(&version, self.served_features()))
            .with_server_info(identity)
            .with_instructions(instructions::text(
                &self.server.shared.tool_filter,
                &self.sessions,
            ))
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        context.peer.set_peer_info(request.clone());
        let mut result = self.negotiate_initialize(&request)?;
        let version = ProtocolVersion::new(result.protocol_version.as_str());
        result.capabilities = capabilities::at(&version, self.served_features());
        Ok(result)
    }

    async fn discover(
        &self,
        context: RequestContext<RoleServer>,
    ) -> Result<DiscoverResult, ErrorData> {
        if let Some(client) = self.client_key(&context) {
            self.server.shared.list_changes.met(client);
        }
        let versions = self.supported_protocol_versions().into_owned();
        Ok(DiscoverResult::from_server_info(versions, self.get_info()))
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        let Some(session) = self.session(&context.extensions) else {
            return;
        };
        if let Some(peer) = context.peer.peer_info() {
            // The version that was requested; the answered one follows from it.
            let answered = self
                .negotiate_initialize(&peer)
                .map(|result| result.protocol_version);
            if let Ok(version) = answered {
                session.set_protocol_version(ProtocolVersion::new(version.as_str()));
            }
        }
        if let SessionLookup::ByHeader(sessions) = &self.sessions {
            sessions.initialized(session.id());
        }
        self.server.rescan().await;
        let snapshot = self.server.list_snapshot();
        let lists = &self.server.shared.list_changes;
        lists.initialized(&session, &snapshot);
        // Nobody is answered; it is tried again.
        let _written = self.settle(&session).await;
        if let SessionLookup::Single { announced, .. } = &self.sessions {
            announced.cancel();
        }
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let _after = self.server.rescan().await;
        let fetch = self.begin_fetch(ListKind::Tools, &context);
        let page = lists::page("tools", self.server.tools(), request);
        audit::note_result(&context, &page);
        let (items, next) = page?;
        fetch.end(next.as_deref());
        let mut result = ListToolsResult::with_all_items(items);
        result.next_cursor = next;
        Ok(result)
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.server.tool(name)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let answer = self.call(request, &context).await;
        audit::note_answer(&context, &answer);
        answer
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let _after = self.server.rescan().await;
        let fetch = self.begin_fetch(ListKind::Prompts, &context);
        let page = lists::page("prompts", self.server.prompts(), request);
        audit::note_result(&context, &page);
        let (items, next) = page?;
        fetch.end(next.as_deref());
        let mut result = ListPromptsResult::with_all_items(items);
        result.next_cursor = next;
        Ok(result)
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let _after = self.server.rescan().await;
        let fetch = self.begin_fetch(ListKind::Resources, &context);
        let all = self.server.shared.resources.list(&self.requester(&context));
        let page = lists::page("resources", all, request);
        audit::note_result(&context, &page);
        let (items, next) = page?;
        fetch.end(next.as_deref());
        let mut result = ListResourcesResult::with_all_items(items);
        result.next_cursor = next;
        Ok(result)
    }

    async fn list_resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let _after = self.server.rescan().await;
        let all = self.server.shared.resources.templates();
        let page = lists::page("resourceTemplates", all, request);
        audit::note_result(&context, &page);
        let (items, next) = page?;
        let mut result = ListResourceTemplatesResult::with_all_items(items);
        result.next_cursor = next;
        Ok(result)
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let answer = self.read(&request.uri, &context).await;
        audit::note_result(&context, &answer);
        let contents = answer?;
        Ok(cleaned_contents(&self.server.shared.redactor, contents).into())
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let subscribed = self.subscribe_session(&request.uri, &context).await;
        audit::note_result(&context, &subscribed);
        subscribed?;
        let kept = self.settle_current(&context).await;
        if let Err(NotKept::Rejected(_)) = kept {
            let _undone = self.unsubscribe_session(&request.uri, &context);
        }
        Ok(kept?)
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let ended = self.unsubscribe_session(&request.uri, &context);
        audit::note_result(&context, &ended);
        ended?;
        Ok(self.settle_current(&context).await?)
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let answer = self.prompt(&request, &context).await;
        audit::note_result(&context, &answer);
        answer
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let requester = self.requester(&context);
        let permit = self.call_permit(&requester);
        // What it may not complete is an empty answer.
        audit::note_result(&context, &permit);
        let _call = permit?;
        let completing = async {
            let _read = self.server.shared.work.read_permit(&requester).await;
            self.completion(&request).await
        };
        tokio::select! {
            biased;
            () = context.ct.cancelled() => {
                Err(ErrorData::internal_error("the request was cancelled", None))
            }
            completed = completing => Ok(completed),
        }
    }

    #[expect(deprecated, reason = "the protocol versions with sessions have it")]
    async fn set_level(
        &self,
        request: rmcp::model::SetLevelRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let name = serde_json::to_value(request.level).unwrap_or_default();
        self.change_level(name.as_str().unwrap_or_default(), &context)?;
        Ok(self.settle_current(&context).await?)
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        // A level that rmcp does not know arrives here instead of at `set_level`.
        if request.method == "logging/setLevel" {
            let level = request
                .params
                .as_ref()
                .and_then(|params| params.get("level"));
            let level = level.and_then(Value::as_str).unwrap_or_default();
            self.change_level(level, &context)?;
            return Ok(CustomResult::new(Value::Object(serde_json::Map::new())));
        }
        // So does every request whose parameters rmcp cannot read.
        let wrong = parameters::wrong(&request, is_modern(&context));
        let refused = Err(wrong
            .unwrap_or_else(|| ErrorData::new(ErrorCode::METHOD_NOT_FOUND, request.method, None)));
        audit::note_result(&context, &refused);
        refused
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        let shown = self.task_state(&request.task_id).await;
        audit::note_result(&context, &shown);
        let shown = shown?;
        if shown.is_withheld {
            audit::note_withheld(&context);
        }
        Ok(GetTaskResult::new(shown.task))
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        // No task asks its client for anything.
        let found = self.task(&request.task_id).map(drop);
        audit::note_result(&context, &found);
        found
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let cancelled = self.cancel_one(&request.task_id);
        audit::note_result(&context, &cancelled);
        cancelled
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        Some(self.accepted_filter(requested))
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        self.serve_listen(&context).await
    }
}

//! Prompts, and completion of what they and resource templates take.

use mcp_notify::{Progress, ProtocolVersion};
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CompleteRequestParams, CompleteResult, CompletionInfo, GetPromptRequestParams,
        GetPromptResponse, GetPromptResult, Prompt, Reference,
    },
    service::RequestContext,
};

use super::{Server, ToolLimits};
use crate::{
    prompts::{self, Consult, Entry, Names},
    resources::{Completion, Era, complete_of_cluster},
    running::{Log, Running},
    tools::ToolContext,
};
use kubecrier_k8s::Cluster;

/// A prompt holds what several tools say: each has this part of the room.
const PARTS: usize = 4;

/// Faults are completed out of so many.
const FAULTS_SINCE: std::time::Duration = std::time::Duration::from_hours(1);

impl Server {
    /// Every prompt, our own first: a file of the same name does not hide them.
    pub(super) fn prompts(&self) -> Vec<Prompt> {
        let mut all: Vec<_> = prompts::PROMPTS.iter().map(Entry::definition).collect();
        let catalogs = self.shared.catalogs.iter();
        let more = catalogs.flat_map(|one| one.prompts());
        all.extend(more.filter(|prompt| prompts::find(&prompt.name).is_none()));
        all
    }

    pub(super) async fn prompt(
        &self,
        request: &GetPromptRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        if let Some(entry) = prompts::find(&request.name) {
            let filling = self.fill(entry, request, context);
            return tokio::select! {
                biased;
                () = context.ct.cancelled() => {
                    Err(ErrorData::internal_error("the request was cancelled", None))
                }
                filled = filling => filled.map(Into::into),
            };
        }
        let mut catalogs = self.shared.catalogs.iter();
        match catalogs.find_map(|one| one.prompt(request)) {
            Some(filled) => filled.map(Into::into),
            None => {
                let text = format!(
                    "no prompt `{}`; prompts/list has all there are",
                    request.name
                );
                Err(ErrorData::invalid_params(text, None))
            }
        }
    }

    async fn fill(
        &self,
        entry: &Entry,
        request: &GetPromptRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<GetPromptResult, ErrorData> {
        let given = entry.given(request)?;
        let shared = &self.shared;
        let client = self.client(context);
        let running = Running::new(Progress::disabled(), Log::Nowhere);
        // Of the handshake itself: the session learns its version a moment later.
        let peer = context.peer.peer_info();
        let answered = peer.and_then(|peer| self.negotiate_initialize(&peer).ok());
        let version = answered.map(|one| ProtocolVersion::new(one.protocol_version.as_str()));
        let has_links = version.is_some_and(|version| version >= ProtocolVersion::V_2025_06_18);
        let consult = Consult {
            tools: ToolContext {
                contexts: &shared.contexts,
                limits: ToolLimits {
                    output_bytes: shared.limits.output_bytes / PARTS,
                },
                subscriptions: &shared.subscriptions,
                graphs: &shared.graphs,
                client: &client,
                running: &running,
                draining: shared.lifecycle.draining(),
            },
            resources: &shared.resources,
            offer: &shared.offer,
            redactor: &shared.redactor,
            links: client.who.era == Era::Modern || has_links,
        };
        let pages = (entry.fill)(&consult, given).await?;
        Ok(pages.under(entry))
    }

    /// What nobody knows is completed by nothing.
    pub(super) async fn completion(&self, request: &CompleteRequestParams) -> CompleteResult {
        let given = &request.argument;
        let chosen = |name: &str| request.context.as_ref()?.get_argument(name).cloned();
        let asked = |template| Completion {
            template,
            variable: &given.name,
            given: &given.value,
            chosen: &chosen,
        };
        let mut values = match &request.r#ref {
            Reference::Prompt(prompt) => self.complete_prompt(asked(&prompt.name)).await,
            Reference::Resource(template) => {
                let found = self.shared.resources.complete(asked(&template.uri));
                match found {
                    Some(values) => values.await,
                    None => Vec::new(),
                }
            }
            _ => Vec::new(),
        };
        let total = values.len();
        values.truncate(CompletionInfo::MAX_VALUES);
        let more = values.len() < total;
        let total = u32::try_from(total).unwrap_or(u32::MAX);
        let info = CompletionInfo::with_pagination(values, Some(total), more);
        CompleteResult::new(info.unwrap_or_default())
    }

    async fn complete_prompt(&self, asked: Completion<'_>) -> Vec<String> {
        let Some(entry) = prompts::find(asked.template) else {
            let mut catalogs = self.shared.catalogs.iter();
            let found =
                catalogs.find_map(|one| one.complete(asked.template, asked.variable, asked.given));
            return found.unwrap_or_default();
        };
        let contexts = &self.shared.contexts;
        let variable = match entry.names(asked.variable) {
            None => return Vec::new(),
            Some(Names::Context) => "context",
            Some(Names::Namespace) => "namespace",
            Some(Names::Pod) => "pod",
            Some(Names::Service) => "service",
            Some(Names::Fault) => return self.faults_like(asked).await,
        };
        let values = complete_of_cluster(contexts, Completion { variable, ..asked });
        match values {
            Some(values) => values.await,
            None => Vec::new(),
        }
    }

    async fn faults_like(&self, asked: Completion<'_>) -> Vec<String> {
        let contexts = &self.shared.contexts;
        let chosen = |name: &str| (asked.chosen)(name).filter(|value| !value.is_empty());
        let Ok(context) = contexts.resolve(chosen("context").as_deref()) else {
            return Vec::new();
        };
        let ask = |cluster: Cluster| async move { cluster.faults(None, FAULTS_SINCE).await };
        let found = contexts.ask(&context, ask).await;
        let ids = found
            .map(|open| open.faults)
            .unwrap_or_default()
            .into_iter();
        ids.map(|fault| fault.fault_id)
            .filter(|id| id.starts_with(asked.given))
            .collect()
    }
}

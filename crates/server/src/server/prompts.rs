//! Prompts, and completion of what they and resource templates take.

use std::collections::HashMap;

use mcp_notify::{Progress, ProtocolVersion};
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CompleteRequestParams, CompleteResult, CompletionInfo, ContentBlock,
        GetPromptRequestParams, GetPromptResponse, GetPromptResult, Prompt, PromptMessage,
        Reference, Role,
    },
    service::RequestContext,
};
use serde_json::Value;

use super::{Server, Shared, ToolLimits, handler::Handler};
use crate::{
    content,
    doors::Door,
    output::cleaned_contents,
    project,
    prompts::{self, EvidenceCollector, PromptEntry, ValueKind},
    reporter::{LogTarget, RequestReporter},
    resources::{CompletionRequest, ProtocolEra, Requester, complete_from_cluster},
    tool_provider::FilledPrompt,
    tools::ToolContext,
};

/// A prompt holds the answers of several tools: each gets this part of the limit.
const PARTS: usize = 4;

/// A person waits for the completion while typing.
const COMPLETION_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(3);

impl Server {
    /// Every prompt, the built-in ones first: a file of the same name does not hide them.
    pub(crate) fn prompts(&self) -> Vec<Prompt> {
        let mut all = prompts::definitions(&self.shared.tool_filter);
        let providers = self.shared.tool_providers.iter();
        let more = providers.flat_map(|one| one.prompts());
        all.extend(more.filter(|prompt| prompts::find(&prompt.name).is_none()));
        all
    }
}

impl Handler {
    pub(super) async fn prompt(
        &self,
        request: &GetPromptRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let requester = self.requester(context);
        let _call = self.call_permit(&requester)?;
        if let Some(entry) = prompts::find(&request.name) {
            if let Err(off) = entry.check(&self.server.shared.tool_filter) {
                return Err(ErrorData::invalid_params(off.to_string(), None));
            }
            let rendering = async {
                let _read = self.server.shared.work.read_permit(&requester).await;
                self.render(entry, request, context).await
            };
            return tokio::select! {
                biased;
                () = context.ct.cancelled() => {
                    Err(ErrorData::internal_error("the request was cancelled", None))
                }
                rendered = rendering => rendered.map(Into::into),
            };
        }
        let mut providers = self.server.shared.tool_providers.iter();
        match providers.find_map(|one| one.prompt(request)) {
            Some(filled) => {
                let finishing = self.finish_prompt(filled?, &requester);
                tokio::select! {
                    biased;
                    () = context.ct.cancelled() => {
                        Err(ErrorData::internal_error("the request was cancelled", None))
                    }
                    finished = finishing => finished.map(Into::into),
                }
            }
            None => {
                let text = format!(
                    "no prompt `{}`; prompts/list has all there are",
                    request.name
                );
                Err(ErrorData::invalid_params(text, None))
            }
        }
    }

    /// Reads the resources that a prompt embeds, as its requester, and cleans everything.
    async fn finish_prompt(
        &self,
        filled: FilledPrompt,
        requester: &Requester,
    ) -> Result<GetPromptResult, ErrorData> {
        let FilledPrompt {
            description,
            messages,
        } = filled;
        let mut read = HashMap::new();
        for (index, message) in messages.iter().enumerate() {
            let content = &message["content"];
            if kubecrier_project::is_reference(content) {
                let uri = content["resource"]["uri"].as_str().unwrap_or_default();
                read.insert(index, self.read_contents(uri, requester).await?);
            }
        }
        let redactor = self.server.shared.redactor.clone();
        let clean = move || {
            let clean = |(index, mut message): (usize, Value)| {
                let role = match message["role"].as_str() {
                    Some("assistant") => Role::Assistant,
                    _ => Role::User,
                };
                let resource = read.remove(&index).and_then(|contents| {
                    // As when it is read: names in it stay as they are.
                    let contents = cleaned_contents(&redactor, contents).contents;
                    contents.into_iter().next().map(ContentBlock::resource)
                });
                let content = resource.unwrap_or_else(|| {
                    let mut content = message["content"].take();
                    content::clean_block(&redactor, &mut content);
                    content::to_block(content)
                });
                PromptMessage::new(role, content)
            };
            messages.into_iter().enumerate().map(clean).collect()
        };
        let messages = project::cleaning(clean).await;
        let messages = messages.map_err(|error| ErrorData::internal_error(error, None))?;
        // Made by its constructor, which adds what the protocol version wants of every result.
        let mut result = GetPromptResult::new(messages);
        result.description = description;
        Ok(result)
    }

    async fn render(
        &self,
        entry: &PromptEntry,
        request: &GetPromptRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<GetPromptResult, ErrorData> {
        let given = entry.arguments(request)?;
        let shared = &self.server.shared;
        let client = self.client(context);
        let reporter = RequestReporter::new(Progress::disabled(), LogTarget::Disabled);
        // The version of the handshake itself: the session gets its version only after
        // `initialized`.
        let peer = context.peer.peer_info();
        let answered = peer.and_then(|peer| self.negotiate_initialize(&peer).ok());
        let version = answered.map(|one| ProtocolVersion::new(one.protocol_version.as_str()));
        let has_links = version.is_some_and(|version| version >= ProtocolVersion::V_2025_06_18);
        let evidence = EvidenceCollector {
            tools: ToolContext {
                contexts: &shared.contexts,
                history: self.server.history(),
                tool_filter: &shared.tool_filter,
                limits: ToolLimits {
                    output_bytes: shared.limits.output_bytes / PARTS,
                },
                subscriptions: &shared.subscriptions,
                event_lists: &shared.event_lists,
                graphs: &shared.graphs,
                incidents: &shared.incidents,
                waits: &shared.waits,
                work: &shared.work,
                client: &client,
                reporter: &reporter,
                redactor: &shared.redactor,
                draining: shared.lifecycle.draining(),
                task: None,
            },
            resources: &shared.resources,
            links: client.requester.era == ProtocolEra::Modern || has_links,
        };
        let mut content = (entry.render)(&evidence, given).await?;
        evidence.add_switched_off(&mut content);
        Ok(content.under(entry))
    }

    /// Completes an argument; an unknown one has no values.
    pub(super) async fn completion(&self, request: &CompleteRequestParams) -> CompleteResult {
        let given = &request.argument;
        let chosen = |name: &str| request.context.as_ref()?.get_argument(name).cloned();
        let actor = self.caller.actor();
        let asked = |template| CompletionRequest {
            template,
            variable: &given.name,
            given: &given.value,
            chosen: &chosen,
            actor: &actor,
        };
        let mut values = match &request.r#ref {
            Reference::Prompt(prompt) => self.complete_prompt(asked(&prompt.name)).await,
            Reference::Resource(template) => {
                let found = self.server.shared.resources.complete(asked(&template.uri));
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

    async fn complete_prompt(&self, asked: CompletionRequest<'_>) -> Vec<String> {
        let Some(entry) = prompts::find(asked.template) else {
            let mut providers = self.server.shared.tool_providers.iter();
            let found =
                providers.find_map(|one| one.complete(asked.template, asked.variable, asked.given));
            return found.unwrap_or_default();
        };
        let Shared {
            contexts,
            tool_filter,
            ..
        } = &*self.server.shared;
        if entry.check(tool_filter).is_err() {
            return Vec::new();
        }
        let variable = match entry.value_kind(asked.variable) {
            None => return Vec::new(),
            Some(ValueKind::Context) => "context",
            Some(ValueKind::Namespace) => "namespace",
            Some(ValueKind::Pod) => "pod",
            Some(ValueKind::Service) => "service",
            Some(ValueKind::Fault) => return self.complete_fault(asked).await,
        };
        let values = complete_from_cluster(
            contexts,
            tool_filter,
            CompletionRequest { variable, ..asked },
        );
        match values {
            Some(values) => values.await,
            None => Vec::new(),
        }
    }

    async fn complete_fault(&self, asked: CompletionRequest<'_>) -> Vec<String> {
        let shared = &self.server.shared;
        if shared.tool_filter.check(Door::FaultIds).is_err() {
            return Vec::new();
        }
        let contexts = &shared.contexts;
        let chosen = |name: &str| (asked.chosen)(name).filter(|value| !value.is_empty());
        let Ok(context) = contexts.resolve(chosen("context").as_deref()) else {
            return Vec::new();
        };
        let requester = Requester::stateless(self.caller.clone(), None);
        let Ok(viewer) = shared.subscriptions.viewer(&requester) else {
            return Vec::new();
        };
        let caller = requester.share_key();
        let incidents = (shared.incidents).read(&caller, &viewer, Some(&context), None);
        let incidents = tokio::time::timeout(COMPLETION_TIMEOUT, incidents).await;
        let open = match &incidents {
            Ok(Ok(read)) => read.open(),
            _ => Vec::new(),
        };
        let ids = open.into_iter().map(|incident| incident.id.clone());
        ids.filter(|id| id.starts_with(asked.given)).collect()
    }
}

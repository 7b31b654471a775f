//! The lists: what is built in, and what providers add, page by page.

use std::sync::Arc;

use mcp_notify::{ContentHash, ListKind};
use rmcp::{
    ErrorData, RoleServer,
    model::{PaginatedRequestParams, Tool},
    service::RequestContext,
};
use serde::Serialize;

use super::{
    Server,
    handler::{Handler, is_modern},
};
use crate::{
    list_changes::{ClientKey, ListChanges, ListSnapshot},
    prompts,
    resources::Requester,
    tool_provider::ToolProvider,
};
use kubecrier_project::{self, PAGE_DEFAULT, Project};

/// Polls the project folder when the request that holds it has been answered.
pub(super) struct PollOnDrop<'a>(Option<&'a Project>);

/// A list that a client of 2026-07-28 is about to get.
pub(super) struct ListFetch<'a> {
    list_changes: &'a ListChanges,
    noted: Option<(ClientKey, ListKind, ContentHash)>,
}

impl Handler {
    /// Who a client of 2026-07-28 says it is. Sessions of earlier versions are told of every
    /// list once, whatever they have fetched.
    pub(super) fn client_key(&self, context: &RequestContext<RoleServer>) -> Option<ClientKey> {
        let client = context.client_info().filter(|_| is_modern(context))?;
        ClientKey::new(&self.caller, self.peer, &client.name, &client.version)
    }

    /// To be called before a list is made.
    pub(super) fn begin_fetch(
        &self,
        list: ListKind,
        context: &RequestContext<RoleServer>,
    ) -> ListFetch<'_> {
        let list_changes = &self.server.shared.list_changes;
        let noted = self.client_key(context).and_then(|client| {
            let content = list_changes.content(list, &self.server.list_snapshot())?;
            Some((client, list, content))
        });
        ListFetch {
            list_changes,
            noted,
        }
    }
}

impl ListFetch<'_> {
    /// The client gets the last page, if there is no cursor for another.
    pub(super) fn end(self, next_cursor: Option<&str>) {
        if let (Some((client, list, content)), None) = (self.noted, next_cursor) {
            self.list_changes.fetched(client, list, content);
        }
    }
}

impl Server {
    /// Compares the lists with what was last announced, and notifies the observers of
    /// those that differ.
    pub(crate) async fn publish_list_changes(&self) {
        let list_changes = &self.shared.list_changes;
        if list_changes.has_observers() {
            list_changes.publish(&self.list_snapshot()).await;
        }
    }

    /// The project folder, if one is served.
    pub(crate) fn project(&self) -> Option<&Project> {
        self.shared.project.as_ref()
    }

    /// Scans the project folder, and follows it from then on.
    pub async fn follow_project(&self) {
        if let Some(project) = self.project() {
            project.refresh().await;
            let lifecycle = &self.shared.lifecycle;
            let following =
                kubecrier_project::watch_folder(project.clone(), lifecycle.draining().clone());
            lifecycle.spawn("project folder", following);
        }
    }

    /// What is served of the project folder, for operators. The reason of a refusal may
    /// contain what a program has printed.
    pub fn project_stats(&self) -> Option<serde_json::Value> {
        let mut stats = self.project().map(Project::stats)?;
        self.shared.redactor.json(&mut stats);
        Some(stats)
    }

    /// Scans the project folder before a list is answered, and polls it once more after
    /// the answer. Changes are announced by hash, so a second scan that finds nothing
    /// new announces nothing.
    pub(super) async fn rescan(&self) -> PollOnDrop<'_> {
        if let Some(project) = self.project() {
            project.refresh().await;
        }
        PollOnDrop(self.project())
    }

    /// The lists that every client sees. Of a provider that knows the hashes of its
    /// lists the hashes are enough, and they cover more than the lists show: the content
    /// of an executable.
    pub(super) fn list_snapshot(&self) -> ListSnapshot {
        let mut lists = ListSnapshot {
            tools: self.built_in_tools().to_vec(),
            resources: self.shared.resources.list(&Requester::anonymous()),
            templates: self.shared.resources.templates(),
            prompts: prompts::definitions(&self.shared.tool_filter),
            files: None,
        };
        for provider in &self.shared.tool_providers {
            match provider.hashes() {
                Some(hashes) => lists.files = Some(hashes),
                None => {
                    lists.tools.extend(self.allowed_tools(&**provider));
                    lists.prompts.extend(provider.prompts());
                }
            }
        }
        lists
    }

    /// Every tool, the built-in ones first.
    pub(super) fn tools(&self) -> Vec<Tool> {
        let mut all = self.built_in_tools().to_vec();
        for provider in &self.shared.tool_providers {
            all.extend(self.allowed_tools(&**provider));
        }
        all
    }

    /// The definition of one tool.
    pub(crate) fn tool(&self, name: &str) -> Option<Tool> {
        let find = |tools: &[Tool]| tools.iter().find(|tool| tool.name == name).cloned();
        find(&self.built_in_tools()).or_else(|| {
            let mut providers = self.shared.tool_providers.iter();
            let found = providers.find_map(|provider| find(&provider.tools()));
            found.filter(|tool| self.shared.tool_filter.allows(&tool.name))
        })
    }

    /// The built-in tools that the operator's filter includes.
    pub(super) fn built_in_tools(&self) -> Arc<[Tool]> {
        let shared = &self.shared;
        shared
            .definitions
            .built_in(&shared.contexts, &shared.tool_filter)
    }

    fn allowed_tools(&self, provider: &dyn ToolProvider) -> Vec<Tool> {
        let tools = provider.tools();
        let allowed = tools
            .iter()
            .filter(|tool| self.shared.tool_filter.allows(&tool.name));
        allowed.cloned().collect()
    }
}

impl Drop for PollOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(project) = self.0 {
            project.request_poll();
        }
    }
}

/// The requested page, and the cursor of the next one.
pub(super) fn page<T: Serialize>(
    collection: &str,
    mut items: Vec<T>,
    request: Option<PaginatedRequestParams>,
) -> Result<(Vec<T>, Option<String>), ErrorData> {
    let cursor = request.and_then(|request| request.cursor);
    if cursor.is_none() && items.len() <= PAGE_DEFAULT {
        return Ok((items, None));
    }
    let hash = ContentHash::of(&items)
        .map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
    let (total, cursor) = (items.len(), cursor.as_deref());
    let page = kubecrier_project::page(collection, hash.as_str(), total, PAGE_DEFAULT, cursor)
        .map_err(|error| ErrorData::invalid_params(error.to_string(), None))?;
    let items = items.drain(page.range).collect();
    Ok((items, page.next))
}

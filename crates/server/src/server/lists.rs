//! The lists: what is built in, and what providers add, page by page.

use std::sync::Arc;

use mcp_notify::ContentHash;
use rmcp::{
    ErrorData,
    model::{PaginatedRequestParams, Tool},
};
use serde::Serialize;

use super::Server;
use crate::{
    list_changes::ListSnapshot, prompts, resources::Requester, tool_provider::ToolProvider,
};
use kubecrier_project::{self, PAGE_DEFAULT, Project};

/// Polls the project folder when the request that holds it has been answered.
pub(super) struct PollOnDrop<'a>(Option<&'a Project>);

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
    pub(super) fn tool(&self, name: &str) -> Option<Tool> {
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

//! The lists: what is built in, what the site adds, page by page.

use mcp_notify::ContentHash;
use rmcp::{
    ErrorData,
    model::{PaginatedRequestParams, Tool},
};
use serde::Serialize;

use super::Server;
use crate::{
    catalog::Catalog,
    prompts::{self, Entry},
    push::Lists,
    tools,
};
use kubecrier_project::{self, PAGE_DEFAULT, Project};

/// A request that is being dispatched; when it is done, a poll follows.
pub(super) struct After<'a>(Option<&'a Project>);

impl Server {
    /// Looks whether the lists have changed, and tells whoever has joined.
    pub(crate) fn refresh(&self) {
        if self.shared.push.joined() > 0 {
            self.shared.push.refresh(&self.lists());
        }
    }

    /// The site's folder, if one is served.
    pub(crate) fn project(&self) -> Option<&Project> {
        self.shared.project.as_ref()
    }

    /// Looks into the folder, and follows it from then on.
    pub async fn follow_project(&self) {
        if let Some(project) = self.project() {
            project.refresh().await;
            let lifecycle = &self.shared.lifecycle;
            let following =
                kubecrier_project::follow(project.clone(), lifecycle.draining().clone());
            lifecycle.spawn("project folder", following);
        }
    }

    /// What is served of it, for those who run the server.
    pub fn project_stats(&self) -> Option<serde_json::Value> {
        self.project().map(Project::stats)
    }

    /// Looks at the folder before a list is answered, and once more after it.
    /// Whoever is told of a change is told by hashes, so looking twice is quiet.
    pub(super) async fn look(&self) -> After<'_> {
        if let Some(project) = self.project() {
            project.refresh().await;
        }
        self.after()
    }

    /// A poll follows when the answer is made.
    pub(super) fn after(&self) -> After<'_> {
        After(self.project())
    }

    /// What everybody sees. Of a source that knows what its lists amount to, that is
    /// enough, and it knows more than the lists show: what an executable does.
    pub(super) fn lists(&self) -> Lists {
        let mut lists = Lists {
            tools: self.built_in(),
            resources: self.shared.resources.list(&self.nobody_in_particular()),
            templates: self.shared.resources.templates(),
            prompts: prompts::PROMPTS.iter().map(Entry::definition).collect(),
            files: None,
        };
        for catalog in &self.shared.catalogs {
            match catalog.hashes() {
                Some(hashes) => lists.files = Some(hashes),
                None => {
                    lists.tools.extend(self.offered_of(&**catalog));
                    lists.prompts.extend(catalog.prompts());
                }
            }
        }
        lists
    }

    /// Every tool, our own first.
    pub(super) fn tools(&self) -> Vec<Tool> {
        let mut all = self.built_in();
        let catalogs = self.shared.catalogs.iter();
        all.extend(catalogs.flat_map(|one| self.offered_of(&**one)));
        all
    }

    fn offered_of(&self, catalog: &dyn Catalog) -> Vec<Tool> {
        let mut tools = catalog.tools();
        tools.retain(|tool| self.shared.offer.allows(&tool.name));
        tools
    }

    fn built_in(&self) -> Vec<Tool> {
        // Without a readable kubeconfig there is no choice of contexts, and the
        // tools say why when they are called.
        let contexts = self.shared.contexts.list().unwrap_or_default();
        let default = contexts
            .iter()
            .find(|one| one.default)
            .map(|one| one.name.clone());
        let names: Vec<_> = contexts.into_iter().map(|one| one.name).collect();
        let ours = tools::TOOLS.iter().filter(|one| self.shared.offer.has(one));
        ours.map(|entry| entry.definition(&names, default.as_deref()))
            .collect()
    }
}

impl Drop for After<'_> {
    fn drop(&mut self) {
        if let Some(project) = self.0 {
            project.dispatched();
        }
    }
}

/// The page that was asked for, and how to get the next one.
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

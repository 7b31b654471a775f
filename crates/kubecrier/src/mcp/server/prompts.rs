//! Prompts, and completion of what they and resource templates take.

use rmcp::{
    ErrorData,
    model::{
        CompleteRequestParams, CompleteResult, CompletionInfo, GetPromptRequestParams,
        GetPromptResponse, Prompt, Reference,
    },
};

use super::Server;

impl Server {
    pub(super) fn prompts(&self) -> Vec<Prompt> {
        let catalogs = self.shared.catalogs.iter();
        catalogs.flat_map(|one| one.prompts()).collect()
    }

    pub(super) fn prompt(
        &self,
        request: &GetPromptRequestParams,
    ) -> Result<GetPromptResponse, ErrorData> {
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

    /// What nobody knows is completed by nothing.
    pub(super) fn completion(&self, request: &CompleteRequestParams) -> CompleteResult {
        let given = &request.argument;
        let found = match &request.r#ref {
            Reference::Prompt(prompt) => {
                let mut catalogs = self.shared.catalogs.iter();
                catalogs.find_map(|one| one.complete(&prompt.name, &given.name, &given.value))
            }
            Reference::Resource(template) => {
                let chosen = |name: &str| request.context.as_ref()?.get_argument(name).cloned();
                let resources = &self.shared.resources;
                resources.complete(&template.uri, &given.name, &given.value, &chosen)
            }
            _ => None,
        };
        let mut values = found.unwrap_or_default();
        let total = values.len();
        values.truncate(CompletionInfo::MAX_VALUES);
        let more = values.len() < total;
        let total = u32::try_from(total).unwrap_or(u32::MAX);
        let info = CompletionInfo::with_pagination(values, Some(total), more);
        CompleteResult::new(info.unwrap_or_default())
    }
}

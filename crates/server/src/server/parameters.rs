//! What is wrong with the parameters of a request that rmcp could not read.

use rmcp::{
    ErrorData,
    model::{
        CallToolRequestParams, CompleteRequestParams, CustomRequest, GetPromptRequestParams,
        PaginatedRequestParams, ReadResourceRequestParams, SubscribeRequestParams,
        UnsubscribeRequestParams,
    },
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// The error for a request that is known, with parameters that are not its; `None` if the
/// method is not known at its protocol version, or its parameters are not what is wrong.
pub(super) fn wrong(request: &CustomRequest, is_modern: bool) -> Option<ErrorData> {
    let params = request.params.clone().unwrap_or_else(|| json!({}));
    let error = match request.method.as_str() {
        "tools/call" => read::<CallToolRequestParams>(params),
        "prompts/get" => read::<GetPromptRequestParams>(params),
        "completion/complete" => read::<CompleteRequestParams>(params),
        "resources/read" => read::<ReadResourceRequestParams>(params),
        "resources/subscribe" if !is_modern => read::<SubscribeRequestParams>(params),
        "resources/unsubscribe" if !is_modern => read::<UnsubscribeRequestParams>(params),
        "tools/list" | "prompts/list" | "resources/list" | "resources/templates/list" => {
            read::<PaginatedRequestParams>(params)
        }
        _ => Ok(()),
    };
    let error = error.err()?;
    let text = format!("{}: `params`: {error}", request.method);
    Some(ErrorData::invalid_params(text, None))
}

fn read<T: DeserializeOwned>(params: Value) -> serde_json::Result<()> {
    serde_json::from_value::<T>(params).map(drop)
}

#[cfg(test)]
mod tests {
    use rmcp::model::ErrorCode;

    use super::*;

    #[test]
    fn what_is_missing_is_named_and_an_unknown_method_is_not_this_error() {
        let wrong = |method: &str, params: Option<Value>| {
            let wrong = wrong(&CustomRequest::new(method, params), false)?;
            assert_eq!(wrong.code, ErrorCode::INVALID_PARAMS);
            Some(wrong.message.into_owned())
        };
        for (method, params, part) in [
            ("tools/call", None, "`name`"),
            ("tools/call", Some(json!({"name": 5})), "integer"),
            ("prompts/get", Some(json!({})), "`name`"),
            ("resources/read", Some(json!({"url": "x"})), "`uri`"),
            ("tools/list", Some(json!({"cursor": 5})), "integer"),
        ] {
            let text = wrong(method, params).unwrap();
            assert!(text.contains(method) && text.contains(part), "{text}");
        }
        assert_eq!(wrong("tools/call", Some(json!({"name": "x"}))), None);
        assert_eq!(wrong("no/such", None), None);
        assert!(wrong("resources/subscribe", None).is_some());
        let modern = super::wrong(&CustomRequest::new("resources/subscribe", None), true);
        assert_eq!(modern, None, "there is no such method");
    }
}

//! `events_unsubscribe`.

use rmcp::schemars;
use serde::Deserialize;
use serde_json::json;

use super::{Output, ToolContext, ToolEntry, ToolError, arguments, schema};
use kubecrier_core::subscriptions::UnsubscribeOutcome;

pub(super) const ENTRY: ToolEntry = ToolEntry {
    name: "events_unsubscribe",
    title: "Events: unsubscribe",
    description: "End a subscription made with events_subscribe. Repeating it does no harm.",
    schema: schema::of::<EventsUnsubscribeArgs>,
    call: |context, given| Box::pin(async move { call(context, arguments(given)?).await }),
};

#[derive(Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schemars(crate = "rmcp::schemars")]
struct EventsUnsubscribeArgs {
    /// ID returned by events_subscribe
    subscription_id: String,
}

async fn call(context: ToolContext<'_>, args: EventsUnsubscribeArgs) -> Result<Output, ToolError> {
    let requester = &context.client.requester;
    let outcome = context
        .subscriptions
        .unsubscribe_all(requester, &args.subscription_id)
        .await?;
    let mut data = serde_json::Map::new();
    data.insert("subscriptionId".to_owned(), json!(args.subscription_id));
    data.insert("status".to_owned(), json!("unsubscribed"));
    let already = outcome == UnsubscribeOutcome::AlreadyEnded;
    data.insert("alreadyEnded".to_owned(), json!(already));
    Ok(Output::json(context.redactor, data))
}

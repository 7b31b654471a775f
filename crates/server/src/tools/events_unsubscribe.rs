//! `events_unsubscribe`.

use rmcp::schemars;
use serde::Deserialize;
use serde_json::json;

use super::{Entry, Output, ToolContext, ToolError, arguments, schema};
use kubecrier_core::subscriptions::Unsubscribed;

pub(super) const ENTRY: Entry = Entry {
    name: "events_unsubscribe",
    title: "Events: unsubscribe",
    description: "End a subscription made with events_subscribe. Ending it again does no harm.",
    idempotent: true,
    schema: schema::of::<Args>,
    call: |context, given| Box::pin(async move { call(context, arguments(given)?) }),
};

#[derive(Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schemars(crate = "rmcp::schemars")]
struct Args {
    /// As events_subscribe gave it
    subscription_id: String,
}

fn call(context: ToolContext<'_>, args: Args) -> Result<Output, ToolError> {
    let who = &context.client.who;
    let outcome = context
        .subscriptions
        .unsubscribe(who, &args.subscription_id)?;
    let mut data = serde_json::Map::new();
    data.insert("subscriptionId".to_owned(), json!(args.subscription_id));
    data.insert("status".to_owned(), json!("unsubscribed"));
    let already = outcome == Unsubscribed::Already;
    data.insert("alreadyEnded".to_owned(), json!(already));
    Ok(Output::json(data))
}

//! `events_list_subscriptions`.

use rmcp::schemars;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    Output, ToolContext, ToolEntry, ToolError, arguments, events_subscribe::describe, schema,
};
use crate::subscriptions::SubscriptionRecord;

pub(super) const ENTRY: ToolEntry = ToolEntry {
    name: "events_list_subscriptions",
    title: "Events: list subscriptions",
    description: "List your subscriptions: filters, watch status, number of events so far.",
    schema: schema::of::<EventsListSubscriptionsArgs>,
    call: |context, given| Box::pin(async move { call(context, arguments(given)?).await }),
};

#[derive(Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(crate = "rmcp::schemars")]
struct EventsListSubscriptionsArgs {}

async fn call(
    context: ToolContext<'_>,
    _args: EventsListSubscriptionsArgs,
) -> Result<Output, ToolError> {
    let requester = &context.client.requester;
    let own = context.subscriptions.list_all(requester).await?;
    let here = own.here.iter().map(|one| Value::Object(describe(one)));
    let elsewhere = own.elsewhere.iter().map(describe_kept);
    let subscriptions: Vec<_> = here.chain(elsewhere).collect();
    let mut data = serde_json::Map::new();
    data.insert("total".to_owned(), json!(subscriptions.len()));
    data.insert("subscriptions".to_owned(), Value::Array(subscriptions));
    Ok(Output::json(context.redactor, data))
}

/// A subscription that another server watches for; this one does when it is asked.
fn describe_kept(kept: &SubscriptionRecord) -> Value {
    json!({
        "subscriptionId": kept.id,
        "cluster": kept.context,
        "mode": kept.mode(),
        "filters": kept.filters(),
        "createdAt": kept.created_at(),
        "resourceUri": format!("kubecrier://subscriptions/{}", kept.id),
        "status": "elsewhere",
    })
}

//! `events_list_subscriptions`.

use rmcp::schemars;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    Output, ToolContext, ToolEntry, ToolError, arguments, events_subscribe::describe, schema,
};

pub(super) const ENTRY: ToolEntry = ToolEntry {
    name: "events_list_subscriptions",
    title: "Events: list subscriptions",
    description: "List your subscriptions: filters, watch status, number of events so far.",
    schema: schema::of::<EventsListSubscriptionsArgs>,
    call: |context, given| Box::pin(async move { call(context, arguments(given)?) }),
};

#[derive(Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(crate = "rmcp::schemars")]
struct EventsListSubscriptionsArgs {}

#[expect(clippy::unnecessary_wraps, reason = "as every tool answers")]
fn call(context: ToolContext<'_>, _args: EventsListSubscriptionsArgs) -> Result<Output, ToolError> {
    let own = context.subscriptions.list(&context.client.requester);
    let subscriptions: Vec<_> = own.iter().map(|one| Value::Object(describe(one))).collect();
    let mut data = serde_json::Map::new();
    data.insert("total".to_owned(), json!(subscriptions.len()));
    data.insert("subscriptions".to_owned(), Value::Array(subscriptions));
    Ok(Output::json(context.redactor, data))
}

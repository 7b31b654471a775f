//! `events_list_subscriptions`.

use rmcp::schemars;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Entry, Output, ToolContext, ToolError, arguments, events_subscribe::describe, schema};

pub(super) const ENTRY: Entry = Entry {
    name: "events_list_subscriptions",
    title: "Events: list subscriptions",
    description: "List your subscriptions: filters, how their watch does, how much they have seen.",
    idempotent: true,
    schema: schema::of::<Args>,
    call: |context, given| Box::pin(async move { call(context, arguments(given)?) }),
};

#[derive(Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(crate = "rmcp::schemars")]
struct Args {}

#[expect(clippy::unnecessary_wraps, reason = "as every tool answers")]
fn call(context: ToolContext<'_>, _args: Args) -> Result<Output, ToolError> {
    let own = context.subscriptions.list(&context.client.who);
    let subscriptions: Vec<_> = own.iter().map(|one| Value::Object(describe(one))).collect();
    let mut data = serde_json::Map::new();
    data.insert("total".to_owned(), json!(subscriptions.len()));
    data.insert("subscriptions".to_owned(), Value::Array(subscriptions));
    Ok(Output::json(data))
}

//! Input schemas, as small as they can be: every byte is read by a model, in every
//! conversation.

use rmcp::{
    model::JsonObject,
    schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings},
};
use serde_json::{Value, json};

use super::tools::ContextChoice;

/// More contexts than this are not listed in the schema; configuration_contexts_list
/// lists them.
const CONTEXTS_LISTED_MAX: usize = 15;

/// The schema of a tool's arguments.
pub(super) fn of<T: JsonSchema>() -> JsonObject {
    let settings =
        SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let schema = SchemaGenerator::new(settings).into_root_schema_for::<T>();
    let Value::Object(mut schema) = schema.to_value() else {
        return JsonObject::new();
    };
    for word in ["$schema", "title", "description"] {
        schema.remove(word);
    }
    schema.entry("properties").or_insert_with(|| json!({}));
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties.values_mut().for_each(simplify);
    }
    schema
}

/// Lists the contexts in a schema, or removes the argument where there is no choice.
pub(super) fn with_contexts(schema: &mut JsonObject, contexts: &ContextChoice) {
    let ContextChoice {
        names,
        default,
        hidden,
    } = contexts;
    let Some(Value::Object(properties)) = schema.get_mut("properties") else {
        return;
    };
    if names.len() < 2 {
        properties.remove("context");
        return;
    }
    let context = properties.get_mut("context").filter(|_| !hidden);
    let Some(Value::Object(context)) = context else {
        return;
    };
    if names.len() <= CONTEXTS_LISTED_MAX {
        context.insert("enum".to_owned(), json!(names));
    }
    if let Some(default) = default {
        context.insert("default".to_owned(), default.as_str().into());
    }
}

/// Shortens a property: `["string", "null"]` is an optional string, and formats add
/// nothing.
fn simplify(property: &mut Value) {
    let Value::Object(property) = property else {
        return;
    };
    for word in ["format", "title"] {
        property.remove(word);
    }
    if property.get("default") == Some(&Value::Null) {
        property.remove("default");
    }
    if let Some(Value::Array(types)) = property.get_mut("type") {
        types.retain(|one| one != "null");
        if let [one] = types.as_slice() {
            let one = one.clone();
            property.insert("type".to_owned(), one);
        }
    }
    if let Some(Value::Array(values)) = property.get_mut("enum") {
        values.retain(|one| !one.is_null());
    }
    if let Some(items) = property.get_mut("items") {
        simplify(items);
    }
}

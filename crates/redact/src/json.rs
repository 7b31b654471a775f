//! Structured payloads: every string, and the values of keys that name a secret.

use serde_json::{Map, Value};

use super::{Redactor, key_values};

/// Replaces a value whose key names a secret.
const MARK: &str = "[redacted secret]";

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

impl Redactor {
    /// Redacts every string of a payload, keys included, and hides the values of keys such
    /// as `password`, of environment variables with such names, and of Secrets.
    pub fn json(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let std::borrow::Cow::Owned(clean) = self.workload(text) {
                    *text = clean;
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.json(item)),
            Value::Object(fields) => self.object(fields),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn object(&self, fields: &mut Map<String, Value>) {
        let text = |key: &str| fields.get(key).and_then(Value::as_str);
        let is_secret = text("kind") == Some("Secret");
        let is_variable = text("name").is_some_and(key_values::is_secret_name);
        let dirty = |key: &String| self.workload(key) != key.as_str();
        if fields.keys().any(dirty) {
            *fields = std::mem::take(fields)
                .into_iter()
                .map(|(key, value)| (self.workload(&key).into_owned(), value))
                .collect();
        }
        for (key, value) in fields.iter_mut() {
            match key.as_str() {
                "data" | "stringData" if is_secret => hide(value),
                LAST_APPLIED => hide(value),
                "value" if is_variable => hide(value),
                name if key_values::is_secret_name(name) => self.secret(value),
                _ => self.json(value),
            }
        }
    }

    /// Hides the value of a key that names a secret.
    fn secret(&self, value: &mut Value) {
        match value {
            Value::String(text) if !key_values::is_placeholder(text) => hide(value),
            Value::Array(items) => items.iter_mut().for_each(|item| self.secret(item)),
            other => self.json(other),
        }
    }
}

/// Hides every value and keeps the keys, which tell a reader what exists.
fn hide(value: &mut Value) {
    match value {
        Value::Object(fields) => fields.values_mut().for_each(hide),
        Value::Array(items) => items.iter_mut().for_each(hide),
        Value::Null | Value::Bool(_) => {}
        Value::String(text) if text.is_empty() || text.starts_with("[redacted") => {}
        Value::String(_) | Value::Number(_) => *value = MARK.into(),
    }
}

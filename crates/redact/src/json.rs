//! Structured payloads: every string, and the values of keys that name a secret.

use serde_json::{Map, Value};

use super::{
    Redactor,
    names::{self, Class, Name},
    pairs,
};

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
        let variable = text("name").and_then(names::classify);
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
                "value" if let Some(name) = variable => self.secret(strict(name), value),
                key => match names::classify(key) {
                    Some(name) => self.secret(name, value),
                    None => self.json(value),
                },
            }
        }
    }

    /// Hides the value of a key that names a secret.
    fn secret(&self, name: Name, value: &mut Value) {
        match value {
            Value::String(text) if pairs::hides(name, text, None) => hide(value),
            Value::Number(_) if name.class == Class::Password && !name.bare_pass => hide(value),
            Value::Array(items) => items.iter_mut().for_each(|item| self.secret(name, item)),
            Value::Object(fields) => {
                self.object(fields);
                for (key, value) in fields.iter_mut() {
                    if let Value::String(text) = &*value
                        && pairs::is_secret_field(name, key, text)
                    {
                        hide(value);
                    }
                }
            }
            other => self.json(other),
        }
    }
}

/// A variable whose name is a secret's has a secret in it, whatever that looks like.
fn strict(name: Name) -> Name {
    let class = match name.class {
        Class::Weak | Class::Session => name.class,
        _ => Class::Password,
    };
    Name { class, ..name }
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

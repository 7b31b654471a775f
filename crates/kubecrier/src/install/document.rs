//! The entry in a configuration file, whatever its format. Every change is parsed again before
//! it is offered: it may differ from the text before in our entry and in nothing else.

use serde_json::{Map, Value};

use super::{entry::Node, json, toml};
use crate::clients::{ClientFile, FileFormat, ParseError};

/// The name of our entry.
pub(super) const NAME: &str = "kubecrier";

/// What is written as the entry.
#[derive(Clone, Copy, Debug)]
pub(super) enum Content<'a> {
    Entry(&'a Node),
    /// As it was found in a file.
    Raw(&'a str),
}

/// Why a text cannot be changed.
#[derive(Debug, PartialEq)]
pub(super) enum EditError {
    Parse(ParseError),
    /// The top, or what the key names, is not an object.
    NoObject,
    /// Only with a change of something else.
    OnlyByHand,
}

/// A file of a client.
#[derive(Clone, Copy, Debug)]
pub(super) struct Document {
    format: FileFormat,
    key: &'static str,
}

// === impl Document ===

impl Document {
    pub(super) fn new(file: &ClientFile) -> Self {
        Self {
            format: file.format,
            key: file.key,
        }
    }

    /// The text with the entry.
    pub(super) fn set(&self, text: &str, content: Content<'_>) -> Result<String, EditError> {
        let mut expected = self.parse(text)?;
        if let Content::Entry(node) = content
            && expected.get(self.key).and_then(|listed| listed.get(NAME)) == Some(&node.to_value())
        {
            return Ok(text.to_owned());
        }
        let changed = match self.json() {
            Some(place) => place.set(text, &content).ok_or(EditError::NoObject)?,
            None => self.toml().set(text, &content),
        };
        // A change that does not parse was none.
        let found = self.parse(&changed).map_err(|_| EditError::OnlyByHand)?;
        let written = found.get(self.key).and_then(|listed| listed.get(NAME));
        let entry = match content {
            Content::Entry(node) => node.to_value(),
            Content::Raw(_) => written.cloned().unwrap_or_default(),
        };
        let listed = expected
            .entry(self.key)
            .or_insert_with(|| Value::Object(Map::new()));
        let Value::Object(listed) = listed else {
            return Err(EditError::NoObject);
        };
        listed.insert(NAME.to_owned(), entry);
        if found != expected {
            return Err(EditError::OnlyByHand);
        }
        Ok(changed)
    }

    /// Whether the text has the entry.
    pub(super) fn has(&self, text: &str) -> Result<bool, EditError> {
        let root = self.parse(text)?;
        let listed = root.get(self.key).and_then(Value::as_object);
        Ok(listed.is_some_and(|listed| listed.contains_key(NAME)))
    }

    /// The text without the entry.
    pub(super) fn remove(&self, text: &str) -> Result<String, EditError> {
        let mut expected = self.parse(text)?;
        if let Some(listed) = expected.get_mut(self.key).and_then(Value::as_object_mut) {
            listed.remove(NAME);
        }
        let changed = match self.json() {
            Some(place) => place.remove(text),
            None => self.toml().remove(text),
        };
        let changed = changed.ok_or(EditError::OnlyByHand)?;
        let mut found = self.parse(&changed).map_err(|_| EditError::OnlyByHand)?;
        // In TOML, a table goes with the last table in it.
        let is_empty = |value: &Value| value.as_object().is_some_and(Map::is_empty);
        for side in [&mut expected, &mut found] {
            if side.get(self.key).is_some_and(is_empty) {
                side.remove(self.key);
            }
        }
        if found != expected {
            return Err(EditError::OnlyByHand);
        }
        Ok(changed)
    }

    /// Whether the second text is the first with an entry, as it would be written.
    pub(super) fn is_set(&self, before: &str, after: &str) -> bool {
        let raw = match self.json() {
            Some(place) => place.raw(after),
            None => self.toml().raw(after),
        };
        raw.is_some_and(|raw| {
            let set = self.set(before, Content::Raw(raw));
            set.is_ok_and(|set| set == after)
        })
    }

    fn parse(&self, text: &str) -> Result<Map<String, Value>, EditError> {
        match self.format.parse(text).map_err(EditError::Parse)? {
            Value::Object(root) => Ok(root),
            Value::Null if text.trim_start_matches('\u{feff}').trim().is_empty() => Ok(Map::new()),
            Value::Null if self.json().is_some_and(|place| place.comments) => Ok(Map::new()),
            _ => Err(EditError::NoObject),
        }
    }

    fn json(&self) -> Option<json::Place> {
        let comments = match self.format {
            FileFormat::Json => false,
            FileFormat::Jsonc => true,
            FileFormat::Toml => return None,
        };
        Some(json::Place {
            key: self.key,
            name: NAME,
            comments,
        })
    }

    fn toml(&self) -> toml::Place {
        toml::Place {
            key: self.key,
            name: NAME,
        }
    }
}

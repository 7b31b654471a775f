//! What a tool answered.

use serde_json::Value;

/// What a tool answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) is_error: bool,
    pub(crate) text: String,
    pub(crate) data: Value,
}

// === impl Answer ===

impl Answer {
    pub(crate) fn read(message: &Value) -> Self {
        let result = message
            .get("result")
            .unwrap_or_else(|| panic!("an error: {message}"));
        Self {
            is_error: result["isError"].as_bool().unwrap_or_default(),
            text: result["content"][0]["text"].as_str().unwrap().to_owned(),
            data: result["structuredContent"].clone(),
        }
    }

    /// The text of a success.
    #[track_caller]
    pub(crate) fn ok(self) -> Self {
        assert!(!self.is_error, "{}", self.text);
        self
    }

    /// The text of a failure that says all of this.
    #[track_caller]
    pub(crate) fn refused(self, kind: &str, words: &[&str]) -> Self {
        assert!(self.is_error, "not an error: {}", self.text);
        assert_eq!(self.data["error"]["kind"], kind, "{}", self.text);
        for word in words {
            assert!(self.text.contains(word), "no `{word}` in: {}", self.text);
        }
        self
    }
}

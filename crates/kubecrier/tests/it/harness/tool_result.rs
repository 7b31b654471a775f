//! The result of a tool call.

use serde_json::Value;

/// The result of a tool call.
#[derive(Debug)]
pub(crate) struct ToolResult {
    pub(crate) is_error: bool,
    pub(crate) text: String,
    pub(crate) data: Value,
}

// === impl ToolResult ===

impl ToolResult {
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

    /// Checks that the call succeeded.
    #[track_caller]
    pub(crate) fn ok(self) -> Self {
        assert!(!self.is_error, "{}", self.text);
        self
    }

    /// Checks that the call failed with this kind of error, and that its text has all words.
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

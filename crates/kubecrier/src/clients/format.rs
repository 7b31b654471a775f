//! The formats of configuration files.

use jsonc_parser::ParseOptions;
use serde_json::Value;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileFormat {
    Json,
    /// JSON with comments and trailing commas.
    Jsonc,
    Toml,
}

/// A file that its client cannot parse.
#[derive(Debug, PartialEq)]
pub(crate) struct ParseError {
    pub(crate) line: usize,
    pub(crate) reason: String,
}

/// What clients accept in JSON, with comments and trailing commas or without.
pub(crate) fn json_options(comments: bool) -> ParseOptions {
    ParseOptions {
        allow_comments: comments,
        allow_trailing_commas: comments,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    }
}

// === impl FileFormat ===

impl FileFormat {
    /// The value of a text; `null` for one without a value.
    ///
    /// # Errors
    ///
    /// The client cannot parse it either. The reason quotes nothing of the text, which may have
    /// secrets.
    pub(crate) fn parse(self, text: &str) -> Result<Value, ParseError> {
        match self {
            Self::Json | Self::Jsonc => json(text, self == Self::Jsonc),
            Self::Toml => toml(text),
        }
    }
}

fn json(text: &str, comments: bool) -> Result<Value, ParseError> {
    // Some editors begin a file with this mark, and clients skip it.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let options = json_options(comments);
    jsonc_parser::parse_to_serde_value(text, &options).map_err(|error| ParseError {
        line: error.line_display(),
        reason: format!(
            "this is not JSON: {}",
            error.kind().to_string().to_lowercase()
        ),
    })
}

fn toml(text: &str) -> Result<Value, ParseError> {
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
        let before = error.span().map_or(0, |span| span.start);
        let before = text.get(..before).unwrap_or_default();
        ParseError {
            line: before.matches('\n').count() + 1,
            // The full text of the error quotes the line, which may have a secret.
            reason: "this is not TOML".to_owned(),
        }
    })?;
    serde_json::to_value(table).map_err(|_| ParseError {
        line: 1,
        reason: "this is not TOML".to_owned(),
    })
}

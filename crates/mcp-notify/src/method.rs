//! Methods of notifications, validated when they are created.

use std::borrow::Cow;
use std::fmt;

use thiserror::Error;

/// The prefix of every MCP notification.
const PREFIX: &str = "notifications/";

/// Maximum length of a method. The longest one of the protocol has 40 bytes; a limit
/// makes a payload that leaks into the method visible.
pub const METHOD_BYTES_MAX: usize = 128;

/// Domains of the protocol itself: a later version could give a custom notification in
/// one of them another meaning.
const RESERVED_DOMAINS: &[&str] = &[
    "elicitation",
    "prompts",
    "resources",
    "roots",
    "subscriptions",
    "tasks",
    "tools",
];

/// The method of a notification: `notifications/` and one or more segments.
///
/// A `Method` is always valid and needs no escaping in JSON.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Method(Cow<'static, str>);

/// The method of a notification that the protocol does not define:
/// `notifications/<domain>/<event>`.
///
/// Clients ignore methods they do not know, so a custom notification must never be the
/// only source of an information.
///
/// ```
/// use mcp_notify::CustomMethod;
///
/// assert!(CustomMethod::new("notifications/threshold/exceeded").is_ok());
/// // The protocol's own methods have types of their own.
/// assert!(CustomMethod::new("notifications/progress").is_err());
/// assert!(CustomMethod::new("notifications/tools/list_changed").is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CustomMethod(Method);

/// Why a text is not a valid method.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MethodError {
    /// The text is empty.
    #[error("the name of a notification is empty")]
    Empty,
    /// The text does not start with `notifications/`.
    #[error("`{0}` does not start with `notifications/`")]
    MissingPrefix(String),
    /// Two slashes in a row, or one at the end.
    #[error("`{0}` has an empty segment")]
    EmptySegment(String),
    /// A character other than ASCII letters, digits, `_`, `-` and `.`.
    #[error("`{name}` contains {character:?}")]
    Character {
        /// The whole text.
        name: String,
        /// The first character that is not allowed.
        character: char,
    },
    /// Longer than [`METHOD_BYTES_MAX`].
    #[error("a name of {0} bytes is longer than {METHOD_BYTES_MAX}")]
    TooLong(usize),
    /// Not of the form `notifications/<domain>/<event>`.
    #[error("`{0}` is not of the form `notifications/<domain>/<event>`")]
    NotCustom(String),
    /// The domain is one of the protocol.
    #[error("`{0}` lies in a domain of the protocol; use what the library has for it")]
    Reserved(String),
}

// === impl Method ===

impl Method {
    /// `notifications/resources/updated`
    pub const RESOURCE_UPDATED: Self = Self(Cow::Borrowed("notifications/resources/updated"));
    /// `notifications/message`
    pub const MESSAGE: Self = Self(Cow::Borrowed("notifications/message"));
    /// `notifications/progress`
    pub const PROGRESS: Self = Self(Cow::Borrowed("notifications/progress"));
    /// `notifications/cancelled`
    pub const CANCELLED: Self = Self(Cow::Borrowed("notifications/cancelled"));
    /// `notifications/tasks`, of the extension for tasks
    pub const TASKS: Self = Self(Cow::Borrowed("notifications/tasks"));
    /// `notifications/tools/list_changed`
    pub const TOOLS_LIST_CHANGED: Self = Self(Cow::Borrowed("notifications/tools/list_changed"));
    /// `notifications/resources/list_changed`
    pub const RESOURCES_LIST_CHANGED: Self =
        Self(Cow::Borrowed("notifications/resources/list_changed"));
    /// `notifications/prompts/list_changed`
    pub const PROMPTS_LIST_CHANGED: Self =
        Self(Cow::Borrowed("notifications/prompts/list_changed"));

    /// Validates a method.
    ///
    /// # Errors
    /// [`MethodError`] if the text is not a valid method.
    pub fn new(name: impl Into<String>) -> Result<Self, MethodError> {
        let name = name.into();
        if name.is_empty() {
            return Err(MethodError::Empty);
        }
        if name.len() > METHOD_BYTES_MAX {
            return Err(MethodError::TooLong(name.len()));
        }
        let Some(rest) = name.strip_prefix(PREFIX) else {
            return Err(MethodError::MissingPrefix(name));
        };
        if rest.split('/').any(str::is_empty) {
            return Err(MethodError::EmptySegment(name));
        }
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/');
        if let Some(character) = rest.chars().find(|c| !allowed(*c)) {
            return Err(MethodError::Character { name, character });
        }
        Ok(Self(Cow::Owned(name)))
    }

    /// The method as it is on the wire.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

// === impl CustomMethod ===

impl CustomMethod {
    /// Validates a method against the naming rule `notifications/<domain>/<event>`.
    ///
    /// # Errors
    /// [`MethodError`]; in particular `NotCustom` for another shape and
    /// `Reserved` for a domain of the protocol.
    pub fn new(name: impl Into<String>) -> Result<Self, MethodError> {
        let method = Method::new(name)?;
        let mut segments = method.as_str().split('/').skip(1);
        match (segments.next(), segments.next(), segments.next()) {
            (Some(domain), Some(_), None) if RESERVED_DOMAINS.contains(&domain) => {
                Err(MethodError::Reserved(method.to_string()))
            }
            (Some(_), Some(_), None) => Ok(Self(method)),
            _ => Err(MethodError::NotCustom(method.to_string())),
        }
    }

    /// The method without the guarantee that it is a custom one.
    pub fn into_method(self) -> Method {
        self.0
    }
}

impl AsRef<Method> for CustomMethod {
    fn as_ref(&self) -> &Method {
        &self.0
    }
}

#[cfg(test)]
mod tests;

//! The cells of a row, by what they hold: names stay as they are, free text is redacted.

use kubecrier_k8s::identity;
use kubecrier_redact::Redactor;

/// A cell. What is not marked as a name is redacted.
#[derive(Debug)]
pub(super) enum Cell {
    /// The name of an object.
    Name(String),
    /// A kind, a reason, a status or a type.
    Word(String),
    /// A kind and a name.
    Reference(String),
    /// Free text.
    Text(String),
    /// Made by this server, or redacted where it was read: numbers, ages, composed lines.
    Clean(String),
    /// Several cells in one.
    Joined(Vec<Cell>),
}

// === impl Cell ===

impl Cell {
    pub(super) fn name(text: &str) -> Self {
        Self::Name(text.to_owned())
    }

    pub(super) fn word(text: &str) -> Self {
        Self::Word(text.to_owned())
    }

    pub(super) fn text(text: &str) -> Self {
        Self::Text(text.to_owned())
    }

    /// The text of the cell as it may leave.
    pub(super) fn show(&self, redactor: &Redactor) -> String {
        match self {
            Self::Name(text) => identity::name(redactor, text).into_owned(),
            Self::Word(text) => identity::word(redactor, text).into_owned(),
            Self::Reference(text) => identity::reference(redactor, text).into_owned(),
            Self::Text(text) => identity::text(redactor, text).into_owned(),
            Self::Clean(text) => text.clone(),
            Self::Joined(cells) => cells.iter().map(|cell| cell.show(redactor)).collect(),
        }
    }
}

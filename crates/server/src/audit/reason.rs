//! Why something was refused or failed, in words of this server: a record has no text that
//! somebody else has written.

use kubecrier_k8s::ErrorKind;

pub(super) const FORBIDDEN: &str = ErrorKind::Forbidden.as_str();
pub(super) const NOT_FOUND: &str = ErrorKind::NotFound.as_str();
pub(super) const INVALID: &str = ErrorKind::Invalid.as_str();
pub(super) const FAILED: &str = "failed";
const OTHER: &str = ErrorKind::Other.as_str();

/// The kinds of errors.
const KNOWN: [&str; 19] = [
    ErrorKind::Kubeconfig.as_str(),
    ErrorKind::Context.as_str(),
    ErrorKind::Unreachable.as_str(),
    ErrorKind::Timeout.as_str(),
    ErrorKind::Certificate.as_str(),
    ErrorKind::Unauthorized.as_str(),
    FORBIDDEN,
    NOT_FOUND,
    INVALID,
    ErrorKind::Throttled.as_str(),
    ErrorKind::TooLarge.as_str(),
    OTHER,
    FAILED,
    "bug",
    "limit",
    "refused",
    "switched_off",
    "unavailable",
    "unsupported",
];

/// The kind of an error, if it is one of ours; tools of a project may write anything.
pub(super) fn known(kind: &str) -> &'static str {
    let mut known = KNOWN.into_iter();
    known.find(|one| *one == kind).unwrap_or(OTHER)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::ToolError;

    #[test]
    fn every_kind_of_error_is_known_and_no_other_text_is() {
        let text = String::new;
        for error in [
            ToolError::Arguments(text()),
            ToolError::NotFound(text()),
            ToolError::Limit(text()),
            ToolError::Unsupported(text()),
            ToolError::SwitchedOff(text()),
            ToolError::Unavailable(text()),
            ToolError::Bug,
        ] {
            assert_eq!(known(error.kind()), error.kind());
        }
        assert_eq!(known("hunter2"), "other");
    }
}

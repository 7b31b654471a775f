//! The cursor of a wait: a position in the announcements of one process.

use std::{fmt, str::FromStr};

use crate::output::ToolError;

/// Tells one process from the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProcessId(u32);

/// Where a wait stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cursor {
    pub(super) process: ProcessId,
    /// The number of the last announcement that was looked at.
    pub(super) number: u64,
}

// === impl ProcessId ===

impl ProcessId {
    pub(super) fn random() -> Self {
        Self(uuid::Uuid::new_v4().as_fields().0)
    }
}

// === impl Cursor ===

impl Cursor {
    pub(super) fn new(process: ProcessId, number: u64) -> Self {
        Self { process, number }
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "w-{:08x}.{}", self.process.0, self.number)
    }
}

impl FromStr for Cursor {
    type Err = ToolError;

    fn from_str(text: &str) -> Result<Self, ToolError> {
        let parse = || {
            let (process, number) = text.strip_prefix("w-")?.split_once('.')?;
            let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
            (process.len() == 8 && is_digits(process) && is_digits(number)).then_some(())?;
            Some(Self {
                process: ProcessId(u32::from_str_radix(process, 16).ok()?),
                number: number.parse().ok()?,
            })
        };
        parse().ok_or_else(|| {
            let shown: String = text.chars().take(80).collect();
            ToolError::Arguments(format!(
                "`{shown}` is no cursor of faults_wait: use one that an earlier call gave you, or none"
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_cursor_is_read_as_it_was_written(process: u32, number: u64) {
            let cursor = Cursor::new(ProcessId(process), number);
            prop_assert_eq!(cursor.to_string().parse::<Cursor>().unwrap(), cursor);
        }

        #[test]
        fn fuzz_cursors(text in "(w-)?[0-9a-fx.+ -]{0,24}|.{0,100}") {
            if let Ok(cursor) = text.parse::<Cursor>() {
                let (_, number) = text.split_once('.').unwrap();
                prop_assert_eq!(cursor.number, number.parse::<u64>().unwrap());
            }
        }
    }

    #[test]
    fn what_is_no_cursor_is_named_and_cut() {
        let long = "x".repeat(500);
        for text in [
            "",
            "w-1.2",
            "sub-0.1",
            "w-00000000",
            "w-0000000g.1",
            "w-00000000.+1",
            &long,
        ] {
            let error = text.parse::<Cursor>().unwrap_err().to_string();
            assert!(error.contains("no cursor of faults_wait"), "{error}");
            assert!(error.len() < 200, "{error}");
        }
    }
}

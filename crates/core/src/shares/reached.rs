//! The error of a limit: how many there are, whose limit it is, and what to do.

use std::fmt;

/// The words of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitName {
    /// What is counted, in the plural.
    pub what: &'static str,
    /// The flag that sets the limit; empty if none does.
    pub flag: &'static str,
    /// The flag that sets the share of one caller.
    pub share_flag: &'static str,
}

/// A limit is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LimitReached {
    /// The share of this caller is used up.
    #[error("this caller has {used} {name}, and may have {max}{}", flags(name, name.share_flag))]
    Caller {
        /// The words of the limit.
        name: LimitName,
        /// What the caller has.
        used: usize,
        /// Its share.
        max: usize,
    },
    /// All callers together have everything.
    #[error("the server has {used} {name}, and may have {max}{}", flags(name, ""))]
    Total {
        /// The words of the limit.
        name: LimitName,
        /// What all callers have.
        used: usize,
        /// The limit.
        max: usize,
    },
}

// === impl LimitName ===

impl LimitName {
    /// The words of a limit of which a caller may take the usual share.
    pub const fn new(what: &'static str, flag: &'static str) -> Self {
        Self {
            what,
            flag,
            share_flag: "--caller-share",
        }
    }
}

impl fmt::Display for LimitName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.what)
    }
}

// === impl LimitReached ===

impl LimitReached {
    /// Whether the caller itself can make room.
    pub fn is_callers(&self) -> bool {
        matches!(self, Self::Caller { .. })
    }
}

/// The flags that an operator can change, in parentheses.
fn flags(name: &LimitName, share_flag: &str) -> String {
    match (share_flag, name.flag) {
        ("", "") => String::new(),
        (flag, "") | ("", flag) => format!(" ({flag})"),
        (share_flag, flag) => format!(" ({share_flag} of {flag})"),
    }
}

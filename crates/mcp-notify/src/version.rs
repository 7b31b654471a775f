//! Protocol versions, and what depends on them.

use std::borrow::Cow;
use std::fmt;

/// A version of the protocol: a date, and ordered by date.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProtocolVersion(Cow<'static, str>);

impl ProtocolVersion {
    /// 2024-11-05
    pub const V_2024_11_05: Self = Self(Cow::Borrowed("2024-11-05"));
    /// 2025-03-26
    pub const V_2025_03_26: Self = Self(Cow::Borrowed("2025-03-26"));
    /// 2025-06-18
    pub const V_2025_06_18: Self = Self(Cow::Borrowed("2025-06-18"));
    /// 2025-11-25
    pub const V_2025_11_25: Self = Self(Cow::Borrowed("2025-11-25"));
    /// 2026-07-28: no sessions, no ping, no `logging/setLevel`.
    pub const V_2026_07_28: Self = Self(Cow::Borrowed("2026-07-28"));

    /// A version by its name. Unknown names are kept, because a newer peer is not an
    /// error.
    pub fn new(name: impl Into<String>) -> Self {
        Self(Cow::Owned(name.into()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether `list_changed` is sent, and may be advertised, at this version.
    ///
    /// False for 2025-03-26 and earlier. That is a policy of this library and not a
    /// rule of the protocol, whose schemas define `listChanged` at both versions.
    pub fn allows_list_changed(&self) -> bool {
        *self > Self::V_2025_03_26
    }

    /// Whether the version has `ping`. Without it only an open stream shows that a
    /// client is alive.
    pub fn has_ping(&self) -> bool {
        *self < Self::V_2026_07_28
    }
}

impl fmt::Display for ProtocolVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

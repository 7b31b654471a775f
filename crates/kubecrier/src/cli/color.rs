//! Colors on a terminal.

use std::{env, ffi::OsStr, io::IsTerminal};

use clap::ValueEnum;

/// When output has colors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ColorChoice {
    /// In a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

// === impl ColorChoice ===

impl ColorChoice {
    /// Whether standard output gets colors.
    pub(crate) fn on_stdout(self) -> bool {
        self.resolve(
            std::io::stdout().is_terminal(),
            env::var_os("NO_COLOR").as_deref(),
            env::var_os("TERM").as_deref(),
        )
    }

    fn resolve(self, is_terminal: bool, no_color: Option<&OsStr>, term: Option<&OsStr>) -> bool {
        match self {
            Self::Always => true,
            Self::Never => false,
            Self::Auto => {
                is_terminal
                    && no_color.is_none_or(OsStr::is_empty)
                    && term.is_none_or(|term| term != "dumb")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colors_are_for_terminals_unless_chosen() {
        let auto = |terminal, no_color: Option<&str>, term: Option<&str>| {
            let (no_color, term) = (no_color.map(OsStr::new), term.map(OsStr::new));
            ColorChoice::Auto.resolve(terminal, no_color, term)
        };
        assert!(auto(true, None, Some("xterm")) && auto(true, Some(""), None));
        assert!(!auto(false, None, Some("xterm")));
        assert!(!auto(true, Some("1"), Some("xterm")));
        assert!(!auto(true, None, Some("dumb")));
        let no = Some(OsStr::new("1"));
        assert!(ColorChoice::Always.resolve(false, no, None));
        assert!(!ColorChoice::Never.resolve(true, None, None));
    }
}

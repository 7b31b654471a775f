//! Where lines go: a terminal, or a pipe that may be closed at any time.

use std::{env, ffi::OsStr, io::IsTerminal};

use terminal_size::{Width, terminal_size_of};
use tokio::io::{self, AsyncWriteExt, Stderr, Stdout};

use crate::cli::Colour;
use kubecrier_redact::neutralise;

/// Standard output and standard error, written without holding up the program.
#[derive(Debug)]
pub(crate) struct Screen {
    out: Stdout,
    err: Stderr,
    colour: bool,
}

/// Standard output takes no more.
#[derive(Debug, thiserror::Error)]
#[error("cannot write to standard output: {0}")]
pub(crate) struct Closed(io::Error);

// === impl Closed ===

impl Closed {
    /// Whether that is an error: that nobody reads any more is none, `| head` does it.
    pub(crate) fn outcome(self) -> Result<(), Self> {
        if self.0.kind() == io::ErrorKind::BrokenPipe {
            return Ok(());
        }
        Err(self)
    }
}

// === impl Screen ===

impl Screen {
    pub(crate) fn new(colour: Colour) -> Self {
        Self {
            out: io::stdout(),
            err: io::stderr(),
            colour: wants_colour(
                colour,
                std::io::stdout().is_terminal(),
                env::var_os("NO_COLOR").as_deref(),
                env::var_os("TERM").as_deref(),
            ),
        }
    }

    pub(crate) fn colour(&self) -> bool {
        self.colour
    }

    /// As it is now; people drag corners.
    pub(crate) fn width() -> Option<usize> {
        let (Width(columns), _) = terminal_size_of(std::io::stdout())?;
        // Some say 0 when they do not know.
        (columns > 0).then_some(usize::from(columns))
    }

    /// Writes lines as one piece.
    pub(crate) async fn show(&mut self, lines: &[String]) -> Result<(), Closed> {
        let mut text = lines.join("\n");
        text.push('\n');
        let written = async {
            self.out.write_all(text.as_bytes()).await?;
            self.out.flush().await
        };
        written.await.map_err(Closed)
    }

    /// A word about the connection; on stderr, so that pipes get news only.
    pub(crate) async fn note(&mut self, text: &str) {
        let text = format!("-- {}\n", neutralise(text));
        // Nothing is left to tell if stderr is gone.
        let _told = self.err.write_all(text.as_bytes()).await;
        let _told = self.err.flush().await;
    }
}

fn wants_colour(
    asked: Colour,
    terminal: bool,
    no_color: Option<&OsStr>,
    term: Option<&OsStr>,
) -> bool {
    match asked {
        Colour::Always => true,
        Colour::Never => false,
        Colour::Auto => {
            terminal
                && no_color.is_none_or(OsStr::is_empty)
                && term.is_none_or(|term| term != "dumb")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_is_for_terminals_and_for_those_who_want_it() {
        let auto = |terminal, no_color: Option<&str>, term: Option<&str>| {
            let (no_color, term) = (no_color.map(OsStr::new), term.map(OsStr::new));
            wants_colour(Colour::Auto, terminal, no_color, term)
        };
        assert!(auto(true, None, Some("xterm")) && auto(true, Some(""), None));
        assert!(!auto(false, None, Some("xterm")));
        assert!(!auto(true, Some("1"), Some("xterm")));
        assert!(!auto(true, None, Some("dumb")));
        let no = Some(OsStr::new("1"));
        assert!(wants_colour(Colour::Always, false, no, None));
        assert!(!wants_colour(Colour::Never, true, None, None));
    }
}

//! Standard output and standard error: a terminal, or a pipe that may be closed at any
//! time.

use std::os::fd::AsFd;

use terminal_size::{Width, terminal_size_of};
use tokio::{
    io::{self, AsyncWriteExt, Interest, Stderr, Stdout},
    net::unix::pipe,
};

use kubecrier_redact::neutralise;

/// Writes to standard output and standard error without blocking the runtime.
#[derive(Debug)]
pub struct Screen {
    out: Stdout,
    err: Stderr,
    color: bool,
}

/// A failed write to standard output.
#[derive(Debug, thiserror::Error)]
#[error("cannot write to standard output: {0}")]
pub struct OutputError(io::Error);

// === impl OutputError ===

impl OutputError {
    /// A closed pipe is not a failure: `| head` closes it when it has read enough.
    ///
    /// # Errors
    ///
    /// Every other error of a write.
    pub fn ignore_closed_pipe(self) -> Result<(), Self> {
        if self.0.kind() == io::ErrorKind::BrokenPipe {
            return Ok(());
        }
        Err(self)
    }
}

// === impl Screen ===

impl Screen {
    /// A screen whose lines may have colors or not.
    pub fn new(color: bool) -> Self {
        Self {
            out: io::stdout(),
            err: io::stderr(),
            color,
        }
    }

    /// Whether lines may have colors.
    pub fn color(&self) -> bool {
        self.color
    }

    /// The current width of the terminal, which people resize; `None` for a pipe.
    pub(crate) fn width() -> Option<usize> {
        let (Width(columns), _) = terminal_size_of(std::io::stdout())?;
        // Some terminals report 0 when they do not know.
        (columns > 0).then_some(usize::from(columns))
    }

    /// Waits until nobody reads standard output any more: the next line may be long in coming.
    /// Never returns where that cannot be noticed, as for a file.
    pub(crate) async fn closed() {
        let out = std::io::stdout().as_fd().try_clone_to_owned();
        // Unchecked: it is never written to, and what it shares with standard output must stay
        // as it is.
        let out = out.and_then(pipe::Sender::from_owned_fd_unchecked);
        if let Ok(out) = out
            && out.ready(Interest::ERROR).await.is_ok()
        {
            return;
        }
        std::future::pending::<()>().await;
    }

    /// Writes lines to standard output in one piece.
    ///
    /// # Errors
    ///
    /// Standard output cannot be written to; see [`OutputError::ignore_closed_pipe`].
    pub async fn show(&mut self, lines: &[String]) -> Result<(), OutputError> {
        let mut text = lines.join("\n");
        text.push('\n');
        self.write(text.as_bytes()).await
    }

    /// Writes bytes to standard output as they are.
    ///
    /// # Errors
    ///
    /// As for [`Screen::show`].
    pub async fn write(&mut self, bytes: &[u8]) -> Result<(), OutputError> {
        let written = async {
            self.out.write_all(bytes).await?;
            self.out.flush().await
        };
        written.await.map_err(OutputError)
    }

    /// Writes a note on the connection to standard error, so that a pipe has
    /// notifications only.
    pub(crate) async fn note(&mut self, text: &str) {
        let text = format!("-- {}\n", neutralise(text));
        // There is no other place to report that standard error is gone.
        let _ignored = self.err.write_all(text.as_bytes()).await;
        let _ignored = self.err.flush().await;
    }
}

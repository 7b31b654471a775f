//! Logs, to stderr: stdout belongs to the protocol.

use std::io::{self, IsTerminal, Write};

use tracing_subscriber::{EnvFilter, fmt, prelude::*};

use crate::{cli::LogFormat, config::ConfigError};
use kubecrier_redact::Redactor;

/// The level and the format of the log.
#[derive(Clone, Debug)]
pub struct LogConfig {
    directives: String,
    format: LogFormat,
    redactor: Redactor,
}

/// Redacts records and writes them to stderr; each record is one write.
#[derive(Debug)]
struct RedactingWriter {
    redactor: Redactor,
}

// === impl LogConfig ===

impl LogConfig {
    /// Parses a level for the records of this project's crates, or directives for all
    /// records.
    pub(crate) fn new(
        level: Option<&str>,
        format: LogFormat,
        redactor: Redactor,
    ) -> Result<Self, ConfigError> {
        let level = level.unwrap_or("info");
        let refused = || ConfigError::Value {
            origin: String::new(),
            key: "log-level",
            value: level.to_owned(),
            expected: "error, warn, info, debug, trace, or directives such as \
                       `info,kubecrier_k8s=debug`"
                .to_owned(),
        };
        let quiet = [
            kubecrier_server::QUIET,
            kubecrier_k8s::QUIET,
            kubecrier_nats::QUIET,
        ]
        .join(",");
        let directives = match level.parse::<tracing::Level>() {
            // Libraries log warnings only. A directive matches every target that begins
            // with its own, so `kubecrier` covers `kubecrier_k8s`, `kubecrier_server` and
            // all the others.
            Ok(level) => format!("warn,kubecrier={level},mcp_notify={level},{quiet}"),
            // EnvFilter would read a lone word as a target and disable all others.
            Err(_) if !level.contains(['=', ',']) => return Err(refused()),
            Err(_) => format!("{quiet},{level}"),
        };
        match EnvFilter::try_new(&directives) {
            Ok(_) => Ok(Self {
                directives,
                format,
                redactor,
            }),
            Err(_) => Err(refused()),
        }
    }

    /// Sends the records of this process to stderr from now on.
    pub fn install(&self) {
        let filter = EnvFilter::new(&self.directives);
        let redactor = self.redactor.clone();
        let layer = fmt::layer().with_writer(move || RedactingWriter {
            redactor: redactor.clone(),
        });
        let registry = tracing_subscriber::registry().with(filter);
        let installed = match self.format {
            LogFormat::Plain => registry.with(layer.with_ansi(has_color())).try_init(),
            LogFormat::Json => registry.with(layer.json().flatten_event(true)).try_init(),
        };
        // A program that has installed a subscriber already keeps it.
        drop(installed);
    }
}

// === impl RedactingWriter ===

impl Write for RedactingWriter {
    fn write(&mut self, record: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(record);
        io::stderr().write_all(self.redactor.text(&text).as_bytes())?;
        Ok(record.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

fn has_color() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()) && io::stderr().is_terminal()
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    /// Whether a record of each target passes at DEBUG.
    fn passes(level: &str) -> [bool; 4] {
        let redactor = Redactor::new(&[]).unwrap();
        let config = LogConfig::new(Some(level), LogFormat::Plain, redactor).unwrap();
        let filter = EnvFilter::new(&config.directives);
        let subscriber = tracing_subscriber::registry().with(filter);
        tracing::subscriber::with_default(subscriber, || {
            [
                tracing::enabled!(target: "kubecrier", tracing::Level::DEBUG),
                tracing::enabled!(target: "kubecrier_k8s::watch", tracing::Level::DEBUG),
                tracing::enabled!(target: "kubecrier_server::transport", tracing::Level::DEBUG),
                tracing::enabled!(target: "rustls", tracing::Level::DEBUG),
            ]
        })
    }

    #[test]
    fn a_level_is_for_all_crates_of_the_project_and_for_no_library() {
        assert_eq!(passes("debug"), [true, true, true, false]);
        assert_eq!(passes("info"), [false; 4]);
    }

    /// The example in the error of a bad `--log-level`.
    #[test]
    fn a_directive_can_name_one_crate() {
        assert_eq!(
            passes("info,kubecrier_k8s=debug"),
            [false, true, false, false]
        );
    }
}

//! Logs, to stderr: stdout belongs to the protocol.

use std::io::{self, IsTerminal, Write};

use tracing_subscriber::{EnvFilter, fmt, prelude::*};

use crate::{cli::LogFormat, config::ConfigError};
use kubecrier_redact::Redactor;

/// How logs are written.
#[derive(Clone, Debug)]
pub struct Config {
    directives: String,
    format: LogFormat,
    redactor: Redactor,
}

/// Writes records without the secrets in them; each comes as one piece.
#[derive(Debug)]
struct Redacting {
    redactor: Redactor,
}

impl Config {
    /// A level for our own records, or directives for everything.
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
                       `info,kubecrier::mcp=debug`"
                .to_owned(),
        };
        let quiet = format!("{},{}", kubecrier_server::QUIET, kubecrier_k8s::QUIET);
        let directives = match level.parse::<tracing::Level>() {
            // Libraries speak up when something is wrong; we tell the story.
            Ok(level) => format!("warn,kubecrier={level},mcp_notify={level},{quiet}"),
            // A lone word would be taken for a module's name, and silence all others.
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

    /// Sends this process's records to stderr from now on.
    pub fn install(&self) {
        let filter = EnvFilter::new(&self.directives);
        let redactor = self.redactor.clone();
        let layer = fmt::layer().with_writer(move || Redacting {
            redactor: redactor.clone(),
        });
        let registry = tracing_subscriber::registry().with(filter);
        let installed = match self.format {
            LogFormat::Plain => registry.with(layer.with_ansi(colour())).try_init(),
            LogFormat::Json => registry.with(layer.json().flatten_event(true)).try_init(),
        };
        // A host program that already collects records keeps doing so.
        drop(installed);
    }
}

impl Write for Redacting {
    fn write(&mut self, record: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(record);
        io::stderr().write_all(self.redactor.text(&text).as_bytes())?;
        Ok(record.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

fn colour() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()) && io::stderr().is_terminal()
}

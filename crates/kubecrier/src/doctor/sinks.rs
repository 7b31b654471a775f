//! Checks whether sinks could be delivered to, without sending them an incident.

use futures_util::{StreamExt, stream};
use kubecrier_redact::Redactor;
use kubecrier_sinks::{SinkCheck, SinkConfig};

use super::report::{Finding, Section};
use crate::{cli::Settings, config::Config};

/// Sinks that are checked at once, so that those that are away time out side by side.
const CONCURRENCY: usize = 16;

/// Checks the sinks of a server with these settings. What is wrong with the settings themselves
/// is found with the others.
pub(super) async fn check_sinks(settings: &Settings, redactor: &Redactor) -> Vec<Section> {
    let config = Config::try_from(settings.clone());
    let sinks = config.map(|config| config.sinks).unwrap_or_default();
    let checks = sinks.iter().map(|sink| check_sink(sink, redactor));
    stream::iter(checks).buffered(CONCURRENCY).collect().await
}

async fn check_sink(sink: &SinkConfig, redactor: &Redactor) -> Section {
    let about = format!("sink {} ({})", sink.name, sink.target.kind());
    let findings = kubecrier_sinks::check(sink, redactor).await;
    let findings = findings.into_iter().map(|one| match one {
        SinkCheck::Ok(text) => Finding::ok(text),
        SinkCheck::Note(text) => Finding::note(text),
        SinkCheck::Fail(text) => match text.split_once("; if that is meant, ") {
            Some((text, hint)) => Finding::fail(text).hint(format!("if that is meant, {hint}")),
            None => Finding::fail(text),
        },
    });
    Section::new(about, findings.collect())
}

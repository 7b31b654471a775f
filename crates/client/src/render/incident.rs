//! The line of an incident: when, how bad, what and why, and how long it took.

use std::time::Duration;

use anstyle::Style;
use jiff::Timestamp;

use super::{BAD, DIM, GOOD, Line, PLAIN, Renderer, WARNING};
use crate::notification::{Incident, Notification};

/// The longest word before a headline.
const WORD_CHARS: usize = 8;

impl Renderer {
    pub(super) fn incident(
        &self,
        notification: &Notification,
        incident: &Incident,
        lines: &mut Vec<Line>,
    ) {
        let (style, word) = word(incident);
        let at = incident.at.unwrap_or_else(Timestamp::now);
        let mut line = Line::default()
            .with(DIM, &self.time(Some(at)))
            .with(PLAIN, " ")
            .with(style, &format!("{word:WORD_CHARS$}"))
            .with(PLAIN, " ");
        if self.show_context {
            line = line.with(DIM, &notification.cluster).with(PLAIN, " ");
        }
        let took = incident.duration_seconds.map(|seconds| {
            let time = Duration::from_secs(seconds.max(0).unsigned_abs());
            format!(", resolved after {}", length(time))
        });
        let mut text = format!("{}{}", incident.headline, took.unwrap_or_default());
        if incident.resolved_at_or_before {
            text.push_str(", over then or before");
        }
        if incident.transition == "changed" {
            text.push_str(" (changed)");
        }
        let whole = line
            .clone()
            .with(PLAIN, &text)
            .with(DIM, &format!(" [{}]", incident.id));
        if self.width.is_none_or(|width| whole.width() <= width) {
            lines.push(whole);
            return;
        }
        let text = format!("{text} [{}]", incident.id);
        if self.is_narrow() {
            lines.push(line);
            let start = self.below("");
            self.wrapped([&start, &start], PLAIN, &text, lines);
        } else {
            self.wrapped([&line, &self.below("")], PLAIN, &text, lines);
        }
    }
}

/// The word and the colour of an incident: its severity, or that it is over.
fn word(incident: &Incident) -> (Style, &str) {
    match (incident.transition.as_str(), incident.severity.as_str()) {
        ("resolved", _) => (GOOD, "resolved"),
        (_, "critical") => (BAD, "CRITICAL"),
        (_, "warning") => (WARNING, "warning"),
        (_, severity) => (PLAIN, severity),
    }
}

/// A length of time in its two largest units.
fn length(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m{}s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{}h{}m", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{}d{}h", seconds / 86_400, seconds / 3_600 % 24),
    }
}

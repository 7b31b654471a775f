//! Renders notifications as lines of a terminal. No line is wider than the terminal,
//! whatever its text.

use anstyle::{AnsiColor, Style};
use jiff::{Timestamp, tz::TimeZone};

use crate::notification::{Event, LogSample, Notification, PodSummary};
use kubecrier_redact::neutralise;

const DIM: Style = Style::new().dimmed();
const BOLD: Style = Style::new().bold();
const PLAIN: Style = Style::new();
const BAD: Style = AnsiColor::Red.on_default().bold();
const WARNING: Style = AnsiColor::Yellow.on_default();
const GOOD: Style = AnsiColor::Green.on_default();
const OBJECT: Style = AnsiColor::Cyan.on_default();

/// In a narrower terminal the object and the message get lines of their own.
const WIDTH_MIN: usize = 76;

/// Reasons are padded to this width, which most of them fit.
const REASON_CHARS: usize = 16;

/// Renders notifications.
#[derive(Clone, Debug)]
pub(crate) struct Renderer {
    pub(crate) color: bool,
    /// The width of the terminal; `None` for a pipe, where nothing is cut.
    pub(crate) width: Option<usize>,
    pub(crate) zone: TimeZone,
    /// Whether each line names its context.
    pub(crate) show_context: bool,
    /// Lines of each log under a fault.
    pub(crate) log_lines: usize,
}

/// A line in parts, each with its style.
#[derive(Default)]
struct Line {
    parts: Vec<(Style, String)>,
}

// === impl Line ===

impl Line {
    /// Appends text that workloads wrote, as one line without control sequences.
    fn with(mut self, style: Style, text: &str) -> Self {
        let text = neutralise(text);
        let text = text.split(['\n', '\t']).collect::<Vec<_>>().join(" ");
        self.parts.push((style, text));
        self
    }

    fn render(self, renderer: &Renderer) -> String {
        let mut room = renderer.width.unwrap_or(usize::MAX);
        let needed: usize = self
            .parts
            .iter()
            .map(|(_, text)| text.chars().count())
            .sum();
        let cut = needed > room;
        if cut {
            room = room.saturating_sub(1);
        }
        let mut rendered = String::new();
        for (style, text) in self.parts {
            let text: String = text.chars().take(room).collect();
            room -= text.chars().count();
            if renderer.color && style != PLAIN && !text.is_empty() {
                rendered.push_str(&format!("{style}{text}{style:#}"));
            } else {
                rendered.push_str(&text);
            }
        }
        rendered.truncate(rendered.trim_end_matches(' ').len());
        if cut {
            rendered.push('…');
        }
        rendered
    }
}

// === impl Renderer ===

impl Renderer {
    /// The lines of a notification.
    pub(crate) fn lines(&self, notification: &Notification) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(event) = &notification.event {
            self.event(notification, event, &mut lines);
            let mut crashes = Vec::new();
            for log in &notification.logs {
                let crash = log.signature.as_ref().map(|one| one.line.as_str());
                let repeated = crash.is_some() && crashes.contains(&crash);
                self.log(log, repeated, &mut lines);
                crashes.push(crash);
            }
            if notification.is_fault() {
                lines.extend(notification.context.as_ref().map(|one| self.pod(one)));
            }
        } else {
            lines.push(self.watch_status(notification));
        }
        lines.into_iter().map(|line| line.render(self)).collect()
    }

    fn event(&self, notification: &Notification, event: &Event, lines: &mut Vec<Line>) {
        let (style, word) = match event.kind.as_str() {
            _ if notification.is_fault() => (BAD, "FAULT"),
            "Warning" => (WARNING, "Warning"),
            "Normal" => (GOOD, "Normal"),
            other => (PLAIN, other),
        };
        let mut line = Line::default()
            .with(DIM, &self.time(event.timestamp))
            .with(PLAIN, " ")
            .with(style, &format!("{word:7}"))
            .with(PLAIN, " ");
        if self.show_context {
            line = line.with(DIM, &notification.cluster).with(PLAIN, " ");
        }
        let involved = &event.involved_object;
        let kind = involved.kind.to_lowercase();
        let object = if event.namespace.is_empty() {
            format!("{kind}/{}", involved.name)
        } else {
            format!("{} {kind}/{}", event.namespace, involved.name)
        };
        let times = if event.count > 1 {
            format!(" (x{})", event.count)
        } else {
            String::new()
        };
        if self.is_narrow() {
            let below = |style, text| Line::default().with(PLAIN, "  ").with(style, text);
            lines.push(line.with(BOLD, &event.reason).with(DIM, &times));
            lines.push(below(OBJECT, &object));
            lines.push(below(PLAIN, &event.message));
            return;
        }
        // The count comes before the message, so that a long message cannot cut it off.
        let line = line
            .with(BOLD, &format!("{:REASON_CHARS$}", event.reason))
            .with(PLAIN, " ")
            .with(OBJECT, &object)
            .with(DIM, &times)
            .with(PLAIN, "  ");
        lines.push(line.with(PLAIN, &event.message));
    }

    /// A crash that was shown already, of another run of the container, is only named.
    fn log(&self, log: &LogSample, repeated: bool, lines: &mut Vec<Line>) {
        let bar = |text: &str, style| self.below("│ ").with(style, text);
        let mut title = if log.container.is_empty() {
            "logs".to_owned()
        } else {
            log.container.clone()
        };
        if log.previous {
            title.push_str(", run before");
        }
        if let Some(error) = &log.error {
            lines.push(bar(&format!("{title}: no log ({error})"), DIM));
            return;
        }
        if repeated {
            lines.push(bar(&format!("{title}: the same crash"), DIM));
            return;
        }
        let sample = log.sample.as_deref().unwrap_or_default();
        let (crash, shown) = excerpt(sample, log, self.log_lines);
        match &log.signature {
            Some(signature) => title.push_str(&format!(": {} crash", signature.kind)),
            None if shown.is_empty() => title.push_str(": nothing logged"),
            None => title.push(':'),
        }
        lines.push(bar(&title, DIM));
        for (index, text) in shown.into_iter().enumerate() {
            let style = if Some(index) == crash { BAD } else { PLAIN };
            lines.push(bar(text, style));
        }
    }

    /// The state of a watch: degraded, with a gap, or working again.
    fn watch_status(&self, notification: &Notification) -> Line {
        let line = Line::default()
            .with(DIM, &self.time(Some(Timestamp::now())))
            .with(PLAIN, " ");
        let cluster = &notification.cluster;
        match (&notification.error, &notification.gap) {
            (Some(error), _) => line.with(
                BAD,
                &format!("the watch of `{cluster}` does not work: {error}"),
            ),
            (None, Some(gap)) => {
                let text = format!("events of `{cluster}` may be missing: {}", gap.detail);
                line.with(WARNING, &text)
            }
            (None, None) => line.with(GOOD, &format!("the watch of `{cluster}` works again")),
        }
    }

    /// The pod of a fault: its owner, how its container ended, its image and its node.
    fn pod(&self, pod: &PodSummary) -> Line {
        let mut facts = Vec::new();
        if let Some(owner) = pod.owners.last() {
            facts.push(format!("{}/{}", owner.kind.to_lowercase(), owner.name));
        }
        if let Some(container) = pod.containers.first() {
            facts.push(format!("{} {}", container.name, container.state));
            if let Some(ended) = &container.last_termination {
                let why = ended.reason.as_deref().unwrap_or("ended");
                facts.push(format!("{why}, exit {}", ended.exit_code));
            }
            match container.restart_count {
                ..=0 => {}
                1 => facts.push("1 restart".to_owned()),
                count => facts.push(format!("{count} restarts")),
            }
            facts.push(container.image.clone());
        }
        if let Some(node) = &pod.node {
            facts.push(format!("on {node}"));
        }
        let facts: Vec<_> = facts.into_iter().filter(|fact| !fact.is_empty()).collect();
        self.below("└ ").with(DIM, &facts.join(" · "))
    }

    /// The beginning of a line under an event: indented to the event's type, or as
    /// little as possible in a narrow terminal.
    fn below(&self, mark: &str) -> Line {
        let margin = if self.is_narrow() { 2 } else { 9 };
        Line::default().with(DIM, &format!("{:margin$}{mark}", ""))
    }

    fn is_narrow(&self) -> bool {
        self.width.is_some_and(|width| width < WIDTH_MIN)
    }

    fn time(&self, at: Option<Timestamp>) -> String {
        let at = at.unwrap_or_default().to_zoned(self.zone.clone());
        at.strftime("%H:%M:%S").to_string()
    }
}

/// The lines of a log to show, and which of them has the crash signature: the lines from
/// the signature on, or the last ones if there is none.
fn excerpt<'a>(sample: &'a str, log: &'a LogSample, count: usize) -> (Option<usize>, Vec<&'a str>) {
    let lines: Vec<_> = sample
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    let last = lines.len().saturating_sub(count);
    let Some(signature) = log.signature.as_ref().filter(|_| count > 0) else {
        return (None, lines[last..].to_vec());
    };
    // The signature's line may be cut where the sample's is not.
    let known = signature.line.trim_end_matches('…');
    let at = lines.iter().rposition(|line| line.contains(known));
    match at {
        Some(at) => {
            // The line before the signature often has the cause; more lines if they fit.
            let before = usize::from(count >= 3);
            let from = at.saturating_sub(before).min(last);
            let from = from.max((at + 1).saturating_sub(count));
            let shown: Vec<_> = lines[from..].iter().take(count).copied().collect();
            (Some(at - from), shown)
        }
        None => {
            let rest = lines.len().saturating_sub(count - 1);
            let mut shown = vec![signature.line.as_str()];
            shown.extend(&lines[rest..]);
            (Some(0), shown)
        }
    }
}

#[cfg(test)]
mod tests;

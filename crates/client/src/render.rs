//! Renders notifications as lines of a terminal. No line is wider than the terminal,
//! whatever its text: what matters is wrapped below its line, the rest is cut.

mod brief;
mod incident;
mod line;
mod message;

use anstyle::{AnsiColor, Style};
use jiff::{Timestamp, tz::TimeZone};

pub(crate) use self::brief::brief;
use self::line::{Line, PLAIN, wrap, wrap_words};
use crate::{
    healing::Recovery,
    notification::{Event, LogSample, Notification, ObjectReference, PodSummary},
    repeats::Repeat,
};

const DIM: Style = Style::new().dimmed();
const BOLD: Style = Style::new().bold();
const BAD: Style = AnsiColor::Red.on_default().bold();
const WARNING: Style = AnsiColor::Yellow.on_default();
const GOOD: Style = AnsiColor::Green.on_default();
const OBJECT: Style = AnsiColor::Cyan.on_default();

/// In a narrower terminal the object and the message get lines of their own.
const WIDTH_MIN: usize = 76;

/// Reasons are padded to this width, which most of them fit.
const REASON_CHARS: usize = 16;

/// Lines of a message, of a crash or of the facts of a pod, at most.
const WRAPPED_MAX: usize = 4;

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
    /// Whether everything is shown: messages as they are, and no line cut.
    pub(crate) whole: bool,
}

/// What begins the line of an event.
struct Headline<'a> {
    at: Option<Timestamp>,
    style: Style,
    word: &'a str,
    cluster: &'a str,
    reason: &'a str,
    namespace: &'a str,
    object: &'a ObjectReference,
    count: i64,
}

// === impl Renderer ===

impl Renderer {
    /// The lines of a notification; of a fault that was shown before, its first one only.
    pub(crate) fn lines(&self, notification: &Notification, repeat: Option<Repeat>) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(incident) = &notification.incident {
            self.incident(notification, incident, &mut lines);
            return self.render(lines);
        }
        match (&notification.event, repeat) {
            (None, _) => self.watch_status(notification, &mut lines),
            (Some(event), Some(repeat)) => {
                let what = if repeat.is_crash {
                    "the same crash"
                } else {
                    "the same"
                };
                let (first, count) = (self.time(Some(repeat.first)), repeat.count);
                let text = format!("{what} as at {first}, {count} times now");
                self.event(notification, event, &text, &mut lines);
            }
            (Some(event), None) => {
                self.event(notification, event, &self.message(event), &mut lines);
                let mut crashes = Vec::new();
                for log in &notification.logs {
                    let crash = log.signature.as_ref().map(|one| one.line.as_str());
                    let repeated = crash.is_some() && crashes.contains(&crash) && !self.whole;
                    self.log(log, repeated, &mut lines);
                    crashes.push(crash);
                }
                if let Some(pod) = notification
                    .context
                    .as_ref()
                    .filter(|_| notification.is_fault())
                {
                    self.pod(pod, &mut lines);
                }
            }
        }
        self.render(lines)
    }

    /// The lines of a pod that was in trouble, and is not any more.
    pub(crate) fn recovery(&self, recovery: &Recovery) -> Vec<String> {
        let Some(event) = &recovery.fault.event else {
            return Vec::new();
        };
        let word = if recovery.is_healed() {
            "healed"
        } else {
            "gone"
        };
        let headline = Headline {
            at: Some(Timestamp::now()),
            style: GOOD,
            word,
            cluster: &recovery.fault.cluster,
            reason: recovery.reason(),
            namespace: &event.namespace,
            object: &event.involved_object,
            count: 1,
        };
        let since = self.time(Some(recovery.since));
        let faults = match recovery.faults {
            1 => format!("the fault of {since}"),
            count => format!("{count} faults since {since}"),
        };
        let text = format!("{}, after {faults}", recovery.describe());
        let mut lines = Vec::new();
        self.headline(&headline, &text, &mut lines);
        self.render(lines)
    }

    fn render(&self, lines: Vec<Line>) -> Vec<String> {
        let lines = lines.into_iter();
        lines
            .map(|line| line.render(self.color, self.width))
            .collect()
    }

    fn message(&self, event: &Event) -> String {
        // A pipe has room, and its reader may search for any part.
        if self.whole || self.width.is_none() {
            return event.message.clone();
        }
        message::useful_part(&event.message).into_owned()
    }

    fn event(
        &self,
        notification: &Notification,
        event: &Event,
        message: &str,
        lines: &mut Vec<Line>,
    ) {
        let (style, word) = match event.kind.as_str() {
            _ if notification.is_fault() => (BAD, "FAULT"),
            "Warning" => (WARNING, "Warning"),
            "Normal" => (GOOD, "Normal"),
            other => (PLAIN, other),
        };
        let headline = Headline {
            at: event.timestamp,
            style,
            word,
            cluster: &notification.cluster,
            reason: &event.reason,
            namespace: &event.namespace,
            object: &event.involved_object,
            count: event.count,
        };
        self.headline(&headline, message, lines);
    }

    /// The line of an event, with its message behind it if there is room, or below it.
    fn headline(&self, headline: &Headline<'_>, message: &str, lines: &mut Vec<Line>) {
        let mut line = Line::default()
            .with(DIM, &self.time(headline.at))
            .with(PLAIN, " ")
            .with(headline.style, &format!("{:7}", headline.word))
            .with(PLAIN, " ");
        if self.show_context {
            line = line.with(DIM, headline.cluster).with(PLAIN, " ");
        }
        let kind = headline.object.kind.to_lowercase();
        let name = &headline.object.name;
        let object = match headline.namespace {
            "" => format!("{kind}/{name}"),
            namespace => format!("{namespace} {kind}/{name}"),
        };
        let times = match headline.count {
            ..=1 => String::new(),
            count => format!(" (x{count})"),
        };
        if self.is_narrow() {
            lines.push(line.with(BOLD, headline.reason).with(DIM, &times));
            let start = self.below("");
            self.wrapped([&start, &start], OBJECT, &object, lines);
        } else {
            line = line
                .with(BOLD, &format!("{:REASON_CHARS$}", headline.reason))
                .with(PLAIN, " ")
                .with(OBJECT, &object)
                .with(DIM, &times);
            let whole = line.clone().with(PLAIN, "  ").with(PLAIN, message);
            if self.width.is_none_or(|width| whole.width() <= width) {
                lines.push(whole);
                return;
            }
            lines.push(line);
        }
        let start = self.below("");
        self.wrapped([&start, &start], PLAIN, message, lines);
    }

    /// Text in as many lines as it needs, with what the first one and the others begin with.
    fn wrapped(&self, starts: [&Line; 2], style: Style, text: &str, lines: &mut Vec<Line>) {
        let room = self.room(starts);
        let texts = if text.chars().count() <= room {
            vec![text.to_owned()]
        } else {
            wrap(text, room, self.wrapped_max())
        };
        push_below(starts, style, &texts, lines);
    }

    /// The columns beside what lines begin with.
    fn room(&self, [first, other]: [&Line; 2]) -> usize {
        let start = first.width().max(other.width());
        (self.width).map_or(usize::MAX, |width| width.saturating_sub(start))
    }

    fn wrapped_max(&self) -> usize {
        if self.whole { usize::MAX } else { WRAPPED_MAX }
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
            let is_crash = Some(index) == crash;
            let style = if is_crash { BAD } else { PLAIN };
            // The line with the crash is what people look for.
            if is_crash || self.whole {
                let start = self.below("│ ");
                self.wrapped([&start, &start], style, text, lines);
            } else {
                lines.push(bar(text, style));
            }
        }
    }

    /// The state of a watch: degraded, with a gap, or working again.
    fn watch_status(&self, notification: &Notification, lines: &mut Vec<Line>) {
        let cluster = &notification.cluster;
        let (style, text) = match (&notification.error, &notification.gap) {
            (Some(error), _) => {
                let text = format!("the watch of `{cluster}` does not work: {error}");
                (BAD, text)
            }
            (None, Some(gap)) => {
                let text = format!("events of `{cluster}` may be missing: {}", gap.detail);
                (WARNING, text)
            }
            (None, None) => (GOOD, format!("the watch of `{cluster}` works again")),
        };
        let start = Line::default().with(DIM, &self.time(Some(Timestamp::now())));
        let start = start.with(PLAIN, " ");
        self.wrapped([&start, &self.below("")], style, &text, lines);
    }

    /// The pod of a fault: its owner, how its container ended, its image and its node.
    fn pod(&self, pod: &PodSummary, lines: &mut Vec<Line>) {
        let mut facts = Vec::new();
        if let Some(owner) = pod.owners.last() {
            facts.push(format!("{}/{}", owner.kind.to_lowercase(), owner.name));
        }
        let shown = if self.whole { usize::MAX } else { 1 };
        for container in pod.containers.iter().take(shown) {
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
        let mut facts: Vec<_> = facts.into_iter().filter(|fact| !fact.is_empty()).collect();
        let last = facts.len().saturating_sub(1);
        for fact in &mut facts[..last] {
            fact.push_str(" ·");
        }
        let starts = [&self.below("└ "), &self.below("  ")];
        let facts = facts.iter().map(String::as_str);
        let texts = wrap_words(facts, self.room(starts), self.wrapped_max());
        push_below(starts, DIM, &texts, lines);
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

fn push_below([first, other]: [&Line; 2], style: Style, texts: &[String], lines: &mut Vec<Line>) {
    let starts = std::iter::once(first).chain(std::iter::repeat(other));
    let texts = texts.iter().zip(starts);
    lines.extend(texts.map(|(text, start)| start.clone().with(style, text)));
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

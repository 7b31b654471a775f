//! News as lines of a terminal: none is wider than the terminal, whatever it says.

use anstyle::{AnsiColor, Style};
use jiff::{Timestamp, tz::TimeZone};

use super::news::{Event, Log, News, Pod};
use kubecrier_redact::neutralise;

const DIM: Style = Style::new().dimmed();
const BOLD: Style = Style::new().bold();
const PLAIN: Style = Style::new();
const BAD: Style = AnsiColor::Red.on_default().bold();
const WARNING: Style = AnsiColor::Yellow.on_default();
const GOOD: Style = AnsiColor::Green.on_default();
const WHERE: Style = AnsiColor::Cyan.on_default();

/// Below this the place and the message get lines of their own.
const ROOMY: usize = 76;

/// Reasons are lined up as far as most of them go.
const REASON_CHARS: usize = 16;

/// How lines look.
#[derive(Clone, Debug)]
pub(crate) struct Look {
    pub(crate) colour: bool,
    /// Of the terminal; none is a pipe, where nothing is cut.
    pub(crate) width: Option<usize>,
    pub(crate) zone: TimeZone,
    /// Whether there is more than one context to tell apart.
    pub(crate) contexts: bool,
    /// Lines of each log.
    pub(crate) log_lines: usize,
}

/// A line in parts, each with its style.
#[derive(Default)]
struct Line {
    parts: Vec<(Style, String)>,
}

// === impl Line ===

impl Line {
    /// Text that others wrote: one line, and nothing that acts on a terminal.
    fn with(mut self, style: Style, text: &str) -> Self {
        let text = neutralise(text);
        let text = text.split(['\n', '\t']).collect::<Vec<_>>().join(" ");
        self.parts.push((style, text));
        self
    }

    fn render(self, look: &Look) -> String {
        let mut room = look.width.unwrap_or(usize::MAX);
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
            if look.colour && style != PLAIN && !text.is_empty() {
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

// === impl Look ===

impl Look {
    /// What a person reads of it.
    pub(crate) fn lines(&self, news: &News) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(event) = &news.event {
            self.event(news, event, &mut lines);
            let mut crashes = Vec::new();
            for log in &news.logs {
                let crash = log.signature.as_ref().map(|one| one.line.as_str());
                let known = crash.is_some() && crashes.contains(&crash);
                self.log(log, known, &mut lines);
                crashes.push(crash);
            }
            if news.is_fault() {
                lines.extend(news.context.as_ref().map(|one| self.pod(one)));
            }
        } else {
            lines.push(self.trouble(news));
        }
        lines.into_iter().map(|line| line.render(self)).collect()
    }

    fn event(&self, news: &News, event: &Event, lines: &mut Vec<Line>) {
        let (style, word) = match event.kind.as_str() {
            _ if news.is_fault() => (BAD, "FAULT"),
            "Warning" => (WARNING, "Warning"),
            "Normal" => (GOOD, "Normal"),
            other => (PLAIN, other),
        };
        let mut line = Line::default()
            .with(DIM, &self.time(event.timestamp))
            .with(PLAIN, " ")
            .with(style, &format!("{word:7}"))
            .with(PLAIN, " ");
        if self.contexts {
            line = line.with(DIM, &news.cluster).with(PLAIN, " ");
        }
        let object = &event.involved_object;
        let place = if event.namespace.is_empty() {
            format!("{}/{}", object.kind.to_lowercase(), object.name)
        } else {
            let kind = object.kind.to_lowercase();
            format!("{} {kind}/{}", event.namespace, object.name)
        };
        let times = if event.count > 1 {
            format!(" (x{})", event.count)
        } else {
            String::new()
        };
        if self.is_narrow() {
            let below = |style, text| Line::default().with(PLAIN, "  ").with(style, text);
            lines.push(line.with(BOLD, &event.reason).with(DIM, &times));
            lines.push(below(WHERE, &place));
            lines.push(below(PLAIN, &event.message));
            return;
        }
        // The count is not what a long message may push out of sight.
        let line = line
            .with(BOLD, &format!("{:REASON_CHARS$}", event.reason))
            .with(PLAIN, " ")
            .with(WHERE, &place)
            .with(DIM, &times)
            .with(PLAIN, "  ");
        lines.push(line.with(PLAIN, &event.message));
    }

    /// A crash that was shown already, of another run, is only named.
    fn log(&self, log: &Log, known: bool, lines: &mut Vec<Line>) {
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
        if known {
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

    fn trouble(&self, news: &News) -> Line {
        let line = Line::default()
            .with(DIM, &self.time(Some(Timestamp::now())))
            .with(PLAIN, " ");
        let cluster = &news.cluster;
        match (&news.error, &news.gap) {
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

    /// Who made it, how it ended, where it runs.
    fn pod(&self, pod: &Pod) -> Line {
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

    /// What stands under an event: below its type, or where there is most room.
    fn below(&self, mark: &str) -> Line {
        let margin = if self.is_narrow() { 2 } else { 9 };
        Line::default().with(DIM, &format!("{:margin$}{mark}", ""))
    }

    fn is_narrow(&self) -> bool {
        self.width.is_some_and(|width| width < ROOMY)
    }

    fn time(&self, at: Option<Timestamp>) -> String {
        let at = at.unwrap_or_default().to_zoned(self.zone.clone());
        at.strftime("%H:%M:%S").to_string()
    }
}

/// The lines to show, and which of them says what crashed: from that one on, else
/// the last ones.
fn excerpt<'a>(sample: &'a str, log: &'a Log, count: usize) -> (Option<usize>, Vec<&'a str>) {
    let lines: Vec<_> = sample
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    let last = lines.len().saturating_sub(count);
    let Some(signature) = log.signature.as_ref().filter(|_| count > 0) else {
        return (None, lines[last..].to_vec());
    };
    // The signature's line is cut where the sample's is not.
    let known = signature.line.trim_end_matches('…');
    let at = lines.iter().rposition(|line| line.contains(known));
    match at {
        Some(at) => {
            // The line before often says why; more of them if there is room.
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

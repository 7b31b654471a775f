//! The report of a check, as text and as JSON.

use anstyle::{AnsiColor, Style};
use serde::Serialize;

/// All findings.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Report {
    pub(crate) ok: bool,
    pub(crate) sections: Vec<Section>,
}

/// The findings on one subject.
#[derive(Debug, Serialize)]
pub(crate) struct Section {
    pub(crate) about: String,
    pub(crate) findings: Vec<Finding>,
    /// The manifest that grants missing permissions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) manifest: Option<String>,
}

/// The result of one check.
#[derive(Debug, Serialize)]
pub(crate) struct Finding {
    pub(crate) verdict: Verdict,
    pub(crate) text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) hint: Option<String>,
}

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verdict {
    /// The check passed.
    Ok,
    /// Something to know, which is not a failure.
    Note,
    /// The check failed.
    Fail,
}

// === impl Finding ===

impl Finding {
    pub(crate) fn ok(text: impl Into<String>) -> Self {
        Self::new(Verdict::Ok, text)
    }

    pub(crate) fn note(text: impl Into<String>) -> Self {
        Self::new(Verdict::Note, text)
    }

    pub(crate) fn fail(text: impl Into<String>) -> Self {
        Self::new(Verdict::Fail, text)
    }

    /// A failure whose text may end with a hint.
    pub(crate) fn error(text: &str) -> Self {
        match text.split_once("\nhint: ") {
            Some((text, hint)) => Self::fail(text).hint(hint),
            None => Self::fail(text),
        }
    }

    fn new(verdict: Verdict, text: impl Into<String>) -> Self {
        Self {
            verdict,
            text: text.into(),
            hint: None,
        }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

// === impl Section ===

impl Section {
    pub(crate) fn new(about: impl Into<String>, findings: Vec<Finding>) -> Self {
        Self {
            about: about.into(),
            findings,
            manifest: None,
        }
    }

    fn failed(&self) -> bool {
        self.findings.iter().any(|one| one.verdict == Verdict::Fail)
    }
}

// === impl Report ===

impl Report {
    pub(crate) fn new(sections: Vec<Section>) -> Self {
        Self {
            ok: !sections.iter().any(Section::failed),
            sections,
        }
    }

    /// The report as text.
    pub(crate) fn lines(&self, color: bool) -> Vec<String> {
        let paint = |style: Style, text: &str| {
            if color {
                format!("{style}{text}{style:#}")
            } else {
                text.to_owned()
            }
        };
        let mut lines = Vec::new();
        for section in &self.sections {
            lines.push(paint(Style::new().bold(), &section.about));
            for finding in &section.findings {
                let (style, mark) = match finding.verdict {
                    Verdict::Ok => (AnsiColor::Green.on_default(), "ok  "),
                    Verdict::Note => (AnsiColor::Yellow.on_default(), "note"),
                    Verdict::Fail => (AnsiColor::Red.on_default().bold(), "FAIL"),
                };
                lines.push(format!("  {} {}", paint(style, mark), finding.text));
                if let Some(hint) = &finding.hint {
                    lines.push(format!("       hint: {hint}"));
                }
            }
            if let Some(manifest) = &section.manifest {
                lines
                    .push("       to grant what is missing, `kubectl apply -f -` this:".to_owned());
                lines.extend(manifest.lines().map(|line| format!("         {line}")));
            }
        }
        let failed = self.sections.iter().filter(|one| one.failed()).count();
        let verdict = if failed == 0 {
            paint(AnsiColor::Green.on_default(), "all is well")
        } else {
            let text = format!("{failed} of {} need a look", self.sections.len());
            paint(AnsiColor::Red.on_default().bold(), &text)
        };
        lines.push(verdict);
        lines
    }
}

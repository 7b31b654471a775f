//! Crash signatures: what a crash looks like in a log, as one table.

use std::sync::LazyLock;

use regex::bytes::Regex;
use serde::{Deserialize, Serialize};

/// A longer line is searched only so far, and shown even less.
const LOOK_BYTES: usize = 4096;
const SHOW_BYTES: usize = 300;

/// Lines of a Python traceback before the line with the exception, at most.
const TRACEBACK_LINES: usize = 200;

/// Runtime or cause of a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CrashKind {
    /// A Go panic or a fatal error of its runtime.
    Go,
    /// A Rust panic or abort.
    Rust,
    /// A Java exception or a crash of its virtual machine.
    Java,
    /// A Python traceback.
    Python,
    /// An uncaught exception or rejection in Node.js.
    Node,
    /// Memory violations, aborts, failed assertions, sanitizers.
    Native,
    /// Out of memory.
    OutOfMemory,
    /// An unhandled exception in .NET.
    Dotnet,
    /// A Ruby exception.
    Ruby,
    /// A PHP fatal error.
    Php,
}

/// A crash and the log line that shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CrashSignature {
    /// Runtime or cause.
    pub kind: CrashKind,
    /// The line, cut to a readable length.
    pub line: String,
}

/// Searches a log for crashes, line by line.
#[derive(Debug, Default)]
pub struct Detector {
    found: Option<(Rank, CrashSignature)>,
    /// Lines that a Python traceback may still have.
    traceback: usize,
}

/// How much a line tells. The last line of the highest rank is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    /// That there was a crash: a stack begins, a core was dumped.
    Trace,
    /// What the crash was.
    Headline,
}

use Rank::{Headline, Trace};

/// Of two patterns that match the same line the first one wins.
const TABLE: [(CrashKind, Rank, &str); 35] = [
    (
        CrashKind::OutOfMemory,
        Headline,
        r"java\.lang\.OutOfMemoryError",
    ),
    (
        CrashKind::OutOfMemory,
        Headline,
        r"FATAL ERROR: [ -~]{0,200}(?:heap out of memory|Reached heap limit|Allocation failed)",
    ),
    (
        CrashKind::OutOfMemory,
        Headline,
        r"(?i:\bout of memory: kill|\boom-kill:|\binvoked oom-killer|memory cgroup out of memory)",
    ),
    (
        CrashKind::OutOfMemory,
        Headline,
        r"\bOOMKilled\b|\bstd::bad_alloc\b|^MemoryError\b",
    ),
    (
        CrashKind::OutOfMemory,
        Headline,
        r"memory allocation of [0-9]+ bytes failed|fatal error: (?:runtime: out of memory|out of memory)",
    ),
    (CrashKind::Go, Headline, r"\bpanic:(?:\s|$)"),
    (
        CrashKind::Go,
        Headline,
        r"(?:^|\s)fatal error: (?:all goroutines|concurrent map|unexpected signal|stack overflow|sync:|runtime:|schedule:|bad )",
    ),
    // Go prints the signal after the line with the cause.
    (CrashKind::Go, Trace, r"^\[signal SIG[A-Z]+: "),
    (
        CrashKind::Go,
        Trace,
        r"^goroutine [0-9]+ \[[a-zA-Z][^\]]{0,80}\]:",
    ),
    (
        CrashKind::Rust,
        Headline,
        r"\bthread '[^']{0,200}'(?: \([0-9]+\))? panicked at\b",
    ),
    (CrashKind::Rust, Headline, r"(?:^|\s)fatal runtime error: "),
    (CrashKind::Java, Headline, r#"\bException in thread ""#),
    (
        CrashKind::Java,
        Headline,
        r"^(?:Caused by: )?(?:[a-z_]\w*\.)+[A-Z]\w*(?:Exception|Error|Throwable)(?::|\s*$)",
    ),
    (
        CrashKind::Java,
        Headline,
        r"A fatal error has been detected by the Java Runtime",
    ),
    (CrashKind::Python, Headline, r"\bFatal Python error: "),
    (
        CrashKind::Python,
        Trace,
        r"Traceback \(most recent call last\):",
    ),
    (
        CrashKind::Node,
        Headline,
        r"\bUncaught (?:Exception|\w*Error)\b",
    ),
    (
        CrashKind::Node,
        Headline,
        r"\bUnhandledPromiseRejection|\b[Uu]nhandled (?:promise )?rejection\b",
    ),
    (
        CrashKind::Node,
        Headline,
        r"^(?:Type|Reference|Range|Syntax|Eval|URI)Error(?: \[\w{1,60}\])?: ",
    ),
    (CrashKind::Node, Trace, r"\btriggerUncaughtException\b"),
    (
        CrashKind::Dotnet,
        Headline,
        r"^(?:Unhandled exception\. |Unhandled Exception: )\S",
    ),
    (
        CrashKind::Dotnet,
        Headline,
        r"^(?:Process terminated\. |Fatal error\. )\S",
    ),
    (
        CrashKind::Ruby,
        Headline,
        r"\.rb:[0-9]+:in [`'][ -~]{1,200}\((?:\w+::)*\w*(?:Error|Exception|Interrupt)\)",
    ),
    (CrashKind::Ruby, Headline, r"\[BUG\] "),
    (
        CrashKind::Php,
        Headline,
        r"\bPHP Fatal error: |^Fatal error: Uncaught ",
    ),
    (
        CrashKind::Native,
        Headline,
        r"==[0-9]+==\s?ERROR: \w+Sanitizer",
    ),
    (
        CrashKind::Native,
        Headline,
        r"\bterminate called (?:after throwing|without an active)",
    ),
    (
        CrashKind::Native,
        Headline,
        r"\bAssertion [`'][ -~]{1,300}' failed|\bAssertion failed: ",
    ),
    (
        CrashKind::Native,
        Headline,
        r"\*\*\* stack smashing detected|\bdouble free or corruption|\b(?:free|malloc|realloc)\(\): (?:invalid|corrupted|memory corruption)",
    ),
    (
        CrashKind::Native,
        Headline,
        r"(?i:\bsegmentation (?:fault|violation)\b|\bsegfault at\b)",
    ),
    (
        CrashKind::Native,
        Headline,
        r"\bSIG(?:SEGV|ABRT|BUS|ILL|FPE)\b",
    ),
    (
        CrashKind::Native,
        Headline,
        r"(?:^|\s)(?:Illegal instruction|Bus error|Floating point exception|Aborted)(?: \(core dumped\)|\s*$)",
    ),
    (CrashKind::Native, Trace, r"\(core dumped\)"),
    (
        CrashKind::Native,
        Headline,
        r"(?:^|[\s\x22])fatal error: \S",
    ),
    (
        CrashKind::Native,
        Headline,
        r"(?:^|[\s\x22])FATAL ERROR: \S",
    ),
];

static ALL: LazyLock<Regex> = LazyLock::new(|| {
    let groups: Vec<_> = TABLE.iter().map(|(_, _, one)| format!("({one})")).collect();
    Regex::new(&format!("(?-u){}", groups.join("|"))).expect("tests compile the table")
});

/// A word of every line that the table can match. Plain words are found many times faster
/// than patterns, and most lines have none of them.
static HINT: LazyLock<Regex> = LazyLock::new(|| {
    let words = [
        "panic",
        "atal ",
        "FATAL",
        "Sanitizer",
        "OutOfMemory",
        "oom-kill",
        "OOM",
        "bad_alloc",
        "MemoryError",
        "memory allocation",
        "goroutine ",
        "xception",
        "Error",
        "Throwable",
        "Traceback",
        "Uncaught",
        "nhandled",
        "Process terminated",
        "[BUG]",
        "terminate called",
        "ssertion",
        "Interrupt",
        "stack smashing",
        "double free",
        "(): ",
        "egmentation",
        "EGMENTATION",
        "egfault",
        "SIG",
        "Illegal",
        "Bus error",
        "Floating",
        "Aborted",
        "core dumped",
    ];
    let words: Vec<_> = words.iter().map(|word| regex::escape(word)).collect();
    Regex::new(&format!("(?-u)(?i:of memory)|{}", words.join("|"))).expect("tests compile it")
});

/// Words before or after a match that make it no crash: the line mentions one that did not
/// happen or was handled.
static TALK_BEFORE: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r"(?i-u)(?:\bnon[- ]?|\bno |\bnot an? |\bnever |\bwithout |\brecover(?:ed|ing)?(?: from)?(?: an?)? |\b(?:handled|caught|ignored|ignoring|handling|expected|possible|on|if|trap|trapping|block|blocking|install|installed|register|registered|send|sending|for) )$";
    Regex::new(pattern).expect("tests compile it")
});
static TALK_AFTER: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r"(?i-u)^[\s\x22':-]{0,3}(?:(?:handlers?|handling|hooks?|handled|caught|ignored|count|recovery)\b|(?:false|none|nil|null|off|disabled)(?:$|[,;)}\x22]))";
    Regex::new(pattern).expect("tests compile it")
});

/// The crash in a text.
#[cfg(test)]
pub(super) fn detect(text: &str) -> Option<CrashSignature> {
    let mut detector = Detector::default();
    for line in text.lines() {
        detector.line(line);
    }
    detector.finish()
}

// === impl Detector ===

impl Detector {
    /// Searches the next line.
    pub fn line(&mut self, line: &str) {
        let line = start_of(line, LOOK_BYTES);
        if self.traceback > 0 {
            self.traceback -= 1;
            if !line.is_empty() && !line.starts_with([' ', '\t']) {
                self.traceback = 0;
                self.keep(Headline, CrashKind::Python, line);
                return;
            }
        }
        if !HINT.is_match(line.as_bytes()) {
            return;
        }
        let mut from = 0;
        while let Some(found) = ALL.captures_at(line.as_bytes(), from) {
            let group = (1..=TABLE.len()).find_map(|nth| Some((nth, found.get(nth)?)));
            let Some((nth, hit)) = group else {
                return;
            };
            if !is_talk(line, hit.start(), hit.end()) {
                let (kind, rank, _) = TABLE[nth - 1];
                if kind == CrashKind::Python && rank == Trace {
                    self.traceback = TRACEBACK_LINES;
                }
                self.keep(rank, kind, line);
                return;
            }
            from = hit.end();
        }
    }

    /// The crash that was found.
    pub fn finish(self) -> Option<CrashSignature> {
        self.found.map(|(_, signature)| signature)
    }

    fn keep(&mut self, rank: Rank, kind: CrashKind, line: &str) {
        if self.found.as_ref().is_none_or(|(known, _)| *known <= rank) {
            let line = start_of(line.trim(), SHOW_BYTES).to_owned();
            self.found = Some((rank, CrashSignature { kind, line }));
        }
    }
}

fn is_talk(line: &str, start: usize, end: usize) -> bool {
    // The last character of a match may be the first of what follows.
    let (start, end) = (
        line.floor_char_boundary(start),
        line.ceil_char_boundary(end),
    );
    let near = line[..start].char_indices().rev().nth(31);
    let before = &line[near.map_or(0, |(at, _)| at)..start];
    let lead = line[start..end]
        .chars()
        .next()
        .filter(|one| one.is_whitespace());
    let spaced = lead.map(|space| format!("{before}{space}"));
    let tail = line[start..end]
        .rfind(": ")
        .map_or(end, |at| start + at + 1);
    TALK_BEFORE.is_match(spaced.as_deref().unwrap_or(before).as_bytes())
        || TALK_AFTER.is_match(&line.as_bytes()[tail..])
}

fn start_of(text: &str, bytes_max: usize) -> &str {
    let mut to = text.len().min(bytes_max);
    while !text.is_char_boundary(to) {
        to -= 1;
    }
    &text[..to]
}

#[cfg(test)]
mod tests;

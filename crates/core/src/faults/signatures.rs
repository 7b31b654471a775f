//! What a crash looks like in a log: one table.

use std::sync::LazyLock;

use regex::bytes::Regex;
use serde::Serialize;

/// A longer line is looked at only so far, and shown even less.
const LOOK_BYTES: usize = 4096;
const SHOW_BYTES: usize = 300;

/// How many lines of a Python traceback may come before what was raised.
const TRACEBACK_LINES: usize = 200;

/// What crashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Kind {
    /// A Go panic or a fatal error of its runtime.
    Go,
    /// A Rust panic or abort.
    Rust,
    /// A Java exception or a crash of its virtual machine.
    Java,
    /// A Python traceback.
    Python,
    /// An exception or rejection that nobody caught, in Node.js.
    Node,
    /// Memory violations, aborts, failed assertions, sanitizers.
    Native,
    /// Ended for want of memory.
    OutOfMemory,
    /// An exception that nobody handled, in .NET.
    Dotnet,
    /// A Ruby exception.
    Ruby,
    /// A PHP fatal error.
    Php,
}

/// A crash, and the line that says so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Signature {
    /// What crashed.
    pub kind: Kind,
    /// The line, cut to a readable length.
    pub line: String,
}

/// Looks at a log line by line.
#[derive(Debug, Default)]
pub struct Detector {
    found: Option<(Rank, Signature)>,
    /// Lines until the one that a Python traceback ends with.
    traceback: usize,
}

/// How much a line says. The last line of the highest rank is the one to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    /// There was a crash: a stack begins, a core was dumped.
    Trace,
    /// What it was.
    Headline,
}

use Rank::{Headline, Trace};

/// Of two that match the same line the first one wins.
const TABLE: [(Kind, Rank, &str); 35] = [
    (Kind::OutOfMemory, Headline, r"java\.lang\.OutOfMemoryError"),
    (
        Kind::OutOfMemory,
        Headline,
        r"FATAL ERROR: [ -~]{0,200}(?:heap out of memory|Reached heap limit|Allocation failed)",
    ),
    (
        Kind::OutOfMemory,
        Headline,
        r"(?i:\bout of memory: kill|\boom-kill:|\binvoked oom-killer|memory cgroup out of memory)",
    ),
    (
        Kind::OutOfMemory,
        Headline,
        r"\bOOMKilled\b|\bstd::bad_alloc\b|^MemoryError\b",
    ),
    (
        Kind::OutOfMemory,
        Headline,
        r"memory allocation of [0-9]+ bytes failed|fatal error: (?:runtime: out of memory|out of memory)",
    ),
    (Kind::Go, Headline, r"\bpanic:(?:\s|$)"),
    (
        Kind::Go,
        Headline,
        r"(?:^|\s)fatal error: (?:all goroutines|concurrent map|unexpected signal|stack overflow|sync:|runtime:|schedule:|bad )",
    ),
    // Go says which signal it was after it has said what went wrong.
    (Kind::Go, Trace, r"^\[signal SIG[A-Z]+: "),
    (
        Kind::Go,
        Trace,
        r"^goroutine [0-9]+ \[[a-zA-Z][^\]]{0,80}\]:",
    ),
    (
        Kind::Rust,
        Headline,
        r"\bthread '[^']{0,200}'(?: \([0-9]+\))? panicked at\b",
    ),
    (Kind::Rust, Headline, r"(?:^|\s)fatal runtime error: "),
    (Kind::Java, Headline, r#"\bException in thread ""#),
    (
        Kind::Java,
        Headline,
        r"^(?:Caused by: )?(?:[a-z_]\w*\.)+[A-Z]\w*(?:Exception|Error|Throwable)(?::|\s*$)",
    ),
    (
        Kind::Java,
        Headline,
        r"A fatal error has been detected by the Java Runtime",
    ),
    (Kind::Python, Headline, r"\bFatal Python error: "),
    (Kind::Python, Trace, r"Traceback \(most recent call last\):"),
    (Kind::Node, Headline, r"\bUncaught (?:Exception|\w*Error)\b"),
    (
        Kind::Node,
        Headline,
        r"\bUnhandledPromiseRejection|\b[Uu]nhandled (?:promise )?rejection\b",
    ),
    (
        Kind::Node,
        Headline,
        r"^(?:Type|Reference|Range|Syntax|Eval|URI)Error(?: \[\w{1,60}\])?: ",
    ),
    (Kind::Node, Trace, r"\btriggerUncaughtException\b"),
    (
        Kind::Dotnet,
        Headline,
        r"^(?:Unhandled exception\. |Unhandled Exception: )\S",
    ),
    (
        Kind::Dotnet,
        Headline,
        r"^(?:Process terminated\. |Fatal error\. )\S",
    ),
    (
        Kind::Ruby,
        Headline,
        r"\.rb:[0-9]+:in [`'][ -~]{1,200}\((?:\w+::)*\w*(?:Error|Exception|Interrupt)\)",
    ),
    (Kind::Ruby, Headline, r"\[BUG\] "),
    (
        Kind::Php,
        Headline,
        r"\bPHP Fatal error: |^Fatal error: Uncaught ",
    ),
    (Kind::Native, Headline, r"==[0-9]+==\s?ERROR: \w+Sanitizer"),
    (
        Kind::Native,
        Headline,
        r"\bterminate called (?:after throwing|without an active)",
    ),
    (
        Kind::Native,
        Headline,
        r"\bAssertion [`'][ -~]{1,300}' failed|\bAssertion failed: ",
    ),
    (
        Kind::Native,
        Headline,
        r"\*\*\* stack smashing detected|\bdouble free or corruption|\b(?:free|malloc|realloc)\(\): (?:invalid|corrupted|memory corruption)",
    ),
    (
        Kind::Native,
        Headline,
        r"(?i:\bsegmentation (?:fault|violation)\b|\bsegfault at\b)",
    ),
    (Kind::Native, Headline, r"\bSIG(?:SEGV|ABRT|BUS|ILL|FPE)\b"),
    (
        Kind::Native,
        Headline,
        r"(?:^|\s)(?:Illegal instruction|Bus error|Floating point exception|Aborted)(?: \(core dumped\)|\s*$)",
    ),
    (Kind::Native, Trace, r"\(core dumped\)"),
    (Kind::Native, Headline, r"(?:^|[\s\x22])fatal error: \S"),
    (Kind::Native, Headline, r"(?:^|[\s\x22])FATAL ERROR: \S"),
];

static ALL: LazyLock<Regex> = LazyLock::new(|| {
    let groups: Vec<_> = TABLE.iter().map(|(_, _, one)| format!("({one})")).collect();
    Regex::new(&format!("(?-u){}", groups.join("|"))).expect("tests compile the table")
});

/// A piece of every line that the table can match. Plain words are found many times
/// faster than patterns, and most lines have none of them.
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

/// Words before and after that make a crash none: talk of one that did not happen
/// or was dealt with.
static TALK_BEFORE: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r"(?i-u)(?:\bnon[- ]?|\bno |\bnot an? |\bnever |\bwithout |\brecover(?:ed|ing)?(?: from)?(?: an?)? |\b(?:handled|caught|ignored|ignoring|handling|expected|possible|on|if|trap|trapping|block|blocking|install|installed|register|registered|send|sending|for) )$";
    Regex::new(pattern).expect("tests compile it")
});
static TALK_AFTER: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r"(?i-u)^[\s\x22':-]{0,3}(?:(?:handlers?|handling|hooks?|handled|caught|ignored|count|recovery)\b|(?:false|none|nil|null|off|disabled)(?:$|[,;)}\x22]))";
    Regex::new(pattern).expect("tests compile it")
});

/// The crash in a text.
pub fn detect(text: &str) -> Option<Signature> {
    let mut detector = Detector::default();
    for line in text.lines() {
        detector.line(line);
    }
    detector.finish()
}

// === impl Detector ===

impl Detector {
    /// Looks at the next line.
    pub fn line(&mut self, line: &str) {
        let line = start_of(line, LOOK_BYTES);
        if self.traceback > 0 {
            self.traceback -= 1;
            if !line.is_empty() && !line.starts_with([' ', '\t']) {
                self.traceback = 0;
                self.keep(Headline, Kind::Python, line);
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
                if kind == Kind::Python && rank == Trace {
                    self.traceback = TRACEBACK_LINES;
                }
                self.keep(rank, kind, line);
                return;
            }
            from = hit.end();
        }
    }

    /// What was found.
    pub fn finish(self) -> Option<Signature> {
        self.found.map(|(_, signature)| signature)
    }

    fn keep(&mut self, rank: Rank, kind: Kind, line: &str) {
        if self.found.as_ref().is_none_or(|(known, _)| *known <= rank) {
            let line = start_of(line.trim(), SHOW_BYTES).to_owned();
            self.found = Some((rank, Signature { kind, line }));
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

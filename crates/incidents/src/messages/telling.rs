//! The line of a log that says most about its end.

/// Words of lines that say that it is over.
const FATAL: [&str; 5] = ["panic", "fatal", "exception", "critical", "segfault"];

/// Words of lines that say what went wrong.
const TELLING: [&str; 34] = [
    "error",
    "failed",
    "failure",
    "cannot",
    "could not",
    "can't",
    "did not",
    "unable",
    "denied",
    "refused",
    "timeout",
    "timed out",
    "no such",
    "not found",
    "invalid",
    "missing",
    "required",
    "unauthorized",
    "forbidden",
    "unreachable",
    "expired",
    "not defined",
    "unknown",
    "unrecognized",
    "unsupported",
    "unexpected",
    "corrupt",
    "bad ",
    "no space",
    "does not exist",
    "doesn't exist",
    "already in use",
    "already exists",
    "not allowed",
];

/// Words of lines that send their reader to other lines.
const VAGUE: [&str; 8] = [
    "check server logs",
    "check the log",
    "check logs",
    "see log",
    "see the log",
    "see above",
    "for more information",
    "for details",
];

/// How lines begin that belong to the one before them.
const FRAMES: [&str; 8] = ["at ", "File \"", "... ", "goroutine ", "}", "{", "^", "~"];

/// Lines from the end of a log that are looked at.
const LINES_MAX: usize = 20;

/// How much a line says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    /// A part of another line.
    Frame,
    /// Anything.
    Plain,
    /// It went wrong, and other lines know more.
    Vague,
    /// What went wrong.
    Telling,
    /// Why it is over.
    Fatal,
}

/// The line of a log that says most about its end: the last that says it is over, or the first
/// of the errors that end it, or the last line.
pub fn telling_line(log: &str) -> Option<&str> {
    let lines = log.lines().map(str::trim).filter(|line| !line.is_empty());
    let last: Vec<_> = lines
        .rev()
        .take(LINES_MAX)
        .map(|line| (Rank::of(line), line))
        .collect();
    let best = last.iter().map(|(rank, _)| *rank).max()?;
    let at = last.iter().position(|(rank, _)| *rank == best)?;
    let at = match best {
        // The first of those that come together.
        Rank::Telling => {
            let block = last[at..].iter().take_while(|(rank, _)| *rank == best);
            at + block.count() - 1
        }
        _ => at,
    };
    Some(last[at].1)
}

// === impl Rank ===

impl Rank {
    fn of(line: &str) -> Self {
        let lower = line.to_ascii_lowercase();
        let has = |words: &[&str]| words.iter().any(|word| lower.contains(word));
        // Fields of an object that was printed.
        let is_field = line.ends_with([',', '{', '[']);
        if is_field || FRAMES.iter().any(|begin| line.starts_with(begin)) {
            return Self::Frame;
        }
        match (has(&FATAL), has(&TELLING)) {
            (false, false) => Self::Plain,
            _ if has(&VAGUE) => Self::Vague,
            (true, _) => Self::Fatal,
            (false, true) => Self::Telling,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_that_knows_most_is_taken() {
        for (log, wanted) in [
            (
                "flag provided but not defined: -outbx\nUsage of /app:\n  -outbox",
                "flag provided but not defined: -outbx",
            ),
            (
                "# Bad file format reading the append only file\n# Fatal error loading the DB, check server logs. Exiting.",
                "# Bad file format reading the append only file",
            ),
            (
                "Error: connect ECONNREFUSED 10.0.0.1:5432\n    at TCPConnectWrap.afterConnect\n  errno: -111,\n  code: 'ECONNREFUSED',\n}",
                "Error: connect ECONNREFUSED 10.0.0.1:5432",
            ),
            (
                "starting\npanic: no provider for eur\n\ngoroutine 1 [running]:\nmain.main()",
                "panic: no provider for eur",
            ),
            (
                "cannot open /data: denied\nfailed to start\nbye",
                "cannot open /data: denied",
            ),
            ("one\ntwo", "two"),
            ("fatal: see the log", "fatal: see the log"),
        ] {
            assert_eq!(telling_line(log), Some(wanted));
        }
        assert_eq!(telling_line(" \n\n"), None);
    }
}

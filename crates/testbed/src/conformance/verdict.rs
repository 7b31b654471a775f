//! The suite's own summary, counted by scenario.

use std::{collections::BTreeSet, fmt};

use anyhow::{Result, ensure};

/// The results of the scenarios of a revision.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    all: BTreeSet<String>,
    not_passed: BTreeSet<String>,
    expected: BTreeSet<String>,
    unexpected: BTreeSet<String>,
    stale: BTreeSet<String>,
    refused: bool,
}

// === impl Verdict ===

impl Verdict {
    /// Adds the output of one run of the suite, and whether it succeeded.
    pub(crate) fn add(&mut self, output: &str, content: bool) -> Result<()> {
        let (_, summary) = output.split_once("=== SUMMARY ===").unwrap_or_default();
        let (scenarios, judged) = summary.split_once("\nTotal: ").unwrap_or_default();
        for line in scenarios.lines() {
            let Some((mark, name)) = entry(line) else {
                continue;
            };
            let (name, checks) = name.split_once(':').unwrap_or((name, ""));
            self.all.insert(name.to_owned());
            // A scenario whose checks were all skipped is marked as passed too.
            if mark == '✗' || checks.trim().starts_with("0 passed") {
                self.not_passed.insert(name.to_owned());
            }
        }
        ensure!(!self.all.is_empty(), "no summary");
        // The first such line ends the total; later marks are about the baseline.
        for line in judged.lines().filter(|line| line.starts_with("  ")) {
            match entry(line) {
                Some(('~', name)) => self.expected.insert(name.to_owned()),
                Some(('✗', name)) => self.unexpected.insert(name.to_owned()),
                Some(('✓', name)) => self.stale.insert(name.to_owned()),
                _ => continue,
            };
        }
        self.refused |= !content;
        Ok(())
    }

    /// Whether the suite succeeded: its exit status counts, not the parsed lines.
    pub(crate) fn as_expected(&self) -> bool {
        !self.refused
    }

    /// One line each, in the suite's names.
    pub(crate) fn surprises(&self) -> impl Iterator<Item = String> {
        let failed = self.unexpected.iter().map(|name| format!("failed: {name}"));
        let passed = self.stale.iter().map(|name| {
            format!("passed, so it does not belong into the expected failures: {name}")
        });
        failed.chain(passed)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unexpected = scenarios(&[&self.unexpected, &self.stale]);
        let mut expected = scenarios(&[&self.expected]);
        expected.retain(|name| !unexpected.contains(name));
        let judged = |name: &str| unexpected.contains(name) || expected.contains(name);
        let (unjudged, passed): (Vec<_>, Vec<_>) = self
            .all
            .iter()
            .filter(|name| !judged(name))
            .partition(|name| self.not_passed.contains(*name));
        write!(
            f,
            "{} scenarios passed, {} failed as expected, {} unexpected",
            passed.len(),
            expected.len(),
            unexpected.len()
        )?;
        if !unjudged.is_empty() {
            write!(f, "; {} run but not judged", unjudged.len())?;
        }
        Ok(())
    }
}

/// A line of a list: its mark, then a name.
fn entry(line: &str) -> Option<(char, &str)> {
    let (mark, name) = line.trim().split_once(' ')?;
    let mut mark = mark.chars();
    let first = mark.next().filter(|c| "~✓✗".contains(*c))?;
    mark.next().is_none().then_some((first, name))
}

/// A name is a scenario, or a check of one: `scenario:check`.
fn scenarios<'a>(names: &[&'a BTreeSet<String>]) -> BTreeSet<&'a str> {
    let names = names.iter().flat_map(|names| names.iter());
    names.filter_map(|name| name.split(':').next()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SURPRISED: &str = "Checks: ✗ noise: 1\n
=== SUMMARY ===
✓ ping: 1 passed, 0 failed
✗ stateless: 26 passed, 2 failed
✗ image: 0 passed, 1 failed
✓ polling: 0 passed, 0 failed
✗ tasks: 0 passed, 1 failed
✓ skipped: 0 passed, 0 failed
✓ tools-list: 1 passed, 0 failed

Total: 28 passed, 4 failed

\u{1b}[33mExpected failures (in baseline):\u{1b}[0m
  ~ stateless:one
  ~ stateless:two
  ~ polling

\u{1b}[31mStale baseline entries (now passing - remove from baseline):\u{1b}[0m
  ✓ tools-list

\u{1b}[31mUnexpected failures (not in baseline):\u{1b}[0m
  ✗ image
";

    #[test]
    fn scenarios_are_counted_once_and_by_how_they_were_judged() {
        let mut verdict = Verdict::default();
        verdict.add(SURPRISED, false).unwrap();
        assert!(!verdict.as_expected());
        assert_eq!(
            verdict.to_string(),
            "1 scenarios passed, 2 failed as expected, 2 unexpected; \
             2 run but not judged"
        );
        assert_eq!(
            verdict.surprises().collect::<Vec<_>>(),
            [
                "failed: image",
                "passed, so it does not belong into the expected failures: tools-list"
            ]
        );
    }

    #[test]
    fn a_second_run_may_judge_what_the_first_only_ran() {
        let mut verdict = Verdict::default();
        let first = "=== SUMMARY ===\n✗ later: 0 passed, 1 failed\n\nTotal: 0 passed, 1 failed\n";
        verdict.add(first, true).unwrap();
        verdict
            .add(&format!("{first}\n  ~ later:check\n"), true)
            .unwrap();
        assert!(verdict.as_expected());
        assert_eq!(
            verdict.to_string(),
            "0 scenarios passed, 1 failed as expected, 0 unexpected"
        );
    }

    #[test]
    fn a_suite_that_did_not_finish_is_no_success() {
        assert!(Verdict::default().add("Error: no such file", true).is_err());
    }
}

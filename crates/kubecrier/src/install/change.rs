//! What becomes of a file, and the difference as people read it.

/// Lines that are shown around a difference.
const CONTEXT: usize = 2;

/// What becomes of a file; `None` if there is none.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Change {
    pub(super) before: Option<String>,
    pub(super) after: Option<String>,
    pub(super) backup: Backup,
}

/// What becomes of the copy of the file before the first change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Backup {
    Write,
    Keep,
    Remove,
}

// === impl Change ===

impl Change {
    pub(super) fn is_none(&self) -> bool {
        self.before == self.after
    }

    /// The lines that go and come: all between the first and the last that differ.
    pub(super) fn lines(&self) -> Vec<String> {
        let lines = |text: &Option<String>| -> Vec<String> {
            let text = text.as_deref().unwrap_or_default();
            text.lines().map(str::to_owned).collect()
        };
        let (before, after) = (lines(&self.before), lines(&self.after));
        let pairs = before.iter().zip(&after);
        let head = pairs.take_while(|(one, other)| one == other).count();
        let rest = before.len().min(after.len()) - head;
        let pairs = before.iter().rev().zip(after.iter().rev()).take(rest);
        let tail = pairs.take_while(|(one, other)| one == other).count();
        let marked = |mark: &str, lines: &[String]| -> Vec<String> {
            lines.iter().map(|line| format!("{mark}{line}")).collect()
        };
        let end = after.len() - tail;
        [
            marked("  ", &before[head.saturating_sub(CONTEXT)..head]),
            marked("- ", &before[head..before.len() - tail]),
            marked("+ ", &after[head..end]),
            marked("  ", &after[end..after.len().min(end + CONTEXT)]),
        ]
        .concat()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn change(before: &str, after: &str) -> Change {
        Change {
            before: Some(before.to_owned()),
            after: Some(after.to_owned()),
            backup: Backup::Write,
        }
    }

    #[test]
    fn the_difference_is_shown_with_its_neighbours() {
        let before = "{\n  \"a\": 1,\n  \"b\": 2,\n  \"c\": 3\n}\n";
        let after = "{\n  \"a\": 1,\n  \"b\": 2,\n  \"c\": 3,\n  \"d\": 4\n}\n";
        let expected = [
            "    \"a\": 1,",
            "    \"b\": 2,",
            "-   \"c\": 3",
            "+   \"c\": 3,",
            "+   \"d\": 4",
            "  }",
        ];
        assert_eq!(change(before, after).lines(), expected);
    }

    proptest! {
        #[test]
        fn what_goes_and_comes_turns_one_text_into_the_other(
            before in "([ab]\n){0,8}", after in "([ab]\n){0,8}",
        ) {
            let change = change(&before, &after);
            let lines = change.lines();
            let count = |mark: &str| lines.iter().filter(|line| line.starts_with(mark)).count();
            prop_assert_eq!(
                before.lines().count() + count("+ "),
                after.lines().count() + count("- ")
            );
            prop_assert_eq!(change.is_none(), count("+ ") + count("- ") == 0);
        }
    }
}

//! The end of a text, within a limit of bytes.

/// The end of a text that may have been longer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tail {
    /// Whole lines, unless one alone was too long.
    pub text: String,
    /// Whether lines before were left out.
    pub truncated: bool,
}

/// Collects lines and keeps the last of them; never more than twice the limit.
#[derive(Debug)]
pub struct TailBuffer {
    text: String,
    bytes_max: usize,
    /// Whether lines were left out because of the limit.
    is_full: bool,
    /// Whether lines were left out for another reason.
    truncated: bool,
}

/// The last bytes of a text, from the start of a line or at least of a character.
#[cfg(test)]
pub(super) fn cut(text: &str, bytes_max: usize) -> Tail {
    let (kept, truncated) = end_of(text, bytes_max);
    Tail {
        text: kept.to_owned(),
        truncated,
    }
}

fn end_of(text: &str, bytes_max: usize) -> (&str, bool) {
    if text.len() <= bytes_max {
        return (text, false);
    }
    let mut from = text.len() - bytes_max;
    while !text.is_char_boundary(from) {
        from += 1;
    }
    let kept = &text[from..];
    if text[..from].ends_with('\n') {
        return (kept, true);
    }
    match kept.split_once('\n') {
        Some((_half, lines)) if !lines.is_empty() => (lines, true),
        // The last line is longer than the limit: its end is worth more than nothing.
        _ => (kept, true),
    }
}

// === impl TailBuffer ===

impl TailBuffer {
    /// An empty buffer.
    pub fn new(bytes_max: usize) -> Self {
        Self {
            text: String::new(),
            bytes_max,
            is_full: false,
            truncated: false,
        }
    }

    /// Adds a line and the newline after it.
    pub fn push(&mut self, line: &str) {
        self.push_text(line, self.bytes_max.saturating_sub(1));
        self.text.push('\n');
        if self.text.len() > 2 * self.bytes_max {
            self.shrink();
        }
    }

    /// Adds the last line, after which there is no newline.
    pub fn push_unterminated(&mut self, line: &str) {
        self.push_text(line, self.bytes_max);
        if self.text.len() > 2 * self.bytes_max {
            self.shrink();
        }
    }

    fn push_text(&mut self, line: &str, bytes_max: usize) {
        let (line, cut) = end_of(line, bytes_max);
        if cut {
            // No earlier line can stay.
            self.text.clear();
            self.is_full = true;
        }
        self.text.push_str(line);
    }

    /// Marks the tail as truncated, for lines that were left out before.
    pub fn mark_truncated(&mut self) {
        self.truncated = true;
    }

    /// Number of bytes that are kept so far.
    pub fn len(&self) -> usize {
        self.text.len()
    }

    /// Whether no line was added.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Whether there is no room for one more line before the first: lines were left out, or
    /// those that are kept fill the limit.
    pub fn is_full(&self) -> bool {
        self.is_full || self.text.len() >= self.bytes_max
    }

    /// The end of all lines.
    pub fn finish(mut self) -> Tail {
        self.shrink();
        Tail {
            text: self.text,
            truncated: self.truncated || self.is_full,
        }
    }

    fn shrink(&mut self) {
        let (kept, truncated) = end_of(&self.text, self.bytes_max);
        if truncated {
            self.is_full = true;
            let from = self.text.len() - kept.len();
            self.text.drain(..from);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MAX: usize = 10_240;

    fn check(text: &str, expected: &str, truncated: bool) {
        let tail = cut(text, MAX);
        assert_eq!(
            (tail.text.as_str(), tail.truncated),
            (expected, truncated),
            "{} bytes",
            text.len()
        );
    }

    #[test]
    fn up_to_the_limit_a_text_stays_whole() {
        for size in [0, 1, 10_239, 10_240] {
            let text = "x".repeat(size);
            check(&text, &text, false);
        }
        let text = "x".repeat(10_241);
        check(&text, &text[1..], true);
    }

    #[test]
    fn the_limit_is_met_to_the_byte_with_and_without_a_newline() {
        for (size, newline, kept) in [
            (10_239, false, 10_239),
            (10_240, false, 10_240),
            (10_241, false, 10_240),
            (10_238, true, 10_238),
            (10_239, true, 10_239),
            (10_240, true, 10_239),
        ] {
            let line: String = ('a'..='z').cycle().take(size).collect();
            let mut buffer = TailBuffer::new(MAX);
            let mut expected = line[size - kept..].to_owned();
            if newline {
                buffer.push(&line);
                expected.push('\n');
            } else {
                buffer.push_unterminated(&line);
            }
            let tail = buffer.finish();
            assert_eq!(
                (tail.text, tail.truncated),
                (expected, kept < size),
                "{size} bytes, newline: {newline}"
            );
        }
    }

    #[test]
    fn a_character_is_never_cut() {
        for (one, width) in [("é", 2), ("€", 3), ("🦀", 4)] {
            for size in [10_239, 10_240, 10_241, 10_242, 10_243] {
                // Filled up in front, so that characters lie across the cut.
                let text = "x".repeat(size % width) + &one.repeat(size / width);
                assert_eq!(text.len(), size);
                let tail = cut(&text, MAX);
                assert!(text.ends_with(&tail.text) && tail.text.len() <= MAX);
                assert!(tail.text.len() > MAX - width || !tail.truncated);
                assert_eq!(tail.truncated, size > MAX);
            }
        }
    }

    #[test]
    fn a_cut_text_begins_with_a_line() {
        let lines: String = (0..2000).map(|n| format!("line {n}\n")).collect();
        let tail = cut(&lines, MAX);
        assert!(tail.truncated && tail.text.len() > MAX - 12);
        assert!(tail.text.starts_with("line ") && tail.text.ends_with("line 1999\n"));
        let exact = format!("{}\n{}\n", "a".repeat(50), "b".repeat(MAX - 1));
        check(&exact, &exact[51..], true);
        let one_more = format!("{}\n{}\n", "a".repeat(50), "b".repeat(MAX));
        check(&one_more, &one_more[52..], true);
    }

    #[test]
    fn a_line_without_end_keeps_its_end() {
        let huge = "0123456789".repeat(1_000_000);
        check(&huge, &huge[huge.len() - MAX..], true);
        let mut buffer = TailBuffer::new(MAX);
        buffer.push("before");
        buffer.push(&huge);
        let tail = buffer.finish();
        assert!(tail.truncated && tail.text.len() == MAX && tail.text.ends_with("789\n"));
    }

    #[test]
    fn bytes_that_are_no_text_do_not_stretch_the_limit() {
        let text = String::from_utf8_lossy(&vec![0xff; 20_000]).into_owned();
        let tail = cut(&text, MAX);
        assert!(tail.text.len() <= MAX && tail.text.chars().all(|one| one == '\u{fffd}'));
    }

    proptest! {
        #[test]
        fn a_tail_is_an_end_within_the_limit(text in "([a-z€🦀]{0,9}\n?){0,40}", max in 1..200_usize) {
            let tail = cut(&text, max);
            prop_assert!(text.ends_with(&tail.text));
            prop_assert!(tail.text.len() <= max);
            prop_assert_eq!(tail.truncated, text.len() > max);
            let before = &text[..text.len() - tail.text.len()];
            let last_line = text.trim_end_matches('\n').rsplit('\n').next().unwrap_or_default();
            prop_assert!(before.is_empty() || before.ends_with('\n') || last_line.len() + 1 >= max.saturating_sub(4)
                || tail.text.trim_end_matches('\n').lines().count() <= 1);
        }

        #[test]
        fn lines_one_by_one_make_the_same_tail(
            lines in prop::collection::vec("[a-zé]{0,30}", 0..40), last in "[a-zé]{0,30}", max in 32..200_usize,
        ) {
            let mut buffer = TailBuffer::new(max);
            for line in &lines {
                buffer.push(line);
                prop_assert!(buffer.text.len() <= 2 * max);
            }
            buffer.push_unterminated(&last);
            let mut whole: String = lines.iter().map(|line| format!("{line}\n")).collect();
            whole.push_str(&last);
            prop_assert_eq!(buffer.is_full(), whole.len() >= max);
            let tail = buffer.finish();
            prop_assert!(tail.text.len() <= max && whole.ends_with(&tail.text));
            prop_assert_eq!(tail.truncated, whole.len() > max);
        }
    }
}

//! A line of a terminal in styled parts, and text that is wrapped into such lines.

use anstyle::Style;
use kubecrier_redact::neutralise;

pub(super) const PLAIN: Style = Style::new();

/// A line in parts, each with its style.
#[derive(Clone, Default)]
pub(super) struct Line {
    parts: Vec<(Style, String)>,
}

// === impl Line ===

impl Line {
    /// Appends text that workloads wrote, as one line without control sequences.
    pub(super) fn with(mut self, style: Style, text: &str) -> Self {
        self.parts.push((style, one_line(text)));
        self
    }

    /// The number of columns it takes.
    pub(super) fn width(&self) -> usize {
        (self.parts.iter().map(|(_, text)| text.chars().count())).sum()
    }

    /// The line as text, cut to the width.
    pub(super) fn render(self, color: bool, width: Option<usize>) -> String {
        let mut room = width.unwrap_or(usize::MAX);
        let cut = self.width() > room;
        if cut {
            room = room.saturating_sub(1);
        }
        let mut rendered = String::new();
        for (style, text) in self.parts {
            let text: String = text.chars().take(room).collect();
            room -= text.chars().count();
            if color && style != PLAIN && !text.is_empty() {
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

/// Text without control sequences and line breaks.
pub(super) fn one_line(text: &str) -> String {
    let text = neutralise(text);
    text.split(['\n', '\t']).collect::<Vec<_>>().join(" ")
}

/// Breaks a text between words into lines of at most `room` columns.
pub(super) fn wrap(text: &str, room: usize, lines_max: usize) -> Vec<String> {
    wrap_words(one_line(text).split_whitespace(), room, lines_max)
}

/// Puts words into lines of at most `room` columns. A word that is longer than a line is
/// broken. What needs more than `lines_max` lines ends in an ellipsis.
pub(super) fn wrap_words<'a>(
    words: impl IntoIterator<Item = &'a str>,
    room: usize,
    lines_max: usize,
) -> Vec<String> {
    let room = room.max(1);
    let (mut lines, mut line, mut used) = (Vec::new(), String::new(), 0);
    for word in words {
        let length = word.chars().count();
        if used > 0 && used + 1 + length <= room {
            line.push(' ');
            line.push_str(word);
            used += 1 + length;
            continue;
        }
        if used > 0 {
            lines.push(std::mem::take(&mut line));
            used = 0;
        }
        for letter in word.chars() {
            if used == room {
                lines.push(std::mem::take(&mut line));
                used = 0;
            }
            line.push(letter);
            used += 1;
        }
    }
    lines.push(line);
    if lines.len() > lines_max {
        lines.truncate(lines_max.max(1));
        if let Some(last) = lines.last_mut() {
            let kept: String = last.chars().take(room.saturating_sub(2)).collect();
            *last = format!("{} …", kept.trim_end());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn text_is_broken_between_words() {
        let check = |text: &str, room, lines: &[&str]| assert_eq!(wrap(text, room, 9), lines);
        check("one two three", 7, &["one two", "three"]);
        check("one two three", 100, &["one two three"]);
        check("a abcdefgh b", 3, &["a", "abc", "def", "gh", "b"]);
        check("abcdef g", 3, &["abc", "def", "g"]);
        check("", 3, &[""]);
        assert_eq!(wrap("one two three four", 7, 2), ["one two", "three …"]);
    }

    proptest! {
        /// Nothing is lost, nothing is wider than the room.
        #[test]
        fn fuzz_wrapped_text_is_whole(text in "([a-z]{0,12} {0,2}){0,12}", room in 1_usize..20) {
            let lines = wrap(&text, room, usize::MAX);
            let squeezed = |text: &str| text.replace(' ', "");
            prop_assert_eq!(squeezed(&lines.concat()), squeezed(&text));
            for line in lines {
                prop_assert!(line.chars().count() <= room, "{:?}", line);
            }
        }
    }
}

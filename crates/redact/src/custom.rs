//! Patterns of the operator.

use std::borrow::Cow;

use regex::Regex;

use super::finds::{self, Finds};

/// Replaces what a pattern finds outside of marks.
pub(super) fn redact<'a>(pattern: &Regex, text: Cow<'a, str>) -> Cow<'a, str> {
    let found = find(pattern, &text);
    match found.rewrite(&text) {
        Some(clean) => Cow::Owned(clean),
        None => text,
    }
}

fn find(pattern: &Regex, text: &str) -> Finds {
    let mut found = Finds::default();
    let mut marks = finds::marks(text).peekable();
    let mut from = 0;
    while let Some(captures) = pattern.captures_at(text, from) {
        let whole = captures.get(0).map_or(from..from, |whole| whole.range());
        let range = captures.get(1).map_or(whole.clone(), |group| group.range());
        while marks.next_if(|mark| mark.end <= range.start).is_some() {}
        match marks.peek() {
            // An earlier mark stays; the search goes on after it.
            Some(mark) if mark.start < range.end => {
                found.add(range.start..mark.start.max(range.start), "custom");
                from = mark.end;
            }
            _ => {
                found.add(range, "custom");
                from = whole.end.max(from);
                if whole.is_empty() {
                    from += text[from..].chars().next().map_or(1, char::len_utf8);
                }
            }
        }
        if from > text.len() {
            break;
        }
    }
    found
}

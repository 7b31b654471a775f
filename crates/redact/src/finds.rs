//! The ranges of a line that hold secrets, and the line with marks in their place.

use std::ops::Range;

/// The beginning of every mark.
pub(super) const MARK: &str = "[redacted ";

/// The length of the kind in a mark.
const KIND_MAX: usize = 24;

/// The secrets of one line. Rules add them in any order, and they may overlap.
#[derive(Debug, Default)]
pub(super) struct Finds(Vec<Find>);

#[derive(Debug, Clone)]
pub(super) struct Find {
    pub(super) range: Range<usize>,
    pub(super) kind: &'static str,
}

// === impl Finds ===

impl Finds {
    pub(super) fn add(&mut self, range: Range<usize>, kind: &'static str) {
        if !range.is_empty() {
            self.0.push(Find { range, kind });
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Find> {
        self.0.iter()
    }

    /// The text with a mark for each secret; `None` if that changes nothing.
    pub(super) fn rewrite(mut self, text: &str) -> Option<String> {
        if self.0.is_empty() {
            return None;
        }
        // Of two at the same place the longer one names the kind.
        self.0
            .sort_by_key(|find| (find.range.start, std::cmp::Reverse(find.range.end)));
        let mut marks = marks(text).peekable();
        let mut merged: Vec<Find> = Vec::with_capacity(self.0.len());
        for find in self.0 {
            let Range { mut start, mut end } = find.range;
            // A mark is never cut in two: neither end of a range lies in one.
            while marks.next_if(|mark| mark.end <= start).is_some() {}
            if let Some(mark) = marks.peek()
                && mark.start < start
            {
                start = mark.end;
            }
            let mut ahead = marks.clone();
            while let Some(mark) = ahead.next_if(|mark| mark.start < end) {
                if mark.end >= end {
                    // What ends with a mark ends before or after it.
                    end = if mark.start <= start || mark.end > end {
                        mark.end
                    } else {
                        end
                    };
                }
            }
            if start >= end || is_mark(&text[start..end]) {
                continue;
            }
            match merged.last_mut() {
                Some(last) if last.range.end > start => last.range.end = last.range.end.max(end),
                _ => merged.push(Find {
                    range: start..end,
                    kind: find.kind,
                }),
            }
        }
        if merged.is_empty() {
            return None;
        }
        let mut output = String::with_capacity(text.len());
        let mut written = 0;
        for find in merged {
            output.push_str(&text[written..find.range.start]);
            output.push_str(MARK);
            output.push_str(find.kind);
            output.push(']');
            written = find.range.end;
        }
        output.push_str(&text[written..]);
        Some(output)
    }
}

/// Whether a text is a mark and nothing else.
pub(super) fn is_mark(text: &str) -> bool {
    mark_length(text) == Some(text.len())
}

/// The length of the mark that a text begins with.
pub(super) fn mark_length(text: &str) -> Option<usize> {
    let kind = text.strip_prefix(MARK)?;
    let kind = kind.get(..kind.len().min(KIND_MAX + 1)).unwrap_or(kind);
    let length = kind.find(|one: char| !(one.is_ascii_lowercase() || one == ' '))?;
    kind[length..]
        .starts_with(']')
        .then_some(MARK.len() + length + 1)
}

/// The ranges of the marks in a text.
pub(super) fn marks(text: &str) -> impl Iterator<Item = Range<usize>> + Clone {
    text.match_indices(MARK)
        .filter_map(move |(at, _)| Some(at..at + mark_length(&text[at..])?))
}

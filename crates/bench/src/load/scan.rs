//! Finds events in the bytes of a stream with substring searches, without parsing them.

use memchr::memmem;

/// Splits bytes into events, however reads divide them.
#[derive(Default)]
pub(crate) struct Scanner {
    /// The beginning of an incomplete event.
    begun: Vec<u8>,
}

// === impl Scanner ===

impl Scanner {
    /// Calls `event` for each event that is now complete.
    pub(crate) fn feed(&mut self, mut data: &[u8], mut event: impl FnMut(&[u8])) {
        if !self.begun.is_empty() {
            // The separator itself may be divided between two reads.
            let end = match (self.begun.last(), data.first()) {
                (Some(b'\n'), Some(b'\n')) => Some(1),
                _ => memmem::find(data, b"\n\n").map(|at| at + 2),
            };
            let Some(end) = end else {
                self.begun.extend_from_slice(data);
                return;
            };
            self.begun.extend_from_slice(&data[..end]);
            event(&self.begun);
            self.begun.clear();
            data = &data[end..];
        }
        while let Some(at) = memmem::find(data, b"\n\n") {
            event(&data[..at]);
            data = &data[at + 2..];
        }
        self.begun.extend_from_slice(data);
    }
}

/// Parses the number directly after the first occurrence of a text.
pub(crate) fn number_after(event: &[u8], text: &[u8]) -> Option<u64> {
    let at = memmem::find(event, text)? + text.len();
    let digits = event[at..].iter().take_while(|byte| byte.is_ascii_digit());
    Some(digits.fold(0, |number, digit| number * 10 + u64::from(digit - b'0')))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_are_found_behind_their_names() {
        assert_eq!(number_after(br#"{"number":42,"x":7}"#, b"\"x\":"), Some(7));
        assert_eq!(number_after(b"nothing", b"\"x\":"), None);
    }

    proptest! {
        #[test]
        fn events_are_whole_however_their_bytes_come(
            events in prop::collection::vec("[a-z]{1,9}(\n[a-z]{1,9})?", 0..9),
            cuts in prop::collection::vec(1..7_usize, 1..200),
        ) {
            let text: String = events.iter().map(|event| format!("{event}\n\n")).collect();
            let mut scanner = Scanner::default();
            let mut found = Vec::new();
            let mut rest = text.as_bytes();
            for cut in cuts.iter().cycle() {
                let (now, later) = rest.split_at(rest.len().min(*cut));
                scanner.feed(now, |event| {
                    found.push(String::from_utf8_lossy(event).trim_end().to_owned());
                });
                rest = later;
                if rest.is_empty() {
                    break;
                }
            }
            prop_assert_eq!(found, events);
        }
    }
}

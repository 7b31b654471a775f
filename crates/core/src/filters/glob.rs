//! Patterns for namespaces: `*` is any text, `?` any one character.

use std::fmt;

/// One pattern.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Glob(String);

// === impl Glob ===

impl Glob {
    /// Every text is a pattern; one without `*` and `?` matches itself.
    pub fn new(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// Whether the text has anything that a name has not.
    pub fn is_pattern(text: &str) -> bool {
        text.contains(['*', '?'])
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether all of the text matches. Linear but for the pattern's length: after a
    /// mismatch only the latest `*` takes one more character.
    pub fn matches(&self, text: &str) -> bool {
        let (pattern, text) = (self.0.as_bytes(), text.as_bytes());
        let (mut p, mut t) = (0, 0);
        let mut star = None;
        while t < text.len() {
            match pattern.get(p) {
                Some(b'*') => {
                    star = Some((p, t));
                    p += 1;
                }
                // The pattern is whole characters up to here, so the text is, too.
                Some(b'?') => {
                    p += 1;
                    t += character_bytes(text[t]);
                }
                Some(&c) if c == text[t] => {
                    p += 1;
                    t += 1;
                }
                _ => match star {
                    Some((at, from)) => {
                        let next = from + character_bytes(text[from]);
                        star = Some((at, next));
                        p = at + 1;
                        t = next;
                    }
                    None => return false,
                },
            }
        }
        pattern[p..].iter().all(|c| *c == b'*')
    }
}

/// The length in UTF-8 of the character that begins with this byte.
fn character_bytes(first: u8) -> usize {
    match first {
        0xf0.. => 4,
        0xe0.. => 3,
        0xc0.. => 2,
        _ => 1,
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use regex::Regex;

    use super::*;

    proptest! {
        #[test]
        fn a_glob_matches_as_the_regex_it_stands_for(
            pattern in "[abäü日😀*?-]{0,8}", text in "[abäü日😀-]{0,10}",
        ) {
            let regex = regex::escape(&pattern).replace("\\*", ".*").replace("\\?", ".");
            let oracle = Regex::new(&format!("^{regex}$")).unwrap();
            prop_assert_eq!(Glob::new(&pattern).matches(&text), oracle.is_match(&text));
        }
    }
}

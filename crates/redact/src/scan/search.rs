//! The search for many words at once, without regard to case. Almost no text has one of
//! them, so a small table of their first four bytes decides for most places that none
//! begins there, without a look at anything else.

/// The number of different values for three bytes.
const SIZE: usize = 1 << 13;

/// Words that are found wherever they begin, and also within each other.
#[derive(Debug)]
pub(super) struct Search {
    /// For the value of the first three bytes of a word, one bit for each fourth byte.
    begins: Box<[u32; SIZE]>,
    /// Where the words with this value begin in the list of words.
    first: Box<[u16; SIZE]>,
    words: Vec<Word>,
    /// The word of one character, and its number.
    single: Option<(u8, usize)>,
}

#[derive(Debug)]
struct Word {
    text: &'static [u8],
    nth: usize,
    /// The last one with its value.
    last: bool,
}

/// A word that was found: its number, where it begins and where it ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hit {
    pub(super) nth: usize,
    pub(super) start: usize,
    pub(super) end: usize,
}

/// The value of three bytes, the same for both cases of a letter.
fn value(one: u8, two: u8, three: u8) -> usize {
    let fold = |byte: u8| usize::from(byte | 0x20);
    (fold(one) << 8 ^ fold(two) << 4 ^ fold(three)) % SIZE
}

/// The bit of a fourth byte, the same for both cases of a letter.
fn bit(four: u8) -> u32 {
    1 << (four & 0x1f)
}

// === impl Search ===

impl Search {
    /// A search for these words; at most one of them may have one character. `follows` says
    /// what may follow a word of two.
    #[expect(
        clippy::large_stack_arrays,
        reason = "made once, and their size tells that no index is out of bounds"
    )]
    pub(super) fn new(
        words: impl Iterator<Item = &'static str>,
        follows: impl Fn(&str, u8) -> bool,
    ) -> Self {
        let mut single = None;
        let mut by_value: Vec<(usize, usize, &'static [u8])> = Vec::new();
        for (nth, word) in words.enumerate() {
            match word.as_bytes() {
                [] => {}
                [one] => single = Some((*one, nth)),
                [one, two] => {
                    let after = (0..=u8::MAX).filter(|byte| follows(word, *byte));
                    let mut values: Vec<usize> = after.map(|any| value(*one, *two, any)).collect();
                    values.sort_unstable();
                    values.dedup();
                    let text = word.as_bytes();
                    by_value.extend(values.into_iter().map(|value| (value, nth, text)));
                }
                text @ [one, two, three, ..] => {
                    by_value.push((value(*one, *two, *three), nth, text));
                }
            }
        }
        by_value.sort_unstable();
        let mut search = Self {
            begins: Box::new([0; SIZE]),
            first: Box::new([0; SIZE]),
            words: Vec::with_capacity(by_value.len()),
            single,
        };
        for (at, (value, nth, text)) in by_value.iter().enumerate() {
            if at == 0 || by_value[at - 1].0 != *value {
                search.first[*value] = u16::try_from(at).unwrap_or(u16::MAX);
            }
            search.begins[*value] |= text.get(3).map_or(u32::MAX, |four| bit(*four));
            let last = by_value.get(at + 1).is_none_or(|next| next.0 != *value);
            let nth = *nth;
            search.words.push(Word { text, nth, last });
        }
        search
    }

    /// Calls `found` for every word in a text, in the order in which they begin.
    pub(super) fn each(&self, text: &str, mut found: impl FnMut(Hit)) {
        let bytes = text.as_bytes();
        let next_single = |from: usize| {
            let (one, _) = self.single?;
            memchr::memchr(one, &bytes[from..]).map(|at| from + at)
        };
        let mut single = next_single(0);
        let mut at = 0;
        loop {
            let begins = self.next(bytes, at);
            let until = begins.map_or(bytes.len(), |(start, _)| start);
            while let Some(start) = single.filter(|start| *start <= until) {
                let nth = self.single.map_or(0, |(_, nth)| nth);
                let end = start + 1;
                found(Hit { nth, start, end });
                single = next_single(end);
            }
            let Some((start, value)) = begins else {
                return;
            };
            for word in &self.words[usize::from(self.first[value])..] {
                let end = start + word.text.len();
                let here = bytes.get(start..end);
                if here.is_some_and(|here| here.eq_ignore_ascii_case(word.text)) {
                    let nth = word.nth;
                    found(Hit { nth, start, end });
                }
                if word.last {
                    break;
                }
            }
            at = start + 1;
        }
    }

    /// The next place from `at` on where a word may begin, and the value there.
    fn next(&self, bytes: &[u8], at: usize) -> Option<(usize, usize)> {
        let rest = bytes.get(at..)?;
        for (place, four) in rest.windows(4).enumerate() {
            let value = value(four[0], four[1], four[2]);
            if self.begins[value] & bit(four[3]) != 0 {
                return Some((at + place, value));
            }
        }
        // A word of two or three may end the text.
        let last = bytes.len().saturating_sub(3).max(at);
        for start in last..bytes.len().saturating_sub(1) {
            let third = bytes.get(start + 2).copied().unwrap_or(b' ');
            let value = value(bytes[start], bytes[start + 1], third);
            if self.begins[value] == u32::MAX {
                return Some((start, value));
            }
        }
        None
    }
}

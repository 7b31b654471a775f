//! Pseudo-random names and ids, the same for the same seed.

/// A SplitMix64 generator. Not for secrets.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

/// The letters of generated names: without vowels, as in Kubernetes, to avoid words.
const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

// === impl Random ===

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number in `0..end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    /// The suffix of a generated name: `x7k2p`.
    pub(crate) fn suffix(&mut self, letters: usize) -> String {
        let mut word = String::with_capacity(letters);
        for _ in 0..letters {
            let index = usize::try_from(self.below(27)).unwrap_or(0);
            word.push(char::from(LETTERS[index]));
        }
        word
    }

    pub(crate) fn uid(&mut self) -> String {
        let (high, low) = (self.next(), self.next());
        format!(
            "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
            high >> 32,
            (high >> 16) & 0xffff,
            high & 0xfff,
            0x8000 | ((low >> 48) & 0x3fff),
            low & 0xffff_ffff_ffff,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_values() {
        let draw = |seed| {
            let mut random = Random::new(seed);
            (random.uid(), random.suffix(5))
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        let (uid, suffix) = draw(3);
        assert_eq!((uid.len(), suffix.len()), (36, 5));
    }
}

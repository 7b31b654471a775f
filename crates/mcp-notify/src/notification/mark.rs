//! Where a notification is in the feed that it comes from.

use std::sync::Arc;

use smallvec::SmallVec;

use super::{Inner, Notification};

/// A position in a feed, attached to a notification: a transport whose streams can be resumed
/// elsewhere puts it into the id of the event that it writes. The library only carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The feed, as the server numbers the feeds of a session.
    pub feed: u32,
    /// The position in the feed; what the numbers mean is the server's matter.
    pub position: [u64; 4],
}

/// A mark as a notification keeps it: numbers without their leading zeros, which take no
/// allocation as a rule. There is one for each message to each session, and many are kept: the
/// size is what is left of the 224 bytes that an allocator gives for one.
#[derive(Default)]
pub(super) struct PackedMark(SmallVec<[u8; 23]>);

// === impl PackedMark ===

impl PackedMark {
    fn new(mark: &Mark) -> Self {
        let mut packed = SmallVec::new();
        packed.extend_from_slice(&mark.feed.to_le_bytes());
        for number in mark.position {
            let bytes = number.to_le_bytes();
            let used = bytes.len() - (number.leading_zeros() / u8::BITS) as usize;
            packed.push(u8::try_from(used).unwrap_or_default());
            packed.extend_from_slice(&bytes[..used]);
        }
        Self(packed)
    }

    fn get(&self) -> Option<Mark> {
        let (feed, mut rest) = self.0.split_first_chunk()?;
        let mut position = [0; 4];
        for number in &mut position {
            let (used, numbers) = rest.split_first()?;
            let (low, others) = numbers.split_at_checked(usize::from(*used))?;
            let mut bytes = [0; 8];
            bytes.get_mut(..low.len())?.copy_from_slice(low);
            *number = u64::from_le_bytes(bytes);
            rest = others;
        }
        let feed = u32::from_le_bytes(*feed);
        Some(Mark { feed, position })
    }
}

// === impl Notification ===

impl Notification {
    /// The same notification with a mark. To be called before it is cloned: one that is shared
    /// already stays as it is.
    #[must_use]
    pub fn marked(mut self, mark: Mark) -> Self {
        match Arc::get_mut(&mut self.0) {
            Some(Inner::Built(built)) => built.mark = PackedMark::new(&mark),
            Some(Inner::Templated(templated)) => templated.mark = PackedMark::new(&mark),
            Some(Inner::Gated(..)) | None => {}
        }
        self
    }

    /// The mark, if it has one.
    pub fn mark(&self) -> Option<Mark> {
        match &*self.0 {
            Inner::Built(built) => built.mark.get(),
            Inner::Templated(templated) => templated.mark.get(),
            Inner::Gated(inner, _) => inner.mark(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_mark_is_read_as_it_was_packed(feed: u32, position: [u64; 4], bits in 0..64_u32) {
            let position = position.map(|number| number >> bits);
            let mark = Mark { feed, position };
            prop_assert_eq!(PackedMark::new(&mark).get(), Some(mark));
        }
    }

    #[test]
    fn the_mark_of_a_usual_event_takes_no_allocation() {
        let position = [100_000, 4_000_000_000, 1_800_000_000_000, 0];
        let packed = PackedMark::new(&Mark { feed: 7, position });
        assert!(!packed.0.spilled());
        assert_eq!(PackedMark::default().get(), None);
    }

    #[test]
    fn a_notification_is_no_larger_for_its_mark() {
        let counts = 2 * size_of::<usize>();
        assert!(size_of::<Inner>() + counts <= 224, "{}", size_of::<Inner>());
    }
}

//! Records as one value of the store: compressed together, with a checksum, so that what was
//! damaged on the disk is found and never misread.

use crate::{
    record::{Reader, Record, RecordRef},
    summary::{Summary, SummaryBuilder},
};

/// The store keeps large values in pages of powers of two. A block that is sealed right under
/// 64 KiB wastes little of its page.
const SEALED_BYTES: usize = 56 * 1024;

/// What a block has before it is compressed, at most, unless a single record is larger.
const RAW_BYTES_MAX: usize = 1 << 20;

/// Records in a block.
const RECORDS_MAX: u32 = 4096;

/// The page size of the store.
const PAGE_BYTES: u64 = 4096;

/// Checksum and length in front of what is compressed.
const HEAD_BYTES: usize = 12;

/// The newest block of a log, which grows with each append.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpenBlock {
    /// Position of its first record.
    pub(crate) first: u64,
    raw: Vec<u8>,
    summary: SummaryBuilder,
    /// Size of its value when it was last written.
    written_bytes: usize,
    /// When the last record was appended.
    pub(crate) appended: i64,
}

/// The records of a block.
pub(crate) struct Records {
    raw: Vec<u8>,
}

// === impl OpenBlock ===

impl OpenBlock {
    /// An empty block whose first record gets that position.
    pub(crate) fn new(first: u64, appended: i64) -> Self {
        Self {
            first,
            appended,
            ..Self::default()
        }
    }

    /// A block that was written before.
    pub(crate) fn reopen(first: u64, value: &[u8], appended: i64) -> Option<Self> {
        let records = Records::decode(value)?;
        let mut summary = SummaryBuilder::default();
        let mut reader = Reader::new(&records.raw);
        while !reader.is_empty() {
            summary.add_ref(&RecordRef::read(&mut reader)?);
        }
        Some(Self {
            first,
            summary,
            written_bytes: value.len(),
            appended,
            raw: records.raw,
        })
    }

    /// The position that the next record gets.
    pub(crate) fn next(&self) -> u64 {
        self.first + u64::from(self.summary.count())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.summary.count() == 0
    }

    /// Whether the next record belongs into a new block.
    pub(crate) fn is_full(&self) -> bool {
        self.written_bytes >= SEALED_BYTES
            || self.raw.len() >= RAW_BYTES_MAX
            || self.summary.count() >= RECORDS_MAX
    }

    pub(crate) fn push(&mut self, record: &Record) {
        record.encode(&mut self.raw);
        self.summary.add(record);
    }

    /// The value and its summary.
    pub(crate) fn encode(&mut self) -> (Vec<u8>, Summary) {
        let mut value =
            vec![0; HEAD_BYTES + lz4_flex::block::get_maximum_output_size(self.raw.len())];
        // The buffer has the size that it can need.
        let len =
            lz4_flex::block::compress_into(&self.raw, &mut value[HEAD_BYTES..]).unwrap_or_default();
        value.truncate(HEAD_BYTES + len);
        let raw_len = u32::try_from(self.raw.len()).unwrap_or(u32::MAX);
        value[8..HEAD_BYTES].copy_from_slice(&raw_len.to_le_bytes());
        let sum = checksum(&value[8..]);
        value[..8].copy_from_slice(&sum.to_le_bytes());
        self.written_bytes = value.len();
        let summary = self.summary.build(page_bytes(value.len()), self.appended);
        (value, summary)
    }
}

/// The bytes that a value takes in the store.
pub(crate) fn page_bytes(len: usize) -> u64 {
    (len as u64 + 128).next_power_of_two().max(PAGE_BYTES)
}

// === impl Records ===

impl Records {
    /// The records of a value; `None` if it is damaged.
    pub(crate) fn decode(value: &[u8]) -> Option<Self> {
        let mut head = Reader::new(value);
        let (sum, raw_len) = (head.u64()?, head.u32()?);
        if checksum(&value[8..]) != sum {
            return None;
        }
        let raw_len = usize::try_from(raw_len).ok()?;
        let raw = lz4_flex::block::decompress(&value[HEAD_BYTES..], raw_len).ok()?;
        Some(Self { raw })
    }

    /// Each record, the oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = RecordRef<'_>> {
        let mut reader = Reader::new(&self.raw);
        std::iter::from_fn(move || RecordRef::read(&mut reader))
    }
}

/// A checksum over words of eight bytes: fast, because each search pays for it.
fn checksum(bytes: &[u8]) -> u64 {
    let mix = |sum: u64, word: u64| {
        (sum ^ word)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(29)
    };
    let words = bytes.chunks_exact(8);
    let rest = words.remainder();
    let sum = words.fold(bytes.len() as u64, |sum, word| {
        mix(sum, u64::from_le_bytes(word.try_into().unwrap_or_default()))
    });
    let sum = rest
        .iter()
        .fold(sum, |sum, byte| mix(sum, u64::from(*byte)));
    mix(sum, sum >> 32)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;

    fn record(number: u64, size: usize) -> Record {
        Record {
            time: i64::try_from(number).unwrap(),
            version: number,
            id: format!("uid-{number}:1"),
            namespace: "shop".to_owned(),
            reason: "BackOff".to_owned(),
            object_name: format!("web-{number}"),
            value: Bytes::from(vec![b'x'; size]),
            ..Record::default()
        }
    }

    proptest! {
        #[test]
        fn a_block_is_read_as_it_was_written(sizes in prop::collection::vec(0..3000_usize, 1..40)) {
            let mut block = OpenBlock::new(7, 1);
            let records: Vec<_> = (0_u64..).zip(&sizes).map(|(n, size)| record(n, *size)).collect();
            for record in &records {
                block.push(record);
            }
            let (value, summary) = block.encode();
            prop_assert_eq!(summary.count as usize, records.len());
            let read = Records::decode(&value).unwrap();
            let read: Vec<_> = read.iter().map(RecordRef::to_record).collect();
            prop_assert_eq!(&read, &records);
            let again = OpenBlock::reopen(7, &value, 1).unwrap();
            prop_assert_eq!(again.next(), block.next());
        }

        #[test]
        fn fuzz_a_damaged_block_is_never_misread(at in 0..10_000_usize, bit in 0..8_u8, cut in 0..10_000_usize) {
            let mut block = OpenBlock::new(0, 1);
            (0..20).for_each(|number| block.push(&record(number, 50)));
            let (value, _) = block.encode();
            let mut flipped = value.clone();
            let at = at % flipped.len();
            flipped[at] ^= 1 << bit;
            prop_assert!(Records::decode(&flipped).is_none());
            prop_assert!(Records::decode(&value[..cut % value.len()]).is_none());
        }
    }
}

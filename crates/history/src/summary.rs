//! What is known about a block without opening it.

use std::{collections::BTreeSet, ops::Bound};

use crate::record::{Reader, Record, RecordRef, put};

/// Bits for each term, and how many of them are set: about one block in a hundred is opened
/// in vain.
const BITS_PER_TERM: usize = 10;
const HASHES: u64 = 6;

/// Reasons that are kept by name; a block with more may have any.
const REASONS_MAX: usize = 64;

/// Flags of a summary.
const HAS_UNVERSIONED: u8 = 1;
const HAS_VERSION_MIN: u8 = 2;

/// The summary of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Summary {
    /// Records in the block.
    pub(crate) count: u32,
    /// Bytes that the block takes in the store.
    pub(crate) bytes: u64,
    /// When the last record was appended, in milliseconds since 1970.
    pub(crate) appended: i64,
    pub(crate) time_min: i64,
    pub(crate) time_max: i64,
    pub(crate) version_max: u64,
    /// The lowest version of a record that has one; 0 if none has.
    pub(crate) version_min: u64,
    /// Whether any record has no version.
    pub(crate) has_unversioned: bool,
    /// `None` if there are too many.
    pub(crate) reasons: Option<BTreeSet<String>>,
    pub(crate) terms: Terms,
}

/// Something that records are found by.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Term<'a> {
    Namespace(&'a str),
    Object(&'a str),
    Kind(&'a str),
}

/// A set of terms that may have more than was put into it, and never less.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Terms(Vec<u8>);

/// Collects the summary of a block.
#[derive(Clone, Debug, Default)]
pub(crate) struct SummaryBuilder {
    count: u32,
    time_min: Option<i64>,
    time_max: Option<i64>,
    version_max: u64,
    version_min: Option<u64>,
    has_unversioned: bool,
    reasons: Option<BTreeSet<String>>,
    hashes: BTreeSet<u64>,
    is_begun: bool,
}

// === impl Summary ===

impl Summary {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut into = Vec::with_capacity(128 + self.terms.0.len());
        into.extend_from_slice(&self.count.to_le_bytes());
        into.extend_from_slice(&self.bytes.to_le_bytes());
        for time in [self.appended, self.time_min, self.time_max] {
            into.extend_from_slice(&time.to_le_bytes());
        }
        into.extend_from_slice(&self.version_max.to_le_bytes());
        into.push(if self.has_unversioned {
            HAS_UNVERSIONED | HAS_VERSION_MIN
        } else {
            HAS_VERSION_MIN
        });
        match &self.reasons {
            None => into.extend_from_slice(&u32::MAX.to_le_bytes()),
            Some(reasons) => {
                let count = u32::try_from(reasons.len()).unwrap_or(u32::MAX);
                into.extend_from_slice(&count.to_le_bytes());
                for reason in reasons {
                    put(&mut into, reason.as_bytes());
                }
            }
        }
        put(&mut into, &self.terms.0);
        into.extend_from_slice(&self.version_min.to_le_bytes());
        into
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut from = Reader::new(bytes);
        let (count, bytes, appended) = (from.u32()?, from.u64()?, from.i64()?);
        let (time_min, time_max, version_max) = (from.i64()?, from.i64()?, from.u64()?);
        let flags = from.u8()?;
        Some(Self {
            count,
            bytes,
            appended,
            time_min,
            time_max,
            version_max,
            has_unversioned: flags & HAS_UNVERSIONED != 0,
            reasons: match from.u32()? {
                u32::MAX => None,
                count => {
                    let mut reasons = BTreeSet::new();
                    for _ in 0..count {
                        reasons.insert(from.text()?.to_owned());
                    }
                    Some(reasons)
                }
            },
            terms: Terms(from.bytes()?.to_vec()),
            version_min: match flags & HAS_VERSION_MIN {
                // A summary of before this was kept: it may be any.
                0 => 0,
                _ => from.u64()?,
            },
        })
    }

    pub(crate) fn may_have_reason(&self, prefix: &str) -> bool {
        let begins = |reasons: &BTreeSet<String>| {
            let from = (Bound::Included(prefix), Bound::Unbounded);
            let mut from = reasons.range::<str, _>(from);
            from.next().is_some_and(|reason| reason.starts_with(prefix))
        };
        self.reasons.as_ref().is_none_or(begins)
    }
}

// === impl Terms ===

impl Terms {
    fn new(hashes: &BTreeSet<u64>) -> Self {
        let bytes = (hashes.len() * BITS_PER_TERM).div_ceil(8).max(8);
        let mut bits = vec![0; bytes];
        for hash in hashes {
            for bit in places(*hash, bytes) {
                bits[bit / 8] |= 1 << (bit % 8);
            }
        }
        Self(bits)
    }

    pub(crate) fn may_have(&self, term: Term<'_>) -> bool {
        let is_set = |bit: usize| self.0[bit / 8] & (1 << (bit % 8)) != 0;
        !self.0.is_empty() && places(term.hash(), self.0.len()).all(is_set)
    }
}

/// The bits of a term.
fn places(hash: u64, bytes: usize) -> impl Iterator<Item = usize> {
    let bits = bytes as u64 * 8;
    let step = (hash >> 32) | 1;
    (0..HASHES).map(move |number| {
        let bit = hash.wrapping_add(step.wrapping_mul(number)) % bits;
        usize::try_from(bit).unwrap_or_default()
    })
}

// === impl Term ===

impl Term<'_> {
    fn hash(self) -> u64 {
        match self {
            Self::Namespace(name) => hash(b"n", name),
            Self::Object(name) => hash(b"o", name),
            Self::Kind(name) => hash(b"k", name),
        }
    }
}

/// FNV-1a with a final mix: the same in every build, because it is on the disk.
pub(crate) fn hash(kind: &[u8], text: &str) -> u64 {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in kind.iter().chain(text.as_bytes()) {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

// === impl SummaryBuilder ===

impl SummaryBuilder {
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    pub(crate) fn add(&mut self, record: &Record) {
        self.add_fields(
            (record.time, record.version),
            (&record.namespace, &record.reason),
            (&record.object_kind, &record.object_name),
        );
    }

    pub(crate) fn add_ref(&mut self, record: &RecordRef<'_>) {
        self.add_fields(
            (record.time, record.version),
            (record.namespace, record.reason),
            (record.object_kind, record.object_name),
        );
    }

    fn add_fields(
        &mut self,
        (time, version): (i64, u64),
        (namespace, reason): (&str, &str),
        (object_kind, object_name): (&str, &str),
    ) {
        if !self.is_begun {
            self.is_begun = true;
            self.reasons = Some(BTreeSet::new());
        }
        self.count += 1;
        self.time_min = Some(self.time_min.map_or(time, |before| before.min(time)));
        self.time_max = Some(self.time_max.map_or(time, |before| before.max(time)));
        self.version_max = self.version_max.max(version);
        if version == 0 {
            self.has_unversioned = true;
        } else {
            self.version_min = Some(self.version_min.map_or(version, |min| min.min(version)));
        }
        if let Some(reasons) = &mut self.reasons
            && !reasons.contains(reason)
        {
            reasons.insert(reason.to_owned());
            if reasons.len() > REASONS_MAX {
                self.reasons = None;
            }
        }
        let terms = [
            Term::Namespace(namespace),
            Term::Object(object_name),
            Term::Kind(object_kind),
        ];
        self.hashes.extend(terms.map(Term::hash));
    }

    pub(crate) fn build(&self, bytes: u64, appended: i64) -> Summary {
        Summary {
            count: self.count,
            bytes,
            appended,
            time_min: self.time_min.unwrap_or_default(),
            time_max: self.time_max.unwrap_or_default(),
            version_max: self.version_max,
            version_min: self.version_min.unwrap_or_default(),
            has_unversioned: self.has_unversioned,
            reasons: self.reasons.clone(),
            terms: Terms::new(&self.hashes),
        }
    }
}

#[cfg(test)]
mod tests;

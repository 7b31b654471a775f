//! What is kept: a value that is serialised and redacted already, and the fields that it is
//! found by.

use bytes::Bytes;

use crate::summary::hash;

/// Which of a cluster's logs a record is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stream {
    /// Events of Kubernetes, and the gaps between them.
    Events,
    /// Incidents: opened, changed, resolved.
    Incidents,
    /// The evidence of faults.
    Faults,
}

/// One record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// When it happened, in milliseconds since 1970.
    pub time: i64,
    /// The resourceVersion, or 0.
    pub version: u64,
    /// What the writer of the value has to say about it.
    pub flags: u8,
    /// Id of what happened; a record with the same id is kept once.
    pub id: String,
    /// Namespace.
    pub namespace: String,
    /// Type of an event, transition of an incident.
    pub kind: String,
    /// Reason of an event, detector of an incident.
    pub reason: String,
    /// Kind of the object that it is about.
    pub object_kind: String,
    /// Name of that object; of an incident or a fault its id, by which it is found.
    pub object_name: String,
    /// The value.
    pub value: Bytes,
}

/// A record that is read where it lies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordRef<'a> {
    pub(crate) time: i64,
    pub(crate) version: u64,
    pub(crate) flags: u8,
    pub(crate) id: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) kind: &'a str,
    pub(crate) reason: &'a str,
    pub(crate) object_kind: &'a str,
    pub(crate) object_name: &'a str,
    pub(crate) value: &'a [u8],
}

/// Reads fields one after the other.
pub(crate) struct Reader<'a>(&'a [u8]);

// === impl Stream ===

impl Stream {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Events, Self::Incidents, Self::Faults];

    /// Its name in keys.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Events => "events",
            Self::Incidents => "incidents",
            Self::Faults => "faults",
        }
    }
}

// === impl Record ===

impl Record {
    /// Appends the record to the text of a block.
    pub(crate) fn encode(&self, into: &mut Vec<u8>) {
        into.extend_from_slice(&self.time.to_le_bytes());
        into.extend_from_slice(&self.version.to_le_bytes());
        into.push(self.flags);
        for text in [
            &self.id,
            &self.namespace,
            &self.kind,
            &self.reason,
            &self.object_kind,
            &self.object_name,
        ] {
            put(into, text.as_bytes());
        }
        put(into, &self.value);
    }

    /// A hash of the id, to find doubles.
    pub(crate) fn id_hash(&self) -> u64 {
        hash(b"i", &self.id)
    }
}

/// Appends a length and the bytes.
pub(crate) fn put(into: &mut Vec<u8>, bytes: &[u8]) {
    let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    into.extend_from_slice(&len.to_le_bytes());
    into.extend_from_slice(&bytes[..len as usize]);
}

// === impl RecordRef ===

impl<'a> RecordRef<'a> {
    /// The next record; `None` if there is none, or it is not whole.
    pub(crate) fn read(from: &mut Reader<'a>) -> Option<Self> {
        Some(Self {
            time: from.i64()?,
            version: from.u64()?,
            flags: from.u8()?,
            id: from.text()?,
            namespace: from.text()?,
            kind: from.text()?,
            reason: from.text()?,
            object_kind: from.text()?,
            object_name: from.text()?,
            value: from.bytes()?,
        })
    }

    /// A hash of the id, to find doubles.
    pub(crate) fn id_hash(&self) -> u64 {
        hash(b"i", self.id)
    }

    /// The record by itself.
    pub(crate) fn to_record(self) -> Record {
        Record {
            time: self.time,
            version: self.version,
            flags: self.flags,
            id: self.id.to_owned(),
            namespace: self.namespace.to_owned(),
            kind: self.kind.to_owned(),
            reason: self.reason.to_owned(),
            object_kind: self.object_kind.to_owned(),
            object_name: self.object_name.to_owned(),
            value: Bytes::copy_from_slice(self.value),
        }
    }
}

// === impl Reader ===

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn i64(&mut self) -> Option<i64> {
        self.array().map(i64::from_le_bytes)
    }

    pub(crate) fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = self.u32()?;
        self.take(usize::try_from(len).ok()?)
    }

    pub(crate) fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.bytes()?).ok()
    }
}

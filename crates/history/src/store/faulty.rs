//! A disk in memory that loses power at any byte, or is full.

use std::{io, sync::Arc};

use parking_lot::Mutex;
use redb::StorageBackend;

/// A disk, shared by the store and the test.
#[derive(Clone, Debug, Default)]
pub(crate) struct FaultyDisk(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// What the process reads.
    current: Vec<u8>,
    /// What is there after a loss of power.
    synced: Vec<u8>,
    /// Changes since the last sync.
    unsynced: Vec<Change>,
    /// Bytes that can still be written; then every write fails.
    room: Option<usize>,
    /// Bytes until the power is lost in the middle of a write.
    power: Option<usize>,
}

#[derive(Clone, Debug)]
enum Change {
    Write(u64, Vec<u8>),
    Len(u64),
}

impl FaultyDisk {
    /// Makes writes fail after so many bytes.
    pub(crate) fn fill_after(&self, bytes: usize) {
        self.0.lock().room = Some(bytes);
    }

    /// Makes room again.
    pub(crate) fn empty(&self) {
        self.0.lock().room = None;
    }

    /// Cuts the power after so many bytes.
    pub(crate) fn cut_after(&self, bytes: usize) {
        self.0.lock().power = Some(bytes);
    }

    /// The disk after the loss of power: what was synced, and of the changes since then those
    /// that the bits of `survivors` choose, because a disk writes in any order.
    pub(crate) fn after_loss(&self, survivors: u64) -> Self {
        let state = self.0.lock();
        let mut bytes = state.synced.clone();
        for (number, change) in state.unsynced.iter().enumerate() {
            if survivors >> (number % 64) & 1 == 1 {
                apply(&mut bytes, change);
            }
        }
        Self::with(bytes)
    }

    /// The disk after the end of the process, which loses nothing that was written.
    pub(crate) fn after_kill(&self) -> Self {
        Self::with(self.0.lock().current.clone())
    }

    fn with(bytes: Vec<u8>) -> Self {
        let state = State {
            synced: bytes.clone(),
            current: bytes,
            ..State::default()
        };
        Self(Arc::new(Mutex::new(state)))
    }
}

fn apply(bytes: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Len(len) => bytes.resize(usize::try_from(*len).unwrap(), 0),
        Change::Write(offset, data) => {
            let offset = usize::try_from(*offset).unwrap();
            let end = offset + data.len();
            if bytes.len() < end {
                bytes.resize(end, 0);
            }
            bytes[offset..end].copy_from_slice(data);
        }
    }
}

impl State {
    fn change(&mut self, change: Change) {
        apply(&mut self.current, &change);
        self.unsynced.push(change);
    }
}

impl StorageBackend for FaultyDisk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.lock().current.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let state = self.0.lock();
        let offset = usize::try_from(offset).unwrap();
        let bytes = state.current.get(offset..offset + out.len());
        out.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.0.lock();
        if state.power == Some(0) {
            return Err(io::Error::other("no power"));
        }
        state.change(Change::Len(len));
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.0.lock();
        if state.power == Some(0) {
            return Err(io::Error::other("no power"));
        }
        state.synced = state.current.clone();
        state.unsynced.clear();
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut state = self.0.lock();
        if let Some(room) = state.room {
            if room < data.len() {
                state.room = Some(0);
                return Err(io::ErrorKind::StorageFull.into());
            }
            state.room = Some(room - data.len());
        }
        if let Some(power) = state.power {
            if power < data.len() {
                state.power = Some(0);
                state.change(Change::Write(offset, data[..power].to_vec()));
                return Err(io::Error::other("no power"));
            }
            state.power = Some(power - data.len());
        }
        state.change(Change::Write(offset, data.to_vec()));
        Ok(())
    }
}

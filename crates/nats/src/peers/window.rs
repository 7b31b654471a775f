//! How much may be on the way: who sends waits for who takes.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

use super::frame::{CHUNK_BYTES_MAX, Frame, Piece};

/// What may be sent without hearing that it was taken, in bytes.
const WINDOW: u64 = 1024 * 1024;

/// What a piece costs besides its bytes: many small ones fill the queues of NATS, too.
const PIECE_COST: u64 = 64;

/// The side that sends.
#[derive(Debug, Default)]
pub(super) struct Sending {
    waiting: VecDeque<(Bytes, bool)>,
    next: u64,
    sent: u64,
    taken: u64,
}

/// The side that takes.
#[derive(Debug, Default)]
pub(super) struct Taking {
    next: u64,
    taken: u64,
    told: u64,
    begun: BytesMut,
}

/// Something that was sent has not arrived.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Hole;

// === impl Sending ===

impl Sending {
    /// Takes what is to be sent, as pieces.
    pub(super) fn push(&mut self, mut bytes: Bytes) {
        while bytes.len() > CHUNK_BYTES_MAX {
            self.waiting
                .push_back((bytes.split_to(CHUNK_BYTES_MAX), false));
        }
        self.waiting.push_back((bytes, true));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The next piece, if it may be sent.
    pub(super) fn pop(&mut self) -> Option<Frame> {
        if self.sent.saturating_sub(self.taken) >= WINDOW {
            return None;
        }
        let (bytes, is_last) = self.waiting.pop_front()?;
        let number = self.next;
        self.next += 1;
        self.sent += cost(&bytes);
        Some(Frame::Piece(Piece {
            number,
            is_last,
            bytes,
        }))
    }

    /// Number of the next piece.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// What the other side says it has taken.
    pub(super) fn on_taken(&mut self, taken: u64) {
        self.taken = self.taken.max(taken);
    }
}

// === impl Taking ===

impl Taking {
    /// Takes a piece; gives the request or the part that ends with it.
    pub(super) fn take(&mut self, piece: Piece) -> Result<Option<Bytes>, Hole> {
        self.expect(piece.number)?;
        self.next += 1;
        self.taken += cost(&piece.bytes);
        if piece.is_last && self.begun.is_empty() {
            return Ok(Some(piece.bytes));
        }
        self.begun.extend_from_slice(&piece.bytes);
        Ok(piece.is_last.then(|| self.begun.split().freeze()))
    }

    /// Checks that everything before this number has arrived.
    pub(super) fn expect(&self, next: u64) -> Result<(), Hole> {
        if next == self.next { Ok(()) } else { Err(Hole) }
    }

    /// How many bytes of a request or a part have come so far.
    pub(super) fn begun(&self) -> usize {
        self.begun.len()
    }

    /// What the other side should hear now, to go on.
    pub(super) fn due(&mut self) -> Option<u64> {
        let is_due = self.taken - self.told >= WINDOW / 4;
        is_due.then(|| self.tell())
    }

    /// What the other side hears.
    pub(super) fn tell(&mut self) -> u64 {
        self.told = self.taken;
        self.taken
    }
}

fn cost(bytes: &Bytes) -> u64 {
    bytes.len() as u64 + PIECE_COST
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(frame: Option<Frame>) -> Piece {
        match frame {
            Some(Frame::Piece(piece)) => piece,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_large_is_cut_and_put_together_again() {
        for length in [0, 1, CHUNK_BYTES_MAX, CHUNK_BYTES_MAX + 1, 10 * 1024 * 1024] {
            let whole: Bytes = (0..=250_u8).cycle().take(length).collect();
            let (mut sending, mut taking) = (Sending::default(), Taking::default());
            sending.push(whole.clone());
            let mut found = None;
            while found.is_none() {
                let piece = piece(sending.pop());
                assert!(piece.bytes.len() <= CHUNK_BYTES_MAX);
                found = taking.take(piece).unwrap();
                if let Some(taken) = taking.due() {
                    sending.on_taken(taken);
                }
            }
            assert_eq!(found.unwrap(), whole);
            assert!(sending.is_empty());
        }
    }

    #[test]
    fn no_more_is_sent_than_the_window_until_it_is_taken() {
        let mut sending = Sending::default();
        for _ in 0..100_000 {
            sending.push(Bytes::from_static(b"event"));
        }
        let mut sent = 0;
        while sending.pop().is_some() {
            sent += 1;
        }
        assert!((10_000..20_000).contains(&sent), "{sent}");
        sending.on_taken(WINDOW / 2);
        assert!(sending.pop().is_some());
        // An older word changes nothing.
        sending.on_taken(0);
        assert!(sending.pop().is_some());
    }

    #[test]
    fn a_piece_that_is_missing_is_noticed() {
        let (mut sending, mut taking) = (Sending::default(), Taking::default());
        for _ in 0..3 {
            sending.push(Bytes::from_static(b"event"));
        }
        assert!(taking.take(piece(sending.pop())).is_ok());
        assert_eq!(taking.expect(sending.next()), Ok(()));
        sending.pop();
        assert_eq!(taking.expect(sending.next()), Err(Hole));
        assert_eq!(taking.take(piece(sending.pop())), Err(Hole));
    }
}

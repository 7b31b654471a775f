//! Turns: of several requests that would make the same thing, one makes it, and the others wait.

use std::collections::HashMap;

use parking_lot::Mutex;
use tokio_util::sync::{CancellationToken, DropGuard};

/// What is being made, by name.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    // A lock for one operation on the map.
    under_way: Mutex<HashMap<String, CancellationToken>>,
}

/// Held by the request that makes something.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    turns: &'a Turns,
    name: &'a str,
    _others_go_on: DropGuard,
}

// === impl Turns ===

impl Turns {
    /// The turn to make something, or what another request ends when it has made it.
    pub(crate) fn begin<'a>(&'a self, name: &'a str) -> Result<Turn<'a>, CancellationToken> {
        let mut under_way = self.under_way.lock();
        if let Some(other) = under_way.get(name) {
            return Err(other.clone());
        }
        let token = CancellationToken::new();
        under_way.insert(name.to_owned(), token.clone());
        Ok(Turn {
            turns: self,
            name,
            _others_go_on: token.drop_guard(),
        })
    }

    /// Waits for the turn. Cancel-safe.
    pub(crate) async fn take<'a>(&'a self, name: &'a str) -> Turn<'a> {
        loop {
            match self.begin(name) {
                Ok(turn) => return turn,
                Err(other) => other.cancelled().await,
            }
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.turns.under_way.lock().remove(self.name);
    }
}

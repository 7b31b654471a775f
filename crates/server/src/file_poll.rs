//! Files that are read again when they change: tokens, certificates.
//!
//! The content is compared, never the time, and a change counts when two polls in a row
//! have seen it. So a file that is being written or replaced is never taken half, and a
//! file that is gone for a moment is not gone. Polls work on every file system, and for the
//! links that Kubernetes swaps in a mounted Secret.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use sha2::{Digest, Sha256};
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

/// Time between two polls; a change counts within two of them.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// The content of each file, in the order of their paths.
pub(super) type Contents = Vec<io::Result<Vec<u8>>>;

/// The state of one file, without its content.
type Fingerprint = Result<[u8; 32], io::ErrorKind>;

/// A few files, and what has been seen of them.
#[derive(Debug)]
pub(super) struct FilePoll {
    paths: Vec<PathBuf>,
    /// The state that counts.
    accepted: Vec<Fingerprint>,
    /// The state at the last poll.
    seen: Vec<Fingerprint>,
}

// === impl FilePoll ===

impl FilePoll {
    /// Reads the files for the first time.
    pub(super) fn open(paths: &[&Path]) -> (Self, Contents) {
        let paths: Vec<_> = paths.iter().map(|path| (*path).to_owned()).collect();
        let contents = read(&paths);
        let state = fingerprints(&contents);
        let poll = Self {
            paths,
            accepted: state.clone(),
            seen: state,
        };
        (poll, contents)
    }

    /// Reads the files; returns their contents if they have changed and stayed so since the
    /// poll before.
    pub(super) fn poll(&mut self) -> Option<Contents> {
        let contents = read(&self.paths);
        let state = fingerprints(&contents);
        let is_settled = state == self.seen;
        self.seen = state;
        if !is_settled || self.seen == self.accepted {
            return None;
        }
        self.accepted.clone_from(&self.seen);
        Some(contents)
    }

    /// Polls until `stop`, and hands every change to `on_change`.
    pub(super) async fn run(
        mut self,
        stop: CancellationToken,
        mut on_change: impl FnMut(Contents) + Send,
    ) {
        let mut ticks = interval(POLL_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _tick = ticks.tick() => {}
            }
            // A file of a network may take its time.
            let polled = tokio::task::spawn_blocking(move || {
                let changed = self.poll();
                (self, changed)
            });
            let Ok((poll, changed)) = polled.await else {
                return;
            };
            self = poll;
            if let Some(contents) = changed {
                on_change(contents);
            }
        }
    }
}

fn read(paths: &[PathBuf]) -> Contents {
    paths.iter().map(fs::read).collect()
}

fn fingerprints(contents: &Contents) -> Vec<Fingerprint> {
    let one = |content: &io::Result<Vec<u8>>| match content {
        Ok(bytes) => Ok(Sha256::digest(bytes).into()),
        Err(error) => Err(error.kind()),
    };
    contents.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What a poll reports of one file; a file that is not there is "gone".
    fn content(contents: Option<Contents>) -> Option<String> {
        let first = contents?.remove(0);
        Some(first.map_or_else(
            |_| "gone".to_owned(),
            |bytes| String::from_utf8(bytes).unwrap(),
        ))
    }

    /// Revoking a token takes effect within 5 s, whatever the file system is.
    #[test]
    fn two_polls_are_much_less_than_five_seconds() {
        const { assert!(2 * POLL_INTERVAL.as_millis() <= 1000) }
    }

    #[test]
    fn a_change_counts_when_it_is_seen_twice() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(&path, "one").unwrap();
        let (mut poll, first) = FilePoll::open(&[&path]);
        assert_eq!(content(Some(first)), Some("one".to_owned()));
        assert!(poll.poll().is_none());
        // Cut off and written again between two polls: never taken while it is empty.
        fs::write(&path, "").unwrap();
        assert!(poll.poll().is_none());
        fs::write(&path, "two").unwrap();
        assert!(poll.poll().is_none());
        assert_eq!(content(poll.poll()), Some("two".to_owned()));
        assert!(poll.poll().is_none(), "a change is reported once");
        // Gone for one poll is a replacement; gone for two is gone.
        fs::remove_file(&path).unwrap();
        assert!(poll.poll().is_none());
        fs::write(&path, "two").unwrap();
        assert!(poll.poll().is_none() && poll.poll().is_none());
        fs::remove_file(&path).unwrap();
        assert!(poll.poll().is_none());
        assert_eq!(content(poll.poll()).as_deref(), Some("gone"));
    }

    #[test]
    fn the_links_of_a_mounted_secret_are_followed() {
        let dir = tempfile::tempdir().unwrap();
        for (folder, text) in [("..1", "one"), ("..2", "two")] {
            fs::create_dir(dir.path().join(folder)).unwrap();
            fs::write(dir.path().join(folder).join("tokens"), text).unwrap();
        }
        let data = dir.path().join("..data");
        std::os::unix::fs::symlink("..1", &data).unwrap();
        std::os::unix::fs::symlink("..data/tokens", dir.path().join("tokens")).unwrap();
        let (mut poll, _) = FilePoll::open(&[&dir.path().join("tokens")]);
        std::os::unix::fs::symlink("..2", dir.path().join("..next")).unwrap();
        fs::rename(dir.path().join("..next"), &data).unwrap();
        assert!(poll.poll().is_none());
        assert_eq!(content(poll.poll()), Some("two".to_owned()));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn what_counts_is_what_was_last_seen_twice(
            states in prop::collection::vec("(a|b||gone)", 1..12),
        ) {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("file");
            fs::write(&path, "a").unwrap();
            let (mut poll, _) = FilePoll::open(&[&path]);
            let (mut counts, mut before) = ("a".to_owned(), "a".to_owned());
            for state in states {
                match &*state {
                    "gone" => drop(fs::remove_file(&path)),
                    text => fs::write(&path, text).unwrap(),
                }
                let expected = (state == before && state != counts).then(|| state.clone());
                prop_assert_eq!(content(poll.poll()), expected.clone());
                if let Some(new) = expected {
                    counts = new;
                }
                before = state;
            }
        }
    }
}

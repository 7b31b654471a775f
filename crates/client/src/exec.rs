//! A program for each incident or fault, so that it can start an agent: a limited number at
//! once, and a bounded queue in which an incident stands once, as it is by then.

mod process;

use std::{
    collections::{HashSet, VecDeque},
    ffi::OsString,
    sync::Arc,
};

use tokio::{sync::watch, task::JoinSet};

use self::process::run;
use crate::told::Key;

/// What may wait for its program. A longer queue would not be worked through in time to be of
/// use.
const QUEUE_MAX: usize = 100;

/// Runs programs.
#[derive(Debug)]
pub(crate) struct Runner {
    /// The program and its arguments.
    words: Arc<[OsString]>,
    at_once_max: usize,
    waiting: VecDeque<Job>,
    running: JoinSet<Ended>,
    /// The incidents whose program runs: the next one of the same waits for it.
    running_keys: HashSet<Key>,
    stop: watch::Sender<bool>,
    has_failed: bool,
}

/// What a program is run for.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    /// The incident; a fault is its own.
    pub(crate) key: Key,
    /// What is written to its standard input.
    pub(crate) input: String,
    /// Variables beside those of this process.
    pub(crate) environment: Vec<(&'static str, String)>,
}

/// A program that has ended.
#[derive(Debug)]
struct Ended {
    key: Key,
    failure: Option<String>,
}

// === impl Runner ===

impl Runner {
    pub(crate) fn new(words: Vec<OsString>, at_once: u16) -> Self {
        Self {
            words: words.into(),
            at_once_max: usize::from(at_once),
            waiting: VecDeque::new(),
            running: JoinSet::new(),
            running_keys: HashSet::new(),
            stop: watch::Sender::new(false),
            has_failed: false,
        }
    }

    /// Starts the program as soon as its turn comes. Returns a note for the user if it gets
    /// none.
    pub(crate) fn enqueue(&mut self, job: Job) -> Option<String> {
        if self.update(&job) {
            return None;
        }
        if self.waiting.len() >= QUEUE_MAX {
            self.has_failed = true;
            return Some(format!(
                "{} gets no program: {QUEUE_MAX} are waiting (--exec-at-once allows more at once)",
                job.key.id
            ));
        }
        self.waiting.push_back(job);
        self.start_waiting();
        None
    }

    /// Replaces what waits for the same incident; `false` if nothing does.
    pub(crate) fn update(&mut self, job: &Job) -> bool {
        let waits = self.waiting.iter_mut().find(|one| one.key == job.key);
        let found = waits.is_some();
        if let Some(waits) = waits {
            *waits = job.clone();
        }
        found
    }

    /// Takes an incident that is over out of the queue; `false` if it does not wait.
    pub(crate) fn forget(&mut self, key: &Key) -> bool {
        let before = self.waiting.len();
        self.waiting.retain(|job| job.key != *key);
        before != self.waiting.len()
    }

    /// The next note on a program that failed. Never returns while none is running. Cancel-safe.
    pub(crate) async fn next_failure(&mut self) -> String {
        loop {
            let Some(ended) = self.running.join_next().await else {
                std::future::pending::<()>().await;
                continue;
            };
            if let Some(note) = self.on_end(ended) {
                return note;
            }
        }
    }

    /// Waits until nothing runs and nothing waits; returns the notes.
    pub(crate) async fn finish(&mut self) -> Vec<String> {
        let mut notes = Vec::new();
        while let Some(ended) = self.running.join_next().await {
            notes.extend(self.on_end(ended));
        }
        notes
    }

    /// Whether a program failed, or none could be run.
    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// Ends the programs that run, with all that they have started, and starts none.
    pub(crate) async fn end(&mut self) {
        self.waiting.clear();
        self.stop.send_replace(true);
        while self.running.join_next().await.is_some() {}
    }

    fn on_end(&mut self, ended: Result<Ended, tokio::task::JoinError>) -> Option<String> {
        let note = match ended {
            Ok(Ended { key, failure }) => {
                self.running_keys.remove(&key);
                failure.map(|failure| format!("{}: {failure}", key.id))
            }
            Err(error) => Some(format!("a program was lost: {error}")),
        };
        self.has_failed |= note.is_some();
        self.start_waiting();
        note
    }

    fn start_waiting(&mut self) {
        while self.running.len() < self.at_once_max {
            let free = |job: &Job| !self.running_keys.contains(&job.key);
            let Some(job) = (self.waiting.iter().position(free))
                .and_then(|position| self.waiting.remove(position))
            else {
                return;
            };
            self.running_keys.insert(job.key.clone());
            let (words, stop) = (Arc::clone(&self.words), self.stop.subscribe());
            self.running.spawn(async move {
                let failure = run(&words, &job, stop).await.err();
                Ended {
                    key: job.key,
                    failure,
                }
            });
        }
    }
}

#[cfg(test)]
mod tests;

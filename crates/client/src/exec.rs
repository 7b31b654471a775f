//! A shell command for each fault, so that a fault can start an agent.

use std::{process::Stdio, sync::Arc};

use tokio::{io::AsyncWriteExt, process::Command, sync::Semaphore, task::JoinSet};

/// Faults that may wait for their command. A longer queue would not be worked through in
/// time to be of use.
const QUEUE_MAX: usize = 100;

/// Runs commands, a limited number of them at once.
#[derive(Debug)]
pub(crate) struct Runner {
    command: Arc<str>,
    permits: Arc<Semaphore>,
    running: JoinSet<Option<String>>,
    /// Running and waiting commands.
    tasks_max: usize,
}

// === impl Runner ===

impl Runner {
    pub(crate) fn new(command: &str, concurrency: u16) -> Self {
        let concurrency = usize::from(concurrency);
        Self {
            command: command.into(),
            permits: Arc::new(Semaphore::new(concurrency)),
            running: JoinSet::new(),
            tasks_max: concurrency + QUEUE_MAX,
        }
    }

    /// Starts a command as soon as a permit is free. Returns notes for the user: failures
    /// of earlier commands, or that this fault gets none.
    pub(crate) fn spawn(&mut self, fault: String) -> Vec<String> {
        let mut notes = self.take_failures();
        if self.running.len() >= self.tasks_max {
            notes.push(format!(
                "a fault gets no command: {} are waiting already (--exec-max allows more at once)",
                self.running.len()
            ));
            return notes;
        }
        let (command, permits) = (Arc::clone(&self.command), Arc::clone(&self.permits));
        self.running.spawn(async move {
            // The semaphore is never closed.
            let _permit = permits.acquire().await.ok()?;
            run(&command, &fault).await.err()
        });
        notes
    }

    /// Notes on the commands that have ended since the last call.
    fn take_failures(&mut self) -> Vec<String> {
        let mut notes = Vec::new();
        while let Some(ended) = self.running.try_join_next() {
            match ended {
                Ok(note) => notes.extend(note),
                Err(error) => notes.push(format!("the command was lost: {error}")),
            }
        }
        notes
    }

    /// Waits for all commands and returns the notes on them.
    #[cfg(test)]
    async fn finish(mut self) -> Vec<String> {
        let mut notes = Vec::new();
        while let Some(ended) = self.running.join_next().await {
            notes.extend(ended.unwrap());
        }
        notes
    }
}

async fn run(command: &str, fault: &str) -> Result<(), String> {
    let mut child = Command::new("sh")
        .arg("-c")
        .arg(command)
        .stdin(Stdio::piped())
        // Standard output has notifications only.
        .stdout(std::io::stderr())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| format!("cannot start the command: {error}"))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A command may ignore its input.
        let _ignored = stdin.write_all(fault.as_bytes()).await;
        let _ignored = stdin.write_all(b"\n").await;
    }
    match child.wait().await {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("the command ended with {status}")),
        Err(error) => Err(format!("the command was lost: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn each_fault_gets_a_command_with_its_json_on_stdin() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("faults");
        let mut runner = Runner::new(&format!("cat >> '{}'", file.display()), 1);
        for fault in ["{\"seq\":1}", "{\"seq\":2}"] {
            assert_eq!(runner.spawn(fault.to_owned()), Vec::<String>::new());
        }
        assert_eq!(runner.finish().await, Vec::<String>::new());
        let text = std::fs::read_to_string(file).unwrap();
        let mut lines: Vec<_> = text.lines().collect();
        lines.sort_unstable();
        assert_eq!(lines, ["{\"seq\":1}", "{\"seq\":2}"]);
    }

    /// Each command adds a file, counts the files, and removes its own.
    #[tokio::test]
    async fn no_more_commands_run_at_once_than_allowed() {
        let dir = tempfile::tempdir().unwrap();
        let here = dir.path().display();
        let script = format!(
            "touch '{here}/'$$.in; test $(ls '{here}' | wc -l) -le 2 || exit 3; sleep 0.05; \
             rm '{here}/'$$.in"
        );
        let mut runner = Runner::new(&script, 2);
        for _ in 0..8 {
            runner.spawn(String::new());
        }
        assert_eq!(runner.finish().await, Vec::<String>::new());
    }

    #[tokio::test]
    async fn a_failed_command_is_reported_and_too_many_are_refused() {
        let mut runner = Runner::new("exit 7", 1);
        runner.spawn("{}".to_owned());
        let notes = runner.finish().await;
        assert!(notes[0].contains("exit status: 7"), "{notes:?}");
        let mut runner = Runner::new("sleep 60", 1);
        for _ in 0..=QUEUE_MAX {
            assert!(runner.spawn("{}".to_owned()).is_empty());
        }
        let notes = runner.spawn("{}".to_owned());
        assert!(notes[0].contains("--exec-max"), "{notes:?}");
    }
}

//! A command for each fault, so that a fault can start an agent.

use std::{process::Stdio, sync::Arc};

use tokio::{io::AsyncWriteExt, process::Command, sync::Semaphore, task::JoinSet};

/// Faults that wait for their command; more than these nobody works through.
const WAITING_MAX: usize = 100;

/// Runs commands, some at once.
#[derive(Debug)]
pub(crate) struct Runner {
    command: Arc<str>,
    slots: Arc<Semaphore>,
    running: JoinSet<Option<String>>,
    limit: usize,
}

// === impl Runner ===

impl Runner {
    pub(crate) fn new(command: &str, at_once: u16) -> Self {
        let at_once = usize::from(at_once);
        Self {
            command: command.into(),
            slots: Arc::new(Semaphore::new(at_once)),
            running: JoinSet::new(),
            limit: at_once + WAITING_MAX,
        }
    }

    /// Starts one as soon as there is room. Answers what a person should know of
    /// those before it, or that this one is left out.
    pub(crate) fn run(&mut self, fault: String) -> Vec<String> {
        let mut notes = self.ended();
        if self.running.len() >= self.limit {
            notes.push(format!(
                "a fault gets no command: {} are waiting already (--exec-max allows more at once)",
                self.running.len()
            ));
            return notes;
        }
        let (command, slots) = (Arc::clone(&self.command), Arc::clone(&self.slots));
        self.running.spawn(async move {
            // It is never closed.
            let _slot = slots.acquire().await.ok()?;
            run(&command, &fault).await.err()
        });
        notes
    }

    /// What is to be said of those that have ended.
    fn ended(&mut self) -> Vec<String> {
        let mut notes = Vec::new();
        while let Some(ended) = self.running.try_join_next() {
            match ended {
                Ok(note) => notes.extend(note),
                Err(error) => notes.push(format!("the command was lost: {error}")),
            }
        }
        notes
    }

    /// Waits for all, and what is to be said of them.
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
        // Pipes get news only.
        .stdout(std::io::stderr())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| format!("cannot start the command: {error}"))?;
    if let Some(mut stdin) = child.stdin.take() {
        // Who does not read it all need not.
        let _taken = stdin.write_all(fault.as_bytes()).await;
        let _taken = stdin.write_all(b"\n").await;
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
            assert_eq!(runner.run(fault.to_owned()), Vec::<String>::new());
        }
        assert_eq!(runner.finish().await, Vec::<String>::new());
        let text = std::fs::read_to_string(file).unwrap();
        let mut lines: Vec<_> = text.lines().collect();
        lines.sort_unstable();
        assert_eq!(lines, ["{\"seq\":1}", "{\"seq\":2}"]);
    }

    /// Each writes that it is there, looks how many are, and goes.
    #[tokio::test]
    async fn no_more_run_at_once_than_may() {
        let dir = tempfile::tempdir().unwrap();
        let here = dir.path().display();
        let script = format!(
            "touch '{here}/'$$.in; test $(ls '{here}' | wc -l) -le 2 || exit 3; sleep 0.05; \
             rm '{here}/'$$.in"
        );
        let mut runner = Runner::new(&script, 2);
        for _ in 0..8 {
            runner.run(String::new());
        }
        assert_eq!(runner.finish().await, Vec::<String>::new());
    }

    #[tokio::test]
    async fn a_command_that_fails_is_told_and_too_many_are_refused() {
        let mut runner = Runner::new("exit 7", 1);
        runner.run("{}".to_owned());
        let notes = runner.finish().await;
        assert!(notes[0].contains("exit status: 7"), "{notes:?}");
        let mut runner = Runner::new("sleep 60", 1);
        for _ in 0..=WAITING_MAX {
            assert!(runner.run("{}".to_owned()).is_empty());
        }
        let notes = runner.run("{}".to_owned());
        assert!(notes[0].contains("--exec-max"), "{notes:?}");
    }
}

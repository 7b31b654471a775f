//! A program for each message, started without a shell: the incident as JSON on stdin, its
//! essentials in the environment.

use std::{io, process::Stdio, time::Duration};

use kubecrier_redact::Redactor;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    process::{Child, Command},
    time::timeout,
};

use crate::{config::ExecTarget, delivery::DeliveryError, http::excerpt, notice::Notice};

/// As much of the program's output as is kept for the log.
const OUTPUT_BYTES_MAX: usize = 4096;

/// The exit code with which a program asks to be started again later (`EX_TEMPFAIL`).
const EXIT_RETRY: i32 = 75;

/// Children that a program leaves behind keep its pipes open. They delay nothing for longer.
const LINGER: Duration = Duration::from_millis(100);

/// A program and how it is started.
#[derive(Debug)]
pub(crate) struct Program {
    target: ExecTarget,
    timeout: Duration,
    redactor: Redactor,
}

/// The program and its children, which are killed on drop.
struct ProcessGroup(Option<Pid>);

// === impl Program ===

impl Program {
    pub(crate) fn new(target: ExecTarget, timeout: Duration, redactor: Redactor) -> Self {
        Self {
            target,
            timeout,
            redactor,
        }
    }

    /// Runs the program once, to its end.
    pub(crate) async fn run(&self, notice: &Notice) -> Result<(), DeliveryError> {
        let program = self.target.program.display();
        let mut child = self.command(notice).spawn().map_err(|error| {
            let text = format!("cannot start `{program}`: {error}");
            match error.kind() {
                // It may be replaced at this moment, or processes may be short.
                io::ErrorKind::ExecutableFileBusy | io::ErrorKind::WouldBlock => {
                    DeliveryError::unavailable(text)
                }
                _ => DeliveryError::refused(text),
            }
        })?;
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        let _group = ProcessGroup(id.and_then(Pid::from_raw));
        let input = format!("{}\n", notice.data());
        let run = feed_and_wait(&mut child, input.as_bytes());
        let Ok(ended) = timeout(self.timeout, run).await else {
            let seconds = self.timeout.as_secs_f32();
            let text = format!("`{program}` did not end within {seconds} s and was killed");
            return Err(DeliveryError::refused(text));
        };
        let (status, output) =
            ended.map_err(|error| DeliveryError::unavailable(format!("`{program}`: {error}")))?;
        let said = excerpt(&self.redactor, &output);
        if status.success() {
            tracing::debug!(%program, said, "the program of a sink has ended");
            return Ok(());
        }
        let text = format!("`{program}` ended with {status}{said}");
        Err(match status.code() {
            Some(EXIT_RETRY) => DeliveryError::unavailable(text),
            _ => DeliveryError::rejected(text),
        })
    }

    fn command(&self, notice: &Notice) -> Command {
        let incident = notice.incident();
        let mut command = Command::new(&self.target.program);
        command.args(&self.target.arguments).env_clear();
        let passed = self.target.passed.iter().map(String::as_str);
        for name in ["PATH"].into_iter().chain(passed) {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        let duration = notice.duration().map(|time| time.as_secs().to_string());
        let essentials = [
            ("KUBECRIER_INCIDENT_STATE", notice.word().to_owned()),
            ("KUBECRIER_INCIDENT_CONTEXT", notice.context.to_string()),
            ("KUBECRIER_INCIDENT_ID", incident.id.clone()),
            (
                "KUBECRIER_INCIDENT_SEVERITY",
                incident.severity.as_str().to_owned(),
            ),
            ("KUBECRIER_INCIDENT_OBJECT", incident.object.to_string()),
            (
                "KUBECRIER_INCIDENT_NAMESPACE",
                incident.object.namespace.to_string(),
            ),
            ("KUBECRIER_INCIDENT_DETECTOR", incident.detector.to_owned()),
            ("KUBECRIER_INCIDENT_REASON", incident.reason.to_string()),
            ("KUBECRIER_INCIDENT_HEADLINE", incident.headline.clone()),
            ("KUBECRIER_INCIDENT_SINCE", incident.since.to_string()),
            (
                "KUBECRIER_INCIDENT_DURATION_SECONDS",
                duration.unwrap_or_default(),
            ),
        ];
        for (name, value) in essentials {
            // A NUL ends a variable, and no program could be started with one.
            command.env(name, value.replace('\0', ""));
        }
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        command
    }
}

/// Feeds the program and waits for its end; its output is kept to a limit.
async fn feed_and_wait(
    child: &mut Child,
    input: &[u8],
) -> io::Result<(std::process::ExitStatus, Vec<u8>)> {
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let feed = async {
        if let Some(mut stdin) = stdin {
            // A program that does not read its input breaks the pipe, which is no error.
            let _unread = stdin.write_all(input).await;
        }
    };
    let output = async { tokio::join!(feed, read(stdout), read(stderr)) };
    let mut output = std::pin::pin!(output);
    let mut said = None;
    let status = loop {
        tokio::select! {
            biased;
            ((), out, err) = &mut output, if said.is_none() => said = Some([out, err].concat()),
            status = child.wait() => break status?,
        }
    };
    if said.is_none()
        && let Ok(((), out, err)) = timeout(LINGER, output).await
    {
        said = Some([out, err].concat());
    }
    Ok((status, said.unwrap_or_default()))
}

/// Reads to the end and keeps the beginning.
async fn read(from: Option<impl AsyncRead + Unpin>) -> Vec<u8> {
    let mut kept = Vec::new();
    let Some(mut from) = from else { return kept };
    let mut buffer = [0; 4096];
    while let Ok(number @ 1..) = from.read(&mut buffer).await {
        let room = OUTPUT_BYTES_MAX - kept.len();
        kept.extend_from_slice(&buffer[..number.min(room)]);
    }
    kept
}

// === impl ProcessGroup ===

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // The group may have ended already.
            let _gone = kill_process_group(group, Signal::KILL);
        }
    }
}

#[cfg(test)]
mod tests;
